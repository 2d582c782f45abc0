"""A finding, and what a rule is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tracetui.analysis.results import Results
from tracetui.trace.model import I64

SEVERITIES = ("high", "medium", "low", "info")
"""High: most of the time goes here. Info: helps to read the trace; no time to be saved."""

WORK_TIME = "kernel and copy time"

EVIDENCE = 20
"""A finding lists at most this many slices."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that the user should know about a trace.

    Attributes:
        rule: the rule's stable name, for scripts.
        severity: one of `SEVERITIES`.
        title: one line, without a full stop.
        text: what it is and why, in a few sentences. Names in it are safe to show.
        advice: what to try, or how to read the trace.
        evidence: slices to jump to, the most relevant first; never empty.
        numbers: the figures behind the text; times in nanoseconds, shares from 0 to 1.
    """

    rule: str
    severity: str
    title: str
    text: str
    advice: str
    evidence: tuple[int, ...]
    numbers: Mapping[str, float] = field(default_factory=dict)


Rule = Callable[[Results], Iterator[Finding]]
"""Takes the results of a trace or of a part of it; yields a finding for each thing found, or nothing."""


def first_of(slices: Iterable[int] | I64) -> tuple[int, ...]:
    """The first few of the slices, for `Finding.evidence`."""
    return tuple(int(i) for i, _ in zip(slices, range(EVIDENCE), strict=False))
