"""What only one side does in a region, in groups: these kernels became those, this is new, that is gone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain

import numpy as np

from tracetui.analysis.names.model import KernelName
from tracetui.compare.align import align
from tracetui.compare.launched import Launched
from tracetui.trace.model import Kind

LIBRARY = ("gemm", "GEMM"), ("conv", "convolution"), ("norm", "normalization")
"""Kinds of kernels that a library picks by sizes, types and layouts, and the word for each in a sentence."""
HELPERS = "split-K", "init_device_workspace", "convertTensor", "fill "
"""Short names of kernels that prepare the input of such a kernel, or add up its partial results."""
Group = tuple[str, list[int], list[int]]
"""(kind, events of a, events of b)."""
Units = list[list[int]]
Word = Callable[[Launched, Sequence[int]], str]


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
        if all(computes(one, kind) for one in (before, after)) and not (apart and kind == "norm"):
            return what
    one, other = before[0], after[0]
    same = one.kind == other.kind and one.short.partition(" ")[0] == other.short.partition(" ")[0]
    return "kernel" if len(before) == len(after) == 1 and same and not one.ops else ""


def computes(kernels: Sequence[KernelName], kind: str) -> bool:
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


def key_of(events: Sequence[int], of: Launched) -> tuple[frozenset[tuple[str, int]], frozenset[str]]:
    """What is the same in all places of a change."""
    # A compiler numbers its kernels: they are the same if the rest of their names is.
    names = Counter(of.kernel(i).short if of.compiled(i) else of.name(i) for i in events)
    return frozenset(names.items()), frozenset(of.of_op([i]) for i in events if not of.compiled(i))


def _names(events: Sequence[int], of: Launched) -> object:
    """The same for work of one side only: however often each name comes, and with the names of the ops that a
    sentence would use. Memsets are ignored, as they come along with other work."""
    told = [i for i in events if of.kernel(i).kind != "memset"] or events
    names, ops = key_of(told, of)
    tops = {of.name(of.top[i]) for i in told if of.top[i] >= 0}
    return frozenset(name for name, _ in names), ops, frozenset(tops)


def grouped(a: list[int], b: list[int], left: Launched, right: Launched) -> list[tuple[str, object, Group]]:
    """The groups of a region, by positions in it. Each comes after what it is (see `_alike`) and its key."""
    at_a, at_b = ({i: n for n, i in enumerate(events)} for events in (a, b))
    found: list[tuple[str, object, Group]] = []
    for kind, mine, its in _groups(a, b, left, right):
        for one, other in [(mine, its)] if mine and its else _simply(mine, its, left, right):
            what = _alike(one, other, left, right)
            kind = "replaced" if what and one and other else kind
            group = kind, [at_a[i] for i in one], [at_b[j] for j in other]
            key: object = key_of(one, left), key_of(other, right)
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
    apart &= not any(all(computes(one, what) for one in kernels) for what, _ in LIBRARY)
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
    groups: list[Group] = [("new", [], b)] if b else []
    return [*groups, ("gone", a, [])] if a else groups


def _became(a: Sequence[int], b: Sequence[int]) -> str:
    return "fused" if len(a) > len(b) else "split" if len(a) < len(b) else "replaced"


def _units(events: list[int], of: Launched) -> Units:
    """Runs of events that one op launched; each copy or set is a unit by itself."""
    units: Units = []
    for i in events:
        last = units[-1][-1] if units else None
        same = last is not None and of.op[i] >= 0 and of.op[last] == of.op[i]
        if same and last is not None and not of.moves(i) and not of.moves(last):
            units[-1].append(i)
        else:
            units.append([i])
    return units


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
