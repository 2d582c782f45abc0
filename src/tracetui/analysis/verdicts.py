"""The verdict on a trace, or on a part of it, and the time that it is about."""

from __future__ import annotations

import numpy as np

from tracetui.analysis.calls.launches import launches_of
from tracetui.analysis.devices import busy_in
from tracetui.analysis.idle.cpu_verdict import cpu_work_of
from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.idle.gaps import without_work_text
from tracetui.analysis.idle.split import split_of
from tracetui.analysis.idle.verdict import OF_RECORDING, Verdict, judge, of_earlier_work
from tracetui.analysis.part import Part, fact, fact_of_trace
from tracetui.analysis.select import plausible
from tracetui.analysis.steps.scope import NEVER, launch_times, step_table_of, step_windows_of, window_of
from tracetui.analysis.steps.steps import steps_of
from tracetui.analysis.unrecorded import lost_text
from tracetui.core.copying import replace
from tracetui.core.units import duration
from tracetui.trace.model import DEVICE_WORK, I64
from tracetui.trace.unrecorded import whole


def base_of(part: Part) -> str:
    """What shares of the part's length are shares of, for sentences."""
    return OF_RECORDING if part.is_whole else verdict_of(part).base


@fact
def verdict_of(part: Part) -> Verdict:
    """What holds back the trace, or this part of it."""
    verdict = _verdict(part)
    if verdict.verdict == "not known" and verdict.busy_share is None and not verdict.left_out:
        return replace(verdict, reason=without_work_text(part.trace))
    if (ahead := launches_of(part).ahead) and verdict.busy_share:
        said = f"Most GPU work starts before its launch, by {duration(ahead)}: the clocks of CPU and GPU"
        verdict = replace(verdict, reason=f"{verdict.reason} {said} differ, so causes are not reliable.")
    if said := lost_text(part.trace, *part.span, part.is_whole):
        verdict = replace(verdict, reason=f"{verdict.reason} {said}")
    return of_earlier_work(verdict, earlier_share_of(part))


def _verdict(part: Part) -> Verdict:
    if part.is_whole:
        return steps_of(part).whole.verdict
    if part.scope.kind == "step":
        return steps_of(part).rows[part.scope.step].verdict
    delay, time = launches_of(part).median_delay, verdict_times_of(part)
    base = "of the view" if part.scope.kind == "viewport" else "of the range"
    if not len(time) and (cpu := cpu_work_of(part)) is not None:
        return cpu.verdict([verdict_window(part)], base)
    return judge(time.sum(0) if len(time) else None, delay, base, devices=len(time))


@fact_of_trace
def earlier_work_of(part: Part) -> I64:
    """The device work that was launched before the recording, by (lane, start) (slices)."""
    at = plausible(part.trace, *DEVICE_WORK)
    early = launch_times(part.trace, at) == NEVER
    return np.asarray(at[early], dtype=np.int64)


@fact
def earlier_time_of(part: Part) -> tuple[int, int]:
    """(how long such work runs in the time that the verdict is about, how long any), ns."""
    at, (low, high) = earlier_work_of(part), verdict_window(part)
    if not len(at) or not gaps_of(part.whole).devices:
        return 0, 0
    early = np.zeros(len(part.trace), dtype=np.bool_)
    early[at] = True
    return busy_in(part.trace, low, high, early), busy_in(part.trace, low, high)


def earlier_share_of(part: Part) -> float:
    """The share, 0 to 1, of the busy time that the verdict is about in which such work runs."""
    early, busy = earlier_time_of(part)
    return early / busy if busy else 0.0


@fact
def verdict_times_of(part: Part) -> I64:
    """The time that the verdict is about, by device (`split.COLUMNS`, ns). Shape (devices, len(COLUMNS))."""
    split, (low, high) = split_of(part), (np.array([time]) for time in verdict_window(part))
    if _verdict_is_on_steps(part) and not (kept := whole(part.trace, *step_windows_of(part))).all():
        low, high = (times[kept] for times in step_windows_of(part))
    time = split.judged(split.overlap(low, high).sum(1))
    if _verdict_is_on_steps(part) or (part.scope.kind == "step" and not part.scope.step):
        time = time - split.judged(split.lead_ins(*step_windows_of(part)))
    return time


def _verdict_is_on_steps(part: Part) -> bool:
    """Whether the verdict on the trace is that on its steps."""
    if not part.is_whole or not len(step_table_of(part)):
        return False
    return cpu_work_of(part) is not None or steps_of(part).whole.own_share is not None


def verdict_window(part: Part) -> tuple[int, int]:
    """(start, end) of the time that the verdict is about, in ns, including the lead-in."""
    low, high = step_windows_of(part)
    if _verdict_is_on_steps(part):
        return int(low[0]), int(high[-1])
    (begin, end), (start, stop) = part.trace.span, window_of(part)
    return min(max(begin, start), end), min(max(begin, stop), end)
