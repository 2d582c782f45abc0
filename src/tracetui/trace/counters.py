"""Counters of a device: power, clocks, and samples of its performance, with their units and how long each
value holds."""

from __future__ import annotations

import re

import numpy as np
from msgspec import Struct

from tracetui.trace.model import F64, I64, Kind, Trace, cached_on_trace

_UNIT = re.compile(r"(.{1,80}) \((%|W|C|MHz|GHz|GB/s)\)")
_CYCLES = "Cycles (Current Kernel)"
GAP = 1.5
"""A sample of a percentage is the mean until the next one; if that comes more than this many times the usual
interval later, sampling paused."""


PER_EVENT = 3
"""The mean over some events is known if at least this many samples lie within each (median)."""


class Counter(Struct, frozen=True, eq=False):
    """The values of one counter, sorted by start (ns). Arrays of one length."""

    name: str
    """As in the file, without the unit. Safe to show."""
    unit: str
    """"%", "W", "C", "MHz", ..., or "" if the name has none."""
    device: int
    """The device that it is about, -1 if the file does not say."""
    start: I64
    end: I64
    """Until when each value holds, ns."""
    value: F64


@cached_on_trace
def counters_of(trace: Trace) -> tuple[Counter, ...]:
    """The trace's own counters, in the order of their names."""
    table = trace.counters
    bounds = np.searchsorted(table.series, np.arange(len(table.series_names) + 1)).tolist()
    found = []
    for i, (name, low, high) in enumerate(zip(table.series_names, bounds[:-1], bounds[1:], strict=True)):
        good = np.isfinite(table.value[low:high])
        start, value = table.start[low:high][good], table.value[low:high][good]
        device = table.series_device[i] if i < len(table.series_device) else -1
        with_unit = _UNIT.fullmatch(name) if device >= 0 else None
        label, unit = (with_unit[1], with_unit[2]) if with_unit else (name, "")
        end = np.append(start[1:], max(trace.span[1], int(start[-1]) if len(start) else 0))[: len(start)]
        if unit == "%":
            end = _sampled_until(start, end)
        elif name == _CYCLES and device >= 0:
            kernels = _kernels_at(trace, device, start)
            over = np.where(kernels >= 0, trace.end_of(kernels), end)
            label, end = "Cycles", np.minimum(over, end)
        found.append(Counter(label, unit, device, start, end, value))
    return tuple(found)


def counter_of(trace: Trace, device: int, name: str) -> Counter | None:
    """A device's counter of this name, if it has values."""
    return next(
        (c for c in counters_of(trace) if (c.device, c.name) == (device, name) and len(c.start)), None
    )


def kernel_clocks(trace: Trace, device: int) -> tuple[I64, F64]:
    """The device's kernels whose cycles were recorded, by time (slices), and the clock of each in MHz: cycles
    per duration."""
    cycles = counter_of(trace, device, "Cycles")
    none = np.zeros(0, np.int64), np.zeros(0, np.float64)
    if cycles is None:
        return none
    kernels = _kernels_at(trace, device, cycles.start)
    sound = (kernels >= 0) & (cycles.value > 0)
    sound &= (trace.duration[kernels] > 0) & ~trace.implausible[kernels]
    return kernels[sound], 1000 * cycles.value[sound] / trace.duration[kernels[sound]]


def _kernels_at(trace: Trace, device: int, start: I64) -> I64:
    """The device's kernel that starts at each time; -1 for none, or for several."""
    lanes = np.array([lane.device == device for lane in trace.lanes], dtype=np.bool_)
    at = np.flatnonzero((trace.kind == int(Kind.KERNEL)) & lanes[trace.lane])
    at = at[np.argsort(trace.start[at], kind="stable")]
    low, high = (np.searchsorted(trace.start[at], start, side) for side in ("left", "right"))
    kernels: I64 = np.append(at, -1)[np.where(high - low == 1, low, len(at))]
    return kernels


def _sampled_until(start: I64, following: I64) -> I64:
    """Until when samples hold that are means over intervals of nearly the same length."""
    if len(start) < 2:
        return start
    usual = int(np.median(np.diff(start)))
    end = np.where(following - start > GAP * usual, start + usual, following)
    end[-1] = start[-1] + usual
    return end


def mean_within(trace: Trace, at: I64, name: str) -> float | None:
    """The mean of a percentage over events of one device, 0 to 1, from the samples that lie within them;
    None if these are too few (`PER_EVENT`)."""
    device = trace.lanes[int(trace.lane[at[0]])].device if len(at) else -1
    counter = counter_of(trace, device, name)
    if counter is None:
        return None
    order = np.argsort(trace.start[at], kind="stable")
    start = trace.start[at[order]]
    low = np.searchsorted(counter.start, start)
    high = np.maximum(np.searchsorted(counter.end, start + trace.duration[at[order]], side="right"), low)
    if np.median(high - low) < PER_EVENT:
        return None
    spent = (counter.end - counter.start).astype(np.float64)
    sums: tuple[F64, F64] = (np.append(0, np.cumsum(spent)), np.append(0, np.cumsum(spent * counter.value)))
    time, total = (float((one[high] - one[low]).sum()) for one in sums)
    return min(total / time / 100, 1.0) if time else None


def cycles_of(trace: Trace, i: int) -> float | None:
    """The recorded cycles of a kernel (a slice); None without any."""
    device, start = trace.lanes[int(trace.lane[i])].device, int(trace.start[i])
    counter = counter_of(trace, device, "Cycles") if trace.kind[i] == Kind.KERNEL else None
    if counter is None:
        return None
    at = int(np.searchsorted(counter.start, start))
    its_own = at < len(counter.start) and counter.start[at] == start
    return float(counter.value[at]) if its_own and counter.end[at] <= start + trace.duration[i] else None
