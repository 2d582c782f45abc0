"""Compares two sides: the numbers of a step, and what explains the difference."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracetui.analysis.devices import by_start, device_of
from tracetui.analysis.idle.cpu_time import cpu_time_of
from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.idle.kinds import communicates
from tracetui.analysis.part import Part
from tracetui.analysis.steps.scope import step_table_of
from tracetui.compare.answer import answer, in_turn, known
from tracetui.compare.attribution import attribute_calls, attributed, without_loading
from tracetui.compare.calls import call_tree
from tracetui.compare.changes import find_changes, otherwise
from tracetui.compare.context import ComparisonContext, Matched, Pairs
from tracetui.compare.explain import explain
from tracetui.compare.machine_speed import speed_of
from tracetui.compare.match import Vocabulary, match_calls, match_work
from tracetui.compare.merging import merge_changes
from tracetui.compare.metrics import busy_is_noise, idle_known_of, idle_of, links_of, metrics_of
from tracetui.compare.model import Comparison, counted_of
from tracetui.compare.notes import mismatch_warning, notes
from tracetui.compare.paired import paired, places_in_turn
from tracetui.compare.repeated_work import as_change, find_repeated_work, give_calls, without
from tracetui.compare.sides import Side, loads_otherwise, pair_rounds, side_of
from tracetui.compare.timing import changed_calls, odd_calls, odd_work, resized, stretched
from tracetui.compare.unrecorded import recorded_by_both
from tracetui.core.copying import replace
from tracetui.trace.intervals import union
from tracetui.trace.model import F64, I64, Kind

CROWDED = 0.1
"""Work may be slower because other work runs beside it if the share of its time with such work differs by
this much between the sides."""


def compare(a: Part | Side, b: Part | Side) -> Comparison:
    """What `b` does differently from `a`. Results are compared with all their steps."""
    a, b = whole = recorded_by_both(*(one if isinstance(one, Side) else side_of(one) for one in (a, b)))
    rounds = pair_rounds(a, b)
    counted = counted_of(a, b, rounds)
    matched = _matched(whole, rounds)
    pairs = _pairs(matched, counted)
    speed = speed_of(matched, pairs, counted)
    metrics = metrics_of(*counted, speed)
    known_idle = idle_known_of(a, b) and links_of(a, b) and not a.calls_only and not a.no_calls
    idle = idle_of(*counted, metrics["step_ns"].machine) if known_idle else {}
    facts = ComparisonContext(whole, matched, pairs, speed, metrics, idle)
    explanations, same_program = explain(facts)
    step = metrics["step_ns"]
    if step.within_noise and known(facts, explanations):
        metrics["step_ns"] = replace(step, within_noise=False)
        metrics["busy_share"] = replace(metrics["busy_share"], within_noise=busy_is_noise(metrics))
    strange = mismatch_warning(facts, len(explanations))
    said, rounds_of = answer(facts, explanations, same_program), paired(a, b)
    if rounds_of is not None:
        said = in_turn(rounds_of, step.a or 0.0)
        metrics["step_ns"] = replace(metrics["step_ns"], within_noise=not rounds_of.clear)
    return Comparison(
        a, b, tuple(rounds), matched.work, matched.calls, metrics, idle, speed.machine, explanations,
        said, same_program, notes(facts, rounds, strange), strange, rounds_of,
    )  # fmt: skip


def compare_steps(part: Part, step: int, against: int | None = None) -> Comparison:
    """What one step of a trace does differently from another one, or from the median of all others. `step`,
    `against`: positions in the trace's step table. Raises IndexError."""
    count = len(step_table_of(part))
    others = [i for i in range(count) if i != step] if against is None else [against]
    if not others or not all(0 <= i < count for i in (step, *others)):
        raise IndexError(step)
    return compare(side_of(part, others), side_of(part, [step]))


def compare_in_turn(part: Part) -> Comparison:
    """What B does differently from A in a recording that has both in turn. Raises LookupError, with a message
    for the user, if it does not."""
    a, b = places_in_turn(side_of(part))
    if not len(a):
        raise LookupError("the trace has no annotations A and B in turn")
    return compare(side_of(part, a.tolist()), side_of(part, b.tolist()))


def _matched(whole: tuple[Side, Side], rounds: Sequence[tuple[int, int]]) -> Matched:
    """What both sides do in these rounds, and what only one of them does."""
    sides = a, b = whole[0].only([i for i, _ in rounds]), whole[1].only([j for _, j in rounds])
    paired = [(i, i) for i in range(len(rounds))]
    words = Vocabulary(a.trace, b.trace)
    trees = call_tree(a), call_tree(b)
    work, calls = match_work(a, b, paired, words), match_calls(trees, a, b, paired, words)
    repeated_work, found = find_repeated_work(sides, trees, words), find_changes(sides, trees, work, calls)
    changes = merge_changes(sides, work, calls, found)
    if repeated_work and repeated_work.larger is None and any(one.block for one in changes):
        repeated_work = None  # if nothing but layers was added, report more layers
    if repeated_work:
        changes = [
            *merge_changes(sides, work, calls, without(repeated_work, found)),
            as_change(repeated_work, sides),
        ]
    rest = attribute_calls(sides, trees, calls, changes, words)
    repeated = (
        give_calls(repeated_work, trees, rest, changes[-1], calls)
        if repeated_work
        else np.zeros(len(calls.a), bool)
    )
    loads = without_loading(sides, rest) if loads_otherwise(*whole) else (calls.a[:0], calls.b[:0])
    changes += [rest] if rest.a.events or rest.b.events else []
    return Matched(sides, work, calls, trees, changes, repeated_work, repeated, loads)


def _pairs(matched: Matched, counted: tuple[Side, Side]) -> Pairs:
    """Which pairs do the same, and which of those took an odd time. `counted`: see `counted_of`."""
    sides, work, calls, trees, changes, again, *_ = matched
    (a, b), at_a, at_b = sides, work.all_a, work.all_b
    often = again.pairs(at_a, at_b) if again else np.zeros(len(at_a), dtype=np.bool_)
    grown = resized(a.trace, b.trace, at_a, at_b, True) & ~often
    longer = stretched(a.trace, b.trace, at_a, at_b, grown) & ~often
    same = ~grown & ~longer & ~often
    # A collective waits for the other ranks, so its time says nothing about the machine. Nor does the time of
    # work that runs beside a collective, or any other work, on one side only.
    crowded = np.abs(_beside(a, at_a) - _beside(b, at_b)) > CROWDED
    timed = same & ~crowded & ~communicates(a.trace)[a.trace.name[at_a]]
    ops = a.trace.kind[calls.a] == Kind.CPU_OP
    bigger = np.zeros(len(ops), dtype=np.bool_)
    bigger[ops] = resized(a.trace, b.trace, calls.a[ops], calls.b[ops], False)
    other = otherwise(sides, trees, calls, changes) | matched.repeated
    for side, at in zip(sides, (calls.a, calls.b), strict=True):
        if gaps_of(side.part).devices:
            other |= np.isin(at, cpu_time_of(side.part).first)
    # If no kernels have other sizes, ops that have them take longer for that reason, and are reported that
    # way.
    changed = other | bigger if grown.any() else other & ~bigger
    long, after = (float(np.median(side.times)) for side in counted)
    odd = (
        odd_calls(sides, trees, calls, ~bigger & ~other, long)
        + changed_calls(sides, trees, calls, changed & ~attributed(trees, calls, changes), max(long, after)),
        odd_work(sides, work, same, timed, float(np.median(counted[0].work_time))),
    )
    # Calls and work reported as unusually slow or fast do not count for the machine's speed.
    other |= np.isin(calls.a, np.concatenate([calls.a[:0], *(one.a for one in odd[0] if not one.once)]))
    timed &= ~np.isin(at_a, np.concatenate([at_a[:0], *(one.a for one in odd[1])]))
    return Pairs(grown, longer, crowded, timed, bigger, other, odd)


def _beside(side: Side, at: I64) -> F64:
    """For each event, the share of its time (0 to 1) in which another stream of its device works too. Shape
    of `at`."""
    trace, found = side.trace, np.zeros(len(at))
    device = device_of(trace)[trace.lane]
    start, length = trace.start[at], trace.duration[at]
    for one in np.unique(device[at]).tolist():
        work = by_start(trace, side.work[device[side.work] == one])
        begin, end = trace.start[work], trace.end_of(work)
        # Of two that run at once, one began earlier and is still running.
        last = np.maximum.accumulate(end)
        which = np.maximum.accumulate(np.where(end == last, np.arange(len(end)), 0))[:-1]
        both = np.minimum(end[1:], last[:-1])
        two = (both > begin[1:]) & (trace.lane[work[which]] != trace.lane[work[1:]])
        beside = union(begin[1:][two], both[two])
        mine = (device[at] == one) & (length > 0)
        found[mine] = beside.overlap(start[mine], start[mine] + length[mine]) / length[mine]
    return found
