"""The time of each device split into what it did: compute, communication, copies, and idle time by cause.

Unlike the gaps, this covers the whole recording: also the time before a device's first event and after its
last one. The parts of a range add up to its length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tracetui.analysis.causes import AT, CAUSES, IdleTime, first_event
from tracetui.analysis.cpu_time import CpuTime
from tracetui.analysis.exposed_time import host_copies
from tracetui.analysis.gaps import DeviceGaps, busy_union, find_gaps
from tracetui.analysis.kinds import communicates
from tracetui.analysis.parts import BUSY_PARTS as BUSY_PARTS
from tracetui.analysis.scope import NEVER, launch_times
from tracetui.formats.machine import threads_for, together
from tracetui.trace import Kind, Trace
from tracetui.trace.intervals import Union
from tracetui.trace.model import I64
from tracetui.trace.nesting import first_places

IN_FLIGHT = "in flight"
"""Idle at the beginning of the recording, before work that was queued already: launched before the
recording, or the first that is recorded of its stream. Taken out of `unlinked` and `queued`. What ran then is
not known: work that is under way when a recording starts is not in the trace."""
COLUMNS = (*BUSY_PARTS, *CAUSES, IN_FLIGHT)
"""Of the arrays here: busy, then idle."""
BUSY = slice(0, len(BUSY_PARTS))
IDLE = slice(len(BUSY_PARTS), len(COLUMNS))
_MAYBE_IN_FLIGHT = [AT["unlinked"], AT["queued"]]
CAUSED = slice(len(BUSY_PARTS), len(COLUMNS) - 1)


AS_LONG = 2 / 3
"""Where the steps that follow wait for this share of the first one's lead-in, it is none."""
_NEVER_AGAIN = (1 << 63) - 1
USED_SHARE = 0.01
"""A device takes part if it is busy for this share of the time of the busiest, over the whole recording."""


@dataclass(frozen=True, slots=True)
class DeviceTime:
    """One device over the whole recording."""

    gaps: DeviceGaps
    idle: IdleTime
    """The gaps, and the time before the first event and after the last."""
    in_flight: IdleTime | None
    """Those of them that end with work as in `IN_FLIGHT`; None for none."""
    computing: Union
    kernels: Union
    own: Union
    """Kernels, memsets and copies within the device's memory."""

    def within(self, low: I64, high: I64) -> I64:
        """Shape (len(low), len(COLUMNS)), ns."""
        computing, kernels, own, all_ = (
            one.within(low, high) for one in (self.computing, self.kernels, self.own, self.gaps.blocks)
        )
        busy = np.stack([computing + own - kernels, kernels - computing, all_ - own], axis=1)
        idle, in_flight = self.idle.within(low, high), np.zeros((len(low), 2), np.int64)
        if self.in_flight is not None:
            in_flight = self.in_flight.within(low, high)[:, _MAYBE_IN_FLIGHT]
        idle[:, _MAYBE_IN_FLIGHT] -= in_flight
        return np.concatenate([busy, idle, in_flight.sum(1, keepdims=True)], axis=1)

    def lead(self, low: I64, high: I64) -> I64:
        """From the start of each [low, high) to the device's first event in it; 0 if it has none. Shape of
        `low`."""
        blocks = self.gaps.blocks
        at = np.searchsorted(blocks.end, low, side="right")
        begun = np.append(blocks.start, _NEVER_AGAIN)[at]
        return np.where(begun < high, np.maximum(begun - low, 0), 0)


class Split:
    """The time of all devices."""

    def __init__(
        self, trace: Trace, gaps: Sequence[DeviceGaps] | None = None, cpu: CpuTime | None = None
    ) -> None:
        """`gaps`: those of every device, if already at hand."""
        self.trace = trace
        gaps = find_gaps(trace) if gaps is None else gaps
        self.cpu = CpuTime(trace, gaps) if cpu is None else cpu
        self.devices = tuple(_device_time(trace, device, self.cpu) for device in gaps)
        busy = np.array([device.busy for device in gaps], dtype=np.int64)
        self._used = busy >= USED_SHARE * busy.max(initial=0)

    def within(self, low: I64, high: I64) -> I64:
        """Per device and range. Shape (devices, len(low), len(COLUMNS)), ns."""
        low, high = np.asarray(low, np.int64), np.asarray(high, np.int64)
        none = np.zeros((0, len(low), len(COLUMNS)), np.int64)
        return np.stack([device.within(low, high) for device in self.devices]) if self.devices else none

    def judged(self, time: I64) -> I64:
        """The time that a verdict is about, from that of all devices (shape (devices, ..., len(COLUMNS))): 0
        for devices that hardly take part, such as one that a single copy went to."""
        return np.where(self._used.reshape(-1, *[1] * (time.ndim - 1)), time, 0)

    def gaps_within(self, low: I64, high: I64) -> I64:
        """The gaps in each range, over all devices, by cause. Shape (len(low), len(CAUSES)), ns."""
        total = np.zeros((len(low), len(CAUSES)), np.int64)
        for device in self.devices:
            first, last = device.gaps.first, device.gaps.last
            total += device.idle.within(np.clip(low, first, last), np.clip(high, first, last))
        return total

    def lead_ins(self, low: I64, high: I64) -> I64:
        """What a pipeline needs to fill in the first range: the time before each device's first event in it,
        where the ranges that follow do not show as much. Split like `within`; shape (devices,
        len(COLUMNS))."""
        found = np.zeros((len(self.devices), len(COLUMNS)), np.int64)
        if len(low) < 2:
            return found
        for i, device in enumerate(self.devices):
            lead = device.lead(low, high)
            if 2 * float(np.median(lead[1:])) >= lead[0]:
                continue
            if AS_LONG * lead[0] > self._idle_before(i, low, high):
                found[i] = device.within(low[:1], low[:1] + lead[:1])[0]
        return found

    def _idle_before(self, device: int, low: I64, high: I64) -> float:
        """How long a device is idle in the ranges but the first before what they launch begins, median, ns:
        the rest of the work of the one before may run in the meantime."""
        trace, gaps = self.trace, self.devices[device].gaps
        at = self.cpu.work[gaps.device]
        at = at[trace.launch[at] >= 0]
        launched = trace.start[trace.launch[at]]
        order = np.argsort(launched, kind="stable")
        begun = np.minimum.accumulate(np.append(trace.start[at[order]], _NEVER_AGAIN)[::-1])[::-1]
        own = np.minimum(begun[np.searchsorted(launched[order], low[1:])], high[1:])
        return float(np.median(own - low[1:] - gaps.blocks.within(low[1:], own)))


def _device_time(trace: Trace, gaps: DeviceGaps, cpu: CpuTime) -> DeviceTime:
    at = cpu.work[gaps.device]
    kernel = trace.kind[at] == Kind.KERNEL
    talk = kernel & communicates(trace)[trace.name[at]]
    own, computing, *rest = together(
        [
            lambda: busy_union(trace, at[~host_copies(trace, at)]),
            lambda: busy_union(trace, at[kernel & ~talk]),
            *([lambda: busy_union(trace, at[kernel])] if talk.any() else []),
        ],
        threads_for(len(at)),
    )
    kernels = rest[0] if rest else computing
    low, high = trace.span
    before, after = (low, gaps.first), (gaps.last, high)
    last = at[trace.launch[at] >= 0]
    thread = -1
    if len(last):  # after its last work: the thread that launched last
        launch = trace.launch[last]
        thread = int(trace.lane[launch[np.argmax(trace.start[launch])]])
    edges = [(first_event(trace, at), -1, *before)] if before[1] > before[0] else []
    after_all = [(-1, -1, *after)] if after[1] > after[0] else []
    event, ended_by, start, end = (
        np.concatenate(
            [
                np.array([edge[i] for edge in edges], np.int64),
                of_gaps,
                np.array([edge[i] for edge in after_all], np.int64),
            ]
        )
        for i, of_gaps in enumerate((gaps.after, gaps.before, gaps.start, gaps.end))
    )
    idle = IdleTime(trace, start, end, event, ended_by, thread, cpu)
    places = first_places(trace.lane[at], len(trace.lanes))
    opens = np.sort(at[places[places >= 0]])
    opened = opens[np.minimum(np.searchsorted(opens, event), len(opens) - 1)] == event
    # Where no work has a launch, none is known to come from before the recording.
    maybe = np.flatnonzero((event >= 0) & ((idle.launch < 0) | opened)) if len(last) else last[:0]
    early = maybe[opened[maybe] | (launch_times(trace, event[maybe]) == NEVER)]
    in_flight = None
    if len(early):
        start, end, event, ended_by = (column[early] for column in (start, end, event, ended_by))
        in_flight = IdleTime(trace, start, end, event, ended_by, thread, cpu)
    return DeviceTime(gaps, idle, in_flight, computing, kernels, own)
