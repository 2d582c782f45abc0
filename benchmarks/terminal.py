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
from contextlib import contextmanager
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
def viewer(trace: str, size: tuple[int, int], ssh: bool = False) -> Iterator[int]:
    """`tracetui open TRACE` in a terminal of (columns, rows): the terminal's file descriptor."""
    pid, fd = pty.fork()
    if pid == 0:
        os.environ.update(
            TERM="xterm-256color", COLORTERM="truecolor", COLUMNS=str(size[0]), LINES=str(size[1])
        )
        for name in ("NO_COLOR", "SSH_TTY", "SSH_CONNECTION"):
            os.environ.pop(name, None)
        if ssh:
            os.environ["SSH_CONNECTION"] = SSH
        time.sleep(0.2)
        os.execv(sys.executable, [sys.executable, "-m", "tracetui", "open", trace])
    try:
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        yield fd
    finally:
        for sign in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.kill(pid, sign)
            except ProcessLookupError:
                break
            time.sleep(0.2)


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
