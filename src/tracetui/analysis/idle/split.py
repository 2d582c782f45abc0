"""Splits the time of each device into what it did (compute, communication, copies) and idle time by cause.

Unlike the gaps, this covers the whole recording, including the time before a device's first event and after
its last one. The parts of a range add up to its length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from tracetui.analysis.devices import Devices, side_by_side, work_of_devices
from tracetui.analysis.idle.causes import AT, CAUSES, NOT_THE_PROGRAMS, Causes, IdleTime
from tracetui.analysis.idle.cpu_time import CpuTime, cpu_time_of
from tracetui.analysis.idle.exposed_time import host_copies
from tracetui.analysis.idle.gap_list import GapList, gaps_of, join_causes
from tracetui.analysis.idle.gaps import DeviceGaps, find_gaps
from tracetui.analysis.idle.kinds import communicates
from tracetui.analysis.idle.parts import BUSY_PARTS as BUSY_PARTS
from tracetui.analysis.part import Part, fact, fact_of_trace
from tracetui.analysis.steps.scope import NEVER, find_steps, launch_times, step_table_of
from tracetui.analysis.steps.step_table import StepTable
from tracetui.core.columns import repeated
from tracetui.core.threads import run_parallel, threads_for
from tracetui.trace import Kind, Trace
from tracetui.trace.intervals import sum_of
from tracetui.trace.model import I64, Bool
from tracetui.trace.nesting import first_places
from tracetui.trace.unrecorded_time import IN_FLIGHT

COLUMNS = (*BUSY_PARTS, *CAUSES)
"""The columns of the arrays here: busy parts, then idle ones."""
BUSY = slice(0, len(BUSY_PARTS))
IDLE = slice(len(BUSY_PARTS), len(COLUMNS))
_MAYBE_IN_FLIGHT = [AT["unlinked"], AT["queued"]]
"""Idle time at the beginning of the recording, before work that was already queued (work launched before the
recording, or the first recorded work of the device), is in flight, too. What ran then is not known: work that
is under way when a recording starts is not in the trace. The gaps show it as what it is taken out of."""
_CAUSES_IN_FLIGHT = [len(BUSY_PARTS) + cause for cause in _MAYBE_IN_FLIGHT]
CAUSED = slice(len(BUSY_PARTS), len(BUSY_PARTS) + len(CAUSES))
_NOT_THE_PROGRAMS = [COLUMNS.index(cause) for cause in NOT_THE_PROGRAMS]


AS_LONG = 2 / 3
"""If the steps that follow wait for at least this share of the first one's lead-in, it is not a lead-in."""
_NEVER_AGAIN = (1 << 63) - 1
_PAIR = 4
"""Looking at a pair of a device and a time takes this many times as long as sorting an idle stretch."""
USED_SHARE = 0.01
"""A device counts if it is busy for at least this share of the busiest one's time, over the whole
recording."""


class Split:
    """The time of all devices."""

    def __init__(
        self, trace: Trace, gaps: Sequence[DeviceGaps] | None = None, cpu: CpuTime | None = None
    ) -> None:
        """`gaps`: those of every device, if already found."""
        self.trace = trace
        self.gaps = tuple(find_gaps(trace) if gaps is None else gaps)
        self.cpu = CpuTime(trace) if cpu is None else cpu
        self.cpu.gaps = self.gaps
        axes = side_by_side(trace) if self.gaps else ()
        first = np.concatenate(
            [np.zeros(1, np.int64), np.cumsum([len(devices) for devices in axes])]
        ).tolist()
        self.times = tuple(
            DeviceTimes(devices, self.gaps[low:high], self.cpu)
            for devices, low, high in zip(axes, first, first[1:], strict=False)
        )
        """Usually one, with all devices."""
        busy = np.array([device.busy for device in self.gaps], dtype=np.int64)
        self._used = busy >= USED_SHARE * busy.max(initial=0)

    def overlap(self, low: I64, high: I64) -> I64:
        """The time of each device in each range. Shape (devices, len(low), len(COLUMNS)), ns."""
        low, high = np.asarray(low, np.int64), np.asarray(high, np.int64)
        none = np.zeros((0, len(low), len(COLUMNS)), np.int64)
        return _joined([some.overlap(low, high) for some in self.times], none)

    def of_all(self, low: I64, high: I64) -> tuple[I64, I64]:
        """(the time of all devices together in each range; only that of the devices that `judged` counts).
        Shapes (len(low), len(COLUMNS)), ns. The cost grows with the number of devices plus the number of
        ranges, not with their product."""
        every = self._of_all(low, high, np.ones_like(self._used))
        return every, every.copy() if self._used.all() else self._of_all(low, high, self._used)

    def _of_all(self, low: I64, high: I64, counts: Bool) -> I64:
        found, first = np.zeros((len(low), len(COLUMNS)), np.int64), 0
        for some in self.times:
            mine = counts[first : first + len(some)]
            found += _between(partial(some.of_all, counts=mine), low, high)
            first += len(some)
        return found

    def judged(self, time: I64) -> I64:
        """The part of the devices' times (shape (devices, ..., len(COLUMNS))) that a verdict is about: 0 for
        devices that hardly take part, such as one that received a single copy."""
        if self._used.all():
            return time
        return np.where(self._used.reshape(-1, *[1] * (time.ndim - 1)), time, 0)

    def idle_within(self, low: I64, high: I64) -> I64:
        """The idle time in each range, over all devices, by cause. Shape (len(low), len(CAUSES)), ns."""
        found = np.zeros((len(low), len(CAUSES)), np.int64)
        for some in self.times:
            found += _between(some.idle_of_all, low, high)
        return found

    def gaps_within(self, low: I64, high: I64) -> I64:
        """The same, for the gaps only."""
        found = np.zeros((len(low), len(CAUSES)), np.int64)
        for some in self.times:
            found += _between(some.gaps_of_all, low, high)
        return found

    def main_causes(self) -> I64:
        """The main cause of each gap, by device and then by time."""
        found = [some.idle.main[some.gap].astype(np.int64) for some in self.times]
        return _joined(found, np.zeros(0, np.int64))

    def stretches(self, i: int) -> tuple[I64, I64, I64]:
        """(starts, ends, the slices that end them; -1: none) of the i-th device's idle stretches."""
        some, i = self._place(i)
        rows = slice(*some.stretches[i : i + 2].tolist())
        return some.idle.start[rows], some.idle.end[rows], some.idle.event[rows]

    def edges(self, low: int, high: int) -> list[tuple[I64, I64, I64]]:
        """For each device (causes, activity, event), as of `Causes`, of what lies in [low, high) of the time
        before its first event and after its last."""
        found = []
        for some in self.times:
            every = np.flatnonzero(~some.gap)
            start, end = (np.clip(time[every], low, high) for time in (some.idle.start, some.idle.end))
            causes = some.idle.causes(every, start, end, find_steps(self.trace))
            cuts = np.searchsorted(every, some.stretches).tolist()
            columns = causes.pieces, causes.activity, causes.event
            found += list(zip(*(np.split(column, cuts[1:-1]) for column in columns), strict=True))
        return found

    def idle_of(self, i: int, low: I64, high: I64) -> I64:
        """The i-th device's idle time in each range, by cause. Shape (len(low), len(CAUSES)), ns."""
        some, i = self._place(i)
        begin, end = (np.clip(time, *some.devices.span) + some.devices.shift[i] for time in (low, high))
        return some.idle.overlap(begin, end)

    def _place(self, i: int) -> tuple[DeviceTimes, int]:
        for some in self.times:
            if i < len(some):
                return some, i
            i -= len(some)
        raise IndexError(i)

    def causes(self, gaps: GapList, steps: StepTable) -> Causes:
        """Everything about the gaps of all devices; for clipped gaps, about what is left of them."""
        found, first, events = [], 0, np.array([len(device) for device in gaps.devices])
        for some in self.times:
            many = events[first : first + len(some)]
            low, first = int(events[:first].sum()), first + len(some)
            rows = slice(low, low + int(many.sum()))
            start, end = gaps.start[rows], gaps.start[rows] + gaps.duration[rows]
            every = repeated(some.gap_first, many) + gaps.index[rows]
            found.append(some.idle.causes(every, start, end, steps))
        return join_causes(found)

    def lead_ins(self, low: I64, high: I64) -> I64:
        """The time that a pipeline needs to fill up in the first range: the time before each device's first
        event in it, if the following ranges do not have as much. Split like `overlap`; shape (devices,
        len(COLUMNS))."""
        none = np.zeros((0, len(COLUMNS)), np.int64)
        if len(low) < 2:
            return np.zeros((len(self.gaps), len(COLUMNS)), np.int64)
        found, first = [], 0
        for some in self.times:
            lead = some.lead(low[:1], high[:1])[:, 0]
            # The profiler and first calls lengthen only the first one.
            own = lead - some.overlap(low[:1], (low[0] + lead)[:, None])[:, 0, _NOT_THE_PROGRAMS].sum(1)
            counts = lead > 0
            blocks = np.array([len(device.blocks) for device in self.gaps[first : first + len(some)]])
            # With fewer events, most of the following ranges would show nothing.
            for i in np.flatnonzero(counts & (2 * blocks >= len(low) - 1)).tolist():
                waits = float(np.median(some.lead(low[1:], high[1:], slice(i, i + 1))))
                counts[i] = 2 * waits < own[i] and AS_LONG * own[i] > self._idle_before(first + i, low, high)
            until = low[0] + np.where(counts, lead, 0)
            found.append(some.overlap(low[:1], until[:, None])[:, 0])
            first += len(some)
        return _joined(found, none)

    def _idle_before(self, device: int, low: I64, high: I64) -> float:
        """How long a device is idle in each range except the first before the work launched in it begins,
        median, ns: the rest of the previous range's work may run in that time."""
        trace, gaps = self.trace, self.gaps[device]
        at = work_of_devices(trace)[gaps.device]
        at = at[trace.launch[at] >= 0]
        launched = trace.start[trace.launch[at]]
        order = np.argsort(launched, kind="stable")
        begun = np.minimum.accumulate(np.append(trace.start[at[order]], _NEVER_AGAIN)[::-1])[::-1]
        own = np.minimum(begun[np.searchsorted(launched[order], low[1:])], high[1:])
        return float(np.median(own - low[1:] - gaps.blocks.overlap(low[1:], own)))


def _between(until: Callable[[I64], I64], low: I64, high: I64) -> I64:
    """What `until` finds between the start and the end of each [low, high); 0 if high <= low."""
    time, place = np.unique(np.concatenate([low, np.maximum(low, high)]), return_inverse=True)
    found = until(time)
    return found[place[len(low) :]] - found[place[: len(low)]]


def _joined(parts: list[I64], none: I64) -> I64:
    return parts[0] if len(parts) == 1 else np.concatenate([none, *parts])


def _columns(busy: list[I64], idle: I64, in_flight: I64 | None) -> I64:
    """Times by `COLUMNS`, from the times in the four unions of `DeviceTimes` and the idle times by cause."""
    computing, kernels, own, every = busy
    columns = np.empty((len(idle), len(COLUMNS)), np.int64)
    columns[:, 0], columns[:, 1], columns[:, 2] = computing + own - kernels, kernels - computing, every - own
    columns[:, CAUSED] = idle
    if in_flight is not None:
        columns[:, _CAUSES_IN_FLIGHT] -= in_flight[:, _MAYBE_IN_FLIGHT]
        columns[:, COLUMNS.index(IN_FLIGHT)] += in_flight[:, _MAYBE_IN_FLIGHT].sum(1)
    return columns


class DeviceTimes:
    """The times of several devices over the whole recording, on one axis."""

    def __init__(self, devices: Devices, gaps: Sequence[DeviceGaps], cpu: CpuTime) -> None:
        self.devices = devices
        trace, at = devices.trace, devices.work
        kernel = trace.kind[at] == Kind.KERNEL
        talk = kernel & communicates(trace)[trace.name[at]]
        unions = [
            lambda: devices.union(~host_copies(trace, at)),
            lambda: devices.union(kernel & ~talk),
            *([lambda: devices.union(kernel)] if talk.any() else []),
            *([devices.union] if len(gaps) > 1 else []),
        ]
        made = run_parallel(unions, threads_for(len(at)))
        self._busy = made[-1] if len(gaps) > 1 else gaps[0].blocks
        self._unions = (made[1], made[2] if talk.any() else made[1], made[0], self._busy)
        """When a device computed; ran any kernel; did that or worked within its memory; ran anything."""
        self._first, self._last = (
            np.array([getattr(device, of) for device in gaps])[:, None] for of in ("first", "last")
        )
        self._idle_times(gaps, cpu)

    def __len__(self) -> int:
        return len(self.devices)

    def _idle_times(self, gaps: Sequence[DeviceGaps], cpu: CpuTime) -> None:
        """Find the idle stretches: the gaps, and the time before the first event and after the last."""
        devices, trace, at, (low, high) = (
            self.devices,
            self.devices.trace,
            self.devices.work,
            self.devices.span,
        )
        first, last = self._first[:, 0], self._last[:, 0]
        before, after = np.flatnonzero(first > low), np.flatnonzero(last < high)
        many = np.array([len(device) for device in gaps])
        everyone = np.arange(len(gaps))
        which = np.concatenate([before, repeated(everyone, many), after])

        def all_gaps(field: str) -> list[I64]:
            return [getattr(device, field) for device in gaps]

        start = np.concatenate([np.full(len(before), low), *all_gaps("start"), last[after]])
        end = np.concatenate([first[before], *all_gaps("end"), np.full(len(after), high)])
        event = np.concatenate([at[devices.first[before]], *all_gaps("after"), np.full(len(after), -1)])
        ended_by = np.concatenate([np.full(len(before), -1), *all_gaps("before"), np.full(len(after), -1)])
        thread = np.concatenate([np.full(len(start) - len(after), -1), self._last_threads()[after]])
        shift = devices.shift[which]
        order = np.argsort(start + shift, kind="stable") if len(gaps) > 1 else slice(None)
        which, start, end, event, ended_by, thread, shift = (
            column[order] for column in (which, start, end, event, ended_by, thread, shift)
        )
        index = np.array(devices.index)
        self.idle = IdleTime(trace, start, end, event, ended_by, thread, cpu, shift, index[which])
        self.of = which
        """The index of the device of each stretch."""
        self.gap = ended_by >= 0
        """Which of the stretches are gaps."""
        begins = np.searchsorted(which, np.append(everyone, len(gaps)))
        self.stretches = begins
        """Where the stretches of each device begin, and the end."""
        self.gap_first = begins[:-1] + (first > low)
        """Where each device's gaps begin."""
        places = first_places(trace.lane[at], len(trace.lanes))
        opens = np.sort(at[places[places >= 0]])
        opened = opens[np.minimum(np.searchsorted(opens, event), len(opens) - 1)] == event
        # If no work has a launch, none is known to come from before the recording.
        linked = np.logical_or.reduceat(trace.launch[at] >= 0, devices.first[:-1])[which]
        maybe = np.flatnonzero((event >= 0) & ((self.idle.launch < 0) | opened) & linked)
        first_of_all = opened[maybe] & ((ended_by[maybe] < 0) | (self.idle.launch[maybe] < 0))
        early = maybe[first_of_all | (launch_times(trace, event[maybe]) == NEVER)]
        # Work that waited for recorded work is held up by that, not by anything earlier.
        held = self.idle.waited_for(early[self.idle.launch[early] >= 0]) >= 0
        early = early[~held[early]]
        early = early[~self.idle.is_unknown[early]]
        self._in_flight, self._early = None, early
        """The stretches that end with work as in `IN_FLIGHT`; None if there are none."""
        if len(early):
            start, end, event, ended_by, shift = (
                column[early] for column in (start, end, event, ended_by, shift)
            )
            self._in_flight = IdleTime(trace, start, end, event, ended_by, None, cpu, shift)

    def _last_threads(self) -> I64:
        """For each device, the lane of the thread that launched last; -1 for none."""
        trace, devices = self.devices.trace, self.devices
        launch = trace.launch[devices.work].astype(np.int64)
        launched = np.where(launch >= 0, trace.start[launch], NEVER)
        latest = np.maximum.reduceat(launched, devices.first[:-1])
        hit = np.flatnonzero(launched == repeated(latest, devices.events))
        last = launch[hit[np.searchsorted(hit, devices.first[:-1])]]
        return np.where(last >= 0, trace.lane[last], -1).astype(np.int64)

    def overlap(self, low: I64, high: I64) -> I64:
        """The time of each device in each range. `low`, `high`: shape (n,), or (devices, n) if they differ.
        Result: shape (devices, n, len(COLUMNS)), ns."""
        ranges = np.broadcast_shapes(np.shape(low), np.shape(high))[-1]
        shape = len(self), ranges
        begin, end = (self.devices.on_axis(np.broadcast_to(time, shape)).ravel() for time in (low, high))
        early = None if self._in_flight is None else self._in_flight.overlap(begin, end)
        busy = [one.overlap(begin, end) for one in self._unions]
        made = _columns(busy, self.idle.overlap(begin, end), early)
        return made.reshape(*shape, len(COLUMNS))

    def of_all(self, time: I64, counts: Bool) -> I64:
        """The time before each time, for the devices in a mask together. Shape (len(time), len(COLUMNS))."""
        if self._one_by_one(time):
            found: I64 = self.overlap(np.full_like(time, self.devices.low), time)[counts].sum(0)
            return found
        busy = [
            sum_of([self.devices.on_clock(one, None if counts.all() else counts)]).until(time)
            for one in self._unions
        ]
        early = None
        if self._in_flight is not None:
            early = self._in_flight.of_all(time, counts[self.of[self._early]])
        return _columns(busy, self.idle.of_all(time, counts[self.of]), early)

    def idle_of_all(self, time: I64) -> I64:
        """The idle time of all devices together before each time, by cause. Shape (len(time),
        len(CAUSES))."""
        if not self._one_by_one(time):
            return self.idle.of_all(time, np.ones_like(self.gap))
        each = np.broadcast_to(time, (len(self), len(time)))
        low, high = (self.devices.on_axis(at).ravel() for at in (np.full_like(each, self.devices.low), each))
        found: I64 = self.idle.overlap(low, high).reshape(*each.shape, len(CAUSES)).sum(0)
        return found

    def gaps_of_all(self, time: I64) -> I64:
        """The same, for the gaps only."""
        if not self._one_by_one(time):
            return self.idle.of_all(time, self.gap)
        rest = np.repeat(np.flatnonzero(~self.gap), len(time))
        start, end = self.idle.start[rest], self.idle.end[rest]
        until = np.clip(np.resize(time, len(rest)), start, end)
        pieces = self.idle.pieces(rest, start, until).reshape(-1, len(time), len(CAUSES))
        gaps: I64 = self.idle_of_all(time) - pieces.sum(0)
        return gaps

    def _one_by_one(self, time: I64) -> bool:
        """Whether looking at each pair of a device and a time is faster than sorting all idle stretches."""
        return _PAIR * len(self) * len(time) <= len(self.gap)

    def lead(self, low: I64, high: I64, some: slice = slice(None)) -> I64:
        """The time from the start of each [low, high) to each device's first event in it, for all or some
        devices; 0 if it has none. Shape (devices, len(low))."""
        shift = self.devices.shift[some, None]
        at = np.searchsorted(self._busy.end, low + shift, side="right")
        begun = np.append(self._busy.start, _NEVER_AGAIN)[at] - shift
        return np.where(begun < high, np.maximum(begun - low, 0), 0)


@fact_of_trace
def split_of(part: Part) -> Split:
    """The time of each device over the whole recording: what it did, and why it stood idle."""
    return Split(part.trace, gaps_of(part).devices, cpu_time_of(part))


@fact
def causes_of(part: Part) -> Causes:
    """The causes of all gaps, in the order of `gaps_of`."""
    return split_of(part).causes(gaps_of(part), step_table_of(part))


@fact
def device_causes_of(part: Part) -> tuple[Causes, ...]:
    """The same, device by device."""
    found, first = [], 0
    for device in gaps_of(part).devices:
        found.append(causes_of(part).part(slice(first, first + len(device))))
        first += len(device)
    return tuple(found)
