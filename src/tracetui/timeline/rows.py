"""The rows of a trace's lanes as sorted arrays, built on first use."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetui.trace.model import I32, I64, Trace


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """The slices of one row by time; they never overlap. Arrays of length n, nanoseconds."""

    lane: int
    depth: int
    index: I32
    """Slices, ascending."""
    start: I64
    reach: I64
    """End of the slice, at least 1 ns after its start: where it stops touching cells."""
    total: I64
    """Running sum of the durations before each slice, and after the last. Shape (n + 1,)."""
    name: I32

    def __len__(self) -> int:
        return len(self.index)

    def busy_before(self, times: I64) -> tuple[I64, I64]:
        """For sorted times: the number of slices that start before each, and the busy ns before each."""
        begun = np.searchsorted(self.start, times)
        last = np.maximum(begun - 1, 0)
        ahead = self.start[last] + (self.total[last + 1] - self.total[last]) - times
        return begun, self.total[begun] - np.where(begun > 0, np.maximum(ahead, 0), 0)


class Rows:
    """All rows of a trace, each built once on first use."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self._rows: dict[tuple[int, int], Row] = {}
        self._orders: dict[int, tuple[I32, I64]] = {}

    def row(self, lane: int, depth: int) -> Row:
        """A row of a lane; empty if the lane has no such depth."""
        found = self._rows.get((lane, depth))
        if found is None:
            found = self._rows[lane, depth] = self._make(lane, depth)
        return found

    def _make(self, lane: int, depth: int) -> Row:
        trace = self.trace
        first, last = trace.lanes[lane].first, trace.lanes[lane].last
        if trace.lanes[lane].rows <= 1 and depth == 0:
            index = np.arange(first, last, dtype=np.int32)
        else:
            order, bounds = self._order(lane)
            index = order[bounds[depth] : bounds[depth + 1]] if depth < len(bounds) - 1 else order[:0]
        start = trace.start[index]
        duration = np.maximum(trace.duration[index], 0)
        total = np.zeros(len(index) + 1, dtype=np.int64)
        np.cumsum(duration, out=total[1:])
        return Row(lane, depth, index, start, start + np.maximum(duration, 1), total, trace.name[index])

    def _order(self, lane: int) -> tuple[I32, I64]:
        """A lane's slices by depth, in order of time within each, and where each depth begins."""
        found = self._orders.get(lane)
        if found is None:
            trace = self.trace
            first, last = trace.lanes[lane].first, trace.lanes[lane].last
            depth = trace.depth[first:last]
            deepest = int(depth.max(initial=0))
            # A stable sort of 16-bit numbers is a radix sort: one pass over the lane.
            narrow = depth.astype(np.uint16) if deepest < 1 << 16 else depth
            order = (np.argsort(narrow, kind="stable") + first).astype(np.int32)
            bounds = np.zeros(deepest + 2, dtype=np.int64)
            np.cumsum(np.bincount(depth, minlength=deepest + 1), out=bounds[1:])
            found = self._orders[lane] = (order, bounds)
        return found
