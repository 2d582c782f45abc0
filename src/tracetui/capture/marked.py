"""Finding all processes of a capture by a mark in their environment. Used by both sides: stdlib only."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

MARK = "TRACETUI_CAPTURE"
"""Environment variable inherited by every process of a capture, even in a session of its own."""


def kill_marked(value: str, spare: int = 0, seconds: float = 2.0) -> None:
    """SIGKILL every process whose mark has this value, and wait up to `seconds` for them to end.

    `spare`: a process id to leave alone. Linux only: elsewhere another process's environment cannot be read,
    and nothing is found.
    """
    end = time.monotonic() + seconds
    killed: set[int] = set()
    while True:
        found = {pid for pid in _marked(value) if pid != spare}  # including processes started meanwhile
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        killed |= found
        if not any(map(_runs, killed)) or time.monotonic() > end:
            return
        time.sleep(0.005)


def _marked(value: str) -> list[int]:
    needle = f"{MARK}={value}".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it ended meanwhile, or it is another user's
            if needle in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


def _runs(pid: int) -> bool:
    """False once a process has ended, also while nobody has waited for it yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
