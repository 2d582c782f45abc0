"""The slices around a slice or an instant of a thread, found for many at once."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from tracetui.analysis.calls.nesting import top_of
from tracetui.analysis.part import Part
from tracetui.analysis.select import OLD_OPERATOR, name_mask, op_names
from tracetui.core.threads import map_blocks
from tracetui.trace import Kind, Trace
from tracetui.trace.indices import group_positions
from tracetui.trace.intervals import union
from tracetui.trace.model import I32, I64, Bool, cached_on_trace

_LEVELS = 64
"""How many levels are tried one by one, which is fast unless a trace is deeper."""
Accept = Callable[[I64, I64], Bool]
"""Takes (slices, their positions in the caller's arrays) and returns a mask of the slices to stop at."""


def blocks_of_slices(trace: Trace) -> int:
    """How many slices to look around at a time, see `map_blocks`: all of them if the trace is so deep that
    each block would take a pass over it."""
    return 1 << 16 if _deepest(trace) < _LEVELS else len(trace)


@cached_on_trace
def _deepest(trace: Trace) -> int:
    return int(trace.depth.max(initial=0))


def deepest_at(trace: Trace, lane: I64, time: I64) -> I64:
    """For each (lane, time) the innermost slice with start <= time < end, or -1; -1 too for lane -1.

    Shapes (n,). Follows `Trace.parent`, so it is exact where a lane's slices nest.
    """
    found = np.full(len(time), -1, dtype=np.int64)
    for i, mine in group_positions(lane, len(trace.lanes)):
        if i < 0:
            continue
        this = trace.lanes[i]
        at = np.searchsorted(trace.start[this.first : this.last], time[mine], side="right") - 1
        found[mine] = np.where(at >= 0, at + this.first, -1)
    return first_up(trace, found, lambda at, of: trace.end_of(at) > time[of], steady=True)


def first_up(trace: Trace, at: I64 | I32, accept: Accept, steady: bool = False) -> I64:
    """For each slice of `at`: the first of itself, its parent, ... that `accept` takes, or -1. Shape (n,).

    `steady`: promises that whatever is around an accepted slice would be accepted too, so that thousands of
    levels need not be tried one by one.
    """
    found = at.astype(np.int64)
    active = np.flatnonzero(found >= 0)
    for level in itertools.count():
        if not len(active) or (steady and level == _LEVELS):
            break
        taken = accept(found[active], active)
        active = active[~taken]
        found[active] = trace.parent[found[active]]
        active = active[found[active] >= 0]
    if len(active):
        active = active[~accept(found[active], active)]
        for up in reversed(_leaps(trace.parent)):
            higher = up[found[active]].astype(np.int64)
            rise = np.flatnonzero(higher >= 0)
            rise = rise[~accept(higher[rise], active[rise])]
            found[active[rise]] = higher[rise]
        found[active] = trace.parent[found[active]]
    return found


def first_marked(trace: Trace, at: I64 | I32, marked: Bool) -> I64:
    """For each slice of `at`: the first of itself, its parent, ... that is `marked`, or -1. Shape (n,)."""
    if not len(at) or _deepest(trace) < _LEVELS:
        return first_up(trace, at, lambda up, _: marked[up])
    top = top_of(trace.parent.astype(np.int64), ~marked)
    return np.where(at >= 0, top[at], -1)


def _leaps(parent: I32) -> list[I32]:
    """The ancestors 1, 2, 4, ... levels up, -1 beyond a root. Each of shape (slices,)."""
    leaps = [parent]
    while (leaps[-1] >= 0).any():
        last = leaps[-1]
        leaps.append(np.where(last >= 0, last[last], np.int32(-1)))
    return leaps


def op_around(trace: Trace, at: I64 | I32) -> I64:
    """The innermost CPU op around each slice, -1 for none. Shape of `at`."""
    op, around = int(Kind.CPU_OP), trace.parent[at]  # see `Trace.is_kind`
    if OLD_OPERATOR in trace.categories:
        return first_marked(trace, around, (trace.kind == op) & op_names(trace)[trace.name])
    if _deepest(trace) >= _LEVELS:
        return first_marked(trace, around, trace.kind == op)
    found = np.empty(len(around), dtype=np.int64)

    def look(some: slice) -> None:
        found[some] = first_up(trace, around[some], lambda up, _: trace.kind[up] == op)

    map_blocks(len(around), look)
    return found


def any_inside(trace: Trace, some: I64, at: I64) -> Bool:
    """Mask: which of the slices `at` have one of `some` (sorted) beginning inside them on the same lane.
    Shape of `at`."""
    inside = np.zeros(len(at), dtype=np.bool_)

    def look(part: slice) -> None:
        mine = at[part]
        following = np.searchsorted(some, mine, side="right")
        found = some[np.minimum(following, len(some) - 1)]
        early = trace.start[found] < trace.end_of(mine)
        inside[part] = early & (trace.lane[found] == trace.lane[mine]) & (following < len(some))

    if len(some):
        map_blocks(len(at), look)
    return inside


def children_of(trace: Trace, at: I64) -> I64:
    """The slices whose parent is one of the slices `at`, in order. Looks at everything that starts within
    those."""
    stop = np.empty(len(at), dtype=np.int64)
    over = trace.start[at] + np.maximum(trace.duration[at], 1)
    for lane, mine in group_positions(trace.lane[at], len(trace.lanes)):
        first = trace.lanes[lane].first
        stop[mine] = first + np.searchsorted(trace.start[first : trace.lanes[lane].last], over[mine])
    wanted = np.zeros(len(trace) + 1, dtype=np.bool_)  # the last entry is for -1
    wanted[at] = True
    inside = union(at + 1, stop)
    parts = zip(inside.start.tolist(), inside.end.tolist(), strict=True)
    found = [low + np.flatnonzero(wanted[trace.parent[low:high]]) for low, high in parts]
    return np.concatenate([np.zeros(0, np.int64), *found])


def covering(trace: Trace, lane: I64, start: I64, end: I64) -> I64:
    """For each lane and [start, end): the innermost slice that covers at least half of it, or -1.

    Such a slice contains the interval's middle, so only the slices around the middle are tried.
    """
    middle = start + (end - start) // 2
    inner = deepest_at(trace, np.where(end > start, lane, -1), middle)

    def covers(at: I64, of: I64) -> Bool:
        low = np.maximum(trace.start[at], start[of])
        high = np.minimum(trace.end_of(at), end[of])
        return np.asarray(2 * (high - low) >= end[of] - start[of], dtype=np.bool_)

    return first_up(trace, inner, covers, steady=True)


def outermost_op(part: Part, op: I64) -> I64:
    """What the program called of these ops: the outermost op of ATen around each, or the op itself. -1 for
    -1."""
    trace, found = part.trace, op.copy()
    aten, above = name_mask(part.trace, lambda name: name.startswith("aten::")), op_around(trace, op)
    while len(inner := np.flatnonzero((above >= 0) & aten[trace.name[above]])):
        found[inner] = above[inner]
        above = np.full(len(op), -1, dtype=np.int64)
        above[inner] = op_around(trace, found[inner])
    return found
