"""What is on which line: the order of the lanes, their visible rows, what is hidden or pinned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property, partial

import numpy as np

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


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the screen."""

    track: int
    source: int
    """Index of its recording."""
    of: Of
    ref: int
    """Lane, process, device or counter series, by `of`."""
    depth: int
    """0 for the track's first line."""
    more: int
    """Folded rows below this line; only a track's last line has any."""
    pinned: bool = False


@dataclass(frozen=True, eq=False)
class Layout:
    """Tracks from top to bottom, grouped by recording. All arrays of shape (tracks,)."""

    source: I32
    of: I32
    ref: I32
    rows: I32
    """Lines of a track when it is unfolded."""
    shown: I32
    """Its visible lines; 0: hidden."""
    pinned: tuple[int, ...] = ()
    """Tracks that stay on the screen, in order."""
    chosen: frozenset[int] = frozenset()
    """Tracks whose lines the user chose; the others adapt to the height of the screen."""
    was: tuple[tuple[int, int, bool], ...] = ()
    """Of hidden tracks: the track, its lines before, and whether the user had chosen those."""

    def __len__(self) -> int:
        return len(self.of)

    @cached_property
    def bottoms(self) -> I64:
        """The line after each track's last one, within the scrolled part."""
        shown = self.shown.astype(np.int64)
        shown[list(self.pinned)] = 0
        return np.cumsum(shown)

    @property
    def height(self) -> int:
        """Lines of the scrolled part."""
        return int(self.bottoms[-1]) if len(self) else 0

    @property
    def pinned_height(self) -> int:
        return int(self.shown[list(self.pinned)].sum())

    def lines(self, top: int, height: int) -> list[Line]:
        """The lines on a screen of `height` lines, with the scrolled part starting at line `top`."""
        found = [self._line(t, d, True) for t in self.pinned for d in range(int(self.shown[t]))][:height]
        bottoms = self.bottoms
        stop = min(top + height - len(found), self.height)
        track = int(np.searchsorted(bottoms, top, side="right"))
        at = top
        while at < stop:
            first = int(bottoms[track] - self.shown[track])
            end = min(stop, int(bottoms[track]))
            found += [self._line(track, d, False) for d in range(at - first, end - first)]
            at = end
            track = int(np.searchsorted(bottoms, at, side="right"))
        return found

    def _line(self, track: int, depth: int, pinned: bool) -> Line:
        shown, rows = int(self.shown[track]), int(self.rows[track])
        more = rows - shown if depth == shown - 1 else 0
        of, ref = Of(int(self.of[track])), int(self.ref[track])
        return Line(track, int(self.source[track]), of, ref, depth, more, pinned)

    def track_of(self, of: Of, ref: int, source: int = 0) -> int:
        """The track of a lane, device or counter; -1 if there is none."""
        at = np.flatnonzero((self.of == of) & (self.ref == ref) & (self.source == source))
        return int(at[0]) if len(at) else -1

    def place(self, track: int, depth: int) -> int:
        """The line of a track's row within the scrolled part; -1 if the track is pinned or hidden."""
        if track in self.pinned or not self.shown[track]:
            return -1
        first = int(self.bottoms[track] - self.shown[track])
        return first + min(depth, int(self.shown[track]) - 1)

    def with_shown(self, track: int, lines: int, *, chosen: bool = True) -> Layout:
        """Fold or unfold a track; 0 hides it. `chosen`: the user did this."""
        shown = self.shown.copy()
        shown[track] = max(0, min(lines, int(self.rows[track])))
        was = self.was
        if self.shown[track] and not shown[track]:
            kept = tuple(one for one in was if one[0] != track)
            was = (*kept, (track, int(self.shown[track]), track in self.chosen))
        return replace(self, shown=shown, chosen=self.chosen | {track} if chosen else self.chosen, was=was)

    def with_all(self, lines: int) -> Layout:
        """Show this many rows of each track that is not hidden."""
        shown = np.where(self.shown > 0, np.minimum(self.rows, max(1, lines)), 0)
        return replace(self, shown=shown.astype(np.int32), chosen=self._chosen_too(self.shown > 0))

    def with_hidden(self) -> Layout:
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

    def with_counters(self, count: int, height: int, source: int = 0) -> Layout:
        """With `count` tracks for series below a recording's lanes: as high as there is room for, at least a
        line. Hidden if there are very many."""
        have = int(((self.of == Of.COUNTER) & (self.source == source)).sum())
        new = max(0, count - have)
        room = min(COUNTER_ROWS, (height - int(self.shown.sum())) // new) if new else 0
        fits = max(1, room) if count <= ROOM_FOR_COUNTERS else 0
        parts = (
            (self.source, np.full(new, source)),
            (self.of, np.full(new, int(Of.COUNTER))),
            (self.ref, np.arange(have, have + new)),
            (self.rows, np.full(new, COUNTER_ROWS)),
            (self.shown, np.full(new, fits)),
        )
        of_source, of, ref, rows, shown = (np.concatenate(p).astype(np.int32) for p in parts)
        wider = replace(self, source=of_source, of=of, ref=ref, rows=rows, shown=shown)
        return wider.ordered(np.argsort(of_source, kind="stable"))

    def toggle_pin(self, track: int) -> Layout:
        kept = tuple(t for t in self.pinned if t != track)
        return replace(self, pinned=kept if track in self.pinned else tuple(sorted((*kept, track))))

    def reorder(self, track: int, by: int) -> Layout:
        """Move a track up (negative) or down by some places."""
        to = max(0, min(len(self) - 1, track + by))
        order = [t for t in range(len(self)) if t != track]
        order.insert(to, track)
        return self.ordered(np.array(order, dtype=np.int64))

    def ordered(self, order: I64) -> Layout:
        """The tracks in another order, a permutation."""
        place = np.empty(len(self), dtype=np.int64)
        place[order] = np.arange(len(self))
        pinned = tuple(sorted(place[list(self.pinned)].tolist()))
        chosen = frozenset(place[list(self.chosen)].tolist())
        was = tuple((int(place[track]), lines, decided) for track, lines, decided in self.was)
        source, of, ref, rows, shown = (
            column[order] for column in (self.source, self.of, self.ref, self.rows, self.shown)
        )
        return Layout(source, of, ref, rows, shown, pinned, chosen, was)

    def moved(self, track: int, step: int) -> Layout | None:
        """Move a track past its next visible neighbour above (-1) or below (1) in the same recording, pinned
        tracks among pinned ones. None if there is none or the track is hidden."""
        pinned = np.zeros(len(self), dtype=np.bool_)
        pinned[list(self.pinned)] = True
        own = (self.source == self.source[track]) & (self.of != Of.RECORDING)
        there = np.flatnonzero((self.shown > 0) & (pinned == pinned[track]) & own)
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

    def below_own(self, track: int, of: Of, ref: int) -> bool:
        """Whether a track is below the heading of its process, or the line of its device."""
        at = int(self.headings[track])
        return at >= 0 and track not in self.pinned and self.of[at] == of and self.ref[at] == ref


def lay_out(traces: Sequence[Trace], height: int) -> Layout:
    """The initial layout for `height` lines: all lanes; if there is no room, threads are folded first.

    Several recordings are stacked, each with its own heading.
    """
    tracks: list[tuple[int, int, int, int]] = []
    for source, trace in enumerate(traces):
        if len(traces) > 1:
            tracks.append((source, int(Of.RECORDING), source, 1))
        tracks += [(source, *track) for track in _tracks(trace)]
    columns = zip(*tracks, strict=True) if tracks else ((), (), (), ())
    of_source, of, ref, rows = (np.array(column, dtype=np.int32) for column in columns)
    return _opened(traces, Layout(of_source, of, ref, rows, rows.copy()), height)


def _tracks(trace: Trace) -> list[tuple[int, int, int]]:
    """A trace's lanes and the headings between them, as (of, ref, rows)."""
    tracks: list[tuple[int, int, int]] = []
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
            tracks.append((*head, 1))
        heading = head
        tracks.append((int(Of.LANE), i, max(1, lane.rows)))
    return tracks


def _place(trace: Trace, i: int) -> tuple[bool, int, bool]:
    """Where lane i goes, as a sort key."""
    lane = trace.lanes[i]
    if lane.kind == "modules":  # above the first lane of its device
        return False, next(j for j, other in enumerate(trace.lanes) if other.device == lane.device), False
    # The recording's own span says little: it goes last, not between threads and devices.
    return lane.kind == "span", i, True


def fitted(traces: Sequence[Trace], layout: Layout, height: int) -> Layout:
    """Show as many rows of each lane as fit into `height` lines; the user's choices stay.

    Threads of all recordings have the same maximum, so that recordings can be compared.
    """
    lane = layout.of == Of.LANE
    thread = _threads(traces, layout)
    free = np.ones(len(layout), dtype=np.bool_)
    free[list(layout.chosen)] = False
    shown = np.where(free & lane, layout.rows, layout.shown).astype(np.int32)
    # Deep threads first: the largest depth that lets everything fit; then deep device lanes.
    for part in (thread & free, lane & free):
        depth = _deepest(shown, part, height)
        shown[part] = np.minimum(shown[part], depth)
    return replace(layout, shown=shown)


def _threads(traces: Sequence[Trace], layout: Layout) -> Bool:
    """Which tracks are CPU lanes."""
    tracks = zip(layout.of.tolist(), layout.source.tolist(), layout.ref.tolist(), strict=True)
    found = [of == Of.LANE and traces[source].lanes[ref].device < 0 for of, source, ref in tracks]
    return np.array(found, dtype=np.bool_)


def _opened(traces: Sequence[Trace], layout: Layout, height: int) -> Layout:
    layout = fitted(traces, layout, height)
    thread, shown = _threads(traces, layout), layout.shown
    device = [
        track
        for track in np.flatnonzero((layout.of == Of.LANE) & ~thread).tolist()
        if traces[layout.source[track]].lanes[int(layout.ref[track])].kind == "stream"
    ]
    crowded = int(shown.sum()) > height
    if crowded and thread.any() and device and int(shown[device].sum()) <= height // 2:
        layout = replace(layout, pinned=tuple(device))  # otherwise the devices would be below the screen
    return layout


def _deepest(shown: I32, part: Bool, height: int) -> int:
    """The most rows per track of `part` with which all lines fit; at least one."""
    rest = int(shown[~part].sum())
    mine = shown[part]
    low, high = 1, int(mine.max(initial=1))
    while low < high:
        middle = (low + high + 1) // 2
        if rest + int(np.minimum(mine, middle).sum()) <= height:
            low = middle
        else:
            high = middle - 1
    return low
