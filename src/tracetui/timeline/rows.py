"""The rows of a trace's lanes as sorted arrays, built on first use."""

from __future__ import annotations

import ctypes
from functools import partial
from itertools import pairwise

import numpy as np
from msgspec import Struct

from tracetui.core.columns import looked_up
from tracetui.core.threads import map_blocks, run_parallel, threads_for
from tracetui.timeline.frames import depths_with, spanning_frames
from tracetui.trace.model import I32, I64, Bool, Trace
from tracetui.trace.nesting import LIBRARY, positions


class Row(Struct, frozen=True, eq=False):
    """The slices of one row by time; they never overlap. Arrays of length n, nanoseconds."""

    lane: int
    depth: int
    index: I32
    """Slices, ascending."""
    start: I64
    total: I64
    """Running sum of the durations before each slice, and after the last. Shape (n + 1,)."""
    names: I32
    """The name of every slice of the trace."""

    def __len__(self) -> int:
        return len(self.index)

    @property
    def name(self) -> I32:
        """The name of each, looked up at each call."""
        return looked_up(self.names, self.index)

    def reach(self, at: I64 | int) -> I64:
        """The ends of some slices, at least 1 ns after their starts: there they stop touching cells."""
        length = np.subtract(self.total[np.add(at, 1)], self.total[at])  # a ufunc may overflow
        ends: I64 = np.add(self.start[at], np.maximum(length, 1))
        return ends

    def busy_before(self, times: I64) -> tuple[I64, I64]:
        """For sorted times: the number of slices that start before each, and the busy ns before each."""
        begun = np.searchsorted(self.start, times)
        last = np.maximum(begun - 1, 0)
        ahead = self.start[last] + (self.total[last + 1] - self.total[last]) - times
        return begun, self.total[begun] - np.where(begun > 0, np.maximum(ahead, 0), 0)


class Rows:
    """All rows of a trace, each built once on first use. A row is a depth, but a chain of Python frames that
    span the first view is one bar, see `frames`: it stands for its innermost, and lasts as its outermost."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self._rows: dict[tuple[int, int], Row] = {}
        self._orders: dict[int, tuple[I32, I64]] = {}
        self._frames: dict[int, tuple[I64, I32, int]] = {}

    def count(self, lane: int) -> int:
        """How many rows a lane has."""
        return self._with_frames(lane)[2]

    def frames(self, lane: int) -> I64:
        """The chain of a lane, from the outermost frame to the innermost; empty without one."""
        return self._with_frames(lane)[0]

    def depth(self, slice_index: int) -> int:
        """The row of a slice within its lane."""
        lane, at = int(self.trace.lane[slice_index]), self.drawn(slice_index)
        frames, depths, _ = self._with_frames(lane)
        return int(depths[at - self.trace.lanes[lane].first] if len(frames) else self.trace.depth[at])

    def drawn(self, slice_index: int) -> int:
        """The slice that stands for one: of a chain, the innermost; else itself."""
        frames = self.frames(int(self.trace.lane[slice_index]))
        return int(frames[-1]) if slice_index in frames else slice_index

    def drawn_mask(self, mask: Bool) -> Bool:
        """A mask over the slices, with what stands for others set if any of those is."""
        for frames, *_ in self._frames.values():
            if mask[frames].any() and not mask[frames[-1]]:
                mask = mask.copy()
                mask[frames[-1]] = True
        return mask

    def _with_frames(self, lane: int) -> tuple[I64, I32, int]:
        """A lane's chain, with it the row of each slice (see `depths_with`), and how many rows there are."""
        found = self._frames.get(lane)
        if found is None:
            one = self.trace.lanes[lane]
            chain = spanning_frames(self.trace, lane) if one.device < 0 else np.zeros(0, dtype=np.int64)
            depths = depths_with(self.trace, lane, chain) if len(chain) else np.zeros(0, dtype=np.int32)
            count = int(depths.max()) + 1 if len(chain) else one.rows
            found = self._frames[lane] = (chain, depths, count)
        return found

    def row(self, lane: int, depth: int) -> Row:
        """A row of a lane; empty if the lane has no such depth."""
        found = self._rows.get((lane, depth))
        if found is None:
            found = self._rows[lane, depth] = self._make(lane, depth)
        return found

    def make(self, lane: int, most: int) -> None:
        """Make the first rows of a lane, at most so many."""
        count = min(most, self.count(lane))
        if count > 1 and LIBRARY is not None and not len(self.frames(lane)):
            self._make_together(LIBRARY, lane, count)
            return
        self.row(lane, 0)  # sorts the lane, for all of them
        run_parallel(
            [partial(self.row, lane, depth) for depth in range(1, count)], threads_for(len(self.trace))
        )

    def _make_together(self, library: ctypes.CDLL, lane: int, count: int) -> None:
        trace, one = self.trace, self.trace.lanes[lane]
        slices, number = slice(one.first, one.last), one.last - one.first
        given = [np.ascontiguousarray(c[slices]) for c in (trace.start, trace.duration, trace.depth)]
        bounds, order = np.zeros(one.rows + 1, dtype=np.int64), np.empty(number, dtype=np.int32)
        start, total = np.empty(number, dtype=np.int64), np.empty(number + count, dtype=np.int64)
        columns, made = ([a.ctypes.data for a in some] for some in (given, (bounds, order, start, total)))
        library.by_row(*columns, number, one.first, one.rows, count, *made)
        self._orders[lane] = (order, bounds)
        for depth, (a, b) in enumerate(pairwise(bounds[: count + 1].tolist())):
            sums = total[a + depth : b + depth + 1]
            self._rows[lane, depth] = Row(lane, depth, order[a:b], start[a:b], sums, trace.name)

    def _make(self, lane: int, depth: int) -> Row:
        trace = self.trace
        first, last = trace.lanes[lane].first, trace.lanes[lane].last
        if self.count(lane) <= 1 and depth == 0 and not len(self.frames(lane)):
            index, start = np.arange(first, last, dtype=np.int32), trace.start[first:last]
        else:
            order, bounds = self._order(lane)
            index = order[bounds[depth] : bounds[depth + 1]] if depth < len(bounds) - 1 else order[:0]
            start = looked_up(trace.start, index)
        total = np.zeros(len(index) + 1, dtype=np.int64)
        map_blocks(len(index), lambda part: np.maximum(trace.duration[index[part]], 0, out=total[1:][part]))
        if len(chain := self.frames(lane)) and len(at := np.flatnonzero(index == chain[-1])):
            start[at], total[at + 1] = trace.start[chain[0]], trace.duration[chain[0]]
        np.cumsum(total, out=total)
        return Row(lane, depth, index, start, total, trace.name)

    def _order(self, lane: int) -> tuple[I32, I64]:
        """A lane's slices by depth, in order of time within each, and where each depth begins."""
        found = self._orders.get(lane)
        if found is None:
            trace = self.trace
            first, last = trace.lanes[lane].first, trace.lanes[lane].last
            frames, depth, count = self._with_frames(lane)
            if len(frames):
                depth = np.where(depth < 0, count, depth)  # what is not drawn goes below the last row
            else:
                depth = trace.depth[first:last]
            bounds, order = positions(depth, count)
            order += np.int32(first)
            found = self._orders[lane] = (order, bounds)
        return found
