"""Scopes: what a table covers. The whole trace, one step, a range of time, or what the screen shows.

An event belongs to the scope that it **starts** in. For a step, a device event belongs where its *launch*
starts: work that a step launched is that step's work, even if the device runs it after the step's end on the
CPU. An event counts with its full duration; it is not cut at the scope's borders. So the steps and everything
outside all steps add up to the whole trace.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from tracetui.analysis.devices import work_of_devices
from tracetui.analysis.part import NO_STEP, WHOLE, Part, Scope, fact_of_trace
from tracetui.analysis.select import slices_named
from tracetui.analysis.steps.interleaved import SOURCE, sides_in_turn
from tracetui.analysis.steps.step_table import StepTable
from tracetui.core.columns import counted
from tracetui.core.copying import replace
from tracetui.core.safe_text import plain
from tracetui.core.units import instant, parse_duration
from tracetui.trace import DEVICE_WORK, Kind, Trace
from tracetui.trace.model import I32, I64, Bool, cached_on_trace
from tracetui.trace.slices import Slices
from tracetui.trace.unknown import idle_known
from tracetui.trace.unrecorded import captures, first_launched, launched_unrecorded, launches_by_time

UNFINISHED = 0.1
"""If more launches of the first or last steps than this led to nothing in the trace, no device was recorded
then."""
NEVER = np.iinfo(np.int64).min
"""Earlier than all other times: stands for a launch from before the recording."""


_IS_WORK = np.isin(np.arange(len(Kind)), DEVICE_WORK)
"""By kind."""


_STEP_CALL = re.compile(r"profiler\.py\(\d{1,6}\): step$")
_SOME = 64


def find_steps(trace: Trace, annotation: str | None = None) -> StepTable:
    """The plausible `ProfilerStep#N` annotations, or those named `annotation`, by time.

    A and B in turn come first, as `ProfilerStep` may hold one of each. If a trace has neither, the steps that
    `step_sources` finds.
    """
    if annotation is not None:
        return _annotated(trace, annotation)
    return _steps(trace)


@cached_on_trace
def _steps(trace: Trace) -> StepTable:
    table = _in_turn(trace) or _annotated(trace, None)
    if not len(table):
        from tracetui.analysis.steps.step_sources import find_sources  # most traces have `ProfilerStep`

        table = find_sources(trace) or table
    return _recorded(trace, table) if len(table) else table


def _recorded(trace: Trace, table: StepTable) -> StepTable:
    """The table without the first and last steps whose launches led to nothing in the trace: the devices were
    not recorded yet, or no longer."""
    time, ran = launches_by_time(trace)
    low, high = np.searchsorted(time, table.start), np.searchsorted(time, table.end)
    asked, done = high - low, np.diff(np.append(0, np.cumsum(ran))[[low, high]], axis=0)[0]
    if not done.any():
        return table
    part = done / np.maximum(asked, 1)
    captured = np.diff(np.searchsorted(captures(trace), [table.start, table.end]), axis=0)[0] > 0
    there = (asked == 0) | captured | (part >= (1 - UNFINISHED) * part.max())
    late = np.minimum(high, launched_unrecorded(trace)) - low > UNFINISHED * asked
    begin, end = int(np.argmin(late)), len(table) - int(np.argmax(there[::-1]))
    at = np.arange(len(table))
    kept = table.only((at >= begin) & (at < end))
    if not len(kept):
        return table
    rest = ~((at >= begin) & (at < end))
    others = zip(*(of[rest].tolist() for of in (table.number, table.start, table.end)), strict=True)
    return replace(kept, unrecorded=len(table) - len(kept), others=tuple(others))


def _in_turn(trace: Trace) -> StepTable | None:
    """The steps of A and B, if the trace has them in turn."""
    at = sides_in_turn(trace)
    start = trace.start[at]
    numbers = np.arange(len(at), dtype=np.int64)
    return StepTable(at, numbers, start, trace.end_of(at), "A, B", SOURCE) if len(at) else None


def _annotated(trace: Trace, annotation: str | None) -> StepTable:
    """The annotations with this name; for None, `ProfilerStep#N`."""
    numbers = np.full(len(trace.names), NO_STEP, dtype=np.int64)
    wanted = np.zeros(len(trace.names), dtype=np.bool_)
    for index, name in enumerate(trace.names):
        if annotation is None:
            text = name[13:] if name.startswith("ProfilerStep#") else ""
            if text.isascii() and text.isdigit() and len(text) < 19:
                numbers[index], wanted[index] = int(text), True
        elif name == annotation:
            wanted[index] = True
    kinds = (Kind.ANNOTATION, Kind.CPU_OP) if annotation is None else (Kind.ANNOTATION,)
    at = slices_named(trace, {trace.names[i] for i in np.flatnonzero(wanted).tolist()}.__contains__)
    at = at[np.isin(trace.kind[at], kinds) & ~trace.implausible[at]]
    start, end = trace.start[at], trace.end_of(at)
    order = np.lexsort((-end, start))
    at, start, end = at[order], start[order], end[order]
    number = numbers[trace.name[at]]
    if annotation is not None:
        number = np.arange(len(at), dtype=np.int64)
    elif len(at) > 1:  # a step that is in the file twice counts once
        again = (np.diff(number) == 0) & (np.diff(start) == 0) & (np.diff(end) == 0)
        once = np.append(True, ~(again & (np.diff(trace.lane[at]) == 0)))
        at, start, end, number = at[once], start[once], end[once], number[once]
    if annotation is None and _cut_to_calls(trace, at):
        calls = slices_named(trace, _STEP_CALL.search, Kind.PYTHON)
        over = np.sort(trace.end_of(calls))
        before = np.searchsorted(over, start) - 1
        start = np.where(before >= 0, over[before], trace.span[0])
    of = ""
    if annotation is None and (several := _one_process(trace, at, start, end)) is not None:
        mine, of = several
        at, start, end, number = at[mine], start[mine], end[mine], number[mine]
    source = (
        (f"ProfilerStep{of}" if annotation is None else f"annotation {plain(annotation)}") if len(at) else ""
    )
    return StepTable(at, number, start, end, annotation or "ProfilerStep", source)


def _cut_to_calls(trace: Trace, at: I64) -> bool:
    """Whether the steps are as short as the calls of `step` that ended them, which PyTorch's
    `adjust_profiler_step` makes of them, though a step begins where the call before it returned."""
    around = trace.parent[at]
    if not len(at) or (around < 0).any() or (trace.kind[around] != int(Kind.PYTHON)).any():
        return False
    return all(_STEP_CALL.search(trace.name_of(int(i))) is not None for i in np.unique(around[:_SOME]))


def _one_process(trace: Trace, at: I64, start: I64, end: I64) -> tuple[Bool, str] | None:
    """In a file of several processes whose steps overlap: (mask of the steps of the process that launched
    most, " of RANK" or " of one process"). None for other files."""
    process = np.array([lane.process for lane in trace.lanes], dtype=np.int64)[trace.lane[at]]
    if len(np.unique(process)) < 2 or bool(np.all(np.maximum.accumulate(end[:-1]) <= start[1:])):
        return None
    from tracetui.analysis.steps.step_sources import main_process

    main = main_process(trace)
    chosen = main if main in process else int(process[0])
    rank = trace.processes[chosen].rank
    return process == chosen, f" of {rank or 'one process'}"


def step_of(steps: StepTable, time: I64) -> I32:
    """The step that each time is in (the latest to start that has not ended), or NO_STEP. Shape of `time`."""
    if not len(steps):
        return np.full(len(time), NO_STEP, dtype=np.int32)
    at = np.searchsorted(steps.start, time, side="right") - 1
    inside = (at >= 0) & (time < steps.end[at])
    # If steps overlap, an earlier one may contain a time that the latest to start does not.
    for back in range(1, len(steps)):
        if not bool(np.any(steps.end[:-back] > steps.start[back:])):
            break
        earlier = np.maximum(at - back, 0)
        found = ~inside & (at - back >= 0) & (time < steps.end[earlier])
        at = np.where(found, earlier, at)
        inside |= found
        if back >= 64:
            break
    return np.where(inside, at, NO_STEP).astype(np.int32)


def count_in(steps: StepTable, time: I64) -> I64:
    """How many of the times are in each step."""
    return counted(step_of(steps, time) + 1, len(steps) + 1)[1:]


def launch_times(trace: Trace, at: I64) -> I64:
    """When the work of each slice of `at` began on the CPU. Shape of `at`.

    For a device event this is its launch's start; for a GPU annotation, the start of the CPU annotation; for
    all others, and without a link in the trace, the slice's own start. It is `NEVER` for device events
    without a launch that run before their stream's first event with one: they were queued before the
    recording began, and belong to none of its steps, however far they run into the first ones.
    """
    cause = trace.launch[at].astype(np.int64)
    shadows = np.flatnonzero(trace.kind[at] == Kind.GPU_ANNOTATION)
    if len(shadows):
        cause[shadows] = _annotation_with_id(trace, trace.external_id[at[shadows]])
    time = np.where(cause >= 0, trace.start[cause], trace.start[at])
    unlinked = np.flatnonzero(cause < 0)
    unlinked = unlinked[_IS_WORK[trace.kind[at[unlinked]]]]
    early = trace.start[at[unlinked]] < first_launched(trace)[trace.lane[at[unlinked]]]
    time[unlinked[early]] = NEVER
    return time


def _annotation_with_id(trace: Trace, ids: I64) -> I64:
    """The CPU annotation with each id (its device counterpart has the same id), -1 for none."""
    found = np.flatnonzero((trace.kind == Kind.ANNOTATION) & (trace.external_id > 0))
    if not len(found):
        return np.full(len(ids), -1, dtype=np.int64)
    found = found[np.argsort(trace.external_id[found], kind="stable")]
    own = trace.external_id[found]
    at = np.minimum(np.searchsorted(own, ids), len(own) - 1)
    return np.where(own[at] == ids, found[at], -1)


def step_scope(trace: Trace, number: int, annotation: str | None = None) -> Scope:
    """The scope of step N. Raises LookupError, with a message for the user, if there is no such step."""
    steps = find_steps(trace, annotation)
    found = np.flatnonzero(steps.number == number)
    if not len(found):
        there = f"{steps.number.min()} to {steps.number.max()}" if len(steps) else "none"
        raise LookupError(f"no step {number} in this trace (steps: {there})")
    return steps.scope(int(found[0]))


def range_scope(start: int, end: int, kind: str = "range") -> Scope:
    """The scope of a range of time, `kind` "range" or "viewport". Raises ValueError for an empty one."""
    if end <= start:
        raise ValueError("the range is empty")
    return Scope(kind, start, end, f"{instant(start)} to {instant(end)}")


def scope_named(trace: Trace, text: str, annotation: str | None = None) -> Scope:
    """The scope that a person names: `whole`, `step:3`, `range:10us..2ms`. `annotation`: each call of it is a
    step. Raises LookupError or ValueError, with a message for the user, if there is no such scope."""
    kind, _, rest = text.partition(":")
    if text == "whole":
        return WHOLE
    if kind == "step" and re.fullmatch(r"\d{1,18}", rest, re.ASCII):
        return step_scope(trace, int(rest), annotation)
    if kind == "range" and ".." in rest:
        low, _, high = rest.partition("..")
        return range_scope(parse_duration(low), parse_duration(high))
    raise ValueError(f"expected whole, step:N or range:FROM..TO; got {text[:60]!r}")


def members(trace: Trace, scope: Scope | None, at: I64) -> Bool:
    """Which of the slices `at` belong to the scope. Shape of `at`."""
    if scope is None or scope.kind == "whole":
        return np.ones(len(at), dtype=np.bool_)
    time = launch_times(trace, at) if scope.by_launch else trace.start[at]
    return np.asarray((time >= scope.start) & (time < scope.end), dtype=np.bool_)


@fact_of_trace
def step_table_of(part: Part) -> StepTable:
    """Where the trace's steps are."""
    return find_steps(part.trace)


@fact_of_trace
def step_windows_of(part: Part) -> tuple[I64, I64]:
    """(starts, ends) of the windows of all steps, in ns."""
    return step_windows(part.trace, step_table_of(part))


def step_windows(trace: Trace, steps: StepTable) -> tuple[I64, I64]:
    """(starts, ends) of each step's window, in ns: until the next step starts. The last one lasts until its
    end on the CPU or, if later, until the end of the device work that it launched, if it is known when that
    ran."""
    start = steps.start.copy()
    if not len(steps):
        return start, start.copy()
    work = work_of_devices(trace).values() if idle_known(trace) else ()
    at = np.concatenate([np.zeros(0, np.int64), *work])
    over = trace.end_of(at)
    late = over > steps.end[-1]
    launched = launch_times(trace, at[late])
    mine = (launched >= steps.start[-1]) & (launched < steps.end[-1])
    return start, np.append(start[1:], over[late][mine].max(initial=int(steps.end[-1])))


def window_of(part: Part) -> tuple[int, int]:
    """(start, end) of the part on the wall clock, in ns: a step's window lasts until the next step."""
    if part.scope.kind != "step":
        return part.span
    low, high = step_windows_of(part)
    return int(low[part.scope.step]), int(high[part.scope.step])


def step_at(part: Part, time: int, event: int | None = None) -> Scope | None:
    """The step that an event belongs to or, without an event, the step that a time is in."""
    table = step_table_of(part)
    times = np.array([time]) if event is None else launch_times(part.trace, np.array([event]))
    i = int(step_of(table, times)[0])
    return table.scope(i) if i >= 0 else None


def per_step(part: Part, time: I64) -> int | None:
    """How many of the times are in a step, the median; None in a part of a trace, or without steps."""
    steps = step_table_of(part)
    if not part.is_whole or not len(steps):
        return None
    return round(float(np.median(count_in(steps, time))))


def slices_of(part: Part, kind: Kind, wanted: Callable[[str], object] | None = None) -> Slices:
    """The part's plausible slices of a kind, with a wanted name."""
    at = slices_named(part.trace, wanted or (lambda _: True), kind)
    return Slices(part.trace, at if part.is_whole else at[members(part.trace, part.scope, at)])


def is_analyzable(part: Part) -> bool:
    """Whether the part has anything for the rules: ops, annotations, launches, device work."""
    kinds = part.trace.is_kind(Kind.CPU_OP, Kind.ANNOTATION, Kind.RUNTIME, *DEVICE_WORK)
    return bool(members(part.trace, part.scope, np.flatnonzero(kinds)).any())
