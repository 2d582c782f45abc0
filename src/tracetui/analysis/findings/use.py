"""Rules on devices that stand idle for most of the time: for overhead, or for other reasons."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tracetui.analysis.causes import CAUSES, CauseTotal, cause_table
from tracetui.analysis.findings.kernels import SHORT_EVENTS
from tracetui.analysis.findings.model import Finding, first_of
from tracetui.analysis.gaps import DeviceGaps, clip
from tracetui.analysis.glossary import CAUSES as WORDS
from tracetui.analysis.launches import short_kernels
from tracetui.analysis.results import Results
from tracetui.analysis.verdict import OF_SPAN, busy_text
from tracetui.trace.model import I64
from tracetui.units import duration, plural, verb

LITTLE_USE = 0.5

_ADVICE = {
    "dispatch": "Give the device more work per launch: larger batches, torch.compile, CUDA graphs (mode="
    '"reduce-overhead"); in training also fused optimizers.',
    "host": "Look at what Python does between the ops: data loading, logging, .item(), printing.",
    "sync": "Take out what makes the CPU wait in between: .item(), .cpu(), nonzero, printing a tensor.",
    "allocation": "Let the caching allocator keep its memory: no empty_cache() in the loop, stable shapes.",
    "profiler": "That is the profiler's own work: record fewer steps, or without stacks and memory.",
    "launch": "Many launches one after another: fuse small kernels, or use CUDA graphs.",
    "dependency": "Look at what the device waits for: another stream, an event, a copy.",
    "unlinked": "The trace lacks the launches: record CPU activity as well.",
}


def overhead_bound(results: Results) -> Iterator[Finding]:
    """The device waits for the CPU: the verdict, with the largest causes of its idle time."""
    verdict = results.verdict()
    if verdict.verdict != "overhead-bound":
        return
    short = short_kernels(results.trace, results.launches())
    text = "A faster device or faster kernels would change little: the CPU sets the pace."
    if 0 < short.events < SHORT_EVENTS:  # more of them are a finding of their own
        whose = "its" if short.events == 1 else "their"
        events = f"{short.events:,} of {short.of:,} kernels, copies and memsets"
        text = f"{events} {verb(short.events, 'take')} less time than {whose} launch on the CPU. {text}"
    for idle in _little_used(results):
        device, totals = results.device_text(idle.gaps), idle.causes
        # Between tiny kernels the gaps outside of ops are long only because there is so little to launch.
        cause = "dispatch" if 2 * short.events > short.of and totals[0].cause == "host" else totals[0].cause
        numbers = {**idle.numbers, "short_launches": float(short.events)}
        if verdict.launch_delay is not None:
            numbers["launch_delay_ns"] = float(verdict.launch_delay)
        yield Finding(
            "overhead_bound",
            "high",
            f"Overhead-bound: {device} is busy {busy_text(idle.busy_share)} {idle.base}",
            f"{_idle_text(idle)} {text}",
            _ADVICE[cause],
            first_of(idle.ended_by),
            numbers,
        )


def little_use(results: Results) -> Iterator[Finding]:
    """A device that is idle for more than half of its time, though not for overhead."""
    if results.verdict().verdict == "overhead-bound":
        return
    for idle in _little_used(results):
        device = results.device_text(idle.gaps).capitalize()
        yield Finding(
            "little_use",
            "high",
            f"{device} is busy only {busy_text(idle.busy_share)} {idle.base}",
            _idle_text(idle),
            _ADVICE[idle.causes[0].cause],
            first_of(idle.ended_by),
            idle.numbers,
        )


@dataclass(frozen=True, slots=True)
class _Idle:
    """How much a device was used in the verdict's time: the steps, or all of it where there are none."""

    gaps: DeviceGaps
    """Those of the whole scope, including what lies outside the steps."""
    base: str
    """As `Verdict.base`."""
    busy: int
    idle: int
    causes: list[CauseTotal]
    """Of `idle`, largest first."""
    ended_by: I64
    """The slices that ended the longest gaps, longest first."""

    @property
    def busy_share(self) -> float:
        return self.busy / (self.busy + self.idle) if self.busy + self.idle > 0 else 0.0

    @property
    def numbers(self) -> dict[str, float]:
        whole = self.gaps.busy_share
        return {"busy_share": self.busy_share, "idle_ns": float(self.idle), "span_busy_share": whole}


def _little_used(results: Results) -> Iterator[_Idle]:
    """The devices that are busy for less than half of the time, with the causes of that."""
    in_steps = results.is_whole and results.steps().busy_share is not None
    for gaps, causes in zip(results.gaps().devices, results.device_causes(), strict=True):
        windows = [row.window for row in results.steps().rows] if in_steps else [(gaps.first, gaps.last)]
        parts = [clip(gaps, *window) for window in windows]
        # Indices into `gaps`. A gap cut by a step's border is in two parts and ends in the second.
        at = np.concatenate([_positions(gaps, part) for part in parts])
        length = np.concatenate([part.duration for part in parts])
        ends = np.concatenate([part.end for part in parts]) == gaps.end[at]
        count, time = np.zeros((2, len(CAUSES)), np.int64)
        np.add.at(count, causes.cause[at[ends]], 1)
        np.add.at(time, causes.cause[at], length)
        longest = np.argsort(-length, kind="stable")[:5]
        busy, wasted = sum(part.busy for part in parts), sum(part.idle for part in parts)
        table, ended_by = cause_table(count, time), gaps.after[at[longest]]
        idle = _Idle(gaps, results.verdict().base, busy, wasted, table, ended_by)
        if len(at) and idle.busy_share < LITTLE_USE:
            yield idle


def _positions(gaps: DeviceGaps, part: DeviceGaps) -> I64:
    """The indices in `gaps` of the gaps of a clipped part of it."""
    return part.whole - gaps.whole[0] if len(gaps) else part.whole


def _idle_text(idle: _Idle) -> str:
    causes = "; ".join(
        f"in {duration(total.duration)} ({plural(total.gaps, 'gap')}) {WORDS[total.cause]}"
        for total in idle.causes[:2]
    )
    part = idle.base.removeprefix(OF_SPAN)
    span = f"{part}, from its first to its last event," if part else " from its first to its last event"
    text = f"Of the {duration(idle.busy + idle.idle)}{span} the device is busy for {duration(idle.busy)}. "
    text += f"Of its idle time, {causes}."
    overall = busy_text(idle.gaps.busy_share)
    if overall != busy_text(idle.busy_share):  # the tables of gaps tell this one
        text += f" In the whole {duration(idle.gaps.span)} between these events it is busy {overall}."
    return text
