"""Device time by kind of work (compute, communication, copy, set), counts and delays, by step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from tracetui.analysis.calls.launches import Launches, find_launches, launches_of
from tracetui.analysis.calls.sums import sum_into
from tracetui.analysis.devices import Devices, side_by_side
from tracetui.analysis.names.communication import is_communication as is_communication
from tracetui.analysis.part import Part, fact_of_trace
from tracetui.analysis.steps.scope import launch_times, step_of, step_table_of
from tracetui.analysis.steps.step_table import StepTable
from tracetui.core.columns import counted, distinct, repeated
from tracetui.core.threads import map_blocks, run_parallel, threads_for
from tracetui.trace import Kind, Trace
from tracetui.trace.intervals import union
from tracetui.trace.model import F64, I8, I64, Bool, cached_on_trace


@dataclass(frozen=True, slots=True)
class TimeByKind:
    """One entry per step, then one for everything outside the steps, then one for the whole trace.

    Times in ns, summed over the devices. Overlapping events of one kind count once, for the step of the first
    of them, so the last entry is the sum of all others.
    """

    compute: I64
    """Kernels other than collectives."""
    communication: I64
    exposed_communication: I64
    """Communication while no other kernel ran."""
    copy: I64
    exposed_copy: I64
    """Copies while no kernel ran."""
    set: I64
    launches: I64
    kernels: I64
    """Includes collectives."""
    copies: I64
    """Copies and sets."""
    delay: I64
    """Median launch delay, using the first node of each graph; below 0 if there is no launch or the clocks
    differ."""


@cached_on_trace
def communicates(trace: Trace) -> Bool:
    """Mask over `trace.names`: the kernels that exchange data with other devices."""
    mask = np.zeros(len(trace.names), dtype=np.bool_)
    kernels = distinct(trace.name[trace.kind == int(Kind.KERNEL)], len(mask))
    mask[kernels] = [is_communication(trace.names[i]) for i in kernels.tolist()]
    return mask


def time_by_kind(trace: Trace, table: StepTable, launches: Launches | None = None) -> TimeByKind:
    """Device time and counts by the step that launched the work. `launches`: the trace's, if already
    found."""
    size = len(table) + 2
    names = ("compute", "communication", "exposed_communication", "copy", "exposed_copy", "set")
    time = {name: np.zeros(size, np.int64) for name in names}
    launched, kernels, copies = (np.zeros(size, np.int64) for _ in range(3))
    delay = np.full(size, -1, np.int64)
    collective = communicates(trace)
    outside = len(table)

    def add(into: I64, step: I64, values: I64) -> None:
        into += sum_into(step, values, size)
        into[-1] += int(values.sum())

    def count(into: I64, step: I64) -> None:
        into += counted(step, size)
        into[-1] += len(step)

    def of_kind(of: _Work, name: str, mine: Bool, hidden_by: Bool | None = None) -> None:
        if not mine.any():
            return
        low, high = _own_parts(of.start[mine], of.end[mine])
        add(time[name], of.step[mine], high - low)
        if hidden_by is not None:
            hidden = union(of.start[hidden_by], of.end[hidden_by]).overlap(low, high)
            add(time[f"exposed_{name}"], of.step[mine], high - low - hidden)

    def of_devices() -> None:
        for devices in side_by_side(trace):
            of = _work(trace, table, devices)
            kernel, copy = of.kind == int(Kind.KERNEL), of.kind == int(Kind.MEMCPY)
            talk = kernel & collective[trace.name[devices.work]]
            count(kernels, of.step[kernel])
            count(copies, of.step[~kernel])
            each: list[Callable[[], None]] = [
                partial(of_kind, of, "compute", kernel & ~talk),
                partial(of_kind, of, "communication", talk, kernel & ~talk),
                partial(of_kind, of, "copy", copy, kernel),
                partial(of_kind, of, "set", of.kind == int(Kind.MEMSET)),
            ]
            run_parallel(each, threads_for(len(devices.work)))

    def of_launches() -> None:
        found = find_launches(trace) if launches is None else launches
        step = step_of(table, trace.start[found.launch]).astype(np.int64)
        step = np.where(step >= 0, step, outside)
        seen = np.zeros(len(trace), dtype=np.bool_)
        seen[found.launch] = True
        of_call = step_of(table, trace.start[np.flatnonzero(seen)]).astype(np.int64)
        count(launched, np.where(of_call >= 0, of_call, outside))
        delays = found.delay[found.first]
        steps, middle = medians(step[found.first], delays)
        delay[steps] = middle
        delay[-1] = int(np.median(delays)) if len(delays) else -1

    run_parallel([of_devices, of_launches], threads_for(len(trace)))
    return TimeByKind(**time, launches=launched, kernels=kernels, copies=copies, delay=delay)


class _Work(NamedTuple):
    """The work of the devices, for each by time. Times are on the axis of all devices."""

    step: I64
    """The step of each; the number of steps for work that belongs to none."""
    start: I64
    end: I64
    kind: I8


def _work(trace: Trace, table: StepTable, devices: Devices) -> _Work:
    at, shift = devices.work, repeated(devices.shift, devices.events)
    step, start, end = (np.empty(len(at), np.int64) for _ in range(3))

    def look(part: slice) -> None:
        found = step_of(table, launch_times(trace, at[part]))
        step[part] = np.where(found >= 0, found, len(table))
        start[part] = trace.start[at[part]] + shift[part]
        end[part] = start[part] + trace.duration[at[part]]

    map_blocks(len(at), look)
    return _Work(step, start, end, trace.kind[at])


def medians(group: I64, values: I64) -> tuple[I64, F64]:
    """(the groups that occur, from 0 on, in order; the median of each one's values)."""
    if not len(values):
        return group, values.astype(np.float64)
    low = int(values.min())
    width = int(values.max()) - low + 1
    if (int(group.max()) + 1) * width < 1 << 62:  # one number sorts faster than two
        group, values = np.divmod(np.sort(group * width + (values - low)), width)
        values += low
    else:
        order = np.lexsort((values, group))
        group, values = group[order], values[order]
    first = np.flatnonzero(np.diff(group, prepend=-1))
    last = np.append(first[1:], len(group)) - 1
    middle = values[(first + last) // 2].astype(np.float64) + values[(first + last + 1) // 2]
    return group[first], middle / 2


def _own_parts(start: I64, end: I64) -> tuple[I64, I64]:
    """The part of each interval (sorted by start) that no earlier one covers; it may be empty: (starts,
    ends)."""
    if not len(start):
        return start, end
    reach = np.maximum.accumulate(end)
    low = start.copy()
    low[1:] = np.maximum(start[1:], reach[:-1])
    return low, np.maximum(end, low)


@fact_of_trace
def time_by_kind_of(part: Part) -> TimeByKind:
    """The time of each kind of device work by step, and over the whole trace."""
    return time_by_kind(part.trace, step_table_of(part), launches_of(part))
