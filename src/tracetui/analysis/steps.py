"""Steps: what each `ProfilerStep` (or each call of a chosen annotation) took, launched, and left idle.

The device work of a step is what was **launched** in it, even where it runs after the step's end on the
CPU. So is the step's *window*, the stretch of time that is the step's on the wall clock: from its start, or
from the end of the window before it, to the end of its last device event, or to its own end. Windows do not
overlap.

Every sum adds up: over all steps and what lies outside of them each count and each time is that of the
whole trace, to the nanosecond. Time in which several events of a kind overlap counts once, for the step of
the first of them.
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


@dataclass(frozen=True, slots=True)
class StepRow:
    """One step, or what lies outside of all steps, or the whole trace. Times in nanoseconds.

    `busy`, `idle` and the verdict speak of the window, whoever launched what ran in it; `compute`,
    `communication`, `copy`, `set`, what of them is exposed, and the counts speak of what the step launched,
    whenever it ran. Work queued before the recording is in a window, but no step's.
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
    """The gaps within the window, over all devices. Without the time before a device's first event."""
    idle_by_cause: tuple[CauseTotal, ...]
    """Largest first; adds up to `idle`."""
    compute: int
    """Time in which kernels ran that are no collectives, over all devices; overlap counts once."""
    communication: int
    exposed_communication: int
    """Communication while no other kernel ran."""
    copy: int
    exposed_copy: int
    """Copies while no kernel ran."""
    set: int
    launches: int
    """Launches (calls), of which one may launch many kernels."""
    kernels: int
    """Kernels, collectives among them."""
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
        """`busy / (busy + idle)`; None where the device had nothing to do with the step."""
        return self.busy / (self.busy + self.idle) if self.busy + self.idle > 0 else None


@dataclass(frozen=True, slots=True)
class Steps:
    """All steps of a trace, what lies outside of them, and the whole."""

    table: StepTable
    rows: tuple[StepRow, ...]
    outside: StepRow
    whole: StepRow

    @property
    def busy_share(self) -> float | None:
        """The devices' busy share within all steps; None where no device had to do with any."""
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
    """The steps of a trace: its `ProfilerStep`s, or the calls of the annotation named; there may be none.

    `gaps`, `causes`: those of every device where they were found before, to save the work.
    """
    table = find_steps(trace, annotation)
    gaps = find_gaps(trace) if gaps is None else gaps
    causes = [gap_causes(trace, device, table) for device in gaps] if causes is None else causes
    count = len(table)
    low, high = step_windows(trace, table)

    # Per step, then (at `count`) over the whole trace.
    busy, idle = np.zeros(count + 1, np.int64), np.zeros(count + 1, np.int64)
    why = np.zeros((count + 1, len(CAUSES), 2), np.int64)
    for device, cause in zip(gaps, (c.cause for c in causes), strict=True):
        parts = [clip(device, int(a), int(b)) for a, b in zip(low, high, strict=True)]
        for i, part in enumerate([*parts, device]):
            busy[i] += part.busy
            idle[i] += part.idle
            # A gap that a window's border cuts is counted once, where it ends; its length is shared.
            ends = part.end == device.end[part.whole]
            why[i, :, 0] += np.bincount(cause[part.whole[ends]], minlength=len(CAUSES))
            np.add.at(why[i, :, 1], cause[part.whole], part.duration)

    kinds = time_by_kind(trace, table)
    whole_span = np.array(trace.span, dtype=np.int64)
    talk = exposed_communication(trace).within(np.append(low, whole_span[0]), np.append(high, whole_span[1]))
    unusual = _unusual(high - low)

    def row(
        label: str,
        at: int,
        number: int,
        event: int,
        time: tuple[int, int],
        window: tuple[int, int],
        base: str = f"{OF_SPAN} in the step",
    ) -> StepRow:
        sums = (busy, idle, why, talk)
        if at == count:  # outside: what the whole has and no step
            ran, idled, reasons, talked = (values[-1] - values[:-1].sum(0) for values in sums)
        else:
            ran, idled, reasons, talked = (values[min(at, count)] for values in sums)
        share = float(ran / (ran + idled)) if ran + idled > 0 else None
        delay = int(kinds.delay[at]) if kinds.delay[at] >= 0 else None
        return StepRow(
            label=label,
            number=number,
            event=event,
            start=time[0],
            duration=time[1],
            window=window,
            busy=int(ran),
            idle=int(idled),
            idle_by_cause=tuple(cause_table(reasons[:, 0], reasons[:, 1])),
            compute=int(kinds.compute[at]),
            communication=int(kinds.communication[at]),
            exposed_communication=int(kinds.exposed_communication[at]),
            copy=int(kinds.copy[at]),
            exposed_copy=int(kinds.exposed_copy[at]),
            set=int(kinds.set[at]),
            launches=int(kinds.launches[at]),
            kernels=int(kinds.kernels[at]),
            copies=int(kinds.copies[at]),
            verdict=judge(share, delay, float(talked / ran) if ran else 0.0, base),
            unusual=at < count and bool(unusual[at]),
        )

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
    begin, end = trace.span
    outside = row("outside", count, NO_STEP, -1, (0, 0), (0, 0), f"{OF_SPAN} outside of the steps")
    whole = row("whole", count + 1, NO_STEP, -1, (begin, end - begin), (begin, end), OF_SPAN)
    steps = Steps(table, rows, outside, whole)
    if (share := steps.busy_share) is not None:  # the verdict on the trace rests on its steps
        talked = float(talk[:count].sum() / max(1, busy[:-1].sum()))
        delay = whole.verdict.launch_delay
        verdict = judge(share, delay, talked, f"{OF_SPAN} within the steps")
        steps = replace(steps, whole=replace(whole, verdict=verdict))
    return steps


def _unusual(length: I64) -> Bool:
    """Which of at least three lengths lie far from the middle of all."""
    if len(length) < 3:
        return np.zeros(len(length), dtype=np.bool_)
    middle = float(np.median(length))
    away = np.abs(length - middle)
    # 1.4826 times the median deviation estimates a standard deviation without being led by the outliers.
    return np.asarray(away > np.maximum(0.5 * middle, 3 * 1.4826 * float(np.median(away))), dtype=np.bool_)
