"""The work of the devices: of each, and of all on one axis of time, on which each device's recording follows
that of the one before. So one pass finds what a loop would find device by device."""

from __future__ import annotations

import numpy as np

from tracetui.analysis.select import plausible
from tracetui.trace import DEVICE_WORK, Trace
from tracetui.trace.intervals import Union, union, union_of
from tracetui.trace.model import I64, Bool

_ROOM = 1 << 62
"""Where the devices' recordings together are longer, they need several axes."""


def device_of(trace: Trace) -> I64:
    """The device of each lane, -1 for a CPU lane. Shape (number of lanes,)."""
    return np.array([lane.device for lane in trace.lanes], dtype=np.int64)


def work_of_devices(trace: Trace) -> dict[int, I64]:
    """Each device's plausible kernels, copies and sets (slices), by time; those that start together by lane.
    Made once: read-only."""
    if "work" not in trace.derived:
        at = plausible(trace, *DEVICE_WORK)
        low, high = np.searchsorted(at, [(lane.first, lane.last) for lane in trace.lanes]).reshape(-1, 2).T
        parts: dict[int, list[I64]] = {}
        for i in np.flatnonzero(low < high).tolist():
            parts.setdefault(trace.lanes[i].device, []).append(at[low[i] : high[i]])
        trace.derived["work"] = {
            device: some[0] if len(some) == 1 else by_start(trace, np.concatenate(some))
            for device, some in sorted(parts.items())
        }
    work: dict[int, I64] = trace.derived["work"]
    return work


def by_start(trace: Trace, at: I64) -> I64:
    """The slices `at` by start; those that start together as they are."""
    return at[np.argsort(trace.start[at], kind="stable")]


class Devices:
    """Some devices, by index: all there are, but for times that are too far apart for one axis."""

    def __init__(self, trace: Trace, work: dict[int, I64]) -> None:
        self.trace = trace
        self.index = tuple(work)
        self.work = next(iter(work.values())) if len(work) == 1 else np.concatenate([*work.values()])
        """Device by device, by time (slices)."""
        self.events = np.array([*map(len, work.values())])
        self.first = np.concatenate([np.zeros(1, np.int64), np.cumsum(self.events)])
        """Where the work of each begins, and the end."""
        self.span = self.low, self.high = trace.span
        self.shift = np.arange(len(work)) * (self.high - self.low + 1)
        """How much later than on the clock the times of each are on the axis, ns."""

    def __len__(self) -> int:
        return len(self.index)

    def union(self, mine: Bool | None = None) -> Union:
        """The union of the work of a mask on the axis."""
        trace, at = self.trace, self.work if mine is None else self.work[mine]
        if len(self) == 1:
            return union_of(trace.start, trace.duration, at)
        shift = np.repeat(self.shift, self.events)
        start = trace.start[at] + (shift if mine is None else shift[mine])
        return union(start, start + trace.duration[at])

    def on_axis(self, time: I64) -> I64:
        """Times of each device on the axis. `time`: of shape (n,) for all alike, or (devices, n). Shape
        (devices, n)."""
        return np.clip(time, self.low, self.high) + self.shift[:, None]

    def on_clock(self, of: Union, mine: Bool | None = None) -> tuple[I64, I64]:
        """(starts, ends) of intervals on the axis, each on the clock; of the devices of a mask."""
        if len(self) == 1 and mine is None:
            return of.start, of.end
        device = np.searchsorted(self.shift + self.low, of.start, side="right") - 1
        start, end = of.start - self.shift[device], of.end - self.shift[device]
        return (start, end) if mine is None else (start[mine[device]], end[mine[device]])


def side_by_side(trace: Trace) -> tuple[Devices, ...]:
    """The devices that ran anything, on as few axes as there have to be: most often one. Made once."""
    if "devices" not in trace.derived:
        work, (low, high) = work_of_devices(trace), trace.span
        index, most = list(work), max(1, _ROOM // (high - low + 1))
        trace.derived["devices"] = tuple(
            Devices(trace, {i: work[i] for i in index[at : at + most]}) for at in range(0, len(index), most)
        )
    found: tuple[Devices, ...] = trace.derived["devices"]
    return found


def busy_in(trace: Trace, low: int, high: int, mine: Bool | None = None) -> int:
    """How long the devices were busy within [low, high) with all their work, or with that of a mask over the
    slices: their sum, ns."""
    total = 0
    for devices in side_by_side(trace):
        busy = devices.union(None if mine is None else mine[devices.work])
        total += int(busy.within(*(devices.on_axis(np.array([at])) for at in (low, high))).sum())
    return total
