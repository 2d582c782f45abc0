"""Marks: labeled instants of a trace with notes, saved in the user's state directory.

Texts from the file are no more trusted than names in a trace: anyone may have written them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tracetui.analysis.names.kernel_names import short_name
from tracetui.core.safe_text import plain
from tracetui.core.units import instant
from tracetui.session.state import readable_state, resolved, set_aside, state_file, why_not_kept, write_state
from tracetui.trace.model import Trace

LABEL_LIMIT = 60
NAME_LIMIT = 2000
NOTE_LIMIT = 8000
NOTE_LINES = 400
MOST = 10_000
"""Marks of one trace."""
FAR = 1 << 62
"""Nanoseconds; no event lies further out."""

_DEVICE_LANE = re.compile(r"\bstream \d+$")


class Mark(NamedTuple):
    """A labeled instant. All texts are safe to show; `note` may have several lines."""

    time: int
    """Nanoseconds from the trace's zero."""
    label: str
    note: str = ""
    name: str = ""
    """The marked event's name, lane and duration (ns); "" and -1 if no event was selected."""
    lane: str = ""
    duration: int = -1
    zero: int | None = None
    """The clock time (ns) of that trace's zero; None: not known."""

    @property
    def on(self) -> str:
        """The marked event in short: `aten::mm, thread 426`."""
        name = short_name(self.name, "kernel" if _DEVICE_LANE.search(self.lane) else "")
        return f"{name}, {self.lane}" if name and self.lane else name


def one_line(mark: Mark) -> str:
    """A mark in one line: its label with its note, or else with its time."""
    note = " / ".join(line.strip() for line in mark.note.split("\n") if line.strip())
    if not note:
        return f"{mark.label}, at {instant(mark.time)}"
    return note if note.startswith(mark.label.removesuffix("…")) else f"{mark.label}: {note}"


def note_text(text: str) -> str:
    """Several lines made safe, without empty ones at the start and end."""
    return "\n".join(line.rstrip() for line in safe_lines(text)[:NOTE_LINES]).strip("\n")


def safe_lines(text: str) -> list[str]:
    """The lines of a text, safe to show; tabs become spaces."""
    return [plain(line.replace("\t", "    ")) for line in text[:NOTE_LIMIT].splitlines()]


def cleaned(mark: Mark) -> Mark:
    """A mark with its texts made safe and cut. Without a label, the note's first line becomes the label."""
    note = note_text(mark.note)
    label = mark.label.strip() or next((line for line in note.split("\n") if line.strip()), "").strip()
    name, lane = plain(mark.name, NAME_LIMIT), plain(mark.lane, NAME_LIMIT)
    return mark._replace(label=plain(label, LABEL_LIMIT), note=note, name=name, lane=lane)


# The file


class Loaded(NamedTuple):
    """What a file of marks holds."""

    marks: list[Mark]
    """By time, including those of earlier traces at this path."""
    whole: bool
    """Whether every entry was read: none damaged, and not too many."""


def read_marks(file: Path | None) -> Loaded:
    """All readable marks of a file."""
    state = readable_state(file)
    if not state:
        return Loaded([], state is not None)
    entries = state.get("marks")
    if not isinstance(entries, list):
        return Loaded([], False)
    found = [m for m in map(_mark, entries[:MOST]) if m is not None]
    return Loaded(_sorted(found), len(found) == len(entries))


def _mark(entry: Any) -> Mark | None:
    if not isinstance(entry, Mapping):
        return None
    on = entry.get("on")
    on = on if isinstance(on, Mapping) else {}
    time, duration, zero = _time(entry.get("time_ns")), _time(on.get("duration_ns")), entry.get("zero_ns")
    if time is None:
        return None
    pairs = ((entry, "label"), (entry, "note"), (on, "name"), (on, "lane"))
    label, note, name, lane = (text if isinstance(text := of.get(key), str) else "" for of, key in pairs)
    length = -1 if duration is None else duration
    mark = cleaned(Mark(time, label, note, name, lane, length, zero if isinstance(zero, int) else None))
    return mark if mark.label else None


def _time(value: Any) -> int | None:
    good = isinstance(value, int) and not isinstance(value, bool) and -FAR < value < FAR
    return value if good else None


def save_marks(path: str, marks: Iterable[Mark], folder: Path | None = None) -> bool:
    """Save the marks of a trace. False if they could not be written."""
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
    """All marks except the one at that instant of that trace."""
    return [m for m in marks if m.time != mark.time or m.zero not in (None, mark.zero)]


def with_mark(marks: Iterable[Mark], mark: Mark) -> list[Mark]:
    """The marks with one added or replaced; one without label and note is removed."""
    mark = cleaned(mark)
    kept = without(marks, mark)
    return _sorted([*kept, mark]) if mark.label else kept


def next_mark(marks: list[Mark], time: float) -> Mark | None:
    """The first mark after an instant, wrapping around."""
    return next((m for m in marks if m.time > time), marks[0] if marks else None)


class Marks:
    """The marks of one trace. Every change starts from what is in the file: another session may be using
    it, too."""

    def __init__(self, path: str, zero: int | None = None, folder: Path | None = None) -> None:
        self.path, self.zero, self.folder = resolved(path), zero, folder
        self.kept = self._file is not None
        """Whether the last change was saved (before the first change: whether there is a place to save)."""
        self.trouble = ""
        """What went wrong with the last change, as a clause to show; "" if nothing did."""
        self.all, self.whole = read_marks(self._file)

    @property
    def here(self) -> list[Mark]:
        """The marks of this trace, by time."""
        return [m for m in self.all if self.is_here(m)]

    def is_here(self, mark: Mark) -> bool:
        """Whether a mark was made on this trace, not on an earlier one at the same path."""
        return mark.zero is None or self.zero is None or mark.zero == self.zero

    def at(self, time: int) -> Mark | None:
        """The mark at an instant of this trace."""
        return next((m for m in self.all if m.time == time and self.is_here(m)), None)

    def put(self, mark: Mark) -> None:
        """Add a mark, or change the one at its instant; one without label and note is removed.

        Beyond `MOST` marks none is added, and `trouble` says so.
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
        """Remove a mark."""
        self._keep(without(self._fresh(), mark))

    @property
    def _file(self) -> Path | None:
        return state_file("marks", self.path, self.folder)

    def _fresh(self) -> list[Mark]:
        if self.kept:
            found = read_marks(self._file)
            self.whole = found.whole
            if found.whole or found.marks:  # if the file was damaged meanwhile, keep what we have
                self.all = found.marks
        return self.all

    def _keep(self, marks: list[Mark]) -> None:
        """Write the marks. A file that could not be read in full is set aside first, never overwritten."""
        self.all = marks
        file, aside = self._file, None
        if file is not None and not self.whole:
            aside = set_aside(file)
            self.whole = aside is not None
        self.kept = self.whole and save_marks(self.path, marks, self.folder)
        problems = [] if self.kept else [f"not saved: {why_not_kept()}"]
        if aside is not None:
            problems.append(f"the old file is now marks/{aside.name}")
        self.trouble = "; ".join(problems)


# Marks and events


def mark_on(trace: Trace, event: int | None, time: int, label: str = "", note: str = "") -> Mark:
    """A mark at the start of an event, which it remembers; without an event, at an instant."""
    zero = trace.info.zero_ns
    if event is None:
        return cleaned(Mark(time, label, note, zero=zero))
    lane = trace.lanes[int(trace.lane[event])].name
    name, duration = trace.name_of(event), int(trace.duration[event])
    return cleaned(Mark(int(trace.start[event]), label, note, name, lane, duration, zero))


def event_of(trace: Trace, mark: Mark) -> int | None:
    """The slice that a mark was made on; None if there was none, or the trace has no such slice."""
    if not mark.name:
        return None
    there = np.flatnonzero((trace.start == mark.time) & (trace.duration == mark.duration))
    named = [int(i) for i in there if plain(trace.name_of(int(i)), NAME_LIMIT) == mark.name]
    same = [i for i in named if trace.lanes[int(trace.lane[i])].name == mark.lane]
    return next(iter(same or named), None)
