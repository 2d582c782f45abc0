"""Device time by kind of work (compute, communication, copy, set), counts and delays, by step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetui.analysis.gaps import work_of_devices
from tracetui.analysis.kernels.communication import is_communication as is_communication
from tracetui.analysis.launches import Launches, find_launches
from tracetui.analysis.nesting import sum_into
from tracetui.analysis.scope import StepTable, launch_times, step_of
from tracetui.analysis.select import pick
from tracetui.trace import Kind, Trace
from tracetui.trace.intervals import union
from tracetui.trace.model import I64, Bool


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
        mask[trace.name[pick(trace, np.flatnonzero(trace.kind == int(Kind.KERNEL)), is_communication)]] = True
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

    for at in work_of_devices(trace).values():
        step = step_of(table, launch_times(trace, at)).astype(np.int64)
        step = np.where(step >= 0, step, outside)
        start, end = trace.start[at], trace.start[at] + trace.duration[at]
        kernel = trace.kind[at] == Kind.KERNEL
        talk = kernel & collective[trace.name[at]]
        copy = trace.kind[at] == Kind.MEMCPY
        ones = np.ones(len(at), np.int64)
        add(kernels, step[kernel], ones[kernel])
        add(copies, step[~kernel], ones[~kernel])
        for name, mine, hidden_by in (
            ("compute", kernel & ~talk, None),
            ("communication", talk, kernel & ~talk),
            ("copy", copy, kernel),
            ("set", trace.kind[at] == Kind.MEMSET, None),
        ):
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
    add(launched, np.where(of_call >= 0, of_call, outside), np.ones(len(of_call), np.int64))
    step, delays = step[launches.first], launches.delay[launches.first]
    order = np.argsort(step, kind="stable")
    by_step = np.split(delays[order], np.searchsorted(step[order], np.arange(1, size - 1)))
    delay = np.array([int(np.median(d)) if len(d) else -1 for d in (*by_step, delays)], np.int64)
    return TimeByKind(**time, launches=launched, kernels=kernels, copies=copies, delay=delay)


def _own_parts(start: I64, end: I64) -> tuple[I64, I64]:
    """The part of each interval (sorted by start) that no earlier one covers, maybe empty: (starts, ends)."""
    if not len(start):
        return start, end
    reach = np.maximum.accumulate(end)
    low = start.copy()
    low[1:] = np.maximum(start[1:], reach[:-1])
    return low, np.maximum(end, low)
