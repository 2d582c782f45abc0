"""A program in a pseudo-terminal, for the benchmarks that press keys."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple

NAMES = {"up": "\x1b[A", "down": "\x1b[B", "right": "\x1b[C", "left": "\x1b[D"}
NAMES |= {"tab": "\t", "enter": "\r", "escape": "\x1b"}
SSH = "192.0.2.1 50000 192.0.2.2 22"


class Answer(NamedTuple):
    """What came back."""

    last: float
    """Seconds from the question to the last byte."""
    bytes: int


@contextmanager
def terminal(command: list[str], size: tuple[int, int], **environment: str) -> Iterator[int]:
    """Run a command in a terminal of (columns, rows). Yields the terminal's file descriptor."""
    pid, fd = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        for name in ("NO_COLOR", "SSH_TTY", "SSH_CONNECTION", "COLUMNS", "LINES"):
            os.environ.pop(name, None)
        os.environ.update(TERM="xterm-256color", COLORTERM="truecolor", **environment)
        os.execvp(command[0], command)
    try:
        yield fd
    finally:
        for sign in (signal.SIGTERM, signal.SIGKILL):
            os.kill(pid, sign)
            time.sleep(0.1)
        os.waitpid(pid, 0)
        os.close(fd)


def viewing(*traces: str) -> list[str]:
    """The command that opens a trace, or two to compare."""
    return [sys.executable, "-m", "tracetui", "open", *traces]


def viewer(*traces: str, size: tuple[int, int], ssh: bool = False) -> AbstractContextManager[int]:
    """`tracetui open TRACE…` in a terminal."""
    return terminal(viewing(*traces), size, **({"SSH_CONNECTION": SSH} if ssh else {}))


def press(fd: int, key: str) -> None:
    os.write(fd, NAMES.get(key, key).encode())


def answer(fd: int, quiet: float, limit: float = 5.0) -> Answer:
    """Read until nothing has come for `quiet` seconds; (0.0, 0) where nothing comes at all."""
    asked = time.perf_counter()
    last, count = asked, 0
    while (now := time.perf_counter()) - asked < limit and now - last < quiet:
        if select.select([fd], [], [], 0.002)[0]:
            try:
                count += len(os.read(fd, 1 << 16))
            except OSError:
                raise SystemExit("the viewer has ended") from None
            last = time.perf_counter()
    return Answer(last - asked if count else 0.0, count)


def until(fd: int, mark: str, limit: float = 60.0) -> None:
    """Read until the program has written `mark`."""
    begun, seen = time.perf_counter(), b""
    while mark.encode() not in seen:
        if time.perf_counter() - begun > limit:
            raise SystemExit(f"nothing was drawn; the last that was written: {seen[-300:]!r}")
        if select.select([fd], [], [], 0.05)[0]:
            seen = seen[-1000:] + os.read(fd, 1 << 16)
