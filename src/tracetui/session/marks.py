"""Marks: labelled instants of a trace with notes, kept in the user's state directory.

The labels and notes of the file are not trusted more than names in a trace: anyone may have written them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tracetui.analysis.kernel_names import short_name
from tracetui.safe_text import plain
from tracetui.session.state import readable_state, resolved, set_aside, state_file, write_state
from tracetui.trace.model import Trace
from tracetui.units import instant

LABEL_LIMIT = 60
NAME_LIMIT = 2000
NOTE_LIMIT = 8000
NOTE_LINES = 400
MOST = 10_000
"""Marks of one trace."""
FAR = 1 << 62
"""Nanoseconds; no event lies beyond."""

_DEVICE_LANE = re.compile(r"\bstream \d+$")


class Mark(NamedTuple):
    """A labelled instant. All texts are safe to show; `note` may have several lines."""

    time: int
    """Nanoseconds from the trace's zero."""
    label: str
    note: str = ""
    name: str = ""
    """The event that was selected: its name, lane and duration; "" and -1 where none was."""
    lane: str = ""
    duration: int = -1
    zero: int | None = None
    """The zero on the clock (ns) of the trace that it was made on; None: not known."""

    @property
    def on(self) -> str:
        """What it is on, in short: `aten::mm, thread 426`."""
        name = short_name(self.name, "kernel" if _DEVICE_LANE.search(self.lane) else "")
        return f"{name}, {self.lane}" if name and self.lane else name


def told(mark: Mark) -> str:
    """A mark in one line: its label, and its note or else its time."""
    note = " / ".join(line.strip() for line in mark.note.split("\n") if line.strip())
    if not note:
        return f"{mark.label}, at {instant(mark.time)}"
    return note if note.startswith(mark.label.removesuffix("…")) else f"{mark.label}: {note}"


def note_text(text: str) -> str:
    """Several lines made safe, without empty ones at either end."""
    return "\n".join(line.rstrip() for line in safe_lines(text)[:NOTE_LINES]).strip("\n")


def safe_lines(text: str) -> list[str]:
    """The lines of a text as they can be shown; tabs become spaces."""
    return [plain(line.replace("\t", "    ")) for line in text[:NOTE_LIMIT].splitlines()]


def made(mark: Mark) -> Mark:
    """A mark with its texts made safe and cut; without a label it takes the note's first line."""
    note = note_text(mark.note)
    label = mark.label.strip() or next((line for line in note.split("\n") if line.strip()), "").strip()
    return mark._replace(
        label=plain(label, LABEL_LIMIT),
        note=note,
        name=plain(mark.name, NAME_LIMIT),
        lane=plain(mark.lane, NAME_LIMIT),
    )


# The file


class Loaded(NamedTuple):
    """What a file of marks holds."""

    marks: list[Mark]
    """By time, with those of earlier traces at the path."""
    whole: bool
    """Whether there is nothing else in it: nothing that cannot be read, and not too many."""


def read_marks(file: Path | None) -> Loaded:
    """The marks of a file, as far as it can be read."""
    state = readable_state(file)
    if not state:
        return Loaded([], state is not None)
    entries = state.get("marks")
    if not isinstance(entries, list):
        return Loaded([], False)
    found = [m for m in map(_mark, entries[:MOST]) if m is not None]
    return Loaded(_sorted(found), len(found) == len(entries))


def load_marks(path: str, folder: Path | None = None) -> list[Mark]:
    """The marks of a trace by time, with those of earlier traces at its path; what cannot be read is left."""
    return read_marks(state_file("marks", path, folder)).marks


def _mark(entry: Any) -> Mark | None:
    if not isinstance(entry, Mapping):
        return None
    on = entry.get("on")
    on = on if isinstance(on, Mapping) else {}
    time, duration, zero = _time(entry.get("time_ns")), _time(on.get("duration_ns")), entry.get("zero_ns")
    if time is None:
        return None
    mark = made(
        Mark(
            time,
            _text(entry.get("label")),
            _text(entry.get("note")),
            _text(on.get("name")),
            _text(on.get("lane")),
            -1 if duration is None else duration,
            zero if isinstance(zero, int) else None,
        )
    )
    return mark if mark.label else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _time(value: Any) -> int | None:
    good = isinstance(value, int) and not isinstance(value, bool) and -FAR < value < FAR
    return value if good else None


def save_marks(path: str, marks: Iterable[Mark], folder: Path | None = None) -> bool:
    """Keep the marks of a trace. False where they could not be written."""
    file = state_file("marks", path, folder)
    entries = [
        {
            "time_ns": m.time,
            "label": m.label,
            "note": m.note,
            "on": {"name": m.name, "lane": m.lane, "duration_ns": m.duration} if m.name else None,
            "zero_ns": m.zero,
        }
        for m in marks
    ]
    return write_state(file, {"path": resolved(path), "marks": entries})


# Lists of marks


def _sorted(marks: Iterable[Mark]) -> list[Mark]:
    return sorted(marks, key=lambda m: m.time)


def without(marks: Iterable[Mark], mark: Mark) -> list[Mark]:
    """The marks but for the one at that instant of that trace."""
    return [m for m in marks if m.time != mark.time or m.zero not in (None, mark.zero)]


def with_mark(marks: Iterable[Mark], mark: Mark) -> list[Mark]:
    """The marks with one more, or another one in its place; one without label and note takes it away."""
    mark = made(mark)
    kept = without(marks, mark)
    return _sorted([*kept, mark]) if mark.label else kept


def next_mark(marks: list[Mark], time: float) -> Mark | None:
    """The first mark after an instant, around the end."""
    return next((m for m in marks if m.time > time), marks[0] if marks else None)


class Marks:
    """The marks of one trace. Each change is made to what the file holds now: another session may have it
    open, too."""

    def __init__(self, path: str, zero: int | None = None, folder: Path | None = None) -> None:
        self.path, self.zero, self.folder = resolved(path), zero, folder
        self.kept = self._file is not None
        """Whether the last change was written (before the first: whether there is a place for it)."""
        self.trouble = ""
        """What became of the last change other than that it was made and kept: a clause to show."""
        self.all, self.whole = read_marks(self._file)

    @property
    def here(self) -> list[Mark]:
        """The marks of this trace, by time."""
        return [m for m in self.all if self.is_here(m)]

    def is_here(self, mark: Mark) -> bool:
        """Whether a mark was made on this trace, and not on an earlier one at its path."""
        return mark.zero is None or self.zero is None or mark.zero == self.zero

    def at(self, time: int) -> Mark | None:
        """The mark at an instant of this trace."""
        return next((m for m in self.all if m.time == time and self.is_here(m)), None)

    def put(self, mark: Mark) -> None:
        """Add a mark, or change the one at its instant; one without label and note takes it away.

        There are at most `MOST`: one more is not made, and `trouble` says so.
        """
        if mark.zero is None:
            mark = mark._replace(zero=self.zero)
        before = self._fresh()
        after = with_mark(before, mark)
        if len(after) > max(MOST, len(before)):
            self.all, self.trouble = before, f"not made: there are {MOST:,} marks already"
            return
        self._keep(after)

    def drop(self, mark: Mark) -> None:
        """Take a mark away."""
        self._keep(without(self._fresh(), mark))

    @property
    def _file(self) -> Path | None:
        return state_file("marks", self.path, self.folder)

    def _fresh(self) -> list[Mark]:
        if self.kept:
            found = read_marks(self._file)
            self.whole = found.whole
            if found.whole or found.marks:  # a file that was spoilt since takes no mark along
                self.all = found.marks
        return self.all

    def _keep(self, marks: list[Mark]) -> None:
        """Write the marks; a file that was not read as a whole is put aside first, never written over."""
        self.all = marks
        file, aside = self._file, None
        if file is not None and not self.whole:
            aside = set_aside(file)
            self.whole = aside is not None
        self.kept = self.whole and save_marks(self.path, marks, self.folder)
        told = [] if self.kept else ["not kept: there is no place to write to"]
        if aside is not None:
            told.append(f"the old file is now marks/{aside.name}")
        self.trouble = "; ".join(told)


# Marks and events


def mark_on(trace: Trace, event: int | None, time: int, label: str = "", note: str = "") -> Mark:
    """A mark at an event's start that remembers the event; without one, at an instant."""
    zero = trace.info.zero_ns
    if event is None:
        return made(Mark(time, label, note, zero=zero))
    lane = trace.lanes[int(trace.lane[event])].name
    name, duration = trace.name_of(event), int(trace.duration[event])
    return made(Mark(int(trace.start[event]), label, note, name, lane, duration, zero))


def event_of(trace: Trace, mark: Mark) -> int | None:
    """The slice that a mark was made on; None where it was made on none, or the trace has no such slice."""
    if not mark.name:
        return None
    there = np.flatnonzero((trace.start == mark.time) & (trace.duration == mark.duration))
    named = [int(i) for i in there if plain(trace.name_of(int(i)), NAME_LIMIT) == mark.name]
    same = [i for i in named if trace.lanes[int(trace.lane[i])].name == mark.lane]
    return next(iter(same or named), None)
