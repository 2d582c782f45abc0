"""What is slow about the first use of a device: its context, loading code, library handles.

Recognized by the names of what CUPTI reports (`Lazy Function Loading`, ...), or by a first call that takes
far longer than calls of its kind usually do. How much longer: see `FAR`, `LONG_NS`, `ALONE_NS`.
"""

from __future__ import annotations

import re

import numpy as np

from tracetui.analysis.calls.ancestors import deepest_at, first_marked
from tracetui.analysis.select import filter_by_name, name_mask, plausible, slices_named
from tracetui.core.columns import earliest, unique
from tracetui.trace import Kind, Trace
from tracetui.trace.intervals import union
from tracetui.trace.model import I64, Bool
from tracetui.trace.unrecorded_time import held_launches

FAR = 10
"""A first call counts as slow from this multiple of the median of its name on."""
LONG_NS = 100_000
"""Shorter calls never count as initialisation: a busy CPU can make any call this long."""
ALONE_NS = 1_000_000
"""A call with no others to compare it with must be at least this long, and so must an op around such a
call."""
ALLOCATION_NS = 10_000_000
"""The first `cudaMalloc` or `cudaFree` must be at least this long: these are slow at any time."""
AGAIN = 0.5
"""If a later call that does not initialize takes at least this share of its time, the first one is not slow
only once."""
SEVERAL, HELD = 5, 0.25
"""A thread that begins at least `SEVERAL` ops and calls meanwhile is not held up, unless it is in one of them
for `HELD` of the time."""
_BOUNDS = np.array([np.iinfo(np.int64).min, np.iinfo(np.int64).max])
FEW = 3
"""With at least this many calls of a name, their median means something."""

_LOADING = re.compile(r"Lazy Function Loading|Runtime Triggered Module Loading|Driver Compiler")
"""What CUPTI reports besides the profiler's own work: a program without a profiler spends this time too."""
_QUEUE_FULL = "Command Buffer Full"
"""This one is neither: the queue is full, and the call blocks until there is room (CUPTI's release notes,
CUDA 12.4)."""
_ONCE = re.compile(
    r"cuInit|hipInit|\w*(ModuleLoad|LibraryLoad|CtxCreate|PrimaryCtx|StreamCreate|EventCreate|ModuleGetFunction"
    r"|LibraryGet|GetDeviceCount|StreamPriorityRange|HandleCreate|CommInit)"
)
"""Calls that a program makes once, or once per object, however many there are."""
_ORDINARY = re.compile(
    r"\w*(Memcpy|HostAlloc|HostMalloc|HostRegister|Synchronize|EventWait|GraphInstantiate)", re.I
)
"""Calls whose length depends on what they are asked to do: a long first one says nothing."""
_ALLOCATING = re.compile(r"\w*(Malloc|Free|MemAlloc|MemCreate|MemMap|MemRelease)")


def is_loading(name: str) -> bool:
    """Whether an `overhead` event of this name is a cost of first use that CUDA itself has."""
    return _LOADING.match(name) is not None


def is_profilers(name: str) -> bool:
    """Whether an `overhead` event of this name is the profiler's own work."""
    return not is_loading(name) and name != _QUEUE_FULL


def loading(trace: Trace) -> I64:
    """The `overhead` events of loading code. Slices."""
    return slices_named(trace, is_loading, Kind.OVERHEAD)


def queue_full(trace: Trace) -> I64:
    """The `overhead` events of launches that wait for a place in the queue. Slices."""
    return slices_named(trace, lambda name: name == _QUEUE_FULL, Kind.OVERHEAD)


def profilers_work(trace: Trace) -> I64:
    """The `overhead` events of the profiler that a thread may have waited for. Slices."""
    at = slices_named(trace, is_profilers, Kind.OVERHEAD)
    return at[~_beside(trace, at)]


def _beside(trace: Trace, at: I64) -> Bool:
    """Mask: which of the `overhead` events ran on a thread of the profiler's own: other threads began ops and
    calls meanwhile, and none of them was in the same one for `HELD` of the time."""
    start, end = trace.start[at], trace.end_of(at)
    goes_on, held = (np.zeros(len(at), dtype=np.bool_) for _ in range(2))
    long = trace.duration[at] >= LONG_NS
    threads = [i for i, lane in enumerate(trace.lanes) if lane.kind == "thread"] if long.any() else ()
    works = trace.is_kind(Kind.CPU_OP, Kind.RUNTIME) if threads else long[:0]
    for i in threads:
        lane = trace.lanes[i]
        rows = lane.first + np.flatnonzero(works[lane.first : lane.last])
        begun = trace.start[rows]
        many = long & (np.searchsorted(begun, end) - np.searchsorted(begun, start) >= SEVERAL)
        if not many.any():
            continue
        goes_on |= many
        border = np.sort(np.concatenate([_BOUNDS, begun, begun + trace.duration[rows]]))
        event = np.flatnonzero(many & ~held)
        begin, length = start[event, None], (end - start)[event, None]
        time = begin + length * np.arange(8) // 8  # one of these times is in each stretch of `HELD`
        after = np.searchsorted(border, time, side="right")
        stretch = np.minimum(border[after], begin + length) - np.maximum(border[after - 1], begin)
        inner = deepest_at(trace, np.full(time.size, i), time.ravel()).reshape(time.shape)
        held[event] = ((stretch >= HELD * length) & (inner >= 0) & works[inner]).any(1)
    return goes_on & ~held


def first_calls(trace: Trace) -> I64:
    """The runtime calls that initialize, by slice. Sorted.

    A launch counts if it is the first of its kernel, any other call if it is the first of its name; either
    has to take `FAR` times the median of its name.
    """
    call = plausible(trace, Kind.RUNTIME)
    call = call[trace.duration[call] >= LONG_NS]
    call = filter_by_name(trace, call, lambda name: _ORDINARY.match(name) is None)
    call = call[~np.isin(call, list(held_launches(trace)))]
    full = queue_full(trace)
    if len(full):  # a call that waited for the queue is not a first use
        waits = union(trace.start[full], trace.end_of(full))
        call = call[2 * waits.overlap(trace.start[call], trace.end_of(call)) < trace.duration[call]]
    if not len(call):
        return call
    every = plausible(trace, Kind.RUNTIME)
    once = name_mask(trace, _ONCE.match)[trace.name[call]]
    allocating = name_mask(trace, _ALLOCATING.match)[trace.name[call]]
    least = np.full(len(call), float(LONG_NS))
    for name in np.unique(trace.name[call]):
        length = trace.duration[every[trace.name[every] == name]]
        enough = FAR * float(np.median(length)) if len(length) >= FEW else ALONE_NS
        least[trace.name[call] == name] = max(LONG_NS, enough)
    least[allocating] = np.maximum(least[allocating], ALLOCATION_NS)
    first = _first_of_name(trace, every, call) | _first_of_kernel(trace, call)
    return call[once | (first & (trace.duration[call] >= least))]


def first_ops(trace: Trace, calls: I64) -> I64:
    """The ops that are long because something in them initializes. They take `FAR` times the median of the
    others of their name, and are either the first of these, or the first to launch one of its kernels, with
    code being loaded meanwhile (each shape of a matrix product can need a kernel of its own). `calls`:
    `first_calls(trace)`."""
    event = loading(trace)
    middle = trace.start[event] + trace.duration[event] // 2
    loads = union(trace.start[event], trace.end_of(event))
    opens = _opening_launches(trace)
    inner = [calls]
    threads = [i for i, lane in enumerate(trace.lanes) if lane.kind == "thread"] if len(event) else []
    for lane in threads:
        at = deepest_at(trace, np.full(len(middle), lane, dtype=np.int64), middle)
        inner.append(at[at >= 0])
    within = unique(*inner)
    around = unique(first_marked(trace, within, trace.kind == Kind.CPU_OP))
    around = around[around >= 0]
    around = around[(trace.duration[around] >= ALONE_NS) & ~trace.implausible[around]]
    for launch in held_launches(trace):
        after = trace.start[around] > trace.start[launch]
        around = around[after | (trace.start[around] + trace.duration[around] < trace.start[launch])]
    if not len(around):
        return around
    ops = plausible(trace, Kind.CPU_OP)
    kept = []
    for op in around.tolist():
        begin, end = trace.start[[op]], trace.end_of([op])
        same = ops[trace.name[ops] == trace.name[op]]
        others = same[(trace.start[same] >= end) | (trace.end_of(same) <= begin)]
        if not len(others) or trace.duration[op] < FAR * float(np.median(trace.duration[others])):
            continue
        opened = opens[(trace.lane[opens] == trace.lane[op]) & (trace.start[opens] >= begin)]
        first_of_kernel = loads.overlap(begin, end)[0] and (trace.start[opened] < end).any()
        if begin <= trace.start[others].min() or first_of_kernel:
            kept.append(op)
    found = np.array(kept, dtype=np.int64)
    return found[[not _comes_again(trace, op, found, ops) for op in kept]]


def _comes_again(trace: Trace, op: int, found: I64, ops: I64) -> bool:
    """Whether a later op of the same name that does not initialize takes at least `AGAIN` of its time, for
    example because a library does the same for each new shape."""
    later = ops[(trace.name[ops] == trace.name[op]) & (trace.start[ops] > trace.start[op])]
    later = later[~np.isin(later, found)]
    return bool((trace.duration[later] >= AGAIN * trace.duration[op]).any())


def _first_of_name(trace: Trace, every: I64, call: I64) -> Bool:
    first = earliest(trace.name[every], trace.start[every], len(trace.names))
    return np.asarray(trace.start[call] == first[trace.name[call]], dtype=np.bool_)


def _first_of_kernel(trace: Trace, call: I64) -> Bool:
    """Whether each call is the first to launch one of its kernels."""
    return np.isin(call, _opening_launches(trace))


def _opening_launches(trace: Trace) -> I64:
    """The calls that are the first to launch a kernel of some name. Slices."""
    kernel = plausible(trace, Kind.KERNEL)
    kernel = kernel[trace.launch[kernel] >= 0]
    launch = trace.launch[kernel].astype(np.int64)
    first = earliest(trace.name[kernel], trace.start[launch], len(trace.names))
    return unique(launch[trace.start[launch] == first[trace.name[kernel]]])
