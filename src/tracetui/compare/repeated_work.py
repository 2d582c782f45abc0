"""Finds calls that one side makes several times per step and the other only once, such as micro-batches or a
chunked loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tracetui.analysis.calls.sums import sum_into
from tracetui.compare.calls import CallTree
from tracetui.compare.changes import Change, Part
from tracetui.compare.match import Matches, Vocabulary
from tracetui.compare.sides import Side
from tracetui.trace.model import I64, Bool, Kind

FEW = 3
"""At least this many names must come the same number of times as often; one alone may be another piece of the
program."""
LEAST, MOST = 0.05, 0.6
"""They take at least `LEAST` of the CPU's time in calls. From `MOST` on, the whole step is repeated, whatever
the sizes."""
READ = 64
"""The most names whose sizes are read from the files."""

Two = tuple[I64, I64]


@dataclass(frozen=True, slots=True, eq=False)
class RepeatedWork:
    """The outermost calls that one side makes `times` times as often in each step, with everything inside
    them."""

    times: int
    more: int
    """The side that has more: 0 for a, 1 for b."""
    calls: Two
    """The outermost calls on each side (slices)."""
    inside: tuple[Bool, Bool]
    """Which calls are among those or inside them, by position in the trees."""
    work: Two
    """The device work that they launch (slices)."""
    waits: Two
    """The calls among them that wait for the device (slices)."""
    larger: int | None
    """The side on which most of the work has larger sizes, numbered like `more`; None if neither has."""

    def pairs(self, a: I64, b: I64) -> Bool:
        """Which pairs of device work belong to these calls. Same shape as `a`."""
        return np.isin(a, self.work[0]) | np.isin(b, self.work[1])


def find_repeated_work(
    sides: tuple[Side, Side], trees: tuple[CallTree, CallTree], words: Vocabulary
) -> RepeatedWork | None:
    """The calls that one side makes exactly 2, 3, ... times as often in every step. They must take a fair
    share of the time and mostly work on other sizes, or else make up nearly the whole step."""
    if not len(sides[0].steps):  # then b has none, either
        return None
    tops = [
        np.flatnonzero((tree.parent < 0) & (side.trace.kind[tree.at] == Kind.CPU_OP))
        for side, tree in zip(sides, trees, strict=True)
    ]
    names = [
        known[side.trace.name[tree.at[top]]]
        for side, tree, top, known in zip(sides, trees, tops, (words.a, words.b), strict=True)
    ]
    size, rounds = len(words), sides[0].rounds
    counts = [
        sum_into(name * rounds + tree.round[top], np.ones(len(top), np.int64), size * rounds)
        for name, tree, top in zip(names, trees, tops, strict=True)
    ]
    one, other = (count.reshape(size, rounds) for count in counts)
    took = [
        sum_into(name, side.trace.duration[tree.at[top]], size)
        for side, name, tree, top in zip(sides, names, trees, tops, strict=True)
    ]
    found: list[tuple[int, int, int, Bool]] = []
    for more, (few, many) in enumerate(((other, one), (one, other))):
        times = np.where((few > 0).all(1), many[:, 0] // np.maximum(few[:, 0], 1), 0)
        exact = (times > 1) & (many == few * times[:, np.newaxis]).all(1)
        for k in np.unique(times[exact]).tolist():
            mine = exact & (times == k)
            found.append((int(took[more][mine].sum()), more, int(k), mine))
    if not found:
        return None
    spent, more, times_, mine = max(found, key=lambda one: one[0])
    share = spent / (int(took[more].sum()) or 1)
    if np.count_nonzero(mine) < FEW or share < LEAST:
        return None
    kept = [top[mine[name]] for top, name in zip(tops, names, strict=True)]
    within = [tree.under(top) >= 0 for tree, top in zip(trees, kept, strict=True)]
    work = [_launched(*one) for one in zip(sides, trees, within, strict=True)]
    calls = [tree.at[top] for tree, top in zip(trees, kept, strict=True)]
    sizes = _sizes(sides, calls) + _sizes(sides, work)
    grew = sum(x > y for x, y in sizes), sum(x < y for x, y in sizes)
    larger = next((n for n in range(2) if 2 * grew[n] > len(sizes)), None)
    if larger is None and share < MOST:
        return None
    waits = [tree.at[mine & tree.waits] for tree, mine in zip(trees, within, strict=True)]
    return RepeatedWork(
        times_, more, (calls[0], calls[1]), (within[0], within[1]), (work[0], work[1]), (waits[0], waits[1]),
        larger,
    )  # fmt: skip


def _launched(side: Side, tree: CallTree, within: Bool) -> I64:
    """The device work that these calls (by position) launch."""
    place = tree.place[side.trace.launch[side.work]].astype(np.int64)
    found: I64 = side.work[np.append(within, False)[place]]
    return found


def _sizes(sides: tuple[Side, Side], events: Sequence[I64]) -> list[tuple[float, float]]:
    """The size of the first event of each name that both sides have, where both recorded it."""
    firsts: list[dict[str, int]] = []
    for side, at in zip(sides, events, strict=True):
        _, first = np.unique(side.trace.name[at], return_index=True)
        firsts.append({side.trace.name_of(i): i for i in at[first].tolist()})
    both = [name for name in firsts[0] if name in firsts[1]][:READ]
    one, other = (
        [_size(args) for args in side.trace.args_of(np.array([first[name] for name in both], dtype=np.int64))]
        for side, first in zip(sides, firsts, strict=True)
    )
    return [(x, y) for x, y in zip(one, other, strict=True) if x and y]


def _size(args: Mapping[str, object]) -> float:
    """Bytes, blocks or elements of the first input, whichever is recorded; 0 if none is."""
    dims = args.get("Input Dims")
    shape = next((one for one in dims if isinstance(one, list) and one), []) if isinstance(dims, list) else []
    for size in (args.get("bytes"), args.get("grid"), shape):
        numbers = size if isinstance(size, list) else [size]
        if numbers and all(isinstance(n, int) for n in numbers):
            return float(np.prod(np.array(numbers, dtype=np.float64)))
    return 0.0


def without(repeated_work: RepeatedWork, changes: Sequence[Change]) -> list[Change]:
    """The changes without the repeated work; a change with nothing left is dropped. Of work that runs
    elsewhere, what has lost its partner is gone, or new."""
    mine = tuple(set(at.tolist()) for at in repeated_work.work)
    found = []
    for one in changes:
        rests: dict[str, Change] = {}
        for (a, b), rounds, form in zip(one.occurrences(), one.order, one.forms, strict=True):
            a, b = ([i for i in at if i not in its] for at, its in zip((a, b), mine, strict=True))
            kind = one.kind if one.kind != "order" or (a and b) else "gone" if a else "new"
            if a or b:
                rests.setdefault(kind, Change(kind, one.what)).add(a, b, rounds, form)
        left = sum(len(rest.a.events) + len(rest.b.events) for rest in rests.values())
        if left == len(one.a.events) + len(one.b.events):
            found.append(one)
            continue
        for rest in rests.values():
            rest.kind = rest.kind if rest.a.events and rest.b.events else "gone" if rest.a.events else "new"
            _named(rest.a, one.a, repeated_work.calls[0])
            _named(rest.b, one.b, repeated_work.calls[1])
            found.append(rest)
    return found


def _named(part: Part, before: Part, calls: I64) -> None:
    part.tops, part.mostly = [i for i in before.tops if i not in set(calls.tolist())], before.mostly


def as_change(repeated_work: RepeatedWork, sides: tuple[Side, Side]) -> Change:
    """All of it as one change, with one place per round."""
    change = Change("again")
    rounds = [side.round_of(work) for side, work in zip(sides, repeated_work.work, strict=True)]
    for n in range(sides[0].rounds):
        a, b = (work[of == n].tolist() for work, of in zip(repeated_work.work, rounds, strict=True))
        change.add(a, b, (n, n))
    return change


def give_calls(
    repeated_work: RepeatedWork,
    trees: tuple[CallTree, CallTree],
    rest: Change,
    change: Change,
    calls: Matches,
) -> Bool:
    """Give `change` all the repeated calls, and remove them from `rest`, the calls that launch nothing.
    Returns which pairs of `calls` belong to them."""
    found = np.zeros(len(calls.a), dtype=np.bool_)
    parts = (change.a, rest.a, calls.a), (change.b, rest.b, calls.b)
    for n, (part, left, at) in enumerate(parts):
        inside = np.append(repeated_work.inside[n], False)
        part.calls, part.waits = np.sort(repeated_work.calls[n]), repeated_work.waits[n]
        left.events = [i for i in left.events if not inside[trees[n].place[i]]]
        found |= inside[trees[n].place[at]]
    return found
