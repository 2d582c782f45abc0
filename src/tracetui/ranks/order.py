"""Which calls of two ranks are the same: both made them in the same order, but the recordings need not begin
or end with the same one."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from tracetui.ranks.calls import NO_NUMBER, Calls
from tracetui.trace.model import I64, Bool

ON_ONE_CLOCK = 50_000
"""Where the ends of collectives lie no further apart than this, in ns, the clocks are the same: those of
two GPUs of one host lie within 30 µs."""
ALIKE = 100_000
"""The ends of wrongly paired collectives differ by more than this, in ns, from pair to pair."""
TIMES = 4
"""Pairings whose ends are this many times as far apart as the best ones' may be right, too."""
_NOISE = 1_000
MOST_SHIFTS = 4000
FEW = 32
_SIZED = ("allreduce", "all_reduce", "reduce", "broadcast")
"""Collectives that have the same size on each rank."""


class Line(Struct, frozen=True):
    """The calls of one key on one rank, in their order. Arrays of one length."""

    op: I64
    """A number for what it is; the same on all ranks."""
    number: I64
    start: I64
    end: I64
    sends: bool = False
    """Whether these are sends, which need not wait for their receives."""
    receives: bool = False

    def __len__(self) -> int:
        return len(self.start)

    @property
    def numbered(self) -> bool:
        return len(self) > 0 and bool((self.number != NO_NUMBER).all())


def line_of(calls: Calls, key: int, ops: dict[tuple[str, int], int], rank: int) -> Line:
    """The calls of one of the keys. `ops` numbers what there is, over all ranks."""
    at = np.flatnonzero(calls.key == key)
    kinds = []
    for op, size in zip(calls.op[at].tolist(), calls.size[at].tolist(), strict=True):
        name = calls.ops[op]
        kinds.append(ops.setdefault((name, size if name in _SIZED else NO_NUMBER), len(ops)))
    of = calls.keys[key]
    pair = of.kind == "pair"
    # Sends and receives of a pair have numbers of their own.
    number = (
        np.full(len(at), NO_NUMBER)
        if pair or len(set(calls.number[at].tolist())) < len(at)
        else calls.number[at]
    )
    return Line(
        np.array([-1] * len(at) if pair else kinds, np.int64),
        number,
        calls.start[at],
        calls.end[at],
        pair and of.ranks[0] == rank,
        pair and of.ranks[-1] == rank,
    )


def places(a: Line, b: Line, aligned: bool = True) -> I64 | None:
    """For each call of `b` the place of the same one in `a`, which may lie outside of it; None where nothing
    tells. `aligned`: whether the times are on one clock."""
    if not len(a) or not len(b):
        return None
    if a.numbered and b.numbered:
        order = np.argsort(a.number, kind="stable")
        at = np.minimum(np.searchsorted(a.number[order], b.number), len(a) - 1)
        return np.where(a.number[order][at] == b.number, order[at], -1)
    shift = _shift(a, b, aligned)
    return None if shift is None else np.arange(len(b)) + shift


def _shift(a: Line, b: Line, aligned: bool) -> int | None:
    if not aligned:
        return _unaligned(a, b)
    best, found = None, None
    for shift in _candidates(a, b, aligned):
        mine, other = _both(a, b, shift)
        if mine.stop <= mine.start:
            continue
        never = int((a.op[other] != b.op[mine]).sum()) + int(_never(a, b, mine, other).sum())
        # A small send does not wait for its receive: the ends of a pair say little.
        few = mine.start - mine.stop if a.sends or a.receives else 0
        score = (never, few, float(np.median(np.abs(b.end[mine] - a.end[other]))), abs(shift))
        if best is None or score < best:
            best, found = score, shift
    return found


def _unaligned(a: Line, b: Line) -> int | None:
    """The shift whose ends lie equally far apart from one call to the next, so that neither an offset nor a
    drift of the clocks matters."""
    pair, step_a, step_b = a.sends or a.receives, np.diff(a.end), np.diff(b.end)
    one_op = len(a.op) and (a.op == a.op[0]).all() and (b.op == a.op[0]).all()
    ways: list[tuple[tuple[int, int], float, int, int]] = []
    for shift in _candidates(a, b, aligned=False):
        mine, other = _both(a, b, shift)
        many = mine.stop - mine.start
        if 2 * many < min(len(a), len(b)) or many < 1:
            continue
        never = 0 if one_op else int((a.op[other] != b.op[mine]).sum())
        # As many as can be, of a pair: its ends say little.
        first = never, -many if pair else 0
        if ways and first > min(ways)[0]:
            continue
        between = step_b[mine.start : mine.stop - 1] - step_a[other.start : other.stop - 1]
        ways.append((first, float(np.abs(between).mean()) if many > 1 else 0.0, many, shift))
    if not ways:
        return None
    first, least = min(way[:2] for way in ways)
    # Where steps are alike, others fit nearly as well: then the file's clock is right if it may be, and
    # else the recordings began together.
    alike = [way for way in ways if way[0] == first and way[1] <= TIMES * (least + _NOISE)]

    def away(shift: int) -> float:
        mine, other = _both(a, b, shift)
        return abs(float(np.median(b.end[mine] - a.end[other])))

    far = {shift: away(shift) for *_, shift in alike}
    nearest = min(far, key=far.__getitem__)
    if far[nearest] <= ON_ONE_CLOCK:
        return nearest
    return min(alike, key=lambda way: (-way[2], far[way[3]]))[3]


def _both(a: Line, b: Line, shift: int) -> tuple[slice, slice]:
    """(the calls of `b` that have a partner, their partners in `a`)."""
    low, high = max(0, -shift), min(len(b), len(a) - shift)
    return slice(low, high), slice(low + shift, high + shift)


def _candidates(a: Line, b: Line, aligned: bool) -> list[int]:
    every = range(1 - len(b), len(a))
    if len(every) <= MOST_SHIFTS and (not aligned or a.sends or a.receives or len(every) < FEW):
        return list(every)
    near = np.clip(np.searchsorted(a.end, b.end), 1, max(1, len(a) - 1))
    near -= (b.end - a.end[near - 1]) < (a.end[np.minimum(near, len(a) - 1)] - b.end)
    shifts, often = np.unique(near - np.arange(len(b)), return_counts=True)
    return [*shifts[np.argsort(-often, kind="stable")][:16].tolist(), 0, len(a) - len(b)]


def _never(a: Line, b: Line, mine: slice, other: slice) -> Bool:
    """Pairs that cannot be: nobody is done with a collective before all have begun it."""
    gone = np.zeros(mine.stop - mine.start, np.bool_)
    if not b.sends:
        gone |= b.end[mine] < a.start[other]
    if not a.sends:
        gone |= a.end[other] < b.start[mine]
    return gone


def can_be(a: Line, b: Line) -> bool:
    """Whether the times of two ranks that made a pair can be on one clock."""
    place = places(a, b)
    if place is None:
        return False
    mine, other = _both(a, b, int(place[0]))
    return mine.stop > mine.start and not _never(a, b, mine, other).any()


def ends_apart(a: Line, b: Line, place: I64) -> tuple[I64, I64]:
    """(when the calls of `b` ended, by how much later than the same ones of `a`), for those that end
    together."""
    at = np.flatnonzero((place >= 0) & (place < len(a)))
    other = place[at]
    if a.sends or a.receives:
        # A receive that waited ends with its send; one that came later says nothing.
        one, where = (a, other) if a.receives else (b, at)
        long = one.end - one.start
        waited = long[where] > 3 * min(long.min(), (a.end - a.start).min(), (b.end - b.start).min())
        at, other = at[waited], other[waited]
        later = (a.end[other] - b.end[at]) if a.receives else (b.end[at] - a.end[other])
        near = later <= later.min(initial=1 << 62) + ALIKE
        at, other = at[near], other[near]
    return b.end[at], b.end[at] - a.end[other]
