"""Steps: the time, launches and idle time of each `ProfilerStep`, or of each call of a chosen annotation.

The device work of a step is what was **launched** in it, even if it runs after the step's end on the CPU. The
step's *window* is its share of the wall clock: from its start, or from the end of the previous window if that
is later, to the end of its last device event or to its own end. Windows do not overlap.

Every count and every time, summed over all steps and everything outside them, equals that of the whole trace,
to the nanosecond. Overlapping events of one kind count once, for the step of the first of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tracetui.analysis.causes import CAUSES, Causes, CauseTotal, cause_table, gap_causes
from tracetui.analysis.exposed_time import exposed_communication
from tracetui.analysis.gaps import DeviceGaps, clip, find_gaps, work_of_devices
from tracetui.analysis.kinds import time_by_kind
from tracetui.analysis.scope import NO_STEP, StepTable, find_steps, launch_times, step_of
from tracetui.analysis.verdict import OF_SPAN, Verdict, judge
from tracetui.trace import Trace
from tracetui.trace.model import I64, Bool

OF_KINDS = (
    "compute", "communication", "exposed_communication", "copy", "exposed_copy", "set",
    "launches", "kernels", "copies",
)  # fmt: skip
"""Fields that a `StepRow` takes from `TimeByKind`."""


@dataclass(frozen=True, slots=True)
class StepRow:
    """One step, or everything outside the steps, or the whole trace. Times in nanoseconds.

    `busy`, `idle` and the verdict are about the window, whichever step launched the work in it; `compute`,
    `communication`, `copy`, `set`, their exposed parts, and the counts are about what the step launched,
    whenever it ran. Work queued before the recording can run in a window but belongs to no step.
    """

    label: str
    """E.g. "step 3", "outside", "whole". Safe to show."""
    number: int
    """N of `ProfilerStep#N`, -1 for "outside" and "whole"."""
    event: int
    """The annotation's slice, -1 where there is none."""
    start: int
    duration: int
    """Of the step on the CPU; 0 for "outside", the trace's span for "whole"."""
    window: tuple[int, int]
    """(0, 0) for "outside"."""
    busy: int
    """Time within the window in which a device ran anything, over all devices."""
    idle: int
    """The gaps within the window, over all devices, without the time before a device's first event."""
    idle_by_cause: tuple[CauseTotal, ...]
    """Largest first; adds up to `idle`."""
    compute: int
    """Time in which kernels other than collectives ran, over all devices; overlap counts once."""
    communication: int
    exposed_communication: int
    """Communication while no other kernel ran."""
    copy: int
    exposed_copy: int
    """Copies while no kernel ran."""
    set: int
    launches: int
    """Launch calls. One call may launch many kernels."""
    kernels: int
    """Includes collectives."""
    copies: int
    """Copies and sets."""
    verdict: Verdict
    unusual: bool
    """The window is much longer or shorter than those of the other steps."""

    @property
    def window_length(self) -> int:
        return self.window[1] - self.window[0]

    @property
    def busy_share(self) -> float | None:
        """`busy / (busy + idle)`; None if no device has any time in the window."""
        return self.busy / (self.busy + self.idle) if self.busy + self.idle > 0 else None


@dataclass(frozen=True, slots=True)
class Steps:
    """All steps of a trace, everything outside them, and the whole."""

    table: StepTable
    rows: tuple[StepRow, ...]
    outside: StepRow
    whole: StepRow

    @property
    def busy_share(self) -> float | None:
        """The devices' busy share within all steps; None if no device has any time in them."""
        time = sum(row.busy + row.idle for row in self.rows)
        return sum(row.busy for row in self.rows) / time if time > 0 else None


def step_windows(trace: Trace, steps: StepTable) -> tuple[I64, I64]:
    """(starts, ends) of each step's window, in ns. Empty where another step's window covers it."""
    at = np.concatenate([np.zeros(0, np.int64), *work_of_devices(trace).values()])
    step = step_of(steps, launch_times(trace, at))
    last = steps.end.copy()
    np.maximum.at(last, step[step >= 0], (trace.start[at] + trace.duration[at])[step >= 0])
    end = np.maximum.accumulate(np.maximum(last, steps.start)) if len(steps) else last
    start = steps.start.copy()
    start[1:] = np.maximum(start[1:], end[:-1])
    return np.minimum(start, end), end


def summarize_steps(
    trace: Trace,
    annotation: str | None = None,
    gaps: Sequence[DeviceGaps] | None = None,
    causes: Sequence[Causes] | None = None,
) -> Steps:
    """The steps of a trace: its `ProfilerStep`s, or the calls of the named annotation; there may be none.

    `gaps`, `causes`: those of every device, if already at hand.
    """
    table = find_steps(trace, annotation)
    gaps = find_gaps(trace) if gaps is None else gaps
    causes = [gap_causes(trace, device, table) for device in gaps] if causes is None else causes
    count = len(table)
    low, high = step_windows(trace, table)

    # Per step, then (at `count`) over the whole trace.
    busy, idle = np.zeros((2, count + 1), np.int64)
    why = np.zeros((count + 1, len(CAUSES), 2), np.int64)
    for device, cause in zip(gaps, (c.cause for c in causes), strict=True):
        parts = [clip(device, int(a), int(b)) for a, b in zip(low, high, strict=True)]
        for i, part in enumerate([*parts, device]):
            busy[i] += part.busy
            idle[i] += part.idle
            # A gap cut by a window's border counts in the window where it ends; its length is split.
            ends = part.end == device.end[part.whole]
            why[i, :, 0] += np.bincount(cause[part.whole[ends]], minlength=len(CAUSES))
            np.add.at(why[i, :, 1], cause[part.whole], part.duration)

    kinds = time_by_kind(trace, table)
    begin, end = trace.span
    talk = exposed_communication(trace).within(np.append(low, begin), np.append(high, end))
    unusual = _unusual(high - low)

    def row(
        label: str, at: int, number: int, event: int, time: tuple[int, int], window: tuple[int, int],
        base: str = f"{OF_SPAN} in the step",
    ) -> StepRow:  # fmt: skip
        sums = (busy, idle, why, talk)
        if at == count:  # outside: the whole minus all steps
            ran, idled, reasons, talked = (values[-1] - values[:-1].sum(0) for values in sums)
        else:
            ran, idled, reasons, talked = (values[min(at, count)] for values in sums)
        share = float(ran / (ran + idled)) if ran + idled > 0 else None
        delay = int(kinds.delay[at]) if kinds.delay[at] >= 0 else None
        return StepRow(
            label=label, number=number, event=event, start=time[0], duration=time[1], window=window,
            busy=int(ran), idle=int(idled), idle_by_cause=tuple(cause_table(*reasons.T)),
            **{field: int(getattr(kinds, field)[at]) for field in OF_KINDS},
            verdict=judge(share, delay, float(talked / ran) if ran else 0.0, base),
            unusual=at < count and bool(unusual[at]),
        )  # fmt: skip

    rows = tuple(
        row(
            f"step {table.number[i]}" if annotation is None else f"{annotation} {i}",
            i,
            int(table.number[i]),
            int(table.event[i]),
            (int(table.start[i]), int(table.end[i] - table.start[i])),
            (int(low[i]), int(high[i])),
        )
        for i in range(count)
    )
    outside = row("outside", count, NO_STEP, -1, (0, 0), (0, 0), f"{OF_SPAN} outside of the steps")
    whole = row("whole", count + 1, NO_STEP, -1, (begin, end - begin), (begin, end), OF_SPAN)
    steps = Steps(table, rows, outside, whole)
    if (share := steps.busy_share) is not None:  # the verdict on the trace is the one on its steps
        talked = float(talk[:count].sum() / max(1, busy[:-1].sum()))
        delay = whole.verdict.launch_delay
        verdict = judge(share, delay, talked, f"{OF_SPAN} within the steps")
        steps = replace(steps, whole=replace(whole, verdict=verdict))
    return steps


def _unusual(length: I64) -> Bool:
    """Mask: the lengths far from the median, if there are at least three lengths."""
    if len(length) < 3:
        return np.zeros(len(length), dtype=np.bool_)
    middle = float(np.median(length))
    away = np.abs(length - middle)
    # 1.4826 times the median deviation estimates the standard deviation and is robust to outliers.
    return np.asarray(away > np.maximum(0.5 * middle, 3 * 1.4826 * float(np.median(away))), dtype=np.bool_)
