"""How fast the machine was: what all that is the same on both sides says, not a few calls or kernels."""

from __future__ import annotations

import numpy as np

from tracetui.analysis.calls.calls import self_time_of
from tracetui.analysis.calls.sums import sum_into
from tracetui.compare.calls import CallTree
from tracetui.compare.context import Matched, Pairs, Speed, options
from tracetui.compare.match import Matches
from tracetui.compare.metrics import MACHINE_SHARE
from tracetui.compare.model import Machine
from tracetui.compare.sides import Side, by_graph
from tracetui.compare.timing import general, ratio
from tracetui.trace.model import F64, I64, Bool, Kind, Trace

LIKE = 2
"""If the machine is the reason, the time between calls changes by at most this many times as much as the
calls do."""
FEW_CALLS = 100
"""Fewer calls than this do not show how fast the machine was, unless they are all there are."""
PAUSE = 0.03
"""If only one side has a pause between two calls, and it is at least this share of a step, it has nothing to
do with the machine's speed."""


def speed_of(matched: Matched, pairs: Pairs, counted: tuple[Side, Side]) -> Speed:
    """How fast the machine was on each side. `counted`: see `counted_of`."""
    sides, work, calls, trees, changes, *_ = matched
    a, b = sides
    # Without a device, ops take longer on larger inputs.
    alike = ~pairs.other if len(work.all_a) else ~pairs.other & ~pairs.bigger
    same = alike & (a.trace.kind[calls.a] == Kind.CPU_OP)
    ops = calls.a[same], calls.b[same]
    own_a, own_b = (self_time_of(side.part)[at] for side, at in zip(sides, ops, strict=True))
    at_a, at_b = work.all_a[pairs.comparable], work.all_b[pairs.comparable]
    time_a, time_b = a.trace.duration[at_a], b.trace.duration[at_b]
    machine = Machine(ratio(own_a, own_b), ratio(time_a, time_b), int(np.count_nonzero(alike)), len(at_a))
    # Recording more costs more time in some calls than in others.
    of_most = general(a.trace.name[ops[0]], own_a, own_b)
    all_calls = options(a) != options(b) or _agree(machine.cpu_ratio, of_most)
    # Kernels that follow each other within a graph take a different time than when launched one by one.
    relaunched = 2 * np.count_nonzero(by_graph(a, at_a) != by_graph(b, at_b)) > machine.work
    device_drift = general(a.trace.name[at_a], time_a, time_b)
    all_work = not relaunched and _agree(machine.device_ratio, device_drift)
    # If little is the same, it does not show how fast the machine was.
    if relaunched or 2 * int(time_a.sum()) < int(a.work_time.sum()):
        device_drift = 1.0
    many = not changes or machine.calls >= FEW_CALLS
    much = many and 2 * int(own_a.sum()) >= int(a.op_time.sum())
    cpu_drift = (_of_rounds(sides, ops) if much else 1.0) if all_calls else of_most
    usual = max(float(np.median(side.times)) for side in counted)
    before, after = _same_path(a.trace, trees, calls, alike, a.rounds, PAUSE * usual)
    path = after - before if many and all_calls else 0.0
    # Faster calls do not make a step longer: then it is what lies between them.
    path *= path * ((machine.cpu_ratio or 1.0) - 1) > 0
    exact = before == after and device_drift == 1
    return Speed(machine, (all_calls, all_work), path, device_drift, cpu_drift, exact)


def _agree(ratio: float | None, in_general: float) -> bool:
    """Whether what most names show (`in_general`) is at least half of an overall ratio, on a log scale.
    Always true for a ratio near 1."""
    told = float(np.log(ratio)) if ratio else 0.0
    return abs(told) < MACHINE_SHARE or float(np.log(in_general)) / told >= 0.5


def _of_rounds(sides: tuple[Side, Side], calls: tuple[I64, I64]) -> float:
    """How many times as long a round's calls took, from the medians, like the other numbers."""
    first, second = (
        float(np.median(sum_into(side.round_of(at), self_time_of(side.part)[at], side.rounds)))
        for side, at in zip(sides, calls, strict=True)
    )
    return second / first if min(first, second) > 0 else 1.0


def _same_path(
    trace: Trace, trees: tuple[CallTree, CallTree], calls: Matches, same: Bool, rounds: int, pause: float
) -> tuple[float, float]:
    """How much the `same` ones of `calls`, without those that wait, add to a round of each side, including
    the time between them: the medians, ns. The time after a call that only one side makes is left out, as it
    may belong to that call. So is the time between two calls if one side has much more of it, by at least
    `pause` ns. If the time between calls changed much more than the calls did, the cause is what runs there,
    not the machine: then none of that time counts."""
    places = [tree.place[at].astype(np.int64) for tree, at in zip(trees, (calls.a, calls.b), strict=True)]
    partner = np.full(len(trees[0].at) + 1, -1, dtype=np.int64)
    partner[places[0]] = places[1]
    before_a, before_b = (tree.since[at[same]] for tree, at in zip(trees, places, strict=True))
    follows = partner[before_a] == before_b
    after, ahead = (trace.name[trees[0].at[at]] for at in (places[0][same], np.maximum(before_a, 0)))
    kinds, what = np.unique((after.astype(np.int64) << 32) + ahead, return_inverse=True)
    own, by_place = [], []
    for tree, at in zip(trees, places, strict=True):
        place = at[same]
        keep = ~tree.waits[place]
        own.append(sum_into(tree.round[place[keep]], tree.own[place[keep]], rounds).astype(np.float64))
        keep &= follows
        which = what[keep] * rounds + tree.round[place[keep]]
        sums = sum_into(which, tree.before[place[keep]], len(kinds) * rounds)
        by_place.append(sums.reshape(-1, rounds).astype(np.float64))
    spent = [float(np.median(one)) for one in own]
    slower = spent[1] / spent[0] if min(spent) > 0 else 1.0
    usual = _scaled(np.median(by_place[0], axis=1) * slower, np.median(by_place[1], axis=1), pause)
    between = [one[usual].sum(axis=0) for one in by_place]
    times = [float(np.median(one)) for one in between]
    likely = times[0] * slower
    if not likely / LIKE <= times[1] <= likely * LIKE:
        between = [np.zeros(rounds), np.zeros(rounds)]
    first, second = (float(np.median(one + gaps)) for one, gaps in zip(own, between, strict=True))
    return first, second


def _scaled(likely: F64, after: F64, pause: float) -> Bool:
    """Which of these times, ns, are close to the likely one, or less than a pause away from it."""
    low, high = np.minimum(likely, after), np.maximum(likely, after)
    return np.asarray((high - low < pause) | (high <= LIKE * low), dtype=np.bool_)
