"""What a thread was doing at a time: the slices around an instant, found for many instants at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tracetui.trace import Trace
from tracetui.trace.model import I64, Bool

Accept = Callable[[I64, I64], Bool]
"""Takes (slices, their positions in the caller's arrays) and says which of them to stop at."""


def deepest_at(trace: Trace, lane: I64, time: I64) -> I64:
    """The innermost slice of each lane that holds each time (start <= time < end), -1 for none or for lane
    -1.

    Shapes (n,). Along `Trace.parent`: exact on lanes whose slices nest.
    """
    found = np.full(len(time), -1, dtype=np.int64)
    for i in np.unique(lane[lane >= 0]):
        this = trace.lanes[int(i)]
        mine = np.flatnonzero(lane == i)
        at = np.searchsorted(trace.start[this.first : this.last], time[mine], side="right") - 1
        found[mine] = np.where(at >= 0, at + this.first, -1)
    return climb_to(trace, found, lambda at, of: trace.start[at] + trace.duration[at] > time[of])


def climb_to(trace: Trace, at: I64, accept: Accept) -> I64:
    """From each slice of `at` up along `Trace.parent` to the first that `accept` takes, or -1."""
    found = at.astype(np.int64)
    active = np.flatnonzero(found >= 0)
    while len(active):
        taken = accept(found[active], active)
        active = active[~taken]
        found[active] = trace.parent[found[active]]
        active = active[found[active] >= 0]
    return found


def covering(trace: Trace, lane: I64, start: I64, end: I64) -> I64:
    """The innermost slice of each lane that covers at least half of each [start, end), -1 where none does.

    A slice that covers half of a stretch holds its middle: it is among the slices around that.
    """
    middle = start + (end - start) // 2
    inner = deepest_at(trace, np.where(end > start, lane, -1), middle)

    def covers(at: I64, of: I64) -> Bool:
        low = np.maximum(trace.start[at], start[of])
        high = np.minimum(trace.start[at] + trace.duration[at], end[of])
        return np.asarray(2 * (high - low) >= end[of] - start[of], dtype=np.bool_)

    return climb_to(trace, inner, covers)
