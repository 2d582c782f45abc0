"""`tracetui serve`: the viewer in a browser.

The page shows one trace and can change nothing: see `tracetui.session.state.served`. The server, and what it
imports, is in `server.py`.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from importlib.util import find_spec
from pathlib import Path

import click

from tracetui.cli.common import INTERRUPTED, cache_option, emit, fail, looks

VIEWER = "import sys; sys.path[:] = filter(None, sys.path); from tracetui.cli.serve import view; view()"
"""What a viewer's process runs: like the command, it imports nothing from the working directory."""
OFTEN = 0.2
"""Seconds from one look whether the server is still there to the next."""


@click.command("serve")
@click.argument("trace", type=click.Path())
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(1, 65535), default=8000, show_default=True, help="Port to use.")
@click.option(
    "--allow-host",
    multiple=True,
    metavar="NAME",
    help="Another name by which browsers know this machine, as behind a proxy. May be repeated.",
)
@click.option("--no-token", is_flag=True, help="Let in everyone who can connect.")
@cache_option
@looks
def serve_command(
    trace: str,
    host: str,
    port: int,
    allow_host: tuple[str, ...],
    no_token: bool,
    theme: str | None,
    ascii: bool,
) -> None:
    """Show TRACE in a browser: for a class, or a machine without a good terminal.

    Viewers can look at this trace and download its tables and pictures. They cannot open other files,
    capture, or write anything on this machine; their marks and notes are not saved.

    Open the address that it prints: it ends in a token, new at each start, which is the password. By default
    only this machine can connect; from elsewhere, use ssh -L 8000:localhost:8000. With --host 0.0.0.0,
    everyone who can reach the machine and has the token can read the trace, and whoever can listen to the
    network between, as nothing is encrypted.

    Needs textual-serve: pip install 'tracetui[serve]'.
    """
    from tracetui.cli.open import check
    from tracetui.core.safe_text import plain

    if trace == "-" or os.path.isdir(trace):
        fail("serve shows one file, opened again for each viewer: name a trace", 2)
    check(trace)
    if find_spec("textual_serve") is None:
        fail(f"serve needs textual-serve. Install it: {sys.executable} -m pip install textual-serve")
    import secrets

    from tracetui.cli.server import LOCAL, Server, host_name, own_names

    for name in allow_host:
        if not host_name(name):
            fail(f"--allow-host {name!r}: is no name of a machine", 2)
    where = f"{plain(host)}:{port}"
    if host not in LOCAL and no_token:
        click.echo(f"tracetui: warning: anyone who can reach {where} can read this trace", err=True)
    given = [*(["--theme", theme] if theme else []), *(["--ascii"] if ascii else [])]
    command = [sys.executable, "-c", VIEWER, str(os.getpid()), "open", *given, "--", os.path.abspath(trace)]
    token = None if no_token else secrets.token_urlsafe()
    names = own_names(host) | set(map(host_name, allow_host))
    server = Server(command, plain(Path(trace).name, 80), host, port, names, token)

    def listening() -> None:
        emit(f"Serving {plain(trace)} on {plain(server.address, 400)}  (Ctrl+C stops it)")

    try:
        number = server.run(listening)
    except KeyboardInterrupt:  # Windows
        sys.exit(INTERRUPTED)
    except OSError as error:
        why = error.strerror if isinstance(error, socket.gaierror) else os.strerror(error.errno or 0)
        fail(f"cannot listen on {where}: {why}")
    sys.exit(128 + number)


def view() -> None:
    """What a viewer's process does: `tracetui`, until the server that started it is gone, in whatever way."""
    server = int(sys.argv.pop(1))

    def watch() -> None:
        while os.getppid() == server:
            time.sleep(OFTEN)
        os.killpg(0, signal.SIGKILL)  # with what it has started

    if sys.platform != "win32":  # there, the end of standard input has to do
        threading.Thread(target=watch, daemon=True).start()
    from tracetui.cli import main

    main()
