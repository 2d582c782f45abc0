"""What to fix first, and what each fix is worth: the causes of a step's time, in the user's names.

A row's number is what the step of a replay is shorter by, but no more than the device stood idle for that: an
op that takes no time is an upper bound, and what the device did meanwhile has still to be done. Where the
replay is not to be relied on, it is the time alone, and is called so.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct

from tracetui.analysis.attention import outside_attention
from tracetui.analysis.calls.calls import outermost_ops_of
from tracetui.analysis.calls.launches import launches_of, launching_lanes_of, replays, short_kernels_of
from tracetui.analysis.device_work import decoded_name, work_of_kind
from tracetui.analysis.idle.causes import AT, CAUSES
from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.idle.gaps import busy_union
from tracetui.analysis.idle.idle_device import IdleDevice, idle_devices
from tracetui.analysis.idle.split import split_of
from tracetui.analysis.idle.verdict import OF_STEPS
from tracetui.analysis.names.kernel_names import short_name
from tracetui.analysis.part import Part, fact
from tracetui.analysis.rates.efficiency import efficiency_of
from tracetui.analysis.select import has_kind, plausible
from tracetui.analysis.steps.steps import steps_of
from tracetui.analysis.verdicts import verdict_of, verdict_window
from tracetui.core.units import duration, plural, share
from tracetui.replay.graph import graph_of
from tracetui.replay.scenario import MOVE, OVERLAP, SPEED_UP, Change, Scenario, movable, waits
from tracetui.replay.worths import WITHIN_NOISE, outside_of, worth
from tracetui.rules import Finding, find_findings
from tracetui.rules.advice import ADVICE, LAUNCHING, advice_on, advise, more_per_launch
from tracetui.rules.claims import Claims, Time
from tracetui.trace.intervals import Intervals
from tracetui.trace.model import I64, Kind
from tracetui.trace.slices import Slices
from tracetui.views.document import FIXES, Block, Entry
from tracetui.views.parts import evidence
from tracetui.views.target import Target
from tracetui.views.whatif import remedy_worth
from tracetui.words.cause_words import NO_OPS

MOST = 5
"""Rows at most."""
LEAST = 0.1
"""Of a step: what takes less is not what to fix first."""
GAIN = 0.05
"""Of a step: the same of what the replay says of a finding's remedy."""
MOSTLY = 0.5
"""An annotation or function that spends this share outside of ops, or more, is told by its name."""
WHOLE = 0.9
"""What takes this share of all steps, or more, is the step itself."""
ALL = 0.8
"""If one inside it has this share of that, the inner one is told."""
NAMES = 40
"""So many names of annotations, and of functions, are looked at: those with the most time."""
NEAR_PEAK = 0.6
WORTH, TIME = "worth", "time"
_LIBRARY = ("<built-in", "torch/", "site-packages", "lib/python", "threading.py", "<frozen")
_OUTSIDE = (
    "ProfilerStep",
    "Optimizer.",
    "enumerate(DataLoader)",
    "## ",
    "Torch-Compiled",
    "PyTorch Profiler",
)
"""How names of annotations begin that are not the user's."""
NAMED = {
    "host": ("Python between ops", "CPU outside PyTorch"),
    "dispatch": ("PyTorch's ops", "the CPU's own time in ops"),
    "launch": ("launches", "the CPU launches GPU work"),
    "sync": ("waits for the GPU", "the CPU waits, then the GPU does"),
    "allocation": ("memory allocation", "the CPU allocates and frees GPU memory"),
    "queued": ("queued work", "work is queued and does not start"),
    "back to back": ("kernel to kernel", "the moments between kernels"),
    "unlinked": ("unlinked work", "the trace lacks what launched it"),
    "communication": ("communication", "collectives while nothing computes"),
    "copies": ("copies", "copies while no kernel runs"),
}
"""The names of the parts of a step where the user has none for them, and what they are."""
BESIDES = {
    "communication": "Let collectives run beside other work: larger buckets, async_op=True, overlap with the "
    "backward pass. Compare the ranks: one of them may be late.",
    "copies": "Copy from pinned memory with non_blocking=True, while kernels run. Better: keep it there.",
}
FUSE = (
    "Fuse them: torch.compile for chains of elementwise ops, fused norms and losses. Intermediate results "
    "then never go to memory."
)
PEAK = "There is little left to gain in the kernels themselves: give them less work, or a narrower type."
BELOW = "They are below the peak: check the shapes of the work (too small, unaligned, or too narrow?)."
UNRATED = "Record shapes (record_shapes=True): then it says how near to the GPU's peak they are."
_OF_CAUSE = {
    "blocking_calls": "sync", "explicit_waits": "sync", "blocking_launches": "sync",
    "allocations": "allocation", "communication": "communication", "exposed_copies": "copies",
    "data_loading": "host", "garbage": "host",
    "slow_calls": "dispatch", "compiling": "dispatch",
}  # fmt: skip
"""The rules that say more of a cause: its row has what they leave."""
_NOT_FIXES = (
    "short_calls",
    "hotspot",
    "memory_bound",
    "recording_cost",
    "profiler_overhead",
    "small_collectives",
)
"""Rules whose findings the rows of causes and kernels say already, or that are about recording."""
_ONCE = ("initialisation", "cold_start", "compiling")
"""Rules about what happens once, of which most of the recording may be."""
_MEMORY_KINDS = ("elementwise", "copy", "softmax", "norm", "reduction", "index")
_MATRIX = ("gemm", "conv", "attention")


_NAMES = {
    "initialisation": "first calls", "unfused_attention": "attention", "data_loading": "DataLoader",
    "garbage": "Python's garbage collector", "compiling": "torch.compile", "optimizer_loop": "optimizer",
    "pageable_memory": "pageable copies", "small_copies": "small copies", "small_grids": "small grids",
    "type_conversions": "type conversions", "contiguous_copies": "contiguous copies",
}  # fmt: skip
"""By rule, what a row is called, where that is not the name of a slice."""


class Fix(Struct, frozen=True, eq=False):
    """A row: something that a step's time goes to, and what could be done about it."""

    what: str
    """The user's name for it, or ours. Safe to show."""
    kind: str
    """`annotation`, `function`, `cause`, `finding` or `kernels`."""
    ns: float
    """What is shown, of the mean step: the worth, or the time."""
    worth_ns: float | None
    """What the replay says, of the mean step; None where it is not to be relied on."""
    time_ns: float
    """How long the device stands idle because of it, or works at it, of the mean step."""
    share: float
    """Of the step."""
    why: str
    advice: str
    part: str
    """The part of a step's time that it is, for its color."""
    target: Target
    name: str = ""
    """The rule of a finding, or the cause."""
    rank: float = -1.0
    """What it is sorted by: `ns`, or what of that can be gained."""

    @property
    def measure(self) -> str:
        """Whether `ns` is a worth or a time."""
        return TIME if self.worth_ns is None else WORTH


class _Held(NamedTuple):
    """What holds the device up under one name."""

    name: str
    kind: str
    slices: Slices
    union: Intervals
    idle: int
    """Of `host` and `dispatch`, ns, over all devices."""
    host: int


@fact
def fixes(part: Part) -> tuple[Fix, ...]:
    """What to fix first, largest first, each with what the replay says it is worth."""
    return _Fixes(part, True).found()


@fact
def fixes_by_time(part: Part) -> tuple[Fix, ...]:
    """The same without a replay: known sooner."""
    return _Fixes(part, False).found()


class _Fixes:
    """Looks at the parts of a step's time, one after the other."""

    def __init__(self, part: Part, replays: bool) -> None:
        self.part, self.verdict = part, verdict_of(part)
        self.replays = replays and part.is_whole
        steps = len(steps_of(part).rows) if part.is_whole and self.verdict.base == OF_STEPS else 1
        self.each = max(1, steps) * max(1, len(idle_devices(part)) or len(gaps_of(part).devices))
        """By so much the time of all steps and devices is divided."""
        self.length = self.verdict.judged / self.each
        self.told: list[Slices] = []
        """What findings that have a row are about."""

    def found(self) -> tuple[Fix, ...]:
        if self.verdict.cpu is not None or not self.verdict.judged:
            rows = list(self._findings())
        else:
            # A finding may say more of a cause: that has the rest of it.
            rows = list(self._findings())
            told = {_OF_CAUSE.get(row.name) for row in rows}
            rows += self._causes(rows, told)
            rows += self._kernels(rows)
        rows.sort(key=lambda row: -(row.rank if row.rank >= 0 else row.ns))
        return tuple(rows[:MOST])

    # Making rows

    def _row(
        self, what: str, kind: str, idle: float, scenario: Scenario | None, why: str, advice: str, part: str,
        target: Target, name: str = "",
    ) -> Fix:  # fmt: skip
        """`idle`: the time, over all steps and devices."""
        time = idle / self.each
        gain = None
        if scenario is not None and self.replays:
            gained, muted = worth(self.part, scenario)
            gain = gained if muted is None else None
        shown = time if gain is None else min(gain, time)
        shown = max(0.0, shown)
        return Fix(
            what, kind, shown, None if gain is None else shown, time,
            min(1.0, shown / self.length) if self.length else 0.0, why, advice, part, target, name,
        )  # fmt: skip

    def _much(self, time: float) -> bool:
        return time > 0 and time >= LEAST * self.verdict.judged

    # Idle time

    def _causes(self, rows: list[Fix], told: set[str | None]) -> Iterator[Fix]:
        verdict, part = self.verdict, self.part
        idle = dict(zip(CAUSES, verdict.causes, strict=False))
        left = {cause: float(time) for cause, time in idle.items()}
        for row in rows:
            if (cause := _OF_CAUSE.get(row.name)) in ("host", "dispatch"):
                left[cause] -= row.time_ns * self.each
        held = list(self._held()) if self._much(idle.get("host", 0) + idle.get("dispatch", 0)) else []
        held = [one for one in held if not self._is_told(one)]
        for one in held:
            yield self._of_user(one)
            left["host"] -= one.host
            left["dispatch"] -= one.idle - one.host
        apart = np.concatenate([np.zeros(0, np.int64), *(one.slices.at for one in held)])
        for cause, time in left.items():
            if (
                not self._much(time)
                or cause not in NAMED
                or (cause in told and cause not in ("host", "dispatch"))
            ):
                continue
            name, why = self._called(cause, len(held) > 0)
            yield self._row(
                name, "cause", time, self._without(cause, apart), why, self._try(cause, len(held) > 0), cause,
                evidence(part, cause), cause,
            )  # fmt: skip
        for what in ("communication", "copies"):
            time = verdict.share(what) * verdict.judged
            if self._much(time) and what not in told:
                name, why = NAMED[what]
                over = Scenario([Change(OVERLAP, movable(graph_of(part)))]) if self.replays else None
                yield self._row(
                    name, "cause", time, over, why, BESIDES[what], what, evidence(part, what), what
                )

    def _is_told(self, one: _Held) -> bool:
        """Whether it lies in what a finding with a row is about."""
        time = float((one.union.end - one.union.start).sum())
        unions = [busy_union(self.part.trace, some.at) for some in self.told]
        return any(
            float(union.overlap(one.union.start, one.union.end).sum()) >= ALL * time for union in unions
        )

    def _without(self, cause: str, apart: I64) -> Scenario | None:
        """A step without a cause; None where no replay can say that."""
        part = self.part
        if not self.replays:
            return None
        if cause == "dispatch":
            return Scenario([Change(MOVE, outermost_ops_of(part))])
        if cause == "host":
            return outside_of(part, apart)
        if cause == "launch":
            return Scenario([Change(MOVE, np.unique(launches_of(part).launch))])
        if cause == "sync":
            return Scenario([Change(MOVE, waits(graph_of(part)))])
        return None

    def _called(self, cause: str, rest: bool) -> tuple[str, str]:
        """(what a cause is called, why the device stands idle), with the name that most of it has."""
        name, why = NAMED[cause]
        idle = self._idle
        if cause == "host" and not has_kind(self.part.trace, Kind.CPU_OP):
            return "no recorded call", NO_OPS
        if cause == "host":
            within, time = idle.enclosing_slice if idle is not None else ("", 0)
            if within and not rest and 2 * time > int(self.verdict.causes[AT[cause]]):
                return within, f"CPU in {within}, outside PyTorch"
            return "other Python" if rest else name, why
        if cause == "dispatch" and idle is not None and 2 * idle.compiling > idle.dispatch:
            return "torch.compile", "the CPU compiles"
        if cause == "dispatch" and idle is not None and 2 * idle.on_cpu[1] > idle.dispatch:
            return idle.on_cpu[0], "it runs on the CPU"
        launches, short = launches_of(self.part), short_kernels_of(self.part)
        if cause not in LAUNCHING or not len(launches):
            return name, why
        if cause == "launch":
            steps = max(1, len(steps_of(self.part).rows) if self.part.is_whole else 1)
            usual = duration(float(np.median(launches.cost)))
            return name, f"{plural(round(len(launches) / steps), 'launch', 'launches')} of {usual} each"
        of = share(short.events / max(1, short.of))
        return name, f"{of} of launches outlast their work"

    @cached_property
    def _idle(self) -> IdleDevice | None:
        """The device that is idle for longest."""
        return max(idle_devices(self.part), key=lambda one: one.idle, default=None)

    def _try(self, cause: str, rest: bool) -> str:
        """What to try: what the findings say where it is the main cause of idle time."""
        idle = self._idle
        if cause == "host" and rest:
            return ADVICE["host"]
        launching = cause in LAUNCHING
        if idle is not None and (cause == idle.main or (launching and idle.main in LAUNCHING)):
            return advise(Claims(advice_on(self.part, idle)))
        if launching:
            if replays(self.part):
                return ADVICE["graphs already"]
            return advise(Claims(more_per_launch(self.part)))
        return ADVICE.get(cause, "")

    def _held(self) -> Iterator[_Held]:
        """What the user named, and where the CPU was in little else than Python while the device was idle."""
        found = [one for kind in (Kind.ANNOTATION, Kind.PYTHON) for one in self._candidates(kind)]
        chosen: list[_Held] = []
        for one in found:
            inner = (o for o in found if o is not one and _within(o, one) and o.idle >= ALL * one.idle)
            if any(
                not _is_library(o) and not (o.kind == "function" and one.kind == "annotation") for o in inner
            ):
                continue
            if _is_library(one) or any(_within(one, other) for other in chosen):
                continue
            chosen.append(one)
        chosen.sort(key=lambda one: -one.idle)
        apart: list[_Held] = []
        for one in chosen:
            if self._much(one.idle) and not any(
                _within(one, other) or _within(other, one) for other in apart
            ):
                apart.append(one)
        yield from apart

    def _candidates(self, kind: Kind) -> Iterator[_Held]:
        part, trace = self.part, self.part.trace
        at = Slices(trace, plausible(trace, kind))
        at = at[launching_lanes_of(part)[at.lane]]
        if kind == Kind.ANNOTATION:
            at = at[~at.are_named(lambda name: name.startswith(_OUTSIDE))]
        if not len(at):
            return
        time = np.bincount(at.name, at.duration, len(trace.names))
        split, devices = split_of(part), idle_devices(part)
        for name in np.argsort(-time, kind="stable")[:NAMES].tolist():
            if time[name] < LEAST * self.verdict.judged / max(1, len(devices)):
                return
            mine = at[at.name == name]
            union = busy_union(trace, mine.at)
            host = dispatch = 0
            for one in devices:
                begin, end = (np.clip(time, *one.counted_window) for time in (union.start, union.end))
                spent = split.idle_of(one.place, begin, end).sum(0)
                host += int(spent[AT["host"]])
                dispatch += int(spent[AT["dispatch"]])
            whole = float((union.end - union.start).sum()) * len(devices)
            if host < MOSTLY * whole or whole >= WHOLE * self.verdict.judged:
                continue
            category = "python_function" if kind == Kind.PYTHON else "user_annotation"
            short = short_name(trace.names[name], category)
            what = "function" if kind == Kind.PYTHON else "annotation"
            yield _Held(short, what, mine, union, host + dispatch, host)

    def _of_user(self, one: _Held) -> Fix:
        gaps = gaps_of(self.part.whole)
        inside = one.union.overlap(gaps.start, gaps.start + gaps.duration)
        target = Target(
            "gaps",
            gap=int(np.argmax(inside)) if len(inside) else None,
            said=f"the longest gap while the CPU was in {one.name}",
            example=True,
        )
        return self._row(
            one.name, one.kind, one.idle, Scenario([Change(MOVE, one.slices.at)]),
            f"CPU in {one.name}, outside PyTorch",
            f"Do what {one.name} does while the GPU works: in other processes (a DataLoader with "
            "num_workers=4, pin_memory=True), or in advance. Or do less in it.",
            "host", target, "host",
        )  # fmt: skip

    # Findings

    def _findings(self) -> Iterator[Fix]:
        every = [f for f in find_findings(self.part) if f.rule not in _NOT_FIXES]
        for finding in every:
            once = finding.rule in _ONCE and self.verdict.mostly_left_out
            if finding.remedy is None or (finding.severity == "info" and not once):
                continue
            time = _time_of(finding)
            row = self._of_finding(finding, time, once)
            if row is not None:
                yield row

    def _of_finding(self, finding: Finding, time: float, once: bool) -> Fix | None:
        remedy = finding.remedy
        assert remedy is not None
        gain: float | None = None
        # What nobody knows how much faster it can be is not replayed as if it took no time.
        sound = self.replays and not once and (remedy.what != SPEED_UP or remedy.factor is not None)
        if sound and len(remedy.slices):
            gained, muted = remedy_worth(self.part, remedy)
            gain = gained if muted is None else None
            if muted == WITHIN_NOISE and gained < time / self.each / 2:
                return None  # the step would hardly be shorter
        each = time / self.each
        shown = each if gain is None else gain
        if shown <= 0 or shown < (LEAST if gain is None else GAIN) * self.length:
            return None
        name = str(finding.claims.get("name") or _name_of(finding))
        longest = remedy.slices.longest_first()[:1].at.tolist() or list(finding.evidence[:1])
        part = _OF_CAUSE.get(finding.rule, "compute")
        self.told.append(remedy.slices)
        return Fix(
            _NAMES.get(finding.rule, name), "finding", shown, gain, each,
            min(1.0, shown / max(1, self.length)) if not once else min(1.0, time / max(1, self.part.length)),
            finding.title.removeprefix(f"{name}: "), finding.advice, "initialisation" if once else part,
            Target("findings", event=int(longest[0]), said=finding.title), finding.rule,
        )  # fmt: skip

    # Kernels

    def _kernels(self, rows: list[Fix]) -> Iterator[Fix]:
        """Where computing takes most of a step: what can be fused, and how near to the peak the rest is."""
        part, verdict = self.part, self.verdict
        if verdict.share("compute") < MOSTLY:
            return
        reached = {row.name: row for row in efficiency_of(part).kernels}
        memory = outside_attention(part, work_of_kind(part, *_MEMORY_KINDS))
        yield from self._group(memory, reached, "memory_share", True)
        yield from self._group(
            outside_attention(part, work_of_kind(part, *_MATRIX)), reached, "compute_share", False
        )

    def _group(self, at: Slices, reached: dict[str, Any], limit: str, fuse: bool) -> Iterator[Fix]:
        part = self.part
        for other in self.told:
            at = at.without(other)
        low, high = verdict_window(part)
        at = at[(at.start >= low) & (at.start < high)]
        if not len(at) or not self._much(at.time):
            return
        named = at.by_name()
        told = [decoded_name(part, one.slices.first) for one in named]
        triton = sum(one.time for one, name in zip(named, told, strict=True) if name.family == "triton")
        shares = [
            (one.time, getattr(reached[one.name], limit))
            for one in named
            if one.name in reached and (getattr(reached[one.name], limit) or 2) <= 1
        ]
        least, most = (float(f(value for _, value in shares)) if shares else 0.0 for f in (min, max))
        of = float(sum(time for time, _ in shares))
        mean = sum(time * value for time, value in shares) / of if of else 0.0
        rate = share(least) if share(least) == share(most) else f"{share(least)} to {share(most)}"
        what = ", ".join(dict.fromkeys(_brief(name.short) for name in told[:3]))
        time = at.time / self.each
        if fuse:
            fused = 2 * triton > at.time or len(named) < 2
            bound = f"{rate} of peak bandwidth" if shares else "limited by memory"
            # Short: beside the bar, 80 columns leave room for 41 cells.
            why = "" if fused else "can be fused; "
            why += bound + (", fused already" if 2 * triton > at.time else "")
            advice = UNFUSED if fused else FUSE
            rank = time * (1 - mean if fused else 1)
        else:
            near = mean >= NEAR_PEAK
            why = f"{rate} of peak" + (": little to win" if near else "") if shares else "matrix kernels"
            advice = (PEAK if near else BELOW) if shares else UNRATED
            rank = time * (1 - mean) if shares else time
        longest = named[0].longest
        yield Fix(
            what, "kernels", time, None, time, min(1.0, time / self.length), why, advice, "compute",
            Target("kernels", event=longest, said=f"the longest {told[0].short}"), "kernels", rank,
        )  # fmt: skip


UNFUSED = "Memory limits it: larger batches reuse what it reads, a narrower type reads less."


def _within(inner: _Held, outer: _Held) -> bool:
    """Whether one lies in the other for nearly all of its time."""
    time = float((inner.union.end - inner.union.start).sum())
    shared = float(outer.union.overlap(inner.union.start, inner.union.end).sum())
    return shared >= ALL * time and time <= float((outer.union.end - outer.union.start).sum())


def _is_library(one: _Held) -> bool:
    return one.kind == "function" and any(word in one.slices.first_name for word in _LIBRARY)


def _time_of(finding: Finding) -> float:
    """How long it takes, over all steps and devices, ns; 0 where the finding does not say so."""
    for name in (
        "idle_ns",
        "device_ns",
        "loading_ns",
        "waited_ns",
        "exposed_ns",
        "cost_ns",
        "initialisation_ns",
    ):
        if isinstance(claim := finding.claims.get(name), Time):
            return float(claim.ns)
    return 0.0


def _name_of(finding: Finding) -> str:
    """The name that most of it has."""
    assert finding.remedy is not None
    top = next(iter(finding.remedy.slices.by_name()), None)
    if top is None:
        return finding.rule.replace("_", " ")
    trace = finding.affected.trace
    return short_name(top.name, trace.categories[int(trace.category[top.longest])])


def _brief(short: str) -> str:
    """A kernel without its tile and types."""
    return short.partition(" · ")[0] if short.startswith("triton") else short.split(" ")[0]


def fixes_block(some: tuple[Fix, ...]) -> Block:
    """The rows as a block."""
    replays = {fix.measure for fix in some}
    if replays == {WORTH}:
        note = "worth, in this recording"
    elif WORTH in replays:
        note = "worth in this recording; ~ time only"
    else:
        note = "time of a step in this recording"
    mixed = len(replays) > 1

    def entry(fix: Fix) -> Entry:
        about = "~" if mixed and fix.measure == TIME else ""
        numbers = f"{about}{duration(fix.ns)}", share(fix.share)
        values = round(fix.ns), fix.share
        return Entry(
            fix.what, numbers, fix.share, fix.part, fix.why, fix.target, values=values, advice=fix.advice
        )

    entries = [entry(fix) for fix in some]
    return Block(FIXES, "What to fix first", note, tuple(entries), fields=("time_ns", "share"))


def fixes_json(some: tuple[Fix, ...]) -> list[dict[str, Any]]:
    """The rows for JSON."""
    return [
        {
            "name": fix.what,
            "kind": fix.kind,
            "of": fix.name,
            "worth_ns": None if fix.worth_ns is None else round(fix.worth_ns),
            "time_ns": round(fix.time_ns),
            "share": fix.share,
            "why": fix.why,
            "advice": fix.advice,
        }
        for fix in some
    ]
