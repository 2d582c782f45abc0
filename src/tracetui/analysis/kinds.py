"""Device time by kind of work (compute, communication, copy, set), counts and delays, by step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetui.analysis.gaps import work_of_devices
from tracetui.analysis.kernels.communication import is_communication as is_communication
from tracetui.analysis.launches import Launches, find_launches
from tracetui.analysis.nesting import sum_into
from tracetui.analysis.scope import StepTable, launch_times, step_of
from tracetui.analysis.select import distinct
from tracetui.trace import Kind, Trace
from tracetui.trace.intervals import union
from tracetui.trace.model import F64, I64, Bool


@dataclass(frozen=True, slots=True)
class TimeByKind:
    """One entry per step, then one for everything outside the steps, then one for the whole trace.

    Times in ns, summed over the devices. Overlapping events of one kind count once, for the step of the
    first of them, so the last entry is the sum of all others.
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
    """Median launch delay, of a graph that of its first node; below 0: none, or the clocks differ."""


def communicates(trace: Trace) -> Bool:
    """Mask over `trace.names`: the kernels that exchange data with other devices."""
    if "communicates" not in trace.derived:
        mask = np.zeros(len(trace.names), dtype=np.bool_)
        kernels = distinct(trace.name[trace.kind == int(Kind.KERNEL)], len(mask))
        mask[kernels] = [is_communication(trace.names[i]) for i in kernels.tolist()]
        trace.derived["communicates"] = mask
    known: Bool = trace.derived["communicates"]
    return known


def time_by_kind(trace: Trace, table: StepTable, launches: Launches | None = None) -> TimeByKind:
    """Device time and counts by the step that launched the work. `launches`: the trace's, if at hand."""
    size = len(table) + 2
    names = ("compute", "communication", "exposed_communication", "copy", "exposed_copy", "set")
    time = {name: np.zeros(size, np.int64) for name in names}
    launched, kernels, copies = (np.zeros(size, np.int64) for _ in range(3))
    collective = communicates(trace)
    outside = len(table)

    def add(into: I64, step: I64, values: I64) -> None:
        into += sum_into(step, values, size)
        into[-1] += int(values.sum())

    def count(into: I64, step: I64) -> None:
        into += np.bincount(step, minlength=size)
        into[-1] += len(step)

    for at in work_of_devices(trace).values():
        step = step_of(table, launch_times(trace, at)).astype(np.int64)
        step = np.where(step >= 0, step, outside)
        start, end = trace.start[at], trace.start[at] + trace.duration[at]
        kind = trace.kind[at]
        kernel, copy = kind == int(Kind.KERNEL), kind == int(Kind.MEMCPY)
        talk = kernel & collective[trace.name[at]]
        count(kernels, step[kernel])
        count(copies, step[~kernel])
        for name, mine, hidden_by in (
            ("compute", kernel & ~talk, None),
            ("communication", talk, kernel & ~talk),
            ("copy", copy, kernel),
            ("set", kind == int(Kind.MEMSET), None),
        ):
            if not mine.any():
                continue
            low, high = _own_parts(start[mine], end[mine])
            add(time[name], step[mine], high - low)
            if hidden_by is not None:
                hidden = union(start[hidden_by], end[hidden_by]).within(low, high)
                add(time[f"exposed_{name}"], step[mine], high - low - hidden)

    launches = find_launches(trace) if launches is None else launches
    step = step_of(table, trace.start[launches.launch]).astype(np.int64)
    step = np.where(step >= 0, step, outside)
    seen = np.zeros(len(trace), dtype=np.bool_)
    seen[launches.launch] = True
    of_call = step_of(table, trace.start[np.flatnonzero(seen)]).astype(np.int64)
    count(launched, np.where(of_call >= 0, of_call, outside))
    step, delays = step[launches.first], launches.delay[launches.first]
    delay = np.full(size, -1, np.int64)
    steps, middle = medians(step, delays)
    delay[steps] = middle
    delay[-1] = int(np.median(delays)) if len(delays) else -1
    return TimeByKind(**time, launches=launched, kernels=kernels, copies=copies, delay=delay)


def medians(group: I64, values: I64) -> tuple[I64, F64]:
    """(the groups there are, from 0 on, in order; the median of each one's values)."""
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
    """The part of each interval (sorted by start) that no earlier one covers, maybe empty: (starts, ends)."""
    if not len(start):
        return start, end
    reach = np.maximum.accumulate(end)
    low = start.copy()
    low[1:] = np.maximum(start[1:], reach[:-1])
    return low, np.maximum(end, low)
