"""The time of which it is not known what a device did, or in which it could not do what the program asked:
by device, with the reason.

Such time is neither busy nor idle. It is marked here, once, for everything that speaks of idle time.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from tracetui.core.columns import unique
from tracetui.core.patterns import pattern
from tracetui.trace.intervals import EMPTY, Intervals, all_of, union, union_of
from tracetui.trace.model import DEVICE_WORK, I64, Kind, Trace, cached_on_trace
from tracetui.trace.unrecorded import calls_matching, capture_times, launched_without, of_kinds

CAPTURED, IN_FLIGHT, NOT_RECORDED = "graph capture", "in flight", "not recorded"
REASONS = (NOT_RECORDED, IN_FLIGHT, CAPTURED)
"""Where two apply at once, the first counts."""
_LATE_NS = 100_000
"""A wait that returns later than this after the device's last recorded work waited for other work. Waking the
thread takes less."""
_QUEUED_NS = 50_000
"""Work that starts later than this after its launch, and after all recorded work, waited for something:
several times the latency of a launch."""
_LOADED_NS, _FAR = 1_000_000, 10
"""A launch that goes on for so long after it has loaded its kernel, and so many times as long as that took,
waited for the device: loading may need it to be done with all earlier work."""
_LOADS = pattern(r"Lazy Function Loading|Runtime Triggered Module Loading")
_WAITS = pattern(
    r"Synchronize(?!d)|cn(?:rt)?QueueSync|cnrtSyncDevice|urEventWait|urQueueFinish|synchronize(?:Stream|Device|Event)?$"
)
"""Calls that return when the device is done. A blocking copy goes on copying after that."""


class Stretches(Struct, frozen=True):
    """Disjoint stretches of time of one device, by time. Arrays of one length."""

    start: I64
    end: I64
    reason: I64
    """Index into `REASONS`."""

    @property
    def union(self) -> Intervals:
        """All of them, whatever the reason."""
        return union(self.start, self.end)


@cached_on_trace
def unrecorded_time(trace: Trace) -> dict[int, Stretches]:
    """By device, when it is not known what it did. Only devices that have such times."""
    device = np.array([lane.device for lane in trace.lanes], dtype=np.int64)
    work = of_kinds(trace, DEVICE_WORK)
    work = work[~trace.implausible[work]]
    if not len(work):
        return {}
    of, every = device[trace.lane[work]], union_of(trace.start, trace.duration, work)
    lost, flying = _after_lost_launches(trace, work), _in_flight(trace, work, of, every)
    for event in held_launches(trace).values():
        one = int(device[trace.lane[event]])
        before = union(np.array([trace.span[0]]), trace.start[[event]])
        flying[one] = all_of([flying.get(one, EMPTY), before])
    early, late = _by_first_launch(trace, waited_for(trace))
    for_all, captured = all_of([late, _without_times(trace), _between_profiles(trace)]), capture_times(trace)
    stretches: dict[int, Stretches] = {}
    every_device = len(for_all) or len(captured) or len(early)
    for one in unique(of).tolist() if every_device else {**lost, **flying}:
        parts = [
            all_of([lost.get(one, EMPTY), for_all]),
            all_of([flying.get(one, EMPTY), early]),
            captured,
        ]
        if any(map(len, parts)):
            stretches[one] = _in_turn(parts)
    return stretches


@cached_on_trace
def idle_unknown(trace: Trace) -> dict[int, Intervals]:
    """By device, when it is not known whether it was idle. While a graph is captured, that is known."""
    captured = REASONS.index(CAPTURED)
    some = {
        device: union(one.start[one.reason != captured], one.end[one.reason != captured])
        for device, one in unrecorded_time(trace).items()
    }
    return {device: one for device, one in some.items() if len(one)}


def _in_turn(parts: list[Intervals]) -> Stretches:
    """The unions as disjoint stretches, each without what is in one before it."""
    borders = np.unique(np.concatenate([times for part in parts for times in (part.start, part.end)]))
    low, high = borders[:-1], borders[1:]
    inside = np.array([part.overlap(low, high) > 0 for part in parts])
    kept = inside.any(0)
    return Stretches(low[kept], high[kept], inside.argmax(0)[kept])


def _after_lost_launches(trace: Trace, work: I64) -> dict[int, Intervals]:
    """By device: from a launch without device events, or where the work launched before it ends, to the start
    of the work launched after it or, without any, to the end of the recording."""
    calls, lost, ran = launched_without(trace)
    if not lost.any():
        return {}
    device = np.array([lane.device for lane in trace.lanes], dtype=np.int64)
    work = work[trace.launch[work] >= 0]
    place = np.full(len(trace) + 1, -1, dtype=np.int64)  # the last entry is for no parent
    place[calls] = np.arange(len(calls))
    launch, of = trace.launch[work], device[trace.lane[work]]
    made_by = np.where(place[launch] >= 0, place[launch], place[trace.parent[launch]])
    lane = trace.lane[calls]
    intervals: dict[int, Intervals] = {}
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
        ended[by[first]] = np.maximum.reduceat(trace.end_of(mine), first)
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
            intervals[one] = union(low[longer], high[longer])
    return intervals


@cached_on_trace
def waited_for(trace: Trace) -> Intervals:
    """From the end of all recorded work to the return of a call that waits for a device, if that takes longer
    than waking the thread: what it waited for is not in the file. The profiler's own work does not count."""
    work, profilers = of_kinds(trace, DEVICE_WORK), of_kinds(trace, (Kind.OVERHEAD,))
    every, ours = (
        union_of(trace.start, trace.duration, at[~trace.implausible[at]]) for at in (work, profilers)
    )
    wait = calls_matching(trace, [_WAITS.search(name[:200]) is not None for name in trace.names])
    if not len(every) or not len(wait):
        return EMPTY
    begun, over = trace.start[wait], trace.end_of(wait)
    at = np.searchsorted(every.start, over) - 1  # the work that began last before the return
    done = np.where(at >= 0, every.end[np.maximum(at, 0)], np.iinfo(np.int64).min)
    low = np.maximum(begun, done)
    late = over - low - ours.overlap(low, np.maximum(low, over)) > _LATE_NS
    return union(low[late], over[late])


def _by_first_launch(trace: Trace, waits: Intervals) -> tuple[Intervals, Intervals]:
    """(the waits before anything that was recorded was launched: for work from before; the others)."""
    calls, lost, ran = launched_without(trace)
    first = int(trace.start[calls[lost | ran]].min(initial=trace.span[1]))
    before = waits.start < first
    return union(waits.start[before], waits.end[before]), union(waits.start[~before], waits.end[~before])


def _without_times(trace: Trace) -> Intervals:
    """What follows the last event with a time, where others have lost theirs: in a step, too, if it goes on
    for long."""
    if not any(notice.kind == "no_time_given" for notice in trace.notices):
        return EMPTY
    ends = np.where(
        trace.implausible | (trace.kind == int(Kind.SPAN)), trace.span[0], trace.start + trace.duration
    )
    around = trace.is_kind(Kind.ANNOTATION, Kind.PYTHON)
    last = int(np.where(around, trace.span[0], ends).max())
    longest = int(np.argmax(ends))
    if 4 * (int(ends[longest]) - last) <= int(trace.duration[longest]):
        last = int(ends[longest])
    return union(np.array([last]), np.array([trace.span[1]])) if last < trace.span[1] else EMPTY


def _between_profiles(trace: Trace) -> Intervals:
    """The time between two recordings, in a file that joins several profiles (such as those of
    `profile_analysis --combine`)."""
    recording = np.array([name.startswith("PyTorch Profiler (") for name in trace.names] or [False])
    at = np.flatnonzero((trace.kind == int(Kind.SPAN)) & ~trace.implausible & recording[trace.name])
    spans = union(trace.start[at], trace.end_of(at))
    return union(spans.end[:-1], spans.start[1:])


@cached_on_trace
def held_launches(trace: Trace) -> dict[int, int]:
    """The first recorded launches of devices that, after loading their kernel, waited for work from before
    the recording: by launch, the work that they launched."""
    overhead = of_kinds(trace, (Kind.OVERHEAD,))
    overhead = overhead[~trace.implausible[overhead]]
    loads = overhead[[_LOADS.match(trace.names[name]) is not None for name in trace.name[overhead].tolist()]]
    if not len(loads):
        return {}
    ours = union_of(trace.start, trace.duration, overhead)
    every = of_kinds(trace, DEVICE_WORK)
    device = np.array([lane.device for lane in trace.lanes], dtype=np.int64)[trace.lane[every]]
    held = {}
    for one in unique(device).tolist():
        mine = every[device == one]
        first = int(mine[np.argmin(trace.start[mine])])
        launch, begun = int(trace.launch[first]), int(trace.start[first])
        inner = loads[(trace.start[loads] >= trace.start[launch]) & (trace.start[loads] < begun)]
        if launch < 0 or trace.implausible[first] or trace.implausible[launch] or not len(inner):
            continue
        over = int(trace.start[launch] + trace.duration[launch])
        loaded = min(int((trace.start[inner] + trace.duration[inner]).max()), begun)
        waited = begun - loaded - ours.time_in(loaded, begun)
        if waited > max(_LOADED_NS, _FAR * int(trace.duration[inner].sum())) and over > begun - _QUEUED_NS:
            held[launch] = first
    return held


def _in_flight(trace: Trace, work: I64, of: I64, every: Intervals) -> dict[int, Intervals]:
    """By device: from the start of the recording to the first work of a stream, if for most of that time it
    was queued and nothing recorded ran: its stream still had work from before the recording. Where that is
    the first work of the device, only the time when it was queued is in flight (`analysis.idle.split`)."""
    lane = trace.lane[work]
    first = work[np.flatnonzero(np.append(True, lane[1:] != lane[:-1]))]
    device = of[np.flatnonzero(np.append(True, lane[1:] != lane[:-1]))]
    launch = trace.launch[first].astype(np.int64)
    known = (launch >= 0) & ~trace.implausible[launch]
    first, device, launch = first[known], device[known], launch[known]
    queued = trace.end_of(launch)
    at = np.searchsorted(every.start, trace.start[first]) - 1
    done = np.where(at >= 0, every.end[np.maximum(at, 0)], np.iinfo(np.int64).max)  # not the device's first
    waited = trace.start[first] - np.maximum(queued, done)
    since = trace.start[first] - trace.span[0]
    # Later on it may as well have waited for something else.
    late = (done < trace.start[first]) & (waited > _QUEUED_NS) & (2 * waited > since)
    intervals: dict[int, Intervals] = {}
    for one in unique(device[late]).tolist():
        until = trace.start[first[late & (device == one)]].max(keepdims=True)
        intervals[one] = union(np.array([trace.span[0]]), until)
    return intervals
