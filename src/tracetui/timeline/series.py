"""Values over time, drawn as areas: the trace's counters, memory, launch delay, queue depth."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np
from msgspec import Struct, field

from tracetui.core.columns import counted, earliest
from tracetui.core.units import duration, memory_size
from tracetui.trace.counters import counters_of
from tracetui.trace.intervals import union
from tracetui.trace.memory import HOST, memory_records
from tracetui.trace.model import DEVICE_WORK, F64, I64, Trace

_FIRST = {
    name: place
    for place, name in enumerate(
        ("SM Active", "DRAM BW", "SM Clock", "Power", "Temperature", "Memory Clock", "Cycles")
    )
}
"""The order of a device's counters."""
BLOCK = 256
"""Samples per block of the coarse maxima."""


class Series(Struct, frozen=True, eq=False):
    """A step function: each `value` holds from its `start` (sorted, ns). Arrays of one length."""

    name: str
    """Safe to show."""
    start: I64
    value: F64
    unit: str = ""
    """"bytes", "ns", "count" or "": how a value is written; or a unit that stands behind it, such as "W"."""
    low: float = 0.0
    high: float = 1.0
    """The range of the area."""
    coarse: F64 = field(default_factory=lambda: np.zeros(0))
    """Maximum of each block of BLOCK samples."""
    device: int = -1
    """The device that it is about, -1 for none."""

    @property
    def top(self) -> float:
        """The value at the upper edge of the area."""
        return max(self.high, 100.0) if self.unit == "%" else self.high

    def at(self, times: I64) -> F64:
        """The value at some times: that of the last sample at or before each, NaN before the first one."""
        if not len(self.start):
            return np.full(len(times), np.nan)
        index = np.searchsorted(self.start, times, side="right") - 1
        return np.where(index >= 0, self.value[np.maximum(index, 0)], np.nan)

    def peaks(self, borders: I64) -> F64:
        """The largest value within each cell, NaN if it has none.

        Cells with very many samples use whole blocks: a peak may then also show in the next cell, but never
        gets lost.
        """
        held = self.at(borders[:-1])
        index = np.searchsorted(self.start, borders)
        values = self.value
        if index[-1] - index[0] > 64 * BLOCK:
            values, index = self.coarse, np.append(index[:-1] // BLOCK, -(-index[-1] // BLOCK))
        low, high = index[:-1], index[1:]
        some = high > low
        if not some.any():
            return held
        # Only those in view: the cost depends on the screen, not on the trace.
        first = int(low[0])
        padded = np.append(values[first : int(high[-1])], -np.inf)
        found = np.fmax.reduceat(padded, (np.stack([low, high], axis=1) - first).ravel())[::2]
        return np.where(some, np.fmax(held, found), held)


def series(name: str, start: I64, value: F64, unit: str = "", device: int = -1) -> Series:
    """A series from samples, without those that are not finite."""
    good = np.isfinite(value)
    return stepped(name, start[good], value[good].astype(np.float64), unit, device)


def stepped(name: str, start: I64, value: F64, unit: str = "", device: int = -1) -> Series:
    """A series from samples; from a NaN to the next sample it has no value."""
    known = value[np.isfinite(value)]
    if not len(known):
        return Series(name, start[:0], value[:0], unit, device=device)
    coarse = np.fmax.reduceat(value, np.arange(0, len(value), BLOCK))
    return Series(name, start, value, unit, min(0.0, float(known.min())), float(known.max()), coarse, device)


def series_of(trace: Trace, stopped: Callable[[], bool]) -> Iterator[list[Series]]:
    """The series to draw, more each time; runs in a thread, and uses at most a quarter of the time."""
    begun = time.monotonic()

    def keep_going() -> bool:
        nonlocal begun
        time.sleep(min(1.0, 3 * (time.monotonic() - begun)))
        begun = time.monotonic()
        return not stopped()

    found: list[Series] = []
    for make in (counters, launches, lambda trace: memory(trace, keep_going)):
        more = make(trace)
        if stopped():
            return
        if more:
            found = [*found, *more]
            yield found


def counters(trace: Trace) -> list[Series]:
    """The trace's own counters: those of devices with what says most first, others in the file's order."""
    found = counters_of(trace)
    devices = {lane.device for lane in trace.lanes} | {one.device for one in found}
    several = len(devices - {-1}) > 1
    made = []
    for one in sorted(found, key=lambda one: (one.device, _FIRST.get(one.name, len(_FIRST)))):
        of = f"{trace.device_called(one.device)} " if several and one.device >= 0 else ""
        # Where no sample holds, there is no value.
        last = one.unit == "%" or one.name == "Cycles"
        over = one.end[np.append(one.end[:-1] < one.start[1:], last)[: len(one.end)]]
        times, values = np.concatenate([one.start, over]), np.append(one.value, np.full(len(over), np.nan))
        order = np.argsort(times, kind="stable")
        made.append(stepped(of + one.name, times[order], values[order], one.unit, one.device))
    return made


def memory(trace: Trace, going_on: Callable[[], bool] = lambda: True) -> list[Series]:
    """Allocated and reserved bytes of each device. `going_on`: see `memory_records`, which reads the file."""
    records = memory_records(trace, going_on)
    if records is None:
        return []
    places = np.unique(records.where).tolist()
    several = sum(where != HOST for where in places) > 1
    found = []
    for what, total in (("reserved", records.reserved), ("allocated", records.allocated)):
        for where in reversed(places):
            at = np.flatnonzero((records.where == where) & (total >= 0))
            name = "CPU " if where == HOST else f"{trace.device_called(where)} " if several else ""
            values = total[at].astype(np.float64)
            found.append(series(name + what, records.time[at], values, "bytes", where))
    found.sort(key=lambda one: one.name.startswith("CPU"))
    return [one for one in found if one.high > 0]


def launches(trace: Trace) -> list[Series]:
    """For each device: the delay from launch to start of each event, and how many were waiting at once.

    A delay holds until the next start. It ends when nothing runs or waits any more: the last event's delay
    says nothing about an idle device.
    """
    found: list[Series] = []
    if not len(trace):
        return found
    linked = trace.is_kind(*DEVICE_WORK) & (trace.launch >= 0) & ~trace.implausible
    devices = np.array([lane.device for lane in trace.lanes], dtype=np.int32)
    device = devices[trace.lane]
    used = sorted(set(devices[counted(trace.lane[linked], len(devices)) > 0].tolist()))
    for one in used:
        where = f"{trace.device_called(one)} " if len(used) > 1 else ""
        mine = np.flatnonzero(linked & (device == one))
        start, launch = trace.start[mine], trace.launch[mine]
        launched = trace.start[launch]
        # All that one launch started, such as a CUDA graph's kernels, has the delay of the first of them.
        first = earliest(launch, start, len(trace))
        delay = np.maximum(first[launch] - launched, 0).astype(np.float64)
        over = union(np.minimum(launched, start), start + np.maximum(trace.duration[mine], 1)).end
        times, values = np.concatenate([start, over]), np.concatenate([delay, np.full(len(over), np.nan)])
        order = np.argsort(times, kind="stable")
        found.append(stepped(f"{where}delay", times[order], values[order], "ns", one))
        times = np.concatenate([np.minimum(launched, start), start])
        steps = np.concatenate([np.ones(len(mine)), -np.ones(len(mine))])
        # At equal times, starts leave the queue before launches enter it.
        order = np.lexsort((steps, times))
        waiting = np.maximum(np.cumsum(steps[order]), 0)
        found.append(series(f"{where}queue", times[order], waiting, "count", one))
    return found


def text_of(value: float, unit: str) -> str:
    """A value with its unit, short: "1.20 GiB", "34.5 µs", "12"."""
    if value != value:
        return ""
    if unit == "ns":
        return duration(round(value))
    if unit == "bytes":
        return memory_size(value)
    if unit == "%":
        return f"{value:.3g}%"
    number = f"{value:,.0f}" if value == int(value) else f"{value:,.4g}"
    return f"{number} {unit}" if unit not in ("", "count") else number


def brief_of(value: float, unit: str) -> str:
    """Like `text_of` in few cells: "1.2G", "35µs", "12". At most six for times below 10,000 s, sizes below a
    PiB and integers below 10¹²; larger values and small fractions may take more."""
    if value != value:
        return ""
    if unit == "ns":
        return duration(round(value), 2).replace(" ", "")
    if unit == "bytes":
        return memory_size(value).removesuffix("iB").replace(" ", "")
    if unit in ("%", "W", "C"):
        return f"{value:.3g}{unit}"
    for least, size, sign in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if abs(value) >= least:
            return f"{value / size:.0f}{sign}"
    return f"{value:.4g}"
