"""Marks: labelled instants of a trace, kept in the user's state directory and there at the next opening."""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tracetui.trace.text import plain
from tracetui.tui.recent import state_folder

LABEL_LIMIT = 60


class Mark(NamedTuple):
    """A labelled instant."""

    time: int
    """Nanoseconds from the trace's zero."""
    label: str


def marks_file(path: str, folder: Path | None = None) -> Path | None:
    """Where the marks of a trace are kept; None for standard input, which has no next opening."""
    if path == "-":
        return None
    key = hashlib.sha256(os.fsencode(Path(path).resolve())).hexdigest()[:24]
    return (folder or state_folder()) / "marks" / f"{key}.json"


def load_marks(path: str, folder: Path | None = None) -> list[Mark]:
    """The marks of a trace by time; none where they cannot be read."""
    file = marks_file(path, folder)
    if file is None:
        return []
    try:
        entries = json.loads(file.read_text(encoding="utf-8"))["marks"]
        return sorted(Mark(int(e["time_ns"]), plain(str(e["label"]), LABEL_LIMIT)) for e in entries)
    except (OSError, ValueError, TypeError, KeyError):
        return []


def save_marks(path: str, marks: list[Mark], folder: Path | None = None) -> bool:
    """Keep the marks of a trace. False where they could not be written."""
    file = marks_file(path, folder)
    if file is None:
        return False
    entries = [{"time_ns": m.time, "label": m.label} for m in marks]
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        whole = file.with_suffix(f".{os.getpid()}.tmp")
        whole.write_text(json.dumps({"path": str(Path(path).resolve()), "marks": entries}), encoding="utf-8")
        whole.replace(file)
        return True
    return False


def with_mark(marks: list[Mark], time: int, label: str) -> list[Mark]:
    """The marks with one more, or another label for the one at that instant; an empty label takes it away."""
    kept = [m for m in marks if m.time != time]
    label = plain(label.strip(), LABEL_LIMIT)
    return sorted([*kept, Mark(time, label)]) if label else kept


def next_mark(marks: list[Mark], time: float) -> Mark | None:
    """The first mark after an instant, around the end."""
    return next((m for m in marks if m.time > time), marks[0] if marks else None)
