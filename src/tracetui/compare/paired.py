"""A and B of each round of one recording, side by side: the differences cancel what changes from one round to
the next, such as the machine's speed."""

from __future__ import annotations

from math import comb

import numpy as np
from msgspec import Struct

from tracetui.analysis.steps.interleaved import SIDES, SOURCE
from tracetui.analysis.steps.scope import step_table_of
from tracetui.compare.sides import Side
from tracetui.trace.model import I64

CONFIDENT = 0.95
"""How often the range of the median difference is to hold the true one, where there are rounds enough."""


class Paired(Struct, frozen=True):
    """How much longer B takes than A in the same round, ns."""

    rounds: int
    median: float
    quartiles: tuple[float, float]
    """Half of the rounds lie between them."""
    range: tuple[float, float]
    """The median of as many other rounds would be in here, by the order of these."""
    b_shorter: int
    """In how many rounds B takes less time."""

    @property
    def clear(self) -> bool:
        """Whether the differences show which of the two is shorter."""
        return self.rounds > 1 and (self.range[0] > 0 or self.range[1] < 0)


def places_in_turn(side: Side) -> tuple[I64, I64]:
    """The positions of A's steps and of B's in the trace's step table, by round. Empty without rounds."""
    table, none = step_table_of(side.part), np.zeros(0, np.int64)
    if table.source != SOURCE:
        return none, none
    # A step whose work is not in the file may be gone, and with it the other one of its round is of no use.
    is_b = np.array([side.trace.name_of(int(i)) == SIDES[1] for i in table.event])
    a = np.flatnonzero(~is_b[:-1] & is_b[1:])
    return a, a + 1


def paired(a: Side, b: Side) -> Paired | None:
    """The differences of the rounds that both sides have; None if they are not in turn."""
    if a.part is not b.part or not len(a.steps):
        return None
    every = set(places_in_turn(a)[0].tolist())
    times = [dict(zip(side.steps.tolist(), side.times.tolist(), strict=True)) for side in (a, b)]
    if not every.issuperset(times[0]):
        return None
    more = np.array([times[1][at + 1] - ns for at, ns in times[0].items() if at + 1 in times[1]], np.float64)
    count = len(more)
    if count < 2:
        return None
    more.sort()
    out = _left_out(count)
    quarter = np.percentile(more, [25, 75])
    return Paired(
        count,
        float(np.median(more)),
        (float(quarter[0]), float(quarter[1])),
        (float(more[out]), float(more[-1 - out])),
        int((more < 0).sum()),
    )


def _left_out(count: int) -> int:
    """How many of the smallest and of the largest differences can be left out of the range of the median."""
    below, out = 0, 0
    for k in range(count // 2):
        below += comb(count, k)
        if 1 - 2 * below / 2**count < CONFIDENT:
            break
        out = k
    return out
