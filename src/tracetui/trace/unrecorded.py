"""What the profiler did not record: launches whose device events are not in the file, device work whose
launch is not, and the time in which it is not known what a device did.

A profile may begin or end while work is queued, and a profiler may lose events in between. Not every call
that could launch work does: a copy or a memset of 0 bytes leaves no event, and what is launched while a graph
is captured does not run.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from tracetui.core.columns import unique
from tracetui.core.patterns import pattern
from tracetui.core.threads import map_blocks
from tracetui.trace.intervals import EMPTY, Intervals, union
from tracetui.trace.model import DEVICE_WORK, I64, NO_ID, Bool, Kind, Trace, cached_on_trace

_KERNELS = pattern(r"Launch(?!Host)")
"""Calls that always run something on a device."""
_COPIES = pattern(r"[Mm]em(?:cpy|set|ory(?:Copy|Fill))|EnqueueMemBuffer|EnqueueUSM")
"""Calls that usually do."""
_BUILDS = pattern(r"Graph(?!Launch|ics)")
"""Calls that make a graph's nodes are named after what these do."""
MISSING_SHARE = 0.5
"""If more than this share of the kernel launches have no kernel, the kernels are missing, not just late."""
LOST_SHARE = 0.1
"""If more than this share of the launches of a stretch of time have no work in the file, it is not known what
ran in it: the rest may have run on a stream that is missing."""
ALWAYS = 3
"""An op's work is never in the file if it was launched at least so often, over half of the recording."""
PART, PARTS = 16, 20
"""For that, a recording is looked at in parts of at least so many launches, and in so many parts at most."""
MISSING_FIRST = 10
"""If at least this many launches come before the first one with work in the trace, the devices were recorded
later."""


class Unrecorded(Struct, frozen=True):
    """What is missing in a file. Without device work or without launches, nothing is known to be missing
    except as `launches` says."""

    launches: I64
    """Launches whose device events are not in the file, by time (slices)."""
    of: int
    """How many launches there are in all, with and without device events."""
    before: int
    """How many of `launches` come before the first launch with a device event."""
    after: int
    """How many come after the last one. All of them are at the end if there is none."""
    work: I64
    """Device work whose launch is not in the file, by (lane, start) (slices)."""
    earlier: int
    """How much of `work` runs before its stream's first work with a launch: it was launched before the
    recording."""


@cached_on_trace
def unrecorded(trace: Trace) -> Unrecorded:
    """What the profiler did not record."""
    work = of_kinds(trace, DEVICE_WORK)
    unlinked = work[trace.launch[work] < 0]
    calls, lost, ran = _lost(trace)
    first = int(np.argmax(ran)) if ran.any() else 0
    last = len(ran) - 1 - int(np.argmax(ran[::-1])) if ran.any() else -1
    early = first_launched(trace)[trace.lane[unlinked]] if len(calls) else trace.start[unlinked]
    return Unrecorded(
        calls[lost],
        int(np.count_nonzero(lost | ran)),
        int(np.count_nonzero(lost[:first])),
        int(np.count_nonzero(lost[last + 1 :])),
        unlinked,
        int(np.count_nonzero(trace.start[unlinked] < early)),
    )


@cached_on_trace
def _lost(trace: Trace) -> tuple[I64, Bool, Bool]:
    """(the calls that can launch work, by time; which of them launched work that is not in the file; which
    have device events). None where nothing is known to be missing."""
    work = of_kinds(trace, DEVICE_WORK)
    calls, kernel, ran = _launches(trace)
    if not len(calls) or trace.of_several_writers or (len(work) and not ran.any()):
        # No links, or those of another program: what ran is not known.
        return calls[:0], ran[:0], ran[:0]
    if not len(work) and (trace.kind[_on_devices(trace)] == int(Kind.OTHER)).any():
        return calls[:0], ran[:0], ran[:0]
    lost = kernel & ~ran
    if lost.any():
        lost &= ~_captured(trace, calls)
    if lost.any():
        lost |= ~kernel & ~ran & _beside(lost, kernel)
    return calls, lost, ran


@cached_on_trace
def launched_without(trace: Trace) -> tuple[I64, Bool, Bool]:
    """(the calls that can launch work, by time; which of them launched work of which it is not known when it
    ran: it is not in the file, or without a time; which launched work with a time)."""
    calls, lost, ran = _lost(trace)
    work = of_kinds(trace, DEVICE_WORK)
    odd = trace.implausible[work]
    if trace.implausible[calls].any():  # it is not known when these were
        known = ~trace.implausible[calls]
        calls, lost, ran = calls[known], lost[known], ran[known]
    if not odd.any() or not len(calls):
        return calls, lost, ran
    launch = trace.launch[work[~odd & (trace.launch[work] >= 0)]]
    timed = np.zeros(len(trace) + 1, dtype=np.bool_)  # the last entry is for no parent
    timed[launch], timed[trace.parent[launch]] = True, True
    timed = timed[calls]
    return calls, lost | (ran & ~timed), ran & timed


def whole(trace: Trace, low: I64, high: I64) -> Bool:
    """Which of several stretches of time [low, high) on the CPU, one after the other, have the work of nearly
    all their launches in the file. All, if the rest is lost at once: then it is known when it would have
    run."""
    calls, lost, ran = launched_without(trace)
    at = np.searchsorted(trace.start[calls], [low, high])
    begins = lost & ~np.append(False, lost[:-1])
    gone, every, runs = (
        np.diff(np.append(0, np.cumsum(mask))[at], axis=0)[0] for mask in (lost, lost | ran, begins)
    )
    bad = gone > LOST_SHARE * every
    several = np.count_nonzero(bad) > 1 and runs[bad].sum() >= np.count_nonzero(bad)
    return ~bad if several else np.ones(len(bad), dtype=np.bool_)


@cached_on_trace
def lost_throughout(trace: Trace) -> int:
    """How many launches have no work with a time in the file if that is so of many of them nearly all the
    time, as where a stream is missing; else 0. What was launched before the devices were recorded, or after,
    does not count."""
    _, lost, ran = launched_without(trace)
    if not ran.any():
        return 0
    first, last = int(np.argmax(ran)), len(ran) - int(np.argmax(ran[::-1]))
    lost = lost[first:last][(lost | ran)[first:last]]
    if np.count_nonzero(lost[1:] > lost[:-1]) < 2:  # at once: then it is known when it would have run
        return 0
    count = len(unrecorded(trace).launches) or int(np.count_nonzero(lost))
    if _always_lost(trace, first, last):
        return count
    parts = np.array_split(lost, min(max(1, len(lost) // PART), PARTS))
    without = sum(bool(np.count_nonzero(part) > LOST_SHARE * len(part)) for part in parts)
    return count if 2 * without > len(parts) else 0


def _always_lost(trace: Trace, first: int, last: int) -> bool:
    """Whether the work of some op's launches is never in the file, all through the launches `first` to
    `last`, as where the stream of the collectives is missing: they are few, but long."""
    calls, lost, ran = (of[first:last] for of in launched_without(trace))
    calls, lost = calls[lost | ran], lost[lost | ran]
    around = trace.parent[calls]
    name = trace.name[np.where(around >= 0, around, calls)]
    ever = np.zeros(len(trace.names), dtype=np.bool_)
    ever[name[~lost]] = True
    at = np.flatnonzero(~ever[name])
    for one in unique(name[at].astype(np.int64)).tolist():
        mine = at[name[at] == one]
        if len(mine) >= ALWAYS and 2 * (mine[-1] - mine[0]) > len(calls):
            return True
    return False


def _launches(trace: Trace) -> tuple[I64, Bool, Bool]:
    """(the calls with an id that can launch work, by time; which of them launch kernels or graphs; which have
    device events). A call within another such call is part of that one."""
    texts = trace.names
    kernel = np.fromiter((_KERNELS.search(name[:200]) is not None for name in texts), np.bool_, len(texts))
    some = np.fromiter(
        (
            (kernel[i] or _COPIES.search(name[:200]) is not None) and not _BUILDS.search(name[:200])
            for i, name in enumerate(texts)
        ),
        np.bool_,
        len(texts),
    )

    work = of_kinds(trace, DEVICE_WORK)
    has = np.zeros(len(trace), dtype=np.bool_)
    launch = trace.launch[work]
    has[launch[launch >= 0]] = True

    def look(part: slice) -> I64:
        at: I64 = np.flatnonzero(trace.kind[part] == int(Kind.RUNTIME)) + part.start
        at = at[trace.correlation[at] != NO_ID]
        return at[some[trace.name[at]] | has[at]]

    calls: I64 = np.concatenate([np.zeros(0, np.int64), *map_blocks(len(trace), look)])
    if not len(work):  # events of unknown categories may be what ran
        other = np.flatnonzero(trace.kind == int(Kind.OTHER))
        has[calls[np.isin(trace.correlation[calls], trace.correlation[other])]] = True
    without = calls[kernel[trace.name[calls]] & ~has[calls]]
    if len(without):  # where ids are given twice, it is not known which call is whose
        ids, linked = np.sort(trace.correlation[work]), trace.correlation[calls[has[calls]]]
        again = np.isin(trace.correlation[without], ids[1:][ids[1:] == ids[:-1]])
        has[without[again & np.isin(trace.correlation[without], linked)]] = True
    is_call = np.zeros(len(trace) + 1, dtype=np.bool_)  # the last entry is for no parent
    is_call[calls] = True
    inner = is_call[trace.parent[calls]]
    ran = calls[inner & has[calls]]  # rare: a runtime's call and the driver's within it
    while len(ran):
        around = unique(trace.parent[ran].astype(np.int64))
        ran = around[is_call[around] & ~has[around]]
        has[ran] = True
    calls = calls[~inner]
    begun = trace.start[calls]
    if (begun[1:] < begun[:-1]).any():
        calls = calls[np.argsort(begun, kind="stable")]
    return calls, kernel[trace.name[calls]], has[calls]


def _beside(lost: Bool, kernel: Bool) -> Bool:
    """Which calls have a lost launch of a kernel right before or after them, other copies aside."""
    place = np.flatnonzero(kernel)
    if not len(place):
        return np.zeros(len(lost), dtype=np.bool_)
    at = np.searchsorted(place, np.arange(len(lost)))
    before, after = place[np.maximum(at - 1, 0)], place[np.minimum(at, len(place) - 1)]
    found: Bool = (lost[before] & (at > 0)) | (lost[after] & (at < len(place)))
    return found


def _captured(trace: Trace, calls: I64) -> Bool:
    """Which calls start while a graph is captured, by any thread."""
    when, captured = trace.start[calls], capture_times(trace)
    at = np.searchsorted(captured.start, when, side="right") - 1
    return np.asarray((at >= 0) & (when < np.append(captured.end, 0)[at]), dtype=np.bool_)


@cached_on_trace
def capture_times(trace: Trace) -> Intervals:
    """When a graph is captured, by any thread: until the recording ends, if the capture does not end
    before."""
    begin, over = captures(trace), calls_named(trace, "StreamEndCapture")
    if not len(over):  # a call that the profiler has no name for
        over = calls_named(trace, "GraphInstantiate")
    over = np.sort(trace.start[over])
    if len(over) and (not len(begin) or over[0] < begin[0]):  # it began before the recording
        begin = np.append(min(0, trace.span[0]), begin)
    if not len(begin):
        return EMPTY
    time = np.concatenate([begin, over])
    order = np.argsort(time, kind="stable")
    time = np.append(time[order], trace.span[1])
    open_ = np.cumsum(np.append(np.ones(len(begin), np.int64), np.full(len(over), -1))[order]) > 0
    return union(time[:-1][open_], np.maximum(time[:-1], time[1:])[open_])


@cached_on_trace
def first_launched(trace: Trace) -> I64:
    """Per lane, the start of its first event with a launch; the earliest possible time if it has none."""
    first = np.full(len(trace.lanes), np.iinfo(np.int64).min, dtype=np.int64)
    for i, lane in enumerate(trace.lanes):
        linked = trace.launch[lane.first : lane.last] >= 0
        if linked.any():
            first[i] = trace.start[lane.first + int(np.argmax(linked))]
    return first


def of_kinds(trace: Trace, kinds: tuple[Kind, ...]) -> I64:
    """The slices of these kinds, implausible ones too: an event with a strange time was recorded."""

    def look(part: slice) -> I64:
        at: I64 = np.flatnonzero(trace.is_kind(*kinds, of=part)) + part.start
        return at

    return np.concatenate([np.zeros(0, np.int64), *map_blocks(len(trace), look)])


def _on_devices(trace: Trace) -> I64:
    parts = [np.arange(lane.first, lane.last) for lane in trace.lanes if lane.device >= 0]
    found: I64 = np.concatenate([np.zeros(0, np.int64), *parts])
    return found


def missing_kernels(trace: Trace) -> int:
    """How many launches before the last one with work have no device event, if that is most of them."""
    found = unrecorded(trace)
    missing = len(found.launches) - found.after
    return missing if missing > MISSING_SHARE * (found.of - found.after) else 0


def captures(trace: Trace) -> I64:
    """When captures of graphs begin: what is launched during a capture does not run. Sorted."""
    return np.sort(trace.start[calls_named(trace, "StreamBeginCapture")])


def launches_by_time(trace: Trace) -> tuple[I64, Bool]:
    """(when the calls that launch work start, sorted; whether the work of each is in the trace)."""
    calls = calls_named(trace, "Launch")
    calls = calls[~has_name(trace, "LaunchHostFunc")[trace.name[calls]]]
    calls = calls[np.argsort(trace.start[calls], kind="stable")]
    ran = np.zeros(len(trace), dtype=np.bool_)
    ran[linked_work(trace)[1]] = True
    trace.derived.pop(linked_work.__name__, None)  # large, and seldom needed again
    return trace.start[calls], ran[calls]


@cached_on_trace
def launched_unrecorded(trace: Trace) -> int:
    """How many launches at the beginning led to nothing, as if the devices were recorded only later; 0 if
    fewer than `MISSING_FIRST`, or if a graph is captured."""
    start, ran = launches_by_time(trace)
    first = int(np.argmax(ran)) if ran.any() else 0
    return 0 if first < MISSING_FIRST or (captures(trace) < start[first]).any() else first


@cached_on_trace
def linked_work(trace: Trace) -> tuple[I64, I64]:
    """The plausible device work whose launch is in the trace, and the launches."""

    def look(part: slice) -> tuple[I64, I64]:
        launch, kind = trace.launch[part], trace.kind[part]
        work = np.logical_or.reduce([kind == int(one) for one in DEVICE_WORK])
        at: I64 = np.flatnonzero(work & (launch >= 0) & ~trace.implausible[part])
        return at + part.start, launch[at].astype(np.int64)

    none = np.zeros(0, np.int64), np.zeros(0, np.int64)
    work, launch = zip(none, *map_blocks(len(trace), look), strict=True)
    return np.concatenate(work), np.concatenate(launch)


def has_name(trace: Trace, part: str) -> Bool:
    """Mask over `trace.names`: those that contain a text."""
    return np.array([part in name for name in trace.names], dtype=np.bool_)


def calls_named(trace: Trace, part: str) -> I64:
    """The plausible runtime calls with this text in their name."""
    return calls_matching(trace, has_name(trace, part))


def calls_matching(trace: Trace, of_name: Bool | list[bool]) -> I64:
    """The plausible runtime calls whose name is in a mask over `trace.names`."""
    wanted = np.array(of_name, dtype=np.bool_)

    def look(rows: slice) -> I64:
        at: I64 = np.flatnonzero((trace.kind[rows] == int(Kind.RUNTIME)) & ~trace.implausible[rows])
        calls: I64 = at[wanted[trace.name[rows][at]]] + rows.start
        return calls

    return np.concatenate([np.zeros(0, np.int64), *map_blocks(len(trace), look)])
