"""Events that cannot be as the file says, and the stretch of time to show first without them."""

from __future__ import annotations

import numpy as np

from tracetui.trace.model import I8, I32, I64, Bool, Kind
from tracetui.trace.trouble import Trouble

_FACTOR = 1000
"""A duration of so many times the rest of the trace, or an event so far away from it, cannot be."""
_DEVICE_FACTOR = 10
"""Less is enough on a device, as the host that recorded it was there until its end."""
_FLOOR = 1_000_000
"""Traces shorter than this (1 ms) are measured as if they were as long."""
_SAMPLE = 1 << 16


def mark_odd(kind: I8, lane: I32, start: I64, duration: I64, on_device: Bool, trouble: Trouble) -> Bool:
    """Mask of the slices that cannot be. `start` and `duration` in nanoseconds as in the file; `on_device` per lane."""
    count = len(start)
    odd = duration < 0
    trouble.note("negative_duration", count=int(odd.sum()))
    if count < 3:
        return odd
    spread = start if count <= _SAMPLE else start[np.linspace(0, count - 1, _SAMPLE, dtype=np.int64)]
    low, high = (int(q) for q in np.quantile(spread, (0.05, 0.95)))
    width = max(high - low, _FLOOR)
    stray = (start < low - _FACTOR * width) | (start > high + _FACTOR * width)
    if stray.any():
        # Far away from most, but not if the trace leads there: what lies between must be empty.
        stray &= _beyond_a_hole(start, low, high, width)
        trouble.note("stray", count=int((stray & ~odd).sum()))
        odd |= stray
    good = ~odd
    first, last = int(start[good].min(initial=low)), int(start[good].max(initial=high))
    width = max(last - first, _FLOOR)
    end = start + duration
    device = on_device[lane]
    long = good & (duration > _FACTOR * width)
    if long.any():
        long &= ~_vouched(end, long, device, first)
    # The host's own slices say until when the recording went on.
    host = good & ~device & ~long
    if host.any():
        reach = max(int(end[host].max()) - first, _FLOOR)
        long |= good & device & (duration > _DEVICE_FACTOR * reach)
    if long.any():
        worst = int(duration[long].max())
        trouble.note("impossible_duration", count=int(long.sum()), detail=f"the longest {worst / 1e9:.6g} s")
        odd |= long
    return odd


def _beyond_a_hole(start: I64, low: int, high: int, width: int) -> Bool:
    """Slices on the far side of a stretch without any start, many times as wide as the bulk of the trace."""
    ordered = np.sort(start)
    steps = np.diff(ordered)
    holes = np.flatnonzero(steps > _FACTOR * width // 2)
    below = ordered[holes + 1][ordered[holes + 1] <= low]
    above = ordered[holes][ordered[holes] >= high]
    mask = np.zeros(len(start), dtype=np.bool_)
    if len(below):
        mask |= start < int(below.max())
    if len(above):
        mask |= start > int(above.min())
    return mask


def _vouched(end: I64, long: Bool, device: Bool, first: int) -> Bool:
    """Long slices that host and device agree on: a call that waits for a kernel ends when the kernel does."""
    mask = np.zeros(len(end), dtype=np.bool_)
    on_host, on_device = long & ~device, long & device
    if not on_host.any() or not on_device.any():
        return mask
    host, other = int(end[on_host].max()) - first, int(end[on_device].max()) - first
    if max(host, other) <= 1.1 * min(host, other):
        mask |= long
    return mask


def first_view(kind: I8, start: I64, duration: I64, odd: Bool) -> tuple[int, int]:
    """(start, end) of all that matters: neither what is odd, nor spans and the profiler's own time if there is more."""
    around = (kind == Kind.SPAN) | (kind == Kind.OVERHEAD)
    for mask in (~odd & ~around, ~odd, np.ones(len(odd), dtype=np.bool_)):
        if mask.any():
            begin = int(start[mask].min())
            return begin, max(begin + 1, int((start[mask] + duration[mask]).max()))
    return 0, 1
