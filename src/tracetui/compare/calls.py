"""The calls of one side as a tree, and how much each adds to a round's time on the CPU."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetui.analysis.calls.ancestors import first_marked
from tracetui.analysis.calls.sums import sum_into
from tracetui.analysis.idle.cpu_time import blocking_copies, is_synchronizing
from tracetui.analysis.select import name_mask
from tracetui.analysis.steps.loading import loading_time
from tracetui.analysis.steps.scope import step_table_of
from tracetui.compare.sides import Side
from tracetui.trace.intervals import EMPTY, Intervals, union
from tracetui.trace.model import I32, I64, Bool, Kind

MOST_THREADS = 32


@dataclass(frozen=True, slots=True, eq=False)
class CallTree:
    """The calls of a side (`Side.calls`); every array has one entry per call, in that order. Times in ns."""

    at: I64
    """Slices."""
    parent: I64
    """Position of the parent; -1 for none."""
    end: I64
    """The position after a call's last descendant."""
    self_time: I64
    """Time without the calls inside it. 0 for annotations: the time that is in none of their calls is Python,
    and where there are no annotations nothing is known about that."""
    own: I64
    """The part of the self time that adds to the round: the time when no earlier thread in the order was in a
    call (the thread with the steps comes first). 0 for threads that launch nothing."""
    before: I64
    """Time just before this call in which none of those threads was in any call and no data was being
    loaded."""
    since: I64
    """Position of the outermost call that began before that time; -1 if there is none, or if `before` is
    0."""
    waits: Bool
    """Whether the call waits for the device, or for a copy that it makes itself."""
    round: I64
    place: I32
    """Position of each slice of the trace, -1 if it is not a call. One more entry at the end, for slice
    -1."""

    def under(self, tops: I32 | I64) -> I64:
        """For each call, the index in `tops` of the outermost one that is this call or contains it, or -1.
        `tops`: positions, ascending."""
        found = np.full(len(self.at), -1, dtype=np.int64)
        reach = np.maximum.accumulate(self.end[tops]) if len(tops) else tops
        outer = np.ones(len(tops), dtype=np.bool_)
        outer[1:] = tops[1:] >= reach[:-1]
        which = np.flatnonzero(outer)
        place = np.searchsorted(tops[which], np.arange(len(self.at)), side="right") - 1
        inside = place >= 0
        inside[inside] = np.flatnonzero(inside) < self.end[tops[which[place[inside]]]]
        found[inside] = which[place[inside]]
        return found


def call_tree(side: Side) -> CallTree:
    """The tree of a side's calls."""
    trace, at = side.trace, side.calls
    place = np.full(len(trace) + 1, -1, dtype=np.int32)
    place[at] = np.arange(len(at))
    parent = place[first_marked(trace, trace.parent[at], place[:-1] >= 0)].astype(np.int64)
    start, duration = trace.start[at], trace.duration[at]
    end = start + duration

    def without_children(of: I64, low: int = 0) -> I64:
        """`of` minus what the children have; `of` begins at position `low`, the first of a lane."""
        above = parent[low : low + len(of)]
        inner = above >= 0
        return of - sum_into(above[inner] - low, of[inner], len(of))

    self_time = without_children(duration)
    own = np.zeros(len(at), dtype=np.int64)
    covered: Intervals = EMPTY
    tops: list[I64] = []
    for lane in _on_the_way(side):
        low, high = np.searchsorted(at, (trace.lanes[lane].first, trace.lanes[lane].last)).tolist()
        own[low:high] = self_time[low:high]
        if len(covered):
            own[low:high] -= without_children(covered.overlap(start[low:high], end[low:high]), low)
        top = np.flatnonzero(parent[low:high] < 0) + low
        covered = union(
            *(np.concatenate(one) for one in ((covered.start, start[top]), (covered.end, end[top])))
        )
        tops.append(top)
    self_time[trace.kind[at] == Kind.ANNOTATION] = 0
    waits = name_mask(trace, is_synchronizing)[trace.name[at]]
    waits |= np.isin(at, blocking_copies(trace, side.work[trace.launch[side.work] >= 0], 1)[0])
    return CallTree(
        at, parent, _ends(trace.lane[at], start, end), self_time, own,
        *_before(side, np.sort(np.concatenate([at[:0], *tops])), start, covered),
        waits, side.call_round, place,
    )  # fmt: skip


def _on_the_way(side: Side) -> list[int]:
    """The threads whose calls make up a round: those that launch (all, if none does). The steps' thread comes
    first."""
    trace = side.trace
    launch = trace.launch[side.work]
    lanes = trace.lane[launch[launch >= 0]] if (launch >= 0).any() else trace.lane[side.calls]
    which, count = np.unique(lanes, return_counts=True)
    table = step_table_of(side.part)
    main = int(trace.lane[table.event[0]]) if len(table) else -1
    order = sorted(
        zip(which.tolist(), count.tolist(), strict=True), key=lambda one: (one[0] != main, -one[1])
    )
    found = [lane for lane, _ in order]
    return ([main] if main >= 0 and main not in found else []) + found[:MOST_THREADS]


def _ends(lane: I32, start: I64, end: I64) -> I64:
    """The position after each call's last descendant: the first later call in its lane that starts at or
    after its end."""
    ends = np.arange(1, len(lane) + 1)
    borders = np.flatnonzero(np.diff(lane)) + 1
    around = np.flatnonzero((end[:-1] > start[1:]) & (lane[:-1] == lane[1:]))  # most contain nothing
    splits = np.searchsorted(around, borders)
    for low, high, some in zip([0, *borders], [*borders, len(lane)], np.split(around, splits), strict=True):
        ends[some] = np.searchsorted(start[low:high], end[some], side="left") + low
    return ends


def _before(side: Side, tops: I64, start: I64, covered: Intervals) -> tuple[I64, I64]:
    """The time between the stretches in `covered`, without data loading, assigned to the call that ends it;
    and the outermost call before it. `tops`: the outermost calls that cover (positions, in order)."""
    found, before = np.zeros(len(start), dtype=np.int64), np.full(len(start), -1, dtype=np.int64)
    if not len(covered):
        return found, before
    order = tops[np.argsort(start[tops], kind="stable")]
    first = np.searchsorted(start[order], covered.start)
    opener = order[first]
    (low, _), round_ = side.windows, side.call_round
    since = np.maximum(np.append(low[round_[opener[:1]]], covered.end[:-1]), low[round_[opener]])
    until = np.maximum(covered.start, since)
    found[opener] = until - since - loading_time(side.part).overlap(since, until)
    before[opener[1:]] = order[first[1:] - 1]
    return found, before
