"""Two sides become a comparison: the numbers of a step, and what explains their difference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tracetui.analysis.causes import CAUSES
from tracetui.analysis.kinds import communicates
from tracetui.analysis.nesting import sum_into
from tracetui.analysis.results import Results
from tracetui.compare.calls import CallTree, call_tree
from tracetui.compare.changes import find_changes, otherwise
from tracetui.compare.explain import FEW_CALLS, OPTIONS, Facts, answer, explain, known, options
from tracetui.compare.match import Vocabulary, match_calls, match_work
from tracetui.compare.model import Comparison, Machine, Metric
from tracetui.compare.sides import Side, paced_by_device, pair_rounds, side_of
from tracetui.compare.timing import drift, ratio, resized
from tracetui.trace.model import F64, I64, Kind
from tracetui.units import plural

MACHINE_SHARE = 0.02
"""A median may differ by this share without being a difference, if steps vary at all."""

MOST_READ = 1 << 12
"""Copies whose sizes are read from the files."""
STRANGE = 0.05
"""Programs that have less than this in common are not the same one, changed."""


def compare(a: Results | Side, b: Results | Side) -> Comparison:
    """What `b` does differently from `a`. Results are compared with all their steps."""
    a, b = (one if isinstance(one, Side) else side_of(one) for one in (a, b))
    if not (len(a.steps) and len(b.steps)):
        # Steps are not compared with a recording that has none: then the whole is.
        a, b = side_of(a.results, []), side_of(b.results, [])
    whole = a, b
    rounds = pair_rounds(a, b)
    # From here on, the rounds that were paired; the numbers are of all.
    a, b = a.only([i for i, _ in rounds]), b.only([j for _, j in rounds])
    pairs = [(i, i) for i in range(len(rounds))]
    words = Vocabulary(a.trace, b.trace)
    trees = call_tree(a), call_tree(b)
    work, calls = match_work(a, b, pairs, words), match_calls(trees, a, b, pairs, words)
    changes = find_changes((a, b), trees, work, calls)
    grown = resized(a.trace, b.trace, work.all_a, work.all_b, True)
    ops = a.trace.kind[calls.a] == Kind.CPU_OP
    bigger = np.zeros(len(ops), dtype=np.bool_)
    bigger[ops] = resized(a.trace, b.trace, calls.a[ops], calls.b[ops], False)
    own_a, own_b = a.results.self_time(), b.results.self_time()
    other = otherwise((a, b), trees, calls, changes)
    for side, at in ((a, calls.a), (b, calls.b)):
        if side.results.gaps().devices:
            other |= np.isin(at, side.results.cpu_time().first)
    same = ops & ~bigger & ~other
    time_a, time_b = a.trace.duration[work.all_a], b.trace.duration[work.all_b]
    # A collective waits for the other ranks: its time says nothing of the machine.
    timed = ~grown & ~communicates(a.trace)[a.trace.name[work.all_a]]
    machine = Machine(
        ratio(own_a[calls.a[same]], own_b[calls.b[same]]),
        ratio(time_a[timed], time_b[timed]),
        int(np.count_nonzero(~bigger & ~other)),
        int(np.count_nonzero(timed)),
    )
    on_the_way = _same_path(trees, calls.a[~other], calls.b[~other], len(rounds))
    # Where little is the same, it does not say how fast the machine was.
    much = 2 * int(time_a[timed].sum()) >= int(a.work_time.sum())
    device_drift = drift(time_a[timed], time_b[timed]) if much else 1.0
    much = 2 * int(own_a[calls.a[same]].sum()) >= int(_op_time(a).sum())
    much = much and (not changes or machine.calls >= FEW_CALLS)
    cpu_drift = (machine.cpu_ratio or 1.0) if much else 1.0
    metrics = _metrics(*whole, on_the_way, device_drift, cpu_drift)
    idle = _idle(*whole)
    first = next(
        ((float(one), float(other)) for cause, one, other in idle if cause == "initialisation"), (0.0, 0.0)
    )
    facts = Facts(
        a,
        b,
        whole,
        work,
        calls,
        trees,
        changes,
        grown,
        timed,
        bigger,
        other,
        first,
        machine,
        on_the_way,
        metrics,
    )
    explanations, same_program = explain(facts)
    step = metrics["step_ns"]
    if step.within_noise and known(facts, explanations):
        metrics["step_ns"] = replace(step, within_noise=False)
    return Comparison(
        *whole, tuple(rounds), work, calls, metrics, idle, machine, explanations,
        answer(facts, explanations, same_program), same_program, _notes(*whole, rounds, machine),
    )  # fmt: skip


def compare_steps(results: Results, step: int, against: int | None = None) -> Comparison:
    """What one step of a trace does differently from another one, or from the median of all others. `step`,
    `against`: positions in the trace's step table. Raises IndexError."""
    count = len(results.step_table())
    others = [i for i in range(count) if i != step] if against is None else [against]
    if not others or not all(0 <= i < count for i in (step, *others)):
        raise IndexError(step)
    return compare(side_of(results, others), side_of(results, [step]))


def _same_path(trees: tuple[CallTree, CallTree], a: I64, b: I64, rounds: int) -> tuple[float, float]:
    """What the calls that are the same, but for waiting, add to a round of each side: the medians, ns."""
    found = []
    for tree, at in zip(trees, (a, b), strict=True):
        place = tree.place[at]
        place = place[~tree.waits[place]]
        found.append(float(np.median(sum_into(tree.round[place], (tree.own + tree.before)[place], rounds))))
    return found[0], found[1]


def _metrics(
    a: Side, b: Side, path: tuple[float, float], device_drift: float, cpu_drift: float
) -> dict[str, Metric]:
    def of(
        values: Callable[[Side], F64 | I64],
        explained: Callable[[float], float] = lambda _: 0.0,
        slack: float = 0.0,
    ) -> Metric:
        one, other = np.asarray(values(a), np.float64), np.asarray(values(b), np.float64)
        if not len(one) or not len(other):
            return Metric(None, None, True)
        left, right = float(np.median(one)), float(np.median(other))
        vary = max(_vary(one), _vary(other))
        machine = explained(left)
        rest = abs(right - left - machine)
        return Metric(
            left, right, rest <= max(vary, slack * max(left, right)),
            (float(one.min()), float(one.max())), (float(other.min()), float(other.max())), machine,
        )  # fmt: skip

    def rows(field: str) -> Callable[[Side], I64]:
        return lambda side: np.array([getattr(row, field) for row in side.rows], dtype=np.int64)

    def drifted(left: float) -> float:
        return left * (device_drift - 1)

    # Of one and the same recording nothing is noise.
    slack = 0.0 if path[0] == path[1] and device_drift == 1 else MACHINE_SHARE
    found = {
        "step_ns": of(lambda side: side.times, lambda left: _pace(a, b, path, left, drifted), slack),
        "device_ns": of(lambda side: side.work_time, drifted, slack),
        "compute_ns": of(rows("compute"), drifted, slack),
        "communication_ns": of(rows("exposed_communication"), drifted, slack),
        "copies_ns": of(rows("exposed_copy"), drifted, slack),
        "launches": of(rows("launches")),
        "kernels": of(rows("kernels")),
        "copied_bytes": of(_copied),
        "cpu_op_ns": of(_op_time, lambda left: left * (cpu_drift - 1), slack),
    }
    step, work = found["step_ns"], found["device_ns"]
    if paced_by_device(a) and paced_by_device(b) and not work.within_noise:
        # Steps that vary on the CPU do not hide what the device, which sets the pace, does otherwise.
        against = (step.change or 0) * (work.change or 0) <= 0
        found["step_ns"] = replace(step, within_noise=step.within_noise and against)
    if len(a.busy_shares) and len(b.busy_shares):
        busy = of(lambda side: side.busy_shares, slack=0.0)
        noise = found["step_ns"].within_noise and found["device_ns"].within_noise
        found["busy_share"] = Metric(busy.a, busy.b, busy.within_noise or noise, busy.spread_a, busy.spread_b)
    else:
        found["busy_share"] = Metric(None, None, True)
    return found


def _pace(
    a: Side, b: Side, path: tuple[float, float], step: float, drifted: Callable[[float], float]
) -> float:
    """How much longer a step takes because the machine was slower: on the device, if that sets the pace, else
    on the CPU."""
    if paced_by_device(a) and paced_by_device(b):
        return drifted(step)
    return path[1] - path[0]


def _vary(values: F64) -> float:
    """Three standard errors of the median of these values, estimated from their median deviation."""
    away = float(np.median(np.abs(values - np.median(values))))
    return 3 * 1.2533 * 1.4826 * away / float(np.sqrt(len(values)))


def _copied(side: Side) -> I64:
    """The bytes that the copies of each round move; none at all where there are too many to read."""
    trace = side.trace
    copies = trace.kind[side.work] == Kind.MEMCPY
    if np.count_nonzero(copies) > MOST_READ:
        return np.zeros(0, dtype=np.int64)
    sizes = [args.get("bytes") for args in trace.args_of(side.work[copies])]
    known = np.array([n if isinstance(n, int) and 0 <= n < 1 << 50 else 0 for n in sizes], dtype=np.int64)
    return sum_into(side.work_round[copies], known, side.rounds)


def _op_time(side: Side) -> I64:
    ops = side.trace.kind[side.calls] == Kind.CPU_OP
    return sum_into(side.call_round[ops], side.results.self_time()[side.calls[ops]], side.rounds)


def _idle(a: Side, b: Side) -> tuple[tuple[str, int, int], ...]:
    def median(side: Side, cause: str) -> int:
        times = [one.get(cause, 0) for one in side.idle]
        return round(float(np.median(times))) if times else 0

    found = [(cause, median(a, cause), median(b, cause)) for cause in CAUSES]
    return tuple(sorted((one for one in found if one[1] or one[2]), key=lambda one: -max(one[1:])))


def _notes(a: Side, b: Side, pairs: list[tuple[int, int]], machine: Machine) -> tuple[str, ...]:
    found = []
    has_a, has_b = len(a.results.step_table()), len(b.results.step_table())
    if not len(a.steps) and (has_a or has_b):
        which = "A" if has_a else "B"
        found.append(f"only {which} has steps: the recordings are compared as wholes")
    elif not len(a.steps):
        found.append("there are no steps: the recordings are compared as wholes")
    if a.rounds != b.rounds and len(a.steps):
        found.append(f"A has {plural(a.rounds, 'step')}, B {b.rounds}: {plural(len(pairs), 'pair')} matched")
    sources = [side.results.step_table().source for side in (a, b)]
    if len(a.steps) and sources[0] != sources[1]:
        found.append(f"the steps of A come from {sources[0]}, those of B from {sources[1]}")
    if max(machine.calls, machine.work) < STRANGE * max(len(b.calls), len(b.work)):
        found.append("hardly anything is the same in both: is this the same program?")
    if paced_by_device(a) and paced_by_device(b):
        found.append(
            "the GPU sets the pace: what the CPU does meanwhile does not make a step longer, and a step's "
            "time runs from the end of one step's work to that of the next"
        )
    names = [_device(side) for side in (a, b)]
    if all(names) and names[0] != names[1]:
        found.append(f"A was recorded on {names[0]}, B on {names[1]}")
    for (_, words), had_a, had_b in zip(OPTIONS, options(a), options(b), strict=True):
        if had_a != had_b:
            found.append(f"only {'A' if had_a else 'B'} recorded {words}, which costs time on the CPU")
    return tuple(found)


def _device(side: Side) -> str:
    from tracetui.safe_text import plain

    name = next(iter(side.trace.info.devices), {}).get("name")
    return plain(name, 60) if isinstance(name, str) else ""
