"""Marks events that cannot be as the file says, and picks the time range to show first."""

from __future__ import annotations

import numpy as np

from tracetui.core.columns import TIME_LIMIT, extremes
from tracetui.core.threads import map_blocks
from tracetui.formats.diagnostics import Diagnostics
from tracetui.trace.indices import group_positions
from tracetui.trace.model import DEVICE_WORK, I8, I32, I64, Bool, Kind

_SECOND = 1_000_000_000
_FAR = 100_000
"""An event is stray if it is this many times the width of the rest of the trace (at least 10 ms) away."""
_SAMPLE = 1 << 16
_ZEROS = 3
"""At least so many events at time 0 have lost their time."""
LONGEST = 1 << 53
"""A longer duration in ns (104 days) cannot be right: the sum of a thousand shorter ones fits into 64
bits."""


def mark_implausible(
    kind: I8, lane: I32, start: I64, duration: I64, on_device: Bool, diagnostics: Diagnostics
) -> tuple[Bool, Bool]:
    """Masks: the implausible slices, and the device work that was cut. Nanoseconds on the clock of the file;
    `on_device` is per lane.

    Marked are: negative durations; events very far from all others; device events a hundred times as long as
    everything the host recorded (ten times, if over a minute); a single host event a thousand times as long
    as the rest of the trace, and at least a quarter of an hour long; events at time 0, if all others come
    later by far more than they take together. Recordings have pauses and long waits: whatever could be true
    is left alone.

    A kernel, copy or memset that is too long did run; only its end is not known (ROCm's durations overflow).
    It is cut where the next one in its stream begins, by changing `duration` in place. If there is no next
    one, it stays marked.
    """
    implausible, overlong, endless = _mark(kind, lane, start, duration, on_device, diagnostics)
    clipped = _clip(kind, lane, start, duration, implausible, overlong)
    diagnostics.note("clipped_duration", count=int(clipped.sum()))
    diagnostics.note("impossible_time", count=int((endless & ~clipped).sum()))
    longest = duration[overlong & ~endless & ~clipped]
    worst = f"the longest {int(longest.max(initial=0)) / _SECOND:.6g} s"
    diagnostics.note("impossible_duration", count=len(longest), detail=worst)
    return implausible & ~clipped, clipped


def _clip(kind: I8, lane: I32, start: I64, duration: I64, implausible: Bool, overlong: Bool) -> Bool:
    """Mask of the overlong device work that ends where the next work in its stream begins; sets
    `duration`."""
    clipped = np.zeros(len(start), dtype=np.bool_)
    if not overlong.any():
        return clipped
    work, size = np.isin(kind, DEVICE_WORK), int(lane.max()) + 1
    wanted = np.zeros(size, dtype=np.bool_)
    wanted[lane[overlong & work]] = True
    here = np.flatnonzero(work & wanted[lane])
    for _, some in group_positions(lane[here], size):
        stream = here[some]
        starts = np.sort(start[stream[overlong[stream] | ~implausible[stream]]])
        at = stream[overlong[stream]]
        after = np.searchsorted(starts, start[at], side="right")
        at, after = at[after < len(starts)], after[after < len(starts)]
        duration[at] = starts[after] - start[at]
        clipped[at] = True
    return clipped


def _mark(
    kind: I8, lane: I32, start: I64, duration: I64, on_device: Bool, diagnostics: Diagnostics
) -> tuple[Bool, Bool, Bool]:
    """Masks: all implausible slices; the ones that are implausible only for their duration; those with a time
    beyond the limit."""
    count = len(start)
    if _is_plain(lane, start, duration, on_device):
        return (np.zeros(count, dtype=np.bool_),) * 3
    implausible = duration < 0
    diagnostics.note("negative_duration", count=int(implausible.sum()))
    endless = (np.abs(start) >= TIME_LIMIT) | (duration >= LONGEST)
    implausible |= endless
    long = np.zeros(count, dtype=np.bool_)
    if count - int(implausible.sum()) < 3:
        return implausible, long, endless
    good = ~implausible
    timeless = good & _timeless(start, duration)
    diagnostics.note("no_time_given", count=int(timeless.sum()))
    implausible |= timeless
    good &= ~timeless
    stray = _astray(start, good)
    diagnostics.note("stray", count=int(stray.sum()))
    implausible |= stray
    good &= ~stray
    if not good.any():
        return implausible, long, endless
    first, last = int(start[good].min()), int(start[good].max())
    end = start + duration
    device = on_device[lane]
    span = good & (kind == Kind.SPAN)
    spans_end = int(end[span].max()) if span.any() else first
    host = good & ~device & ~span
    long = host & (duration > 1000 * max(last - first, _SECOND)) & (end > spans_end)
    if int(long.sum()) > 1:
        # Two of similar length may be right: a call and what it waits for.
        longest = np.sort(end[long] - first)
        if longest[-1] <= 1.1 * longest[-2]:
            long[:] = False
    host &= ~long
    if host.any():
        reach = max(int(end[host].max()), spans_end) - first
        over = good & device & (end > spans_end)
        over &= (duration > 100 * max(reach, _SECOND // 1000)) | (duration > max(10 * reach, 60 * _SECOND))
        long |= over
    long |= endless & (start >= first) & (start <= last)
    return implausible | long, long, endless


def _is_plain(lane: I32, start: I64, duration: I64, on_device: Bool) -> bool:
    """Whether the extreme values alone show that nothing can be implausible."""
    if len(start) < 3:
        return False
    (shortest, longest), (first, last) = extremes(duration), extremes(start)
    if shortest < 0 or longest > 1000 * _SECOND or max(-first, last) >= TIME_LIMIT:
        return False
    # No device event of at most this length can be too long.
    long = (
        np.flatnonzero(duration > _SECOND // 10) if longest > _SECOND // 10 else np.zeros(0, dtype=np.int64)
    )
    plain = not on_device[lane[long]].any() and not _outlies(start, first, last)
    return plain and not (first == 0 and _timeless(start, duration).any())


def _timeless(start: I64, duration: I64) -> Bool:
    """Mask of the events at time 0, if they are several, over long before the next one starts, and the rest
    is close together: PyTorch has written 0 where it lost the time, and its times are of a clock that began
    long ago."""
    zero = start == 0
    if np.count_nonzero(zero) < _ZEROS or zero.all():
        return np.zeros(len(start), dtype=np.bool_)
    rest = start[~zero]
    first, last = int(rest.min()), int(rest.max())
    far = 10 * max(last - first, _SECOND // 1000)
    over = 10 * int(duration[zero].max()) < first
    return zero if first > far and over else np.zeros(len(start), dtype=np.bool_)


def _quantile(ordered: I64, share: float) -> float:
    """Like `np.quantile` of sorted values, which would import a fifth of numpy."""
    place = share * (len(ordered) - 1)
    low = int(place)
    a, b, part = ordered[low], ordered[min(low + 1, len(ordered) - 1)], place - low
    return float(b - (b - a) * (1 - part) if part >= 0.5 else a + (b - a) * part)


def _outlies(times: I64, first: int, last: int) -> tuple[int, int, int] | None:
    """(low, high, the distance from them that counts as far) if there are times that far away, else None.
    `first`, `last`: the smallest and the largest time."""
    sample = (
        times if len(times) <= _SAMPLE else times[np.linspace(0, len(times) - 1, _SAMPLE, dtype=np.int64)]
    )
    least = 0.1 if len(times) > 50 else 0.25
    ordered = np.sort(sample)
    low, high = (int(_quantile(ordered, share)) for share in (least, 1 - least))
    far = _FAR * max(high - low, _SECOND // 100)
    return (low, high, far) if first < low - far or last > high + far else None


def _astray(start: I64, good: Bool) -> Bool:
    """Mask of slices far away from nearly all others, beyond a long gap without starts."""
    times = start[good]
    outlying = _outlies(times, *extremes(times))
    if outlying is None:
        return np.zeros(len(start), dtype=np.bool_)
    return good & _beyond_a_hole(start, times, *outlying)


def _beyond_a_hole(start: I64, times: I64, low: int, high: int, far: int) -> Bool:
    """Mask of slices beyond a gap of at least `far` / 2 in which nothing starts."""
    ordered = np.sort(times)
    holes = np.flatnonzero(np.diff(ordered) > far // 2)
    below = ordered[holes + 1][ordered[holes + 1] <= low]
    above = ordered[holes][ordered[holes] >= high]
    mask = np.zeros(len(start), dtype=np.bool_)
    if len(below):
        mask |= start < int(below.max())
    if len(above):
        mask |= start > int(above.min())
    return mask


def first_view(kind: I8, start: I64, duration: I64, implausible: Bool) -> tuple[int, int]:
    """(start, end) in ns of the interesting part: without implausible slices, and without spans and profiler
    overhead if there is anything else."""
    for plausible, inner in ((True, True), (True, False), (False, False)):

        def within(part: slice, plausible: bool = plausible, inner: bool = inner) -> tuple[int, int] | None:
            mask = np.ones(len(start[part]), dtype=np.bool_)
            if plausible:
                mask &= ~implausible[part]
            if inner:
                mask &= (kind[part] != Kind.SPAN) & (kind[part] != Kind.OVERHEAD)
            begin = start[part][mask]
            return (int(begin.min()), int((begin + duration[part][mask]).max())) if len(begin) else None

        found = [ends for ends in map_blocks(len(start), within) if ends]
        if found:
            first = min(first for first, _ in found)
            return first, max(first + 1, *(last for _, last in found))
    return 0, 1
