"""Rules on what a device's counters say beyond the time that it was busy."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tracetui.analysis.device_work import device_work_of, work_of_kind
from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.idle.verdict import busy_text
from tracetui.analysis.part import Part
from tracetui.analysis.rates.counters import DeviceCounters, device_counters
from tracetui.analysis.verdicts import verdict_of
from tracetui.core.units import capital
from tracetui.rules.claims import Claims, Ratio, Share, Time, says
from tracetui.rules.model import Finding, build_finding, graded, graded_kernels, smi
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
        several = len(gaps_of(part).devices) > 1
        gpu = trace.device_called(one.device) if several else "the GPU"
        longest = Slices(trace, kernels).longest_first()
        yield build_finding(
            "idle_sms",
            graded_kernels(part, unused),
            {
                "sm_active": Share(one.sm_active, 1, "of the SMs"),
                "gpu": gpu,
                "busy": Share(round(share_busy * verdict.judged), verdict.judged, verdict.of()),
                "busy_ns": Time(round(share_busy * verdict.judged)),
                "device_ns": Time(unused),
                "sampled_ns": Time(one.sampled),
                **({"every": Time(one.interval)} if one.interval else {}),
            },
            longest,
            "sm_active device_ns busy_ns sampled_ns",
            device=gpu if several else "",
        )


@says("idle_sms")
def _idle_sms(c: Claims) -> tuple[str, str, str]:
    every = f", by a sample every {c.every}" if "every" in c else ""
    return (
        f"Kernels keep only {c.sm_active} of {c.gpu} at work",
        f"{capital(c.gpu)} counts as busy while any kernel runs, however small: busy "
        f"{busy_text(c.busy.value)} {c.busy.of}. While kernels run, "
        f"{c.sm_active} have work on average{every}. The kernels are too small to "
        "fill it, or their last blocks run alone.",
        "Give each kernel more work: larger batches, torch.compile to fuse them. Or let independent "
        "kernels run at the same time, on several streams.",
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
        several = len(gaps_of(part).devices) > 1
        gpu = trace.device_called(one.device) if several else "the GPU"
        begin, end = _ends(clock, time)
        meanwhile = {
            name: _range(*value)
            for name, value in (("power", one.power), ("temperature", one.temperature))
            if value is not None
        }
        yield build_finding(
            "falling_clock",
            graded(part, lost),
            {
                "gpu": gpu,
                "device_ns": Time(lost),
                "low_mhz": Ratio(low),
                "high_mhz": Ratio(best),
                "mean_mhz": Ratio(one.clock),
                "begin_mhz": Ratio(begin),
                "end_mhz": Ratio(end),
                "smi": smi(part),
                **meanwhile,
            },
            Slices(trace, at[clock < FALLS * best]).longest_first(),
            "device_ns low_mhz high_mhz mean_mhz",
            device=gpu if several else "",
        )


@says("falling_clock")
def _falling_clock(c: Claims) -> tuple[str, str, str]:
    mean, best, begin, end = (
        f"{c[name].value:,.0f}" for name in ("mean_mhz", "high_mhz", "begin_mhz", "end_mhz")
    )
    falls = c.end_mhz.value < FALLS * c.begin_mhz.value
    way = (
        f"falls from {begin} to {end} MHz"
        if falls
        else f"varies between {c.low_mhz.value:,.0f} and {best} MHz"
    )
    meanwhile = [f"power is {c.power} W"] if "power" in c else []
    meanwhile += [f"the temperature is {c.temperature} C"] if "temperature" in c else []
    recorded = f" Meanwhile {' and '.join(meanwhile)}." if meanwhile else ""
    return (
        f"The SM clock of {c.gpu} {way} while kernels run",
        f"Each kernel's cycles by its duration give the clock: on average {mean} MHz. "
        f"At {best} MHz throughout, the same cycles would take {c.device_ns} less.{recorded} The "
        "file does not say why the clock is lower: power, heat, or a limit that was set.",
        f"{c.smi} -q -d CLOCK,POWER,PERFORMANCE says why, while the program runs. Compare "
        "recordings only at the same clock.",
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
