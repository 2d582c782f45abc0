"""Finds an example of something in a trace, to jump to: usually the longest one.

A finder takes a trace and gives an `Example`, or None if the trace has none.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tracetui.analysis.calls.calls import self_time_of
from tracetui.analysis.calls.launches import launches_of
from tracetui.analysis.device_work import work_where
from tracetui.analysis.idle.causes import AT
from tracetui.analysis.idle.exposed_time import exposed_communication
from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.idle.split import causes_of
from tracetui.analysis.names.communication import is_communication
from tracetui.analysis.select import name_mask, plausible
from tracetui.analysis.steps.steps import steps_of
from tracetui.rules import find_findings
from tracetui.trace import Kind, Trace
from tracetui.trace.model import I64

if TYPE_CHECKING:
    from tracetui.analysis.names.model import KernelName
    from tracetui.analysis.part import Part


@dataclass(frozen=True, slots=True)
class Example:
    """Where to jump. `slice`: the event to select. `gap`: for a stretch of idle time, its position in
    `gaps_of` of the whole trace; `slice` is then the event that ends it."""

    slice: int
    gap: int | None = None


Find = Callable[["Part"], "Example | None"]


def longest(*kinds: Kind, name: str = "") -> Find:
    """The longest plausible slice of these kinds with a name that the regular expression finds."""
    return lambda part: _longest(part.trace, _of(part.trace, kinds, name))


def first(*kinds: Kind, name: str = "") -> Find:
    """The first such slice."""

    def find(part: Part) -> Example | None:
        at = _of(part.trace, kinds, name)
        return Example(int(at[np.argmin(part.trace.start[at])])) if len(at) else None

    return find


def launch(*kinds: Kind) -> Find:
    """The call that launched the longest such slice."""

    def find(part: Part) -> Example | None:
        trace = part.trace
        at = _of(trace, kinds, "")
        found = _longest(trace, at[trace.launch[at] >= 0])
        return found and Example(int(trace.launch[found.slice]))

    return find


def decoded(wanted: Callable[[KernelName], object]) -> Find:
    """The longest piece of device work with a decoded name that is wanted."""

    def find(part: Part) -> Example | None:
        part = part.whole
        at = work_where(part, wanted).at
        return _longest(part.trace, at[~part.trace.implausible[at]])

    return find


def gap(cause: str = "") -> Find:
    """The longest stretch of idle time or, for a cause, the one with the most time of that cause."""

    def find(part: Part) -> Example | None:
        gaps = gaps_of(part.whole)
        time = causes_of(part.whole).pieces[:, AT[cause]] if cause else gaps.duration
        most = int(np.argmax(time)) if len(time) else -1
        return Example(int(gaps.after[most]), most) if most >= 0 and time[most] > 0 else None

    return find


def judged(verdict: str) -> Find:
    """The first step with this verdict."""

    def find(part: Part) -> Example | None:
        rows = (row for row in steps_of(part.whole).rows if row.verdict.verdict == verdict)
        return next((Example(row.event) for row in rows if row.event >= 0), None)

    return find


def finding(*rules: str) -> Find:
    """The evidence of the first finding of these rules."""

    def find(part: Part) -> Example | None:
        found = (f for f in find_findings(part.whole) if f.rule in rules and len(f.evidence))
        return next((Example(int(f.evidence[0])) for f in found), None)

    return find


def most_delayed(part: Part) -> Example | None:
    """The device event with the longest time from its launch to its start."""
    launches = launches_of(part.whole)
    at = np.flatnonzero(launches.first)
    return Example(int(launches.event[at[np.argmax(launches.delay[at])]])) if len(at) else None


def exposed(part: Part) -> Example | None:
    """The collective that runs longest while no other kernel does."""
    trace, at = part.trace, _collectives(part.trace)
    alone = exposed_communication(trace).overlap(trace.start[at], trace.start[at] + trace.duration[at])
    return Example(int(at[np.argmax(alone)])) if len(at) and alone.any() else None


def collective(part: Part) -> Example | None:
    """The longest collective."""
    return _longest(part.trace, _collectives(part.trace))


def parent(part: Part) -> Example | None:
    """The op whose children take the most time."""
    trace = part.trace
    at = plausible(trace, Kind.CPU_OP)
    inner = trace.duration[at] - self_time_of(part.whole)[at]
    return Example(int(at[np.argmax(inner)])) if len(at) and inner.max() > 0 else None


def _of(trace: Trace, kinds: tuple[Kind, ...], name: str) -> I64:
    at = plausible(trace, *kinds)
    if not name:
        return at
    pattern = re.compile(name)
    return at[name_mask(trace, lambda text: pattern.search(text[:300]) is not None)[trace.name[at]]]


def _collectives(trace: Trace) -> I64:
    at = plausible(trace, Kind.KERNEL)
    return at[name_mask(trace, is_communication)[trace.name[at]]]


def _longest(trace: Trace, at: I64) -> Example | None:
    return Example(int(at[np.argmax(trace.duration[at])])) if len(at) else None
