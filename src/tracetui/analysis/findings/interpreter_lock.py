"""The rule on threads that wait for Python's interpreter lock."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tracetui.analysis.findings.model import HIGH, MEDIUM, Finding, first_of
from tracetui.analysis.results import Results
from tracetui.analysis.verdict import OF_RECORDING
from tracetui.trace import Kind, Trace
from tracetui.trace.model import I64
from tracetui.units import duration, plural, share

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


def interpreter_lock(results: Results) -> Iterator[Finding]:
    """The thread that calls ops stands still for 5 ms, or 10 or 15, here and there and everywhere."""
    trace = results.trace
    kinds = [results.slices(kind, lambda _: True) for kind in (Kind.CPU_OP, Kind.RUNTIME)]
    at = np.sort(np.concatenate(kinds), kind="stable")  # two runs in order: no more than a pass
    places = np.searchsorted(at, [(lane.first, lane.last) for lane in trace.lanes]).reshape(-1, 2)
    waits = [_turns(trace, at[low:high]) for low, high in places.tolist() if high - low > MANY]
    before, length = max(waits, key=lambda found: len(found[0]), default=(at[:0], at[:0]))
    names = np.unique(trace.name[before])
    if len(before) < MANY or len(names) < PLACES:
        return
    time, span = int(length.sum()), results.span[1] - results.span[0]
    part = time / span if span else 0.0
    if part < MEDIUM:
        return
    base = OF_RECORDING if results.is_whole else results.verdict().base
    order = np.argsort(-length, kind="stable")
    yield Finding(
        "interpreter_lock",
        "high" if part >= HIGH else "medium",
        f"Most likely another Python thread holds the interpreter lock: {share(part)} {base}",
        f"{plural(len(before), 'time')} the thread that calls the ops does nothing for about 5 ms, or "
        f"10 ms, or 15, {duration(time)} in all, after events of {len(names):,} names. That is how long "
        "CPython lets another thread go on before it hands over the lock (sys.getswitchinterval).",
        "Look for threads that compute in Python: monitoring, loading, preprocessing (py-spy dump shows "
        "them). Move that work to a process of its own.",
        first_of(before[order]),
        {"share": part, "stretches": float(len(before)), "waited_ns": float(time)},
    )


def _turns(trace: Trace, at: I64) -> tuple[I64, I64]:
    """(the event that ends last before each stretch of whole turns in which none of the slices `at` of one
    lane runs, its length in ns); none where other stretches are as long."""
    start, end = trace.start[at], trace.start[at] + trace.duration[at]
    over = np.maximum.accumulate(end)
    place = np.flatnonzero(start[1:] - over[:-1] >= LONG_NS)
    length = start[place + 1] - over[place]
    turns = np.rint(length / TURN_NS).astype(np.int64)
    late = length - turns * TURN_NS
    whole = (turns >= 1) & (turns <= MOST_TURNS)
    whole &= (late >= -SHORT * turns * TURN_NS) & (late <= OVER * turns * TURN_NS)
    if whole.sum() < NEARLY_ALL * len(place):
        whole[:] = False
    # The first that ends as late as any before the stretch.
    last = np.searchsorted(over, over[place[whole]])
    return at[last], length[whole]
