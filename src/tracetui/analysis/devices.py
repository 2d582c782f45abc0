"""The work of the devices: of each one, and of all of them on one time axis, on which the devices' recordings
follow one another. One pass over that axis finds what would otherwise take a loop over the devices."""

from __future__ import annotations

import numpy as np

from tracetui.analysis.select import plausible
from tracetui.core.columns import repeated
from tracetui.trace import DEVICE_WORK, Trace
from tracetui.trace.intervals import Intervals, union, union_of
from tracetui.trace.model import I64, Bool

_ROOM = 1 << 62
"""If the devices' recordings together are longer than this, they need several axes."""


def device_of(trace: Trace) -> I64:
    """The device of each lane, -1 for a CPU lane. Shape (number of lanes,)."""
    return np.array([lane.device for lane in trace.lanes], dtype=np.int64)


def work_of_devices(trace: Trace) -> dict[int, I64]:
    """Each device's plausible kernels, copies and sets (slices), by time; those with the same start are
    ordered by lane. Made once: read-only."""
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
    """The slices `at` by start; those with the same start keep their order."""
    return at[np.argsort(trace.start[at], kind="stable")]


class Devices:
    """Some devices, by index: all of them, unless their times are too far apart for one axis."""

    def __init__(self, trace: Trace, work: dict[int, I64]) -> None:
        self.trace = trace
        self.index = tuple(work)
        self.work = next(iter(work.values())) if len(work) == 1 else np.concatenate([*work.values()])
        """The work, device by device, each by time (slices)."""
        self.events = np.array([*map(len, work.values())])
        self.first = np.concatenate([np.zeros(1, np.int64), np.cumsum(self.events)])
        """Where the work of each device begins in `work`, and the end."""
        self.span = self.low, self.high = trace.span
        self.shift = np.arange(len(work)) * (self.high - self.low + 1)
        """How much later each device's times are on the axis than on the clock, ns."""

    def __len__(self) -> int:
        return len(self.index)

    def union(self, mine: Bool | None = None) -> Intervals:
        """The union on the axis of the work in a mask."""
        trace, at = self.trace, self.work if mine is None else self.work[mine]
        if len(self) == 1:
            return union_of(trace.start, trace.duration, at)
        shift = repeated(self.shift, self.events)
        start = trace.start[at] + (shift if mine is None else shift[mine])
        return union(start, start + trace.duration[at])

    def on_axis(self, time: I64) -> I64:
        """The times of each device on the axis. `time`: shape (n,) for the same times on each, or (devices,
        n). Result: shape (devices, n)."""
        return np.clip(time, self.low, self.high) + self.shift[:, None]

    def on_clock(self, of: Intervals, mine: Bool | None = None) -> tuple[I64, I64]:
        """(starts, ends) of intervals on the axis, moved back to the clock; only those of the devices in a
        mask."""
        if len(self) == 1 and mine is None:
            return of.start, of.end
        device = np.searchsorted(self.shift + self.low, of.start, side="right") - 1
        start, end = of.start - self.shift[device], of.end - self.shift[device]
        return (start, end) if mine is None else (start[mine[device]], end[mine[device]])


def side_by_side(trace: Trace) -> tuple[Devices, ...]:
    """The devices that ran anything, on as few axes as possible: usually one. Made once."""
    if "devices" not in trace.derived:
        work, (low, high) = work_of_devices(trace), trace.span
        index, most = list(work), max(1, _ROOM // (high - low + 1))
        trace.derived["devices"] = tuple(
            Devices(trace, {i: work[i] for i in index[at : at + most]}) for at in range(0, len(index), most)
        )
    devices: tuple[Devices, ...] = trace.derived["devices"]
    return devices


def busy_in(trace: Trace, low: int, high: int, mine: Bool | None = None) -> int:
    """How long the devices were busy within [low, high), summed over the devices, ns: with all their work, or
    only with that in a mask over the slices."""
    total = 0
    for devices in side_by_side(trace):
        busy = devices.union(None if mine is None else mine[devices.work])
        total += int(busy.overlap(*(devices.on_axis(np.array([at])) for at in (low, high))).sum())
    return total
