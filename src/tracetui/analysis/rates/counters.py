"""What the counters of a device say of the time in which it worked: how much of it was at work; its clock.

A sample of a percentage is a mean over its interval, in which the device may also have stood idle. So the
samples are weighted with the length of their intervals and divided by the time in which kernels ran in them:
what an idle device adds to "SM active" is nothing, and to "DRAM" next to nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetui.analysis.devices import work_of_devices
from tracetui.analysis.idle.gaps import busy_union
from tracetui.analysis.part import Part, fact
from tracetui.analysis.steps.scope import window_of
from tracetui.trace import Kind, Trace
from tracetui.trace.counters import Counter, counter_of, kernel_clocks
from tracetui.trace.intervals import Intervals

_EVER = 1 << 62
LEAST_SAMPLES = 5
"""With fewer samples while work ran, a mean is not known."""


@dataclass(frozen=True, slots=True)
class DeviceCounters:
    """What the counters of one device say of a part of a trace. None where they do not say."""

    device: int
    sm_active: float | None
    """The share of the SMs that had work while kernels ran, mean, 0 to 1."""
    dram: float | None
    """The share of the peak memory bandwidth that was used while the device was busy, mean, 0 to 1."""
    interval: int | None
    """The usual time between two samples of either, ns."""
    sampled: int
    """How long kernels ran while samples were taken, ns."""
    clock: float | None
    """The SM clock while kernels ran, mean by time, MHz: from the cycles of each kernel."""
    clock_range: tuple[float, float] | None
    """The 5th and the 95th percentile of that clock, by kernel time."""
    power: tuple[float, float] | None
    """(least, most) W while it was recorded."""
    temperature: tuple[float, float] | None
    """(least, most) degrees Celsius."""

    @property
    def known(self) -> bool:
        """Whether there is anything to say of the time in which kernels ran."""
        return self.sm_active is not None or self.dram is not None or self.clock is not None


@fact
def device_counters(part: Part) -> tuple[DeviceCounters, ...]:
    """What the counters of each device say of the scope; () where none were recorded."""
    trace = part.trace
    if not len(trace.counters.start):
        return ()
    low, high = (-_EVER, _EVER) if part.is_whole else window_of(part)
    found = []
    for device, work in work_of_devices(trace).items():
        kernels = busy_union(trace, work[trace.kind[work] == Kind.KERNEL])
        active, dram = (counter_of(trace, device, name) for name in ("SM Active", "DRAM BW"))
        sampled = next((one for one in (active, dram) if one is not None), None)
        clock, spread = _clock(trace, device, low, high)
        one = DeviceCounters(
            device,
            _mean_while(active, kernels, low, high),
            _mean_while(dram, busy_union(trace, work), low, high),
            int(np.median(sampled.end - sampled.start)) if sampled is not None else None,
            _sampled(sampled, kernels, low, high),
            clock,
            spread,
            _extremes(counter_of(trace, device, "Power"), low, high),
            _extremes(counter_of(trace, device, "Temperature"), low, high),
        )
        if one.known or one.power or one.temperature:
            found.append(one)
    return tuple(found)


def _mean_while(counter: Counter | None, busy: Intervals, low: int, high: int) -> float | None:
    """The mean of a percentage, 0 to 1, while the device was busy, by the samples within [low, high)."""
    if counter is None:
        return None
    some = (counter.start >= low) & (counter.end <= high)
    start, end, value = counter.start[some], counter.end[some], counter.value[some]
    ran = busy.overlap(start, end)
    some = ran > 0
    if np.count_nonzero(some) < LEAST_SAMPLES:
        return None
    mean = float((value * (end - start))[some].sum() / ran.sum() / 100)
    return min(mean, 1.0)  # the ends of kernels and samples are rounded


def _sampled(counter: Counter | None, busy: Intervals, low: int, high: int) -> int:
    if counter is None:
        return 0
    some = (counter.start >= low) & (counter.end <= high)
    return int(busy.overlap(counter.start[some], counter.end[some]).sum())


def _clock(trace: Trace, device: int, low: int, high: int) -> tuple[float | None, tuple[float, float] | None]:
    kernels, clock = kernel_clocks(trace, device)
    inside = (trace.start[kernels] >= low) & (trace.start[kernels] < high)
    kernels, clock = kernels[inside], clock[inside]
    if len(kernels) < LEAST_SAMPLES:
        return None, None
    time = trace.duration[kernels]
    order = np.argsort(clock, kind="stable")
    until = np.cumsum(time[order]) / time.sum()
    least, most = (float(clock[order][np.searchsorted(until, part)]) for part in (0.05, 0.95))
    return float((clock * time).sum() / time.sum()), (least, most)


def _extremes(counter: Counter | None, low: int, high: int) -> tuple[float, float] | None:
    if counter is None:
        return None
    value = counter.value[(counter.end > low) & (counter.start < high)]
    return (float(value.min()), float(value.max())) if len(value) else None
