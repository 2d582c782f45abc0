"""Rules on what a device's counters say beyond the time that it was busy."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tracetui.analysis.device_text import gpus_text
from tracetui.analysis.device_work import device_work_of, work_of_kind
from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.idle.verdict import busy_text
from tracetui.analysis.part import Part
from tracetui.analysis.rates.counters import DeviceCounters, device_counters
from tracetui.analysis.verdicts import verdict_of
from tracetui.core.units import duration, share
from tracetui.rules.model import Finding, first_of, graded, graded_kernels, smi
from tracetui.trace import Kind
from tracetui.trace.counters import kernel_clocks
from tracetui.trace.model import F64, I64
from tracetui.trace.slices import Slices

BUSY, ACTIVE = 0.5, 0.5
"""A GPU that is busy for at least this share of the time, with less of its SMs active, has kernels that are
too small for it."""
SAMPLED = 0.5
"""Of the kernel time: samples of less do not speak for all of it."""
COLLECTIVES = 0.25
"""Of the kernel time: collectives hold few SMs and wait, so that "active" says little about the others."""
FALLS = 0.95
"""A clock of less than this share of the best one has fallen."""
LOST = 0.02
"""Of the kernel time: what the best clock would have saved, to be worth a finding."""


def idle_sms(part: Part) -> Iterator[Finding]:
    """The device is busy, but most of its SMs have nothing to do."""
    trace, verdict = part.trace, verdict_of(part)
    share_busy = verdict.busy_share
    if share_busy is None or share_busy < BUSY:
        return
    for one, kernels in _with_kernels(part):
        if one.sm_active is None or one.sm_active >= ACTIVE:
            continue
        if one.sampled < SAMPLED * trace.duration[kernels].sum():
            continue
        time, talk = trace.duration[kernels], np.isin(kernels, work_of_kind(part, "collective"))
        if time[talk].sum() > COLLECTIVES * time.sum():
            continue
        unused = round((1 - one.sm_active) * int(time.sum()))
        gpu = gpus_text(part) if len(gaps_of(part).devices) < 2 else trace.device_called(one.device)
        every = f", by a sample every {duration(one.interval)}" if one.interval else ""
        yield Finding(
            "idle_sms",
            graded_kernels(part, unused),
            f"Kernels keep only {share(one.sm_active)} of the SMs of {gpu} at work",
            f"{gpu[0].upper()}{gpu[1:]} counts as busy while any kernel runs, however small: busy "
            f"{busy_text(share_busy)} {verdict.of()}. While kernels run, "
            f"{share(one.sm_active)} of the SMs have work on average{every}. The kernels are too small to "
            "fill it, or their last blocks run alone.",
            "Give each kernel more work: larger batches, torch.compile to fuse them. Or let independent "
            "kernels run at the same time, on several streams.",
            first_of(Slices(trace, kernels).longest_first()),
            {
                "sm_active": one.sm_active,
                "device_ns": float(unused),
                "busy_ns": round(share_busy * verdict.judged),
                "sampled_ns": float(one.sampled),
            },
            gpu if len(gaps_of(part).devices) > 1 else "",
        )


def falling_clock(part: Part) -> Iterator[Finding]:
    """The clock of the SMs, by the cycles of each kernel, is lower than it has been."""
    trace = part.trace
    for one, kernels in _with_kernels(part):
        if one.clock is None or one.clock_range is None:
            continue
        low, best = one.clock_range
        at, clock = kernel_clocks(trace, one.device)
        mine = np.isin(at, kernels)
        at, clock = at[mine], clock[mine]
        time = trace.duration[at]
        lost = round(float((time * (1 - np.minimum(clock / best, 1))).sum()))
        if low >= FALLS * best or lost < LOST * time.sum():
            continue
        slow = at[clock < FALLS * best]
        gpu = gpus_text(part) if len(gaps_of(part).devices) < 2 else trace.device_called(one.device)
        begin, end = _ends(clock, time)
        way = (
            f"falls from {begin:,.0f} to {end:,.0f} MHz" if end < FALLS * begin
            else f"varies between {low:,.0f} and {best:,.0f} MHz"
        )  # fmt: skip
        seen = [
            f"{what} is {_range(*value)} {unit}"
            for what, value, unit in (("power", one.power, "W"), ("the temperature", one.temperature, "C"))
            if value is not None
        ]
        recorded = f" Meanwhile {' and '.join(seen)}." if seen else ""
        yield Finding(
            "falling_clock",
            graded(part, lost),
            f"The SM clock of {gpu} {way} while kernels run",
            f"Each kernel's cycles by its duration give the clock: on average {one.clock:,.0f} MHz. "
            f"At {best:,.0f} MHz throughout, the same cycles would take {duration(lost)} less.{recorded} The "
            "file does not say why the clock is lower: power, heat, or a limit that was set.",
            f"{smi(part)} -q -d CLOCK,POWER,PERFORMANCE says why, while the program runs. Compare "
            "recordings only at the same clock.",
            first_of(Slices(trace, slow).longest_first()),
            {"device_ns": float(lost), "low_mhz": low, "high_mhz": best, "mean_mhz": one.clock},
            gpu if len(gaps_of(part).devices) > 1 else "",
        )


def _with_kernels(part: Part) -> Iterator[tuple[DeviceCounters, I64]]:
    """Each device with counters, and its kernels in the scope."""
    found = device_counters(part)
    if not found:
        return
    trace, work = part.trace, device_work_of(part).at
    device = np.array([lane.device for lane in trace.lanes], dtype=np.int64)[trace.lane[work]]
    for one in found:
        kernels = work[(device == one.device) & (trace.kind[work] == Kind.KERNEL)]
        if len(kernels):
            yield one, kernels


def _range(low: float, high: float) -> str:
    texts = [f"{value:,.0f}" for value in (low, high)]
    return texts[0] if texts[0] == texts[1] else " to ".join(texts)


def _ends(clock: F64, time: I64) -> tuple[float, float]:
    """The mean clock in the first and in the last quarter of the kernel time. Both by time."""
    until = np.cumsum(time) / time.sum()
    first, last = until <= max(0.25, until[0]), until > min(0.75, until[-2] if len(until) > 1 else 0)
    begin, end = (float((clock * time)[part].sum() / time[part].sum()) for part in (first, last))
    return begin, end
