"""What one side does and the other does not, in groups: these kernels became those, this is new, that is gone."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tracetui.analysis.device_work import decoded_names, op_behind
from tracetui.analysis.kernels.model import KernelName
from tracetui.analysis.select import named
from tracetui.compare.align import align
from tracetui.compare.calls import CallTree
from tracetui.compare.match import Matches, Region
from tracetui.compare.sides import Side
from tracetui.trace.model import I64, Kind

TELLING = frozenset(("gemm", "conv", "attention", "collective"))
"""Kinds of kernels that are the same work whatever op launched them."""
_COMPILED = re.compile(r"Torch-Compiled Region|CompiledFunction|## Call CompiledFxGraph")
"""Ops around all that a compiled function does."""


@dataclass(slots=True, eq=False)
class Change:
    """Work of side a that is other work, or nothing, on side b; the same in several places. Slices."""

    kind: str
    """"replaced", "fused", "split", "new", "gone", "order"; "calls" for calls that launch nothing."""
    a: list[int]
    b: list[int]
    places: list[tuple[tuple[int, ...], tuple[int, ...]]] = field(default_factory=list)
    """Each place in which it is so, as (slices of a, slices of b)."""
    rounds: set[tuple[int, int]] = field(default_factory=set)
    before: tuple[int, int] = (-1, -1)
    """What follows in the first place."""
    tops_a: list[int] = field(default_factory=list)
    """The outermost ops that are part of it (slices): they launch nothing else."""
    tops_b: list[int] = field(default_factory=list)
    cpu_a: int = 0
    """The self time of its calls, ns."""
    cpu_b: int = 0
    path_a: int = 0
    """Their part of the time of the rounds, ns."""
    path_b: int = 0
    waits_a: int = 0
    """Of that, waiting for the device."""
    waits_b: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class _Launched:
    """The device work of one side that the other one does not have, and the ops behind it."""

    side: Side
    tree: CallTree
    op: dict[int, int]
    """Of each such event the innermost op, -1 for none (slices)."""
    top: dict[int, int]
    """The outermost op that launches nothing but such events, -1 for none (slices)."""
    names: dict[int, KernelName]

    def name(self, i: int) -> str:
        return self.side.trace.name_of(i)

    def kernel(self, i: int) -> KernelName:
        return self.names[int(self.side.trace.name[i])]

    def of_op(self, i: int) -> str:
        return self.side.trace.name_of(self.op[i]) if self.op[i] >= 0 else ""

    def moves(self, i: int) -> bool:
        """Whether it moves or sets memory."""
        return self.side.trace.kind[i] != Kind.KERNEL


def find_changes(
    sides: tuple[Side, Side], trees: tuple[CallTree, CallTree], work: Matches, calls: Matches
) -> list[Change]:
    """All changes, in the order in which they first occur; those in which calls alone differ at the end."""
    left, right = (
        _launched(side, tree, [getattr(one, which) for one in work.regions], matched)
        for side, tree, which, matched in zip(
            sides, trees, ("a", "b"), ((work.all_a, calls.a), (work.all_b, calls.b)), strict=True
        )
    )
    found: dict[object, Change] = {}
    for region in work.regions:
        for kind, a, b in _groups(region, left, right):
            _add(found, kind, a, b, region, left, right)
    for i, j in zip(work.moved_a.tolist(), work.moved_b.tolist(), strict=True):
        key = ("order", left.side.trace.name_of(i))
        change = found.setdefault(key, Change("order", [], []))
        change.a.append(i)
        change.b.append(j)
        change.places.append(((i,), (j,)))
    # What copies alone do is charged last: the op of a kernel often launches a copy, too.
    changes = sorted(
        found.values(), key=lambda one: all(map(right.moves, one.b)) and all(map(left.moves, one.a))
    )
    _charge(changes, left, calls.a, "a")
    _charge(changes, right, calls.b, "b")
    return changes


def _launched(side: Side, tree: CallTree, events: Sequence[I64], matched: tuple[I64, I64]) -> _Launched:
    trace = side.trace
    at = np.concatenate([np.zeros(0, np.int64), *events])
    op = op_behind(trace, at)
    place = np.full(len(trace) + 1, -1, dtype=np.int64)
    place[tree.at] = np.arange(len(tree.at))
    alone = np.ones(len(tree.at), dtype=np.bool_)
    known = place[matched[1]]
    alone[known[known >= 0]] = False
    # Of every call: does it launch anything that both sides have?
    common = matched[0][trace.kind[matched[0]] != Kind.MEMSET]
    launch = place[trace.launch[common]]
    until = np.append(0, np.cumsum(np.bincount(launch[launch >= 0], minlength=len(tree.at))))
    alone &= until[tree.end] == until[np.arange(len(tree.at))]
    wrapper = named(trace, lambda name: _COMPILED.match(name) is not None)[trace.name[tree.at]]
    top = np.where(op >= 0, place[op], -1)
    top[(top >= 0) & ~alone[top]] = -1
    while True:
        up = np.where(top >= 0, tree.parent[top], -1)
        rise = (up >= 0) & alone[up] & ~wrapper[up]
        if not rise.any():
            break
        top[rise] = up[rise]
    slices = np.where(top >= 0, tree.at[top] if len(tree.at) else -1, -1)
    pairs = zip(at.tolist(), op.tolist(), slices.tolist(), strict=True)
    ops, tops = {}, {}
    for i, own, outer in pairs:
        ops[i], tops[i] = own, outer
    return _Launched(side, tree, ops, tops, decoded_names(trace, at))


Group = tuple[str, list[int], list[int]]


def _groups(region: Region, left: _Launched, right: _Launched) -> list[Group]:
    """A region as groups of events that belong together, in the order of side b, then a."""
    a, b = region.a.tolist(), region.b.tolist()
    if not a or not b:
        return [("new", [], [j]) for j in b] or [("gone", [i], []) for i in a]
    words: dict[str, int] = {}

    def numbers(items: Sequence[str]) -> I64:
        # One without a word differs from all others.
        return np.array([words.setdefault(word or f"\0{len(words)}", len(words)) for word in items], np.int64)

    # The work of the same op, then that of the same kind, is the same work done differently.
    units_a, units_b = _units(a, left), _units(b, right)
    pairs = _paired(units_a, units_b, lambda u, of: of.of_op(u[0]), left, right, numbers)
    pairs = [(i, j) for i, j in pairs if _alike(len(units_a[i]), len(units_b[j]))]
    out: list[Group] = []
    for rest_a, rest_b, pair in _between(units_a, units_b, pairs):
        kinds = _paired(rest_a, rest_b, _telling, left, right, numbers) if len(rest_a) and len(rest_b) else []
        for more_a, more_b, inner in _between(rest_a, rest_b, kinds):
            out += _one_or_both(more_a, more_b, left, right, out)
            if inner is not None:
                out.append(("replaced", list(rest_a[inner[0]]), list(rest_b[inner[1]])))
        if pair is not None:
            out.append(("replaced", list(units_a[pair[0]]), list(units_b[pair[1]])))
    return [_named(group) for group in out]


def _alike(a: int, b: int) -> bool:
    """Whether an op that launches `a` kernels here and `b` there is the same work."""
    return max(a, b) <= 3 * min(a, b)


def _units(events: list[int], of: _Launched) -> list[list[int]]:
    """Runs of events that one op launched; copies and sets stand alone."""
    found: list[list[int]] = []
    for i in events:
        last = found[-1][-1] if found else None
        same = last is not None and of.op[i] >= 0 and of.op[last] == of.op[i]
        if same and not of.moves(i) and not of.moves(found[-1][-1]):
            found[-1].append(i)
        else:
            found.append([i])
    return found


def _telling(unit: list[int], of: _Launched) -> str:
    kinds = {of.kernel(i).kind for i in unit} & TELLING
    return min(kinds) if len(kinds) == 1 else ""


def _paired(units_a, units_b, word, left, right, numbers):  # type: ignore[no-untyped-def]
    i, j = align(numbers([word(u, left) for u in units_a]), numbers([word(u, right) for u in units_b]))
    return list(zip(i.tolist(), j.tolist(), strict=True))


def _between(units_a, units_b, pairs):  # type: ignore[no-untyped-def]
    """(units of a, units of b, the pair that follows) between the pairs, and after the last."""
    low_a = low_b = 0
    for pair in [*pairs, None]:
        high_a, high_b = pair if pair is not None else (len(units_a), len(units_b))
        yield units_a[low_a:high_a], units_b[low_b:high_b], pair
        low_a, low_b = high_a + 1, high_b + 1


def _one_or_both(
    units_a: list[list[int]], units_b: list[list[int]], left: _Launched, right: _Launched, so_far: list[Group]
) -> list[Group]:
    """What is left between pairs. Copies and sets are told on their own unless all of it is."""
    a, b = ([i for unit in units for i in unit] for units in (units_a, units_b))
    kernels_a, kernels_b = [i for i in a if not left.moves(i)], [j for j in b if not right.moves(j)]
    if kernels_a and kernels_b:
        moves_b = [j for j in b if right.moves(j)]
        return [("new", [], [j]) for j in moves_b] + [("replaced", a, kernels_b)]
    if kernels_a and so_far and _adds(so_far[-1], right):
        kind, before, after = so_far.pop()
        a = [i for i in a if i not in kernels_a]
        so_far.append((kind, before + kernels_a, after))
    moves_a, moves_b = [i for i in a if left.moves(i)], [j for j in b if right.moves(j)]
    if moves_a and moves_b and not kernels_a and not kernels_b:
        return [("replaced", a, b)]
    return [("new", [], [j]) for j in b] + [("gone", [i], []) for i in a]


def _adds(group: Group, right: _Launched) -> bool:
    """Whether side b's kernel does what follows it, too: a GEMM that adds C, or a bias."""
    _, a, b = group
    notes = " ".join(note for j in b for note in right.kernel(j).notes)
    return bool(a) and ("adds C" in notes or "epilogue" in notes)


def _named(group: Group) -> Group:
    kind, a, b = group
    if kind == "replaced":
        kind = "fused" if len(a) > len(b) else "split" if len(a) < len(b) else "replaced"
    return kind, a, b


def _add(
    found: dict[object, Change],
    kind: str,
    a: list[int],
    b: list[int],
    region: Region,
    left: _Launched,
    right: _Launched,
) -> None:
    names_a, names_b = Counter(map(left.name, a)), Counter(map(right.name, b))
    key = (
        kind,
        frozenset(names_a.items()),
        frozenset(names_b.items()),
        *(tuple(sorted({of.of_op(i) for i in some})) for of, some in ((left, a), (right, b))),
    )
    change = found.setdefault(key, Change(kind, [], [], before=region.before))
    change.a += a
    change.b += b
    change.places.append((tuple(a), tuple(b)))
    change.rounds.add(region.rounds)


def _charge(changes: list[Change], of: _Launched, matched: I64, which: str) -> None:
    """Give each change the calls that only it makes; what is left is one more change."""
    tree = of.tree
    place = np.full(len(of.side.trace) + 1, -1, dtype=np.int64)
    place[tree.at] = np.arange(len(tree.at))
    free = np.ones(len(tree.at), dtype=np.bool_)
    known = place[matched]
    free[known[known >= 0]] = False
    tops, owner = [], []
    for n, change in enumerate(changes):
        mine = {of.top[i] for i in getattr(change, which) if of.top.get(i, -1) >= 0}
        getattr(change, f"tops_{which}").extend(sorted(mine))
        tops += mine
        owner += [n] * len(mine)
    order = np.argsort(np.array(tops, dtype=np.int64), kind="stable")
    at = place[np.array(tops, dtype=np.int64)[order]]
    under = tree.under(at)
    to = np.where(
        under >= 0, np.array([*owner, -1], dtype=np.int64)[order[under] if len(order) else under], -1
    )
    to[~free] = -2
    _sum(changes, tree, to, which)
    rest = np.flatnonzero((to == -1) & free)
    if not len(rest):
        return
    change = next((one for one in changes if one.kind == "calls"), None)
    if change is None:
        change = Change("calls", [], [])
        changes.append(change)
    setattr(change, which, tree.at[rest].tolist())
    outer = rest[~np.isin(tree.parent[rest], rest)]
    setattr(change, f"tops_{which}", tree.at[outer].tolist())
    mask = np.full(len(tree.at), -2, dtype=np.int64)
    mask[rest] = len(changes) - 1 if changes[-1] is change else changes.index(change)
    _sum(changes, tree, mask, which)


def _sum(changes: list[Change], tree: CallTree, to: I64, which: str) -> None:
    mine = to >= 0
    for values, where in (
        (tree.self_time, "cpu"), (tree.own + tree.before, "path"), (np.where(tree.waits, tree.own, 0), "waits"),
    ):  # fmt: skip
        total = np.bincount(to[mine], weights=values[mine], minlength=len(changes)).astype(np.int64)
        for change, value in zip(changes, total.tolist(), strict=True):
            if value:
                name = f"{where}_{which}"
                setattr(change, name, getattr(change, name) + value)
