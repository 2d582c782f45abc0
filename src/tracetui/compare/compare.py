"""Compares two sides: the numbers of a step, and what explains the difference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracetui.analysis.device_work import decoded_names
from tracetui.analysis.devices import by_start, device_of
from tracetui.analysis.findings.ops import recomputation
from tracetui.analysis.kinds import communicates
from tracetui.analysis.results import Results
from tracetui.analysis.select import named, plausible
from tracetui.analysis.sums import sum_into
from tracetui.compare.again import as_change, find_again, give_calls, without
from tracetui.compare.answer import answer, known
from tracetui.compare.calls import CallTree, call_tree
from tracetui.compare.changes import find_changes, otherwise
from tracetui.compare.charges import charge, charged, without_loading
from tracetui.compare.explain import FEW_CALLS, explain
from tracetui.compare.facts import LIKE, OPTIONS, Facts, options
from tracetui.compare.joining import joined, strangers
from tracetui.compare.match import Matches, Vocabulary, match_calls, match_work
from tracetui.compare.metrics import (
    MACHINE_SHARE,
    busy_is_noise,
    idle_known_of,
    idle_of,
    linked,
    links_of,
    metrics_of,
)
from tracetui.compare.model import Comparison, Machine, counted_of
from tracetui.compare.naming import listed
from tracetui.compare.sides import Side, by_graph, device_name, loads_otherwise, pair_rounds, side_of
from tracetui.compare.timing import changed_calls, general, odd_calls, odd_work, ratio, resized, stretched
from tracetui.copying import replace
from tracetui.trace.intervals import union
from tracetui.trace.model import DEVICE_WORK, F64, I64, Bool, Kind, Trace
from tracetui.trace.unknown import missing_kernels
from tracetui.units import duration, plural, share

STRANGE = 0.05
"""If two programs have less than this in common, B is not a changed version of A."""
LITTLE, MANY = 0.25, 12
"""With so little of the GPU's work in common and so many explanations, it probably is not either,"""
WITHIN = 0.75
"""unless nearly all of one is in the other, which does much else besides."""
CROWDED = 0.1
"""Work may be slower because other work runs beside it if the share of its time with such work differs by
this much between the sides."""

PAUSE = 0.03
"""If only one side has a pause between two calls, and it is at least this share of a step, it has nothing to
do with the machine's speed."""

SAMPLED = 256
"""The most ops whose arguments are read."""

WAITS = 0.001
"""If a device waits for the CPU for a smaller share of a step than this, that is not mentioned."""


def compare(a: Results | Side, b: Results | Side) -> Comparison:
    """What `b` does differently from `a`. Results are compared with all their steps."""
    a, b = (one if isinstance(one, Side) else side_of(one) for one in (a, b))
    if not (len(a.steps) and len(b.steps)):
        # Steps are not compared with a recording that has none: compare the whole recordings.
        a, b = side_of(a.results, []), side_of(b.results, [])
    lost = any(missing_kernels(side.trace) or side.trace.cut_off for side in (a, b))
    if lost or _unrecorded_work(a, b) or _nothing(a, b):
        a, b = replace(a, calls_only=True), replace(b, calls_only=True)
    if _unrecorded_cpu(a, b) or _nothing(a, b):
        a, b = replace(a, work_only=True, no_calls=True), replace(b, work_only=True, no_calls=True)
    elif _unrecorded_ops(a, b):
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
        _gradients(a, b, calls),
        _unsized(a, b),
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
    strange = _strange(facts, len(explanations))
    return Comparison(
        *whole, tuple(rounds), work, calls, metrics, idle, machine, explanations,
        answer(facts, explanations, same_program), same_program, _notes(facts, rounds, strange), strange,
    )  # fmt: skip


def compare_steps(results: Results, step: int, against: int | None = None) -> Comparison:
    """What one step of a trace does differently from another one, or from the median of all others. `step`,
    `against`: positions in the trace's step table. Raises IndexError."""
    count = len(results.step_table())
    others = [i for i in range(count) if i != step] if against is None else [against]
    if not others or not all(0 <= i < count for i in (step, *others)):
        raise IndexError(step)
    return compare(side_of(results, others), side_of(results, [step]))


def _unrecorded_work(a: Side, b: Side) -> str:
    """Which side recorded nothing on the device although it launches kernels: "A", "B", or "" if both
    recorded some, or neither did."""
    return _one_without(a, b, *DEVICE_WORK)


def _nothing(a: Side, b: Side) -> str:
    """Which side has nothing to compare: "A", "B", or "" if both have something."""
    return next((c for c, one in zip("AB", (a, b), strict=True) if not one.results.whole.analysable()), "")


def _unrecorded_cpu(a: Side, b: Side) -> str:
    """Which side recorded nothing on the CPU, while both recorded the device: "A", "B" or ""."""
    work_a, work_b = (len(plausible(side.trace, *DEVICE_WORK)) for side in (a, b))
    has_a, has_b = (bool(len(plausible(side.trace, Kind.CPU_OP, Kind.RUNTIME))) for side in (a, b))
    return ("B" if has_a else "A") if has_a != has_b and work_a and work_b else ""


def _unrecorded_ops(a: Side, b: Side) -> str:
    """Which side recorded no ops although it launches kernels, and not by a graph: "A", "B" or ""."""
    return _one_without(a, b, Kind.CPU_OP)


def _some_ops(side: Side, calls: I64) -> list[dict[str, Any]]:
    """The arguments of the first of these calls that are ops: they are near each other in the file."""
    return side.trace.args_of(calls[side.trace.kind[calls] == Kind.CPU_OP][:SAMPLED])


def _unsized(a: Side, b: Side) -> bool:
    """Whether ops take longer on larger inputs (because they compute on the CPU), and the input sizes were
    not recorded on both sides."""
    computes = not any(len(plausible(side.trace, *DEVICE_WORK)) for side in (a, b))
    sized = (any(args.get("Input Dims") for args in _some_ops(side, side.calls)) for side in (a, b))
    return computes and not all(sized)


def _gradients(a: Side, b: Side, calls: Matches) -> str:
    """The only side that records what a backward pass would need: "A" or "B". "" if both do or neither does,
    or if too few calls are the same: a compiled function or a graph does not show it."""
    if 2 * len(calls.a) < max(len(a.calls), len(b.calls)):
        return ""
    has = []
    for side, at in ((a, calls.a), (b, calls.b)):
        numbers = [args.get("Sequence number") for args in _some_ops(side, at)]
        has.append(any(isinstance(number, int) and number >= 0 for number in numbers))
    return ("A" if has[0] else "B") if has[0] != has[1] else ""


def _one_without(a: Side, b: Side, *kinds: Kind) -> str:
    has_a, has_b = (bool(len(plausible(side.trace, *kinds))) for side in (a, b))
    trace = (b if has_a else a).trace
    launches = named(trace, lambda name: "LaunchKernel" in name)[trace.name[plausible(trace, Kind.RUNTIME)]]
    return ("B" if has_a else "A") if has_a != has_b and launches.any() else ""


def _strange(facts: Facts, told: int) -> str:
    """A question to ask if the two programs have so little in common that one is hardly a changed version of
    the other. `told`: the number of explanations."""
    if facts.again is not None:
        return ""
    a, b = facts.sides
    sizes = (a.work, b.work, facts.work.a), (a.calls, b.calls, facts.calls.a)
    known = [
        (*sorted((len(one), len(other))), len(both)) for one, other, both in sizes if len(one) or len(other)
    ]
    same = [both / most for _, most, both in known]
    if not (_compiled(a, b) or _compiled(b, a)) and max(same, default=1.0) < STRANGE:
        return "A and B have hardly anything in common: is this the same program?"
    # Nearly all of the smaller program is in the larger one, which does much else besides.
    within = all(both >= WITHIN * least for least, _, both in known)
    # A compiler leaves little of a program unchanged.
    within |= any(any(name.startswith("triton_") for name in side.trace.names) for side in (a, b))
    many = told > MANY or strangers(facts.sides, facts.work)
    if many and len(same) == 2 and same[0] < LITTLE and same[1] < 0.5 and not within:
        of = f"{share(same[0])} of the GPU's work and {share(same[1])} of the calls"
        return f"by name only {of} are the same in both: is this the same program?"
    return ""


def _compiled(a: Side, b: Side) -> bool:
    """Whether the names of `b`'s compiled kernels mostly mention ops that `a` runs."""
    fused = {
        op for name in decoded_names(b.trace, b.work).values() if name.family == "triton" for op in name.ops
    }
    names = {a.trace.names[i] for i in np.unique(a.trace.name[a.calls]).tolist()}
    ops = {name.rpartition("::")[2].strip("_") for name in names}
    ops |= {op for name in decoded_names(a.trace, a.work).values() for op in name.ops}
    return bool(fused) and 2 * len(fused & ops) >= len(fused)


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


def _notes(facts: Facts, pairs: Sequence[tuple[int, int]], strange: str) -> tuple[str, ...]:
    a, b = facts.whole
    found = []
    has_a, has_b = len(a.results.step_table()), len(b.results.step_table())
    if not len(a.steps) and (has_a or has_b):
        which = "A" if has_a else "B"
        found.append(f"only {which} has steps: the recordings are compared as wholes")
    elif not len(a.steps):
        found.append("there are no steps: the recordings are compared as wholes")
    if a.rounds != b.rounds and len(a.steps):
        what = f"A has {plural(a.rounds, 'step')}, B {b.rounds}"
        one, other = counted_of(a, b, pairs)
        if one is not a or other is not b:
            found.append(f"{what}: the numbers cover the {len(pairs)} that were matched on each side")
        elif len(pairs) > 1:
            found.append(f"{what}: {len(pairs)} were matched on each side; the numbers cover all steps")
        else:
            left, right = (side.label(i) for side, i in zip((a, b), pairs[0], strict=True))
            found.append(f"{what}: {left} of A and {right} of B were matched; the numbers cover all steps")
    if facts.shifted:
        sources = [side.results.step_table().source for side in (a, b)]
        found.append(f"the steps of A come from {sources[0]}, those of B from {sources[1]}")
    if letter := _nothing(a, b):
        return (*found, f"{letter} has no events of PyTorch's profiler: there is nothing to compare")
    if strange:
        found.append(strange)
    for letter, side in zip("AB", (a, b), strict=True):
        if side.trace.cut_off:
            found.append(
                f"the file of {letter} is cut off: only calls are compared, and what is gone may be missing"
            )
        elif lost := missing_kernels(side.trace):
            found.append(
                f"{letter} lost the kernels of {plural(lost, 'launch', 'launches')}: only calls are compared"
            )
    if not links_of(a, b) and not a.no_calls:
        which = "A" if linked(b.trace) else "B"
        found.append(
            f"{which} does not show what launched the GPU's work: its steps contain what ran during them"
        )
    if (letter := _unrecorded_work(a, b)) and a.work_only:
        found.append(
            f"{letter} did not record the GPU, and the other did not record ops: only launches are compared"
        )
    elif letter:
        found.append(f"{letter} did not record the GPU: only calls are compared")
    elif letter := _unrecorded_cpu(a, b):
        found.append(f"{letter} did not record the CPU: only the GPU's work is compared")
    elif letter := _unrecorded_ops(a, b):
        found.append(
            f"{letter} did not record ops, which costs time on the CPU: only launches and what they run are "
            "compared"
        )
    if facts.by_device:
        before, after = facts.waited
        meanwhile = "what the CPU does meanwhile does not make a step longer"
        if max(before, after) >= WAITS * facts.step:
            held = f"{duration(after)}{facts.each} in B, {duration(before)} in A"
            meanwhile = f"what the CPU does makes a step longer only where the GPU waits for it ({held})"
        found.append(
            f"the GPU sets the pace: {meanwhile}, and a step's time runs from the end of one step's work to "
            "that of the next"
        )
    names = [device_name(side) for side in (a, b)]
    if all(names) and names[0] != names[1]:
        found.append(f"A was recorded on {names[0]}, B on {names[1]}")
    for (_, words), had_a, had_b in zip(OPTIONS, options(a), options(b), strict=True):
        if had_a != had_b:
            found.append(f"only {'A' if had_a else 'B'} recorded {words}, which costs time on the CPU")
    if facts.gradients and not strange:
        found.append(
            f"gradients are on only in {facts.gradients}: its ops record what a backward pass would need"
        )
    if not strange and not facts.within:
        again = [next(recomputation(side.results), None) for side in (a, b)]
        if (again[0] is None) != (again[1] is None):
            letter, more = ("A", again[0]) if again[0] is not None else ("B", again[1])
            spent = duration(more.numbers["cpu_ns"]) if more is not None else ""
            found.append(
                f"the backward pass of {letter} runs forward ops again, for {spent} on the CPU, as "
                "activation checkpointing does"
            )
        found += _annotations(a, b)
    return tuple(found)


def _annotations(a: Side, b: Side) -> list[str]:
    """Which annotations only one side has, if they come in most steps."""
    names = [side.annotations for side in (a, b)]
    mine = [[name for key, name in one.items() if key not in other] for one, other in (names, names[::-1])]
    many = "annotations" if any(len(some) > 1 for some in mine) else "annotation"
    has = f"has the {many} "
    told: list[str] = []
    for letter, some in zip("AB", mine, strict=True):
        if some:
            told.append(f"only {letter} {'' if told else has}{listed(some)}")
    return [", ".join(told)] if told else []
