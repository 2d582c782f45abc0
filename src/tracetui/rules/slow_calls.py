"""Rule on calls of an op that keep the CPU for long, again and again: a plan for each new shape, say."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tracetui.analysis.calls.slow_calls import calls_of, is_the_programs, slow_calls_of
from tracetui.analysis.idle.causes import CAUSES
from tracetui.analysis.part import Part
from tracetui.analysis.rates.inputs import read_inputs
from tracetui.analysis.select import plausible
from tracetui.analysis.verdicts import verdict_of
from tracetui.rules.advice import advise, slow_call_advice
from tracetui.rules.claims import Claim, Claims, Count, Remedy, Share, Time, from_to, says
from tracetui.rules.model import HIGH, Finding, build_finding
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
        slow = found.calls.longest_first()
        own = is_the_programs(slow.first_name)
        yield build_finding(
            "slow_calls",
            "high" if fraction >= HIGH else "medium",
            {
                "name": found.name,
                "share": Share(idle, verdict.judged, verdict.of()),
                "idle_ns": Time(idle),
                "calls": Count(len(slow)),
                "of": Count(found.of),
                "shortest_ns": Time(int(slow.duration[-1])),
                "longest_ns": Time(int(slow.duration[0])),
                "own": own,
                "new_shapes": _of_new_shapes(found.calls),
                **_others(found.calls),
                **slow_call_advice(found),
            },
            slow,
            "share idle_ns calls longest_ns",
            remedy=Remedy("move" if own else "remove", slow),  # what it launches is needed
        )


@says("slow_calls")
def _slow_calls(c: Claims) -> tuple[str, str, str]:
    times = from_to(c.shortest_ns, c.longest_ns)
    every = c.calls.n == c.of.n
    which = f"each of {c.of:call} takes" if every else f"{c.calls} of {c.of:call} {c.calls:~take}"
    others = ""
    if "quick" in c:
        median = "" if c.quick.n == 1 else " (median)"
        others = f" The other {c.quick:call} {c.quick:~take} {c.quick_ns}{median}."
    if c.new_shapes:
        who = "It" if c.calls.n == 1 else "Each of the slow ones"
        others += f" {who} is the first with its shapes in this recording."
    inside = (
        "Most of that is its own, outside of the ops that it calls: what its code does on the CPU."
        if c.get("own")
        else "Next to nothing is recorded inside: the op, or a library that it calls, works on the CPU "
        "before it launches."
    )
    return (
        f"{c.name}: {which} {times} on the CPU",
        f"{inside} The GPU is idle for {c.idle_ns} of that, {c.share}.{others}",
        advise(c),
    )


def _others(slow: Slices) -> dict[str, Claim]:
    """The calls of the op that are quick, and their median."""
    trace = slow.trace
    others = Slices(trace, calls_of(trace, plausible(trace, Kind.CPU_OP), slow.first)).without(slow)
    if not len(others):
        return {}
    return {"quick": Count(len(others)), "quick_ns": Time(float(np.median(others.duration)))}


def _of_new_shapes(slow: Slices) -> bool:
    """Whether each slow call has shapes that no call before it had."""
    every = Slices(slow.trace, plausible(slow.trace, Kind.CPU_OP))
    every = every[every.name == slow.name[0]]
    if not 1 < len(every) <= MOST_CALLS:
        return False
    seen, new = set(), set()
    for i in every[np.argsort(every.start, kind="stable")]:
        inputs = read_inputs(slow.trace.args(i))
        if inputs is None:
            return False
        if (shapes := tuple(inputs.dims)) not in seen:
            seen.add(shapes)
            new.add(i)
    return set(slow) <= new
