"""Rule on calls of an op that keep the CPU for long, again and again: a plan for each new shape, say."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tracetui.analysis.calls.slow_calls import SlowCalls, calls_of, slow_calls_of
from tracetui.analysis.idle.causes import CAUSES
from tracetui.analysis.part import Part
from tracetui.analysis.rates.inputs import read_inputs
from tracetui.analysis.select import plausible
from tracetui.analysis.verdicts import verdict_of
from tracetui.core.units import duration, plural, share, verb
from tracetui.rules.advice import slow_call_advice
from tracetui.rules.model import HIGH, Finding, first_of, longest_first
from tracetui.trace import Kind, Trace

SLOW_SHARE = 0.1
"""Of the time: how long the device has to be idle meanwhile."""
MOST_CALLS = 2000
"""Of more calls the shapes are not read."""


def slow_calls(part: Part) -> Iterator[Finding]:
    """Ops that launch keep the CPU for long by themselves, in more calls than the first."""
    trace, verdict = part.trace, verdict_of(part)
    if not verdict.causes or not verdict.judged:
        return
    left = verdict.causes[CAUSES.index("dispatch")]
    for found in slow_calls_of(part):
        idle = min(found.idle, left)
        left -= idle
        fraction = idle / verdict.judged
        if fraction < SLOW_SHARE:
            return
        name, many = found.name(trace), len(found.at)
        length = trace.duration[found.at]
        low, high = duration(int(length.min())), duration(int(length.max()))
        times = low if low == high else f"{low} to {high}"
        which = "each of " if many == found.of else f"{many:,} of "
        which += f"{plural(found.of, 'call')} {'takes' if many == found.of else verb(many, 'take')}"
        yield Finding(
            "slow_calls",
            "high" if fraction >= HIGH else "medium",
            f"{name}: {which} {times} on the CPU",
            "Next to nothing is recorded inside: the op, or a library that it calls, works on the CPU "
            f"before it launches. The GPU is idle for {duration(idle)} of that, "
            f"{share(fraction)} {verdict.of()}.{_others(part, found)}{_of_new_shapes(trace, found)}",
            slow_call_advice(trace, found),
            first_of(longest_first(trace, found.at)),
            {
                "share": fraction,
                "idle_ns": float(idle),
                "calls": float(many),
                "longest_ns": float(length.max()),
            },
        )


def _others(part: Part, found: SlowCalls) -> str:
    """A sentence on the calls of the op that are quick."""
    trace = part.trace
    others = calls_of(trace, plausible(trace, Kind.CPU_OP), found.at[0])
    others = others[~np.isin(others, found.at)]
    if not len(others):
        return ""
    usual = duration(float(np.median(trace.duration[others])))
    return f" The other {plural(len(others), 'call')} {verb(len(others), 'take')} {usual}" + (
        "." if len(others) == 1 else " (median)."
    )


def _of_new_shapes(trace: Trace, found: SlowCalls) -> str:
    """A sentence where each slow call has shapes that no call before it had."""
    every = plausible(trace, Kind.CPU_OP)
    every = every[trace.name[every] == trace.name[found.at[0]]]
    if not 1 < len(every) <= MOST_CALLS:
        return ""
    seen, new = set(), set()
    for i in every[np.argsort(trace.start[every], kind="stable")].tolist():
        inputs = read_inputs(trace.args(i))
        if inputs is None:
            return ""
        if (shapes := tuple(inputs.dims)) not in seen:
            seen.add(shapes)
            new.add(i)
    slow = set(found.at.tolist())
    if not slow <= new:
        return ""
    who = "It" if len(slow) == 1 else "Each of the slow ones"
    return f" {who} is the first with its shapes in this recording."
