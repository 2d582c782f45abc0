"""Brings times of several clocks to one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from msgspec import Struct

from tracetui.core.columns import I64, NO_TIME, TIME_LIMIT
from tracetui.formats.pftrace.schema import BOOTTIME, Key

_REALTIME = 1


Step = tuple[I64, I64]
"""Times of a clock, in order, and what to add from each of them on to get those of another."""


def convert(times: I64, steps: Sequence[Step]) -> I64:
    """Times of one clock on another."""
    for mine, added in steps:
        at = np.maximum(np.searchsorted(mine, times, side="right") - 1, 0)
        moved = np.clip(times + added[at], -TIME_LIMIT, TIME_LIMIT)
        times = np.where(times != NO_TIME, moved, times)
    return times


class Clocks(Struct):
    """The clocks of a file and their snapshots."""

    ids: list[int]
    """The number of each clock."""
    snapshots: list[tuple[int, int, int]]
    """See `Decoded`."""

    def path(self, clock: int, target: int) -> list[int] | None:
        """The clocks from one to another, each in a snapshot with the next; None if there is no way."""
        near: dict[int, set[int]] = {}
        together: dict[int, list[int]] = {}
        for number, one, _ in self.snapshots:
            together.setdefault(number, []).append(one)
        for some in together.values():
            hub = some[0]
            for one in some[1:]:
                near.setdefault(one, set()).add(hub)
                near.setdefault(hub, set()).add(one)
        before: dict[int, int] = {clock: clock}
        wave = [clock]
        while wave:
            reached = [(b, a) for a in wave for b in near.get(a, ()) if b not in before]
            before = dict(reached) | before
            wave = list(dict(reached))
        if target not in before:
            return None
        way = [target]
        while way[-1] != clock:
            way.append(before[way[-1]])
        return way[::-1]

    def steps(self, way: Sequence[int]) -> list[Step]:
        """How to get from the first clock of `way` to the last one."""
        pairs = [self._pairs(one, other) for one, other in pairwise(way)]
        return [(mine, theirs - mine) for mine, theirs in pairs]

    def _pairs(self, one: int, other: int) -> tuple[I64, I64]:
        """The times of two clocks in the snapshots that have both, in order of the first."""
        mine = {number: time for number, clock, time in self.snapshots if clock == one}
        theirs = {number: time for number, clock, time in self.snapshots if clock == other}
        both = sorted((mine[n], theirs[n]) for n in mine.keys() & theirs.keys())
        first, second = np.array(both, dtype=np.int64).reshape(-1, 2).T
        return first, second

    def main(self, used: Sequence[int]) -> int:
        """The clock to bring all to: the one that the format means without saying so, if there is a way to
        it, else the first that is used."""
        boot = next((i for i, number in enumerate(self.ids) if number == BOOTTIME), None)
        return boot if boot is not None and (boot in used or self.snapshots) else next(iter(used), 0)

    def real(self, main: int, time: int) -> int | None:
        """What to add to times about `time` of the main clock to get clock time; None if it is not known."""
        real = next((i for i, number in enumerate(self.ids) if number == _REALTIME), None)
        way = None if real is None else self.path(main, real)
        if way is None:
            return None
        return int(convert(np.array([time]), self.steps(way))[0]) - time


def clocks_of(keys: Sequence[Key], snapshots: list[tuple[int, int, int]]) -> Clocks:
    """The clocks that a file uses."""
    return Clocks([number for number, *_ in keys], snapshots)
