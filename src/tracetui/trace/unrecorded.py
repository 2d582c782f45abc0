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
from tracetui.core.threads import in_blocks
from tracetui.trace.intervals import EMPTY, Union, all_of, union
from tracetui.trace.model import DEVICE_WORK, I64, NO_ID, Bool, Kind, Trace, kept_by_trace

_KERNELS = pattern(r"Launch(?!Host)")
"""Calls that always run something on a device."""
_COPIES = pattern(r"[Mm]em(?:cpy|set|ory(?:Copy|Fill))|EnqueueMemBuffer|EnqueueUSM")
"""Calls that usually do."""
_BUILDS = pattern(r"Graph(?!Launch|ics)")
"""Calls that make a graph's nodes are named after what these do."""
MISSING_SHARE = 0.5
"""If more than this share of the kernel launches have no kernel, the kernels are missing, not just late."""
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
    time: dict[int, Union]
    """By device: when it may have run work that is not in the file. From a launch without device events, or
    where the work launched before it ends, to the start of the work launched after it or, without any, to
    the end of the recording. Only devices that have such times."""


@kept_by_trace
def unrecorded(trace: Trace) -> Unrecorded:
    """What the profiler did not record."""
    work = _of_kinds(trace, DEVICE_WORK)
    unlinked = work[trace.launch[work] < 0]
    calls, kernel, ran = _launches(trace)
    none = calls[:0]
    if not len(calls) or trace.of_several_writers or (len(work) and not ran.any()):
        # No links, or those of another program: what ran is not known.
        return Unrecorded(none, 0, 0, 0, unlinked, 0, {})
    if not len(work) and (trace.kind[_on_devices(trace)] == int(Kind.OTHER)).any():
        return Unrecorded(none, 0, 0, 0, unlinked, 0, {})
    lost = kernel & ~ran
    if lost.any():
        lost &= ~_captured(trace, calls)
    if lost.any():
        lost |= ~kernel & ~ran & _beside(lost, kernel)
    first = int(np.argmax(ran)) if ran.any() else 0
    last = len(ran) - 1 - int(np.argmax(ran[::-1])) if ran.any() else -1
    return Unrecorded(
        calls[lost],
        int(np.count_nonzero(lost | ran)),
        int(np.count_nonzero(lost[:first])),
        int(np.count_nonzero(lost[last + 1 :])),
        unlinked,
        int(np.count_nonzero(trace.start[unlinked] < first_launched(trace)[trace.lane[unlinked]])),
        with_holes(trace, _unknown_time(trace, calls, lost, ran) if lost.any() and len(work) else {}),
    )


def with_holes(trace: Trace, time: dict[int, Union]) -> dict[int, Union]:
    """With the time between two recordings, in a file that joins several profiles (such as those of
    `profile_analysis --combine`): nothing is known of it, on any device."""
    recording = np.array([name.startswith("PyTorch Profiler (") for name in trace.names] or [False])
    at = np.flatnonzero((trace.kind == int(Kind.SPAN)) & ~trace.implausible & recording[trace.name])
    if len(at) < 2:
        return time
    spans = union(trace.start[at], trace.start[at] + trace.duration[at])
    holes = union(spans.end[:-1], spans.start[1:])
    devices = {lane.device for lane in trace.lanes if lane.device >= 0} if len(holes) else ()
    return time | {one: all_of([time.get(one, EMPTY), holes]) for one in devices}


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

    work = _of_kinds(trace, DEVICE_WORK)
    has = np.zeros(len(trace), dtype=np.bool_)
    launch = trace.launch[work]
    has[launch[launch >= 0]] = True

    def look(part: slice) -> I64:
        at: I64 = np.flatnonzero(trace.kind[part] == int(Kind.RUNTIME)) + part.start
        at = at[trace.correlation[at] != NO_ID]
        return at[some[trace.name[at]] | has[at]]

    calls: I64 = np.concatenate([np.zeros(0, np.int64), *in_blocks(len(trace), look)])
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
    begin, over = captures(trace), calls_named(trace, "StreamEndCapture")
    if not len(over):  # a call that the profiler has no name for
        over = calls_named(trace, "GraphInstantiate")
    over = np.sort(trace.start[over])
    when = trace.start[calls]
    depth = np.searchsorted(begin, when, side="right") - np.searchsorted(over, when, side="right")
    if len(over) and (not len(begin) or over[0] < begin[0]):  # it began before the recording
        depth += 1
    return np.asarray(depth > 0, dtype=np.bool_)


def _unknown_time(trace: Trace, calls: I64, lost: Bool, ran: Bool) -> dict[int, Union]:
    """`Unrecorded.time`. `calls` by time, and which of them have no device events and which have some."""
    device = np.array([lane.device for lane in trace.lanes], dtype=np.int64)
    work = _of_kinds(trace, DEVICE_WORK)
    work = work[(trace.launch[work] >= 0) & ~trace.implausible[work]]
    place = np.full(len(trace) + 1, -1, dtype=np.int64)  # the last entry is for no parent
    place[calls] = np.arange(len(calls))
    launch, of = trace.launch[work], device[trace.lane[work]]
    made_by = np.where(place[launch] >= 0, place[launch], place[trace.parent[launch]])
    lane = trace.lane[calls]
    found: dict[int, Union] = {}
    for one in unique(of).tolist():
        mine = work[(of == one) & (made_by >= 0)]
        by = made_by[(of == one) & (made_by >= 0)]
        if not len(by):
            continue
        here = np.zeros(len(calls), dtype=np.bool_)
        here[by] = True
        # A call does not say for which device it is: any that its thread uses, or else any at all.
        uses = np.isin(lane, lane[here]) | ~np.isin(lane, lane[ran])
        begun = np.full(len(calls), np.iinfo(np.int64).max)
        ended = np.full(len(calls), np.iinfo(np.int64).min)
        order = np.argsort(by, kind="stable")
        mine, by = mine[order], by[order]
        first = np.flatnonzero(np.append(True, by[1:] != by[:-1]))
        begun[by[first]] = np.minimum.reduceat(trace.start[mine], first)
        ended[by[first]] = np.maximum.reduceat(trace.start[mine] + trace.duration[mine], first)
        at = np.flatnonzero((lost & uses) | here)
        gone = ~here[at]
        opens = np.flatnonzero(gone & ~np.append(False, gone[:-1]))
        closes = np.flatnonzero(gone & ~np.append(gone[1:], False)) + 1
        before = np.append(at, 0)[opens - 1]
        after = np.append(at, 0)[closes]
        low = trace.start[calls[at[opens]]]
        low = np.where(opens > 0, np.maximum(low, ended[before]), low)
        high = np.where(closes < len(at), begun[after], trace.span[1])
        if (longer := high > low).any():
            found[one] = union(low[longer], high[longer])
    return found


@kept_by_trace
def first_launched(trace: Trace) -> I64:
    """Per lane, the start of its first event with a launch; the earliest possible time if it has none."""
    first = np.full(len(trace.lanes), np.iinfo(np.int64).min, dtype=np.int64)
    for i, lane in enumerate(trace.lanes):
        linked = trace.launch[lane.first : lane.last] >= 0
        if linked.any():
            first[i] = trace.start[lane.first + int(np.argmax(linked))]
    return first


def _of_kinds(trace: Trace, kinds: tuple[Kind, ...]) -> I64:
    """The slices of these kinds, implausible ones too: an event with a strange time was recorded."""

    def look(part: slice) -> I64:
        at: I64 = np.flatnonzero(trace.is_kind(*kinds, of=part)) + part.start
        return at

    return np.concatenate([np.zeros(0, np.int64), *in_blocks(len(trace), look)])


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


@kept_by_trace
def launched_unrecorded(trace: Trace) -> int:
    """How many launches at the beginning led to nothing, as if the devices were recorded only later; 0 if
    fewer than `MISSING_FIRST`, or if a graph is captured."""
    start, ran = launches_by_time(trace)
    first = int(np.argmax(ran)) if ran.any() else 0
    return 0 if first < MISSING_FIRST or (captures(trace) < start[first]).any() else first


@kept_by_trace
def linked_work(trace: Trace) -> tuple[I64, I64]:
    """The plausible device work whose launch is in the trace, and the launches."""

    def look(part: slice) -> tuple[I64, I64]:
        launch, kind = trace.launch[part], trace.kind[part]
        work = np.logical_or.reduce([kind == int(one) for one in DEVICE_WORK])
        at: I64 = np.flatnonzero(work & (launch >= 0) & ~trace.implausible[part])
        return at + part.start, launch[at].astype(np.int64)

    none = np.zeros(0, np.int64), np.zeros(0, np.int64)
    work, launch = zip(none, *in_blocks(len(trace), look), strict=True)
    return np.concatenate(work), np.concatenate(launch)


def has_name(trace: Trace, part: str) -> Bool:
    """Mask over `trace.names`: those that contain a text."""
    return np.array([part in name for name in trace.names], dtype=np.bool_)


def calls_named(trace: Trace, part: str) -> I64:
    """The plausible runtime calls with this text in their name."""
    wanted = has_name(trace, part)

    def look(rows: slice) -> I64:
        at: I64 = np.flatnonzero((trace.kind[rows] == int(Kind.RUNTIME)) & ~trace.implausible[rows])
        calls: I64 = at[wanted[trace.name[rows][at]]] + rows.start
        return calls

    return np.concatenate([np.zeros(0, np.int64), *in_blocks(len(trace), look)])
