"""When a device stood idle: what lies between the union, over all its streams, of kernels, copies and sets.

Nothing is rounded and nothing is joined: a gap of one nanosecond is a gap. An event without length ends one
gap and begins the next. Slices that cannot be as the file says (`Trace.implausible`) are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetui.trace import DEVICE_WORK, Kind, Trace
from tracetui.trace.intervals import Union, union
from tracetui.trace.model import I64


@dataclass(frozen=True, slots=True)
class DeviceGaps:
    """The gaps of one device, in order of time. Times in nanoseconds from the trace's zero."""

    device: int
    """Index of the device."""
    events: int
    """Number of device events in the union."""
    first: int
    """Start of its first event; of a clipped one, not before the stretch."""
    last: int
    """End of its last event; of a clipped one, not after the stretch."""
    busy: int
    """Length of the union."""
    lead_in: int
    """From the first CPU event of the trace to `first`; 0 where there is none before it."""

    start: I64
    duration: I64
    before: I64
    """The slice whose end began each gap."""
    after: I64
    """The slice whose start ended each gap."""
    whole: I64
    """Which of the device's gaps each one is (differs from its position only when clipped)."""
    blocks: Union
    """The union itself, whole, also when clipped."""

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
        """`span - busy`: the gaps' durations together."""
        return self.span - self.busy

    @property
    def busy_share(self) -> float:
        """`busy / span`; 0.0 where the span is empty."""
        return self.busy / self.span if self.span > 0 else 0.0

    def longest(self, minimum: int = 0) -> I64:
        """Positions of the gaps of at least `minimum` ns, longest first (ties in order of time)."""
        order = np.argsort(-self.duration, kind="stable")
        return order[self.duration[order] >= minimum]


def device_of(trace: Trace) -> I64:
    """The device of each lane, -1 for a CPU lane. Shape (number of lanes,)."""
    return np.array([lane.device for lane in trace.lanes], dtype=np.int64)


def work_of_devices(trace: Trace) -> dict[int, I64]:
    """Per device its kernels, copies and sets (slices), without odd ones; sorted by (lane, start)."""
    at = np.flatnonzero(trace.is_kind(*DEVICE_WORK) & ~trace.implausible)
    if not len(at):
        return {}
    device = device_of(trace)[trace.lane[at]]
    present = np.unique(device)
    if len(present) == 1:
        return {int(present[0]): at}
    return {int(d): at[device == d] for d in present}


def busy_union(trace: Trace, at: I64) -> Union:
    """The union of the slices `at`."""
    return union(trace.start[at], trace.start[at] + trace.duration[at])


def find_gaps(trace: Trace) -> list[DeviceGaps]:
    """The gaps of every device that ran anything, by device index; [] where none did."""
    cpu = (
        trace.is_kind(Kind.CPU_OP, Kind.ANNOTATION, Kind.PYTHON, Kind.RUNTIME, Kind.OVERHEAD)
        & ~trace.implausible
    )
    begun = int(trace.start[cpu].min()) if cpu.any() else None
    return [_gaps_of(trace, device, at, begun) for device, at in work_of_devices(trace).items()]


def _gaps_of(trace: Trace, device: int, at: I64, begun: int | None) -> DeviceGaps:
    start = trace.start[at]
    if not bool(np.all(start[1:] >= start[:-1])):
        order = np.argsort(start, kind="stable")
        at, start = at[order], start[order]
    end = start + trace.duration[at]
    reach = np.maximum.accumulate(end)
    opens = np.flatnonzero(start[1:] > reach[:-1]) + 1
    # The first event that reaches as far as its block does is the one that began the next gap.
    grows = np.ones(len(at), dtype=np.bool_)
    grows[1:] = end[1:] > reach[:-1]
    furthest = np.maximum.accumulate(np.where(grows, np.arange(len(at)), 0))
    gap_start = reach[opens - 1]
    firsts = np.concatenate([start[:1], start[opens]])
    lasts = np.append(gap_start, reach[-1:])
    blocks = Union(firsts, lasts, np.concatenate([np.zeros(1, np.int64), np.cumsum(lasts - firsts)]))
    first = int(start[0])
    return DeviceGaps(
        device,
        len(at),
        first,
        int(reach[-1]),
        blocks.total,
        max(0, first - begun) if begun is not None else 0,
        gap_start,
        start[opens] - gap_start,
        at[furthest[opens - 1]],
        at[opens],
        np.arange(len(opens)),
        blocks,
    )


def clip(gaps: DeviceGaps, start: int, end: int) -> DeviceGaps:
    """The gaps and the busy time of a device within [start, end), cut at its borders.

    Stretches that cover the whole without overlap add up to it to the nanosecond: busy, idle and span.
    """
    first, last = max(start, gaps.first), min(end, gaps.last)
    if last <= first:
        first = last = min(max(start, gaps.first), gaps.last)
    gap_end = gaps.start + gaps.duration
    low = int(np.searchsorted(gap_end, first, side="right"))
    high = max(low, int(np.searchsorted(gaps.start, last, side="left")))
    cut_start = np.maximum(gaps.start[low:high], first)
    cut_end = np.minimum(gap_end[low:high], last)
    borders = np.array([first, last], dtype=np.int64)
    inside = gaps.blocks.until(borders)
    return DeviceGaps(
        gaps.device,
        gaps.events,
        first,
        last,
        int(inside[1] - inside[0]),
        gaps.lead_in,
        cut_start,
        cut_end - cut_start,
        gaps.before[low:high],
        gaps.after[low:high],
        gaps.whole[low:high],
        gaps.blocks,
    )
