"""What one side does and the other does not, in sentences."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tracetui.analysis.device_work import op_behind
from tracetui.analysis.select import distinct, named
from tracetui.compare.changes import Change
from tracetui.compare.facts import Facts
from tracetui.compare.model import Explanation
from tracetui.compare.naming import by_time, called, counted, is_, listed, moves, short, shorts
from tracetui.compare.places import telling
from tracetui.compare.repeats import longer_run
from tracetui.compare.sides import Side
from tracetui.trace.model import I64, Kind, Trace
from tracetui.units import duration, plural

GUARDS = ("TorchDynamo Cache Lookup", "Pregraph bytecode", "AOTDispatcher Runtime Wrapper Prologue")
NEAR = 4
"""Events of a stream: what follows at once."""


def device_changes(facts: Facts) -> Iterator[Explanation]:
    trace = facts.a.trace
    both = {trace.names[i] for i in distinct(trace.name[facts.work.all_a], len(trace.names)).tolist()}
    for change in facts.changes:
        if change.kind != "calls":
            a, b = (np.array(part.events, dtype=np.int64) for part in (change.a, change.b))
            before, after = facts.work_time(a, b)
            cpu = change.a.cpu / facts.count, change.b.cpu / facts.count
            text = _sentence(facts, change, (before, after), cpu, both)
            places = _places(facts, change, a, b)
            yield facts.told(change.kind, text, after - before, "device", a, b, places, cpu[1] - cpu[0])


def _places(facts: Facts, change: Change, a: I64, b: I64) -> I64:
    ends = np.array(change.ends, dtype=np.int64).reshape(-1, 2).T
    found = [
        telling(
            side.trace,
            at,
            np.searchsorted(end, np.arange(len(at)), side="right"),
            side.trace.duration[at],
            len(end),
        )
        for side, at, end in zip(facts.sides, (a, b), ends, strict=True)
    ]
    return np.stack(found, axis=1)


def _sentence(
    facts: Facts, change: Change, time: tuple[float, float], cpu: tuple[float, float], both: set[str]
) -> str:
    """`both`: the names of work that both sides do."""
    left, right = called(facts.a, change.a), called(facts.b, change.b)
    where = _where(facts, change)
    right = f"another {right}" if left == right else right
    if change.kind == "order":
        return f"{left} runs in another place{where}."
    if change.kind in ("new", "gone"):
        return _one_sided(facts, change, left or right, time, cpu, both)
    # Where the calls of one side count elsewhere, there is nothing to compare.
    on_cpu = f", {duration(cpu[0])} → {duration(cpu[1])} on the CPU" if all(cpu) else ""
    spent = f"{duration(time[0])} → {duration(time[1])} on the GPU{on_cpu}{facts.each}"
    return f"{left} became {right}{where}: {spent}."


def _one_sided(
    facts: Facts,
    change: Change,
    name: str,
    time: tuple[float, float],
    cpu: tuple[float, float],
    both: set[str],
) -> str:
    """`name`: of the events; `both`: the names of work that both sides do."""
    new, where = change.kind == "new", _where(facts, change)
    side, part = (facts.b, change.b) if new else (facts.a, change.a)
    on_cpu = f", {duration(cpu[new])} on the CPU" if cpu[new] else ""
    if waits := part.waits / facts.count:
        on_cpu += f" ({duration(waits)} of that waiting for the GPU)"
    spent = f"{duration(time[new])} on the GPU{on_cpu}{facts.each}"
    more = len(change.rounds) == facts.count and all(side.trace.name_of(i) in both for i in part.events)
    if block := longer_run(facts, change):
        before, after = block.times
        number = "One" if abs(after - before) == 1 else str(abs(after - before))
        times = f"{plural(after, 'time')} in a row instead of {before}"
        return (
            f"{number} {'more' if new else 'fewer'} of a block of {block.size} kernels, copies and sets"
            f"{where}, which comes {times} ({name}): {spent}."
        )
    if change.what:
        many = len(part.events) / (facts.count if len(change.rounds) == facts.count else len(change.rounds))
        only = "" if len(change.rounds) == facts.count else where
        which = f"({listed(shorts(side.trace, part.events))})"
        if more:
            number = counted(many, f"{'more' if new else 'fewer'} {change.what}")
            return f"{number}{facts.each}{only} {which}: {spent}."
        number = counted(many, change.what)
        verb = "is" if number.startswith("1 ") else "are"
        return f"{number}{facts.each}{only} {which} {verb} {change.kind}: {spent}."
    if new:
        where = _ahead(facts, change) + where
    told = f"{is_(name)} {change.kind}"
    if more:
        told = f"{'runs' if is_(name) == 'is' else 'run'} {'more' if new else 'less'} often"
    return f"{name} {told}{where}: {spent}."


def _where(facts: Facts, change: Change) -> str:
    """In how many places of a step, or in which steps alone."""
    rounds = sorted({pair[1] for pair in change.rounds})
    if len(facts.b.steps) and len(rounds) < facts.count:
        one = f" in {facts.b.label(rounds[0])}"
        return one if len(rounds) == 1 else f" in {len(rounds)} of {facts.count} steps"
    many = round(len(change.ends) / max(1, len(rounds)))
    return f", {many:,} times" if many > 1 and change.kind != "order" else ""


def _ahead(facts: Facts, change: Change) -> str:
    """What a new copy or set is right before: a kernel of the same op."""
    trace, at = facts.b.trace, change.b.events[0]
    near = np.arange(at, min(trace.lanes[int(trace.lane[at])].last, at + 1 + NEAR))
    op = op_behind(trace, near)
    kernel = near[(trace.kind[near] == Kind.KERNEL) & (op == op[0]) & (op >= 0)]
    if not moves(trace, change.b.events) or not len(kernel):
        return ""
    return f" before {short(trace, int(kernel[0]))}"


# On the CPU


def call_changes(facts: Facts) -> Iterator[Explanation]:
    change = next((one for one in facts.changes if one.kind == "calls"), None)
    if change is None:
        return
    at = [np.array(part.events, dtype=np.int64) for part in (change.a, change.b)]
    is_guard = [named(side.trace, GUARDS.__contains__) for side in facts.sides]
    guard = [is_guard[k][side.trace.name[at[k]]] for k, side in enumerate(facts.sides)]
    for kind, tell in (("guards", _guards_text), ("calls", _calls_text)):
        a, b = (one[mask if kind == "guards" else ~mask] for one, mask in zip(at, guard, strict=True))
        if len(a) or len(b):
            before, after = facts.call_time(a, b)
            yield facts.told(
                kind, tell(facts, a, b, before, after), after - before, "cpu", a, b, facts.by_round(a, b)
            )


def _guards_text(facts: Facts, a: I64, b: I64, before: float, after: float) -> str:
    names = listed(by_time(facts.b, facts.trees[1], b) or by_time(facts.a, facts.trees[0], a))
    if not len(b):
        spent = f"{duration(before)} on the CPU{facts.each}"
        return f"Guards and the prologue of compiled code are gone: {spent} ({names})."
    time = duration(after) if not len(a) else f"{duration(before)} → {duration(after)}"
    return f"Guards and the prologue of compiled code cost {time} on the CPU{facts.each} ({names})."


def _calls_text(facts: Facts, a: I64, b: I64, before: float, after: float) -> str:
    sides = zip(facts.sides, facts.trees, (a, b), (before, after), strict=True)
    told = [(side, listed(by_time(side, tree, at)), at, time) for side, tree, at, time in sides]
    if len(a) and len(b):
        (_, left, _, _), (_, right, _, _) = told
        return (
            f"On the CPU, {counted(len(a) / facts.count, 'call')}{facts.each} ({left}) became "
            f"{counted(len(b) / facts.count)} ({right}): {duration(before)} → {duration(after)}."
        )
    side, name, at, time = told[0] if len(a) else told[1]
    rounds = np.unique(side.round_of(at))
    only = len(side.steps) and len(rounds) == 1 and facts.count > 1
    where = f" in {side.label(int(rounds[0]))}" if only else ""
    count = plural(len(at), "call") if only else f"{counted(len(at) / facts.count, 'call')}{facts.each}"
    if not only and _has(facts.b if len(a) else facts.a, side.trace, at):
        more = count.replace(" call", " fewer call" if len(a) else " more call", 1)
        return f"On the CPU, {more}{where} ({name}): {duration(time)}{facts.each}."
    verb = "is" if count.startswith("1 call") else "are"
    what = "gone" if len(a) else "new"
    return f"On the CPU, {count} ({name}) {verb} {what}{where}: {duration(time)}{facts.each}."


def _has(side: Side, trace: Trace, at: I64) -> bool:
    """Whether a side makes calls of any of these names."""
    own = {side.trace.names[i] for i in distinct(side.trace.name[side.calls], len(side.trace.names)).tolist()}
    return any(trace.names[i] in own for i in distinct(trace.name[at], len(trace.names)).tolist())
