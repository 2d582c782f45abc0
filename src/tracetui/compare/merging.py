"""Joins changes that are really one: a pass that only one side has, a switch to another number type
throughout the program, the same addition to every block, or the same ops on other kernels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from tracetui.analysis.calls.compiling import is_compiling
from tracetui.analysis.device_work import decoded_names, op_behind
from tracetui.analysis.select import name_mask
from tracetui.compare.changes import Block, Change, Part
from tracetui.compare.match import Matches
from tracetui.compare.naming import moves, ops_told, shorts
from tracetui.compare.repeats import longer_run
from tracetui.compare.sides import Side
from tracetui.trace.model import I32, I64, Bool, Kind, Trace

FEW = 3
"""The fewest kernels that changed type for them to be joined; fewer are reported one by one."""
PASSES: dict[str, Callable[[str], bool]] = {
    "compilation": is_compiling,
    "backward pass": lambda name: name.startswith("autograd::engine::evaluate_function"),
    "optimizer's step": lambda name: name.startswith("Optimizer.step#"),
}
"""Parts of a training step that a program may lack, recognized by the names of what surrounds them."""
BECAME = "replaced", "fused", "split"
MANY = 4
"""Up to this many changes to other kernels of the same ops are reported one by one."""
SAME_OPS = "the same ops"
LITTLE, SEVERAL = 0.1, 40
"""Two programs have hardly anything in common if they share less than `LITTLE` of their work and a step has
at least `SEVERAL` kernels, copies and sets."""
LIKE = {"tf32": "fp32"}
"""The type of the numbers that a kernel of this type computes with."""

Sides = tuple[Side, Side]


def merge_changes(sides: Sides, work: Matches, calls: Matches, changes: Sequence[Change]) -> list[Change]:
    """The changes, with those that belong together joined."""
    if len(changes) > 1 and unrelated(sides, work):
        changes = _apart(sides, changes)
    blocks = _blocks(sides, work, _types(sides, calls, _passes(sides, changes)))
    return _other_kernels(sides, _told_alike(sides, blocks))


def unrelated(sides: Sides, work: Matches) -> bool:
    """Whether two programs, of some length, have hardly anything in common."""
    most = max(len(side.work) for side in sides)
    return most >= SEVERAL * sides[0].rounds and len(work.all_a) < LITTLE * most


def _apart(sides: Sides, changes: Sequence[Change]) -> list[Change]:
    """Handle programs with hardly anything in common: there, the position of some work says nothing about
    what it became. Unless both sides come from one op, or are compiled, the work of a is gone and that of b
    is new, all as one change each."""
    found: list[Change] = []
    alone = Change("gone"), Change("new")
    for one in changes:
        became = one.kind in BECAME and not (_compiled(sides, one) or _same_ops(sides, one))
        if not (became or (one.kind in ("gone", "new") and not one.what)):
            found.append(one)
            continue
        for n, rest in enumerate(alone):
            mine, part = (one.a, one.b)[n], (rest.a, rest.b)[n]
            part.tops = sorted({*part.tops, *mine.tops})
            part.mostly &= mine.mostly or not mine.events
            for place, rounds in zip(one.occurrences(), one.order, strict=True):
                if place[n]:
                    rest.add(*((place[0], []) if n == 0 else ([], place[1])), rounds)
    return [*found, *(rest for rest in alone if rest.ends)]


def _passes(sides: Sides, changes: Sequence[Change]) -> list[Change]:
    """Join what is new or gone because only one side has a backward pass or an optimizer."""
    found = list(changes)
    for what, surrounds in PASSES.items():
        around = [name_mask(side.trace, surrounds) for side in sides]
        has = [bool(names[side.trace.name].any()) for names, side in zip(around, sides, strict=True)]
        if has[0] == has[1]:
            continue
        n, kind = (0, "gone") if has[0] else (1, "new")
        one, others = Change(kind, what), list[Change]()
        for change in found:
            mine = change.kind == kind and change.what not in PASSES
            outside = _cut(change, one, sides[n].trace, n, around[n]) if mine else change
            others += [outside] if outside.ends else []
        found = [*others, one] if one.ends else others
    return found


def _cut(change: Change, inner: Change, trace: Trace, n: int, names: Bool) -> Change:
    """Move what is launched inside something with one of these names to `inner`; return the rest. `n`: the
    side that has it."""
    part = (change.a, change.b)[n]
    inside = _within(trace, trace.launch[np.array(part.events, dtype=np.int64)], names)
    if not inside.any():
        return change
    rest = Change(change.kind, change.what)
    its = iter(inside.tolist())
    for place, rounds, form in zip(change.occurrences(), change.order, change.forms, strict=True):
        parts: tuple[list[int], list[int]] = [], []
        for i in place[n]:
            parts[next(its)].append(i)
        for to, events in zip((rest, inner), parts, strict=True):
            if events:
                to.add(*((events, []) if n == 0 else ([], events)), rounds, form)
    tops = np.array(part.tops, dtype=np.int64)
    left = (rest.a, rest.b)[n]
    left.tops, left.mostly = tops[~_within(trace, tops, names)].tolist(), part.mostly
    return rest


def _within(trace: Trace, at: I32 | I64, names: Bool) -> Bool:
    """Whether calls have, or are inside something with, one of these names. -1 is inside nothing."""
    at = at.astype(np.int64)
    found = np.zeros(len(at), dtype=np.bool_)
    while (at >= 0).any():
        found |= (at >= 0) & names[trace.name[at]]
        at = np.where((at >= 0) & ~found, trace.parent[at], -1)
    return found


def _types(sides: Sides, calls: Matches, changes: Sequence[Change]) -> list[Change]:
    """Join kernels that became others of another type, one change for each pair of types, as long as that is
    most of the remaining work that became something else."""
    found = list(changes)
    while True:
        both = [one for one in found if one.a.events and one.b.events and one.kind not in ("order", "dtype")]
        both = [one for one in both if _same_ops(sides, one)]
        types = [
            tuple(_type(side, part) for side, part in zip(sides, (one.a, one.b), strict=True)) for one in both
        ]
        time = [
            sum(
                int(side.trace.duration[part.events].sum())
                for side, part in zip(sides, (one.a, one.b), strict=True)
            )
            for one in both
        ]
        of: Counter[tuple[str, ...]] = Counter()
        for two, ns in zip(types, time, strict=True):
            if all(two) and two[0] != two[1]:
                of[two] += ns
        if not of:
            return found
        two, ns = of.most_common(1)[0]
        forms = {form for one, its in zip(both, types, strict=True) if its == two for form in one.forms}
        if len(forms) < FEW or 2 * ns < sum(time):
            return found
        # The names of some kernels do not show the type.
        mine = [
            one
            for one, its in zip(both, types, strict=True)
            if its != ("", "") and all(x in (y, "") for x, y in zip(its, two, strict=True))
        ]
        mine += [one for one in found if _left_over(sides, calls, one, two)]
        found = [*(one for one in found if one not in mine), _joined(mine, "dtype", " ".join(two))]


def _ops(side: Side, part: Part) -> set[str]:
    op = op_behind(side.trace, np.array(part.events, dtype=np.int64))
    return {side.trace.name_of(i) for i in op[op >= 0].tolist()}


def _same_ops(sides: Sides, change: Change) -> bool:
    """Whether both sides run some op in common, or the ops are not known: attention from another library is
    more than a change of type."""
    one, other = (_ops(side, part) for side, part in zip(sides, (change.a, change.b), strict=True))
    return bool(one & other) or not (one and other)


def _left_over(sides: Sides, calls: Matches, change: Change, types: tuple[str, ...]) -> bool:
    """Whether work that is new or gone has one of these types and comes from ops that both sides run."""
    if change.kind not in ("new", "gone") or change.what in PASSES:
        return False
    n = int(change.kind == "new")
    side, part, both = sides[n], (change.a, change.b)[n], (calls.a, calls.b)[n]
    op = op_behind(side.trace, np.array(part.events, dtype=np.int64))
    return _type(side, part) == types[n] and bool(np.isin(op, both).all())


def _type(side: Side, part: Part) -> str:
    """The number type that most of these kernels compute with, by time; "" if it is not known."""
    names = decoded_names(side.trace, np.array(part.events, dtype=np.int64))
    time: Counter[str] = Counter()
    for i in part.events:
        if found := names[int(side.trace.name[i])].dtype:
            time[LIKE.get(found, found)] += max(1, int(side.trace.duration[i]))
    return time.most_common(1)[0][0] if time else ""


def _blocks(sides: Sides, work: Matches, changes: Sequence[Change]) -> list[Change]:
    """Join runs of equal blocks that are longer or shorter by the same number: the forward and the backward
    pass of the same layers."""
    by_times: dict[tuple[str, tuple[int, int]], list[tuple[Change, Block]]] = {}
    for one in changes:
        if one.kind in ("new", "gone") and one.what not in PASSES and (block := longer_run(sides, work, one)):
            by_times.setdefault((one.kind, block.times), []).append((one, block))
    found = list(changes)
    for (kind, _), some in by_times.items():
        mine = [one for one, _ in some]
        left = [one for one in found if one not in mine]
        one = _joined(mine, kind, "") if len(mine) > 1 else mine[0]
        one.block = [block for _, block in some]
        found = [*left, one]
    return found


def _told_alike(sides: Sides, changes: Sequence[Change]) -> list[Change]:
    """Join changes that a sentence would call by the same names: sizes decide which kernels an op runs, and
    how many, and two steps need not run the same ops in the same order."""
    by_ops: dict[object, list[Change]] = {}
    for one in changes:
        ops = [ops_told(side, part) for side, part in zip(sides, (one.a, one.b), strict=True)]
        parts = list(zip(sides, (one.a, one.b), ops, strict=True))
        # Copies are reported with what makes them: alone they say nothing.
        copies = all(moves(side.trace, part.events) for side, part, _ in parts)
        told = not (one.what or one.block or copies) and one.kind != "order"
        names = [its or tuple(sorted(shorts(side.trace, part.events))) for side, part, its in parts]
        by_ops.setdefault(tuple(names) if told else id(one), []).append(one)
    for key in [one for one in by_ops if isinstance(one, tuple) and all(one)]:
        gone, new = (key[0], ()), ((), key[1])
        if all(len(by_ops.get(one, ())) == 1 for one in (gone, new)):
            there = by_ops[gone][0], by_ops[new][0]
            if sorted(there[0].order) == sorted(there[1].order):
                by_ops[key].append(_in_place(*there))
                del by_ops[gone], by_ops[new]
    return [some[0] if len(some) == 1 else _at_once(some) for some in by_ops.values()]


def _other_kernels(sides: Sides, changes: Sequence[Change]) -> list[Change]:
    """Join work that became other work of the same ops, if there are many such changes: sizes decide on the
    kernels of most ops."""
    some = [one for one in changes if one.kind in BECAME and one.what in ("", "kernel")]
    mine = [one for one in some if _ops_alike(sides, one) and not _compiled(sides, one)]
    if len(mine) <= MANY:
        return list(changes)
    first = min(changes.index(one) for one in mine)
    rest = [one for one in changes[first:] if one not in mine]
    return [*changes[:first], _joined(mine, "replaced", SAME_OPS), *rest]


def _compiled(sides: Sides, change: Change) -> bool:
    """Whether a compiler made some of these kernels: their names then say from which ops."""
    return any(
        name.ops
        for side, part in zip(sides, (change.a, change.b), strict=True)
        for name in decoded_names(side.trace, np.array(part.events, dtype=np.int64)).values()
    )


def _ops_alike(sides: Sides, change: Change) -> bool:
    """Whether both sides of a change come from the same ops, each as often. Memsets are ignored: many ops
    make them."""
    a, b = change.occurrences()[0]
    names = []
    for side, events in zip(sides, (a, b), strict=True):
        at = np.array(events, dtype=np.int64)
        op = op_behind(side.trace, at[side.trace.kind[at] != Kind.MEMSET])
        names.append(Counter(side.trace.name_of(i) if i >= 0 else "" for i in np.unique(op).tolist()))
    return bool(names[0]) and names[0] == names[1] and "" not in names[0]


def _in_place(gone: Change, new: Change) -> Change:
    """What is gone and what is new, in the same number of places of the same rounds, as one replacement."""
    change = Change("replaced")
    pairs = [sorted(enumerate(one.order), key=lambda at: (at[1], at[0])) for one in (gone, new)]
    left, right = gone.occurrences(), new.occurrences()
    for (i, rounds), (j, _) in zip(*pairs, strict=True):
        change.add(left[i][0], right[j][1], rounds)
    change.a.tops, change.b.tops = gone.a.tops, new.b.tops
    change.a.mostly, change.b.mostly = gone.a.mostly, new.b.mostly
    return change


def _at_once(changes: Sequence[Change]) -> Change:
    """Changes as one, without telling them apart."""
    kinds = Counter(one.kind for one in changes)
    found = _joined(changes, kinds.most_common(1)[0][0], "")
    found.forms = [0] * len(found.forms)
    return found


def _joined(changes: Sequence[Change], kind: str, what: str) -> Change:
    """One change in all their places; each of them is a form of it."""
    change = Change(kind, what)
    for form, one in enumerate(changes):
        for (a, b), rounds in zip(one.occurrences(), one.order, strict=True):
            change.add(a, b, rounds, form)
    for part in ("a", "b"):
        mine, all_of_it = [getattr(one, part) for one in changes], getattr(change, part)
        all_of_it.tops = sorted({top for one in mine for top in one.tops})
        all_of_it.mostly = all(one.mostly for one in mine)
    return change
