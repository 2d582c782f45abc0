"""The CPU as one thread: the one that drives, and what others do while it waits for them.

While the main thread is in `backward()`, the thread of autograd launches the work. Its bursts count as the
main thread's time: each lies in a stretch in which the main thread begins and ends nothing. So the CPU does
one thing at a time, and a change of one thing moves all that comes later.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from tracetui.analysis.calls.ancestors import deepest_at
from tracetui.analysis.select import name_mask, plausible
from tracetui.analysis.steps.scope import find_steps
from tracetui.trace import DEVICE_WORK, Kind, Trace
from tracetui.trace.intervals import EMPTY, Intervals, all_of, union
from tracetui.trace.model import I64, Bool

_BACKWARD = "autograd::engine::evaluate_function"
_OF_CPU = (Kind.CPU_OP, Kind.ANNOTATION, Kind.PYTHON, Kind.RUNTIME)
MUCH = 0.05
"""A thread is alone if more of its time than this is in no wait of the main thread."""

MANY = 64
"""Further threads than this are alone."""


class Driver(Struct, frozen=True, eq=False):
    """Which thread drives when."""

    lane: int
    """The main thread, -1 for none."""
    bursts: dict[int, Intervals]
    """By lane: when another thread drives."""
    alone: Bool
    """By lane: threads with launches or backward functions that are not all in a wait of the main thread, or
    run beside another such thread."""

    def drives(self, trace: Trace, at: I64) -> Bool:
        """Which slices are on a thread that drives when they begin. Shape of `at`."""
        lane, start = trace.lane[at], trace.start[at]
        found = lane == self.lane
        for other, bursts in self.bursts.items():
            mine = np.flatnonzero(lane == other)
            found[mine] = within(bursts, start[mine])
        return np.asarray(found, np.bool_)


def within(some: Intervals, time: I64) -> Bool:
    """Which times are in a union."""
    if not len(some):
        return np.zeros(len(time), np.bool_)
    at = np.searchsorted(some.start, time, side="right") - 1
    return np.asarray((at >= 0) & (time < some.end[np.maximum(at, 0)]), np.bool_)


def among(trace: Trace, at: I64) -> Bool:
    """Mask over the slices of a trace, and, at -1, over none."""
    mask = np.zeros(len(trace) + 1, np.bool_)
    mask[at] = True
    mask[-1] = False
    return mask


def drive(trace: Trace, waits: I64) -> Driver:
    """What drives. `waits`: calls during which nothing of another thread is in the main thread's way."""
    work = plausible(trace, *DEVICE_WORK)
    launch = trace.launch[work]
    launches = np.bincount(trace.lane[launch[launch >= 0]], minlength=len(trace.lanes))
    threads = np.array([lane.kind == "thread" for lane in trace.lanes], np.bool_)
    main, bursts = _main(trace, launches, threads), dict[int, Intervals]()
    alone = np.zeros(len(trace.lanes), np.bool_)
    if main < 0:
        return Driver(main, bursts, alone)
    backward = np.zeros(len(trace.lanes), np.bool_)
    at = plausible(trace, Kind.CPU_OP)
    backward[trace.lane[at[name_mask(trace, lambda name: name.startswith(_BACKWARD))[trace.name[at]]]]] = True
    process, taken = trace.lanes[main].process, EMPTY
    others = [
        lane
        for lane in np.flatnonzero(threads & (backward | (launches > 0))).tolist()
        if lane != main and trace.lanes[lane].process == process
    ]
    alone[others[MANY:]] = True
    for lane in others[:MANY]:
        mine, alone[lane] = _bursts(trace, main, lane, waits)
        if int(mine.overlap(taken.start, taken.end).sum()) > MUCH * mine.total:
            alone[lane] = True  # beside another one
            continue
        bursts[lane], taken = mine, all_of((taken, mine))
    return Driver(main, bursts, alone)


def _main(trace: Trace, launches: I64, threads: Bool) -> int:
    """The thread that the steps are on; else the one that launches most; else the one with most slices."""
    steps = find_steps(trace)
    if len(steps) and threads[on := int(trace.lane[steps.event[0]])]:
        return on
    sizes = np.array([lane.last - lane.first for lane in trace.lanes], np.int64)
    many = launches if (launches * threads).any() else sizes
    return int(np.argmax(many * threads)) if (many * threads).any() else -1


def _bursts(trace: Trace, main: int, lane: int, waits: I64) -> tuple[Intervals, bool]:
    """(when a thread drives; whether much of its time is in no wait of the main thread)."""
    this, first = trace.lanes[lane], trace.lanes[main]
    rows = slice(this.first, this.last)
    top = (trace.parent[rows] < 0) & trace.is_kind(*_OF_CPU, of=rows) & ~trace.implausible[rows]
    at = np.flatnonzero(top) + this.first
    every = union(trace.start[at], trace.end_of(at))
    around = deepest_at(trace, np.full(len(every), main), every.start)
    begins = trace.start[first.first : first.last]
    none = np.searchsorted(begins, every.start, side="right") == np.searchsorted(begins, every.end)
    over = np.where(around >= 0, trace.end_of(around), np.iinfo(np.int64).max)
    fits = none & (every.end <= over) & ~among(trace, waits)[around]
    mine = union(every.start[fits], every.end[fits])
    return mine, mine.total < (1 - MUCH) * every.total
