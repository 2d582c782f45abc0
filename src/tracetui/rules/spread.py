"""A rule on kernels that take longer in some steps than in others."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tracetui.analysis.device_work import decoded_name, device_work_of, work_of_kind
from tracetui.analysis.part import Part
from tracetui.analysis.steps.scope import launch_times, step_of, step_table_of
from tracetui.rules.claims import Claims, Count, Share, Time, says
from tracetui.rules.model import Finding, build_finding, graded, smi
from tracetui.trace import Kind, Trace
from tracetui.trace.model import I64
from tracetui.trace.slices import Slices

SPREAD_RATIO = 1.3
SPREAD_NS = 10_000
GRIDS_READ = 64
"""Kernels of a step whose grids are compared with those of another."""
SPREAD_SHARE = 0.02
FAR_RATIO = 10
FAR_SHARE = 0.05
"""Of the kernel time: what calls of `FAR_RATIO` times the usual take beyond it, to be told by itself."""


def spread(part: Part) -> Iterator[Finding]:
    """The same kernel at the same place of every step, with very different durations."""
    trace, steps = part.trace, step_table_of(part)
    if len(steps) < 3 or not part.is_whole:
        return
    at = device_work_of(part).of_kind(Kind.KERNEL).without(work_of_kind(part, "collective")).at
    step = step_of(steps, launch_times(trace, at))
    order = np.argsort(step, kind="stable")
    first = np.searchsorted(step[order], np.arange(len(steps) + 1))
    table = _same_sequence(part, at[order], first)
    if table is None:
        return
    time = trace.duration[table]
    ratio = time.max(axis=0) / np.maximum(time.min(axis=0), 1)
    wide = np.flatnonzero((ratio >= SPREAD_RATIO) & (time.max(axis=0) >= SPREAD_NS))
    # What the slow calls take more than the usual one.
    excess = np.maximum(time - np.median(time, axis=0), 0)[:, wide].sum()
    if not len(wide) or excess < SPREAD_SHARE * int(time.sum()):
        return
    usual = np.median(time, axis=0)
    far = (time >= FAR_RATIO * usual) & (time >= SPREAD_NS)
    lost = int((time - usual)[far].sum())
    if lost >= FAR_SHARE * int(time.sum()):
        yield _far_slower(part, table[far][np.argsort(-time[far], kind="stable")], lost, int(time.sum()))
        return
    worst = int(wide[np.argmax((time.max(axis=0) - time.min(axis=0))[wide])])
    column = table[:, worst]
    if _other_grids(trace, table[np.argmin(time[:, worst])], table[np.argmax(time[:, worst])], worst):
        return
    calls = Slices(trace, column).longest_first()
    yield build_finding(
        "spread",
        "low",
        {
            "shortest_ns": Time(int(time[:, worst].min())),
            "longest_ns": Time(int(time[:, worst].max())),
            "kernels": Count(len(wide)),
            "of": Count(table.shape[1]),
            "name": decoded_name(part, calls.first).short,
            "tool": smi(part),
        },
        calls,
        "shortest_ns longest_ns kernels",
    )


@says("spread")
def _spread(c: Claims) -> tuple[str, str, str]:
    if "device_ns" in c:
        return (
            f"{c.kernels:kernel} {c.kernels:~take} {FAR_RATIO} or more times as long as in other steps: "
            f"{c.share}",
            f"The same kernel at the same place in the step usually takes far less; the longest is {c.name}, "
            f"{c.longest_ns}. Beyond the usual, they add up to {c.device_ns}. If their inputs are no larger "
            "there, another process shares its GPU: a kernel that is interrupted for the other process's "
            "turn lasts that much longer.",
            f"Look for other processes on the GPU ({c.tool}), and record again with the GPU to yourself. "
            "Until then, compare medians, not means.",
        )
    clocks = c.tool.replace("nvidia-smi", "nvidia-smi -q -d CLOCK,POWER")
    return (
        f"{c.name} takes {c.shortest_ns} in one step and {c.longest_ns} in another",
        "It is the same kernel at the same place in the step, so the work should be the same; "
        f"{c.kernels} of {c.of:kernel} per step {'varies' if c.kernels.n == 1 else 'vary'} by a factor of "
        f"{SPREAD_RATIO:g} or more. Clocks, power limits, kernels that run at the same time (collectives "
        "above all), other processes on the GPU, and what is in the caches can all cause this.",
        f"Look at the trace, not the mean. Check the clocks ({clocks}), profile more steps, and compare "
        "medians.",
    )


def _far_slower(part: Part, at: I64, lost: int, time: int) -> Finding:
    """The finding on kernels that some steps run many times as long: `at`, the longest first. `lost`: what
    they take beyond the usual, of the `time` of all kernels of these steps, ns."""
    calls = Slices(part.trace, at)
    return build_finding(
        "spread",
        graded(part, lost),
        {
            "device_ns": Time(lost),
            "kernels": Count(len(at)),
            "share": Share(lost, time, "of kernel time"),
            "longest_ns": Time(int(calls.duration[0])),
            "name": decoded_name(part, calls.first).short,
            "tool": smi(part),
        },
        calls,
        "device_ns kernels share",
    )


def _other_grids(trace: Trace, one: I64, other: I64, near: int) -> bool:
    """Whether kernels of one step have other grids than the same ones of another step, so that the shapes
    differ. Only those about the place `near` are read."""
    about = slice(max(0, near - GRIDS_READ // 2), near + GRIDS_READ // 2)
    grids = [[args.get("grid") for args in trace.args_of(step[about])] for step in (one, other)]
    return grids[0] != grids[1]


def _same_sequence(part: Part, at: I64, first: I64) -> I64 | None:
    """The kernels of the steps that run what the last one runs: (steps, kernels), or None. `at`: those of all
    steps; `first`: where those of each step begin, and where the last one's end."""
    names, count = part.trace.name, np.diff(first)
    alike = first[:-1][count == count[-1]]
    rows = at[alike[:, None] + np.arange(count[-1])]
    same = rows[(names[rows] == names[rows[-1]]).all(axis=1)]
    return same if len(same) >= 3 and count[-1] else None
