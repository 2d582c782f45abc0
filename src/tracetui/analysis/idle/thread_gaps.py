"""The gaps of a trace of the CPU alone: when the main thread was in no op, and what it was in instead.

Ops inside a `DataLoader` or a collective are a part of those, as in the verdict. So on a single thread the
gaps are all that the verdict calls data loading, communication and outside ops. A thread's gaps stand under
`~lane`, which no device has.
"""

from __future__ import annotations

import re

import numpy as np
from msgspec import Struct

from tracetui.analysis.calls.ancestors import covering, first_up
from tracetui.analysis.calls.sums import sum_into
from tracetui.analysis.idle.cpu_verdict import CpuWork, cpu_work_of
from tracetui.analysis.idle.gap_list import GapList, gaps_of, list_gaps
from tracetui.analysis.idle.gaps import DeviceGaps, busy_blocks, clip
from tracetui.analysis.names.kernel_names import short_name
from tracetui.analysis.part import Part, fact, fact_of_trace
from tracetui.analysis.select import name_mask
from tracetui.analysis.steps.loading import loading_time
from tracetui.analysis.steps.scope import step_of, step_table_of, window_of
from tracetui.analysis.verdicts import verdict_window
from tracetui.trace import Kind, Trace
from tracetui.trace.model import I8, I64

REASONS = (
    "data loading", "communication", "profiler", "other threads", "annotation", "Python", "nothing recorded"
)  # fmt: skip
"""What the main thread was in for at least half of a gap; the first that applies."""
LOADING, TALKING, PROFILER, OTHERS, ANNOTATED, PYTHON, UNRECORDED = range(len(REASONS))
_BUILT_IN = re.compile(r"<built-in |<method ")
_OF_PROFILER = re.compile(r"(?:.*/)?(?:tracetui/capture/child|torch/profiler|torch/autograd/profiler)[/.]")


class ThreadGaps(Struct, frozen=True, eq=False):
    """The gaps, and a reason for each. Arrays of one length."""

    gaps: GapList
    reason: I8
    """Index into `REASONS`."""
    within: I64
    """The innermost annotation or Python function that covers half of the gap, -1 for none. A step does not
    count."""
    caller: I64
    """The Python function with a file and a line around that, or itself; else `within`."""
    step: I64
    """The step in which it begins, -1 for none."""


def main_lanes(part: Part, work: CpuWork) -> list[int]:
    """The main thread of each process that has ops: the one with the steps, else the one that gave its
    process its number, else the one with the most time in ops."""
    trace = part.trace
    time = sum_into(trace.lane[work.ops].astype(np.int64), trace.duration[work.ops], len(trace.lanes))
    ops = np.flatnonzero(np.bincount(trace.lane[work.ops], minlength=len(trace.lanes)))
    events = step_table_of(part).event
    steps = set(trace.lane[events[events >= 0]].tolist())
    found: dict[int, tuple[bool, bool, int, int]] = {}
    for lane in ops.tolist():
        this = trace.lanes[lane]
        named = this.tid == trace.processes[this.process].pid
        rank = lane in steps, named, int(time[lane]), -lane
        found[this.process] = max(found.get(this.process, rank), rank)
    return sorted(-rank[-1] for rank in found.values())


@fact_of_trace
def _every_gap(part: Part) -> GapList:
    """Those of the whole trace."""
    work = cpu_work_of(part)
    if work is None:
        return list_gaps(())
    low, high = verdict_window(part)
    return list_gaps([_gaps_of_lane(part.trace, work, lane, low, high) for lane in main_lanes(part, work)])


def _gaps_of_lane(trace: Trace, work: CpuWork, lane: int, low: int, high: int) -> DeviceGaps:
    ops = work.ops[trace.lane[work.ops] == lane]
    blocks, closes, opens = busy_blocks(trace.start, trace.duration, ops)
    low, high = min(low, int(blocks.start[0])), max(high, int(blocks.end[-1]))
    start, end = np.append(low, blocks.end), np.append(blocks.start, high)
    before, after = np.append(-1, closes), np.append(opens, -1)
    real = end > start
    start, end, before, after = (column[real] for column in (start, end, before, after))
    return DeviceGaps(
        ~lane, len(ops), low, high, blocks.total, 0, start, end - start, before, after,
        np.arange(len(start)), blocks,
    )  # fmt: skip


@fact
def thread_gaps_of(part: Part) -> ThreadGaps:
    """The gaps of the main thread of each process; none if the trace is not of the CPU alone. For a part of
    the trace, cut at its borders."""
    gaps, trace, work = _every_gap(part), part.trace, cpu_work_of(part)
    if not part.is_whole:
        gaps = list_gaps([clip(one, *window_of(part)) for one in gaps.devices])
    start, end, lane = gaps.start, gaps.start + gaps.duration, ~gaps.device
    within = covering(trace, lane, start, end)
    steps = step_table_of(part)
    # A step says nothing, and what is around it says less.
    idle = np.isin(trace.kind, (int(Kind.ANNOTATION), int(Kind.PYTHON)))
    idle &= ~name_mask(trace, lambda name: name.startswith("ProfilerStep#"))[trace.name]
    idle[steps.event[steps.event >= 0]] = False
    known = (within >= 0) & idle[within]
    within = np.where(known, within, -1)
    python = trace.kind == int(Kind.PYTHON)
    placed = python & ~name_mask(trace, lambda name: _BUILT_IN.match(name) is not None)[trace.name]
    caller = first_up(trace, within, lambda at, _: placed[at] | ~python[at])
    caller = np.where(caller >= 0, caller, within)
    reason = np.where(within < 0, UNRECORDED, np.where(python[within], PYTHON, ANNOTATED)).astype(np.int8)
    if work is not None and len(gaps):
        own = name_mask(trace, lambda name: _OF_PROFILER.match(name) is not None)[trace.name[caller]]
        times = {
            OTHERS: work.in_ops.overlap(start, end),
            PROFILER: np.where((caller >= 0) & own, gaps.duration, 0),
            TALKING: work.talking.overlap(start, end),
            LOADING: loading_time(part).overlap(start, end),
        }
        for what, time in times.items():
            reason[2 * time >= gaps.duration] = what
    return ThreadGaps(gaps, reason, within, caller, step_of(steps, start).astype(np.int64))


@fact
def all_gaps_of(part: Part) -> GapList:
    """The gaps to show: those of the devices or, in a trace of the CPU alone, of its main thread."""
    return gaps_of(part) if cpu_work_of(part) is None else thread_gaps_of(part).gaps


def activity_of(part: Part, gap: int) -> str:
    """What the thread was in: `sleep, in train.py(4): wait`; "" if that was not recorded. Safe to show."""
    found, trace = thread_gaps_of(part), part.trace

    def short(at: int) -> str:
        name = trace.name_of(at)
        if trace.kind[at] == Kind.PYTHON and not _BUILT_IN.match(name):
            return name.rpartition("/")[2]  # with its file and line
        return short_name(name, trace.categories[int(trace.category[at])])

    within, caller = int(found.within[gap]), int(found.caller[gap])
    if within < 0:
        return ""
    return short(within) if within == caller else f"{short(within)}, in {short(caller)}"
