"""What a stream waited for beside the work before it."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from tracetui.analysis.idle.stream_waits import waits_of
from tracetui.analysis.select import name_mask, plausible
from tracetui.trace import Kind, Trace
from tracetui.trace.model import F64, GRAPH_DEPENDENCY, I64, Bool
from tracetui.trace.unrecorded import calls_named

NEAR = 6_000.0
"""Work that starts within this time after the end of other work, and later than all else explains, waited for
it, ns."""
LOOK_BACK = 16
"""How many ends before a start are looked at."""
CLEARLY = 1_000.0
"""How much later, ns."""
_MARK = "Stream Wait Event"


class Order(Protocol):
    """Device events and calls in the order in which the CPU comes to them."""

    is_work: Bool
    lane: I64
    launch: I64
    when: I64
    end: I64


def told_waits(trace: Trace, work: I64) -> tuple[I64, I64]:
    """(device events, what each waits for) as far as the trace says it: by the marks of waits for events, and
    by the dependencies within graphs (slices)."""
    waiter, on = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    if GRAPH_DEPENDENCY in trace.flow_kind:
        mine = trace.flow_category == trace.flow_kind.index(GRAPH_DEPENDENCY)
        waiter.append(trace.flow_to[mine].astype(np.int64))
        on.append(trace.flow_from[mine].astype(np.int64))
    marks = plausible(trace, Kind.SYNC)
    marks = marks[name_mask(trace, _MARK.__eq__, Kind.SYNC)[trace.name[marks]] & (trace.launch[marks] >= 0)]
    if len(marks):
        after = _after(trace, np.sort(trace.start[trace.launch[marks]]), np.sort(work))
        for event, some in zip(after.tolist(), waits_of(trace, after), strict=True):
            waiter.append(np.full(len(some), event))
            on.append(some)
    return np.concatenate(waiter), np.concatenate(on)


def _after(trace: Trace, called: I64, work: I64) -> I64:
    """The device events before which, and after the one before them in their stream, something was called."""
    work = work[trace.launch[work] >= 0]
    count = np.searchsorted(called, trace.start[trace.launch[work]])
    same = np.append(False, trace.lane[work][1:] == trace.lane[work][:-1])
    before = np.where(same, np.append(0, count[:-1]), 0)
    found: I64 = work[count > before]
    return found


def shown_waits(order: Order, start: F64, explained: F64) -> tuple[I64, I64]:
    """(nodes that start later than all else explains, the work of another stream that ended just before)."""
    work = np.flatnonzero(order.is_work)
    return ended_before(order, work, start, work[start[work] > explained[work] + CLEARLY])


def ended_before(order: Order, work: I64, time: F64 | I64, late: I64, near: float = NEAR) -> tuple[I64, I64]:
    """For those of the nodes `late` that have some: (the node, the earlier work of another lane that ended
    last, at most `near` ns before the node's `time`)."""
    by_end = work[np.argsort(order.end[work], kind="stable")]
    at = np.searchsorted(order.end[by_end], time[late], side="right") - 1
    found = np.full(len(late), -1, np.int64)
    for back in range(LOOK_BACK if len(by_end) else 0):
        other = by_end[np.maximum(at - back, 0)]
        right = (found < 0) & (at - back >= 0) & (order.lane[other] != order.lane[late]) & (other < late)
        right &= order.end[other] >= time[late] - near
        found[right] = other[right]
    return late[found >= 0], found[found >= 0]


def asked_waits(trace: Trace, order: Order, start: F64) -> tuple[I64, I64]:
    """Where a call makes a stream wait for an event, but the trace does not say which: (the next work that is
    launched, the work that was launched last before an event was recorded), unless it is of the same stream,
    or the times contradict it."""
    work = np.flatnonzero(order.is_work)
    calls = np.sort(trace.start[calls_named(trace, "StreamWaitEvent")])
    records = np.sort(trace.start[calls_named(trace, "EventRecord")])
    linked = work[order.launch[work] >= 0]
    if not len(calls) or not len(records) or not len(linked):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    launched = order.when[linked]
    after = np.searchsorted(launched, calls)
    recorded = records[np.maximum(np.searchsorted(records, calls) - 1, 0)]
    before = np.searchsorted(launched, recorded) - 1
    there = (after < len(linked)) & (before >= 0)
    waiter, on = linked[np.minimum(after, len(linked) - 1)][there], linked[before[there]]
    right = (order.lane[waiter] != order.lane[on]) & (order.end[on] <= start[waiter]) & (on < waiter)
    return waiter[right], on[right]
