"""What one side does and the other does not: the groups of all regions, joined where they are one change."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise, zip_longest
from typing import NamedTuple

import numpy as np

from tracetui.analysis.device_work import op_behind
from tracetui.compare.calls import CallTree
from tracetui.compare.groups import LIBRARY, computes, grouped, key_of
from tracetui.compare.launched import Launched, launched
from tracetui.compare.match import Matches
from tracetui.compare.sides import Side
from tracetui.trace.model import I64, Bool, Kind

LIBRARIES = re.compile("(?:cudnn|miopen|native)_|Cudnn|Miopen|Native")
"""The parts of an op's name that differ between libraries."""


@dataclass(slots=True, eq=False)
class Part:
    """One side of a change. Slices, from all places together."""

    events: list[int] = field(default_factory=list)
    """Device work; calls, for kind "calls"."""
    tops: list[int] = field(default_factory=list)
    """The outermost ops that launch nothing but this work."""
    mostly: bool = True
    """Whether those ops launch most of it, by time."""
    calls: I64 = field(default_factory=lambda: np.zeros(0, np.int64))
    """The outermost calls that launch nothing but this work: their time is its time on the CPU."""
    waits: I64 = field(default_factory=lambda: np.zeros(0, np.int64))
    """The calls inside those that wait for the device."""


class Block(NamedTuple):
    """A run of kernels, copies and sets on one stream that is repeated."""

    size: int
    """Number of events."""
    times: tuple[int, int]
    """How many times in a row it comes on side a, and on side b."""


@dataclass(slots=True, eq=False)
class Change:
    """Work of side a that is other work, or nothing, on side b. The same change may come in several
    places."""

    kind: str
    """"replaced", "fused", "split", "dtype", "again", "new", "gone", "order"; "calls" for calls that launch
    nothing."""
    what: str = ""
    """What all of it is, if all such changes are reported as one, wherever they are: see
    `groups._alike`. For kind "dtype", the types of a and of b."""
    a: Part = field(default_factory=Part)
    b: Part = field(default_factory=Part)
    ends: list[tuple[int, int]] = field(default_factory=list)
    """For each place, the number of events of a and of b up to its end."""
    forms: list[int] = field(default_factory=list)
    """For each place, a number that stands for its kernels: equal numbers mean the same kernels."""
    order: list[tuple[int, int]] = field(default_factory=list)
    """For each place, the pair of rounds that it is in."""
    block: list[Block] = field(default_factory=list)
    """For a longer or shorter run of blocks: those blocks, all repeated the same number of times."""

    def add(self, a: list[int], b: list[int], rounds: tuple[int, int], form: int = 0) -> None:
        """Add the events (slices) of one place."""
        self.a.events += a
        self.b.events += b
        self.ends.append((len(self.a.events), len(self.b.events)))
        self.forms.append(form)
        self.order.append(rounds)

    @property
    def rounds(self) -> Counter[tuple[int, int]]:
        """The pairs of rounds that have such places, and how many each has."""
        return Counter(self.order)

    def occurrences(self) -> list[tuple[list[int], list[int]]]:
        """The events of a and of b in each place."""
        begins = [(0, 0), *self.ends]
        return [
            (self.a.events[x:end_x], self.b.events[y:end_y]) for (x, y), (end_x, end_y) in pairwise(begins)
        ]


def find_changes(
    sides: tuple[Side, Side], trees: tuple[CallTree, CallTree], work: Matches, calls: Matches
) -> list[Change]:
    """All changes in the device's work."""
    left = launched(sides[0], trees[0], [one.a for one in work.regions], work.all_a, calls.a)
    right = launched(sides[1], trees[1], [one.b for one in work.regions], work.all_b, calls.b)
    changes: dict[object, Change] = {}
    forms: dict[object, int] = {}
    seen: dict[object, list[tuple[Change, list[int], list[int], int]]] = {}
    for region, *alike in zip(work.regions, left.patterns, right.patterns, strict=True):
        own, other = region.a.tolist(), region.b.tolist()
        groups = seen.get(tuple(alike))
        if groups is None:  # many steps or layers share the same region: group it once
            groups = seen[tuple(alike)] = [
                (
                    changes.setdefault((kind, what or key), Change(kind, what)),
                    a,
                    b,
                    forms.setdefault(key, len(forms)),
                )
                for what, key, (kind, a, b) in grouped(own, other, left, right)
            ]
        for change, a, b, form in groups:
            change.add([own[at] for at in a], [other[at] for at in b], region.rounds, form)
    _join_same_ops(changes, forms, left, right, calls)
    _join_one_op(changes, left, right)
    round_a, round_b = sides[0].round_of(work.moved_a), sides[1].round_of(work.moved_b)
    moved = zip(work.moved_a.tolist(), work.moved_b.tolist(), round_a.tolist(), round_b.tolist(), strict=True)
    for i, j, of_a, of_b in moved:
        change = changes.setdefault("order", Change("order"))
        change.add([i], [j], (of_a, of_b))
    for at, part in ((left, "a"), (right, "b")):
        for change in changes.values():
            _named(getattr(change, part), at)
    return list(changes.values())


def _join_same_ops(
    found: dict[object, Change], forms: dict[object, int], left: Launched, right: Launched, calls: Matches
) -> None:
    """Join matrix products or convolutions that are gone in one place and new in another although both sides
    run their ops (possibly from another library): those ops now run on other kernels."""
    both = [np.zeros(len(of.side.trace), dtype=np.bool_) for of in (left, right)]
    both[0][calls.a] = both[1][calls.b] = True
    for kind, what in LIBRARY:
        mine: list[list[object]] = [[], []]
        ops: tuple[dict[object, set[str]], dict[object, set[str]]] = {}, {}
        for key, change in found.items():
            of, events = (left, change.a.events) if change.kind == "gone" else (right, change.b.events)
            n = ("gone", "new").index(change.kind) if change.kind in ("gone", "new") else -1
            kernels = [i for i in events if not of.moves(i)] if n >= 0 else []
            known = bool(kernels) and all(of.op[i] >= 0 for i in kernels)
            if known and computes([of.kernel(i) for i in kernels], kind):
                mine[n] += [key] if all(both[n][of.op[i]] for i in kernels) else []
                own = (i for i in kernels if of.kernel(i).kind == kind)
                ops[n][key] = {LIBRARIES.sub("", of.name(of.op[i])) for i in own}
        # One library's normalization replaced by another's.
        for key, its in ops[0].items():
            for other in (one for one, theirs in ops[1].items() if kind == "norm" and theirs == its):
                mine = [[*dict.fromkeys([*mine[0], key])], [*dict.fromkeys([*mine[1], other])]]
        if not all(mine):
            continue
        there: dict[tuple[int, int], list[list[list[int]]]] = {}
        for n, keys in enumerate(mine):
            for key in keys:
                change = found.pop(key)
                for place, round_ in zip(change.occurrences(), change.order, strict=True):
                    there.setdefault(round_, [[], []])[n].append(place[n])
        one = found.setdefault(("replaced", what), Change("replaced", what))
        for round_, places in there.items():
            for a, b in zip_longest(*places, fillvalue=[]):
                key = key_of(a, left), key_of(b, right)
                one.add(a, b, round_, forms.setdefault(key, len(forms)))


def _join_one_op(found: dict[object, Change], left: Launched, right: Launched) -> None:
    """If a call launched new (or gone) work as well as work that became something else, join the two:
    something that both sides do in between had separated them."""
    for n, of, kind in ((0, left, "gone"), (1, right, "new")):
        homes = {
            of.op[i]: (key, at)
            for key, change in found.items()
            if change.kind in ("replaced", "fused", "split")
            for at, place in enumerate(change.occurrences())
            for i in place[n]
            if of.op[i] >= 0
        }
        more: dict[object, dict[int, list[int]]] = {}
        for key in [key for key, change in found.items() if change.kind == kind and not change.what]:
            rest = Change(kind)
            one = found[key]
            for place, rounds, form in zip(one.occurrences(), one.order, one.forms, strict=True):
                ops = {of.inside(i, homes) for i in place[n]}
                # Copies are reported separately: they are rarely wanted.
                copies = any(of.side.trace.kind[i] == Kind.MEMCPY for i in place[n])
                home = homes.get(ops.pop()) if len(ops) == 1 and not copies else None
                if home is not None:
                    more.setdefault(home[0], {}).setdefault(home[1], []).extend(place[n])
                else:
                    rest.add(*place, rounds, form)
            if not rest.ends:
                del found[key]
            elif len(rest.ends) < len(found[key].ends):
                found[key] = rest
        for key, events in more.items():
            whole = Change(found[key].kind, found[key].what)
            places = zip(found[key].occurrences(), found[key].order, found[key].forms, strict=True)
            for at, (place, rounds, form) in enumerate(places):
                parts = [*place]
                parts[n] = sorted([*parts[n], *events.get(at, [])])
                whole.add(parts[0], parts[1], rounds, form)
            found[key] = whole


def _named(part: Part, of: Launched) -> None:
    """Record the ops by which a part can be called."""
    part.tops = sorted({of.top[i] for i in part.events if of.top.get(i, -1) >= 0})
    took = np.array([max(1, int(of.side.trace.duration[i])) for i in part.events], dtype=np.int64)
    theirs = np.array([of.top.get(i, -1) >= 0 for i in part.events], dtype=np.bool_)
    part.mostly = 2 * int(took[theirs].sum()) > int(took.sum())


def otherwise(
    sides: tuple[Side, Side], trees: tuple[CallTree, CallTree], calls: Matches, changes: list[Change]
) -> Bool:
    """Which of the matched calls launch different work than before, or make different calls. Same shape as
    `calls.a`."""
    found = np.zeros(len(calls.a), dtype=np.bool_)
    work = [one for one in changes if one.kind != "calls"]
    parts = [one.a for one in work], [one.b for one in work]
    for side, tree, at, mine in zip(sides, trees, (calls.a, calls.b), parts, strict=True):
        events = np.array([i for part in mine for i in part.events], dtype=np.int64)
        alone = np.ones(len(tree.at), dtype=np.bool_)
        alone[tree.place[at]] = False
        around = tree.parent[alone]
        launch = side.trace.launch[events]
        found |= np.isin(
            at, np.concatenate([op_behind(side.trace, events), launch, tree.at[around[around >= 0]]])
        )
    return found
