"""A recording: a trace with its facts, its marks and the arrangement of its lanes."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from msgspec import Struct

from tracetui.analysis.idle.parts import CAUSES
from tracetui.analysis.names.kernel_names import short_name
from tracetui.analysis.names.roles import roles
from tracetui.analysis.part import Part
from tracetui.core.safe_text import plain
from tracetui.core.threads import run_parallel, threads_for
from tracetui.session.marks import Marks
from tracetui.session.paths import meta_file
from tracetui.session.state import resolved
from tracetui.timeline.busy import busy_of
from tracetui.timeline.palette import Palette
from tracetui.timeline.rows import Rows
from tracetui.timeline.scene import Idle, Source
from tracetui.timeline.themes import Theme
from tracetui.trace import Kind, Progress, Trace, load
from tracetui.trace.indices import first_of_names
from tracetui.trace.intervals import Intervals, of_pairs
from tracetui.trace.result_cache import load_result, store_result
from tracetui.trace.unknown import idle_known
from tracetui.trace.unrecorded_time import idle_unknown

DURING = ("initialisation", "profiler", "sync", "allocation", "dispatch", "host")
"""The causes for which it is shown what the CPU did meanwhile."""
PREPARED = 16
"""How many lanes, the longest ones, have their slices sorted by row before the first picture."""
ROWS = 8
"""How many rows of each of these lanes are made before it."""


class Prepared(Struct, frozen=True):
    """The part of `Recording.prepare`'s work that `answers` keeps."""

    slices: int
    span: tuple[int, int]
    idle_known: bool
    roles: tuple[str, ...]
    """One per lane."""
    unknown: dict[int, list[tuple[int, int]]] | None = None
    """`idle_unknown`: by device, (start, end) of each stretch. None if it was kept by an earlier version."""


class Recording:
    """A trace with everything computed from it and saved for it."""

    def __init__(self, trace: Trace, part: bool = False) -> None:
        """`part`: the trace is the beginning of a file that is still being read
        (`trace.load.load_beginning`), so nothing may be said about the whole."""
        self.trace, self.part = trace, part
        self.whole = Part(trace)
        self.path = resolved(trace.info.path)
        """Absolute, so that it stays valid when the working directory changes; "-" for standard input."""
        self._short: dict[int, str] = {}

    @classmethod
    def open(cls, path: str | Path, progress: Progress | None = None) -> Recording:
        """Load a trace. Raises TraceError and Cancelled as `tracetui.trace.load` does."""
        return cls(load(path, progress))

    def is_current(self) -> bool:
        """Whether the file is the one that was read, and has not changed since reading it began."""
        try:
            status = os.stat(self.path)
        except OSError:
            return False
        return (status.st_size, status.st_mtime_ns) == self.trace.reader.source.stamp

    @cached_property
    def marks(self) -> Marks:
        """The saved marks of this trace, read when first used."""
        return Marks(self.path, self.trace.info.zero_ns)

    def short(self, name: int) -> str:
        """The short form of a name (by index), as shown in bars."""
        text = self._short.get(name)
        if text is None:
            trace, first = self.trace, int(first_of_names(self.trace)[name])
            category = trace.categories[int(trace.category[first])] if first >= 0 else ""
            text = self._short[name] = short_name(trace.names[name], category)
        return text

    @cached_property
    def short_names(self) -> list[str]:
        """The short forms of all names."""
        return [self.short(name) for name in range(len(self.trace.names))]

    def why_idle(self, first: int, index: int) -> tuple[str, ...]:
        """Why gap `first + index` of a device is there, as texts from the longest to the
        shortest: its largest cause, and what ran for at least half of it. Empty while the causes are not
        known."""
        from tracetui.analysis.idle.split import causes_of

        if not self.whole.knows(causes_of):
            return ()
        causes, gap = causes_of(self.whole), first + index
        cause = CAUSES[int(causes.cause[gap])]
        activity = int(causes.activity[gap])
        if activity < 0 or cause not in DURING or self.trace.kind[activity] == Kind.ANNOTATION:
            return (cause,)
        return f"{cause}: {self.short(int(self.trace.name[activity]))}", cause

    def idle(self) -> Mapping[int, Idle]:
        """The gaps of each device, or of a thread in a trace of the CPU alone, to be drawn."""
        from tracetui.analysis.idle.thread_gaps import all_gaps_of

        devices = all_gaps_of(self.whole).devices
        ends = self.whole.cached("gap ends", lambda: [device.end for device in devices])
        first, found = 0, {}
        for device, end in zip(devices, ends, strict=True):
            found[device.device] = Idle(device.start, end, partial(self.why_idle, first))
            first += len(device)
        return found

    def source(self, theme: Theme, offset: int = 0) -> Source:
        """The recording for the timeline. `offset`: session time minus trace time, ns."""
        rows, busy, lanes = self._drawn
        palette, title = Palette(self.trace, theme), trace_name(self.trace)
        return Source(self.trace, rows, palette, self.short, busy, offset, title, roles=lanes)

    @cached_property
    def _drawn(self) -> tuple[Rows, Mapping[int, Intervals], Sequence[str]]:
        """What every session with this recording draws: rows, busy times, and the names of the lanes."""
        if self.part:
            return Rows(self.trace), {}, ()  # idle times and the lanes' roles are not known yet
        found: tuple[Rows, Mapping[int, Intervals], Sequence[str]] | None = self.trace.derived.get("drawn")
        if found is None:
            found = self.trace.derived["drawn"] = Rows(self.trace), busy_of(self.trace), roles(self.trace)
        return found

    def prepare_part(self) -> None:
        """Compute what the first picture of a part needs."""
        # Not kept in the trace: only a garbage collection could free it then, and none runs while a file is
        # read.
        rows, *_ = self._drawn
        for lane in _longest(self.trace):
            rows.make(lane, ROWS)
        for lane in range(len(self.trace.lanes)):
            rows.count(lane)
        first_of_names(self.trace)
        _ = self.trace.span, idle_known(self.trace)

    @classmethod
    def prepare(cls, trace: Trace) -> None:
        """Compute what the first picture of a trace needs, in the thread that has read it and in others."""
        rows, lanes = Rows(trace), trace.lanes

        def told() -> Sequence[str]:
            known = load_result(trace.reader.source, "prepared", Prepared)
            if known is not None and (known.slices, len(known.roles)) == (len(trace), len(lanes)):
                found = {"idle_known": known.idle_known, "span": known.span, "roles": known.roles}
                trace.derived.update(found)
                if known.unknown is not None:
                    trace.derived["idle_unknown"] = {
                        one: of_pairs(ends) for one, ends in known.unknown.items()
                    }
            others: list[Callable[[], Any]] = [partial(idle_known, trace), lambda: trace.span]
            others.append(partial(idle_unknown, trace))
            run_parallel(others, threads_for(len(trace)))
            return roles(trace)

        tasks: list[Callable[[], Any]] = [partial(rows.make, lane, ROWS) for lane in _longest(trace)]
        tasks += [partial(first_of_names, trace), partial(busy_of, trace), told]
        *_, busy, names = run_parallel(tasks, threads_for(len(trace)))
        trace.derived["drawn"] = rows, busy, names

    @classmethod
    def keep_prepared(cls, trace: Trace) -> bool:
        """Keep the results that take `prepare` longest, for when a large trace is opened again. Returns
        whether they are kept."""
        unknown = {
            device: list(zip(one.start.tolist(), one.end.tolist(), strict=True))
            for device, one in idle_unknown(trace).items()
        }
        prepared = Prepared(len(trace), trace.span, idle_known(trace), roles(trace), unknown)
        return store_result(trace.reader.source, "prepared", prepared, Prepared)


def _longest(trace: Trace) -> list[int]:
    """The lanes whose rows are made before the first picture."""
    lanes = trace.lanes
    return sorted(range(len(lanes)), key=lambda i: lanes[i].first - lanes[i].last)[:PREPARED]


def trace_name(trace: Trace) -> str:
    """The file's name, for captures with its folder; safe to show."""
    path = Path(trace.info.path)
    if trace.info.path == "-":
        return "standard input"
    # A capture's file name only has its options; the folder says what was captured.
    captured = os.path.exists(meta_file(path))  # unlike Path.exists, False if the name is too long
    folder = Path(resolved(trace.info.path)).parent.name if captured else ""
    return plain(f"{folder}/{path.name}" if folder else path.name, 80)
