"""The data from which the sentences of a comparison are made."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tracetui.analysis.calls.sums import sum_into
from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.select import names_of
from tracetui.analysis.steps.scope import step_table_of
from tracetui.compare.calls import CallTree
from tracetui.compare.changes import Change
from tracetui.compare.examples import telling
from tracetui.compare.match import Matches
from tracetui.compare.model import Explanation, Machine, Metric
from tracetui.compare.repeated_work import RepeatedWork
from tracetui.compare.sides import Side, paced_by_device
from tracetui.compare.timing import Slower
from tracetui.compare.unrecorded import gradients, unsized
from tracetui.trace.model import I64, Bool

OF_CPU = ("sync", "allocation", "dispatch", "host", "launch")
"""Causes of idle time in which the device waits for the CPU."""


class Times(NamedTuple):
    """How long some events take, ns."""

    before: float
    """On side a: the median of the rounds that have such events."""
    after: float
    change: float
    """Per round: the difference of the medians. If only some rounds have such events, it is spread over all
    of them."""
    rounds: tuple[int, ...]
    """The rounds that have such events."""


class Matched(NamedTuple):
    """What both sides do, and what only one of them does."""

    sides: tuple[Side, Side]
    """The paired rounds of each side, one to one."""
    work: Matches
    calls: Matches
    trees: tuple[CallTree, CallTree]
    changes: list[Change]
    repeated_work: RepeatedWork | None
    """What one side does several times for each time on the other; part of `changes`."""
    repeated: Bool
    """Which of `calls` are part of `again`."""
    loads: tuple[I64, I64]
    """Calls that only one side makes to load its data, if that makes a difference (slices)."""


class Pairs(NamedTuple):
    """Which pairs of `Matched.work`, with the moved ones, and of `Matched.calls` do the same."""

    resized: Bool
    """Which pairs of work have different sizes."""
    stretched: Bool
    """Which pairs take longer, or less time, for the same reason, in the same grid."""
    overlap_differs: Bool
    """Which pairs run beside work of another stream on one side only."""
    comparable: Bool
    """Which pairs show how fast the device was: none of those above, no collectives, and none in
    `outliers`."""
    bigger: Bool
    """The pairs of calls with different sizes."""
    other: Bool
    """Which pairs of calls launch other work than before, make other calls, or are a first use; also those in
    `outliers`."""
    outliers: tuple[list[Slower], list[Slower]]
    """Matched calls and matched work that took much longer, or much less time, than the rest."""


class Speed(NamedTuple):
    """How fast the machine was."""

    machine: Machine
    all_of_it: tuple[bool, bool]
    """Whether the machine's ratios, on the CPU and on the device, hold for most names, not just for a few."""
    path: float
    """How much more the calls that are the same add to a step of b than to one of a, ns; 0 if there are
    few."""
    device_drift: float
    """How many times as long the same work took on the device,"""
    cpu_drift: float
    """and in ops."""
    exact: bool
    """Whether the sides are copies of one recording, so that there is no noise."""


@dataclass(frozen=True, eq=False)
class ComparisonContext:
    """The data from which the sentences are made."""

    whole: tuple[Side, Side]
    matched: Matched
    pairs: Pairs
    speed: Speed
    metrics: Mapping[str, Metric]
    idle: Mapping[str, Metric]

    @property
    def sides(self) -> tuple[Side, Side]:
        """The paired rounds of each side, one to one."""
        return self.matched.sides

    @property
    def a(self) -> Side:
        return self.sides[0]

    @property
    def b(self) -> Side:
        return self.sides[1]

    @property
    def count(self) -> int:
        """Number of paired rounds: sums over all of them are divided by it."""
        return self.a.rounds

    @property
    def same_recording(self) -> bool:
        """Whether steps of one recording are compared."""
        return self.a.trace is self.b.trace

    @property
    def by_device(self) -> bool:
        """Whether the device sets the pace on both sides."""
        return all(map(paced_by_device, self.whole))

    @property
    def gpus(self) -> int:
        """Over how many devices times are added up: those of the side that has more."""
        return max(len(gaps_of(side.part.whole).devices) for side in self.sides)

    @property
    def held(self) -> tuple[float, float]:
        """How long each side's device waited for the CPU, ns a step; only causes that differ by more than
        noise."""
        known = [self.idle[cause] for cause in OF_CPU if cause in self.idle]
        return _both(one for one in known if not one.within_noise)

    @property
    def waited(self) -> tuple[float, float]:
        """How long each side's device waited for the CPU, ns a step."""
        return _both(self.idle[cause] for cause in OF_CPU if cause in self.idle)

    @property
    def outside(self) -> list[float]:
        """How long the threads that make up a round were in no call, for each side: the medians, ns."""
        return [
            float(np.median(side.windows[1] - side.windows[0] - sum_into(tree.round, tree.own, side.rounds)))
            for side, tree in zip(self.sides, self.matched.trees, strict=True)
        ]

    @cached_property
    def gradients(self) -> str:
        """The only side that records what a backward pass would need: "A", "B", or ""."""
        return gradients(self.a, self.b, self.matched.calls)

    @property
    def recorded(self) -> str:
        """Another reason for slower calls: more was recorded on one side. "" if not."""
        one, other = (options(side) for side in self.sides)
        same = one == other and not (self.a.work_only or self.a.calls_only)
        return "" if same else " or what was recorded"

    def blame(self, what: str) -> str:
        """What made the same calls slower, and that it was not the `what`, unless the recordings cannot tell
        them apart."""
        machine = f"the machine{self.recorded}"
        if self.gradients:
            return f"{machine} or gradients, which are on only in {self.gradients}"
        if unsized(self.a, self.b):
            return f"{machine} or inputs of other sizes, which were not recorded"
        return f"{machine}, not the {what}"

    @property
    def shifted(self) -> bool:
        """Whether the two may divide the same loop into steps at different places."""
        one, other = (step_table_of(side.part).source for side in self.sides)
        return bool(len(self.a.steps)) and one != other

    def at_an_end(self, rounds: Collection[int]) -> bool:
        """Whether something in only these rounds may come from where the steps begin: it is in the first or
        the last round only."""
        return self.shifted and 0 < len(rounds) < self.count and {0, self.count - 1} >= {*rounds}

    @property
    def each(self) -> str:
        return " per step" if len(self.a.steps) else ""

    @property
    def step(self) -> float:
        """The length of a step of a, ns."""
        return self.metrics["step_ns"].a or 1.0

    def related(self, device: bool) -> bool:
        """Whether enough of the calls, or of the device work, is the same for its speed to mean something."""
        same = self.speed.machine.work if device else self.speed.machine.calls
        sizes = sorted(len(side.work if device else side.calls) for side in self.sides)
        return same >= 0.5 * sizes[0] and same >= 0.2 * sizes[1]

    def mostly(self, device: bool) -> bool:
        """Whether most of it is the same: then the machine made it slower, not the new things around it."""
        same = self.speed.machine.work if device else self.speed.machine.calls
        return same >= 0.6 * max(len(side.work if device else side.calls) for side in self.sides)

    def work_time(self, a: I64, b: I64) -> Times:
        """The time of these events on the device."""
        return self._times((a, b), self._lengths((a, b)))

    def call_time(self, a: I64, b: I64) -> Times:
        """The self time of these calls."""
        return self._times((a, b), [self.self_time(n, at) for n, at in enumerate((a, b))])

    def python_time(self, n: int, noted: I64) -> float:
        """The time in these annotations of side `n` outside the calls within them: the median, ns a step."""
        tree, side = self.matched.trees[n], self.sides[n]
        at, inner = tree.place[noted], np.flatnonzero(tree.parent >= 0)
        within = sum_into(tree.parent[inner], side.trace.duration[tree.at[inner]], len(tree.at))
        own = side.trace.duration[noted] - within[at]
        return float(np.median(sum_into(tree.round[at], own, side.rounds)))

    def self_time(self, n: int, at: I64) -> I64:
        """The self time of each of these calls of side `n`, ns."""
        return self.matched.trees[n].self_time[self.matched.trees[n].place[at]]

    @property
    def program_cpu(self) -> float:
        """How much CPU time the program's own changes add to a step, ns, without the effect of the machine's
        speed."""
        much, found = self.speed.machine.cpu_ratio or 1.0, 0.0
        for one in self.matched.changes:
            if one.kind != "order":
                events = (np.array(part.events, dtype=np.int64) for part in (one.a, one.b))
                time = self.call_time(*events) if one.kind == "calls" else self.cpu_time(one)
                found += time.change - (much - 1) * (time.before if one.b.events else 0.0)
        if not len(self.a.work):  # with device work, ops take as long for other sizes
            calls, bigger = self.matched.calls, self.pairs.bigger
            time = self.call_time(calls.a[bigger], calls.b[bigger])
            found += time.after - much * time.before
        return found

    def cpu_time(self, change: Change, waits: bool = False) -> Times:
        """The CPU time of the calls behind a change's work, including everything inside them. `waits`: only
        the calls that wait for the device."""
        calls = [part.waits if waits else part.calls for part in (change.a, change.b)]
        rounds = np.unique([pair[0] for pair in change.rounds])
        return self._times(calls, self._lengths(calls), rounds)

    def _lengths(self, events: Sequence[I64]) -> list[I64]:
        return [side.trace.duration[at] for side, at in zip(self.sides, events, strict=True)]

    def _times(self, events: Sequence[I64], time: Sequence[I64], rounds: I64 | None = None) -> Times:
        """`time`: the times of the events of a, and of b; `rounds`: those that have such events, if known."""
        of = [side.round_of(at) for side, at in zip(self.sides, events, strict=True)]
        rounds = np.unique(np.concatenate(of)) if rounds is None else rounds
        sums = [
            sum_into(np.searchsorted(rounds, at), ns, len(rounds)) for at, ns in zip(of, time, strict=True)
        ]
        before, after = (float(np.median(one)) if len(one) else 0.0 for one in sums)
        change = (after - before) * (len(rounds) / self.count)
        return Times(before, after, change, tuple(rounds.tolist()))

    def where(self, rounds: Sequence[int], gone: bool = False) -> str:
        """In which steps something happens, if not in all. `gone`: use A's step numbers."""
        if not self.each or len(rounds) == self.count:
            return ""
        if len(rounds) > 1:
            return f" in {len(rounds)} of {self.count} steps"
        return f" in {(self.a if gone else self.b).label(rounds[0])}"

    def each_of(self, rounds: Sequence[int]) -> str:
        """The words after a time that is the median of these rounds: ` per step`, ` each` or nothing."""
        if len(rounds) == self.count:
            return self.each
        return " each" if len(rounds) > 1 else ""

    def about(self, a: I64, b: I64) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The names of events, each once."""
        return tuple(names_of(self.a.trace, a)), tuple(names_of(self.b.trace, b))

    def by_round(self, a: I64, b: I64) -> I64:
        """The places of calls: for each round, the one that shows it best (see `telling`)."""
        return self._telling((a, b), [self.self_time(n, at) for n, at in enumerate((a, b))])

    def longest(self, a: I64, b: I64) -> I64:
        """The places of other events: for each round, the longest (see `telling`)."""
        return self._telling((a, b), self._lengths((a, b)))

    def _telling(self, events: Sequence[I64], time: Sequence[I64]) -> I64:
        found = [
            telling(side.trace, at, side.round_of(at), ns, self.count)
            for side, at, ns in zip(self.sides, events, time, strict=True)
        ]
        places = np.stack(found, axis=1)
        return places[(places >= 0).any(1)]

    def told(
        self,
        kind: str,
        text: str,
        change: float,
        on: str,
        a: I64,
        b: I64,
        places: I64,
        cpu_change: float = 0.0,
        matters: str = "",
    ) -> Explanation:
        return Explanation(
            kind, text, round(change), on, *self.about(a, b), round(cpu_change), np.sort(a), np.sort(b),
            places, matters,
        )  # fmt: skip


def _both(metrics: Iterable[Metric]) -> tuple[float, float]:
    found = [(one.a or 0.0, one.b or 0.0) for one in metrics]
    return sum(a for a, _ in found), sum(b for _, b in found)


OPTIONS = (("record_shapes", "shapes"), ("with_stack", "Python stacks"), ("profile_memory", "memory"))
"""What a recording may record in addition, and the word for it in a sentence."""


def options(side: Side) -> tuple[bool, ...]:
    """Which of `OPTIONS` a recording has."""
    return tuple(bool(side.trace.info.properties.get(key)) for key, _ in OPTIONS)
