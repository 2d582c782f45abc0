"""What the sentences of a comparison are made from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from tracetui.analysis.select import distinct
from tracetui.compare.calls import CallTree
from tracetui.compare.changes import Change
from tracetui.compare.match import Matches
from tracetui.compare.model import Explanation, Machine, Metric
from tracetui.compare.places import telling
from tracetui.compare.sides import Side, paced_by_device
from tracetui.trace.model import I64, Bool

OF_CPU = ("sync", "allocation", "dispatch", "host", "launch")
"""Causes of idle time in which the device waits for the CPU."""


@dataclass(frozen=True, slots=True, eq=False)
class Facts:
    """What the sentences are made from."""

    a: Side
    b: Side
    """The rounds of either side that were paired, one to one."""
    whole: tuple[Side, Side]
    work: Matches
    calls: Matches
    trees: tuple[CallTree, CallTree]
    changes: list[Change]
    grown: Bool
    """Which pairs of `work` have other sizes."""
    timed: Bool
    """Which have not, and are no collectives."""
    bigger: Bool
    """The same of `calls`."""
    other: Bool
    """Which of `calls` launch other work than before, make other calls, or are a first use."""
    first: tuple[float, float]
    """How long each side's device stood idle for first uses, ns a step."""
    machine: Machine
    path: tuple[float, float]
    """What the calls that are the same add to a step of each side, ns."""
    metrics: Mapping[str, Metric]
    idle: Mapping[str, Metric]

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.a, self.b

    @property
    def count(self) -> int:
        """Pairs of rounds: sums over all of them are divided by it."""
        return self.a.rounds

    @property
    def within(self) -> bool:
        """Whether steps of one recording are compared."""
        return self.a.trace is self.b.trace

    @property
    def by_device(self) -> bool:
        """Whether the device sets the pace on both sides."""
        return all(map(paced_by_device, self.whole))

    @property
    def held(self) -> tuple[float, float]:
        """How long the device of either side waited for the CPU, ns a step, as far as the two differ."""
        known = [self.idle[cause] for cause in OF_CPU if cause in self.idle]
        return _both(one for one in known if not one.within_noise)

    @property
    def waited(self) -> tuple[float, float]:
        """How long the device of either side waited for the CPU, ns a step."""
        return _both(self.idle[cause] for cause in OF_CPU if cause in self.idle)

    @property
    def recorded(self) -> str:
        """What else makes calls slower: that more was recorded of one side."""
        one, other = (options(side) for side in self.sides)
        return "" if one == other else " or what was recorded"

    @property
    def each(self) -> str:
        return " a step" if len(self.a.steps) else ""

    @property
    def step(self) -> float:
        """ns of a step of a."""
        return self.metrics["step_ns"].a or 1.0

    def related(self, device: bool) -> bool:
        """Whether so much of the calls, or of the device work, is the same that its speed says something."""
        same = self.machine.work if device else self.machine.calls
        sizes = sorted(len(side.work if device else side.calls) for side in self.sides)
        return same >= 0.5 * sizes[0] and same >= 0.2 * sizes[1]

    def mostly(self, device: bool) -> bool:
        """Whether most is the same: then the machine made it slower, and not what is new around it."""
        same = self.machine.work if device else self.machine.calls
        return same >= 0.6 * max(len(side.work if device else side.calls) for side in self.sides)

    def work_time(self, a: I64, b: I64) -> tuple[float, float]:
        """ns a step of these events."""
        one, other = (
            int(side.trace.duration[at].sum()) / self.count
            for side, at in zip(self.sides, (a, b), strict=True)
        )
        return one, other

    def call_time(self, a: I64, b: I64) -> tuple[float, float]:
        """The self time of these calls, ns a step."""
        one, other = (
            int(tree.self_time[tree.place[at]].sum()) / self.count
            for tree, at in zip(self.trees, (a, b), strict=True)
        )
        return one, other

    def about(self, a: I64, b: I64) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The names of events, each once."""
        one, other = (
            tuple(side.trace.names[i] for i in distinct(side.trace.name[at], len(side.trace.names)).tolist())
            for side, at in zip(self.sides, (a, b), strict=True)
        )
        return one, other

    def by_round(self, a: I64, b: I64) -> I64:
        """The places of calls: of each round the call that tells most."""
        found = [
            telling(side.trace, at, side.round_of(at), tree.self_time[tree.place[at]], self.count)
            for side, tree, at in zip(self.sides, self.trees, (a, b), strict=True)
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
    ) -> Explanation:
        return Explanation(
            kind, text, round(change), on, *self.about(a, b), round(cpu_change), np.sort(a), np.sort(b),
            places,
        )  # fmt: skip


def _both(metrics: Iterable[Metric]) -> tuple[float, float]:
    found = [(one.a or 0.0, one.b or 0.0) for one in metrics]
    return sum(a for a, _ in found), sum(b for _, b in found)


OPTIONS = (("record_shapes", "shapes"), ("with_stack", "Python stacks"), ("profile_memory", "memory"))
"""What may be recorded besides, and what a sentence calls it."""


def options(side: Side) -> tuple[bool, ...]:
    """Which of `OPTIONS` a recording has."""
    return tuple(bool(side.trace.info.properties.get(key)) for key, _ in OPTIONS)
