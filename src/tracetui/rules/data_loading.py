"""Rules on data loading: what waits for the next batch."""

from __future__ import annotations

from collections.abc import Iterator

from tracetui.analysis.calls.launches import launch_calls_of
from tracetui.analysis.idle.gaps import busy_union
from tracetui.analysis.part import Part
from tracetui.analysis.select import processes_of
from tracetui.analysis.steps.loading import loader_calls
from tracetui.analysis.steps.scope import step_table_of, step_windows_of
from tracetui.analysis.verdicts import verdict_of
from tracetui.rules.advice import advise, loading_advice
from tracetui.rules.claims import Claims, Count, Remedy, Share, Time, says
from tracetui.rules.model import HIGH, MEDIUM, Finding, build_finding
from tracetui.trace.indices import group_positions
from tracetui.trace.slices import Slices

LOADING_SHARE = 0.05


def data_loading(part: Part) -> Iterator[Finding]:
    """Waiting for the next batch takes more than a twentieth of a step."""
    trace, steps = part.trace, step_table_of(part)
    at = loader_calls(part)
    if not len(at):
        return
    if part.is_whole and len(steps):
        low, high = step_windows_of(part)
        at = at[(at.start >= low[0]) & (at.start < high[-1])]
        whole, base = int((high - low).sum()), steps.base
    else:
        whole, base = part.length, verdict_of(part).base
    total, whole = at.time, whole * processes_of(trace, at.at)
    if not len(at) or not whole or total < LOADING_SHARE * whole:
        return
    at = at.longest_first()
    quiet = len(launch_calls_of(part)) and not trace.cut_off and not _launches_within(part, at)
    yield build_finding(
        "data_loading",
        "high" if total > HIGH * whole else "medium" if total >= MEDIUM * whole else "low",
        {
            "loading_ns": Time(total),
            "share": Share(total, whole, base),
            "calls": Count(len(at)),
            "name": at.first_name,
            "longest_ns": Time(int(at.duration[0])),
            "launches": not quiet,
            **loading_advice(part),
        },
        at,
        "loading_ns share",
        remedy=Remedy("overlap", at),
    )


@says("data_loading")
def _data_loading(c: Claims) -> tuple[str, str, str]:
    longest = f", the longest {c.longest_ns}" if c.calls.n > 1 else ""
    idle = "" if c.launches else " The loop launches nothing while it waits for the batch."
    return (
        f"Data loading takes {c.share}",
        f"{c.calls:call} of {c.name} {c.calls:~take} {c.loading_ns}{longest}.{idle}",
        advise(c),
    )


def _launches_within(part: Part, at: Slices) -> bool:
    """Whether anything is launched by the threads of these slices while they run."""
    trace, launch = part.trace, launch_calls_of(part)
    starts = {
        lane: trace.start[launch[of]] for lane, of in group_positions(trace.lane[launch], len(trace.lanes))
    }
    return any(
        bool(busy_union(trace, at.at[of]).holds(starts[lane]).any())
        for lane, of in group_positions(at.lane, len(trace.lanes))
        if lane in starts
    )
