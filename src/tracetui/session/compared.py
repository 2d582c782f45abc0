"""What two compared recordings have in common, event by event, for stepping through it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from tracetui.timeline.links import ALONE, NOT_COMPARED, THREADS, Links
from tracetui.trace.model import I64, Kind

if TYPE_CHECKING:
    from tracetui.compare.model import Comparison
    from tracetui.compare.sides import Side

SIGNS = "-+"
"""The signs for events that only A has (they are gone in B), and for those that only B has."""
BY_COUNT = (Kind.ANNOTATION, Kind.GPU_ANNOTATION, Kind.PYTHON)
"""Kinds that the comparison ignores: they are matched by name and number if both have equally many in a
step."""
Place = tuple[int, int]
"""Slices of A and B that belong together; -1 if one side has none."""


class Compared(Struct, frozen=True, eq=False):
    """A comparison, ready to step through."""

    comparison: Comparison
    links: tuple[Links, Links]
    first: Place
    """The starts of the first matched steps, ns of their traces."""
    ends: Place


def compared(comparison: Comparison) -> Compared:
    """Everything needed to step through a comparison. Slow: call it in a thread."""
    a, b = comparison.a, comparison.b
    counted = _by_count(comparison)
    partners = [np.full(len(side.trace), NOT_COMPARED, dtype=np.int32) for side in (a, b)]
    for x, y in ((one.all_a, one.all_b) for one in (comparison.work, comparison.calls)):
        partners[0][x], partners[1][y] = y, x
    partners[0][counted[0]], partners[1][counted[1]] = counted[1], counted[0]
    alone = [
        np.concatenate(
            [
                np.zeros(0, np.int64),
                *(
                    getattr(region, which)
                    for m in (comparison.work, comparison.calls)
                    for region in m.regions
                ),
            ]
        )
        for which in "ab"
    ]
    for partner, at in zip(partners, alone, strict=True):
        partner[at] = ALONE
    links = tuple(
        Links(1 - n, partners[n], SIGNS[n], _places(side, alone[n])) for n, side in enumerate((a, b))
    )
    ra, rb = comparison.rounds[0] if comparison.rounds else (0, 0)
    begin = int(a.windows[0][ra]), int(b.windows[0][rb])
    return Compared(comparison, (links[0], links[1]), begin, (_end(a, ra), _end(b, rb)))


def _end(side: Side, round_: int) -> int:
    """When a step ends, both on the CPU and in the device work that it launched. ns of the trace."""
    work = side.work[side.round_of(side.work) == round_]
    over = int((side.trace.start[work] + side.trace.duration[work]).max(initial=0))
    return max(over, int(side.windows[1][round_]))


def _places(side: Side, at: I64) -> dict[int, tuple[I64, I64]]:
    trace = side.trace
    device = np.array([lane.device for lane in trace.lanes], dtype=np.int64)[trace.lane[at]]
    found = {}
    for one in np.unique(device).tolist():
        mine = at[device == one]
        start = trace.start[mine]
        key = one if one >= 0 else THREADS
        found[key] = np.sort(start), np.sort(start + np.maximum(trace.duration[mine], 1))
    return found


def _by_count(comparison: Comparison) -> tuple[I64, I64]:
    """Annotations and Python functions that belong together (slices of A, of B): the first of a name in both
    steps, the second, and so on, if both steps have equally many of that name."""
    from tracetui.compare.match import Vocabulary

    a, b = comparison.a, comparison.b
    if not comparison.rounds:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    words = Vocabulary(a.trace, b.trace)
    of_a, of_b = zip(*comparison.rounds, strict=True)
    (at_a, name_a), (at_b, name_b) = _grouped(a, words.a, of_a), _grouped(b, words.b, of_b)
    _, group = np.unique(np.concatenate([name_a, name_b]), return_inverse=True)
    sides = group[: len(at_a)], group[len(at_a) :]
    counts = [np.bincount(one, minlength=int(group.max(initial=-1)) + 1) for one in sides]
    often = counts[0] == counts[1]
    # Both are sorted by group and start, so what is left has the same groups in the same order.
    return at_a[often[sides[0]]], at_b[often[sides[1]]]


def _grouped(side: Side, words: I64, rounds: Sequence[int]) -> tuple[I64, I64]:
    """The annotations and Python functions of the compared steps, with a number for each (step, kind, name);
    sorted by that number, then by time."""
    trace = side.trace
    at = np.flatnonzero(trace.is_kind(*BY_COUNT))
    place = np.full(side.rounds + 1, -1, dtype=np.int64)
    place[list(rounds)] = np.arange(len(rounds))
    step = place[side.round_of(at)]
    at, step = at[step >= 0], step[step >= 0]
    group = ((step * len(Kind) + trace.kind[at]) << 32) + words[trace.name[at]]
    order = np.lexsort((trace.start[at], group))
    return at[order], group[order]
