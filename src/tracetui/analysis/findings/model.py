"""A finding, and the facts that the rules share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from tracetui.analysis.causes import Causes, gap_causes
from tracetui.analysis.device_work import decoded_names, device_work, op_behind
from tracetui.analysis.exposed_time import exposed_communication
from tracetui.analysis.gaps import DeviceGaps, clip, find_gaps
from tracetui.analysis.kernel_names import KernelName
from tracetui.analysis.launches import Launches, find_launches
from tracetui.analysis.nesting import sum_into
from tracetui.analysis.scope import WHOLE, Scope, StepTable, members
from tracetui.analysis.steps import Steps, summarize_steps
from tracetui.analysis.verdict import OF_SPAN, Verdict, judge
from tracetui.trace import Kind, Trace
from tracetui.trace.model import I64, Bool

__all__ = ["EVIDENCE", "SEVERITIES", "WORK_TIME", "Facts", "Finding", "Rule", "first_of"]

SEVERITIES = ("high", "medium", "low", "info")
"""High: most of the time goes here. Info: worth knowing to read the trace, costs nothing that could be saved.
"""

WORK_TIME = "kernel and copy time"

EVIDENCE = 20
"""The most slices that a finding lists."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a person should know about a trace.

    Attributes:
        rule: the rule's stable name, for scripts.
        severity: one of `SEVERITIES`.
        title: one line, without a full stop.
        text: what it is and why, in a few sentences. Names in it are safe to show.
        advice: what to try, or how to read the trace.
        evidence: slices to jump to, the most telling first; never empty.
        numbers: the figures behind the text; times in nanoseconds, shares from 0 to 1.
    """

    rule: str
    severity: str
    title: str
    text: str
    advice: str
    evidence: tuple[int, ...]
    numbers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Facts:
    """What the rules ask of a trace, or of a part of it, worked out once and only when asked for."""

    trace: Trace
    scope: Scope = WHOLE
    summary_given: Steps | None = None

    @property
    def whole(self) -> bool:
        """Whether the rules speak of the whole trace."""
        return self.scope.kind == "whole"

    @cached_property
    def span(self) -> tuple[int, int]:
        """(start, end) of the scope, ns."""
        return self.trace.span if self.whole else (self.scope.start, self.scope.end)

    @cached_property
    def summary(self) -> Steps:
        return self.summary_given or summarize_steps(self.trace)

    @property
    def steps(self) -> StepTable:
        """All steps of the trace."""
        return self.summary.table

    @cached_property
    def gaps(self) -> list[DeviceGaps]:
        """The gaps of each device; for a step those in the stretch of time that is the step's."""
        gaps = find_gaps(self.trace)
        if self.whole:
            return gaps
        start, end = self.span
        if self.scope.kind == "step":
            start, end = self.summary.rows[self.scope.step].window
        return [clip(device, start, end) for device in gaps]

    @cached_property
    def causes(self) -> list[Causes]:
        """The causes of each device's gaps."""
        return [gap_causes(self.trace, gaps) for gaps in self.gaps]

    @cached_property
    def launches(self) -> Launches:
        return find_launches(self.trace, self.scope)

    @cached_property
    def busy_share(self) -> float | None:
        """Busy time of all devices over their spans; None without device events."""
        span = sum(gaps.span for gaps in self.gaps)
        return sum(gaps.busy for gaps in self.gaps) / span if span else None

    @cached_property
    def verdict(self) -> Verdict:
        if self.whole:
            return self.summary.whole.verdict
        if self.scope.kind == "step":
            return self.summary.rows[self.scope.step].verdict
        low, high = (np.array([time], dtype=np.int64) for time in self.span)
        talk = int(exposed_communication(self.trace).within(low, high)[0])
        busy = sum(gaps.busy for gaps in self.gaps)
        base = f"{OF_SPAN} in the {'view' if self.scope.kind == 'viewport' else 'range'}"
        return judge(self.busy_share, self.launches.median_delay, talk / busy if busy else 0.0, base)

    @cached_property
    def work(self) -> I64:
        """Kernels, copies and memsets by time (slices)."""
        work = device_work(self.trace)
        return work[members(self.trace, self.scope, work)]

    @cached_property
    def work_time(self) -> int:
        """Durations of all device work together, ns: `WORK_TIME` in sentences. What overlaps counts twice."""
        return int(self.trace.duration[self.work].sum())

    @cached_property
    def work_op(self) -> I64:
        """The op behind each of `work`, -1 for none."""
        return op_behind(self.trace, self.work)

    @cached_property
    def names(self) -> dict[int, KernelName]:
        """Decoded names of the device work, by index into ``trace.names``."""
        return decoded_names(self.trace, self.work)

    @cached_property
    def own_time(self) -> I64:
        """Duration less that of the children, per slice, ns."""
        trace = self.trace
        inner = np.flatnonzero(trace.parent >= 0)
        return trace.duration - sum_into(
            trace.parent[inner].astype(np.int64), trace.duration[inner], len(trace)
        )

    def decoded(self, i: int) -> KernelName:
        """The decoded name of a slice of `work`."""
        return self.names[int(self.trace.name[i])]

    def device(self, gaps: DeviceGaps) -> str:
        """What a sentence calls a device."""
        return f"device {gaps.device}" if len(self.gaps) > 1 else "the device"

    def named(self, wanted: Callable[[str], bool]) -> Bool:
        """Mask over ``trace.names``."""
        return np.fromiter(map(wanted, self.trace.names), np.bool_, len(self.trace.names))

    def slices(self, kind: Kind, wanted: Callable[[str], bool]) -> I64:
        """The scope's slices of a kind whose name is wanted, without implausible ones."""
        trace = self.trace
        at = np.flatnonzero((trace.kind == kind) & ~trace.implausible)
        at = at[self.named(wanted)[trace.name[at]]] if len(at) else at
        return at[members(trace, self.scope, at)]

    def work_of_kind(self, *kinds: str) -> I64:
        """The device work whose decoded name is of one of these kinds of work, by time (slices)."""
        mask = np.zeros(len(self.trace.names), dtype=np.bool_)
        mask[[i for i, name in self.names.items() if name.kind in kinds]] = True
        return self.work[mask[self.trace.name[self.work]]]


Rule = Callable[[Facts], Iterator[Finding]]
"""Yields no finding, or one per thing that it found."""


def first_of(slices: Iterable[int] | I64) -> tuple[int, ...]:
    """The first few of the slices, for `Finding.evidence`."""
    return tuple(int(i) for i, _ in zip(slices, range(EVIDENCE), strict=False))
