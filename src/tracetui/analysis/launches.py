"""From the launch on the CPU to the start on the device: delays, what is in flight, short kernels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetui.analysis.gaps import device_of
from tracetui.analysis.nesting import sum_into
from tracetui.analysis.scope import Scope, members
from tracetui.trace import DEVICE_WORK, Trace
from tracetui.trace.model import I64, Bool


@dataclass(frozen=True, slots=True)
class Launches:
    """Every kernel, copy and set whose launch the trace holds, by (lane, start). Arrays of one length."""

    event: I64
    launch: I64
    device: I64
    delay: I64
    """From the start of the launch to that of the event, in ns; 0 where clocks differ and it is less."""
    cost: I64
    """What the launch took on the CPU, in ns; shared evenly among all that it launched (a graph's)."""
    unlinked: int
    """Device events of the scope whose launch the trace does not hold."""

    def __len__(self) -> int:
        return len(self.event)

    @property
    def median_delay(self) -> int | None:
        """The median delay in ns; None where there is no launch."""
        return int(np.median(self.delay)) if len(self.delay) else None


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """How many device events were launched and had not ended: `depth[i]` from `time[i]` on."""

    time: I64
    depth: I64


@dataclass(frozen=True, slots=True)
class ShortKernels:
    """Kernels, copies and sets that took less time than their launch, by name; the most frequent first."""

    events: int
    """How many there are in all."""
    of: int
    """Of how many that have a launch."""
    names: tuple[str, ...]
    count: I64
    device_time: I64
    launch_time: I64


def find_launches(trace: Trace, scope: Scope | None = None) -> Launches:
    """The launches of a scope's device events."""
    at = np.flatnonzero(trace.is_kind(*DEVICE_WORK) & ~trace.implausible)
    at = at[members(trace, scope, at)]
    linked = trace.launch[at] >= 0
    event = at[linked]
    launch = trace.launch[event].astype(np.int64)
    delay = np.maximum(trace.start[event] - trace.start[launch], 0)
    _, which, count = np.unique(launch, return_inverse=True, return_counts=True)
    cost = trace.duration[launch] // count[which] if len(launch) else np.zeros(0, np.int64)
    device = device_of(trace)[trace.lane[event]] if len(event) else np.zeros(0, np.int64)
    return Launches(event, launch, device, delay, cost, len(at) - len(event))


def queue_depth(trace: Trace, launches: Launches, device: int | None = None) -> QueueDepth:
    """Over time how many events of a device (of all, for None) were launched and had not ended."""
    mine = slice(None) if device is None else launches.device == device
    event, launch = launches.event[mine], launches.launch[mine]
    end = trace.start[event] + trace.duration[event]
    begin = np.minimum(trace.start[launch], trace.start[event])
    time = np.concatenate([begin, end])
    change = np.repeat(np.array([1, -1], dtype=np.int64), len(event))
    order = np.argsort(time, kind="stable")
    time, depth = time[order], np.cumsum(change[order])
    last: Bool = np.ones(len(time), dtype=np.bool_)
    last[:-1] = time[1:] != time[:-1]
    return QueueDepth(time[last], depth[last])


def short_kernels(trace: Trace, launches: Launches) -> ShortKernels:
    """The events whose launch cost the CPU more than the device took to run them."""
    run = trace.duration[launches.event]
    short = np.flatnonzero(run < launches.cost)
    names, which = np.unique(trace.name[launches.event[short]], return_inverse=True)
    count = np.bincount(which, minlength=len(names)).astype(np.int64)
    order = np.argsort(-count, kind="stable")
    device_time = sum_into(which, run[short], len(names))
    launch_time = sum_into(which, launches.cost[short], len(names))
    return ShortKernels(
        len(short),
        len(launches),
        tuple(trace.names[int(names[i])] for i in order),
        count[order],
        device_time[order],
        launch_time[order],
    )
