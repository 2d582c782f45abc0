"""What one side does and the other does not, in sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from tracetui.analysis.calls.sums import sum_into
from tracetui.analysis.device_work import decoded_names, op_behind
from tracetui.analysis.select import name_mask, names_of
from tracetui.compare.changes import Change
from tracetui.compare.context import ComparisonContext, Times
from tracetui.compare.examples import telling
from tracetui.compare.groups import LIBRARY
from tracetui.compare.merging import PASSES, SAME_OPS
from tracetui.compare.model import Explanation
from tracetui.compare.naming import (
    by_time,
    counted,
    event_names,
    is_,
    kinds,
    listed,
    moves,
    often,
    short,
    shorts,
)
from tracetui.compare.sides import Side, by_graph
from tracetui.core.columns import distinct
from tracetui.core.units import duration, plural
from tracetui.trace.model import I64, Kind, Trace

GUARDS = ("TorchDynamo Cache Lookup", "Pregraph bytecode", "AOTDispatcher Runtime Wrapper Prologue")
NEAR = 4
"""How many events of a stream count as following right after."""


def device_changes(context: ComparisonContext) -> Iterator[Explanation]:
    trace = context.a.trace
    both = set(names_of(trace, context.matched.work.all_a))
    for change in context.matched.changes:
        # Memsets come along with other work. A library's kernel that another op runs now has not moved.
        sets = change.kind == "order" and len(context.matched.changes) > 1
        sets = sets and (moves(trace, change.a.events) or _library(context, change))
        if change.kind == "again":
            yield _again(context, change)
        elif change.kind != "calls" and not sets and not _begins_elsewhere(context, change, both):
            a, b = (np.array(part.events, dtype=np.int64) for part in (change.a, change.b))
            time, cpu, waits = (
                context.work_time(a, b),
                context.cpu_time(change),
                context.cpu_time(change, True),
            )
            text = _sentence(context, change, time, cpu, waits, both)
            places, moved = _places(context, change, a, b), change.kind == "order"
            yield context.told(
                change.kind, text, 0 if moved else time.change, "device", a, b, places,
                0 if moved else cpu.change, _matters(context, time, cpu, waits),
            )  # fmt: skip


def _again(context: ComparisonContext, change: Change) -> Explanation:
    """One side does the same thing several times in a step."""
    repeated_work = context.matched.repeated_work
    assert repeated_work is not None
    a, b = (np.array(part.events, dtype=np.int64) for part in (change.a, change.b))
    time, cpu = context.work_time(a, b), context.cpu_time(change)
    side, tree, calls = context.b, context.matched.trees[1], change.b.calls
    kinds_ = f"{len(names_of(side.trace, calls)):,} kinds of calls ({listed(by_time(side, tree, calls))})"
    told = (
        f"there are {repeated_work.times} times as many{context.each}"
        if repeated_work.more
        else f"one in {repeated_work.times} is left"
    )
    told += (
        f", on {'larger' if repeated_work.larger else 'smaller'} sizes"
        if repeated_work.larger is not None
        else ""
    )
    spent = f"{_spent(time)} on the GPU, " if len(a) or len(b) else ""
    text = f"Of {kinds_} {told}: {spent}{_spent(cpu)} on the CPU{context.each}."
    if not (len(a) or len(b)):
        at = change.a.calls, change.b.calls
        return context.told("again", text, cpu.change, "cpu", *at, context.by_round(*at))
    waits = context.cpu_time(change, True)
    places = _places(context, change, a, b)
    matters = _matters(context, time, cpu, waits)
    return context.told("again", text, time.change, "device", a, b, places, cpu.change, matters)


def _library(context: ComparisonContext, change: Change) -> bool:
    """Whether its longest kernel is one that a library picks, of a kind that was replaced elsewhere."""
    at = np.array(change.a.events, dtype=np.int64)
    longest = int(at[np.argmax(context.a.trace.duration[at])])
    (name,) = decoded_names(context.a.trace, np.array([longest])).values()
    replaced = {one.what for one in context.matched.changes if one.kind == "replaced"}
    return dict(LIBRARY).get(name.kind) in replaced


def _begins_elsewhere(context: ComparisonContext, change: Change, both: set[str]) -> bool:
    """Whether the change only shows that the steps of one side begin elsewhere. `both`: the names that both
    run."""
    if change.kind == "order":
        return context.shifted
    sides = zip(context.sides, (change.a, change.b), strict=True)
    known = all(side.trace.name_of(i) in both for side, part in sides for i in part.events)
    ends = context.at_an_end({pair[0] for pair in change.rounds})
    return known and ends and change.kind in ("new", "gone")


def _matters(context: ComparisonContext, time: Times, cpu: Times, waits: Times) -> str:
    """Which of a change's two times is reported first ("device" or "cpu"), if not the larger."""
    if abs(waits.change) > max(abs(time.change), abs(cpu.change) / 2):
        return "cpu"
    machine = cpu.before * ((context.speed.machine.cpu_ratio or 1.0) - 1)
    return "device" if abs(cpu.change - machine) < abs(cpu.change) / 2 else ""


def _places(context: ComparisonContext, change: Change, a: I64, b: I64) -> I64:
    ends = np.array(change.ends, dtype=np.int64).reshape(-1, 2).T
    found = [
        telling(
            side.trace,
            at,
            np.searchsorted(end, np.arange(len(at)), side="right"),
            side.trace.duration[at],
            len(end),
        )
        for side, at, end in zip(context.sides, (a, b), ends, strict=True)
    ]
    return np.stack(found, axis=1)


def _sentence(
    context: ComparisonContext, change: Change, time: Times, cpu: Times, waits: Times, both: set[str]
) -> str:
    """`both`: the names of work that both sides do."""
    left, right = event_names(context.a, change.a), event_names(context.b, change.b)
    if change.kind == "order":
        verb = "runs" if is_(left) == "is" else "run"
        place = _other_streams(context, change) or "in another place"
        return f"{left} {verb} {place}{_where(context, change, 0)}."
    if change.kind in ("new", "gone"):
        return _one_sided(context, change, left or right, time, cpu, waits, both)
    on_cpu, graph = _on_cpu(context, change, cpu)
    if change.kind == "dtype":
        spent = f"{_spent(time)} on the GPU{on_cpu}{context.each_of(time.rounds)}"
        return _retyped(context, change, spent, time)
    spent = f"{_spent(time)} on the GPU{on_cpu}{context.each_of(time.rounds)}{graph}"
    if change.what == SAME_OPS:
        times = counted(len(change.ends) / len(time.rounds), "time") + (
            context.where(time.rounds) or context.each
        )
        told = f"The same ops run on other kernels or other sizes, {times}: {spent}."
        return f"{told} Most of it: {_most(context, change)}."
    if len(set(change.forms)) > 1:
        many = counted(len(change.ends) / len(time.rounds), change.what)
        others = "were replaced by others of the same kind"
        become = others if change.what == "kernel" else "run on other kernels"
        where = context.where(time.rounds)
        told = f"{many}{where or context.each} {become}: {spent}."
        return f"{told} Most of it: {_most(context, change)}."
    right = f"another {right}" if left == right else right
    return f"{left} became {right}{_where(context, change)}: {spent}."


def _other_streams(context: ComparisonContext, change: Change) -> str:
    """`on another stream`, if most of it left or joined the stream with the most work. Stream numbers differ
    between recordings."""
    main, names, lanes = [], [], []
    for side, part in zip(context.sides, (change.a, change.b), strict=True):
        main.append(int(np.argmax(np.bincount(side.trace.lane[side.work]))))
        lanes.append(side.trace.lane[np.array(part.events, dtype=np.int64)])
        which = distinct(lanes[-1], len(side.trace.lanes))
        names.append(listed([side.trace.lanes[lane].name for lane in which.tolist()]))
    moved = (lanes[0] == main[0]) != (lanes[1] == main[1])
    return f"on {names[1]} instead of {names[0]}" if 2 * np.count_nonzero(moved) > len(moved) else ""


def _retyped(context: ComparisonContext, change: Change, spent: str, time: Times) -> str:
    before, after = change.what.split()
    many: list[str] = []
    for side, part in zip(context.sides, (change.a, change.b), strict=True):
        events = np.array(part.events, dtype=np.int64)
        kernels = events[side.trace.kind[events] == Kind.KERNEL]
        names = len(np.unique(side.trace.name[kernels]))
        number = counted(len(kernels) / len(time.rounds), "" if many else "kernel")
        many.append(f"{number} ({plural(names, 'name')})")
    became = f"{many[0]}{context.where(time.rounds) or context.each} became {many[1]}: {spent}"
    most = _most(context, change)
    return f"The same ops run in {after} instead of {before}, {became}. Most of it: {most}."


def _spent(time: Times) -> str:
    return f"{duration(time.before)} → {duration(time.after)}"


def _on_cpu(context: ComparisonContext, change: Change, cpu: Times) -> tuple[str, str]:
    """The time it took on the CPU, and a note if a graph launched it, since it is only part of that
    launch."""
    if cpu.before and cpu.after:
        return f", {_spent(cpu)} on the CPU", ""
    graph = [
        by_graph(side, part.events).any()
        for side, part in zip(context.sides, (change.a, change.b), strict=True)
    ]
    if cpu.before and graph[1]:
        return f", {duration(cpu.before)} on the CPU", "; now a graph launches it"
    if cpu.after and graph[0]:
        return f", {duration(cpu.after)} on the CPU", "; before, a graph launched it"
    return "", ""


def _most(context: ComparisonContext, change: Change) -> str:
    """The kernels that make up most of a change, and what became of them."""
    form, ends = np.array(change.forms), np.array(change.ends, dtype=np.int64).T
    events = [np.array(part.events, dtype=np.int64) for part in (change.a, change.b)]
    of, took = [], []
    for side, at, end in zip(context.sides, events, ends, strict=True):
        of.append(form[np.searchsorted(end, np.arange(len(at)), side="right")])
        took.append(sum_into(of[-1], side.trace.duration[at], int(form.max()) + 1))
    here = np.unique(form)
    most = int(here[np.argmax(np.abs(took[1] - took[0])[here])])
    a, b = (at[one == most] for at, one in zip(events, of, strict=True))
    left, right = (listed(shorts(side.trace, at)) for side, at in zip(context.sides, (a, b), strict=True))
    right = f"another {right}" if left == right else right
    time, many = context.work_time(a, b), np.count_nonzero(form == most)
    often = f", {round(many / len(time.rounds)):,} times" if many >= 2 * len(time.rounds) else ""
    return f"{left} became {right}{often}: {_spent(time)}"


def _one_sided(
    context: ComparisonContext,
    change: Change,
    name: str,
    time: Times,
    cpu: Times,
    waits: Times,
    both: set[str],
) -> str:
    """`name`: for the events; `both`: the names of work that both sides do."""
    new = change.kind == "new"
    side, part = (context.b, change.b) if new else (context.a, change.a)
    on_gpu, on_cpu, held = (one.after if new else one.before for one in (time, cpu, waits))
    spent = f"{duration(on_gpu)} on the GPU"
    spent += f", {duration(on_cpu)} on the CPU" if on_cpu else ""
    launch = side.trace.launch[np.array(part.events, dtype=np.int64)]
    copies = moves(side.trace, part.events) and bool(np.isin(launch, part.waits).any())
    spent += f" ({duration(held)} of that waiting for the {'copy' if copies else 'GPU'})" if held else ""
    spent += context.each_of(time.rounds)
    every = len(time.rounds) == context.count
    more = every and all(side.trace.name_of(i) in both for i in part.events)
    if change.block:
        before, after = change.block[0].times
        number = "One" if abs(after - before) == 1 else str(abs(after - before))
        times = f"{plural(after, 'time')} in a row instead of {before}"
        *sizes, last = (f"{block.size:,}" for block in change.block)
        of = f"{', '.join(sizes)} and {last}" if sizes else last
        which = "each of the blocks" if sizes else "a block"
        where = context.where(time.rounds, not new)
        return (
            f"{number} {'more' if new else 'fewer'} of {which} of {of} kernels, copies and "
            f"memsets{where if sizes else _where(context, change)}, which {'come' if sizes else 'comes'} "
            f"{times} ({name}): {spent}."
        )
    if change.what in PASSES:
        many = counted(len(part.events) / len(time.rounds)) + f" {kinds(side.trace, part.events)}"
        where = context.where(time.rounds, not new)
        return f"The {change.what} is {change.kind}{where}: {many} ({name}), {spent}."
    if change.what in ("cast", "layout conversion") or len(set(change.forms)) > 1:
        which = f" ({listed(shorts(side.trace, part.events))})" if change.what != "memset" else ""
        word = f"{'more' if new else 'fewer'} {change.what}" if more else change.what
        number = counted(len(part.events) / len(time.rounds), word)
        told = "" if more else f" {'is' if number.startswith('1 ') else 'are'} {change.kind}"
        where = context.where(time.rounds, not new)
        return f"{number}{where or context.each}{which}{told}: {spent}."
    times_all = often(side, part)
    if not times_all:  # each of its names occurs as often as the work itself
        many = counted(len(part.events) / len(time.rounds))
        word = f"{'more ' if new else 'fewer '}" * more + kinds(side.trace, part.events)
        told = "" if more else f" are {change.kind}"
        where = context.where(time.rounds, not new)
        return f"{many} {word}{where or context.each} ({name}){told}: {spent}."
    ahead = _ahead(context, change) if new else ""
    told = f"{is_(name)} {change.kind}{ahead}{_where(context, change, times_all)}"
    if more:
        times = counted(times_all / len(time.rounds), f"{'more' if new else 'fewer'} time")
        told = f"{'runs' if is_(name) == 'is' else 'run'} {times}{ahead}{_where(context, change, 0, True)}"
    return f"{name} {told}: {spent}."


def _where(context: ComparisonContext, change: Change, often: int | None = None, every: bool = False) -> str:
    """In which steps it is, if not in all; how `often` in total, if not once in each place; and that it is in
    `every` one."""
    rounds, many = sorted(pair[0] for pair in change.rounds), set(change.rounds.values())
    every |= bool(often)
    often = len(change.ends) if often is None else often
    about = len(many) > 1 or often % len(rounds)
    times = f", {'about ' * bool(about)}{round(often / len(rounds)):,} times" if often > len(rounds) else ""
    where = context.where(rounds, change.kind == "gone")
    return (
        where
        + times
        + (" in every step" if every and context.each and context.count > 1 and not where else "")
    )


def _ahead(context: ComparisonContext, change: Change) -> str:
    """What a new copy or set comes right before: a kernel of the same op."""
    trace, at = context.b.trace, change.b.events[0]
    near = np.arange(at, min(trace.lanes[int(trace.lane[at])].last, at + 1 + NEAR))
    op = op_behind(trace, near)
    kernel = near[(trace.kind[near] == Kind.KERNEL) & (op == op[0]) & (op >= 0)]
    if not moves(trace, change.b.events) or not len(kernel):
        return ""
    return f" before {short(trace, int(kernel[0]))}"


# On the CPU


def call_changes(context: ComparisonContext) -> Iterator[Explanation]:
    change = next((one for one in context.matched.changes if one.kind == "calls"), None)
    if change is None:
        return
    at, python = [], []
    for n, (side, part) in enumerate(zip(context.sides, (change.a, change.b), strict=True)):
        events = np.array(part.events, dtype=np.int64)
        noted = side.trace.kind[events] == Kind.ANNOTATION
        at.append(events[~noted])
        python.append(context.python_time(n, events[noted]))
    if change.what and (context.shifted or len(context.matched.changes) > 1):
        return
    if change.what:
        a, b = at
        text = _elsewhere_text(context, a)
        yield context.told("order", text, 0, "cpu", a, b, context.by_round(a, b))
        return
    is_guard = [name_mask(side.trace, GUARDS.__contains__) for side in context.sides]
    guard = [is_guard[k][side.trace.name[at[k]]] for k, side in enumerate(context.sides)]
    for kind in ("guards", "calls"):
        a, b = (one[mask if kind == "guards" else ~mask] for one, mask in zip(at, guard, strict=True))
        time = context.call_time(a, b)
        there = not context.at_an_end(time.rounds) or not _both_call(context, a, b)
        alike = _names(context.a, a) == _names(context.b, b)  # in another place, or in another step
        if there and not alike:
            guards = kind == "guards"
            text = _guards_text(context, a, b, time) if guards else _calls_text(context, a, b, time, python)
            yield context.told(kind, text, time.change, "cpu", a, b, context.by_round(a, b))


def _names(side: Side, at: I64) -> Counter[str]:
    """The names of some events, with repeats."""
    return Counter(side.trace.names[i] for i in side.trace.name[at].tolist())


def _elsewhere_text(context: ComparisonContext, at: I64) -> str:
    names = listed(by_time(context.a, context.matched.trees[0], at))
    many = counted(len(at) / context.count, "call")
    verb = "runs" if many.startswith("1 call") else "run"
    return f"On the CPU, {many}{context.each} ({names}) {verb} in another place."


def _guards_text(context: ComparisonContext, a: I64, b: I64, time: Times) -> str:
    names = listed(
        by_time(context.b, context.matched.trees[1], b) or by_time(context.a, context.matched.trees[0], a)
    )
    spent = _spent(time) if len(a) and len(b) else duration(time.after if len(b) else time.before)
    cost = "cost" if len(b) else "are gone:"
    each = context.each_of(time.rounds)
    return f"Guards and the prologue of compiled code {cost} {spent} on the CPU{each} ({names})."


def call_names(context: ComparisonContext, a: I64, b: I64, rounds: int = 0) -> str:
    """The calls that only one side makes: how many in each of `rounds` rounds (all rounds, if 0), and their
    names."""
    told: list[str] = []
    each = "" if rounds else context.each
    for side, tree, at, what in zip(
        context.sides, context.matched.trees, (a, b), ("gone", "new"), strict=True
    ):
        count = counted(len(at) / (rounds or context.count), "call")
        count = count.partition(" call")[0] if told else f"{count}{each}"
        verb = "is" if count.startswith("1 ") or count == "1" else "are"
        told += [f"{count} ({listed(by_time(side, tree, at))}) {verb} {what}"] if len(at) else []
    return " and ".join(told)


def _calls_text(context: ComparisonContext, a: I64, b: I64, time: Times, python: list[float]) -> str:
    # They have no place of their own: whether some calls became others is not known.
    where, of = context.where(time.rounds, not len(b)), context.each_of(time.rounds)
    told = call_names(context, a, b, len(time.rounds) if where else 0) + where
    n = int(not len(a))
    side, tree, at = context.sides[n], context.matched.trees[n], (a, b)[n]
    if not (where or (len(a) and len(b))) and _has(context.sides[1 - n], side.trace, at):
        count = counted(len(at) / context.count, ("fewer call", "more call")[n])
        told = f"{count}{context.each} ({listed(by_time(side, tree, at))})"
    spent = _spent(time) if len(a) and len(b) else duration(time.before if len(a) else time.after)
    return f"On the CPU, {told}: {spent}{of}.{_beside(context, python)}"


def _beside(context: ComparisonContext, python: list[float]) -> str:
    """What compiled code does in addition: nothing is known about other code."""
    told = [
        f"{duration(ns)}{context.each} in {letter}" for letter, ns in zip("AB", python, strict=True) if ns
    ]
    left = "This leaves out what compiled code does between its calls"
    return f" {left}: {' and '.join(told)}." if told else ""


def _both_call(context: ComparisonContext, a: I64, b: I64) -> bool:
    """Whether each of these is also called somewhere on the other side."""
    sides = zip(context.sides, (context.b, context.a), (a, b), strict=True)
    return all(not len(at) or _has(other, side.trace, at) for side, other, at in sides)


def _has(side: Side, trace: Trace, at: I64) -> bool:
    """Whether a side makes calls with any of these names."""
    return not {*names_of(side.trace, side.calls)}.isdisjoint(names_of(trace, at))
