"""Overhead-bound, compute-bound or mixed: whether the device waits for the CPU, or the CPU for the device.

The verdict follows from two numbers, which are always shown with it:
- the device's **busy share** within the steps, or between its first and last event if there are no steps;
- the **launch delay**, the median time from a launch on the CPU to the start of its work on the device. A
  few microseconds (the latency of a launch) mean that nothing is queued and the device waits for the CPU.

A device that runs a collective counts as busy, even while the collective waits for another rank. So the
verdict has a third number: the share of the busy time in which collectives run and nothing else computes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tracetui.units import duration, percent

BUSY_SHARE = 0.8
"""From this busy share on, the device is the bottleneck: compute-bound, whatever the delays are."""
IDLE_SHARE = 0.5
"""Below this share the device stands idle more than it runs."""
QUEUED_NS = 50_000
"""Several times the latency of a launch. Below this median delay hardly anything is queued."""
COMMUNICATION_SHARE = 0.1
"""From this share of the busy time on, exposed communication gets a sentence."""
OF_SPAN = "of its span"
"""What a busy share is a share of: the time from a device's first to its last event, or the part of it that
lies in a step. The time before the first event is no idle time of the device."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A verdict and the numbers behind it."""

    verdict: str
    """One of "overhead-bound", "compute-bound", "mixed", "not known"."""
    busy_share: float | None
    """0 to 1; None without device events."""
    launch_delay: int | None
    """Median, in ns; None if no device event has a launch in the trace."""
    reason: str
    """A sentence or two for people. Plain text."""
    communication_share: float | None = None
    """Of the busy time, 0 to 1: communication kernels while no other kernel runs. None without device events.
    """
    base: str = OF_SPAN
    """What the busy share is a share of: `OF_SPAN`, "of its span within the steps". Shown after it."""


def busy_text(busy_share: float) -> str:
    """A busy share with one decimal, `34.6%`; never rounded up to "100.0%"."""
    return percent(busy_share, 1)


def communication_text(verdict: Verdict) -> str:
    """`communication alone 76.3% of its busy time`; "" below `COMMUNICATION_SHARE`."""
    part = verdict.communication_share or 0
    return f"communication alone {busy_text(part)} of its busy time" if part >= COMMUNICATION_SHARE else ""


def judge(
    busy_share: float | None, launch_delay: int | None, communication_share: float = 0.0, base: str = OF_SPAN
) -> Verdict:
    """The verdict on a trace or a part of it. `base`: what the busy share is a share of (`Verdict.base`)."""
    if busy_share is None:
        return Verdict("not known", None, None, "There are no device events here.", base=base)
    if not busy_share and launch_delay is None:
        return Verdict("not known", busy_share, None, "The device runs nothing here.", base=base)
    verdict = _judge(busy_share, launch_delay, base)
    reason = verdict.reason
    if communication_share >= COMMUNICATION_SHARE:
        reason += (
            f" {busy_text(communication_share)} of its busy time is communication while nothing computes, "
            "which includes waiting for other ranks."
        )
    return replace(verdict, reason=reason, communication_share=communication_share, base=base)


def _judge(busy_share: float, launch_delay: int | None, base: str) -> Verdict:
    busy = f"The device is busy {busy_text(busy_share)} {base}"
    if busy_share >= BUSY_SHARE:
        return Verdict("compute-bound", busy_share, launch_delay, f"{busy}: it sets the pace, not the CPU.")
    if launch_delay is None:
        reason = f"{busy}; the trace does not tell how far ahead the CPU runs."
        return Verdict("mixed", busy_share, None, reason)
    delay = f"{duration(launch_delay)} from launch to start"
    if launch_delay < QUEUED_NS and busy_share < IDLE_SHARE:
        reason = f"{busy}, and nothing is queued ({delay}): it waits for the CPU."
        return Verdict("overhead-bound", busy_share, launch_delay, reason)
    if launch_delay < QUEUED_NS:
        reason = f"{busy}, and little is queued ({delay}): the CPU only just keeps up."
    else:
        reason = f"{busy}, though work is queued ({delay}): look at the causes of its idle time."
    return Verdict("mixed", busy_share, launch_delay, reason)
