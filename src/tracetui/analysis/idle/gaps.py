"""When a device stood idle: the gaps in the union, over all its streams, of kernels, copies and sets.

Nothing is rounded or merged: a gap of one nanosecond is a gap. An event of zero length ends one gap and
begins the next. Implausible slices (`Trace.implausible`) are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tracetui.analysis.calls.sums import LIBRARY
from tracetui.analysis.devices import Devices, side_by_side
from tracetui.analysis.part import Part, fact
from tracetui.analysis.select import slices_named
from tracetui.analysis.steps.scope import slices_of
from tracetui.core.copying import replace
from tracetui.core.units import duration, plural, verb
from tracetui.trace import DEVICE_WORK, NO_ID, Kind, Trace
from tracetui.trace.intervals import Intervals, all_of, union_of
from tracetui.trace.model import I64, Lane
from tracetui.trace.unknown import (
    clocks,
    elsewhere,
    idle_known,
    launched_at_no_time,
    unknown_events,
    why_unknown,
    without_duration,
)
from tracetui.trace.unrecorded import lost_throughout, missing_kernels, unrecorded

_OF_CPU = np.isin(
    np.arange(len(Kind)), (Kind.CPU_OP, Kind.ANNOTATION, Kind.PYTHON, Kind.RUNTIME, Kind.OVERHEAD)
)
"""For each kind of device event, the word for it."""
_SOME = 1 << 14
CATEGORIES = 3
"""At most this many unknown categories are named."""


@dataclass(frozen=True, slots=True)
class DeviceGaps:
    """The gaps of one device, in order of time. Times in nanoseconds from the trace's zero."""

    device: int
    """Index of the device."""
    events: int
    """Number of device events in the union."""
    first: int
    """Start of its first event, or of the clipped range if that is later."""
    last: int
    """End of its last event, or of the clipped range if that is earlier."""
    busy: int
    """Length of the union."""
    lead_in: int
    """From the first CPU event of the trace to `first`; 0 if no CPU event comes before it."""

    start: I64
    duration: I64
    before: I64
    """The slice whose end began each gap."""
    after: I64
    """The slice whose start ended each gap."""
    whole: I64
    """Each gap's index among all gaps of the device (differs from its position only when clipped)."""
    blocks: Intervals
    """The union itself, never clipped."""

    def __len__(self) -> int:
        return len(self.start)

    @property
    def end(self) -> I64:
        return self.start + self.duration

    @property
    def span(self) -> int:
        """`last - first`."""
        return self.last - self.first

    @property
    def idle(self) -> int:
        """`span - busy`: the total duration of the gaps."""
        return self.span - self.busy

    @property
    def busy_share(self) -> float:
        """`busy / span`; 0.0 where the span is empty."""
        return self.busy / self.span if self.span > 0 else 0.0

    def longest(self, minimum: int = 0) -> I64:
        """Positions of the gaps of at least `minimum` ns, longest first (ties in order of time)."""
        order = np.argsort(-self.duration, kind="stable")
        return order[self.duration[order] >= minimum]


_NO_WORK = "No event here has the category of a kernel, a copy or a memset."


def _of_categories(trace: Trace, at: I64) -> str:
    names = [trace.categories[i] or "no category" for i in np.unique(trace.category[at]).tolist()]
    more = ", ..." if len(names) > CATEGORIES else ""
    which = f"of other categories ({', '.join(names[:CATEGORIES])}{more})"
    return f"{plural(len(at), 'event')} {'without a category' if names == ['no category'] else which}"


def elsewhere_text(trace: Trace) -> str:
    """What to say about a trace without device work if some of its processes may be devices; "" for
    others."""
    at = elsewhere(trace)
    said = f"Whether {_of_categories(trace, at)} {verb(len(at), 'run')} on a device is not known."
    return f"{_NO_WORK} {said}" if len(at) else ""


def _is_empty(trace: Trace) -> bool:
    """Whether PyTorch's profiler wrote the trace but recorded no op."""
    profiler = any(name.startswith("PyTorch Profiler") for name in trace.names)
    return profiler and not trace.is_kind(Kind.CPU_OP).any()


def _with_ids_of(trace: Trace, calls: I64) -> I64:
    """The slices of unknown categories that share a correlation with one of the `calls`."""
    ids = trace.correlation[calls]
    other = np.flatnonzero((trace.kind == int(Kind.OTHER)) & ~trace.implausible)
    found: I64 = other[np.isin(trace.correlation[other], ids[ids != NO_ID])]
    return found


def _why_unknown_text(trace: Trace) -> str:
    """What to say about a trace with device work if it is missing, or its times are; "" for others."""
    why, unknown = why_unknown(trace), "So it is not known how busy the GPU was."
    if why == "missing":
        return (
            f"{plural(missing_kernels(trace), 'launch', 'launches')} of kernels, but not what they ran: "
            f"those kernels are missing from the trace. {unknown}"
        )
    if why == "lost":
        lost, of = lost_throughout(trace), unrecorded(trace).of
        return (
            f"{lost:,} of {of:,} launches, all through the recording, have no GPU event with a time in "
            f"the file: a stream may be missing. {unknown}"
        )
    if why == "durations":
        zero, of = len(without_duration(trace)), int(trace.is_kind(Kind.KERNEL).sum())
        return f"{zero:,} of {of:,} kernels have a duration of 0: their times are missing. {unknown}"
    if why == "times":
        lost = launched_at_no_time(trace)
        return (
            f"{plural(lost, 'GPU event')} {verb(lost, 'belong')} to launches whose times are missing. So it "
            "is not known what the GPU did in which step, or why it was idle."
        )
    if why == "clocks":
        return f"{clocks_text(trace)}. So it is not known what the GPU did in which step, or why it was idle."
    every = trace.is_kind(*DEVICE_WORK)
    if (odd := int((every & trace.implausible).sum())) == int(every.sum()):
        return (
            f"{plural(odd, 'GPU event')}, but with times that cannot be right: left out. So it is not known "
            "what the GPU did."
        )
    return ""


def clocks_text(trace: Trace) -> str:
    """How the clocks of CPU and GPU differ, as a part of a sentence."""
    found = clocks(trace)
    said = {
        "before": "Most GPU work starts before its launch",
        "drift": "Much GPU work in a part of the recording starts before its launch",
        "apart": "All GPU work comes after all launches",
        "grows": "Launches take ever longer to reach an idle GPU",
        "waits": "Most calls that wait for the GPU return before its work ends",
    }[found.how]
    drift = ", and drift" if found.how in ("drift", "grows") else ""
    return f"{said}, by {duration(abs(found.offset))}: the clocks of CPU and GPU differ{drift}"


def without_work_text(trace: Trace) -> str:
    """What to say about a trace in which no device ran a kernel, copy or memset."""
    if trace.cut_off:
        return (
            "The file is cut off. PyTorch writes GPU events last, and not in time order: any of them may be "
            "missing."
        )
    if trace.of_several_writers:
        return (
            "Several programs wrote this file, in turns or one after another, and the work of their GPUs is "
            "on the same lanes. So it is not known which GPU did what. Let each write a file of its own."
        )
    at, work = unknown_events(trace), bool(trace.is_kind(*DEVICE_WORK).any())
    if work and (said := _why_unknown_text(trace)):
        return said
    if not len(trace):
        return "There are no events with a duration here."
    if not len(at):
        calls = slices_named(trace, lambda name: "Launch" in name, Kind.RUNTIME)
        if not len(calls) and not work and _is_empty(trace):
            return (
                "No op, launch or GPU work was recorded. With a schedule, export the trace in "
                "on_trace_ready: after the last active step the next cycle begins, with nothing in it yet."
            )
        if not len(calls) or work:
            return (not work and elsewhere_text(trace)) or "There are no GPU events here."
        if len(ran := _with_ids_of(trace, calls)):
            have = "has the id of a launch" if len(ran) == 1 else "have the ids of launches"
            return f"{_NO_WORK} {_of_categories(trace, ran)} {have}: drawn, but not judged."
        return (
            f"{plural(len(calls), 'launch', 'launches')}, but nothing of what they ran: the profiler got no "
            "events from the GPU. Either only CPU activity was asked for, or the GPU could not be profiled: "
            "often only root may profile it, or another profiler is using it."
        )
    held = f"{_of_categories(trace, at)}: drawn, but"
    if work:
        return (
            f"Between kernels, copies and memsets the device's lanes hold {held} not judged. So it is not "
            "known when the device was idle."
        )
    return f"{_NO_WORK} The device's lanes hold {held} not judged."


def busy_union(trace: Trace, at: I64) -> Intervals:
    """The union of the slices `at`."""
    return union_of(trace.start, trace.duration, at)


def find_gaps(trace: Trace) -> list[DeviceGaps]:
    """The gaps of every device that ran anything, by device index; [] if none did, or if that is not
    known."""
    if not idle_known(trace):
        return []
    first = (_first_of_cpu(trace, lane) for lane in trace.lanes)
    begun = min((int(trace.start[i]) for i in first if i >= 0), default=None)
    return [gaps for devices in side_by_side(trace) for gaps in _gaps_of(devices, begun)]


def _first_of_cpu(trace: Trace, lane: Lane) -> int:
    """The lane's first CPU event that counts, -1 for none."""
    for at in range(lane.first, lane.last, _SOME):  # usually it is the very first
        part = slice(at, min(at + _SOME, lane.last))
        counts = _OF_CPU[trace.kind[part]] & ~trace.implausible[part]
        if counts.any():
            return at + int(np.argmax(counts))
    return -1


def _gaps_of(devices: Devices, begun: int | None) -> Iterator[DeviceGaps]:
    trace = devices.trace
    for device, low, high in zip(
        devices.index, devices.first.tolist(), devices.first[1:].tolist(), strict=False
    ):
        blocks, closes, opens = busy_blocks(trace.start, trace.duration, devices.work[low:high])
        first, begin = int(blocks.start[0]), blocks.end[:-1]
        lead_in = max(0, first - begun) if begun is not None else 0
        yield DeviceGaps(
            device, high - low, first, int(blocks.end[-1]), blocks.total, lead_in, begin,
            blocks.start[1:] - begin, closes[:-1], opens[1:], np.arange(len(begin)), blocks,
        )  # fmt: skip


def clip(gaps: DeviceGaps, start: int, end: int) -> DeviceGaps:
    """The gaps and the busy time of a device within [start, end), cut at its borders.

    If disjoint ranges cover the whole, their busy, idle and span add up to those of the whole, to the
    nanosecond.
    """
    first, last = max(start, gaps.first), min(end, gaps.last)
    if last <= first:
        first = last = min(max(start, gaps.first), gaps.last)
    low = int(np.searchsorted(gaps.end, first, side="right"))
    high = max(low, int(np.searchsorted(gaps.start, last, side="left")))
    cut_start = np.maximum(gaps.start[low:high], first)
    cut_end = np.minimum(gaps.end[low:high], last)
    inside = gaps.blocks.until(np.array([first, last], dtype=np.int64))
    before, after, whole = (array[low:high] for array in (gaps.before, gaps.after, gaps.whole))
    return replace(
        gaps, first=first, last=last, busy=int(inside[1] - inside[0]),
        start=cut_start, duration=cut_end - cut_start, before=before, after=after, whole=whole,
    )  # fmt: skip


def busy_blocks(start: I64, duration: I64, at: I64) -> tuple[Intervals, I64, I64]:
    """The union of some slices, sorted by start, with the slice that ends and the one that begins each of its
    intervals. One that starts where another ends goes on with it; of those that end last, the first counts.
    """
    if LIBRARY is not None:
        columns = [np.ascontiguousarray(column, dtype=np.int64) for column in (at, start, duration)]
        made = [np.empty(len(at) + more, dtype=np.int64) for more in (0, 0, 1, 0, 0)]
        of_at, *of_times = (column.ctypes.data for column in columns)
        count = LIBRARY.busy_blocks(of_at, len(at), *of_times, *(column.ctypes.data for column in made))
        first, last, before, closes, opens = made
        return Intervals(first[:count], last[:count], before[: count + 1]), closes[:count], opens[:count]
    begin = start[at]
    end = begin + duration[at]
    reach = np.maximum.accumulate(end)
    opened = np.append(np.zeros(min(1, len(at)), np.int64), np.flatnonzero(begin[1:] > reach[:-1]) + 1)
    over = np.append(opened[1:], len(at))[: len(opened)] - 1
    grows = np.ones(len(at), dtype=np.bool_)
    grows[1:] = end[1:] > reach[:-1]
    furthest = np.maximum.accumulate(np.where(grows, np.arange(len(at)), 0))
    starts, ends = begin[opened], reach[over]
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(ends - starts)])
    return Intervals(starts, ends, before), at[furthest[over]], at[opened]


@fact
def lane_calls_of(part: Part) -> dict[int, Intervals]:
    """For the lanes that have any, when each was in an op or a runtime call."""
    first = np.array([lane.first for lane in part.trace.lanes] + [len(part.trace)])
    found: dict[int, list[Intervals]] = {}
    for kind in (Kind.CPU_OP, Kind.RUNTIME):
        at = slices_of(part, kind).at
        places = np.searchsorted(at, first)
        for lane in np.flatnonzero(np.diff(places)).tolist():
            found.setdefault(lane, []).append(busy_union(part.trace, at[places[lane] : places[lane + 1]]))
    return {lane: all_of(found[lane]) for lane in sorted(found)}
