"""tracetui in a process of its own, on pipes or on a terminal of its own.

On Linux it is forked from one that has imported everything: starting Python and importing take three times
as long as what most tests look at. `cold=True` starts it as a user does.
"""

import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from tests.capture.warm import TRACETUI, Popen, job_of

from tracetui.cli.main import COMMANDS, main

WARM = sys.platform == "linux"


def parameters(command: str) -> set[str | None]:
    found = main.get_command(click.Context(main), command)
    return {parameter.name for parameter in found.params}


READING = [c for c in COMMANDS if {"trace", "json"} <= parameters(c) and "name" not in parameters(c)]
"""The commands that print what is in one trace, as text, Markdown and JSON."""


def on_terminal(
    *words: str, columns: int, rows: int, stdin: Path | None = None, cold: bool = False, **env: str
) -> tuple[int, int]:
    """(process id, the other end of its terminal); `stdin`: a file for its standard input."""
    pty = pytest.importorskip("pty", reason="needs a pseudo-terminal")
    env = {**os.environ, "TERM": "xterm-256color", "LINES": str(rows), "COLUMNS": str(columns), **env}
    if cold or not WARM:
        pid, master = pty.fork()
        if pid == 0:
            if stdin is not None:
                os.dup2(os.open(stdin, os.O_RDONLY), 0)
            os.execve(sys.executable, [sys.executable, "-m", "tracetui", *words], env)
        resize(master, columns, rows)
        return pid, master
    master, slave = os.openpty()
    resize(master, columns, rows)
    source = slave if stdin is None else os.open(stdin, os.O_RDONLY)
    pid = TRACETUI.start(job_of(["-m", "tracetui", *words], env) | {"terminal": True}, [source, slave, slave])
    for fd in {source, slave}:
        os.close(fd)
    return pid, master


def resize(terminal: int, columns: int, rows: int) -> None:
    import fcntl
    import termios

    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


class _Warm(Popen):
    def _start(self, job: dict[str, Any], streams: list[int], ours: list[int]) -> int:
        return TRACETUI.start(job, streams)


def output(*words: str, stdin: bytes = b"", **env: str) -> subprocess.CompletedProcess[bytes]:
    """What it prints into pipes."""
    environment = {**os.environ, **env}
    command = [sys.executable, "-m", "tracetui", *words]
    if not WARM:
        return subprocess.run(command, input=stdin, capture_output=True, env=environment, timeout=120)
    with _Warm([sys.executable, "-u", *command[1:]], stdin=-1, stdout=-1, stderr=-1, env=environment) as ran:
        out, err = ran.communicate(stdin, timeout=120)
    return subprocess.CompletedProcess(command, ran.returncode, out, err)
