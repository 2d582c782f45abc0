"""`tracetui serve`: the viewer in a browser, by textual-serve.

The page shows one trace and can change nothing: see `tracetui.session.state.served`. textual-serve starts a
process for each viewer and connects it to a WebSocket.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from tracetui.cli.common import cache_option, fail, looks

if TYPE_CHECKING:
    from aiohttp import web
    from textual_serve.server import Server

LOCAL = ("127.0.0.1", "localhost", "::1")
MOST_VIEWERS = 40
"""At a time, as each is a process that holds the trace."""
VIEWER = "import sys; sys.path[:] = filter(None, sys.path); from tracetui.cli import main; main()"
"""What a viewer's process runs: like the command, it imports nothing from the working directory."""

FONT_OF_ANOTHER_SITE = re.compile(r"<link[^>]*//fonts\.googleapis\.com[^>]*>")
"""In textual-serve's page: it would tell another site of every view, and stall where there is no network."""
BUNDLED_FONT = (
    '<style>@font-face { font-family: "Roboto Mono"; '
    'src: url("/static/fonts/RobotoMono-VariableFont_wght.ttf"); }</style>'
)

FOCUS = """<script>
  addEventListener("DOMContentLoaded", () => {
    const focus = () => document.querySelector(".xterm-helper-textarea")?.focus();
    new MutationObserver(focus).observe(document.body, { attributeFilter: ["class"] });
  });
</script></head>"""
"""Keys go to the viewer from the start, not only after a click."""


@click.command("serve")
@click.argument("trace", type=click.Path())
@click.option("--host", default=LOCAL[0], show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(1, 65535), default=8000, show_default=True, help="Port to use.")
@cache_option
@looks
def serve_command(trace: str, host: str, port: int, theme: str | None, ascii: bool) -> None:
    """Show TRACE in a browser: for a class, or a machine without a good terminal.

    Viewers can look at this trace and download its tables and pictures. They cannot open other files,
    capture, or write anything on this machine; their marks and notes are not saved.

    There is no password. By default only this machine can connect (any of its users); from elsewhere, use
    ssh -L 8000:localhost:8000. With --host 0.0.0.0, anyone who can reach the machine can read the trace.

    Needs textual-serve: pip install 'tracetui[serve]'.
    """
    from tracetui.cli.open import check
    from tracetui.safe_text import plain

    if trace == "-" or os.path.isdir(trace):
        fail("serve shows one file, opened again for each viewer: name a trace", 2)
    check(trace)
    if find_spec("textual_serve") is None:
        fail(f"serve needs textual-serve. Install it: {sys.executable} -m pip install textual-serve")
    if host not in LOCAL:
        where = f"{plain(host)}:{port}"
        click.echo(f"tracetui: warning: anyone who can reach {where} can read this trace", err=True)
    os.environ["TRACETUI_SERVED"] = "1"
    given = [*(["--theme", theme] if theme else []), *(["--ascii"] if ascii else [])]
    command = [sys.executable, "-c", VIEWER, "open", *given, "--", os.path.abspath(trace)]
    server = make_server(command, host, port, plain(Path(trace).name, 80))
    click.echo(f"Serving {plain(trace)} on {plain(server.public_url)}  (Ctrl+C stops it)")
    try:
        server.serve()
    except OSError as error:
        fail(f"cannot listen on {host}:{port}: {error.strerror or error}")


def allowed(host: str, origin: str | None, local: bool) -> bool:
    """Whether a request may be answered, by its Host and Origin headers.

    A browser lets any page open a WebSocket to any address: not here, unless we served the page. And a page's
    own name may be made to lead here: a server for this machine alone goes by local names only.
    """
    try:
        if local and urlsplit(f"//{host}").hostname not in LOCAL:
            return False
        return origin is None or urlsplit(origin).netloc == host
    except ValueError:
        return False


def make_server(command: Sequence[str], host: str, port: int, title: str) -> Server:
    """A server that shows what `command` draws, to `MOST_VIEWERS` at a time."""
    from aiohttp import web
    from textual_serve import server

    viewers: set[asyncio.Task[Any]] = set()

    def check(request: web.Request) -> None:
        if not allowed(request.host, request.headers.get("Origin"), host in LOCAL):
            raise web.HTTPForbidden(text="this page belongs to another site")

    class OneTrace(server.Server):  # type: ignore[misc]
        def initialize_logging(self) -> None:
            logging.basicConfig(level=logging.WARNING)

        async def on_startup(self, app: web.Application) -> None:
            """Print nothing: textual-serve would print the command, as markup."""

        async def on_shutdown(self, app: web.Application) -> None:
            for viewer in viewers:
                viewer.cancel()

        async def handle_index(self, request: web.Request) -> web.Response:
            check(request)
            # As the browser knows us: through a tunnel, or by another name of this machine.
            self.public_url = f"{request.scheme}://{request.host}"
            page: web.Response = await super().handle_index(request)
            text = FONT_OF_ANOTHER_SITE.sub(BUNDLED_FONT, page.text or "")
            page.text = text.replace("</head>", FOCUS, 1)
            return page

        async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
            check(request)
            if len(viewers) >= MOST_VIEWERS:
                raise web.HTTPServiceUnavailable(text=f"{MOST_VIEWERS} are looking at this trace already")
            viewer = asyncio.current_task()
            assert viewer is not None
            viewers.add(viewer)
            try:
                return await super().handle_websocket(request)
            finally:
                viewers.discard(viewer)

    line = subprocess.list2cmdline(command) if sys.platform == "win32" else shlex.join(command)
    name = f"[{host}]" if ":" in host else host
    return OneTrace(line, host, port, title, public_url=f"http://{name}:{port}")
