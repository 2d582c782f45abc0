"""Why a device stood idle: the cause of each gap, found from the event that ends it and that event's launch.

Let K be the event that ends a gap [g0, g1), and L its launch. The first rule that fits decides:

dependency   L had ended more than `LAUNCH_NS` before g0: the work was queued, and waited for another
             stream, an event or a copy. Also if L came later, but most of the gap (and more than `WAIT_NS`)
             came after L's end
profiler     an `overhead` event, such as `Activity Buffer Request`, overlaps the gap and took half as long
             or more
unlinked     K has no launch in the trace
launch       L was running at g0, or had ended at most `LAUNCH_NS` before: the latency of a launch
sync         L starts after g0; its thread was in a synchronising call in [g0, L.start), and the call took at
             least half as long as that interval
allocation   the same for calls that allocate or free memory
dispatch     L starts after g0, and its thread spent most of [g0, L.start) in ops: the framework's own
             overhead
host         L starts after g0, and most of [g0, L.start) is outside any op: Python, data loading, sleep,
             logging

A wait counts in full, including its part before the gap: without it, the launch would have come that much
earlier. A wait shorter than half of the gap does not explain it: a 1 us synchronising call before 100 ms of
data loading is not why the device stood idle.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tracetui.analysis.ancestors import covering, op_around
from tracetui.analysis.gaps import DeviceGaps, busy_union, work_of_devices
from tracetui.analysis.scope import StepTable, find_steps, launch_times, step_of
from tracetui.analysis.select import named, plausible
from tracetui.trace import Kind, Trace
from tracetui.trace.model import I8, I32, I64, Bool

CAUSES = ("profiler", "sync", "allocation", "dispatch", "host", "launch", "dependency", "unlinked")
"""A cause is an index into this."""

CAUSE_TEXT = {
    "profiler": "the profiler itself was at work",
    "sync": "the CPU had waited for the GPU",
    "allocation": "the CPU handled memory",
    "dispatch": "the CPU was in PyTorch ops",
    "host": "the CPU was outside any op",
    "launch": "the launch was on its way",
    "dependency": "queued, waited for other work",
    "unlinked": "no launch in the trace",
}
"""A few words for people on each cause: at most 32 characters."""

LAUNCH_NS = 5_000
"""A launch that ended at most this long before the gap is still on its way to the device."""
WAIT_NS = 20_000
"""No launch takes this long to arrive after its end: the work is waiting for something else."""

_SYNC = re.compile(
    r"(cuda|hip)(Device|Stream|Event|Thread)Synchronize|cu(Ctx|Stream|Event)Synchronize"
    r"|(cuda|hip)Memcpy(?!.*Async)|cuMemcpy(?!.*Async)|zeEventHostSynchronize|zeCommandQueueSynchronize|urEventWait"
)
_ANNOTATION = re.compile(r"enumerate\(DataLoader\)#|Optimizer\.|ProfilerStep#|## ")
"""Annotations that old traces record as operators."""
_ALLOCATION = re.compile(
    r"(cuda|hip)(Malloc(?!.*Async)|Free(?!.*Async)|Host(Alloc|Malloc|Free|Register|Unregister)|ExtMalloc)"
    r"|cu(MemAlloc(?!.*Async)|MemFree(?!.*Async)|MemHost(Alloc|Register|Unregister)|MemCreate|MemRelease|MemMap"
    r"|MemUnmap|MemSetAccess|MemAddress(Reserve|Free))|hipMem(Create|Release|Map|Unmap|SetAccess|Address)"
)


def is_synchronising(name: str) -> bool:
    """Whether a runtime call of this name makes the CPU wait for the device (blocking copies do)."""
    return _SYNC.match(name) is not None


def is_allocation(name: str) -> bool:
    """Whether a runtime call of this name allocates or frees memory, other than in stream order."""
    return _ALLOCATION.match(name) is not None


def is_op_name(name: str) -> bool:
    """Whether the name of an event recorded as an operator is an operator's, not an annotation's."""
    return _ANNOTATION.match(name) is None


@dataclass(frozen=True, slots=True)
class Causes:
    """The causes of stretches of idle time. Arrays of one length; slices are -1 where there is none."""

    cause: I8
    """Index into `CAUSES`."""
    event: I64
    """K, the device event that ends the stretch."""
    launch: I64
    """L."""
    op: I64
    """The op around L."""
    step: I32
    """Index of the step in which K was launched, -1 outside of all steps."""
    activity: I64
    """The innermost slice of the launching thread that covers half of the stretch or more."""


@dataclass(frozen=True, slots=True)
class CauseTotal:
    """The idle time that one cause explains."""

    cause: str
    gaps: int
    duration: int
    """Nanoseconds."""


def gap_causes(trace: Trace, gaps: DeviceGaps, steps: StepTable | None = None) -> Causes:
    """The causes of a device's gaps, in their order; a clipped gap has the cause of the whole gap.

    `steps`: `find_steps(trace)` by default.
    """
    begin = trace.start[gaps.before] + trace.duration[gaps.before]
    return explain(trace, begin, trace.start[gaps.after], gaps.after, steps)


def lead_in_cause(trace: Trace, gaps: DeviceGaps) -> Causes | None:
    """The cause of the idle time before the device's first event, of length 1; None where there is none.

    The lead-in is not a gap and counts in no total.
    """
    if gaps.lead_in <= 0:
        return None
    work = work_of_devices(trace)[gaps.device]
    first = work[np.argmin(trace.start[work])]
    begin, end = gaps.first - gaps.lead_in, gaps.first
    return explain(trace, np.array([begin]), np.array([end]), np.array([first]))


def cause_totals(gaps: DeviceGaps, causes: Causes) -> list[CauseTotal]:
    """The count and total length of the gaps of each cause, largest first. Adds up to `gaps.idle`."""
    return totals_by(causes.cause, gaps.duration)


def totals_by(cause: I8, duration: I64) -> list[CauseTotal]:
    """`cause_totals` of any selection of gaps."""
    length = np.zeros(len(CAUSES), dtype=np.int64)
    np.add.at(length, cause, duration)
    return cause_table(np.bincount(cause, minlength=len(CAUSES)), length)


def cause_table(count: I64, length: I64) -> list[CauseTotal]:
    """The causes that occur, largest first, from counts and lengths in the order of `CAUSES`."""
    order = sorted(range(len(CAUSES)), key=lambda i: (-int(length[i]), i))
    return [CauseTotal(CAUSES[i], int(count[i]), int(length[i])) for i in order if count[i] or length[i]]


def explain(trace: Trace, start: I64, end: I64, event: I64, steps: StepTable | None = None) -> Causes:
    """The causes of idle stretches [start, end) in ns, each ended by the device event `event`."""
    event = event.astype(np.int64)
    launch = trace.launch[event].astype(np.int64)
    linked = launch >= 0
    launch_start = np.where(linked, trace.start[launch], trace.start[event])
    launch_end = np.where(linked, trace.start[launch] + trace.duration[launch], launch_start)
    lane = np.where(linked, trace.lane[launch], -1).astype(np.int64)
    # Look at what the CPU did before the launch, or during the gap if the launch came first.
    before = np.minimum(launch_start, end)
    late = linked & (launch_start > start)

    spent = _Spent(trace, lane, start, before, late)
    ahead = before - start
    after = end - launch_end
    waited = (after > WAIT_NS) & (2 * after > end - start)
    rules: Sequence[tuple[str, Bool]] = (
        ("dependency", linked & np.where(late, waited, launch_end < start - LAUNCH_NS)),
        ("profiler", _profiler_took(trace, start, end)),
        ("unlinked", ~linked),
        ("launch", ~late),
        ("sync", (spent.sync > 0) & (2 * spent.sync >= ahead)),
        ("allocation", (spent.allocation > 0) & (2 * spent.allocation >= ahead)),
        ("dispatch", 2 * spent.ops > ahead),
    )
    cause = np.full(len(event), CAUSES.index("host"), dtype=np.int8)
    for name, fits in reversed(rules):
        cause[fits] = CAUSES.index(name)

    op = np.where(linked, trace.op[launch], -1).astype(np.int64)
    lost = np.flatnonzero(linked & (op < 0))
    op[lost] = op_around(trace, launch[lost])
    step = step_of(find_steps(trace) if steps is None else steps, launch_times(trace, event))
    activity = covering(trace, lane, start, np.where(late, before, end))
    return Causes(cause, event, launch, op, step, activity)


class _Spent:
    """Per stretch [start, end), in ns: its thread's time in ops within it, and the whole time of the
    synchronising and of the allocating calls that overlap it."""

    def __init__(self, trace: Trace, lane: I64, start: I64, end: I64, wanted: Bool) -> None:
        self.ops, self.sync, self.allocation = np.zeros((3, len(lane)), dtype=np.int64)
        synchronising, allocating = named(trace, is_synchronising), named(trace, is_allocation)
        op = named(trace, is_op_name)
        for i in np.unique(lane[wanted]):
            this = trace.lanes[int(i)]
            at = np.arange(this.first, this.last)[~trace.implausible[this.first : this.last]]
            runtime = at[trace.kind[at] == Kind.RUNTIME]
            name = trace.name[runtime]
            mine = np.flatnonzero(wanted & (lane == i))
            ops = at[(trace.kind[at] == Kind.CPU_OP) & op[trace.name[at]]]
            stretch = start[mine], end[mine]
            self.ops[mine] = busy_union(trace, ops).within(*stretch)
            self.sync[mine] = busy_union(trace, runtime[synchronising[name]]).touching(*stretch)
            self.allocation[mine] = busy_union(trace, runtime[allocating[name]]).touching(*stretch)


def _profiler_took(trace: Trace, start: I64, end: I64) -> Bool:
    took = busy_union(trace, plausible(trace, Kind.OVERHEAD)).touching(start, end)
    return np.asarray((took > 0) & (2 * took >= end - start), dtype=np.bool_)
