"""Which events of two recordings are the same piece of work."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tracetui.analysis.ancestors import first_marked
from tracetui.analysis.device_work import op_behind
from tracetui.compare.align import align
from tracetui.compare.sides import Side
from tracetui.trace.model import I64, Bool, Kind, Trace

CONTEXT = 4
"""Tokens that have to be the same in a row, first."""
MOST_SIZED = 1 << 15
"""Events whose sizes are read from the files."""
ALIKE = 8
"""The same work does not take so many times as long."""
_ODD = np.int64(0x5851F42D4C957F2D)


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """What two rounds do not have in common, between two events that they have (slices, by time)."""

    a: I64
    b: I64
    rounds: tuple[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Matches:
    """Events of one kind that are the same in both, and the rest. Slices of the two traces."""

    a: I64
    b: I64
    """One to one with `a`, by rounds."""
    moved_a: I64
    moved_b: I64
    """Those among them (the same names in another order); not in `a` and `b`."""
    regions: tuple[Region, ...]

    @property
    def all_a(self) -> I64:
        return np.concatenate([self.a, self.moved_a])

    @property
    def all_b(self) -> I64:
        return np.concatenate([self.b, self.moved_b])

    def links(self, size: int, back: bool = False) -> I64:
        """Per slice of a trace with `size` slices its partner, or -1. `back`: of b's slices."""
        mine, other = (self.all_b, self.all_a) if back else (self.all_a, self.all_b)
        partner = np.full(size, -1, dtype=np.int64)
        partner[mine] = other
        return partner


class Vocabulary:
    """Numbers for names, the same in both traces."""

    def __init__(self, a: Trace, b: Trace) -> None:
        self._numbers: dict[str, int] = {}
        self.a, self.b = self._of(a), self._of(b)

    def _of(self, trace: Trace) -> I64:
        return np.array([self._number(name) for name in trace.names], dtype=np.int64)

    def _number(self, name: str) -> int:
        # Names of sets differ in how they were launched: "Memset (Device)", in a graph "Memset (Unknown)".
        name = "Memset" if name.startswith("Memset (") else name
        # A number in the name counts calls or iterations: the call is the same.
        head, mark, number = name.rpartition("#")
        name = f"{head}#" if mark and number.isdigit() and number.isascii() else name
        return self._numbers.setdefault(name, len(self._numbers))


def match_work(a: Side, b: Side, pairs: list[tuple[int, int]], words: Vocabulary) -> Matches:
    """The device work: by name, stream by stream, in the order in which it ran. Where something differs,
    sizes decide which of several events of one name it is, as long as there are not too many to read."""
    names = words.a[a.trace.name[a.work]], words.b[b.trace.name[b.work]]
    found = _match(a, b, pairs, a.work, b.work, names)
    if not found.regions or len(a.work) + len(b.work) > MOST_SIZED:
        return found
    numbers: dict[str, int] = {}
    sized = [
        name * MOST_SIZED
        + np.array([numbers.setdefault(size, len(numbers)) for size in sizes_of(side.trace, side.work)])
        for name, side in zip(names, (a, b), strict=True)
    ]
    return _match(a, b, pairs, a.work, b.work, names, exact=(sized[0], sized[1]))


def sizes_of(trace: Trace, at: I64) -> list[str]:
    """Grid, block and bytes of device events, as text: equal for equal sizes. NOT safe to show."""
    return [repr([args.get(key) for key in ("grid", "block", "bytes")]) for args in trace.args_of(at)]


def match_calls(a: Side, b: Side, pairs: list[tuple[int, int]], words: Vocabulary) -> Matches:
    """The ops and runtime calls: thread by thread, by name and that of the call around them; what is left, by
    name."""
    of_a, of_b = (_with_parent(side.trace, side.calls, own) for side, own in ((a, words.a), (b, words.b)))
    names = words.a[a.trace.name[a.calls]], words.b[b.trace.name[b.calls]]
    return _match(a, b, pairs, a.calls, b.calls, (of_a, of_b), names)


def _with_parent(trace: Trace, at: I64, numbers: I64) -> I64:
    calls = np.zeros(len(trace), dtype=np.bool_)
    calls[at] = True
    above = first_marked(trace, trace.parent[at], calls)
    return (numbers[trace.name[at]] << 32) + np.where(above >= 0, numbers[trace.name[above]] + 1, 0)


def _match(
    a: Side,
    b: Side,
    pairs: list[tuple[int, int]],
    at_a: I64,
    at_b: I64,
    tokens: tuple[I64, I64],
    loose: tuple[I64, I64] | None = None,
    exact: tuple[I64, I64] | None = None,
) -> Matches:
    """`loose`: tokens for what `tokens` leaves unmatched, region by region; `exact`: those to try first."""
    found_a, found_b, moved_a, moved_b = ([np.zeros(0, np.int64)] for _ in range(4))
    regions: list[Region] = []
    in_a, in_b = _by_round(a, at_a), _by_round(b, at_b)
    for pair in pairs:
        own: list[Region] = []
        for of_a, of_b in _lanes(a, b, at_a, at_b, in_a[pair[0]], in_b[pair[1]]):
            own_a, own_b = tokens[0][of_a], tokens[1][of_b]
            # First what has the same neighbors: else a new layer is scattered over those around it.
            first = exact or tokens
            i, j = align(_grams(first[0][of_a]), _grams(first[1][of_b]))
            if exact:
                i, j = _more(exact[0][of_a], exact[1][of_b], i, j)
                i, j = _more(_grams(own_a), _grams(own_b), i, j)
            i, j = _more(own_a, own_b, i, j)
            i, j = _credible(a.trace, b.trace, at_a[of_a], at_b[of_b], i, j) if loose is None else (i, j)
            if loose is not None and (len(i) < len(of_a) and len(j) < len(of_b)):
                i, j = _more(loose[0][of_a], loose[1][of_b], i, j)
            found_a.append(at_a[of_a[i]])
            found_b.append(at_b[of_b[j]])
            own += _regions(at_a[of_a], at_b[of_b], i, j, pair)
        left, right = _moved(a.trace, b.trace, own, loose is None)
        moved_a.append(left)
        moved_b.append(right)
        regions += _without(own, left, right) if len(left) else own
    a_, b_, left, right = (np.concatenate(one) for one in (found_a, found_b, moved_a, moved_b))
    return Matches(a_, b_, left, right, tuple(regions))


def _by_round(side: Side, at: I64) -> list[I64]:
    """Positions in `at` of the events of each round, in order."""
    of = side.round_of(at)
    order = np.argsort(of, kind="stable")
    return np.split(order, np.searchsorted(of[order], np.arange(1, side.rounds)))


def _lanes(a: Side, b: Side, at_a: I64, at_b: I64, in_a: I64, in_b: I64) -> Iterator[tuple[I64, I64]]:
    """The events of two rounds, lane by lane: of threads and streams that have the same part."""
    left, right = _parts(a, at_a, in_a), _parts(b, at_b, in_b)
    none = np.zeros(0, np.int64)
    pairs = list(zip(left, right, strict=False))
    pairs += [(one, none) for one in left[len(right) :]] + [(none, one) for one in right[len(left) :]]
    yield from pairs


def _parts(side: Side, at: I64, of_round: I64) -> list[I64]:
    """The events of a round by lane: the lane that steps are on first, then those with most events."""
    lane = side.trace.lane[at[of_round]]
    lanes, count = np.unique(lane, return_counts=True)
    table = side.results.step_table()
    main = int(side.trace.lane[table.event[0]]) if len(table) else -1
    order = sorted(range(len(lanes)), key=lambda k: (lanes[k] != main, -count[k], lanes[k]))
    return [of_round[lane == lanes[k]] for k in order]


def _grams(tokens: I64) -> I64:
    """A number for each token with those that follow it."""
    found = tokens.copy()
    for k in range(1, CONTEXT):
        found *= _ODD
        found[:-k] += tokens[k:]
    return found


def _credible(a: Trace, b: Trace, at_a: I64, at_b: I64, i: I64, j: I64) -> tuple[I64, I64]:
    """The matches without those beside what does not match that take a very different time: a kernel of the
    same name that does something else."""
    close = _close(a.duration[at_a[i]], b.duration[at_b[j]])
    beside = np.ones(len(i) + 1, dtype=np.bool_)
    beside[1:-1] = (np.diff(i) > 1) | (np.diff(j) > 1)
    beside[[0, -1]] = False
    sure = close | ~(beside[:-1] | beside[1:])
    # A set of memory is a part of what follows it: alone it has to come from the same op.
    after = np.append((np.diff(i) == 1) & (np.diff(j) == 1), True)
    alone = np.flatnonzero(sure & ~after & (a.kind[at_a[i]] == Kind.MEMSET))[:MOST_SIZED]
    ops = zip(_ops(a, at_a[i[alone]]), _ops(b, at_b[j[alone]]), strict=True)
    sure[alone] = [not one or not other or one == other for one, other in ops]
    return i[sure], j[sure]


def _ops(trace: Trace, at: I64) -> list[tuple[object, ...]]:
    """The name and the shapes of the ops that launched these events; () for none. NOT safe to show."""
    op = op_behind(trace, at)
    found: list[tuple[object, ...]] = [()] * len(at)
    known = np.flatnonzero(op >= 0)
    for i, args in zip(known.tolist(), trace.args_of(op[known]), strict=True):
        found[i] = trace.name_of(int(op[i])), args.get("Input Dims")
    return found


def _close(a: I64 | int, b: I64 | int) -> Bool:
    """Whether times can be those of the same work."""
    return np.asarray(np.maximum(a, b) <= ALIKE * np.maximum(1, np.minimum(a, b)), dtype=np.bool_)


def _more(a: I64, b: I64, i: I64, j: I64) -> tuple[I64, I64]:
    """Matches with those that looser tokens add between them."""
    ends_a, ends_b = np.append(i, len(a)), np.append(j, len(b))
    begin_a, begin_b = np.append(0, i + 1), np.append(0, j + 1)
    more_a, more_b = [i], [j]
    for k in np.flatnonzero((ends_a > begin_a) & (ends_b > begin_b)).tolist():
        x, y = align(a[begin_a[k] : ends_a[k]], b[begin_b[k] : ends_b[k]])
        more_a.append(x + begin_a[k])
        more_b.append(y + begin_b[k])
    return np.sort(np.concatenate(more_a)), np.sort(np.concatenate(more_b))


def _regions(a: I64, b: I64, i: I64, j: I64, rounds: tuple[int, int]) -> list[Region]:
    ends_a, ends_b = np.append(i, len(a)), np.append(j, len(b))
    begin_a, begin_b = np.append(0, i + 1), np.append(0, j + 1)
    between = np.flatnonzero((ends_a > begin_a) | (ends_b > begin_b)).tolist()
    return [Region(a[begin_a[k] : ends_a[k]], b[begin_b[k] : ends_b[k]], rounds) for k in between]


def _moved(a: Trace, b: Trace, regions: list[Region], wanted: bool) -> tuple[I64, I64]:
    """What is in one place in a round and elsewhere in the other one: the same names, in another order."""
    none = np.zeros(0, np.int64)
    if not wanted or not any(len(one.a) for one in regions) or not any(len(one.b) for one in regions):
        return none, none
    waiting: dict[str, list[int]] = {}
    for i in np.concatenate([one.a for one in regions]).tolist():
        waiting.setdefault(a.name_of(i), []).append(i)
    there = np.concatenate([one.b for one in regions]).tolist()
    pairs = [(same.pop(0), j) for j in there if (same := waiting.get(b.name_of(j)))]
    pairs = [(i, j) for i, j in pairs if _close(int(a.duration[i]), int(b.duration[j]))]
    left, right = zip(*pairs, strict=True) if pairs else (none, none)
    return np.array(left, dtype=np.int64), np.array(right, dtype=np.int64)


def _without(regions: list[Region], a: I64, b: I64) -> Iterator[Region]:
    for one in regions:
        left, right = one.a[~np.isin(one.a, a)], one.b[~np.isin(one.b, b)]
        if len(left) or len(right):
            yield Region(left, right, one.rounds)
