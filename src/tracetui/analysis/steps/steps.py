"""Steps: the time, launches and idle time of each `ProfilerStep`, or of each call of a chosen annotation.

The device work of a step is what was **launched** in it, even if it runs after the step's end on the CPU. The
step's *window* is its share of the wall clock: from its start to that of the next step; that of the last one
ends with its device work, or where it ends on the CPU if that is later. Windows do not overlap.

Every count and every time, summed over all steps and everything outside them, equals that of the whole trace,
to the nanosecond. Overlapping events of one kind count once, for the step of the first of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import repeat, starmap
from operator import itemgetter
from typing import Any

import numpy as np
from msgspec import Struct

from tracetui.analysis.idle.causes import CAUSES, MAYBE_BUSY, CauseTotal, cause_table
from tracetui.analysis.idle.cpu_verdict import cpu_work
from tracetui.analysis.idle.gaps import without_work_text
from tracetui.analysis.idle.kinds import TimeByKind, time_by_kind, time_by_kind_of
from tracetui.analysis.idle.split import BUSY, COLUMNS, IDLE, Split, split_of
from tracetui.analysis.idle.verdict import OF_RECORDING, OF_STEP, CpuTime, Verdict, judge
from tracetui.analysis.part import NO_STEP, Part, fact_of_trace
from tracetui.analysis.steps.scope import count_in, find_steps, step_windows, step_windows_of
from tracetui.analysis.steps.step_table import StepTable
from tracetui.core.columns import counted
from tracetui.core.copying import replace
from tracetui.core.threads import no_collections, run_parallel, threads_for
from tracetui.trace import Trace
from tracetui.trace.model import I64, Bool
from tracetui.trace.unrecorded import unrecorded
from tracetui.trace.unrecorded import whole as whole_launches
from tracetui.trace.unrecorded_time import NOT_RECORDED

OF_KINDS = (
    "compute", "communication", "exposed_communication", "copy", "exposed_copy", "set",
    "launches", "kernels", "copies",
)  # fmt: skip
"""Fields that a `StepRow` takes from `TimeByKind`."""
_MAYBE_BUSY = [CAUSES.index(cause) for cause in MAYBE_BUSY]
OUTSIDE = "outside of the steps"
MANY = 10_000
"""With so many rows, a garbage collection that goes through them stops every thread for a while."""


class StepRow(Struct, frozen=True, dict=True, eq=False):
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
    """The length of the step on the CPU; 0 for "outside", the trace's span for "whole"."""
    window: tuple[int, int]
    """(0, 0) for "outside"."""
    busy: int
    """Time within the window in which a device ran anything, over all devices."""
    idle: int
    """The gaps within the window, over all devices, without the time before a device's first event and after
    its last, and without the time in which the device may have been busy (`MAYBE_BUSY`)."""
    window_idle: int
    """All time within the window in which a device ran nothing, over all devices."""
    idle_parts: I64
    """`window_idle` by the idle columns of `split.COLUMNS`."""
    gap_causes: tuple[I64, I64]
    """By `CAUSES`: the number of gaps of which each is the main cause, and its part of the gaps."""
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
    judged_by: Callable[[], Verdict]
    """Makes `verdict` when it is asked for: there may be very many steps, and few are looked at."""
    unusual: bool
    """Whether the step takes much longer or shorter on the CPU than the other steps."""
    judged: I64
    """The time that the verdict is about, over all devices (`split.COLUMNS`, ns): all except the lead-in."""
    lost: int = 0
    """Launches whose device events are not in the file."""
    own_share: float | None = None
    """For `whole`: the busy share of the recording, if the verdict is about the steps."""
    own_cpu: Verdict | None = None
    """For `whole`, the same for a recording of the CPU alone."""

    @cached_property
    def verdict(self) -> Verdict:
        return self.judged_by()

    @property
    def cpu(self) -> CpuTime | None:
        """How the row's CPU time was spent, if only the CPU was recorded."""
        return (self.own_cpu or self.verdict).cpu

    @cached_property
    def window_causes(self) -> tuple[tuple[str, int], ...]:
        """`window_idle` by cause: (cause, ns), largest first."""
        spent = zip(COLUMNS[IDLE], self.idle_parts.tolist(), strict=True)
        return tuple(sorted(filter(itemgetter(1), spent), key=lambda part: -part[1]))

    @cached_property
    def idle_by_cause(self) -> tuple[CauseTotal, ...]:
        """`idle` by cause, largest first; with what is not known, which `idle` is without."""
        return tuple(cause_table(*(of.tolist() for of in self.gap_causes)))

    @property
    def window_length(self) -> int:
        return self.window[1] - self.window[0]

    @property
    def busy_share(self) -> float | None:
        """The busy share of the window, without what the verdict leaves out; None without device events."""
        return self.verdict.busy_share if self.own_share is None else self.own_share


@dataclass(frozen=True, slots=True)
class Steps:
    """All steps of a trace, everything outside them, and the whole."""

    table: StepTable
    rows: tuple[StepRow, ...]
    outside: StepRow
    whole: StepRow


def summarize_steps(
    trace: Trace,
    annotation: str | None = None,
    split: Split | None = None,
    kinds: TimeByKind | None = None,
    windows: tuple[I64, I64] | None = None,
) -> Steps:
    """The steps of a trace: its `ProfilerStep`s, or the calls of the named annotation; there may be none.

    `split`, `kinds`, `windows`: `Split(trace)`, and the `time_by_kind` and `step_windows` of these steps, if
    already at hand.
    """
    table = find_steps(trace, annotation)
    split = Split(trace) if split is None else split
    count = len(table)
    low, high = step_windows(trace, table) if windows is None else windows
    begin, end = trace.span
    lows, highs = np.append(low, begin), np.append(high, end)

    # Per step and then, at `count`, over the whole trace.
    tasks: list[Callable[[], Any]] = [
        partial(time_by_kind, trace, table) if kinds is None else lambda: kinds,
        partial(split.of_all, lows, highs),
        partial(split.gaps_within, lows, highs),
    ]
    times, (every, judged), idle = run_parallel(tasks, threads_for(len(trace)))
    gaps = np.zeros((count + 1, len(CAUSES)), np.int64)
    ends, cause = np.concatenate([low[:0], *(device.end for device in split.gaps)]), split.main_causes()
    # A gap cut by a window's border counts in the window in which it ends; its length is split.
    at = np.searchsorted(low, ends) - 1
    inside = (at >= 0) & (ends <= high[at]) if count else np.zeros(len(ends), np.bool_)
    place = at[inside] * len(CAUSES) + cause[inside]
    gaps += counted(place, gaps.size).reshape(gaps.shape)
    gaps[count] += counted(cause, len(CAUSES))

    unusual = unusual_lengths(table.end - table.start)

    launches = trace.start[unrecorded(trace).launches]
    lost = count_in(table, launches).tolist()

    # Everything outside the steps: the whole minus all steps.
    every, judged, idle, gaps = (
        np.insert(of, count, of[-1] - of[:-1].sum(0), axis=0) for of in (every, judged, idle, gaps)
    )
    left_out = np.zeros_like(judged)
    if count:
        left_out[0] = split.judged(split.lead_ins(low, high)).sum(0)
    judged -= left_out
    partly = np.append(~whole_launches(trace, low, high), (False, False)) & bool(split.gaps)
    judged[partly, COLUMNS.index(NOT_RECORDED)] = judged[partly].sum(1)
    judged[partly, : COLUMNS.index(NOT_RECORDED)] = 0
    of_judged: Iterable[I64 | None] = judged if split.gaps else repeat(None)
    delays = [delay if delay >= 0 else None for delay in times.delay.tolist()]
    bases = [*[OF_STEP] * count, OUTSIDE, OF_RECORDING]
    of_each = zip(low.tolist(), high.tolist(), strict=True)
    columns: list[Iterable[Any]] = [  # in the order of the fields: there may be very many rows
        [*(f"{annotation or 'step'} {n}" for n in table.number.tolist()), "outside", "whole"],
        [*table.number.tolist(), NO_STEP, NO_STEP],
        [*table.event.tolist(), -1, -1],
        [*table.start.tolist(), 0, begin],
        [*(table.end - table.start).tolist(), 0, end - begin],
        [*of_each, (0, 0), (begin, end)],
        every[:, BUSY].sum(1).tolist(),
        (idle.sum(1) - idle[:, _MAYBE_BUSY].sum(1)).tolist(),
        every[:, IDLE].sum(1).tolist(),
        every[:, IDLE],  # from here on, rows of arrays: lists of numbers would take far longer
        zip(gaps, idle, strict=True),
        *(getattr(times, field).tolist() for field in OF_KINDS),
        map(partial, repeat(partial(judge, devices=len(split.gaps))), of_judged, delays, bases, left_out),
        [*unusual.tolist(), False, False],
        judged,
        [*lost, len(launches) - sum(lost), len(launches)],
    ]
    with no_collections(stay=count >= MANY):
        made = starmap(StepRow, zip(*columns, strict=True))
        *steps, outside, whole = (row for row in made)  # between two, other threads get a turn
    rows = tuple(steps)
    if any(r.busy for r in rows):  # the verdict on the trace is the one on its steps
        of_steps = judged[:count].sum(0)
        delay, devices = whole.verdict.launch_delay, len(split.gaps)
        verdict = partial(judge, of_steps, delay, table.base, left_out[0], devices)
        whole = replace(whole, judged_by=verdict, judged=of_steps, own_share=whole.busy_share)
    found = Steps(table, rows, outside, whole)
    return found if split.gaps else _of_the_cpu(trace, found)


def _of_the_cpu(trace: Trace, steps: Steps) -> Steps:
    """The steps with the verdicts for a trace in which no device ran a kernel, copy or memset."""
    work = cpu_work(trace)
    if work is None:
        reason = without_work_text(trace)

        def unknown(row: StepRow) -> StepRow:
            return replace(row, judged_by=lambda: replace(row.verdict, reason=reason))

        return replace(
            steps,
            rows=tuple(map(unknown, steps.rows)),
            outside=unknown(steps.outside),
            whole=unknown(steps.whole),
        )

    def of(row: StepRow, windows: list[tuple[int, int]], base: str) -> StepRow:
        return replace(row, judged_by=partial(work.verdict, windows, base))

    windows, (begin, end) = [row.window for row in steps.rows], trace.span
    if not windows:
        return replace(steps, whole=of(steps.whole, [(begin, end)], OF_RECORDING))
    around = list(
        zip([begin, *(high for _, high in windows)], [*(low for low, _ in windows), end], strict=True)
    )
    return replace(
        steps,
        rows=tuple(of(row, [row.window], OF_STEP) for row in steps.rows),
        outside=of(steps.outside, around, OUTSIDE),
        whole=replace(
            of(steps.whole, windows, steps.table.base), own_cpu=work.verdict([(begin, end)], OF_RECORDING)
        ),
    )


def unusual_lengths(length: I64) -> Bool:
    """Mask: the lengths far from the median, if there are at least three lengths."""
    if len(length) < 3:
        return np.zeros(len(length), dtype=np.bool_)
    middle = float(np.median(length))
    away = np.abs(length - middle)
    # 1.4826 times the median deviation estimates the standard deviation and is robust to outliers.
    return np.asarray(away > np.maximum(0.5 * middle, 3 * 1.4826 * float(np.median(away))), dtype=np.bool_)


@fact_of_trace
def steps_of(part: Part) -> Steps:
    """All steps of the trace, everything outside them, and the whole."""
    return summarize_steps(
        part.trace, split=split_of(part), kinds=time_by_kind_of(part), windows=step_windows_of(part)
    )
