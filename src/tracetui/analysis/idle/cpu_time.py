"""What each launching thread was doing at any time: waiting, handling memory, in ops, or in a first use.

`CpuTime` looks at each thread once; `causes` uses it to divide the idle time of the devices.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from tracetui.analysis.calls.launches import NEARLY_ALL
from tracetui.analysis.calls.sums import sum_into
from tracetui.analysis.devices import device_of, work_of_devices
from tracetui.analysis.idle.exposed_time import host_copies
from tracetui.analysis.idle.gaps import DeviceGaps, busy_union, find_gaps
from tracetui.analysis.idle.initialization import first_calls, first_ops, loading, profilers_work, queue_full
from tracetui.analysis.part import Part, fact_of_trace
from tracetui.analysis.select import name_mask, op_names, plausible
from tracetui.core.columns import repeated, unique
from tracetui.trace import Kind, Trace
from tracetui.trace.intervals import EMPTY, Intervals, all_of, union
from tracetui.trace.model import I64
from tracetui.trace.unknown import host_nodes

LATENCY_NS = 5_000
"""The latency of a launch if the trace shows none."""
LONGEST_LATENCY_NS = 20_000
"""No launch takes longer than this to arrive after its end: beyond it, the work is waiting for something
else."""
BLOCKING_NS = 20_000
"""A copy call that has waited for its copy takes at least this long."""

_SYNC = re.compile(
    r"\w{0,40}Synchronize(?!d)|cn(rt)?QueueSync|cnrtSyncDevice|urEventWait|urQueueFinish"
    r"|(cuda|hip|musa)Memcpy(?!.*Async)|cuMemcpy(?!.*Async)|synchronize(Stream|Device|Event)?$"
)
_ALLOCATION = re.compile(
    r"(cuda|hip)(Malloc(?!.*Async)|Free(?!.*Async)|Host(Alloc|Malloc|Free|Register|Unregister)|ExtMalloc)"
    r"|cu(MemAlloc(?!.*Async)|MemFree(?!.*Async)|MemHost(Alloc|Register|Unregister)|MemCreate|MemRelease|MemMap"
    r"|MemUnmap|MemSetAccess|MemAddress(Reserve|Free))|hipMem(Create|Release|Map|Unmap|SetAccess|Address)"
    r"|urUSM(DeviceAlloc|HostAlloc|SharedAlloc|Free)|zeMem(AllocDevice|AllocHost|AllocShared|Free)"
)


def is_synchronizing(name: str) -> bool:
    """Whether a runtime call of this name makes the CPU wait for the device (blocking copies do)."""
    return _SYNC.match(name) is not None


def is_allocation(name: str) -> bool:
    """Whether a runtime call of this name allocates or frees memory, except in stream order."""
    return _ALLOCATION.match(name) is not None


class CpuTime:
    """What each launching thread was doing at any time, for the causes of idle time.

    Each thread has five unions, each of which contains the one before: initialisation (and full queues); then
    also the profiler; then synchronizing calls; then allocation; then ops. Each thread is looked at once.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.gaps: Sequence[DeviceGaps] | None = None
        """The gaps of every device, if already found."""
        calls = first_calls(trace)
        self.first = unique(calls, first_ops(trace, calls))
        """The calls and ops that initialize. Slices, sorted."""
        self.full = busy_union(trace, queue_full(trace))
        """When a launch waited for a place in its queue."""
        self.in_graphs = busy_union(trace, host_nodes(trace))
        """When a node of a CUDA graph ran on the CPU."""
        self._loading = _both(self.full, busy_union(trace, loading(trace)))
        self._overhead = _both(self._loading, busy_union(trace, profilers_work(trace)))
        waiting, allocating = (name_mask(trace, of, Kind.RUNTIME) for of in (is_synchronizing, is_allocation))
        self._names = waiting, allocating, op_names(trace)
        self.work = work_of_devices(trace)
        work = np.concatenate([np.zeros(0, np.int64), *self.work.values()])
        work = work[trace.launch[work] >= 0]
        launches = np.zeros(len(trace), dtype=np.bool_)
        launches[trace.launch[work]] = True
        self._launches = np.flatnonzero(launches)
        self.linked = bool(launches.any())
        """Whether any device work has its launch in the trace."""
        self._blocking, self._copied = blocking_copies(trace, work)
        self._lanes: dict[int, tuple[tuple[Intervals, ...], Intervals]] = {}
        self._with_others: dict[int, Intervals] = {}
        self._ops: dict[int, Intervals] = {}
        """When each lane was in ops."""
        self._processes: dict[int, tuple[list[int], Intervals]] = {}
        """For each process, its lanes that have ops, and when any of them was in one."""
        self._lanes_of: dict[int, list[int]] = {}
        """The lanes of each process."""
        for i, one in enumerate(trace.lanes):
            self._lanes_of.setdefault(one.process, []).append(i)

    @cached_property
    def latency(self) -> int:
        """The time from a launch's end to the start of its work on an idle device, ns: the median, at most
        `LONGEST_LATENCY_NS`."""
        return _latency(self.trace, find_gaps(self.trace) if self.gaps is None else self.gaps)

    def states(self, lane: int) -> tuple[Intervals, ...]:
        """The five unions of a lane; lane -1 means no thread."""
        return self._of(lane)[0]

    def waits(self, lane: int) -> Intervals:
        """When the lane was in a synchronizing call. A blocking copy counts only until the copy began."""
        return self._of(lane)[1]

    def with_others(self, lane: int) -> Intervals:
        """The last of `states`, joined with the times when other threads of the lane's process were in
        ops."""
        if lane not in self._with_others:
            self._with_others[lane] = all_of([self.states(lane)[-1], self.process_ops(lane)])
        return self._with_others[lane]

    def process_ops(self, lane: int) -> Intervals:
        """When any thread of the lane's process was in ops; `EMPTY` if no other thread has ops."""
        process = self.trace.lanes[lane].process
        if process not in self._processes:
            here = [i for i in self._lanes_of[process] if len(self._in_ops(i))]
            self._processes[process] = here, all_of([self._in_ops(i) for i in here])
        here, ops = self._processes[process]
        return EMPTY if here in ([], [lane]) else ops

    def of_others(self, lane: int, begin: I64, end: I64) -> I64:
        """How much of each [begin, end) is in `with_others` but not in the last of `states`, ns. Shape of
        `begin`."""
        own, ops = self.states(lane)[-1], self.process_ops(lane)
        low = np.searchsorted(ops.end, begin, side="right")
        count = np.where(end > begin, np.maximum(np.searchsorted(ops.start, end) - low, 0), 0)
        which = repeated(np.arange(len(begin)), count)
        piece = np.arange(len(which)) + repeated(low - np.cumsum(count) + count, count)
        start, over = np.maximum(ops.start[piece], begin[which]), np.minimum(ops.end[piece], end[which])
        return sum_into(which, over - start - own.overlap(start, over), len(begin))

    @cached_property
    def ended(self) -> tuple[I64, I64, I64]:
        """All work of the devices, by its end: (slices, ends, for each the position of the last one before it
        on another device, -1 for none)."""
        trace = self.trace
        work = np.concatenate([np.sort(at) for at in self.work.values()])
        over = trace.end_of(work)
        order = np.argsort(over, kind="stable")
        device = device_of(trace)[trace.lane[work[order]]]
        run = np.arange(len(work))
        run[1:][device[1:] == device[:-1]] = 0
        return work[order], over[order], np.maximum.accumulate(run) - 1

    def launched_before(self, launch: I64, lane: int) -> I64:
        """The launch of the lane before each of `launch`; -1 for none."""
        at = np.searchsorted(self._launches, launch) - 1
        before = (
            np.where(at >= 0, self._launches[at], -1) if len(self._launches) else np.full(len(launch), -1)
        )
        return np.where(before >= self.trace.lanes[lane].first, before, -1)

    def _of(self, lane: int) -> tuple[tuple[Intervals, ...], Intervals]:
        if lane not in self._lanes:
            self._lanes[lane] = self._look_at(lane)
        return self._lanes[lane]

    def _look_at(self, lane: int) -> tuple[tuple[Intervals, ...], Intervals]:
        if lane < 0:
            return (self._loading, *(self._overhead,) * 4), EMPTY
        trace, (synchronizing, allocating, _) = self.trace, self._names
        this = trace.lanes[lane]
        runtime = plausible(trace, Kind.RUNTIME)
        runtime = runtime[slice(*np.searchsorted(runtime, (this.first, this.last)))]
        name = trace.name[runtime]
        low, high = np.searchsorted(self.first, (this.first, this.last))
        mine = self.first[low:high]
        low, high = np.searchsorted(self._blocking, (this.first, this.last))
        copies, calls = self._blocking[low:high], runtime[synchronizing[name]]
        sync = busy_union(trace, unique(calls, copies))
        waits = sync
        if len(copies):  # the copying itself is not a wait for earlier work
            calls = np.setdiff1d(calls, copies)
            start = np.concatenate([trace.start[calls], trace.start[copies]])
            end = np.concatenate([trace.end_of(calls), self._copied[low:high]])
            waits = union(start, np.maximum(start, end))
        started = _both(self._loading, _without(busy_union(trace, mine), self._overhead))
        profiled = _both(started, self._overhead)
        waited = _both(profiled, sync)
        allocated = _both(waited, busy_union(trace, runtime[allocating[name]]))
        worked = _both(allocated, self._in_ops(lane))
        return (started, profiled, waited, allocated, worked), waits

    def _in_ops(self, lane: int) -> Intervals:
        if lane not in self._ops:
            this, ops = self.trace.lanes[lane], plausible(self.trace, Kind.CPU_OP)
            ops = ops[slice(*np.searchsorted(ops, (this.first, this.last)))]
            mine = self._names[2][self.trace.name[ops]]
            self._ops[lane] = busy_union(self.trace, ops if mine.all() else ops[mine])
        return self._ops[lane]


def _both(one: Intervals, other: Intervals) -> Intervals:
    return all_of((one, other))


def _without(one: Intervals, other: Intervals) -> Intervals:
    """The parts of the first that the second does not cover."""
    if not len(one) or not len(other):
        return one
    border = unique(one.start, one.end, other.start, other.end)
    low, high = border[:-1], border[1:]
    left = (one.overlap(low, high) > 0) & (other.overlap(low, high) == 0)
    return union(low[left], high[left])


def blocking_copies(trace: Trace, work: I64, most: float = NEARLY_ALL) -> tuple[I64, I64]:
    """Copy calls that end after most of their copy: with pageable memory, even asynchronous ones wait until
    the last piece is on its way. Nothing waits for a copy within the device's memory. Slices, and when their
    copies begin."""
    copy = work[host_copies(trace, work)]
    call = trace.launch[copy].astype(np.int64)
    held = trace.start[copy] + (most * trace.duration[copy]).astype(np.int64)
    over = held <= trace.end_of(call)
    copy = copy[over & (trace.duration[call] >= BLOCKING_NS)]
    copy = copy[np.argsort(trace.start[copy], kind="stable")]
    calls, first = np.unique(trace.launch[copy].astype(np.int64), return_index=True)
    return calls, trace.start[copy[first]].astype(np.int64)


def _latency(trace: Trace, gaps: Sequence[DeviceGaps]) -> int:
    none = np.zeros(0, np.int64)
    after, start, length = (
        np.concatenate([none, *(getattr(device, field) for device in gaps)])
        for field in ("after", "start", "duration")
    )
    launch = trace.launch[after].astype(np.int64)
    late = (launch >= 0) & (trace.start[launch] >= start)
    end = trace.end_of(launch)
    values = np.maximum(start + length - end, 0)[late]
    return min(int(np.median(values)), LONGEST_LATENCY_NS) if len(values) else LATENCY_NS


@fact_of_trace
def cpu_time_of(part: Part) -> CpuTime:
    """What each launching thread was doing at any time."""
    return CpuTime(part.trace)
