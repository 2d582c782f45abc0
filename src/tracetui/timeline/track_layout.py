"""What is on which line: the order of the lanes, their visible rows, what is hidden, pinned or docked.

A screen has three parts from top to bottom: the tracks that the user pinned; the part that scrolls; and the
dock of the devices (see `dock`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from tracetui.core.copying import replace
from tracetui.timeline.dock import COUNTERS, TALL, Stack, by_device, deepest, fit_dock, most_lines
from tracetui.trace.model import I32, I64, Bool, Trace

COUNTER_ROWS = 4
"""Lines of an unfolded counter."""
ROOM_FOR_COUNTERS = 8
"""With more series than this, all start hidden."""


class Of(IntEnum):
    """What a track shows."""

    LANE = 0
    PROCESS = 1  # a heading
    DEVICE = 2  # the union over a device's streams
    COUNTER = 3
    RECORDING = 4  # a heading, where there are several recordings
    RULE = 5  # no track: the line above a device's tracks in the dock


class Line(Struct, frozen=True):
    """One line of the screen."""

    track: int
    """Of a rule: the first track below it."""
    source: int
    """Index of its recording."""
    of: Of
    ref: int
    """Lane, process, device or counter series, by `of`."""
    depth: int
    """0 for the track's first row."""
    more: int
    """Folded rows below this line; only a track's last line has any."""
    pinned: bool = False
    part: int = 0
    """Which line of its row this is, from the top."""
    parts: int = 1
    """The lines of its row: the first row of a stream may have several."""

    @property
    def first(self) -> bool:
        """Whether this is its track's first line."""
        return not self.depth and not self.part


class Parts(NamedTuple):
    """The lines of a screen's parts."""

    pinned: int
    scrolled: int
    """Room for the part that scrolls; it may need less."""
    docked: int


class TrackLayout(Struct, frozen=True, eq=False, dict=True):
    """Tracks from top to bottom, grouped by recording. All arrays of shape (tracks,)."""

    source: I32
    of: I32
    ref: I32
    rows: I32
    """Lines of a track when it is unfolded."""
    shown: I32
    """Its visible lines; 0: hidden."""
    extra: I32
    """Lines that the first row takes beyond one when the track is unfolded; part of `rows`."""
    device: I32
    """The device of what is docked, -1 for the rest."""
    pinned: tuple[int, ...] = ()
    """Tracks that the user keeps at the top, in order."""
    chosen: frozenset[int] = frozenset()
    """Tracks whose lines the user chose; the others adapt to the height of the screen."""
    was: tuple[tuple[int, int, bool], ...] = ()
    """Of hidden tracks: the track, its lines before, and whether the user had chosen those."""
    tight: bool = False
    """Whether the dock is too small for a line of each of its tracks: the streams come first then."""

    def __len__(self) -> int:
        return len(self.of)

    @cached_property
    def zone(self) -> I64:
        """0 for what scrolls, 1 for what is pinned; from 2 on, one number for each device in the dock."""
        found = np.where(self.device < 0, 0, self.device.astype(np.int64) + 2)
        found[list(self.pinned)] = 1
        return found

    @cached_property
    def scrolled(self) -> Stack:
        """The part that scrolls."""
        return Stack(np.flatnonzero((self.zone == 0) & (self.shown > 0)), self.shown)

    @cached_property
    def dock(self) -> Stack:
        """The devices' part, by recording and device."""
        tracks = np.flatnonzero((self.zone > 1) & (self.shown > 0))
        later = (self.extra[tracks] == 0) & (self.of[tracks] != Of.DEVICE) & self.tight
        return by_device(tracks, self.source, self.device, self.shown, later)

    @cached_property
    def order(self) -> list[int]:
        """The visible tracks from the top of the screen to its foot."""
        pinned = [track for track in self.pinned if self.shown[track]]
        return [*pinned, *self.scrolled.tracks.tolist(), *self.dock.tracks.tolist()]

    @property
    def height(self) -> int:
        """Lines of the scrolled part."""
        return self.scrolled.height

    @property
    def pinned_height(self) -> int:
        return int(self.shown[list(self.pinned)].sum())

    def parts(self, height: int) -> Parts:
        """How a screen of `height` lines is divided. The dock takes at most half, unless there is room."""
        pinned = min(max(0, height), self.pinned_height)
        room = max(0, height) - pinned
        docked = min(self.dock.height, most_lines(room, self.height))
        return Parts(pinned, room - docked, docked)

    def lines(self, top: int, height: int, foot: int = 0) -> list[Line]:
        """The lines on a screen of `height` lines. `top`, `foot`: the first line of the scrolled part and of
        the dock."""
        parts = self.parts(height)
        pinned = [(track, 0, int(self.shown[track])) for track in self.pinned]
        found = self._lines(pinned, True)[: parts.pinned]
        found += self._lines(self.scrolled.pieces(top, top + parts.scrolled), False)
        return found + self._lines(self.dock.pieces(foot, foot + parts.docked), False)

    def _lines(self, pieces: list[tuple[int, int, int]], pinned: bool) -> list[Line]:
        return [self._line(t, n, pinned) for t, first, end in pieces for n in range(first, end)]

    def _line(self, track: int, n: int, pinned: bool) -> Line:
        """Line `n` of a track; -1 is the rule above it."""
        source, shown = int(self.source[track]), int(self.shown[track])
        if n < 0:
            return Line(track, source, Of.RULE, int(self.device[track]), 0, 0)
        parts = self.lines_of_first(track)
        more = max(0, int(self.rows[track] - self.extra[track]) - shown) if n == shown - 1 else 0
        of, ref, depth = Of(int(self.of[track])), int(self.ref[track]), max(0, n - parts + 1)
        return Line(track, source, of, ref, depth, more, pinned, n if n < parts else 0, 1 if depth else parts)

    def lines_of_first(self, track: int) -> int:
        """The lines that a track's first row takes: more than one once all rows are there."""
        return max(1, int(self.shown[track] - self.rows[track] + self.extra[track]) + 1)

    def track_of(self, of: Of, ref: int, source: int = 0) -> int:
        """The track of a lane, device or counter; -1 if there is none."""
        at = np.flatnonzero((self.of == of) & (self.ref == ref) & (self.source == source))
        return int(at[0]) if len(at) else -1

    def place(self, track: int, depth: int) -> int:
        """The line of a track's row within the scrolled part or within the dock; -1 if the track is pinned or
        hidden."""
        first = (self.dock if self.zone[track] > 1 else self.scrolled).start(track)
        below = depth + self.lines_of_first(track) - 1 if depth else 0
        return -1 if first < 0 else first + min(below, int(self.shown[track]) - 1)

    def depths(self, track: int) -> int:
        """How many rows of a track are unfolded."""
        return int(min(self.shown[track], self.rows[track] - self.extra[track]))

    def with_shown(self, track: int, lines: int, *, chosen: bool = True) -> TrackLayout:
        """Fold or unfold a track; 0 hides it. `chosen`: the user did this."""
        shown = self.shown.copy()
        shown[track] = max(0, min(lines, int(self.rows[track])))
        was = self.was
        if self.shown[track] and not shown[track]:
            kept = tuple(one for one in was if one[0] != track)
            was = (*kept, (track, int(self.shown[track]), track in self.chosen))
        return replace(self, shown=shown, chosen=self.chosen | {track} if chosen else self.chosen, was=was)

    def with_all(self, lines: int) -> TrackLayout:
        """Show this many rows of each track that is not hidden."""
        shown = np.where(self.shown > 0, np.minimum(self.rows, max(1, lines)), 0)
        return replace(self, shown=shown.astype(np.int32), chosen=self._chosen_too(self.shown > 0))

    def with_hidden(self) -> TrackLayout:
        """Show hidden tracks as they were; folded, if they were hidden in an earlier session."""
        shown = np.maximum(self.shown, 1).astype(np.int32)
        chosen = self._chosen_too(self.shown == 0)
        for track, lines, decided in self.was:
            if not self.shown[track]:
                shown[track] = lines
                chosen = chosen if decided else chosen - {track}
        return replace(self, shown=shown, chosen=chosen, was=())

    def _chosen_too(self, tracks: Bool) -> frozenset[int]:
        return self.chosen.union(np.flatnonzero(tracks).tolist())

    def with_counters(self, count: int, source: int = 0, devices: Sequence[int] = ()) -> TrackLayout:
        """With `count` tracks for series below a recording's lanes, one line each. Hidden if there are very
        many. `devices`: the device of each series, as in `device`; one that has lanes takes it into the
        dock."""
        own = self.source == source
        have = int(((self.of == Of.COUNTER) & own).sum())
        docks = set(self.device[own].tolist())
        where = [one if one in docks else -1 for one in (*devices, *[-1] * count)[have:count]]
        new = len(where)
        parts = (
            (self.source, np.full(new, source)),
            (self.of, np.full(new, int(Of.COUNTER))),
            (self.ref, np.arange(have, have + new)),
            (self.rows, np.full(new, COUNTER_ROWS)),
            (self.shown, np.full(new, int(count <= ROOM_FOR_COUNTERS))),
            (self.extra, np.zeros(new)),
            (self.device, np.array(where, dtype=np.int32)),
        )
        of_source, of, ref, rows, shown, extra, device = (np.concatenate(p).astype(np.int32) for p in parts)
        chosen = (self.pinned, self.chosen, self.was, self.tight)
        wider = TrackLayout(of_source, of, ref, rows, shown, extra, device, *chosen)
        return wider.ordered(np.argsort(of_source, kind="stable"))

    def toggle_pin(self, track: int) -> TrackLayout:
        kept = tuple(t for t in self.pinned if t != track)
        return replace(self, pinned=kept if track in self.pinned else tuple(sorted((*kept, track))))

    def reorder(self, track: int, by: int) -> TrackLayout:
        """Move a track up (negative) or down by some places."""
        to = max(0, min(len(self) - 1, track + by))
        order = [t for t in range(len(self)) if t != track]
        order.insert(to, track)
        return self.ordered(np.array(order, dtype=np.int64))

    def ordered(self, order: I64) -> TrackLayout:
        """The tracks in another order, a permutation."""
        place = np.empty(len(self), dtype=np.int64)
        place[order] = np.arange(len(self))
        pinned = tuple(sorted(place[list(self.pinned)].tolist()))
        chosen = frozenset(place[list(self.chosen)].tolist())
        was = tuple((int(place[track]), lines, decided) for track, lines, decided in self.was)
        columns = (self.source, self.of, self.ref, self.rows, self.shown, self.extra, self.device)
        source, of, ref, rows, shown, extra, device = (column[order] for column in columns)
        return TrackLayout(source, of, ref, rows, shown, extra, device, pinned, chosen, was, self.tight)

    def moved(self, track: int, step: int) -> TrackLayout | None:
        """Move a track past its next visible neighbor above (-1) or below (1) in the same recording: pinned
        tracks among pinned ones, those of a device in the dock among each other. None if there is none or the
        track is hidden."""
        own = (self.source == self.source[track]) & (self.of != Of.RECORDING)
        there = np.flatnonzero((self.shown > 0) & (self.zone == self.zone[track]) & own)
        at = int(np.searchsorted(there, track))
        if not (self.shown[track] and own[track]) or not 0 <= at + step < len(there):
            return None
        return self.reorder(track, int(there[at + step]) - track)

    @cached_property
    def headings(self) -> I64:
        """The nearest heading or device line at or above each track, -1 for none."""
        own = np.where(np.isin(self.of, (Of.PROCESS, Of.DEVICE, Of.RECORDING)), np.arange(len(self)), -1)
        return np.maximum.accumulate(own) if len(own) else own

    @cached_property
    def headed(self) -> frozenset[tuple[int, int]]:
        """The processes that have a heading, as (source, process)."""
        at = self.of == Of.PROCESS
        return frozenset(zip(self.source[at].tolist(), self.ref[at].tolist(), strict=True))

    def below_own(self, track: int, process: int) -> bool:
        """Whether a track is below the heading of its process."""
        at = int(self.headings[track])
        return at >= 0 and self.zone[track] == 0 and self.of[at] == Of.PROCESS and self.ref[at] == process


def lay_out(
    traces: Sequence[Trace],
    height: int,
    rows_of: Sequence[Callable[[int], int]] = (),
    counters: int = COUNTERS,
) -> TrackLayout:
    """The initial layout for `height` lines: all lanes; if there is no room, threads are folded first.

    Several recordings are stacked, each with its own heading. `rows_of`: for each, how many rows a lane has;
    without, as the trace says. `counters`: see `fitted`.
    """
    tracks: list[tuple[int, ...]] = []
    for source, trace in enumerate(traces):
        if len(traces) > 1:
            tracks.append((source, int(Of.RECORDING), source, 1, 0, -1))
        counts = rows_of[source] if rows_of else lambda i, lanes=trace.lanes: lanes[i].rows
        tracks += [(source, *track) for track in _tracks(trace, counts)]
    columns = zip(*tracks, strict=True) if tracks else ((),) * 6
    source_of, of, ref, rows, extra, device = (np.array(column, dtype=np.int32) for column in columns)
    layout = TrackLayout(source_of, of, ref, rows, rows.copy(), extra, device)
    layout.shown[_unseen(traces, layout)] = 0
    return fitted(layout, height, counters)


def _tracks(trace: Trace, rows_of: Callable[[int], int]) -> list[tuple[int, int, int, int, int]]:
    """A trace's lanes and the headings between them, as (of, ref, rows, extra, device)."""
    tracks: list[tuple[int, int, int, int, int]] = []
    processes = {lane.process for lane in trace.lanes if lane.device < 0 and lane.kind in ("thread", "async")}
    streams: dict[int, int] = {}
    for lane in trace.lanes:
        if lane.device >= 0 and lane.kind == "stream":
            streams[lane.device] = streams.get(lane.device, 0) + 1
    heading: tuple[int, int] | None = None
    for i in sorted(range(len(trace.lanes)), key=partial(_place, trace)):
        lane = trace.lanes[i]
        if lane.device >= 0:
            head = (int(Of.DEVICE), lane.device) if streams.get(lane.device, 0) > 1 else None
        else:
            several = len(processes) > 1 and lane.process in processes
            head = (int(Of.PROCESS), lane.process) if several else None
        if head is not None and head != heading:
            tracks.append((*head, 1, 0, lane.device))
        heading = head
        extra = TALL - 1 if lane.device >= 0 and lane.kind == "stream" else 0
        tracks.append((int(Of.LANE), i, max(1, rows_of(i)) + extra, extra, lane.device))
    return tracks


def _unseen(traces: Sequence[Trace], layout: TrackLayout) -> Bool:
    """The recorders' own spans, which say next to nothing: they are hidden at first, unless alone."""
    lanes = zip(layout.of.tolist(), layout.source.tolist(), layout.ref.tolist(), strict=True)
    span = np.array(
        [of == Of.LANE and traces[s].lanes[i].kind == "span" for of, s, i in lanes], dtype=np.bool_
    )
    return span & bool(((layout.of == Of.LANE) & ~span).any())


def _place(trace: Trace, i: int) -> tuple[bool, int, bool]:
    """Where lane i goes, as a sort key."""
    lane = trace.lanes[i]
    if lane.kind == "modules":  # above the first lane of its device
        return False, next(j for j, other in enumerate(trace.lanes) if other.device == lane.device), False
    # The recording's own span says little: it goes last, not between threads and devices.
    return lane.kind == "span", i, True


def fitted(layout: TrackLayout, height: int, counters: int = COUNTERS) -> TrackLayout:
    """Show as many rows of each lane as fit into `height` lines; the user's choices stay. `counters`: lines
    that are kept free for those of each device.

    Threads of all recordings have the same maximum, so that recordings can be compared.
    """
    free = (layout.of == Of.LANE) & (layout.shown > 0)
    free[list(layout.chosen)] = False
    thread, stream = free & (layout.device < 0), free & (layout.extra > 0)
    other = free & (layout.device >= 0) & ~stream
    rows = layout.rows - layout.extra
    shown = np.where(free, rows, layout.shown).astype(np.int32)
    docked, tight = layout.zone > 1, False
    if docked.any():
        room = height - int(shown[layout.zone == 1].sum())
        rules = replace(layout, shown=shown).dock.rules
        room = most_lines(room, int(shown[layout.zone == 0].sum())) - rules
        height -= fit_dock(shown, rows, stream, other, docked, room, rules, counters)
        tight = int(shown[docked].sum()) > room
    shown[thread] = np.minimum(shown[thread], deepest(shown, thread, ~docked, height))
    sources, first = np.unique(layout.source[thread], return_index=True)
    if len(sources) > 1:
        # What is left goes to the first of each: then a row that comes later does not move the dock.
        top = np.flatnonzero(thread)[first]
        more = max(0, height - int(shown[~docked].sum())) // len(sources)
        shown[top] = np.minimum(rows[top], shown[top] + more)
    return replace(layout, shown=shown, tight=tight)
