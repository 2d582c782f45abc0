"""Device time in which one kind of work runs and another does not, so that nothing hides it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tracetui.analysis.devices import device_of, side_by_side
from tracetui.analysis.idle.kinds import communicates
from tracetui.analysis.select import filter_by_name
from tracetui.trace import Kind, Trace
from tracetui.trace.intervals import StackedIntervals, sum_of
from tracetui.trace.model import I64, Bool

_WITHIN = re.compile(r"DtoD|DeviceToDevice|\bD2D\b")
"""Names used by CUPTI, roctracer and XPUPTI."""


@dataclass(frozen=True, slots=True)
class Alone:
    """The time of one kind of work without another, on each device."""

    both: StackedIntervals
    """When a device runs either kind."""
    other: StackedIntervals
    """When it runs the other kind."""

    def overlap(self, start: I64, end: I64) -> I64:
        """Time within each [start, end) with the first kind and not the other, in ns, over all devices."""
        return self.both.overlap(start, end) - self.other.overlap(start, end)


def exposed_communication(trace: Trace) -> Alone:
    """The time of collectives while no other kernel runs on their device."""
    talks = communicates(trace)

    def kinds(at: I64) -> tuple[Bool, Bool]:
        kernel = trace.kind[at] == int(Kind.KERNEL)
        talk = kernel & talks[trace.name[at]]
        return talk, kernel & ~talk

    return _alone(trace, kinds)


def is_within_device(name: str) -> bool:
    """Whether a copy of this name stays within the device's memory."""
    return _WITHIN.search(name) is not None


def host_copies(trace: Trace, at: I64) -> Bool:
    """Which of the slices `at` are copies between the device and elsewhere, as opposed to copies within the
    device's memory. Shape of `at`."""
    copy = trace.kind[at] == int(Kind.MEMCPY)
    copies = at[copy]
    copy[copy] = ~np.isin(copies, filter_by_name(trace, copies, is_within_device))
    return np.asarray(copy, dtype=np.bool_)


def alone_within(trace: Trace, at: I64, start: I64, end: I64) -> I64:
    """How much of [start, end), a part of each of the slices `at`, passes while no kernel runs on its device,
    in ns."""
    device, time = device_of(trace)[trace.lane[at]], end - start
    for devices in side_by_side(trace):
        mine = np.flatnonzero(np.isin(device, devices.index))
        shift = devices.shift[np.searchsorted(devices.index, device[mine])]
        kernels = devices.union(trace.kind[devices.work] == int(Kind.KERNEL))
        time[mine] -= kernels.overlap(start[mine] + shift, end[mine] + shift)
    return time


def _alone(trace: Trace, kinds: Callable[[I64], tuple[Bool, Bool]]) -> Alone:
    """`kinds`: given slices, returns which are of the first kind, and which of the other."""
    both, other = [], []
    for devices in side_by_side(trace):
        one, another = kinds(devices.work)
        both.append(devices.on_clock(devices.union(one | another)))
        other.append(devices.on_clock(devices.union(another)))
    return Alone(sum_of(both), sum_of(other))
