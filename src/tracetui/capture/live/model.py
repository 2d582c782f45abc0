"""What to record of a running process, and the news while that happens."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TypeAlias


class AttachError(Exception):
    """There can be no trace: one line says why. `code`: exit status of the command; `gone`: all have
    ended."""

    def __init__(self, message: str, code: int = 1, gone: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.gone = gone


@dataclass(frozen=True)
class RecordRequest:
    """What to record."""

    duration: float = 0.5
    """Seconds; not used with `steps`."""
    steps: int | None = None
    """Calls of `Optimizer.step`."""
    with_stack: bool = False
    record_shapes: bool = False
    profile_memory: bool = False
    start_in: float = 0.0
    """The recording starts no earlier than this many seconds after the process is asked."""


class Stage(str, Enum):
    """What happens, in order; some recordings skip some."""

    WAITING = "waiting"  # for a process that can be asked
    ASKING = "asking"  # detail: whom
    WARMING_UP = "warming up"
    RECORDING = "recording"
    WRITING = "writing"


@dataclass(frozen=True)
class Status:
    """What happens now; also repeated while nothing changes."""

    stage: Stage
    detail: str = ""
    """One line, safe to show."""


@dataclass(frozen=True)
class Recorded:
    """The last event of a recording that worked: the traces, one per process, rank 0 first."""

    paths: tuple[Path, ...]
    notes: tuple[str, ...] = ()
    """What the user should know, one line each, safe to show."""


LiveEvent: TypeAlias = Status | Recorded


@dataclass(frozen=True)
class Rerun:
    """How a recording was made, to make another."""

    label: str
    """What was recorded, safe to show."""
    make: Callable[[], Iterator[LiveEvent]]


_UNITS = {"ms": 1e-3, "s": 1.0, "": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_UNITS |= dict.fromkeys(("us", "\u00b5s", "\u03bcs"), 1e-6)


def seconds(text: str) -> float:
    """`500ms`, `2s`, `10m`, `1.5h`, or a number of seconds. Raises ValueError."""
    # Not `units.parse_time`: what that imports would come before the process is asked.
    match = re.fullmatch(r"\s*(\d{1,9}(?:\.\d{0,9})?|\.\d{1,9})\s*([a-z\u00b5\u03bc]{0,3})\s*", text)
    if match is None or match[2] not in _UNITS:
        raise ValueError(f"{text!r} is not a time such as 500ms, 2s or 10m")
    return float(match[1]) * _UNITS[match[2]]
