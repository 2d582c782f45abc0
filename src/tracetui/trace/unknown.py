"""Where a trace does not show when its devices did what: events of unknown categories, kernels missing or
without a duration, clocks that differ. What else is missing is in `unrecorded` and `unrecorded_time`."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from msgspec import Struct

from tracetui.core.columns import looked_up, unique
from tracetui.core.threads import map_blocks, run_parallel, threads_for
from tracetui.trace.indices import group_positions
from tracetui.trace.intervals import union, union_of
from tracetui.trace.model import DEVICE_WORK, I64, Kind, Trace, cached_on_trace
from tracetui.trace.unrecorded import (
    calls_named,
    has_name,
    linked_work,
    lost_throughout,
    missing_kernels,
    of_kinds,
)

IDLE_SHARE, SPAN_SHARE = 0.1, 0.01
"""If events of unknown categories fill at least these shares of a device's idle time, and of the time between
its first and last event, they may be what it did while nothing known ran."""
CLOCKS_NS = 50_000
"""If the clocks differ by at least this much, several times the latency of a launch, the causes of idle time
are not known."""
FEWEST, FEWEST_WAITS, PARTS, EARLY_SHARE = 20, 8, 16, 0.1
"""Clocks are compared in parts of at least so many launches, or waits, and in so many parts at most: they may
drift apart. They differ if this share of the work of a part starts before its launch by that much."""
APART, SECOND = 10, 1_000_000_000
"""No queue is so long that work begins this many times later than all launches, and all work, take
together."""
FEW, ZERO_SHARE, ZERO_SHARE_OF_MICROSECONDS = 3, 0.1, 0.5
"""So many kernels, and this share of a device's, have a duration of 0 only where durations are missing."""
LATENCY_NS, QUARTERS = 20_000, 4
"""A device that was idle for longer had no work in its queue. Delays are compared in so many parts."""
SAMPLES = 10_000
"""The most launches whose delays are used to compare the clocks."""


GRAPH_HOST, GRAPH_EVENT = "graph_host_node", "graph_event_node"
"""The categories of a CUDA graph's nodes that run nothing on the device: a function on the CPU, the record of
an event."""


def host_nodes(trace: Trace) -> I64:
    """The nodes of CUDA graphs that run on the CPU, while what depends on them waits. Slices."""
    numbers = [i for i, name in enumerate(trace.categories) if name.lower() == GRAPH_HOST]
    found = np.isin(trace.category, numbers) & ~trace.implausible if numbers else trace.implausible[:0]
    return np.flatnonzero(found)


def unknown_events(trace: Trace) -> I64:
    """The plausible slices of unknown categories on lanes of a device, by lane."""
    known = {i for i, name in enumerate(trace.categories) if name.lower() in (GRAPH_HOST, GRAPH_EVENT)}
    on_device = np.array([lane.device >= 0 for lane in trace.lanes], dtype=np.bool_)

    def look(part: slice) -> I64:
        at = np.flatnonzero((trace.kind[part] == int(Kind.OTHER)) & ~trace.implausible[part])
        here: I64 = at[on_device[trace.lane[part][at]]] + part.start
        if known:
            here = here[~np.isin(trace.category[here], list(known))]
        return here

    return np.concatenate([np.zeros(0, np.int64), *map_blocks(len(trace), look)])


def elsewhere(trace: Trace) -> I64:
    """The plausible slices of unknown categories in processes without any PyTorch events: the file does not
    say whether such a process is a device."""
    process = np.array([lane.process for lane in trace.lanes], dtype=np.int64)[trace.lane]
    other = trace.kind == int(Kind.OTHER)
    ours = np.isin(process, process[~other])
    threads = np.array([lane.kind == "thread" for lane in trace.lanes], dtype=np.bool_)[trace.lane]
    found: I64 = np.flatnonzero(other & threads & ~ours & ~trace.implausible)
    return found


@cached_on_trace
def why_unknown(trace: Trace) -> str:
    """Why the trace does not show when its devices were idle, and what ran on the CPU meanwhile: "cut off",
    "writers" (there are several), "missing" or "lost" (kernels), "durations" (of kernels are 0), "times" (of
    launches are missing), "clocks" (differ), "other" (events of unknown kinds fill the time between kernels,
    copies and memsets). "" where it shows that."""
    if trace.cut_off:
        return "cut off"
    if trace.of_several_writers:
        return "writers"
    linked_work(trace)  # some tests below need it
    tests: dict[str, Callable[[], bool]] = {
        "missing": lambda: missing_kernels(trace) > 0,
        "lost": lambda: lost_throughout(trace) > 0,
        "durations": lambda: len(without_duration(trace)) > 0,
        "times": lambda: launched_at_no_time(trace) > 0,
        "clocks": lambda: abs(clock_offset(trace)) >= CLOCKS_NS,
        "other": lambda: _fills(trace, unknown_events(trace)),
    }
    found = run_parallel(list(tests.values()), threads_for(len(trace)))
    trace.derived.pop(linked_work.__name__, None)  # 16 bytes per event
    return next((why for why, true in zip(tests, found, strict=True) if true), "")


@cached_on_trace
def idle_known(trace: Trace) -> bool:
    """Whether the trace shows when its devices were idle, and what ran on the CPU meanwhile."""
    return not why_unknown(trace)


def work_lost(trace: Trace) -> bool:
    """Whether much of what the devices did is missing, or its times are."""
    return why_unknown(trace) in ("cut off", "missing", "lost", "durations")


@cached_on_trace
def without_duration(trace: Trace) -> I64:
    """The kernels with a duration of 0, if they are so many of some device's that their durations must be
    missing: no kernel takes no time. Where times have whole microseconds, short ones may."""
    device = np.array([lane.device for lane in trace.lanes], dtype=np.int64)
    kernel = of_kinds(trace, (Kind.KERNEL,))
    kernel = kernel[~trace.implausible[kernel]]
    zero = trace.duration[kernel] == 0
    if np.count_nonzero(zero) < FEW:
        return kernel[:0]
    share = ZERO_SHARE if (trace.duration[kernel] % 1000).any() else ZERO_SHARE_OF_MICROSECONDS
    of, lane = device[trace.lane[kernel]], trace.lane[kernel]
    found: list[I64] = [kernel[:0]]
    for one in unique(of).tolist():
        mine = of == one
        # A stream without any duration tells more than short kernels among others.
        empty = [at for at in unique(lane[mine].astype(np.int64)).tolist() if zero[lane == at].all()]
        least = ZERO_SHARE if np.count_nonzero(zero & np.isin(lane, empty)) >= FEW else share
        if zero[mine].mean() >= least:
            found.append(kernel[mine & zero])
    return np.concatenate(found)


@cached_on_trace
def launched_at_no_time(trace: Trace) -> int:
    """How much device work has a time although its launch has lost its own, if that is much of it; else 0."""
    work = of_kinds(trace, DEVICE_WORK)
    work = work[(trace.launch[work] >= 0) & ~trace.implausible[work]]
    lost = int(np.count_nonzero(trace.implausible[trace.launch[work]]))
    return lost if lost >= max(FEW, ZERO_SHARE * len(work)) else 0


class Clocks(Struct, frozen=True):
    """How the clocks of the CPU and of the devices differ."""

    how: str
    """What shows it: "before" (most work starts before its launch) or "drift" (much of it, for a part of the
    recording), "apart" (all work comes long after all launches), "grows" (launches take ever longer to reach
    an idle device), "waits" (most calls that wait for work return before it ends). "" where nothing does."""
    offset: int
    """The least difference, ns, at the time when it is largest. Below 0: the devices' clock is behind."""


@cached_on_trace
def clocks(trace: Trace) -> Clocks:
    """What the launches and the waits say of the clocks."""
    work, launch = _timed_work(trace)
    if not len(work):
        return Clocks("", 0)
    some = slice(None, None, len(work) // SAMPLES + 1)
    ahead = trace.start[work[some]] - trace.start[launch[some]]
    ahead = ahead[np.argsort(trace.start[launch[some]], kind="stable")]
    if (middle := int(np.median(ahead))) <= -CLOCKS_NS:
        return Clocks("before", middle)
    # Clocks that drift apart differ in a part of the recording only, and queued work hides it.
    if (least := min(_least(ahead, len(ahead) // FEWEST), default=0)) <= -CLOCKS_NS:
        return Clocks("drift", least)
    if middle < 0:
        return Clocks("before", middle)
    begun, called = trace.start[work], trace.start[launch]
    apart, longest = int(begun.min() - called.max()), max(int(np.ptp(begun)), int(np.ptp(called)))
    if apart > APART * max(longest, SECOND // 10):
        return Clocks("apart", apart)
    if (grows := _growing_delay(trace, work, launch)) >= CLOCKS_NS:
        return Clocks("grows", grows)
    late = np.concatenate([_past_waits(trace, work, launch), _past_copies(trace, work, launch)])
    parts = np.array_split(late, min(max(1, len(late) // FEWEST_WAITS), PARTS)) if len(late) else []
    latest = max((int(np.median(part)) for part in parts), default=0)
    return Clocks("waits", latest) if latest > 0 else Clocks("", 0)


def clock_offset(trace: Trace) -> int:
    """How much the clocks of the CPU and of the devices differ at least, ns."""
    return clocks(trace).offset


def _least(delay: I64, parts: int) -> list[int]:
    """The delay that a tenth of each of so many parts (at most `PARTS`) does not reach, ns."""
    some = np.array_split(delay, min(parts, PARTS)) if parts else []
    return [int(np.sort(part)[int(EARLY_SHARE * len(part))]) for part in some]


def _timed_work(trace: Trace) -> tuple[I64, I64]:
    """`linked_work` whose launches have times that can be right."""
    work, launch = linked_work(trace)
    known = ~trace.implausible[launch]
    return (work, launch) if known.all() else (work[known], launch[known])


def _growing_delay(trace: Trace, work: I64, launch: I64) -> int:
    """By how much the least delay from a launch to the start of its work grows in the course of the
    recording, ns, where the only device was idle before: no queue can be why. 0 if it does not grow all the
    time."""
    if len({trace.lanes[lane].device for lane in unique(trace.lane[work].astype(np.int64)).tolist()}) > 1:
        return 0  # one may wait for another
    every = union_of(trace.start, trace.duration, of_kinds(trace, DEVICE_WORK))
    begins = every.start[1:][every.start[1:] - every.end[:-1] > LATENCY_NS]
    order = np.lexsort((trace.start[work], trace.start[launch]))
    work, launch = work[order], launch[order]
    alone = np.append(True, launch[1:] != launch[:-1]) & np.isin(trace.start[work], begins)
    delay = (trace.start[work] - trace.start[launch])[alone]
    least = _least(delay, QUARTERS) if len(delay) >= QUARTERS * FEWEST else [0]
    grows = all(later > earlier for earlier, later in pairwise(least))
    return least[-1] - least[0] if grows else 0


def _past_waits(trace: Trace, work: I64, launch: I64) -> I64:
    """For each wait for a device: how long after the wait's end the work launched before it ends, ns. If
    there are several devices, the wait is for one of them: the one with the smallest number."""
    wait = calls_named(trace, "DeviceSynchronize")
    if len(unique(trace.lane[work])) == 1:  # of one stream it is as good; a few may be of another
        streams = calls_named(trace, "StreamSynchronize")
        wait = unique(wait, streams) if len(streams) >= FEWEST_WAITS else wait
    if not len(wait):
        return wait
    least = np.full(len(wait), np.iinfo(np.int64).max)
    bounds = np.searchsorted(work, [lane.first for lane in trace.lanes] + [len(trace)]).tolist()
    parts: dict[int, list[slice]] = {}
    for lane, first, last in zip(trace.lanes, bounds[:-1], bounds[1:], strict=True):
        if first < last:
            parts.setdefault(lane.device, []).append(slice(first, last))
    for mine in parts.values():
        one = np.concatenate([work[part] for part in mine])
        begin = looked_up(trace.start, np.concatenate([launch[part] for part in mine]))
        end = looked_up(trace.start, one) + looked_up(trace.duration, one)
        if (begin[1:] < begin[:-1]).any():
            order = np.argsort(begin, kind="stable")
            begin, end = begin[order], end[order]
        np.maximum.accumulate(end, out=end)
        before = np.searchsorted(begin, trace.start[wait])
        late = end[before - 1] - trace.start[wait] - trace.duration[wait]
        least = np.where(before > 0, np.minimum(least, late), least)
    known = least < np.iinfo(np.int64).max
    past_waits: I64 = least[known][np.argsort(trace.start[wait[known]], kind="stable")]
    return past_waits


def _past_copies(trace: Trace, work: I64, launch: I64) -> I64:
    """The same for copies to pageable memory, whose calls return when the copy has ended. If the next call
    waits for that (it has to if the device reads such memory itself), the time when that call returns is
    used."""
    copy = has_name(trace, "Device -> Pageable")[trace.name[work]]
    work, launch = work[copy], launch[copy]
    after = np.minimum(launch + 1, len(trace) - 1)
    waits = np.isin(after, calls_named(trace, "Synchronize")) & (trace.lane[after] == trace.lane[launch])
    call = np.where(waits, after, launch)
    past_copies: I64 = trace.end_of(work) - trace.start[call] - trace.duration[call]
    return past_copies


def _fills(trace: Trace, at: I64) -> bool:
    if not len(at):
        return False
    device = np.array([lane.device for lane in trace.lanes], dtype=np.int64)
    end, lanes = trace.start + trace.duration, len(trace.lanes)
    every = np.flatnonzero(trace.is_kind(*DEVICE_WORK) & ~trace.implausible)
    # An event that contains work of its own stream is a range around that work, not other work.
    of_lane, beside = dict(group_positions(trace.lane[every], lanes)), np.ones(len(at), dtype=np.bool_)
    for lane, mine in group_positions(trace.lane[at], lanes):
        own, some = every[of_lane.get(lane, mine[:0])], at[mine]
        beside[mine] = union(trace.start[own], end[own]).overlap(trace.start[some], end[some]) == 0
    at, size = at[beside], int(device.max()) + 1
    of_device = dict(group_positions(device[trace.lane[every]], size))
    for one, mine in group_positions(device[trace.lane[at]], size):
        if one not in of_device:
            continue
        work, other = every[of_device[one]], at[mine]
        both = np.concatenate([work, other])
        busy = union(trace.start[work], end[work]).total
        more = union(trace.start[both], end[both]).total - busy
        span = int(end[both].max() - trace.start[both].min())
        if more >= max(IDLE_SHARE * (span - busy), SPAN_SHARE * span) > 0:
            return True
    return False
