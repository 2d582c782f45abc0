"""Rule on calls of an op that keep the CPU for long, again and again: a plan for each new shape, say."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tracetui.analysis.calls.slow_calls import calls_of, slow_calls_of
from tracetui.analysis.idle.causes import CAUSES
from tracetui.analysis.part import Part
from tracetui.analysis.rates.inputs import read_inputs
from tracetui.analysis.select import plausible
from tracetui.analysis.verdicts import verdict_of
from tracetui.core.units import duration, plural, share, verb
from tracetui.rules.advice import slow_call_advice
from tracetui.rules.model import HIGH, Finding, first_of
from tracetui.trace import Kind
from tracetui.trace.slices import Slices

SLOW_SHARE = 0.1
"""Of the time: how long the device has to be idle meanwhile."""
MOST_CALLS = 2000
"""Of more calls the shapes are not read."""


def slow_calls(part: Part) -> Iterator[Finding]:
    """Ops that launch keep the CPU for long by themselves, in more calls than the first."""
    verdict = verdict_of(part)
    if not verdict.causes or not verdict.judged:
        return
    left = verdict.causes[CAUSES.index("dispatch")]
    for found in slow_calls_of(part):
        idle = min(found.idle, left)
        left -= idle
        fraction = idle / verdict.judged
        if fraction < SLOW_SHARE:
            return
        many, length = len(found.calls), found.calls.duration
        low, high = duration(int(length.min())), duration(int(length.max()))
        times = low if low == high else f"{low} to {high}"
        which = "each of " if many == found.of else f"{many:,} of "
        which += f"{plural(found.of, 'call')} {'takes' if many == found.of else verb(many, 'take')}"
        yield Finding(
            "slow_calls",
            "high" if fraction >= HIGH else "medium",
            f"{found.name}: {which} {times} on the CPU",
            "Next to nothing is recorded inside: the op, or a library that it calls, works on the CPU "
            f"before it launches. The GPU is idle for {duration(idle)} of that, "
            f"{share(fraction)} {verdict.of()}.{_others(found.calls)}{_of_new_shapes(found.calls)}",
            slow_call_advice(found),
            first_of(found.calls.longest_first()),
            {
                "share": fraction,
                "idle_ns": float(idle),
                "calls": float(many),
                "longest_ns": float(length.max()),
            },
        )


def _others(slow: Slices) -> str:
    """A sentence on the calls of the op that are quick."""
    trace = slow.trace
    others = Slices(trace, calls_of(trace, plausible(trace, Kind.CPU_OP), slow.first)).without(slow)
    if not len(others):
        return ""
    usual = duration(float(np.median(others.duration)))
    return f" The other {plural(len(others), 'call')} {verb(len(others), 'take')} {usual}" + (
        "." if len(others) == 1 else " (median)."
    )


def _of_new_shapes(slow: Slices) -> str:
    """A sentence where each slow call has shapes that no call before it had."""
    every = Slices(slow.trace, plausible(slow.trace, Kind.CPU_OP))
    every = every[every.name == slow.name[0]]
    if not 1 < len(every) <= MOST_CALLS:
        return ""
    seen, new = set(), set()
    for i in every[np.argsort(every.start, kind="stable")]:
        inputs = read_inputs(slow.trace.args(i))
        if inputs is None:
            return ""
        if (shapes := tuple(inputs.dims)) not in seen:
            seen.add(shapes)
            new.add(i)
    if not set(slow) <= new:
        return ""
    who = "It" if len(slow) == 1 else "Each of the slow ones"
    return f" {who} is the first with its shapes in this recording."
