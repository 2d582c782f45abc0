"""Where a trace does not show when its devices did what: events of unknown categories, most kernels missing,
clocks that differ. What else is missing is in `unrecorded`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tracetui.core.columns import looked_up
from tracetui.core.threads import in_blocks, threads_for, together
from tracetui.trace.indices import places
from tracetui.trace.intervals import union
from tracetui.trace.model import DEVICE_WORK, I64, Kind, Trace, kept_by_trace
from tracetui.trace.unrecorded import calls_named, has_name, linked_work, missing_kernels

IDLE_SHARE, SPAN_SHARE = 0.1, 0.01
"""If events of unknown categories fill at least these shares of a device's idle time, and of the time between
its first and last event, they may be what it did while nothing known ran."""
CLOCKS_NS = 50_000
"""If the clocks differ by at least this much, several times the latency of a launch, the causes of idle time
are not known."""
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

    return np.concatenate([np.zeros(0, np.int64), *in_blocks(len(trace), look)])


def elsewhere(trace: Trace) -> I64:
    """The plausible slices of unknown categories in processes without any PyTorch events: the file does not
    say whether such a process is a device."""
    process = np.array([lane.process for lane in trace.lanes], dtype=np.int64)[trace.lane]
    other = trace.kind == int(Kind.OTHER)
    ours = np.isin(process, process[~other])
    threads = np.array([lane.kind == "thread" for lane in trace.lanes], dtype=np.bool_)[trace.lane]
    found: I64 = np.flatnonzero(other & threads & ~ours & ~trace.implausible)
    return found


@kept_by_trace
def idle_known(trace: Trace) -> bool:
    """Whether the trace shows when its devices were idle, and what ran on the CPU meanwhile: its end and its
    kernels are not missing, the clocks agree, and events of unknown kinds do not fill the time between
    kernels, copies and memsets."""
    linked_work(trace)  # both tests below need it
    tests: list[Callable[[], bool]] = [
        lambda: missing_kernels(trace) > 0,
        lambda: abs(clock_offset(trace)) >= CLOCKS_NS,
        lambda: _fills(trace, unknown_events(trace)),
    ]
    known = not (trace.cut_off or trace.of_several_writers or any(together(tests, threads_for(len(trace)))))
    trace.derived.pop(linked_work.__name__, None)  # 16 bytes per event
    return known


def clock_offset(trace: Trace) -> int:
    """The least difference between the clocks of the CPU and of the devices, ns. Below 0: most work starts
    before its launch. Above: most calls that wait for work return before it ends."""
    work, launch = linked_work(trace)
    if not len(work):
        return 0
    some = slice(None, None, len(work) // SAMPLES + 1)
    ahead = int(np.median(trace.start[work[some]] - trace.start[launch[some]]))
    if ahead < 0:
        return ahead
    late = np.concatenate([_past_waits(trace, work, launch), _past_copies(trace, work, launch)])
    return max(0, int(np.median(late))) if len(late) else 0


def _past_waits(trace: Trace, work: I64, launch: I64) -> I64:
    """For each wait for a device: how long after the wait's end the work launched before it ends, ns. If
    there are several devices, the wait is for one of them: the one with the smallest number."""
    wait = calls_named(trace, "DeviceSynchronize")
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
    found: I64 = least[least < np.iinfo(np.int64).max]
    return found


def _past_copies(trace: Trace, work: I64, launch: I64) -> I64:
    """The same for copies to pageable memory, whose calls return when the copy has ended. If the next call
    waits for that (it has to if the device reads such memory itself), the time when that call returns is
    used."""
    copy = has_name(trace, "Device -> Pageable")[trace.name[work]]
    work, launch = work[copy], launch[copy]
    after = np.minimum(launch + 1, len(trace) - 1)
    waits = np.isin(after, calls_named(trace, "Synchronize")) & (trace.lane[after] == trace.lane[launch])
    call = np.where(waits, after, launch)
    found: I64 = trace.start[work] + trace.duration[work] - trace.start[call] - trace.duration[call]
    return found


def _fills(trace: Trace, at: I64) -> bool:
    if not len(at):
        return False
    device = np.array([lane.device for lane in trace.lanes], dtype=np.int64)
    end, lanes = trace.start + trace.duration, len(trace.lanes)
    every = np.flatnonzero(trace.is_kind(*DEVICE_WORK) & ~trace.implausible)
    # An event that contains work of its own stream is a range around that work, not other work.
    of_lane, beside = dict(places(trace.lane[every], lanes)), np.ones(len(at), dtype=np.bool_)
    for lane, mine in places(trace.lane[at], lanes):
        own, some = every[of_lane.get(lane, mine[:0])], at[mine]
        beside[mine] = union(trace.start[own], end[own]).within(trace.start[some], end[some]) == 0
    at, size = at[beside], int(device.max()) + 1
    of_device = dict(places(device[trace.lane[every]], size))
    for one, mine in places(device[trace.lane[at]], size):
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
