"""When a device was busy, over all its streams."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from tracetui.trace.model import DEVICE_WORK, I64, Trace


@dataclass(frozen=True, slots=True, eq=False)
class Busy:
    """The union of intervals, as its pieces in order of time. Nanoseconds."""

    start: I64
    end: I64
    total: I64
    """Running sum of the pieces' lengths before each, and after the last: one longer."""

    @property
    def share(self) -> tuple[int, int]:
        """Busy time, and the time from the first start to the last end."""
        return int(self.total[-1]), int(self.end[-1] - self.start[0]) if len(self.start) else 0

    def within(self, borders: I64) -> I64:
        """Busy nanoseconds of each cell. Shape (len(borders) - 1,)."""
        if not len(self.start):
            return np.zeros(len(borders) - 1, dtype=np.int64)
        begun = np.searchsorted(self.start, borders)
        ahead = self.end[np.maximum(begun - 1, 0)] - borders
        return np.diff(self.total[begun] - np.where(begun > 0, np.maximum(ahead, 0), 0))


def union(start: I64, end: I64) -> Busy:
    """The union of intervals; empty ones are left out."""
    real = end > start
    start, end = start[real], end[real]
    order = np.argsort(start, kind="stable")  # made of sorted lanes: a merge
    start = start[order]
    reach = np.maximum.accumulate(end[order]) if len(end) else end
    begins = np.ones(len(start), dtype=np.bool_)
    begins[1:] = start[1:] > reach[:-1]
    at = np.flatnonzero(begins)
    start = start[at]
    end = reach[np.append(at[1:] - 1, len(reach) - 1)] if len(at) else reach[:0]
    total = np.zeros(len(start) + 1, dtype=np.int64)
    np.cumsum(end - start, out=total[1:])
    return Busy(start, end, total)


def busy_of(trace: Trace) -> dict[int, Busy]:
    """When each device was busy; without any, when any thread was (key -1)."""
    found: dict[int, Busy] = {}
    if len(trace):
        device = np.array([lane.device for lane in trace.lanes], dtype=np.int32)[trace.lane]
        work = trace.is_kind(*DEVICE_WORK) & ~trace.implausible
        for i in np.unique(device[work]).tolist():
            mine = work & (device == i)
            start = trace.start[mine]
            found[i] = union(start, start + trace.duration[mine])
    if not any(i >= 0 for i in found):
        top = (trace.depth == 0) & ~trace.implausible
        found = {-1: union(trace.start[top], trace.start[top] + trace.duration[top])}
    return found


def overall(parts: Iterable[Busy]) -> float:
    """Busy time over the time from first start to last end, over all devices; 0.0 where nothing ran."""
    shares = [part.share for part in parts]
    span = sum(s for _, s in shares)
    return sum(b for b, _ in shares) / span if span else 0.0
