"""Rules on data loading: what waits for the next batch."""

from __future__ import annotations

from collections.abc import Iterator

from tracetui.analysis.calls.launches import launch_calls_of
from tracetui.analysis.idle.gaps import busy_union
from tracetui.analysis.part import Part
from tracetui.analysis.select import processes_of
from tracetui.analysis.steps.loading import loader_calls
from tracetui.analysis.steps.scope import step_of, step_table_of
from tracetui.analysis.verdicts import verdict_of
from tracetui.core.units import duration, plural, share, verb
from tracetui.rules.advice import loading_advice
from tracetui.rules.model import HIGH, MEDIUM, Finding, first_of
from tracetui.trace.indices import places
from tracetui.trace.slices import Slices

LOADING_SHARE = 0.05


def data_loading(part: Part) -> Iterator[Finding]:
    """Waiting for the next batch takes more than a twentieth of a step."""
    trace, steps = part.trace, step_table_of(part)
    at = loader_calls(part)
    if not len(at):
        return
    if part.is_whole and len(steps):
        at = at[step_of(steps, at.start) >= 0]
        whole, base = int((steps.end - steps.start).sum()), steps.base
    else:
        whole, base = part.length, verdict_of(part).base
    total, whole = at.time, whole * processes_of(trace, at.at)
    if not len(at) or not whole or total < LOADING_SHARE * whole:
        return
    at = at.longest_first()
    longest = f", the longest {duration(at.duration[0])}" if len(at) > 1 else ""
    quiet = len(launch_calls_of(part)) and not trace.cut_off and not _launches_within(part, at)
    idle = "" if not quiet else " The loop launches nothing while it waits for the batch."
    yield Finding(
        "data_loading",
        "high" if total > HIGH * whole else "medium" if total >= MEDIUM * whole else "low",
        f"Data loading takes {share(total / whole)} {base}",
        f"{plural(len(at), 'call')} of {at.first_name} {verb(len(at), 'take')} "
        f"{duration(total)}{longest}.{idle}",
        loading_advice(part),
        first_of(at),
        {"loading_ns": float(total), "share": total / whole},
    )


def _launches_within(part: Part, at: Slices) -> bool:
    """Whether anything is launched by the threads of these slices while they run."""
    trace, launch = part.trace, launch_calls_of(part)
    starts = {lane: trace.start[launch[of]] for lane, of in places(trace.lane[launch], len(trace.lanes))}
    return any(
        bool(busy_union(trace, at.at[of]).touching(starts[lane], starts[lane] + 1).any())
        for lane, of in places(at.lane, len(trace.lanes))
        if lane in starts
    )
