"""What explains the difference, in sentences with numbers, the largest first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tracetui.analysis.device_work import op_behind
from tracetui.analysis.kernel_names import short_name
from tracetui.analysis.select import named
from tracetui.compare.calls import CallTree
from tracetui.compare.changes import Change
from tracetui.compare.match import Matches
from tracetui.compare.model import Explanation, Machine, Metric
from tracetui.compare.sides import Side
from tracetui.compare.timing import Slower, slower
from tracetui.trace.model import I64, Bool, Kind, Trace
from tracetui.units import capital, duration, percent, plural, significant

GUARDS = ("TorchDynamo Cache Lookup", "Pregraph bytecode", "AOTDispatcher Runtime Wrapper Prologue")
MACHINE = 0.02
"""The machine is mentioned if it was this much faster or slower."""
CALL_CHANGE = 0.7
"""The logarithm of a ratio: between two recordings of one program, single calls took 0.8 to 1.9 times."""
NAMED = 3
"""Names in a sentence; the rest are counted."""


@dataclass(frozen=True, slots=True, eq=False)
class Facts:
    """What the sentences are made from."""

    a: Side
    b: Side
    pairs: tuple[tuple[int, int], ...]
    work: Matches
    calls: Matches
    trees: tuple[CallTree, CallTree]
    changes: list[Change]
    grown: Bool
    """Which pairs of `work` have other sizes."""
    bigger: Bool
    """The same of `calls`."""
    machine: Machine
    path: tuple[float, float]
    """What the calls that are the same add to a step of each side, ns."""
    metrics: Mapping[str, Metric]

    @property
    def count(self) -> int:
        return max(1, len(self.pairs))

    @property
    def each(self) -> str:
        return " a step" if len(self.a.steps) else ""

    @property
    def steps(self) -> float:
        return max(1.0, self.metrics["step_ns"].a or 1.0)


def explain(facts: Facts) -> tuple[tuple[Explanation, ...], str, bool]:
    """(the explanations, the largest first; the answer in a sentence; whether both are the same program)."""
    program = [*_device_changes(facts), *_call_changes(facts), *_graphs(facts), *_shapes(facts)]
    same = not program and not facts.work.regions and not facts.calls.regions
    timed = [*_slower_work(facts), *_slower_calls(facts)]
    found = [*_machine(facts, same), *program, *timed, *_more_steps(facts)]
    order = sorted(found, key=lambda one: -max(abs(one.change_ns), abs(one.cpu_change_ns)))
    return tuple(order), _answer(facts, order, same), same


def _answer(facts: Facts, found: Sequence[Explanation], same: bool) -> str:
    step = facts.metrics["step_ns"]
    what = "A step" if len(facts.a.steps) else "The recording"
    if not found and (step.change == 0):
        return "No difference: the same work, in the same time."
    change = step.change or 0.0
    if step.within_noise and same and not [one for one in found if one.kind != "machine"]:
        machine = next((one for one in found if one.kind == "machine"), None)
        if machine is None:
            return f"The same program. {what} takes {_from_to(step)}: no more than noise."
        return f"{machine.text} {what} takes {_from_to(step)}."
    told = f"{what} takes {_from_to(step)}"
    slower = next((one.change_ns for one in found if one.kind == "machine"), 0)
    if step.within_noise:
        mostly = abs(change - slower) <= 0.2 * abs(change)
        return f"{told}: {'the machine, not the change' if mostly else 'no more than steps vary'}."
    if abs(slower) < MACHINE * (step.a or 1):
        return f"{told}."
    more = "longer" if slower > 0 else "less"
    without = duration((step.b or 0.0) - slower)
    return f"{told}. Of that, {duration(abs(slower))} {more} is the machine; without it, about {without}."


def _from_to(metric: Metric) -> str:
    a, b = metric.a or 0.0, metric.b or 0.0
    sign = "+" if b >= a else "-"
    part = f" ({sign}{percent(abs(b - a) / a, 1 if abs(b - a) < 0.1 * a else 0)})" if a else ""
    return f"{duration(b)} instead of {duration(a)}{part}"


def times(ratio: float) -> str:
    """A ratio for a sentence: `1.34 times`."""
    return f"{significant(ratio)} times"


def _machine(facts: Facts, same: bool) -> Iterator[Explanation]:
    cpu, device = facts.machine.cpu_ratio, facts.machine.device_ratio
    path = facts.path[1] - facts.path[0]
    work_time = (
        sum(
            _sum(side.trace, at[~facts.grown]) * sign
            for side, at, sign in ((facts.a, facts.work.all_a, -1), (facts.b, facts.work.all_b, 1))
        )
        / facts.count
    )
    slow_cpu = cpu is not None and abs(cpu - 1) >= MACHINE and abs(path) >= 0.01 * facts.steps
    slow_device = (
        device is not None
        and abs(device - 1) >= MACHINE
        and abs(work_time) >= 0.01 * (facts.metrics["device_ns"].a or 1)
    )
    if not (slow_cpu or slow_device):
        return
    on_cpu = f"took {times(cpu or 1)} as long on the CPU"
    on_device = f"took {times(device or 1)} as long on the GPU"
    who = "The same program: its" if same else "The"
    calls, work = (
        f"{facts.machine.calls // facts.count:,} calls{facts.each}",
        plural(facts.machine.work // facts.count, "kernel") + facts.each,
    )
    both = "" if same else " that both run"
    if slow_cpu and slow_device:
        text = f"{who} {calls}{both} {on_cpu}, {'its' if same else 'the'} {work} {times(device or 1)} as long on the GPU"
    elif slow_cpu:
        text = f"{who} {calls}{both} {on_cpu}"
    else:
        text = f"{who} {work}{both} {on_device}"
    change = path if slow_cpu else work_time
    yield Explanation(
        "machine", f"{text}: the machine, not the {'program' if same else 'change'}.", round(change),
        "cpu" if slow_cpu else "device",
    )  # fmt: skip


def _sum(trace: Trace, at: I64) -> int:
    return int(trace.duration[at].sum())


# What the device does differently


def _device_changes(facts: Facts) -> Iterator[Explanation]:
    for change in facts.changes:
        if change.kind == "calls":
            continue
        a, b = (np.array(one, dtype=np.int64) for one in (change.a, change.b))
        time_a, time_b = _sum(facts.a.trace, a) / facts.count, _sum(facts.b.trace, b) / facts.count
        cpu_a, cpu_b = change.cpu_a / facts.count, change.cpu_b / facts.count
        told = Explanation(
            change.kind, "", round(time_b - time_a), "device",
            _names(facts.a.trace, a), _names(facts.b.trace, b), round(cpu_b - cpu_a), np.sort(a), np.sort(b),
        )  # fmt: skip
        yield replace(told, text=_sentence(facts, change, time_a, time_b, cpu_a, cpu_b))


def _sentence(facts: Facts, change: Change, time_a: float, time_b: float, cpu_a: float, cpu_b: float) -> str:
    left = _called(facts.a, change.a, change.tops_a)
    right = _called(facts.b, change.b, change.tops_b)
    where = _where(facts, change)
    cpu = f"; on the CPU {duration(cpu_a)} → {duration(cpu_b)}" if cpu_a or cpu_b else ""
    if change.kind == "order":
        return f"{left} runs in another place{where}."
    if change.kind == "new":
        cpu = f", {duration(cpu_b)} on the CPU" if cpu_b else ""
        waits = change.waits_b / facts.count
        wait = f", where it waits {duration(waits)} for the GPU" if waits else ""
        return f"{right} {_is(right)} new{_ahead(facts, change)}{where}: {duration(time_b)} on the GPU{cpu}{wait}{facts.each}."
    if change.kind == "gone":
        cpu = f", {duration(cpu_a)} on the CPU" if cpu_a else ""
        return f"{left} {_is(left)} gone{where}: {duration(time_a)} on the GPU{cpu}{facts.each}."
    return (
        f"{left} became {right}{where}: {duration(time_a)} → {duration(time_b)} on the GPU{facts.each}{cpu}."
    )


def _is(names: str) -> str:
    return "are" if " and " in names or names[:1].isdigit() else "is"


def _where(facts: Facts, change: Change) -> str:
    """In how many places, or in which step alone."""
    rounds = {pair[1] for pair in change.rounds}
    if change.kind == "order":
        rounds = set(facts.b.round_of(np.array(change.b, dtype=np.int64)).tolist())
    if len(facts.b.steps) and len(rounds) < facts.count:
        which = [facts.b.label(i) for i in sorted(rounds)]
        return f" in {which[0]}" if len(which) == 1 else f" in {len(which)} of {facts.count} steps"
    many = len(change.places) / max(1, len(rounds))
    return f", {many:,.0f} times" if many >= 1.5 and change.kind not in ("order",) else ""


def _ahead(facts: Facts, change: Change) -> str:
    """What a new copy is in front of."""
    trace, after = facts.b.trace, change.before[1]
    if not all(trace.kind[j] != Kind.KERNEL for j in change.b):
        return ""
    following = [j for one in facts.changes for j in one.b if one is not change]
    lane, start = trace.lane[change.b[0]], trace.start[change.b[0]]
    later = [
        j
        for j in [*following, after]
        if j >= 0 and trace.lane[j] == lane and trace.start[j] > start and trace.kind[j] == Kind.KERNEL
    ]
    if not later:
        return ""
    next_one = min(later, key=lambda j: int(trace.start[j]))
    return f" before {_short(trace, next_one)}"


def _called(side: Side, events: Sequence[int], tops: Sequence[int]) -> str:
    """What a sentence calls events: by the ops that launch nothing else, or by their own names."""
    trace = side.trace
    own = list(dict.fromkeys(_short(trace, i) for i in events))
    ops = list(dict.fromkeys(_short(trace, i) for i in sorted(tops)))
    if not own:
        return _listed(ops)
    if ops and len(ops) <= NAMED and len(ops) <= max(1, len(own)) and not _copies(trace, events):
        return _listed(ops)
    return _listed(own)


def _copies(trace: Trace, events: Sequence[int]) -> bool:
    return all(trace.kind[i] != Kind.KERNEL for i in events)


def _listed(names: Sequence[str]) -> str:
    if len(names) > NAMED:
        return f"{', '.join(names[: NAMED - 1])} and {len(names) - NAMED + 1} others"
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _short(trace: Trace, i: int) -> str:
    return short_name(trace.name_of(i), trace.categories[int(trace.category[i])])


def _names(trace: Trace, at: I64) -> tuple[str, ...]:
    return tuple(dict.fromkeys(trace.name_of(int(i)) for i in at.tolist()))


# What the CPU does differently


def _call_changes(facts: Facts) -> Iterator[Explanation]:
    change = next((one for one in facts.changes if one.kind == "calls"), None)
    if change is None:
        return
    parts = [
        (side, tree, np.array(at, dtype=np.int64), np.array(tops, dtype=np.int64))
        for side, tree, at, tops in (
            (facts.a, facts.trees[0], change.a, change.tops_a), (facts.b, facts.trees[1], change.b, change.tops_b)
        )
    ]  # fmt: skip
    guard = [named(side.trace, GUARDS.__contains__)[side.trace.name[at]] for side, _, at, _ in parts]
    for which, kind in ((guard, "guards"), ([~one for one in guard], "calls")):
        spent, events, called, names = [], [], [], []
        for (side, tree, at, tops), mask in zip(parts, which, strict=True):
            mine = at[mask]
            spent.append(int(tree.self_time[np.searchsorted(tree.at, mine)].sum()) / facts.count)
            events.append(mine)
            called.append(_most(side, tree, mine))
            names.append(_names(side.trace, mine))
        if not len(events[0]) and not len(events[1]):
            continue
        yield Explanation(
            kind, _calls_text(facts, kind, called, spent, events, change), round(spent[1] - spent[0]), "cpu",
            names[0], names[1], 0, *events,
        )  # fmt: skip


def _most(side: Side, tree: CallTree, at: I64) -> str:
    """The calls by the time they take, each name once."""
    time: Counter[str] = Counter()
    own = tree.self_time[np.searchsorted(tree.at, at)]
    for i, ns in zip(at.tolist(), own.tolist(), strict=True):
        time[_short(side.trace, i)] += ns
    return _listed([name for name, _ in time.most_common()])


def _calls_text(
    facts: Facts, kind: str, called: list[str], spent: list[float], events: list[I64], change: Change
) -> str:
    each = facts.each
    gone, new = (len(one) / facts.count for one in events)
    if kind == "guards":
        if new and not gone:
            return f"Guards and the prologue of compiled code cost {duration(spent[1])} on the CPU{each} ({called[1]})."
        return f"Guards and the prologue of compiled code: {duration(spent[0])} → {duration(spent[1])} on the CPU{each}."
    if gone and new:
        return (
            f"On the CPU, {_count(gone, 'call')}{each} ({called[0]}) became {_count(new)} ({called[1]}): "
            f"{duration(spent[0])} → {duration(spent[1])}."
        )
    where = ""
    if len(facts.a.steps):
        side, at = (facts.a, events[0]) if gone else (facts.b, events[1])
        rounds = np.unique(side.round_of(at))
        where = f" in {side.label(int(rounds[0]))}" if len(rounds) == 1 and facts.count > 1 else ""
    total, name, time = (gone, called[0], spent[0]) if gone else (new, called[1], spent[1])
    count = plural(len(events[0 if gone else 1]), "call") if where else f"{_count(total, 'call')}{each}"
    return f"On the CPU, {name} {_is(name)} {'gone' if gone else 'new'}{where} ({count}, {duration(time)}{each})."


def _count(number: float, noun: str = "") -> str:
    text = f"{number:,.0f}" if number >= 1 or number == 0 else significant(number)
    return f"{text} {noun}{'' if text == '1' else 's'}" if noun else text


def _graphs(facts: Facts) -> Iterator[Explanation]:
    """The same work, launched by a CUDA graph on one side only."""
    replayed = [
        _by_graph(side, at) for side, at in ((facts.a, facts.work.all_a), (facts.b, facts.work.all_b))
    ]
    for kind, now, before in (("into", replayed[1], replayed[0]), ("out", replayed[0], replayed[1])):
        these = now & ~before
        if not these.any() or np.count_nonzero(these) < 2:
            continue
        a, b = facts.work.all_a[these], facts.work.all_b[these]
        launches = [
            len(np.unique(side.trace.launch[at])) / facts.count for side, at in ((facts.a, a), (facts.b, b))
        ]
        count = _count(int(np.count_nonzero(these)) / facts.count)
        how = "come from a CUDA graph" if kind == "into" else "no longer come from a CUDA graph"
        yield Explanation(
            "graph",
            f"The same {count} kernels, copies and sets{facts.each} {how}: {_count(launches[0])} → {_count(launches[1])} launches.",
            0, "device", _names(facts.a.trace, a), _names(facts.b.trace, b), 0, a, b,
        )  # fmt: skip


def _by_graph(side: Side, at: I64) -> Bool:
    launch = side.trace.launch[at]
    graph = named(side.trace, lambda name: "GraphLaunch" in name)
    return np.asarray((launch >= 0) & graph[side.trace.name[launch]], dtype=np.bool_)


# The same work, on other sizes or in another time


def _shapes(facts: Facts) -> Iterator[Explanation]:
    a, b = facts.work.all_a[facts.grown], facts.work.all_b[facts.grown]
    if len(a):
        time_a, time_b = _sum(facts.a.trace, a) / facts.count, _sum(facts.b.trace, b) / facts.count
        yield Explanation(
            "shapes",
            f"{_count(len(a) / facts.count)} of the kernels and copies{facts.each} work on other sizes ({_sizes(facts, a, b)}): {duration(time_a)} → {duration(time_b)} on the GPU.",
            round(time_b - time_a), "device", _names(facts.a.trace, a), _names(facts.b.trace, b), 0,
            np.sort(a), np.sort(b),
        )  # fmt: skip
    elif facts.bigger.any():
        a, b = facts.calls.a[facts.bigger], facts.calls.b[facts.bigger]
        spent = [
            int(tree.self_time[np.searchsorted(tree.at, at)].sum()) / facts.count
            for tree, at in ((facts.trees[0], a), (facts.trees[1], b))
        ]
        yield Explanation(
            "shapes",
            f"{_count(len(a) / facts.count, 'op')}{facts.each} work on other shapes ({_sizes(facts, a, b)}): {duration(spent[0])} → {duration(spent[1])} on the CPU.",
            round(spent[1] - spent[0]), "cpu", _names(facts.a.trace, a), _names(facts.b.trace, b), 0,
            np.sort(a), np.sort(b),
        )  # fmt: skip


def _sizes(facts: Facts, a: I64, b: I64) -> str:
    """The sizes of the longest of them."""
    from tracetui.safe_text import plain

    longest = int(np.argmax(facts.b.trace.duration[b]))
    told = []
    for trace, i in ((facts.a.trace, int(a[longest])), (facts.b.trace, int(b[longest]))):
        op = (
            int(op_behind(trace, np.array([i]))[0])
            if trace.kind[i] in (Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET)
            else i
        )
        args, dims = trace.args(i), trace.args(op).get("Input Dims") if op >= 0 else None
        shapes = [one for one in dims if one] if isinstance(dims, list) else []
        told.append(
            ("shape", shapes[:2])
            if shapes
            else ("grid", args.get("grid"))
            if args.get("grid")
            else ("bytes", args.get("bytes"))
        )
    if told[0] == told[1]:
        told = [
            ("grid", facts.a.trace.args(int(a[longest])).get("grid")),
            ("grid", facts.b.trace.args(int(b[longest])).get("grid")),
        ]
    name = _short(facts.b.trace, int(b[longest]))
    return plain(f"{name}: {told[0][0]} {told[0][1]} → {told[1][1]}", 120)


def _slower_work(facts: Facts) -> Iterator[Explanation]:
    same = ~facts.grown
    a, b = facts.work.all_a[same], facts.work.all_b[same]
    trace = facts.a.trace
    whole = (facts.metrics["device_ns"].a or 0.0) * facts.count
    found = slower(trace.name[a].astype(np.int64), trace.duration[a], facts.b.trace.duration[b], a, b, whole)
    yield from (_slow(facts, one, trace.duration, facts.b.trace.duration, "device") for one in found)


def _slower_calls(facts: Facts) -> Iterator[Explanation]:
    waits = facts.trees[0].waits[np.searchsorted(facts.trees[0].at, facts.calls.a)]
    same = ~facts.bigger & ~waits & ~_launches_other(facts)
    a, b = facts.calls.a[same], facts.calls.b[same]
    trace = facts.a.trace
    own = []
    for side, tree in zip((facts.a, facts.b), facts.trees, strict=True):
        values = np.zeros(len(side.trace), dtype=np.int64)
        values[tree.at] = tree.self_time
        own.append(values)
    found = slower(
        trace.name[a].astype(np.int64), own[0][a], own[1][b], a, b, facts.steps * facts.count, CALL_CHANGE
    )
    yield from (_slow(facts, one, own[0], own[1], "cpu") for one in found)


def _launches_other(facts: Facts) -> Bool:
    """Which of the calls that are the same launch other work than before."""
    found = np.zeros(len(facts.calls.a), dtype=np.bool_)
    for side, at, which in ((facts.a, facts.calls.a, "a"), (facts.b, facts.calls.b, "b")):
        work = [i for one in facts.changes if one.kind != "calls" for i in getattr(one, which)]
        found |= np.isin(at, op_behind(side.trace, np.array(work, dtype=np.int64)))
    return found


def _slow(facts: Facts, one: Slower, time_a: I64, time_b: I64, on: str) -> Explanation:
    name = facts.a.trace.names[one.name]
    short = _short(facts.a.trace, int(one.a[0]))
    before, after = (float(np.mean(times[at])) for times, at in ((time_a, one.a), (time_b, one.b)))
    rounds = np.unique(facts.b.round_of(one.b))
    where = (
        f" in {facts.b.label(int(rounds[0]))}"
        if len(facts.b.steps) and len(rounds) == 1 and facts.count > 1
        else ""
    )
    count = "" if len(one.a) == one.of else f" ({len(one.a):,} of {one.of:,} times)" if one.of > 1 else ""
    place = "GPU" if on == "device" else "CPU"
    kind = "slower" if one.change > 0 else "faster"
    text = f"{short} takes {duration(after)} instead of {duration(before)} on the {place}{where}{count}."
    return Explanation(kind, text, round(one.change / facts.count), on, (name,), (name,), 0, one.a, one.b)


def _more_steps(facts: Facts) -> Iterator[Explanation]:
    a, b = facts.a.rounds, facts.b.rounds
    if a != b and min(a, b) > 1:
        yield Explanation("steps", f"B has {plural(b, 'step')}, A {a}.", 0, "cpu")
