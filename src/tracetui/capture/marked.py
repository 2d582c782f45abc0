"""Every process of a capture, found by a mark in its environment. For both sides: standard library only."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

MARK = "TRACETUI_CAPTURE"
"""Environment variable that every process of a capture inherits, also one in a session of its own."""


def kill_marked(value: str, spare: int = 0) -> None:
    """SIGKILL every process whose mark has this value, but for the process id `spare`.

    Linux only: elsewhere another process's environment cannot be read, and nothing is found.
    """
    for _ in range(10):  # what they start while we look is found in the next round
        found = [pid for pid in _marked(value) if pid != spare]
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not found:
            break


def _marked(value: str) -> list[int]:
    needle = f"{MARK}={value}".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it ended meanwhile, or it is another user's
            if needle in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found
