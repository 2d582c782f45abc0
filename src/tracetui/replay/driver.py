"""The CPU as one thread: the one that drives, and what others do while it waits for them.

While the main thread is in `backward()`, the thread of autograd launches the work. Its bursts take the place
of the piece of the main thread in which they lie, so that the CPU does one thing at a time, and a change of
one thing moves all that comes later.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from tracetui.analysis.select import named, plausible
from tracetui.replay.engine import innermost
from tracetui.trace import DEVICE_WORK, Kind, Trace
from tracetui.trace.model import I64, Bool

OF_CPU = (Kind.CPU_OP, Kind.ANNOTATION, Kind.PYTHON, Kind.RUNTIME)
_BACKWARD = "autograd::engine::evaluate_function"


class Driver(Struct, frozen=True):
    """From `moment[i]` to `moment[i + 1]`, the CPU is in slice `owner[i]`, and in none that this one
    contains. The first moment is the trace's beginning, and the last one its end."""

    moment: I64
    owner: I64
    """-1 for none: one shorter than `moment`."""
    lane: int
    """The thread that drives, -1 for none."""
    alone: Bool
    """By lane: threads with launches or backward functions that are not all in a wait of the main thread."""

    def split(self, at: I64) -> Driver:
        """The same with further moments."""
        moment = np.unique(np.concatenate([self.moment, np.clip(at, self.moment[0], self.moment[-1])]))
        place = np.searchsorted(self.moment, moment[:-1], side="right") - 1
        return Driver(moment, self.owner[place], self.lane, self.alone)


def drive(trace: Trace, waits: I64) -> Driver:
    """What the CPU does when. `waits`: calls during which nothing of another thread is in its way."""
    low, high = trace.span
    work = plausible(trace, *DEVICE_WORK)
    launch = trace.launch[work]
    launches = np.bincount(trace.lane[launch[launch >= 0]], minlength=len(trace.lanes))
    every = np.array([lane.kind == "thread" for lane in trace.lanes], np.bool_)
    main = _main(trace, launches, every)
    alone = np.zeros(len(trace.lanes), np.bool_)
    if main < 0:
        return Driver(np.array([low, high]), np.array([-1]), -1, alone)
    moment, owner = _pieces(trace, main)
    moment, owner = np.append(low, moment), np.append(-1, owner)
    backward = np.zeros(len(trace.lanes), np.bool_)
    at = plausible(trace, Kind.CPU_OP)
    backward[trace.lane[at[named(trace, lambda name: name.startswith(_BACKWARD))[trace.name[at]]]]] = True
    is_wait = np.zeros(len(trace) + 1, np.bool_)
    is_wait[waits] = True
    process = trace.lanes[main].process
    for lane in np.flatnonzero(every & (backward | (launches > 0))).tolist():
        if lane != main and trace.lanes[lane].process == process:
            moment, owner, left = _spliced(trace, moment, owner, lane, is_wait)
            alone[lane] = left
    keep = np.append(np.diff(moment) > 0, True)
    moment, owner = moment[keep], owner[keep]
    inside = moment < high
    return Driver(np.append(moment[inside], high), owner[inside], main, alone)


def _main(trace: Trace, launches: I64, every: Bool) -> int:
    """The thread that the steps are on; else the one that launches most; else the one with most slices."""
    from tracetui.analysis.steps.scope import find_steps

    steps = find_steps(trace)
    if len(steps):
        on = int(trace.lane[steps.event[0]])
        if every[on]:
            return on
    if (launches * every).any():
        return int(np.argmax(launches * every))
    sizes = np.array([lane.last - lane.first for lane in trace.lanes], np.int64) * every
    return int(np.argmax(sizes)) if sizes.any() else -1


def _pieces(trace: Trace, lane: int) -> tuple[I64, I64]:
    this = trace.lanes[lane]
    at = np.arange(this.first, this.last)
    at = at[trace.is_kind(*OF_CPU, of=slice(this.first, this.last)) & ~trace.implausible[at]]
    moment, owner = innermost(trace.start[at], trace.start[at] + trace.duration[at])
    return moment, np.where(owner >= 0, at[owner] if len(at) else -1, -1)


def _spliced(trace: Trace, moment: I64, owner: I64, lane: int, is_wait: Bool) -> tuple[I64, I64, bool]:
    """The pieces with those of another thread that lie in one of them; and whether much of that thread's time
    does not."""
    its, whose = _pieces(trace, lane)
    if not len(its):
        return moment, owner, False
    opens = np.flatnonzero((whose >= 0) & (np.append(-1, whose[:-1]) < 0))
    closes = np.flatnonzero((whose < 0) & (np.append(-1, whose[:-1]) >= 0))
    begin, end = its[opens], its[closes]
    at = np.searchsorted(moment, begin, side="right") - 1
    after = np.append(moment, np.iinfo(np.int64).max)[at + 1]
    fits = (at >= 0) & (end <= after) & ~is_wait[owner[at]]
    burst = np.searchsorted(opens, np.arange(len(its)), side="right") - 1
    mine = (whose >= 0) & fits[burst]
    moments = np.concatenate([end[fits], moment, its[mine]])
    owners = np.concatenate([owner[at[fits]], owner, whose[mine]])
    order = np.lexsort((np.repeat([0, 1, 2], [int(fits.sum()), len(moment), int(mine.sum())]), moments))
    left = int((end - begin)[~fits].sum())
    return moments[order], owners[order], left > 0.05 * int((end - begin).sum())
