"""Sets of intervals [start, end) in int64 nanoseconds: their union, and how much of it lies in a range."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from tracetui.trace.model import I64, Bool
from tracetui.trace.nesting import LIBRARY

_NO_SLICE = -(1 << 63)
"""What the library returns if a position is invalid."""
_FEW = 16
"""Up to this many times, numpy takes no longer than a call of the library."""


class Intervals(Struct, frozen=True):
    """Disjoint intervals in order of time that do not touch. Arrays of equal length."""

    start: I64
    end: I64
    before: I64
    """`before[i]`: the total length of all intervals before i. One entry more than the others."""

    def __len__(self) -> int:
        return len(self.start)

    @property
    def total(self) -> int:
        """The length of all intervals together, in ns."""
        return int(self.before[-1])

    def until(self, time: I64) -> I64:
        """How much of the union lies before each time, in ns. Shape of `time`."""
        time = np.asarray(time, dtype=np.int64)
        if not len(self.start):
            return np.zeros(time.shape, dtype=np.int64)
        if LIBRARY is not None and time.size > _FEW:
            found, time = np.empty(time.shape, dtype=np.int64), np.ascontiguousarray(time)
            columns = [a.ctypes.data for a in (self.start, self.end, self.before)]
            LIBRARY.until(*columns, len(self.start), time.ctypes.data, time.size, found.ctypes.data)
            return found
        at = np.searchsorted(self.start, time, side="right") - 1
        inside = np.minimum(time, self.end[at]) - self.start[at]
        return np.where(at >= 0, self.before[at] + inside, 0)

    def overlap(self, start: I64, end: I64) -> I64:
        """How much of the union lies in each [start, end), in ns; 0 if end <= start. Shape of `start`."""
        inside: I64 = self.until(end) - self.until(start)
        return np.maximum(inside, 0)

    def time_in(self, start: int, end: int) -> int:
        """How much of the union lies in [start, end), in ns."""
        return int(self.overlap(np.array([start]), np.array([end]))[0])

    def idle(self, borders: I64) -> I64:
        """For each cell between sorted `borders`: how much of it lies within the union's span but not in the
        union, in ns. One shorter than `borders`."""
        if not len(self.start):
            return np.zeros(max(0, len(borders) - 1), dtype=np.int64)
        inside = np.clip(borders, self.start[0], self.end[-1])
        return np.diff(inside - self.until(inside))

    def holds(self, time: I64) -> Bool:
        """Which of these times lie in an interval. Shape of `time`."""
        begun = np.searchsorted(self.start, time, side="right")
        return np.asarray(begun > np.searchsorted(self.end, time, side="right"), dtype=np.bool_)


EMPTY = Intervals(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(1, np.int64))
"""The union of no intervals."""


class StackedIntervals(Struct, frozen=True):
    """The sum of several sets of intervals: what is in two of them counts twice. Arrays of one length."""

    start: I64
    """Sorted by itself, like `end`."""
    end: I64
    starts: I64
    """`starts[i]`: the sum of the first i of `start`. One entry more than the others. Even if such sums
    overflow, their differences are right."""
    ends: I64

    def until(self, time: I64) -> I64:
        """How much lies before each time, in ns. Shape of `time`."""
        time = np.asarray(time, dtype=np.int64)
        begun, over = np.searchsorted(self.start, time), np.searchsorted(self.end, time)
        return (begun - over) * time - (self.starts[begun] - self.ends[over])

    def overlap(self, start: I64, end: I64) -> I64:
        """How much lies in each [start, end), in ns; 0 if end <= start. Shape of `start`."""
        inside: I64 = self.until(end) - self.until(start)
        return np.maximum(inside, 0)


def sum_of(sets: Sequence[tuple[I64, I64]]) -> StackedIntervals:
    """The `StackedIntervals` of sets of intervals, given as (starts, ends)."""
    none = np.zeros(0, np.int64)
    start, end = (np.sort(np.concatenate([none, *some])) for some in zip(*sets, (none, none), strict=True))
    return StackedIntervals(start, end, *(np.concatenate([[0], np.cumsum(at)]) for at in (start, end)))


def union(start: I64, end: I64) -> Intervals:
    """The union of intervals in any order. Those that touch are merged; an empty one stays separate."""
    if not len(start):
        return EMPTY
    if LIBRARY is None:
        return _by_numpy(start, end)
    start, end = (np.ascontiguousarray(times, dtype=np.int64) for times in (start, end))
    made = _room(len(start))
    count = LIBRARY.unite(start.ctypes.data, end.ctypes.data, len(start), *(a.ctypes.data for a in made))
    return _made(count, *made)


def of_pairs(ends: Sequence[tuple[int, int]]) -> Intervals:
    """The union of intervals given as (start, end) each."""
    start, end = np.array(ends, dtype=np.int64).reshape(-1, 2).T
    return union(start, end)


def union_of(start: I64, duration: I64, at: I64) -> Intervals:
    """The union of the intervals at the positions `at` of two columns."""
    at = np.ascontiguousarray(at, dtype=np.int64)
    if LIBRARY is not None and len(at) and start.flags.c_contiguous and duration.flags.c_contiguous:
        made = _room(len(at))
        columns = start.ctypes.data, duration.ctypes.data, len(start), at.ctypes.data, len(at)
        count = LIBRARY.unite_slices(*columns, *(a.ctypes.data for a in made))
        if count > _NO_SLICE:
            return _made(count, *made)
    begin = start[at]
    return union(begin, begin + duration[at])


def _room(count: int) -> list[I64]:
    """Arrays with room for this many intervals. What is not used takes no memory."""
    return [np.empty(count + more, dtype=np.int64) for more in (0, 0, 1)]


def _made(count: int, start: I64, end: I64, before: I64) -> Intervals:
    """The library's result. If the intervals were out of order, such as those of several lanes, it is the
    union of each run that is in order, still to be merged."""
    if count >= 0:
        return Intervals(start[:count], end[:count], before[: count + 1])
    return union(*in_order(start[: -1 - count], end[: -1 - count]))


def in_order(start: I64, end: I64) -> tuple[I64, I64]:
    """Intervals by their start."""
    order = np.argsort(start, kind="stable")
    return start[order], end[order]


def all_of(unions: Sequence[Intervals]) -> Intervals:
    """The union of several unions; if only one is not empty, that one itself."""
    some = [one for one in unions if len(one)]
    while len(some) > 1:  # merged in pairs: each interval is looked at once per doubling
        some = [_both(*some[at : at + 2]) for at in range(0, len(some), 2)]
    return some[0] if some else EMPTY


def _both(one: Intervals, other: Intervals = EMPTY) -> Intervals:
    """What either of two unions covers."""
    if not len(other):
        return one
    if LIBRARY is None:
        times = (np.concatenate([getattr(each, at) for each in (one, other)]) for at in ("start", "end"))
        return _by_numpy(*times)
    made = _room(len(one) + len(other))
    first, second = ([each.start.ctypes.data, each.end.ctypes.data, len(each)] for each in (one, other))
    return _made(LIBRARY.unite_both(*first, *second, *(a.ctypes.data for a in made)), *made)


def _by_numpy(start: I64, end: I64) -> Intervals:
    if not bool(np.all(start[1:] >= start[:-1])):
        start, end = in_order(start, end)
    reach = np.maximum.accumulate(end)
    opens = np.ones(len(start), dtype=np.bool_)
    opens[1:] = start[1:] > reach[:-1]
    first = np.flatnonzero(opens)
    starts = start[first]
    ends = reach[np.append(first[1:], len(start)) - 1]
    return Intervals(starts, ends, np.concatenate([np.zeros(1, np.int64), np.cumsum(ends - starts)]))
