"""Compares two sides: the numbers of a step, and what explains the difference."""

from __future__ import annotations

import numpy as np

from tracetui.analysis.devices import by_start, device_of
from tracetui.analysis.kinds import communicates
from tracetui.analysis.results import Results
from tracetui.analysis.sums import sum_into
from tracetui.compare.again import as_change, find_again, give_calls, without
from tracetui.compare.answer import answer, known
from tracetui.compare.calls import CallTree, call_tree
from tracetui.compare.changes import find_changes, otherwise
from tracetui.compare.charges import charge, charged, without_loading
from tracetui.compare.explain import FEW_CALLS, explain
from tracetui.compare.facts import LIKE, Facts, options
from tracetui.compare.joining import joined
from tracetui.compare.match import Matches, Vocabulary, match_calls, match_work
from tracetui.compare.metrics import (
    MACHINE_SHARE,
    busy_is_noise,
    idle_known_of,
    idle_of,
    links_of,
    metrics_of,
)
from tracetui.compare.model import Comparison, Machine, counted_of
from tracetui.compare.notes import doubt, notes
from tracetui.compare.sides import Side, by_graph, loads_otherwise, pair_rounds, side_of
from tracetui.compare.timing import changed_calls, general, odd_calls, odd_work, ratio, resized, stretched
from tracetui.compare.unrecorded import (
    gradients,
    nothing,
    unrecorded_cpu,
    unrecorded_ops,
    unrecorded_work,
    unsized,
)
from tracetui.copying import replace
from tracetui.trace.intervals import union
from tracetui.trace.model import F64, I64, Bool, Kind, Trace
from tracetui.trace.unknown import missing_kernels

CROWDED = 0.1
"""Work may be slower because other work runs beside it if the share of its time with such work differs by
this much between the sides."""

PAUSE = 0.03
"""If only one side has a pause between two calls, and it is at least this share of a step, it has nothing to
do with the machine's speed."""


def compare(a: Results | Side, b: Results | Side) -> Comparison:
    """What `b` does differently from `a`. Results are compared with all their steps."""
    a, b = (one if isinstance(one, Side) else side_of(one) for one in (a, b))
    if not (len(a.steps) and len(b.steps)):
        # Steps are not compared with a recording that has none: compare the whole recordings.
        a, b = side_of(a.results, []), side_of(b.results, [])
    lost = any(missing_kernels(side.trace) or side.trace.cut_off for side in (a, b))
    if lost or unrecorded_work(a, b) or nothing(a, b):
        a, b = replace(a, calls_only=True), replace(b, calls_only=True)
    if unrecorded_cpu(a, b) or nothing(a, b):
        a, b = replace(a, work_only=True, no_calls=True), replace(b, work_only=True, no_calls=True)
    elif unrecorded_ops(a, b):
        a, b = replace(a, work_only=True), replace(b, work_only=True)
    whole = a, b
    rounds = pair_rounds(a, b)
    # From here on, only the rounds that were paired.
    a, b = a.only([i for i, _ in rounds]), b.only([j for _, j in rounds])
    counted = counted_of(*whole, rounds)
    pairs = [(i, i) for i in range(len(rounds))]
    words = Vocabulary(a.trace, b.trace)
    trees = call_tree(a), call_tree(b)
    work, calls = match_work(a, b, pairs, words), match_calls(trees, a, b, pairs, words)
    again, changes = find_again((a, b), trees, words), find_changes((a, b), trees, work, calls)
    plain = joined((a, b), work, calls, changes)
    if again and again.larger is None and any(one.block for one in plain):
        again = None  # if nothing but layers was added, report more layers
    if again:
        changes = joined((a, b), work, calls, without(again, changes))
        changes.append(as_change(again, (a, b)))
    else:
        changes = plain
    rest = charge((a, b), trees, calls, changes, words)
    none = np.zeros(len(calls.a), dtype=np.bool_)
    repeated = give_calls(again, trees, rest, changes[-1], calls) if again else none
    loads = without_loading((a, b), rest) if loads_otherwise(*whole) else (calls.a[:0], calls.b[:0])
    changes += [rest] if rest.a.events or rest.b.events else []
    often = again.pairs(work.all_a, work.all_b) if again else np.zeros(len(work.all_a), dtype=np.bool_)
    grown = resized(a.trace, b.trace, work.all_a, work.all_b, True) & ~often
    longer = stretched(a.trace, b.trace, work.all_a, work.all_b, grown) & ~often
    ops = a.trace.kind[calls.a] == Kind.CPU_OP
    bigger = np.zeros(len(ops), dtype=np.bool_)
    bigger[ops] = resized(a.trace, b.trace, calls.a[ops], calls.b[ops], False)
    own_a, own_b = a.results.self_time(), b.results.self_time()
    other = otherwise((a, b), trees, calls, changes) | repeated
    for side, at in ((a, calls.a), (b, calls.b)):
        if side.results.gaps().devices:
            other |= np.isin(at, side.results.cpu_time().first)
    time_a, time_b = a.trace.duration[work.all_a], b.trace.duration[work.all_b]
    # A collective waits for the other ranks, so its time says nothing about the machine. Nor does the time of
    # work that runs beside a collective, or any other work, on one side only.
    crowded = np.abs(_beside(a, work.all_a) - _beside(b, work.all_b)) > CROWDED
    timed = ~grown & ~longer & ~often & ~crowded & ~communicates(a.trace)[a.trace.name[work.all_a]]
    long = float(np.median(counted[0].times))
    # If no kernels have other sizes, ops that have them take longer for that reason, and are reported that
    # way.
    changed = other | bigger if grown.any() else other & ~bigger
    usual = max(long, float(np.median(counted[1].times)))
    odd = (
        odd_calls((a, b), trees, calls, ~bigger & ~other, long)
        + changed_calls((a, b), trees, calls, changed & ~charged(trees, calls, changes), usual),
        odd_work((a, b), work, ~grown & ~longer & ~often, timed, float(np.median(counted[0].work_time))),
    )
    # Calls and work reported as unusually slow or fast do not count for the machine's speed.
    other |= np.isin(calls.a, np.concatenate([calls.a[:0], *(one.a for one in odd[0] if not one.once)]))
    timed &= ~np.isin(work.all_a, np.concatenate([work.a[:0], *(one.a for one in odd[1])]))
    # Without a device, ops take longer on larger inputs.
    alike = ~other & ~bigger if not len(work.all_a) else ~other
    same = ops & alike
    machine = Machine(
        ratio(own_a[calls.a[same]], own_b[calls.b[same]]),
        ratio(time_a[timed], time_b[timed]),
        int(np.count_nonzero(alike)),
        int(np.count_nonzero(timed)),
    )
    on_the_way = _same_path(a.trace, trees, calls, alike, len(rounds), PAUSE * usual)
    many = not changes or machine.calls >= FEW_CALLS
    in_general = (
        general(a.trace.name[calls.a[same]], own_a[calls.a[same]], own_b[calls.b[same]]),
        general(a.trace.name[work.all_a[timed]], time_a[timed], time_b[timed]),
    )
    # Kernels that follow each other within a graph take a different time than when launched one by one.
    of_graph = [by_graph(side, at[timed]) for side, at in ((a, work.all_a), (b, work.all_b))]
    relaunched = 2 * np.count_nonzero(of_graph[0] != of_graph[1]) > machine.work
    # Recording more costs more time in some calls than in others.
    recorded = options(a) != options(b)
    all_of_it = (
        recorded or _agree(machine.cpu_ratio, in_general[0]),
        not relaunched and _agree(machine.device_ratio, in_general[1]),
    )
    path = on_the_way[1] - on_the_way[0] if many and all_of_it[0] else 0.0
    # Faster calls do not make a step longer: then it is what lies between them.
    path *= path * ((machine.cpu_ratio or 1.0) - 1) > 0
    # If little is the same, it does not show how fast the machine was.
    much = 2 * int(time_a[timed].sum()) >= int(a.work_time.sum())
    device_drift = in_general[1] if much and not relaunched else 1.0
    much = 2 * int(own_a[calls.a[same]].sum()) >= int(a.op_time.sum())
    cpu_drift = _of_rounds((a, b), (calls.a[same], calls.b[same])) if much and many else 1.0
    cpu_drift = cpu_drift if all_of_it[0] else in_general[0]
    exact = on_the_way[0] == on_the_way[1] and device_drift == 1
    metrics = metrics_of(*counted, path, device_drift, cpu_drift, exact)
    known_idle = idle_known_of(a, b) and links_of(a, b) and not a.calls_only and not a.no_calls
    idle = idle_of(*counted, metrics["step_ns"].machine) if known_idle else {}
    start = idle.get("initialisation")
    first = (start.a or 0.0, start.b or 0.0) if start else (0.0, 0.0)
    facts = Facts(
        a,
        b,
        whole,
        work,
        calls,
        trees,
        changes,
        again,
        grown,
        longer,
        crowded,
        timed,
        bigger,
        other,
        odd,
        loads,
        gradients(a, b, calls),
        unsized(a, b),
        first,
        machine,
        all_of_it,
        path,
        (_outside(a, trees[0]), _outside(b, trees[1])),
        metrics,
        idle,
    )
    explanations, same_program = explain(facts)
    step = metrics["step_ns"]
    if step.within_noise and known(facts, explanations):
        metrics["step_ns"] = replace(step, within_noise=False)
        metrics["busy_share"] = replace(metrics["busy_share"], within_noise=busy_is_noise(metrics))
    strange = doubt(facts, len(explanations))
    return Comparison(
        *whole, tuple(rounds), work, calls, metrics, idle, machine, explanations,
        answer(facts, explanations, same_program), same_program, notes(facts, rounds, strange), strange,
    )  # fmt: skip


def compare_steps(results: Results, step: int, against: int | None = None) -> Comparison:
    """What one step of a trace does differently from another one, or from the median of all others. `step`,
    `against`: positions in the trace's step table. Raises IndexError."""
    count = len(results.step_table())
    others = [i for i in range(count) if i != step] if against is None else [against]
    if not others or not all(0 <= i < count for i in (step, *others)):
        raise IndexError(step)
    return compare(side_of(results, others), side_of(results, [step]))


def _agree(ratio: float | None, in_general: float) -> bool:
    """Whether what most names show (`in_general`) is at least half of an overall ratio, on a log scale.
    Always true for a ratio near 1."""
    told = float(np.log(ratio)) if ratio else 0.0
    return abs(told) < MACHINE_SHARE or float(np.log(in_general)) / told >= 0.5


def _of_rounds(sides: tuple[Side, Side], calls: tuple[I64, I64]) -> float:
    """How many times as long a round's calls took, from the medians, like the other numbers."""
    first, second = (
        float(np.median(sum_into(side.round_of(at), side.results.self_time()[at], side.rounds)))
        for side, at in zip(sides, calls, strict=True)
    )
    return second / first if first and second else 1.0


def _beside(side: Side, at: I64) -> F64:
    """For each event, the share of its time (0 to 1) in which another stream of its device works too. Shape
    of `at`."""
    trace, found = side.trace, np.zeros(len(at))
    device = device_of(trace)[trace.lane]
    start, length = trace.start[at], trace.duration[at]
    for one in np.unique(device[at]).tolist():
        work = by_start(trace, side.work[device[side.work] == one])
        begin, end = trace.start[work], trace.start[work] + trace.duration[work]
        # Of two that run at once, one began earlier and is still running.
        last = np.maximum.accumulate(end)
        which = np.maximum.accumulate(np.where(end == last, np.arange(len(end)), 0))[:-1]
        both = np.minimum(end[1:], last[:-1])
        two = (both > begin[1:]) & (trace.lane[work[which]] != trace.lane[work[1:]])
        beside = union(begin[1:][two], both[two])
        mine = (device[at] == one) & (length > 0)
        found[mine] = beside.within(start[mine], start[mine] + length[mine]) / length[mine]
    return found


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
    slower = spent[1] / spent[0] if spent[0] else 1.0
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


def _outside(side: Side, tree: CallTree) -> float:
    """How long none of the threads that make up a round was in any call: the median, ns."""
    low, high = side.windows
    return float(np.median(high - low - sum_into(tree.round, tree.own, side.rounds)))
