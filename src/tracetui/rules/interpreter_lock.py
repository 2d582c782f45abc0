"""The rule on threads that wait for Python's interpreter lock."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tracetui.analysis.idle.gaps import lane_calls_of
from tracetui.analysis.part import Part
from tracetui.analysis.steps.scope import slices_of
from tracetui.analysis.verdicts import base_of
from tracetui.rules.claims import Claims, Count, Share, Time, says
from tracetui.rules.model import HIGH, MEDIUM, Finding, build_finding, first_to_end
from tracetui.trace import Kind
from tracetui.trace.intervals import Intervals
from tracetui.trace.model import I64
from tracetui.trace.slices import Slices

TURN_NS = 5_000_000
"""A thread that asks for the lock gets it after so long at the latest, if the other one is in Python code:
CPython's default (`sys.getswitchinterval`)."""
OVER = 0.08
"""How much later, of that."""
SHORT = 0.02
MOST_TURNS = 4
LONG_NS = 3_000_000
MANY, NEARLY_ALL, PLACES = 20, 0.8, 5
"""So many stretches of whole turns, this share of all that are long, after so many different events."""


def interpreter_lock(part: Part) -> Iterator[Finding]:
    """The thread that calls ops stands still for 5 ms, or 10 or 15, here and there and everywhere."""
    trace = part.trace
    kinds = [slices_of(part, kind).at for kind in (Kind.CPU_OP, Kind.RUNTIME)]
    before, length = kinds[0][:0], kinds[0][:0]
    for lane, busy in lane_calls_of(part).items():
        if len(busy) <= MANY:  # too few to have as many stretches between them
            continue
        after, waited = _turns(busy)
        if len(after) >= max(MANY, len(before) + 1):
            this = trace.lanes[lane]
            parts = [at[slice(*np.searchsorted(at, (this.first, this.last)))] for at in kinds]
            before, length = first_to_end(trace, parts, after), waited
    names = np.unique(trace.name[before])
    if len(before) < MANY or len(names) < PLACES:
        return
    time, span = int(length.sum()), part.length
    fraction = time / span if span else 0.0
    if fraction < MEDIUM:
        return
    stretches = Slices(trace, before[np.argsort(-length, kind="stable")])
    yield build_finding(
        "interpreter_lock",
        "high" if fraction >= HIGH else "medium",
        {
            "share": Share(time, span, base_of(part)),
            "stretches": Count(len(before)),
            "waited_ns": Time(time),
            "names": Count(len(names)),
        },
        stretches,
        "share stretches waited_ns",
    )


@says("interpreter_lock")
def _interpreter_lock(c: Claims) -> tuple[str, str, str]:
    return (
        f"Most likely another Python thread holds the interpreter lock: {c.share}",
        f"{c.stretches:time} the thread that calls the ops does nothing for about 5 ms, or 10 ms, or 15, "
        f"{c.waited_ns} in all, after events of {c.names} names. That is how long CPython lets a thread run "
        "before it has to hand over the lock (sys.getswitchinterval).",
        "Look for threads that compute in Python: monitoring, loading, preprocessing (py-spy dump shows "
        "them). Move that work to another process.",
    )


def _turns(busy: Intervals) -> tuple[I64, I64]:
    """(where each stretch of whole turns in which a lane is not busy begins, its length in ns); none where
    other stretches are as long."""
    start, length = busy.end[:-1], busy.start[1:] - busy.end[:-1]
    start, length = start[length >= LONG_NS], length[length >= LONG_NS]
    turns = np.rint(length / TURN_NS).astype(np.int64)
    late = length - turns * TURN_NS
    whole = (turns >= 1) & (turns <= MOST_TURNS)
    whole &= (late >= -SHORT * turns * TURN_NS) & (late <= OVER * turns * TURN_NS)
    if whole.sum() < NEARLY_ALL * len(length):
        whole[:] = False
    return start[whole], length[whole]
