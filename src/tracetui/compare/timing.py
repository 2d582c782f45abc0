"""The same work, timed twice: what took longer than the general trend and the usual variation explain."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tracetui.analysis.calls.sums import sum_into
from tracetui.analysis.device_work import op_behind
from tracetui.compare.calls import CallTree
from tracetui.compare.match import Matches
from tracetui.compare.sides import Side
from tracetui.core.copying import replace
from tracetui.trace.model import F64, I32, I64, Bool, Kind, Trace

SAMPLES = 6
"""How many pairs of a name have their sizes read at first; if some differ, all are read."""
MOST_READ = 3_000
GROWN, STRETCHED = 0.2, 0.1
"""If at least this share of the work, by time, has other sizes, a kernel in the same grid may take longer
because of that; and the logarithm of the ratio by which it must."""
LEAST_SHARE = 0.005
"""A name is not reported if its time changes by less than this share of the round."""
LEAST_CHANGE = 0.04
SINGLE_SHARE = 0.02
"""The same limit for a single event that took longer once."""
CALL_CHANGE = 0.7
"""The logarithm of a ratio: between two recordings of one program, single calls took 0.8 to 1.9 times as
long."""
EVERY_SHARE, SEVERAL = 0.05, 3
"""For `changed_calls`: the least share of a step, and the fewest steps."""
ROUNDED_NS, ROUNDED = 2, 0.002
"""Times in a file are rounded; the self times computed from them are off by a little more."""


@dataclass(frozen=True, slots=True, eq=False)
class Slower:
    """Events of one name that took longer, or less time, than the rest would suggest."""

    name: int
    """Index into a's names."""
    a: I64
    b: I64
    """The events (slices), one to one."""
    of: int
    """The number of pairs with that name."""
    change: int
    """ns, for all of them together."""
    once: bool = False
    """Whether single calls of several names changed, this one included: on a busy machine that can happen to
    any call."""


def ratio(a: I64, b: I64) -> float | None:
    """The ratio of two sums of times; None if a's is 0, or one of them below: the children of a call may
    overlap, and then take longer than the call does."""
    first, second = int(a.sum()), int(b.sum())
    return second / first if first > 0 <= second else None


def drift(a: I64, b: I64) -> float:
    """How much longer things took in general: the median ratio, each weighted by the shorter of its two
    times, because a call that took long once says little. 1 if nothing took any time."""
    known = np.minimum(a, b) > 0
    if not known.any():
        return 1.0
    each, weight = b[known] / a[known], np.minimum(a, b)[known]
    order = np.argsort(each, kind="stable")
    until = np.cumsum(weight[order])
    return float(each[order[np.searchsorted(until, until[-1] / 2)]])


def general(name: I32 | I64, a: I64, b: I64) -> float:
    """How much longer things took in general, as far as both `drift` and most names agree. If one name takes
    most of the time and changed, that is not the machine. `name`: for each pair."""
    much, known = drift(a, b), np.minimum(a, b) > 0
    if not known.any():
        return 1.0
    a, b = a[known], b[known]
    each = float(np.median([b[group].sum() / a[group].sum() for group in _by_name(name[known])[1]]))
    if (much - 1) * (each - 1) <= 0:
        return 1.0
    return min(much, each, key=lambda one: abs(float(np.log(one))))


def slower(
    name: I32 | I64,
    time_a: I64,
    time_b: I64,
    a: I64,
    b: I64,
    round_time: float,
    least: float = LEAST_CHANGE,
    much: float | None = None,
) -> list[Slower]:
    """The names (of pairs of events `a`, `b` with these times) that changed by more than the general drift
    and noise; single events, if the rest of their name did not. `round_time`: ns of all rounds together.
    `least`: the logarithm of the smallest ratio that is reported if there is noise. `much`: how much longer
    things took in general; by default taken from these events."""
    if not len(a):
        return []
    much = general(name, time_a, time_b) if much is None else much
    off, took = time_b - much * time_a, time_b - time_a
    odd_ones = np.abs(off) > np.maximum(ROUNDED_NS, ROUNDED * time_b)
    odd_ones &= took != 0
    exact = float(np.mean(odd_ones)) <= 0.1
    """Copies of one recording: every difference is real."""
    names, groups = _by_name(name)
    found: list[Slower] = []
    if exact:
        for number, group in zip(names.tolist(), groups, strict=True):
            odd = group[odd_ones[group]]
            if len(odd):
                found.append(_told(number, odd, len(group), a, b, off, took))
        return found
    logs = np.array([_log(time_a[g].sum() * much, time_b[g].sum()) for g in groups])
    known = logs[np.isfinite(logs)]
    least = max(least, 4 * 1.4826 * float(np.median(np.abs(known - np.median(known)))) if len(known) else 0)
    for number, group, log in zip(names.tolist(), groups, logs.tolist(), strict=True):
        spread = 1.4826 * float(np.median(np.abs(off[group] - np.median(off[group]))))
        far = np.minimum(np.abs(off[group]), np.abs(took[group])) > SINGLE_SHARE * round_time
        odd = group[far & (np.abs(off[group]) > 8 * spread)]
        if len(odd) and 2 * abs(off[odd].sum()) >= abs(off[group].sum()):
            either = [some for some in (odd[off[odd] > 0], odd[off[odd] < 0]) if len(some)]
            found += [_told(number, some, len(group), a, b, off, took) for some in either]
            continue
        # Use what most of them say: one that took long says nothing about the others.
        before = float(time_a[group].sum())
        own = drift(time_a[group], time_b[group]) - 1
        whole = own * before
        left = took[group] - own * time_a[group]
        spread = 1.4826 * float(np.median(np.abs(left - np.median(left))))
        total = whole - (much - 1) * before
        if total * whole < 0 or total * log < 0:
            continue  # its extra time is less than that of the rest
        change = total if abs(total) < abs(whole) else whole
        in_all = float(took[group].sum())  # what most pairs show must not exceed the total
        if in_all * change < 0:
            continue
        change = change if abs(change) < abs(in_all) else in_all
        much_more = abs(total) > 3 * spread * len(group) ** 0.5 and abs(change) > LEAST_SHARE * round_time
        if abs(log) > least and much_more:
            found.append(Slower(number, a[group], b[group], len(group), round(change)))
    return found


def odd_work(sides: tuple[Side, Side], work: Matches, same: Bool, timed: Bool, step: float) -> list[Slower]:
    """The work that took longer, or less time, than the rest. `same`: which of `work` is the same; `timed`:
    which shows how fast the device was; `step`: the time of all work of a step, ns."""
    name, time = sides[0].trace.name, [side.trace.duration for side in sides]
    a, b = work.all_a[same], work.all_b[same]
    one, other = work.all_a[timed], work.all_b[timed]
    much = general(name[one], time[0][one], time[1][other])
    return slower(name[a], time[0][a], time[1][b], a, b, step * sides[0].rounds, much=much)


def odd_calls(
    sides: tuple[Side, Side], trees: tuple[CallTree, CallTree], calls: Matches, same: Bool, step: float
) -> list[Slower]:
    """The calls that took longer, or less time, than the rest; those that took longer come first. Calls that
    wait for the device are left out: the device decides how long they take. `same`: which of `calls` do the
    same; `step`: ns of a step."""
    trace = sides[0].trace
    same = same & ~trees[0].waits[trees[0].place[calls.a]]
    a, b = calls.a[same], calls.b[same]
    time = [tree.self_time[tree.place[at]] for tree, at in zip(trees, (a, b), strict=True)]
    names = trace.name[a].astype(np.int64)
    # A launch may wait for room in the queue, so it does not show how fast the CPU is.
    ops = trace.kind[a] == Kind.CPU_OP
    much = general(names[ops], time[0][ops], time[1][ops]) if ops.any() else None
    found = slower(names, time[0], time[1], a, b, step * sides[0].rounds, CALL_CHANGE, much)
    out: list[Slower] = []
    for sign in (1, -1):
        mine = sorted((one for one in found if one.change * sign > 0), key=lambda one: -abs(one.change))
        once = [len(one.a) < one.of and trace.kind[one.a[0]] == Kind.CPU_OP for one in mine]
        out += [replace(one, once=sum(once) > 1 and is_) for one, is_ in zip(mine, once, strict=True)]
    return out


def changed_calls(
    sides: tuple[Side, Side], trees: tuple[CallTree, CallTree], calls: Matches, other: Bool, step: float
) -> list[Slower]:
    """Names of calls that work differently than before and took longer, or less time, in every round of one
    side than in any round of the other. `other`: which of `calls`; `step`: ns of a step."""
    rounds, trace = sides[0].rounds, sides[0].trace
    a, b = calls.a[other], calls.b[other]
    if rounds < SEVERAL or not len(a):
        return []
    found = []
    names, groups = _by_name(trace.name[a])
    for number, group in zip(names.tolist(), groups, strict=True):
        before, after = (
            sum_into(side.round_of(at[group]), tree.self_time[tree.place[at[group]]], rounds)
            for side, at, tree in zip(sides, (a, b), trees, strict=True)
        )
        change = float(np.median(after) - np.median(before))
        apart = before.max() < after.min() or after.max() < before.min()
        if apart and abs(change) > EVERY_SHARE * step:
            found.append(Slower(number, a[group], b[group], len(group), round(change * rounds)))
    return found


def _by_name(name: I32 | I64) -> tuple[I32 | I64, list[I64]]:
    """(the names, in order; where each is). `name`: not empty, none below 0."""
    # Sorting 16-bit numbers takes one pass over them.
    small = int(name.max()) < 1 << 16
    order = np.argsort(name.astype(np.uint16) if small else name, kind="stable")
    sorted_ = name[order]
    first = np.append(0, np.flatnonzero(np.diff(sorted_)) + 1)
    return sorted_[first], np.split(order, first[1:])


def _told(name: int, these: I64, of: int, a: I64, b: I64, off: F64, change: I64) -> Slower:
    """Never more than the actual change: if the rest took longer, this must not be reported as faster by that
    amount."""
    beyond, whole = float(off[these].sum()), float(change[these].sum())
    return Slower(name, a[these], b[these], of, round(beyond if abs(beyond) < abs(whole) else whole))


def _log(a: float, b: float) -> float:
    return float(np.log(b / a)) if a > 0 and b > 0 else float("nan")


def resized(a: Trace, b: Trace, left: I64, right: I64, device: bool) -> Bool:
    """Which of these pairs do the same on inputs of another size, as far as the traces recorded that: kernels
    with another grid, copies of other lengths, ops with other shapes. Shape of `left`.

    Reads a few events of each name from the files, more if they differ.
    """
    found = np.zeros(len(left), dtype=np.bool_)
    if not len(left):
        return found
    _, groups = _by_name(a.name[left])
    few = [
        group[np.linspace(0, len(group) - 1, min(SAMPLES, len(group))).astype(np.int64)] for group in groups
    ]
    few = few[: max(1, MOST_READ // SAMPLES)]
    differ = _differ(a, b, left, right, np.concatenate(few), device)
    parts = np.split(differ, np.cumsum([len(one) for one in few])[:-1])
    for group, part in zip(groups, parts, strict=False):
        if not part.any():
            continue
        read = group[:MOST_READ]
        if device or not _reordered(a, b, left[read], right[read]):
            found[read] = _differ(a, b, left, right, read, device)
        found[group[MOST_READ:]] = 2 * np.count_nonzero(found[read]) > len(read)
    return found


def stretched(a: Trace, b: Trace, left: I64, right: I64, grown: Bool) -> Bool:
    """Which of these pairs of device events take longer (or less time) along with the `grown` ones, in the
    same grid: a kernel whose blocks each do more of a larger input. None if the grown ones are a small part,
    or take as long as before. Shape of `left`."""
    found = np.zeros(len(left), dtype=np.bool_)
    time_a, time_b = a.duration[left], b.duration[right]
    much = _log(time_a[grown].sum(), time_b[grown].sum())
    if not abs(much) > STRETCHED or time_a[grown].sum() < GROWN * time_a.sum():
        return found
    rest = np.flatnonzero(~grown)
    for group in _by_name(a.name[left[rest]])[1] if len(rest) else ():
        mine = rest[group]
        log = _log(time_a[mine].sum(), time_b[mine].sum())
        found[mine] = abs(log) > STRETCHED and log * much > 0
    return found


def _differ(a: Trace, b: Trace, left: I64, right: I64, these: I64, device: bool) -> Bool:
    one, other = _sizes(a, left[these], device), _sizes(b, right[these], device)
    return np.array([_unlike(x, y) for x, y in zip(one, other, strict=True)], dtype=np.bool_)


def _reordered(a: Trace, b: Trace, left: I64, right: I64) -> bool:
    """Whether these ops have the same sizes in another order: then none is larger. Gradients can arrive in
    any order."""
    one, other = (Counter(map(repr, _sizes(*of, False))) for of in ((a, left), (b, right)))
    return bool(one == other)


def _unlike(one: Sizes, other: Sizes) -> bool:
    """Whether two sizes differ. A size that only one recording has says nothing, nor does that of a different
    op."""
    if any(x != y for x, y in zip(one.own, other.own, strict=True) if x is not None and y is not None):
        return True
    # An op that is given its output has one more input.
    shapes = zip(one.shapes, other.shapes, strict=False)
    return one.op == other.op and any(x != y for x, y in shapes if x and y)


class Sizes(NamedTuple):
    """The recorded sizes of an event: JSON values, not safe to show."""

    own: tuple[object, ...]
    """Grid, block, bytes; None if not recorded."""
    op: str
    """The op that launched it; for an op, itself."""
    shapes: list[object]


def _sizes(trace: Trace, events: I64, device: bool) -> list[Sizes]:
    op = op_behind(trace, events) if device else events
    known = np.flatnonzero(op >= 0)
    shapes: list[list[object]] = [[] for _ in events]
    own: list[tuple[object, ...]] = [()] * len(events)
    # Read ops and events together: they are usually near each other in the file.
    read = trace.args_of(np.concatenate([op[known], events if device else events[:0]]))
    for i, args in zip(known.tolist(), read[: len(known)], strict=True):
        dims = args.get("Input Dims")
        shapes[i] = dims if isinstance(dims, list) else []
    names = [trace.name_of(i) if i >= 0 else "" for i in op.tolist()]
    if device:
        own = [tuple(args.get(key) for key in ("grid", "block", "bytes")) for args in read[len(known) :]]
    return list(map(Sizes, own, names, shapes))
