"""Which events of two recordings are the same piece of work."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np

from tracetui.analysis.device_work import op_behind
from tracetui.analysis.steps.scope import step_table_of
from tracetui.compare.align import align
from tracetui.compare.calls import CallTree
from tracetui.compare.sides import Side
from tracetui.trace.model import I64, Bool, Kind, Trace

CONTEXT = 4
"""How many tokens in a row have to be the same for the first matches."""
MOST_SIZED = 1 << 15
"""The most events whose sizes are read from the files."""
SMALL = 256
"""Stretches of up to this many events are cached, and aligned once."""
ALIKE = 8
"""Two events whose times differ by more than this factor are not the same work."""
COMPILED = re.compile(r"^(Torch-Compiled Region: \d{1,9}/|## Call CompiledFxGraph ).{1,80}$")
_VERSION = re.compile(r"^(cu(?:da)?[A-Z]\w+?)(?:_v\d+)+$")
_ODD = np.int64(0x5851F42D4C957F2D)


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """What two rounds do not have in common, between two matched events (slices, by time)."""

    a: I64
    b: I64
    rounds: tuple[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Matches:
    """The events of one kind that are the same in both, and the rest. Slices of the two traces."""

    a: I64
    b: I64
    """One to one with `a`, round by round."""
    moved_a: I64
    moved_b: I64
    """Events that moved (the same names in another order); not in `a` and `b`."""
    regions: tuple[Region, ...]

    @property
    def all_a(self) -> I64:
        return np.concatenate([self.a, self.moved_a])

    @property
    def all_b(self) -> I64:
        return np.concatenate([self.b, self.moved_b])

    def links(self, size: int, back: bool = False) -> I64:
        """For each slice of a trace with `size` slices its partner, or -1. `back`: for b's slices."""
        mine, other = (self.all_b, self.all_a) if back else (self.all_a, self.all_b)
        partner = np.full(size, -1, dtype=np.int64)
        partner[mine] = other
        return partner


class Vocabulary:
    """Numbers for names, the same numbers in both traces."""

    def __init__(self, a: Trace, b: Trace) -> None:
        self._numbers: dict[str, int] = {}
        self.a, self.b = self._of(a), self._of(b)

    def __len__(self) -> int:
        return len(self._numbers)

    def _of(self, trace: Trace) -> I64:
        return np.array([self._number(name) for name in trace.names], dtype=np.int64)

    def _number(self, name: str) -> int:
        # The name of a memset depends on how it was launched: "Memset (Device)", in a graph "Memset
        # (Unknown)".
        name = "Memset" if name.startswith("Memset (") else name
        # A number in the name counts calls, iterations or recompilations: the call is the same. A graph's
        # hash identifies its contents, which the names of its kernels show too.
        name = COMPILED.sub(r"\1", name)
        # Cuspy writes the version of a call that Kineto leaves out: cudaStreamGetCaptureInfo_v3.
        name = _VERSION.sub(r"\1", name) if name.startswith("cu") and len(name) < 100 else name
        head, mark, number = name.rpartition("#")
        name = f"{head}#" if mark and number.isdigit() and number.isascii() else name
        return self._numbers.setdefault(name, len(self._numbers))


def match_work(a: Side, b: Side, pairs: list[tuple[int, int]], words: Vocabulary) -> Matches:
    """Match the device work by name, stream by stream, in the order in which it ran. Where the sides differ,
    sizes decide between events of one name, as long as there are not too many to read."""
    names = words.a[a.trace.name[a.work]], words.b[b.trace.name[b.work]]
    sides = tuple(Events(side, side.work, side.work_round) for side in (a, b))
    found = _match(sides, pairs, names)
    if not found.regions or len(a.work) + len(b.work) > MOST_SIZED:
        return found
    numbers: dict[str, int] = {}
    sized = [
        name * MOST_SIZED
        + np.array([numbers.setdefault(size, len(numbers)) for size in sizes_of(side.trace, side.work)])
        for name, side in zip(names, (a, b), strict=True)
    ]
    return _match(sides, pairs, names, exact=(sized[0], sized[1]))


def sizes_of(trace: Trace, at: I64) -> list[str]:
    """Grid, block and bytes of device events, as text: equal for equal sizes. NOT safe to show."""
    return [repr([args.get(key) for key in ("grid", "block", "bytes")]) for args in trace.args_of(at)]


def match_calls(
    trees: tuple[CallTree, CallTree], a: Side, b: Side, pairs: list[tuple[int, int]], words: Vocabulary
) -> Matches:
    """Match the ops and runtime calls, thread by thread, by name and the name of the call around them; then
    what is left, by name alone."""
    names = words.a[a.trace.name[a.calls]], words.b[b.trace.name[b.calls]]
    of_a, of_b = (_with_parent(name, tree.parent) for name, tree in zip(names, trees, strict=True))
    sides = tuple(Events(side, side.calls, side.call_round) for side in (a, b))
    return _match(sides, pairs, (of_a, of_b), names)


def _with_parent(name: I64, parent: I64) -> I64:
    above: I64 = np.append(name + 1, 0)[parent]
    return (name << 32) + above


class Events:
    """Events of one kind on one side, in the order in which they are matched."""

    def __init__(self, side: Side, at: I64, of: I64) -> None:
        """`at`: slices in order; `of`: the round of each."""
        self.trace = side.trace
        self.order = np.argsort(of, kind="stable")
        self.at = at[self.order]
        """By round, lane and time."""
        self.lanes = self._lanes(side, of[self.order])
        """For each round, where each lane begins and ends in `at`: the lane with the steps first, then those
        with the most events."""

    def _lanes(self, side: Side, of: I64) -> list[list[slice]]:
        lanes: list[list[slice]] = [[] for _ in range(side.rounds)]
        if not len(of):
            return lanes
        lane = self.trace.lane[self.at]
        begin = np.append(0, np.flatnonzero((np.diff(of) != 0) | (np.diff(lane) != 0)) + 1)
        end = np.append(begin[1:], len(of))
        table = step_table_of(side.part)
        main = int(self.trace.lane[table.event[0]]) if len(table) else -1
        order = np.lexsort((lane[begin], begin - end, lane[begin] != main, of[begin]))
        for round_, low, high in zip(*(one[order].tolist() for one in (of[begin], begin, end)), strict=True):
            lanes[round_].append(slice(low, high))
        return lanes


def _match(
    sides: tuple[Events, ...],
    pairs: list[tuple[int, int]],
    tokens: tuple[I64, I64],
    loose: tuple[I64, I64] | None = None,
    exact: tuple[I64, I64] | None = None,
) -> Matches:
    """`loose`: tokens for what `tokens` leaves unmatched, region by region; `exact`: tokens to try first."""
    a, b = sides
    found_a, found_b, moved_a, moved_b = ([np.zeros(0, np.int64)] for _ in range(4))
    regions: list[Region] = []
    kinds = [tokens, *(one for one in (exact, loose) if one is not None)]
    sorted_ = [(one[a.order], other[b.order]) for one, other in kinds]
    between = Between()
    latest: dict[int, tuple[I64, I64, tuple[I64, I64]]] = {}
    behind = [op_behind(side.trace, side.at) for side in sides] if loose is None else None
    for pair in pairs:
        own: list[Region] = []
        lanes = zip_longest(a.lanes[pair[0]], b.lanes[pair[1]], fillvalue=slice(0))
        for number, (of_a, of_b) in enumerate(lanes):
            (own_a, own_b), *other = ((one[of_a], two[of_b]) for one, two in sorted_)
            at_a, at_b = a.at[of_a], b.at[of_b]
            # Match what has the same neighbors first: otherwise a new layer is scattered over those around
            # it.
            first_a, first_b = other[0] if exact else (own_a, own_b)
            before = latest.get(number)
            if np.array_equal(first_a, first_b):
                i = j = np.arange(len(first_a))
            elif before and np.array_equal(first_a, before[0]) and np.array_equal(first_b, before[1]):
                i, j = before[2]  # the next step, like this one
            else:
                i, j = align(_grams(first_a), _grams(first_b))
                if exact:
                    i, j = between.more(first_a, first_b, i, j)
                    i, j = between.more(_grams(own_a), _grams(own_b), i, j)
                i, j = between.more(own_a, own_b, i, j)
                latest[number] = first_a, first_b, (i, j)
            if behind is not None:
                i, j = _credible(
                    a.trace, b.trace, at_a[i], at_b[j], behind[0][of_a][i], behind[1][of_b][j], i, j
                )
            elif len(i) < len(at_a) and len(j) < len(at_b):
                i, j = between.more(*other[-1], i, j)
            found_a.append(at_a[i])
            found_b.append(at_b[j])
            own += _regions(at_a, at_b, i, j, pair)
        left, right = _moved(a.trace, b.trace, own, loose is None)
        moved_a.append(left)
        moved_b.append(right)
        regions += _without(own, left, right) if len(left) else own
    a_, b_, left, right = (np.concatenate(one) for one in (found_a, found_b, moved_a, moved_b))
    return Matches(a_, b_, left, right, tuple(regions))


def _grams(tokens: I64) -> I64:
    """A number for each token together with those that follow it."""
    found = tokens.copy()
    for k in range(1, CONTEXT):
        found *= _ODD
        found[:-k] += tokens[k:]
    return found


def _credible(
    a: Trace, b: Trace, of_a: I64, of_b: I64, op_a: I64, op_b: I64, i: I64, j: I64
) -> tuple[I64, I64]:
    """The matches, without those next to unmatched events whose times are very different: a kernel of the
    same name that does something else. `of_a`, `of_b`: the slices; `op_a`, `op_b`: the ops behind them."""
    sure = _close(a.duration[of_a], b.duration[of_b])
    beside = np.zeros(len(i) + 1, dtype=np.bool_)
    beside[1:-1] = (np.diff(i) > 1) | (np.diff(j) > 1)
    sure |= ~(beside[:-1] | beside[1:])
    # A memset is a part of what follows it: by itself it must come from the same op.
    alone = np.flatnonzero(sure & beside[1:] & (a.kind[of_a] == Kind.MEMSET) & (op_a >= 0) & (op_b >= 0))
    sure[alone] = _same_ops(a, b, op_a[alone], op_b[alone])
    return i[sure], j[sure]


def _same_ops(a: Trace, b: Trace, of_a: I64, of_b: I64) -> Bool:
    """Which of these pairs of ops have the same name and shapes."""
    names = zip(a.name[of_a].tolist(), b.name[of_b].tolist(), strict=True)
    same = np.array([a.names[x] == b.names[y] for x, y in names], dtype=np.bool_)
    known = np.flatnonzero(same)[:MOST_SIZED]
    shapes = zip(a.args_of(of_a[known]), b.args_of(of_b[known]), strict=True)
    same[known] = [one.get("Input Dims") == other.get("Input Dims") for one, other in shapes]
    return same


def _close(a: I64 | int, b: I64 | int) -> Bool:
    """Whether these times can belong to the same work."""
    return np.asarray(np.maximum(a, b) <= ALIKE * np.maximum(1, np.minimum(a, b)), dtype=np.bool_)


class Between:
    """Adds matches between others. Many steps or layers have the same stretches: each is aligned once."""

    def __init__(self) -> None:
        self._seen: dict[tuple[bytes, bytes], tuple[I64, I64]] = {}

    def more(self, a: I64, b: I64, i: I64, j: I64) -> tuple[I64, I64]:
        """The matches, plus those that looser tokens add between them."""
        found_a, found_b, low_a, low_b, count = [i], [j], [0], [0], [len(i)]
        for x, end_x, y, end_y in _gaps(len(a), len(b), i, j, False):
            left, right = a[x:end_x], b[y:end_y]
            key = left.tobytes(), right.tobytes()
            same = self._seen.get(key)
            if same is None:
                same = align(left, right)
                if len(left) + len(right) <= SMALL:
                    self._seen[key] = same
            if len(same[0]):
                found_a.append(same[0])
                found_b.append(same[1])
                low_a.append(x)
                low_b.append(y)
                count.append(len(same[0]))
        if len(count) == 1:
            return i, j
        return (
            np.sort(np.concatenate(found_a) + np.repeat(low_a, count)),
            np.sort(np.concatenate(found_b) + np.repeat(low_b, count)),
        )


def _gaps(size_a: int, size_b: int, i: I64, j: I64, either: bool) -> Iterator[tuple[int, int, int, int]]:
    """(begin in a, end, begin in b, end) of the stretches between matches where both sides have events or,
    with `either`, where one has."""
    ends = np.append(i, size_a), np.append(j, size_b)
    begins = np.append(0, i + 1), np.append(0, j + 1)
    some = [end > begin for begin, end in zip(begins, ends, strict=True)]
    at = np.flatnonzero(some[0] | some[1] if either else some[0] & some[1])
    lists = (one[at].tolist() for one in (begins[0], ends[0], begins[1], ends[1]))
    return zip(*lists, strict=True)


def _regions(a: I64, b: I64, i: I64, j: I64, rounds: tuple[int, int]) -> list[Region]:
    return [
        Region(a[x:end_x], b[y:end_y], rounds) for x, end_x, y, end_y in _gaps(len(a), len(b), i, j, True)
    ]


def _moved(a: Trace, b: Trace, regions: list[Region], wanted: bool) -> tuple[I64, I64]:
    """Events in one place in a round and elsewhere in the other side's: the same names, in another order."""
    none = np.zeros(0, np.int64)
    if not wanted or not any(len(one.a) for one in regions) or not any(len(one.b) for one in regions):
        return none, none
    waiting: dict[str, deque[int]] = {}
    for i in np.concatenate([one.a for one in regions]).tolist():
        waiting.setdefault(a.name_of(i), deque()).append(i)
    there = np.concatenate([one.b for one in regions]).tolist()
    pairs = [(same.popleft(), j) for j in there if (same := waiting.get(b.name_of(j)))]
    pairs = [(i, j) for i, j in pairs if _close(int(a.duration[i]), int(b.duration[j]))]
    left, right = zip(*pairs, strict=True) if pairs else (none, none)
    return np.array(left, dtype=np.int64), np.array(right, dtype=np.int64)


def _without(regions: list[Region], a: I64, b: I64) -> Iterator[Region]:
    for one in regions:
        yield Region(one.a[~np.isin(one.a, a)], one.b[~np.isin(one.b, b)], one.rounds)
