"""What a device's counters say, in words and as JSON."""

from __future__ import annotations

from collections.abc import Sequence

from tracetui.analysis.rates.counters import DeviceCounters
from tracetui.core.units import duration, share
from tracetui.views.jsonable import share as json_share
from tracetui.views.writers import Record

STEADY = 0.98
"""A clock whose range is narrower than that is one number."""


def counters_text(one: DeviceCounters) -> str:
    """`while kernels ran: SM active 38%, SM clock 1,980 MHz; while busy: DRAM 71% of peak`."""
    ran, parts = [], []
    if one.sm_active is not None:
        ran.append(f"SM active {share(one.sm_active)}")
    if one.clock is not None and one.clock_range is not None:
        low, high = one.clock_range
        steady = low >= STEADY * high
        ran.append(f"SM clock {one.clock:,.0f} MHz" if steady else f"SM clock {low:,.0f} to {high:,.0f} MHz")
    if ran:
        parts.append(f"while kernels ran: {', '.join(ran)}")
    if one.dram is not None:
        parts.append(f"while busy: DRAM {share(one.dram)} of peak")
    limits = [
        f"{what} up to {value[1]:,.0f} {unit}"
        for what, value, unit in (("power", one.power, "W"), ("temperature", one.temperature, "C"))
        if value is not None
    ]
    if limits:
        parts.append(", ".join(limits))
    every = f" (a sample every {duration(one.interval)})" if one.interval is not None and one.known else ""
    return "; ".join(parts) + every


def counters_said(counters: Sequence[DeviceCounters]) -> list[str]:
    """A sentence for each device."""
    several = len(counters) > 1
    return [f"{f'GPU {one.device}, ' if several else ''}{counters_text(one)}" for one in counters]


def counters_json(one: DeviceCounters) -> Record:
    """The numbers behind it."""
    low, high = one.clock_range or (None, None)
    return {
        "device": one.device,
        "sm_active_share": json_share(one.sm_active),
        "dram_share": json_share(one.dram),
        "sample_interval_ns": one.interval,
        "sampled_ns": one.sampled,
        "sm_clock_mhz": _rounded(one.clock),
        "sm_clock_low_mhz": _rounded(low),
        "sm_clock_high_mhz": _rounded(high),
        "most_power_w": one.power[1] if one.power else None,
        "most_temperature_c": one.temperature[1] if one.temperature else None,
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)
