"""The result of a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tracetui.compare.match import Matches
from tracetui.compare.paired import Paired
from tracetui.compare.sides import Side
from tracetui.trace.model import I64

METRICS = (
    "step_ns", "device_ns", "busy_share", "compute_ns", "communication_ns", "copies_ns",
    "launches", "kernels", "copied_bytes", "cpu_op_ns",
    "peak_allocated_bytes", "peak_reserved_bytes",
)  # fmt: skip
"""The numbers that are compared first, per step. Bytes: as far as the traces say."""


def counted_of(a: Side, b: Side, rounds: Sequence[tuple[int, int]]) -> tuple[Side, Side]:
    """The rounds that the numbers are taken from. If one side has more rounds, only the matched ones, because
    the machine's part is known for those; all, if hardly any were matched, or if one step is compared with
    the median of several."""
    if not 1 < len(rounds) == min(a.rounds, b.rounds):
        return a, b
    return a.only([i for i, _ in rounds]), b.only([j for _, j in rounds])


@dataclass(frozen=True, slots=True)
class Metric:
    """One number of each side: the median of its steps. ns, a count, bytes, or a share of 1."""

    a: float | None
    """None if it is not known: a busy share without device events."""
    b: float | None
    within_noise: bool
    """Whether the two differ by no more than the steps within one side, leaving out the machine's effect."""
    spread_a: tuple[float, float] | None = None
    """The smallest and the largest value of any step."""
    spread_b: tuple[float, float] | None = None
    machine: float = 0.0
    """How much of the change comes from how fast the machine did what is the same in both."""

    @property
    def change(self) -> float | None:
        """b - a."""
        return None if self.a is None or self.b is None else self.b - self.a

    @property
    def ratio(self) -> float | None:
        """b / a; None where a is 0."""
        return self.b / self.a if self.a and self.b is not None else None


@dataclass(frozen=True, slots=True)
class Machine:
    """How fast the machine did what is the same in both: b over a, None if nothing is the same."""

    cpu_ratio: float | None
    """The ratio of the self times of the ops on the CPU."""
    device_ratio: float | None
    """The ratio of the times of kernels, copies and sets, without collectives, which wait for other ranks."""
    calls: int
    """The number of ops and runtime calls that are the same."""
    work: int
    """The number of kernels, copies and sets that are the same."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """One thing that makes a difference."""

    kind: str
    """"machine", "initialisation", "host", "loading", "communication", "queued", "fused", "split",
    "replaced", "again", "dtype", "new", "gone", "calls", "guards", "graph", "sizes", "slower", "faster",
    "once", "order", "steps"."""
    text: str
    """A sentence with numbers. Safe to show."""
    change_ns: int
    """Per step, on `on`: the difference of the medians or, if only some steps have it, the mean over all
    steps. For the machine: how much it adds to the step."""
    on: str
    """"device" or "cpu": whose time `change_ns` is."""
    names_a: tuple[str, ...] = ()
    """The names of the events it is about, each once. Safe to show."""
    names_b: tuple[str, ...] = ()
    cpu_change_ns: int = 0
    """If `on` is the device, the change of its time on the CPU: see `charges.charge`."""
    events_a: I64 = field(default_factory=lambda: np.zeros(0, np.int64), compare=False)
    """Slices of trace a, by time."""
    events_b: I64 = field(default_factory=lambda: np.zeros(0, np.int64), compare=False)
    places: I64 = field(default_factory=lambda: np.zeros((0, 2), np.int64), compare=False)
    """(places, 2): where it happens. For each place, the slice of a and the slice of b that show it best; -1
    if a side has nothing there."""
    matters: str = ""
    """Which of its two changes is reported first, if not the larger: "cpu" if most of that is waiting for the
    device, "device" if the CPU's is due to the machine."""

    def first(self, paced: bool) -> tuple[int, str]:
        """The change that is reported first, (ns per step, "device" or "cpu"): that on the device if it sets
        the pace, else the larger."""
        matters = self.matters or ("device" if paced else "")
        larger = "device" if abs(self.change_ns) >= abs(self.cpu_change_ns) else "cpu"
        on = self.on if self.on == "cpu" else matters or larger
        return self.change_ns if on == self.on else self.cpu_change_ns, on


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """What side b does differently from side a."""

    a: Side
    b: Side
    rounds: tuple[tuple[int, int], ...]
    """The steps that were matched event by event."""
    work: Matches
    calls: Matches
    metrics: Mapping[str, Metric]
    """By `METRICS`."""
    idle: Mapping[str, Metric]
    """Idle time of the devices by cause, ns per step, the largest first."""
    machine: Machine
    explanations: tuple[Explanation, ...]
    """The most important first: if the device sets the pace, its changes; then the largest."""
    answer: str
    """The difference in a sentence or two. Safe to show."""
    same_program: bool
    """Whether both run the same calls and the same device work, in the same order, with the same sizes."""
    notes: tuple[str, ...]
    """What else differs between the recordings, and what was not compared. Safe to show."""
    mismatch: str = ""
    """The note that asks whether this is one program; "" if none does."""
    paired: Paired | None = None
    """The differences of the rounds, if A and B are steps of one recording in turn."""

    @property
    def counted(self) -> tuple[Side, Side]:
        """The steps of each side that the numbers are taken from."""
        return counted_of(self.a, self.b, self.rounds)

    @property
    def per_step(self) -> bool:
        """Whether times and counts are per step; otherwise they are for the whole recordings."""
        return bool(len(self.a.steps) and len(self.b.steps))
