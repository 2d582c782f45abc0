"""What one side does and the other does not, in groups: these kernels became those, this is new, that is
gone."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence, Set
from dataclasses import dataclass, field
from itertools import chain, pairwise, zip_longest
from typing import NamedTuple

import numpy as np

from tracetui.analysis.device_work import decoded_names, op_behind
from tracetui.analysis.kernels.model import KernelName
from tracetui.analysis.select import named
from tracetui.compare.align import align
from tracetui.compare.calls import CallTree
from tracetui.compare.match import ALIKE, Matches
from tracetui.compare.sides import Side, by_graph
from tracetui.trace.model import I32, I64, Bool, Kind

TELLING = frozenset(("gemm", "conv", "attention", "collective"))
"""Kinds of kernels that are the same work, whichever op launched them."""
LIBRARY = ("gemm", "GEMM"), ("conv", "convolution"), ("norm", "normalization")
"""Kinds of kernels that a library picks by sizes, types and layouts, and the word for each in a sentence."""
HELPERS = "split-K", "init_device_workspace", "convertTensor", "fill "
"""Short names of kernels that prepare the input of such a kernel, or add up its partial results."""
LIBRARIES = re.compile("(?:cudnn|miopen|native)_|Cudnn|Miopen|Native")
"""The parts of an op's name that differ between libraries."""
MOST_READ = 1 << 14
"""The most ops whose shapes are read from the files."""
COMPILED = re.compile(r"Torch-Compiled Region|CompiledFunction|## Call CompiledFxGraph")
"""Calls that surround everything a compiled function does, its Python included."""


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
    """What all of it is, if all such changes are reported as one, wherever they are: see `_alike`. For kind
    "dtype", the types of a and of b."""
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

    def places(self) -> list[tuple[list[int], list[int]]]:
        """The events of a and of b in each place."""
        begins = [(0, 0), *self.ends]
        return [
            (self.a.events[x:end_x], self.b.events[y:end_y]) for (x, y), (end_x, end_y) in pairwise(begins)
        ]


@dataclass(frozen=True, slots=True, eq=False)
class Launched:
    """The device work that only this side has, and the ops behind it."""

    side: Side
    op: dict[int, int]
    """For each such event, the innermost op (slice), -1 for none."""
    top: dict[int, int]
    """For each such event, the outermost op that launches nothing but such events (slice), -1 for none."""
    names: dict[int, KernelName]
    shapes: dict[int, str]
    """For matrix products, convolutions and attention, the shapes of the op, where known."""
    by_graph: Set[int]
    """The events that a graph launched."""
    patterns: list[bytes]
    """For each run of events, the key by which equal runs are grouped once: the names, and which events share
    an op."""

    def name(self, i: int) -> str:
        return self.side.trace.name_of(i)

    def kernel(self, i: int) -> KernelName:
        return self.names[int(self.side.trace.name[i])]

    def of_op(self, unit: Sequence[int]) -> str:
        """The name of the op that launched it, and whether it moves memory; "" for none. A copy also gets the
        op around its own: copies are many, and made for many reasons."""
        first = unit[0]
        if (op := self.op[first]) < 0:
            return ""
        above = int(self.side.trace.parent[op]) if self.kernel(first).kind == "copy" else -1
        return f"{self.name(op)} {self.name(above) if above >= 0 else ''} {self.moves(first)}"

    def of_shapes(self, unit: Sequence[int]) -> str:
        """The op that launched a matrix product (or the like), with its shapes; "" if they are not known."""
        shapes = self.shapes.get(unit[0], "")
        return f"{self.name(self.op[unit[0]])} {shapes}" if shapes else ""

    def telling(self, unit: Sequence[int]) -> str:
        """The kind of its kernels, if that identifies the work; else ""."""
        kinds = {self.kernel(i).kind for i in unit} & TELLING
        return kinds.pop() if len(kinds) == 1 else ""

    def compiled(self, i: int) -> bool:
        """Whether a compiler fused it: its name then says from which ops."""
        return bool(self.kernel(i).ops)

    def about(self, events: Sequence[int]) -> set[str]:
        """The backward ops that it computes, as far as known, without "aten::": these identify the work."""
        found = {op for i in events for op in self.kernel(i).ops}
        found |= {self.name(self.op[i]).removeprefix("aten::") for i in events if self.op[i] >= 0}
        return {name for name in found if name.endswith("_backward")}

    def only_copies(self, events: Sequence[int]) -> bool:
        """Whether every kernel only changes the type or the layout of something."""
        return all(self.kernel(i).kind == "copy" for i in events if not self.moves(i))

    def copies(self, events: Sequence[int]) -> bool:
        """Whether any kernel may do that."""
        return any(self.kernel(i).kind == "copy" or self.compiled(i) for i in events)

    def of_one_call(self, events: Sequence[int]) -> bool:
        """Whether one call launched all of them and nothing else, and no compiler fused them."""
        alone = self.top[events[0]] >= 0 and len({self.top[i] for i in events}) == 1
        return alone and not any(map(self.compiled, events))

    def inside(self, i: int, ops: Collection[int]) -> int:
        """Which of these ops launched it, directly or through an op inside; -1 for none."""
        op, parent = self.op[i], self.side.trace.parent
        while op >= 0 and op not in ops:
            op = int(parent[op])
        return op

    def moves(self, i: int) -> bool:
        """Whether it moves or sets memory."""
        return bool(self.side.trace.kind[i] != Kind.KERNEL)

    def alike(self, own: Sequence[int], other: Sequence[int], right: Launched) -> bool:
        """Whether events of the same op or kind can be the same work: not if one side has many more of them,
        nor (except for matrix products) if the times are very different."""
        time, after = (int(of.side.trace.duration[at].sum()) for of, at in ((self, own), (right, other)))
        many = max(len(own), len(other)) <= 3 * min(len(own), len(other))
        return many and (bool(self.telling(own)) or max(time, after) <= ALIKE * max(1, min(time, after)))

    def adds(self, events: Sequence[int]) -> bool:
        """Whether it also does the work that follows elsewhere: a GEMM that adds C, or a bias."""
        notes = " ".join(note for i in events for note in self.kernel(i).notes)
        return "adds C" in notes or "epilogue" in notes


def find_changes(
    sides: tuple[Side, Side], trees: tuple[CallTree, CallTree], work: Matches, calls: Matches
) -> list[Change]:
    """All changes in the device's work."""
    left = _launched(sides[0], trees[0], [one.a for one in work.regions], work.all_a, calls.a)
    right = _launched(sides[1], trees[1], [one.b for one in work.regions], work.all_b, calls.b)
    found: dict[object, Change] = {}
    forms: dict[object, int] = {}
    seen: dict[object, list[tuple[Change, list[int], list[int], int]]] = {}
    for region, *alike in zip(work.regions, left.patterns, right.patterns, strict=True):
        own, other = region.a.tolist(), region.b.tolist()
        groups = seen.get(tuple(alike))
        if groups is None:  # many steps or layers share the same region: group it once
            groups = seen[tuple(alike)] = [
                (
                    found.setdefault((kind, what or key), Change(kind, what)),
                    a,
                    b,
                    forms.setdefault(key, len(forms)),
                )
                for what, key, (kind, a, b) in _grouped(own, other, left, right)
            ]
        for change, a, b, form in groups:
            change.add([own[at] for at in a], [other[at] for at in b], region.rounds, form)
    _join_same_ops(found, forms, left, right, calls)
    _join_one_op(found, left, right)
    round_a, round_b = sides[0].round_of(work.moved_a), sides[1].round_of(work.moved_b)
    moved = zip(work.moved_a.tolist(), work.moved_b.tolist(), round_a.tolist(), round_b.tolist(), strict=True)
    for i, j, of_a, of_b in moved:
        change = found.setdefault("order", Change("order"))
        change.add([i], [j], (of_a, of_b))
    for at, part in ((left, "a"), (right, "b")):
        for change in found.values():
            _named(getattr(change, part), at)
    return list(found.values())


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
            if known and _computes([of.kernel(i) for i in kernels], kind):
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
                for place, round_ in zip(change.places(), change.order, strict=True):
                    there.setdefault(round_, [[], []])[n].append(place[n])
        one = found.setdefault(("replaced", what), Change("replaced", what))
        for round_, places in there.items():
            for a, b in zip_longest(*places, fillvalue=[]):
                key = _key(a, left), _key(b, right)
                one.add(a, b, round_, forms.setdefault(key, len(forms)))


def _join_one_op(found: dict[object, Change], left: Launched, right: Launched) -> None:
    """If a call launched new (or gone) work as well as work that became something else, join the two:
    something that both sides do in between had separated them."""
    for n, of, kind in ((0, left, "gone"), (1, right, "new")):
        homes = {
            of.op[i]: (key, at)
            for key, change in found.items()
            if change.kind in ("replaced", "fused", "split")
            for at, place in enumerate(change.places())
            for i in place[n]
            if of.op[i] >= 0
        }
        more: dict[object, dict[int, list[int]]] = {}
        for key in [key for key, change in found.items() if change.kind == kind and not change.what]:
            rest = Change(kind)
            one = found[key]
            for place, rounds, form in zip(one.places(), one.order, one.forms, strict=True):
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
            places = zip(found[key].places(), found[key].order, found[key].forms, strict=True)
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


def _launched(side: Side, tree: CallTree, events: Sequence[I64], work: I64, calls: I64) -> Launched:
    """`events`: what the other side does not have. `work`, `calls`: what both have (slices)."""
    trace = side.trace
    at = np.concatenate([np.zeros(0, np.int64), *events])
    op = op_behind(trace, at)
    place = tree.place
    free = np.ones(len(tree.at), dtype=np.bool_)
    free[place[calls]] = False
    # Memsets come with many ops and do not count as the ops' own work.
    launch = place[trace.launch[work[trace.kind[work] != Kind.MEMSET]]]
    until = np.append(0, np.cumsum(np.bincount(launch[launch >= 0], minlength=len(tree.at))))
    alone = free & (until[tree.end] == until[:-1])
    climb = alone & ~named(trace, lambda name: COMPILED.search(name) is not None)[trace.name[tree.at]]
    top = np.where(op >= 0, place[op], -1)
    # One more entry for -1: a side may have no calls.
    alone, climb = np.append(alone, False), np.append(climb, False)
    parent = np.append(tree.parent, -1)
    top[~alone[top]] = -1
    while (rise := climb[parent[top]]).any():
        top[rise] = parent[top[rise]]
    tops = np.where(top >= 0, np.append(tree.at, -1)[top], -1)
    innermost, outermost = (dict(zip(at.tolist(), one.tolist(), strict=True)) for one in (op, tops))
    names = decoded_names(trace, at)
    tells = np.array([i for i, name in names.items() if name.kind in TELLING], dtype=np.int64)
    known = np.flatnonzero(np.isin(trace.name[at], tells) & (op >= 0))[:MOST_READ]
    shapes = {
        int(at[i]): str(args["Input Dims"])
        for i, args in zip(known.tolist(), trace.args_of(op[known]), strict=True)
        if args.get("Input Dims")
    }
    around = np.where(op >= 0, trace.parent[op], -1)
    graph = np.where(by_graph(side, at), trace.launch[at], -1)
    patterns = _patterns(trace.name, [len(one) for one in events], at, op, tops, around, graph)
    return Launched(side, innermost, outermost, names, shapes, set(at[graph >= 0].tolist()), patterns)


def _patterns(name: I32, sizes: list[int], at: I64, *above: I64) -> list[bytes]:
    """`sizes`: the lengths of the runs of events in `at`; `above`: what is around each event (slices, -1 for
    none)."""
    ends = np.cumsum(sizes, dtype=np.int64)
    run, begin = np.repeat(np.arange(len(sizes)), sizes), np.repeat(ends - sizes, sizes)
    columns: list[I32 | I64] = [name[at]]
    for one in above:
        _, first, which = np.unique(run * (len(name) + 1) + one, return_index=True, return_inverse=True)
        columns += [first[which] - begin, np.where(one >= 0, name[one], -1)]
    rows = np.stack(columns, axis=1).astype(np.int32)
    return [rows[high - size : high].tobytes() for high, size in zip(ends.tolist(), sizes, strict=True)]


def _alike(a: Sequence[int], b: Sequence[int], left: Launched, right: Launched) -> str:
    """What these events are, if all events like them are reported as one. For work of one side only: "cast",
    "layout conversion", "memset" or "foreach kernel". For work that became other work of the same kind:
    "GEMM", "convolution" or "kernel". Otherwise ""."""
    if not (a and b):
        found = {_simple(of.kernel(i)) for of, events in ((left, a), (right, b)) for i in events}
        return found.pop() if len(found) == 1 else ""
    before, after = ([of.kernel(i) for i in events] for of, events in ((left, a), (right, b)))
    ops = [{of.name(of.op[i]) for i in at if of.op[i] >= 0} for of, at in ((left, a), (right, b))]
    apart = bool(ops[0]) and bool(ops[1]) and not ops[0] & ops[1]
    for kind, what in LIBRARY:
        # Another op's normalization is different work; matrix products are the same, whatever op asks for
        # them.
        if all(_computes(one, kind) for one in (before, after)) and not (apart and kind == "norm"):
            return what
    one, other = before[0], after[0]
    same = one.kind == other.kind and one.short.partition(" ")[0] == other.short.partition(" ")[0]
    return "kernel" if len(before) == len(after) == 1 and same and not one.ops else ""


def _computes(kernels: Sequence[KernelName], kind: str) -> bool:
    """Whether these kernels are of a kind, apart from ones that prepare its memory or add up its partial
    results."""
    return {kind} <= {one.kind for one in kernels} and all(
        one.kind in (kind, "memset") or one.short.startswith(HELPERS) or _reason(one) == "layout conversion"
        for one in kernels
    )


def _simple(kernel: KernelName) -> str:
    if kernel.short.startswith("foreach "):
        return "foreach kernel"
    return "memset" if kernel.kind == "memset" else _reason(kernel)


def _reason(kernel: KernelName) -> str:
    """Why a kernel copies, if its name says so: "cast" or "layout conversion"; else ""."""
    if kernel.kind != "copy":
        return ""
    if "nhwctonchw" in (name := kernel.name.lower()) or "nchwtonhwc" in name:
        return "layout conversion"
    casts = "loadwithcast" in name or ("copy_kernel" in name and "direct_copy" not in name)
    return "cast" if casts else ""


def _key(events: Sequence[int], of: Launched) -> tuple[frozenset[tuple[str, int]], frozenset[str]]:
    """What is the same in all places of a change."""
    # A compiler numbers its kernels: they are the same if the rest of their names is.
    names = Counter(of.kernel(i).short if of.compiled(i) else of.name(i) for i in events)
    return frozenset(names.items()), frozenset(of.of_op([i]) for i in events if not of.compiled(i))


def _names(events: Sequence[int], of: Launched) -> object:
    """The same for work of one side only: however often each name comes, and with the names of the ops that a
    sentence would use. Memsets are ignored, as they come along with other work."""
    told = [i for i in events if of.kernel(i).kind != "memset"] or events
    names, ops = _key(told, of)
    tops = {of.name(of.top[i]) for i in told if of.top[i] >= 0}
    return frozenset(name for name, _ in names), ops, frozenset(tops)


Group = tuple[str, list[int], list[int]]
"""(kind, events of a, events of b)."""
Units = list[list[int]]


def _grouped(a: list[int], b: list[int], left: Launched, right: Launched) -> list[tuple[str, object, Group]]:
    """The groups of a region, by positions in it. Each comes after what it is (see `_alike`) and its key."""
    at_a, at_b = ({i: n for n, i in enumerate(events)} for events in (a, b))
    found: list[tuple[str, object, Group]] = []
    for kind, mine, its in _groups(a, b, left, right):
        for one, other in [(mine, its)] if mine and its else _simply(mine, its, left, right):
            what = _alike(one, other, left, right)
            kind = "replaced" if what and one and other else kind
            group = kind, [at_a[i] for i in one], [at_b[j] for j in other]
            key: object = _key(one, left), _key(other, right)
            if not (one and other):  # new three times in one place and twice in another: still one change
                key = _names(one, left), _names(other, right)
            found.append((what, key, group))
    return found


def _simply(
    a: list[int], b: list[int], left: Launched, right: Launched
) -> Iterator[tuple[list[int], list[int]]]:
    """The work of one side, split by what it is, if all of it is of kinds that are reported wherever they
    are."""
    events, of = (a, left) if a else (b, right)
    told = [_simple(of.kernel(i)) for i in events]
    for what in dict.fromkeys(told) if all(told) else [""]:
        some = [i for i, one in zip(events, told, strict=True) if not what or one == what]
        yield (some, []) if a else ([], some)


def _groups(a: list[int], b: list[int], left: Launched, right: Launched) -> list[Group]:
    """The events of a region, grouped by what belongs together."""
    if not a or not b:
        return _alone(a, b)
    # If both sides use graphs, work launched by a graph did not become work launched by a call.
    sides = (a, left.by_graph), (b, right.by_graph)
    graph = [[i for i in events if i in known] for events, known in sides]
    calls = [[i for i in events if i not in known] for events, known in sides]
    if all(graph) and any(calls):
        parts = [part for part in (graph, calls) if any(part)]
        return [group for one, other in parts for group in _groups(one, other, left, right)]
    out: list[Group] = []
    # These are the same work done differently: matrix products of the same shapes first, then work of the
    # same op, then work of the same kind.
    words = [Launched.of_shapes, Launched.of_op, Launched.telling]
    if any(map(left.compiled, a)) or any(map(right.compiled, b)):
        words.remove(Launched.of_op)  # often another part of the same op: what a compiler left over
    _pair(_units(a, left), _units(b, right), words, left, right, out)
    groups = _with_their_ops([one for group in out for one in _parted(group, out, left, right)], left, right)
    return [(_became(a, b) if kind == "replaced" else kind, a, b) for kind, a, b in groups]


Word = Callable[[Launched, Sequence[int]], str]


def _pair(
    a: Units, b: Units, words: Sequence[Word], left: Launched, right: Launched, out: list[Group]
) -> None:
    """Add the groups of these units: first pair those with the same first word, then the ones in between by
    the other words."""
    if not words:
        out += _unpaired(list(chain(*a)), list(chain(*b)), left, right, out)
        return
    for rest_a, rest_b, same in _between(a, b, words[0], left, right):
        _pair(rest_a, rest_b, words[1:], left, right, out)
        if same is not None:
            out.append(("replaced", *same))


def _parted(group: Group, groups: list[Group], left: Launched, right: Launched) -> list[Group]:
    """Split work that merely stands in the same place into "gone" and "new" if it cannot be the same work."""
    kind, a, b = group
    if kind != "rest":
        return [group]
    one, other = left.about(a), right.about(b)
    # A copy does not become a sum. One backward op does not become another, unless nothing else is in its
    # place.
    apart = bool(one) and bool(other) and not one & other
    apart &= len(groups) > 1 or not (left.of_one_call(a) and right.of_one_call(b))
    kernels = [[of.kernel(i) for i in at] for of, at in ((left, a), (right, b))]
    apart &= not any(all(_computes(one, what) for one in kernels) for what, _ in LIBRARY)
    apart |= (left.only_copies(a) and not right.copies(b)) or (right.only_copies(b) and not left.copies(a))
    # Nor does a change of layout become a cast.
    one, other = ({_reason(kernel) for kernel in some} for some in kernels)
    apart |= "" not in one | other and not one & other
    pairs = [(mine, its) for kind, mine, its in groups if kind == "replaced"]
    # Whatever else the op of a pair launched belongs to the pair.
    for n, (of, at) in enumerate(((left, a), (right, b))):
        own = {of.top[i] for i in at} - {-1}
        apart |= bool(own) and own <= {of.top[i] for pair in pairs for i in pair[n]}
    ops = {left.op[i] for mine, _ in pairs for i in mine}, {right.op[j] for _, its in pairs for j in its}
    apart |= all(left.inside(i, ops[0]) >= 0 for i in a) or all(right.inside(j, ops[1]) >= 0 for j in b)
    return _alone(a, b) if apart else [("replaced", a, b)]


def _with_their_ops(groups: list[Group], left: Launched, right: Launched) -> list[Group]:
    """Add new or gone kernels and sets to the pair whose op launched them too."""
    found = [group for group in groups if group[1] and group[2]]

    def whose(of: dict[int, int], side: int) -> dict[int, int]:
        """Which pair each op (or top) of that side belongs to."""
        return {of[i]: n for n, (_, *both) in enumerate(found) for i in both[side] if of[i] >= 0}

    homes, ops = (whose(left.top, 0), whose(right.top, 1)), (whose(left.op, 0), whose(right.op, 1))
    for kind, a, b in groups:
        if a and b:
            continue
        own, of, home, its = (a, left, homes[0], ops[0]) if a else (b, right, homes[1], ops[1])
        own = _given(own, of, its, found, int(not a))
        if not own:
            continue
        stay = any(of.side.trace.kind[i] == Kind.MEMCPY for i in own)
        # Casts that no compiled kernel absorbed are reported together.
        casts = {
            i
            for i in own
            if _reason(of.kernel(i))
            and of.top[i] in home
            and not _compiled(found[home[of.top[i]]], left, right)
        }
        left_over = [i for i in own if stay or i in casts or of.top[i] not in home]
        for n in {home[of.top[i]] for i in own if not stay and i not in casts and of.top[i] in home}:
            more = [i for i in own if i not in casts and home.get(of.top[i]) == n]
            before, mine, other = found[n]
            found[n] = (
                (before, sorted([*mine, *more]), other) if a else (before, mine, sorted([*other, *more]))
            )
        if left_over:
            found.append((kind, left_over, b) if a else (kind, a, left_over))
    return found


def _given(events: list[int], of: Launched, ops: dict[int, int], found: list[Group], n: int) -> list[int]:
    """Add events of side `n` to the pair whose op launched them through an op inside it; return the rest.
    `ops`: the pairs' ops, each with the index of its pair."""
    rest = []
    for i in events:
        at = of.inside(i, ops)
        if at < 0 or at == of.op[i]:
            rest.append(i)
            continue
        kind, *sides = found[ops[at]]
        sides[n] = sorted([*sides[n], i])
        found[ops[at]] = (kind, sides[0], sides[1])
    return rest


def _compiled(group: Group, left: Launched, right: Launched) -> bool:
    return any(map(left.compiled, group[1])) or any(map(right.compiled, group[2]))


def _alone(a: list[int], b: list[int]) -> list[Group]:
    found: list[Group] = [("new", [], b)] if b else []
    return [*found, ("gone", a, [])] if a else found


def _became(a: Sequence[int], b: Sequence[int]) -> str:
    return "fused" if len(a) > len(b) else "split" if len(a) < len(b) else "replaced"


def _units(events: list[int], of: Launched) -> Units:
    """Runs of events that one op launched; each copy or set is a unit by itself."""
    found: Units = []
    for i in events:
        last = found[-1][-1] if found else None
        same = last is not None and of.op[i] >= 0 and of.op[last] == of.op[i]
        if same and last is not None and not of.moves(i) and not of.moves(last):
            found[-1].append(i)
        else:
            found.append([i])
    return found


def _between(
    a: Units, b: Units, word: Callable[[Launched, Sequence[int]], str], left: Launched, right: Launched
) -> Iterator[tuple[Units, Units, tuple[list[int], list[int]] | None]]:
    """(units of a, units of b, the pair after them) between units with the same word, then the units after
    the last pair. An op that launches many more kernels on one side is not the same work."""
    told_a, told_b = [word(left, unit) for unit in a], [word(right, unit) for unit in b]
    words = {one: n for n, one in enumerate({*told_a} & {*told_b} - {""})}
    # A word that only one side has does not count.
    at_a, at_b = ([i for i, one in enumerate(told) if one in words] for told in (told_a, told_b))
    numbers_a, numbers_b = (
        np.array([words[one] for one in told if one in words], np.int64) for told in (told_a, told_b)
    )
    low_a = low_b = 0
    for x, y in zip(*align(numbers_a, numbers_b), strict=True):
        i, j = at_a[x], at_b[y]
        if left.alike(a[i], b[j], right):
            yield a[low_a:i], b[low_b:j], (a[i], b[j])
            low_a, low_b = i + 1, j + 1
    yield a[low_a:], b[low_b:], None


def _unpaired(
    a: list[int], b: list[int], left: Launched, right: Launched, so_far: list[Group]
) -> list[Group]:
    """The units left between pairs, as groups; copies and sets of one side are separate."""
    kernels_a, kernels_b = [i for i in a if not left.moves(i)], [j for j in b if not right.moves(j)]
    if kernels_a and kernels_b:
        return [*_alone([], [j for j in b if right.moves(j)]), ("rest", a, kernels_b)]
    if so_far and so_far[-1][1] and so_far[-1][2]:  # the pair before may have taken in what follows
        kind, before, after = so_far[-1]
        if kernels_a and right.adds(after) and not left.adds(before):
            so_far[-1] = kind, before + kernels_a, after
            a = [i for i in a if i not in kernels_a]
        elif kernels_b and left.adds(before) and not right.adds(after):
            so_far[-1] = kind, before, after + kernels_b
            b = [j for j in b if j not in kernels_b]
    if a and b and not kernels_a and not kernels_b:
        return [("replaced", a, b)]
    return _alone(a, b)


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
