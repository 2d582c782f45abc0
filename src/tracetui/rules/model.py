"""A finding, and what a rule is."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from tracetui.analysis.device_work import work_time
from tracetui.analysis.idle.causes import AT
from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.idle.gaps import busy_union
from tracetui.analysis.idle.split import causes_of
from tracetui.analysis.idle.verdict import busy_text
from tracetui.analysis.part import Part
from tracetui.analysis.select import name_mask
from tracetui.analysis.steps.scope import slices_of
from tracetui.analysis.verdicts import verdict_of
from tracetui.core.columns import unique
from tracetui.rules.claims import Claim, Count, Named, Names, Remedy, Share, Time, say
from tracetui.trace import Kind, Trace
from tracetui.trace.intervals import EMPTY, Intervals
from tracetui.trace.model import I64
from tracetui.trace.slices import Slices

SEVERITIES = ("high", "medium", "low", "info")
"""High: most of the time goes here. Info: helps to read the trace; no time to be saved."""

OF_WORK = "of kernel and copy time"

SMALL_COPIES = "Most of these are copies from and to the host: copy many small tensors as one."

HIGH, MEDIUM = 0.3, 0.1
"""From these shares of the devices' time on, what a finding speaks of is of high and of medium severity."""

WAITED_SHARE, MUCH_IDLE = 0.1, 0.25
"""Of the devices' spans: from here on, launches that they wait for, and idle time, are of low and of medium
severity."""
OF_ALL = 0.025
"""Of the time: what a device that is nearly always idle computes, and how, does not matter."""

EVIDENCE = 20
"""A finding lists at most this many slices."""


MANY_DEVICES, MOST_LISTED = 3, 8
"""From so many devices on, what they share is told once; so many of them are named."""


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
        device: the device that it is about, as a sentence calls it; "" where it is about the trace.
        claims: what the sentences are made of, by name.
        affected: all slices that it is about, those of `evidence` first.
        remedy: what would be done about it; None where that is not known.
    """

    rule: str
    severity: str
    title: str
    text: str
    advice: str
    evidence: tuple[int, ...]
    numbers: Mapping[str, float]
    device: str
    claims: Mapping[str, Claim]
    affected: Slices = field(compare=False)
    remedy: Remedy | None = field(default=None, compare=False)


def build_finding(
    rule: str,
    severity: str,
    claims: Mapping[str, Claim],
    affected: Slices,
    numbers: str,
    *,
    first: Iterable[int] | I64 | None = None,
    device: str = "",
    remedy: Remedy | None = None,
) -> Finding:
    """A finding, with the sentences that its claims make.

    `affected`: the most relevant first; if these are others, `first` has them. `numbers`: the names of the
    claims that are its `numbers`.
    """
    evidence = first_of(affected if first is None else first)
    if first is not None:
        head = np.array(evidence, dtype=np.int64)
        affected = Slices(affected.trace, np.concatenate([head, affected.at[~np.isin(affected.at, head)]]))
    figures = {name: float(claims[name]) for name in numbers.split()}  # type: ignore[arg-type]
    return Finding(rule, severity, *say(rule, claims), evidence, figures, device, claims, affected, remedy)


Rule = Callable[[Part], Iterator[Finding]]
"""Takes a trace or a part of it; yields a finding for each thing found, or nothing."""


def on_xpu(part: Part) -> bool:
    """Whether the GPU is one of Intel's."""
    return any(category.startswith("xpu_") for category in part.trace.categories)


def smi(part: Part) -> str:
    """The command that shows the state of this kind of GPU."""
    if on_xpu(part):
        return "xpu-smi"
    return "rocm-smi" if name_mask(part.trace, lambda name: name.startswith("hip")).any() else "nvidia-smi"


CAN_BE_FUSED = re.compile(r"Optimizer\.step#(?:Adam|AdamW|SGD)\.step")
"""The optimizers that have `fused=True`."""


FUSED_SHARE = 0.1
"""An optimizer that takes less of the time, or of what is launched, is not what to fuse first."""


def can_be_fused(part: Part) -> Intervals:
    """When optimizers of PyTorch's run that are not fused, and have `fused=True` on a GPU; empty where one is
    fused, or they take little of the time."""
    if name_mask(part.trace, lambda name: name.startswith("aten::_fused_")).any():
        return EMPTY
    at = slices_of(part, Kind.ANNOTATION, CAN_BE_FUSED.fullmatch).at
    steps = busy_union(part.trace, at)
    return steps if steps.time_in(*part.span) >= FUSED_SHARE * part.length else EMPTY


@dataclass(frozen=True, slots=True)
class DeviceFinding:
    """What a rule has found about a device. There may be very many: only what is told is put into words."""

    severity: str
    device: str
    """As a sentence calls it."""
    part: float
    """The share that devices are compared by, 0 to 1."""
    evidence: Callable[[], int]
    """The first slice to jump to."""
    build: Callable[[], Finding]
    figure: str = ""
    """What stands behind its name where it is one of several; by default `part`."""


def merge_devices(
    found: Iterable[DeviceFinding], worst: Callable[[Iterable[float]], float]
) -> Iterator[Finding]:
    """The findings about devices: what many of them share is told once, of the worst of them: that of the
    least share, or of the largest (`min`, `max`)."""
    by_severity: dict[str, list[DeviceFinding]] = {}
    for one in found:
        by_severity.setdefault(one.severity, []).append(one)
    for alike in by_severity.values():
        if len(alike) < MANY_DEVICES:
            yield from (one.build() for one in alike)
            continue
        first, *others = sorted(alike, key=lambda one: one.part, reverse=worst is max)
        listed = [f"{one.device} ({one.figure or busy_text(one.part)})" for one in others[:MOST_LISTED]]
        listed += ["..."] if len(others) > MOST_LISTED else []
        told = first.build()
        yield build_finding(
            told.rule,
            told.severity,
            {**told.claims, "others": Count(len(others)), "alike": Names(tuple(map(Named, listed)))},
            told.affected,
            " ".join(told.numbers),
            first=chain(told.evidence, (one.evidence() for one in others)),
            device=told.device,
            remedy=told.remedy,
        )


def first_of(slices: Iterable[int] | I64) -> tuple[int, ...]:
    """The first few of the slices, each once, for `Finding.evidence`."""
    found: dict[int, None] = {}
    for i in slices:
        found[int(i)] = None
        if len(found) == EVIDENCE:
            break
    return tuple(found)


def first_to_end(trace: Trace, kinds: Sequence[I64], times: I64) -> I64:
    """The first of some slices, by their number, that ends at each of these times, each of which is the end
    of one. `kinds`: the slices, in several arrays. By time, each once."""
    times, found = unique(times), []
    for at in kinds:
        over = trace.end_of(at)
        found.append(at[times[np.minimum(np.searchsorted(times, over), len(times) - 1)] == over])
    last = np.sort(np.concatenate(found))
    return last[np.unique(trace.end_of(last), return_index=True)[1]]


def claims_of(part: Part, kernels: Slices) -> dict[str, Claim]:
    """What kernels take."""
    time = kernels.time
    return {
        "share": Share(time, work_time(part), OF_WORK),
        "device_ns": Time(time),
        "kernels": Count(len(kernels)),
    }


KERNELS = "share device_ns kernels"
"""The names of these claims."""


def device_span(part: Part) -> int:
    """The devices' spans together, ns."""
    return sum(gaps.span for gaps in gaps_of(part).devices)


def waited_share(part: Part) -> float:
    """The share of the devices' spans in which they wait for an op or a launch."""
    span = device_span(part)
    return int(causes_of(part).pieces[:, [AT["dispatch"], AT["launch"]]].sum()) / span if span else 0.0


def graded(part: Part, time: int) -> str:
    """The severity of what takes this time on the devices, by its share of their spans."""
    span = device_span(part)
    return "high" if time >= HIGH * span else "medium" if time >= MEDIUM * span else "low"


def graded_kernels(part: Part, time: int) -> str:
    """`graded`, of kernels that could be faster: of little use where the CPU sets the pace."""
    return "low" if verdict_of(part).verdict == "overhead-bound" else graded(part, time)
