"""How long steps take the CPU by themselves."""

from __future__ import annotations

import numpy as np

from tracetui.analysis.calls.compiling import compile_phases
from tracetui.analysis.calls.launches import launch_calls_of
from tracetui.analysis.idle.gaps import busy_union
from tracetui.analysis.idle.initialization import profilers_work, queue_full
from tracetui.analysis.part import Part, fact
from tracetui.analysis.steps.loading import loading_time
from tracetui.analysis.steps.scope import count_in, slices_of, step_table_of
from tracetui.analysis.steps.step_table import StepTable
from tracetui.analysis.verdicts import verdict_of
from tracetui.core.columns import unique
from tracetui.trace import Kind
from tracetui.trace.model import F64, I64

COLD_RATIO = 2.0
COLD_NS = 20_000
AS_LONG = 0.9
"""A later step that takes this share of the first one's time is as long."""
SLOW_NS = 200_000
"""A step that takes less than this beyond the usual need not do anything else."""
NOT_ASKED = ("ProfilerStep#", "enumerate(DataLoader)#")
"""Annotations that the program did not ask for."""


def own_widths(part: Part, steps: StepTable) -> I64:
    """Each step's time on the CPU, without the profiler's work and waiting for a place in the queue, ns."""
    trace = part.trace
    not_its_own = busy_union(trace, unique(profilers_work(trace), queue_full(trace)))
    return np.asarray(steps.end - steps.start - not_its_own.overlap(steps.start, steps.end), dtype=np.int64)


@fact
def cold_widths(part: Part) -> F64 | None:
    """Each step's CPU time without the profiler's own, ns; None unless the first is much longer."""
    steps = alike_steps(part)
    # If the device is always busy, a slow first step on the CPU costs nothing.
    if len(steps) < 2 or not part.is_whole or verdict_of(part).verdict == "compute-bound":
        return None
    compiled = busy_union(part.trace, compile_phases(part)).overlap(steps.start[:1], steps.end[:1])
    if 2 * int(compiled[0]) > int(steps.end[0] - steps.start[0]):  # a finding of its own
        return None
    width = own_widths(part, steps)
    most = float(np.percentile(width[1:], 75))  # several slow steps are no slow start
    wide = most > 0 and width[0] >= COLD_RATIO * most and width[0] - most >= COLD_NS
    wide = wide and bool(width[1:].max() < AS_LONG * width[0])  # else it is not for being the first
    loading = loading_time(part).overlap(steps.start, steps.end)
    if 2 * (int(loading[0]) - np.median(loading[1:])) > width[0] - most:  # it waits for its batch
        return None
    return width.astype(np.float64) if wide else None


def alike_steps(part: Part) -> StepTable:
    """The first step, and of the others those that do about as much: half to twice as many launches, or ops
    where the first launches nothing.
    """
    trace, steps = part.trace, step_table_of(part)
    if not len(steps):
        return steps
    at = launch_calls_of(part)
    done = count_in(steps, trace.start[at])
    if not done[0]:
        at = slices_of(part, Kind.CPU_OP).at
        done = count_in(steps, trace.start[at])
    keep = (2 * done >= done[0]) & (done <= 2 * done[0])
    return steps.only(keep)
