"""What explains the difference, in sentences with numbers, the largest first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tracetui.analysis.device_work import op_behind
from tracetui.analysis.kernel_names import LONGEST, short_name
from tracetui.analysis.kernels.communication import is_communication
from tracetui.analysis.nesting import sum_into
from tracetui.analysis.select import distinct, named
from tracetui.compare.calls import CallTree
from tracetui.compare.changes import Change, Part
from tracetui.compare.match import Matches
from tracetui.compare.model import Explanation, Machine, Metric
from tracetui.compare.sides import Side, paced_by_device
from tracetui.compare.timing import Slower, slower
from tracetui.safe_text import plain
from tracetui.trace.model import DEVICE_WORK, I64, Bool, Kind, Trace
from tracetui.units import capital, duration, percent, plural, significant

GUARDS = ("TorchDynamo Cache Lookup", "Pregraph bytecode", "AOTDispatcher Runtime Wrapper Prologue")
MACHINE, DEVICE = 0.02, 0.03
"""The machine is mentioned if it was this much faster or slower, on the CPU and on the device."""
LEAST = 0.02
"""And if that adds this share of the step, or takes it away."""
SAME, WORTH = 0.001, 0.1
"""A step that changes by a smaller share takes as long as before; the device's work is worth a sentence of
its own if its ratio differs from the step's by this much."""
FEW_CALLS = 100
"""Fewer calls do not say how fast the machine was, unless they are all."""
CALL_CHANGE = 0.7
"""The logarithm of a ratio: between two recordings of one program, single calls took 0.8 to 1.9 times."""
NEAR = 4
"""Events of a stream: what follows at once."""
NAMED = 3
"""Names in a sentence; the rest are counted."""


@dataclass(frozen=True, slots=True, eq=False)
class Facts:
    """What the sentences are made from."""

    a: Side
    b: Side
    """The rounds of either side that were paired, one to one."""
    whole: tuple[Side, Side]
    work: Matches
    calls: Matches
    trees: tuple[CallTree, CallTree]
    changes: list[Change]
    grown: Bool
    """Which pairs of `work` have other sizes."""
    timed: Bool
    """Which have not, and are no collectives."""
    bigger: Bool
    """The same of `calls`."""
    other: Bool
    """Which of `calls` launch other work than before, make other calls, or are a first use."""
    first: tuple[float, float]
    """How long each side's device stood idle for first uses, ns a step."""
    machine: Machine
    path: tuple[float, float]
    """What the calls that are the same add to a step of each side, ns."""
    metrics: Mapping[str, Metric]

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.a, self.b

    @property
    def count(self) -> int:
        """Pairs of rounds: sums over all of them are divided by it."""
        return self.a.rounds

    @property
    def within(self) -> bool:
        """Whether steps of one recording are compared."""
        return self.a.trace is self.b.trace

    @property
    def by_device(self) -> bool:
        """Whether the device sets the pace on both sides."""
        return all(map(paced_by_device, self.whole))

    @property
    def recorded(self) -> str:
        """What else makes calls slower: that more was recorded of one side."""
        one, other = (options(side) for side in self.sides)
        return "" if one == other else " or what was recorded"

    @property
    def each(self) -> str:
        return " a step" if len(self.a.steps) else ""

    @property
    def step(self) -> float:
        """ns of a step of a."""
        return self.metrics["step_ns"].a or 1.0

    def related(self, device: bool) -> bool:
        """Whether so much of the calls, or of the device work, is the same that its speed says something."""
        same = self.machine.work if device else self.machine.calls
        sizes = sorted(len(side.work if device else side.calls) for side in self.sides)
        return same >= 0.5 * sizes[0] and same >= 0.2 * sizes[1]

    def mostly(self, device: bool) -> bool:
        """Whether most is the same: then the machine made it slower, and not what is new around it."""
        same = self.machine.work if device else self.machine.calls
        return same >= 0.6 * max(len(side.work if device else side.calls) for side in self.sides)

    def work_time(self, a: I64, b: I64) -> tuple[float, float]:
        """ns a step of these events."""
        one, other = (
            int(side.trace.duration[at].sum()) / self.count
            for side, at in zip(self.sides, (a, b), strict=True)
        )
        return one, other

    def call_time(self, a: I64, b: I64) -> tuple[float, float]:
        """The self time of these calls, ns a step."""
        one, other = (
            int(tree.self_time[np.searchsorted(tree.at, at)].sum()) / self.count
            for tree, at in zip(self.trees, (a, b), strict=True)
        )
        return one, other

    def about(self, a: I64, b: I64) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The names of events, each once."""
        one, other = (
            tuple(side.trace.names[i] for i in distinct(side.trace.name[at], len(side.trace.names)).tolist())
            for side, at in zip(self.sides, (a, b), strict=True)
        )
        return one, other

    def told(
        self, kind: str, text: str, change: float, on: str, a: I64, b: I64, cpu_change: float = 0.0
    ) -> Explanation:
        return Explanation(
            kind, text, round(change), on, *self.about(a, b), round(cpu_change), np.sort(a), np.sort(b)
        )  # fmt: skip


OPTIONS = (("record_shapes", "shapes"), ("with_stack", "Python stacks"), ("profile_memory", "memory"))
"""What may be recorded besides, and what a sentence calls it."""


def options(side: Side) -> tuple[bool, ...]:
    """Which of `OPTIONS` a recording has."""
    return tuple(bool(side.trace.info.properties.get(key)) for key, _ in OPTIONS)


def explain(facts: Facts) -> tuple[tuple[Explanation, ...], bool]:
    """(the explanations, what matters most first; whether both are the same program)."""
    program = [*_device_changes(facts), *_call_changes(facts), *_graphs(facts), *_sizes(facts)]
    same = not program
    found = [
        *_machine(facts, same),
        *_first_use(facts),
        *program,
        *_slower_work(facts),
        *_slower_calls(facts),
        *_more_steps(facts),
    ]
    device = facts.by_device

    def weight(one: Explanation) -> tuple[bool, int]:
        # Where the device sets the pace, what the CPU does meanwhile comes second.
        return device and one.on == "cpu", -max(abs(one.change_ns), 0 if device else abs(one.cpu_change_ns))

    order = sorted(found, key=weight)
    return tuple(order), same


def answer(facts: Facts, found: Sequence[Explanation], same: bool) -> str:
    """The difference in a sentence or two."""
    step = facts.metrics["step_ns"]
    a, b = step.a or 0.0, step.b or 0.0
    change = b - a
    what = "A step" if len(facts.a.steps) else "The recording"
    if not found and not change:
        return "No difference: the same work, in the same time."
    if abs(change) < SAME * a and not facts.within:
        return f"{'The same program. ' if same else ''}{what} takes {duration(b)}, as before.{_device(facts)}"
    told = _takes(facts, a, b)
    if facts.within:
        return f"{told}."
    machine = next((one for one in found if one.kind == "machine"), None)
    slower = step.machine if machine is not None and facts.mostly(machine.on == "device") else 0.0
    much = abs(slower) >= max(MACHINE * a, 0.2 * abs(change))
    sign = "+" if slower > 0 else "-"
    if not step.within_noise:
        without = much and 0 < b - slower < 10 * b
        part = f"; {sign}{duration(abs(slower))} is the machine: without it, about {duration(b - slower)}"
        return f"{told}{part if without else ''}.{_device(facts)}"
    if same and machine is not None and (machine.on == "device" or not facts.by_device):
        return f"{machine.text} {told}."
    start = f"{'The same program. ' if same else ''}{told}: "
    if much and abs(change - slower) <= 0.2 * abs(change):
        return f"{start}the machine{facts.recorded}, not the change.{_device(facts)}"
    if much:
        part = f"{sign}{duration(abs(slower))} is the machine, the rest no more than steps vary"
        return f"{start}{part}.{_device(facts)}"
    return f"{start}no more than steps vary.{_device(facts)}"


def _takes(facts: Facts, a: float, b: float) -> str:
    part = f" ({_part(a, b)})" if a else ""
    if not facts.within:
        what = "A step" if len(facts.a.steps) else "The recording"
        return f"{what} takes {duration(b)} instead of {duration(a)}{part}"
    one, other = facts.whole
    step = capital(other.label(0)) if other.rounds == 1 else "The median step"
    against = one.label(0) if one.rounds == 1 else "the median of the others"
    return f"{step} takes {duration(b)}, {against} {duration(a)}{part}"


def _part(a: float, b: float) -> str:
    """`+2.5%`, `-26%`, `12.5 times as long`."""
    if b >= 5 * a:
        return f"{significant(b / a)} times as long"
    away = abs(b - a) / a
    return f"{'+' if b > a else '-'}{percent(away, 1 if away < 0.0995 else 0)}"


def known(facts: Facts, found: Sequence[Explanation]) -> bool:
    """Whether something explains at least half of the change of a step: then it is no noise."""
    change = facts.metrics["step_ns"].change or 0.0
    mine = [
        one.change_ns for one in found if one.kind != "machine" and not (facts.by_device and one.on == "cpu")
    ]
    return any(ns * change > 0 and 2 * abs(ns) >= abs(change) for ns in mine)


def _device(facts: Facts) -> str:
    """A difference of the device's work that is not that of the step."""
    work, step = facts.metrics["device_ns"], facts.metrics["step_ns"]
    if work.within_noise or not work.a or not work.b:
        return ""
    alike = not step.within_noise and abs(work.b / work.a - (step.ratio or 1.0)) < WORTH
    if alike or abs(work.b / work.a - 1) < MACHINE:
        return ""
    return f" The GPU's work took {duration(work.b)} instead of {duration(work.a)} ({_part(work.a, work.b)})."


def _first_use(facts: Facts) -> Iterator[Explanation]:
    """The device is used for the first time, or its libraries are, on one side."""
    before, after = facts.first
    if abs(after - before) >= LEAST * max(facts.step, facts.metrics["step_ns"].b or 0):
        told = f"{duration(after)}{facts.each} instead of {duration(before)}"
        text = f"The first use of the GPU and its libraries takes {told}."
        yield Explanation("initialisation", text, round(after - before), "cpu")


def _machine(facts: Facts, same: bool) -> Iterator[Explanation]:
    """The calls and kernels that are the same took longer, or less long."""
    cpu, device = facts.machine.cpu_ratio or 1.0, facts.machine.device_ratio or 1.0
    path = facts.path[1] - facts.path[0]
    before, after = facts.work_time(facts.work.all_a[facts.timed], facts.work.all_b[facts.timed])
    work_time = facts.metrics["device_ns"].a or 1
    enough = facts.related(False) and (same or facts.machine.calls >= FEW_CALLS)
    slow_cpu = enough and abs(cpu - 1) >= MACHINE and abs(path) >= LEAST * facts.step
    slow_device = (
        facts.related(True) and abs(device - 1) >= DEVICE and abs(after - before) >= LEAST * work_time
    )
    if not slow_cpu and not slow_device:
        return
    calls = f"{round(facts.machine.calls / facts.count):,} calls{facts.each}"
    work = plural(round(facts.machine.work / facts.count), "kernel") + facts.each
    both = "" if same else " that both run"
    its = "its" if same else "the"
    parts = [f"{its} {calls}{both} took {significant(cpu)} times as long on the CPU"] if slow_cpu else []
    if slow_device:
        parts.append(f"{its} {work}{both} took {significant(device)} times as long on the GPU")
    text = ", ".join(parts)
    on_device = slow_device and (not slow_cpu or facts.by_device)
    if 1 < facts.count < max(side.rounds for side in facts.whole):
        text += f" in the {facts.count} pairs of steps"
    if not facts.within:
        text = f"{'The same program: ' if same else ''}{text}"
        if facts.mostly(on_device):
            text += f": the machine{facts.recorded}, not the {'program' if same else 'change'}"
    change, on = (after - before, "device") if on_device else (path, "cpu")
    yield Explanation("machine", f"{capital(text)}.", round(change), on)


# What the device does differently


def _device_changes(facts: Facts) -> Iterator[Explanation]:
    trace = facts.a.trace
    both = {trace.names[i] for i in distinct(trace.name[facts.work.all_a], len(trace.names)).tolist()}
    for change in facts.changes:
        if change.kind != "calls":
            a, b = (np.array(part.events, dtype=np.int64) for part in (change.a, change.b))
            before, after = facts.work_time(a, b)
            cpu = change.a.cpu / facts.count, change.b.cpu / facts.count
            text = _sentence(facts, change, (before, after), cpu, both)
            yield facts.told(change.kind, text, after - before, "device", a, b, cpu[1] - cpu[0])


def _sentence(
    facts: Facts, change: Change, time: tuple[float, float], cpu: tuple[float, float], both: set[str]
) -> str:
    """`both`: the names of work that both sides do."""
    left, right = _called(facts.a, change.a), _called(facts.b, change.b)
    where = _where(facts, change)
    right = f"another {right}" if left == right else right
    if change.kind == "order":
        return f"{left} runs in another place{where}."
    if change.kind in ("new", "gone"):
        new = change.kind == "new"
        name, part = (right, change.b) if new else (left, change.a)
        waits = part.waits / facts.count
        on_cpu = f", {duration(cpu[new])} on the CPU" if cpu[new] else ""
        if waits:
            on_cpu += f" ({duration(waits)} of that waiting for the GPU)"
        if new:
            where = _ahead(facts, change) + where
        spent = f"{duration(time[new])} on the GPU{on_cpu}{facts.each}"
        side = facts.b if new else facts.a
        told = f"{_is(name)} {change.kind}"
        if len(change.rounds) == facts.count and all(side.trace.name_of(i) in both for i in part.events):
            told = f"{'runs' if _is(name) == 'is' else 'run'} {'more' if new else 'less'} often"
        return f"{name} {told}{where}: {spent}."
    # Where the calls of one side count elsewhere, there is nothing to compare.
    on_cpu = f", {duration(cpu[0])} → {duration(cpu[1])} on the CPU" if all(cpu) else ""
    spent = f"{duration(time[0])} → {duration(time[1])} on the GPU{on_cpu}{facts.each}"
    return f"{left} became {right}{where}: {spent}."


def _where(facts: Facts, change: Change) -> str:
    """In how many places of a step, or in which steps alone."""
    rounds = sorted({pair[1] for pair in change.rounds})
    if len(facts.b.steps) and len(rounds) < facts.count:
        one = f" in {facts.b.label(rounds[0])}"
        return one if len(rounds) == 1 else f" in {len(rounds)} of {facts.count} steps"
    many = round(change.places / max(1, len(rounds)))
    return f", {many:,} times" if many > 1 and change.kind != "order" else ""


def _ahead(facts: Facts, change: Change) -> str:
    """What a new copy or set is right before: a kernel of the same op."""
    trace, at = facts.b.trace, change.b.events[0]
    near = np.arange(at, min(trace.lanes[int(trace.lane[at])].last, at + 1 + NEAR))
    op = op_behind(trace, near)
    kernel = near[(trace.kind[near] == Kind.KERNEL) & (op == op[0]) & (op >= 0)]
    if not _moves(trace, change.b.events) or not len(kernel):
        return ""
    return f" before {_short(trace, int(kernel[0]))}"


def _called(side: Side, part: Part) -> str:
    """What a sentence calls events: by the ops that launch nothing else, if those are few; else by their own
    names."""
    own, ops = _shorts(side.trace, part.events), _shorts(side.trace, part.tops)
    few = part.mostly and 0 < len(ops) <= min(NAMED, max(1, len(own)))
    if _moves(side.trace, part.events):
        return f"{listed(own)} ({listed(ops)})" if few else listed(own)
    return listed(ops if few else own)


def _shorts(trace: Trace, events: Sequence[int]) -> list[str]:
    """The short names of events, each once: in order if they are few, else the longest first."""
    at = np.array(events, dtype=np.int64)
    _, first, which = np.unique(trace.name[at], return_index=True, return_inverse=True)
    time = sum_into(which, trace.duration[at], len(first))
    order = np.argsort(-time if len(first) > NAMED else first, kind="stable")
    return list(dict.fromkeys(_short(trace, events[i]) for i in first[order].tolist()))


def _moves(trace: Trace, events: Sequence[int]) -> bool:
    return bool(np.all(trace.kind[np.array(events, dtype=np.int64)] != Kind.KERNEL))


def listed(names: Sequence[str]) -> str:
    """Names for a sentence: `a`, `a and b`, `a, b and 3 others`."""
    if len(names) > NAMED:
        names = [*names[: NAMED - 1], f"{len(names) - NAMED + 1} others"]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _is(names: str) -> str:
    return "are" if " and " in names.partition(" (")[0] else "is"


def _short(trace: Trace, i: int) -> str:
    name = trace.name_of(i)
    # Inductor names its calls like its kernels, at any length.
    long = name.startswith("triton_") and len(name) > LONGEST
    return short_name(name, "kernel" if long else trace.categories[int(trace.category[i])])


# What the CPU does differently


def _call_changes(facts: Facts) -> Iterator[Explanation]:
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
            yield facts.told(kind, tell(facts, a, b, before, after), after - before, "cpu", a, b)


def _guards_text(facts: Facts, a: I64, b: I64, before: float, after: float) -> str:
    names = listed(_by_time(facts.b, facts.trees[1], b) or _by_time(facts.a, facts.trees[0], a))
    if not len(b):
        spent = f"{duration(before)} on the CPU{facts.each}"
        return f"Guards and the prologue of compiled code are gone: {spent} ({names})."
    time = duration(after) if not len(a) else f"{duration(before)} → {duration(after)}"
    return f"Guards and the prologue of compiled code cost {time} on the CPU{facts.each} ({names})."


def _calls_text(facts: Facts, a: I64, b: I64, before: float, after: float) -> str:
    sides = zip(facts.sides, facts.trees, (a, b), (before, after), strict=True)
    told = [(side, listed(_by_time(side, tree, at)), at, time) for side, tree, at, time in sides]
    if len(a) and len(b):
        (_, left, _, _), (_, right, _, _) = told
        return (
            f"On the CPU, {_count(len(a) / facts.count, 'call')}{facts.each} ({left}) became "
            f"{_count(len(b) / facts.count)} ({right}): {duration(before)} → {duration(after)}."
        )
    side, name, at, time = told[0] if len(a) else told[1]
    rounds = np.unique(side.round_of(at))
    only = len(side.steps) and len(rounds) == 1 and facts.count > 1
    where = f" in {side.label(int(rounds[0]))}" if only else ""
    count = plural(len(at), "call") if only else f"{_count(len(at) / facts.count, 'call')}{facts.each}"
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


def _by_time(side: Side, tree: CallTree, at: I64) -> list[str]:
    """The names of calls, those that take most time first."""
    time: Counter[str] = Counter()
    _, first, which = np.unique(side.trace.name[at], return_index=True, return_inverse=True)
    spent = sum_into(which, tree.self_time[np.searchsorted(tree.at, at)], len(first))
    for i, ns in zip(at[first].tolist(), spent.tolist(), strict=True):
        time[_short(side.trace, i)] += ns
    return [name for name, _ in time.most_common()]


def _count(number: float, noun: str = "") -> str:
    text = f"{number:,.0f}" if number >= 1 or number == 0 else significant(number)
    return f"{text} {noun}{'' if text == '1' else 's'}" if noun else text


def _graphs(facts: Facts) -> Iterator[Explanation]:
    """The same work, launched by a CUDA graph on one side only."""
    at = facts.work.all_a, facts.work.all_b
    before, after = (_by_graph(side, one) for side, one in zip(facts.sides, at, strict=True))
    for these, come in ((after & ~before, "come"), (before & ~after, "no longer come")):
        if np.count_nonzero(these) < 2 * facts.count:
            continue
        a, b = at[0][these], at[1][these]
        launches = [
            _count(len(np.unique(side.trace.launch[one])) / facts.count)
            for side, one in zip(facts.sides, (a, b), strict=True)
        ]
        same = f"The same {_count(len(a) / facts.count)} kernels, copies and sets{facts.each}"
        text = f"{same} {come} from a CUDA graph: {launches[0]} → {launches[1]} launches."
        yield facts.told("graph", text, 0, "device", a, b)


def _by_graph(side: Side, at: I64) -> Bool:
    launch = side.trace.launch[at]
    graph = named(side.trace, lambda name: "GraphLaunch" in name)
    return np.asarray((launch >= 0) & graph[side.trace.name[launch]], dtype=np.bool_)


# The same work, on other sizes or in another time


def _sizes(facts: Facts) -> Iterator[Explanation]:
    """Work on larger or smaller inputs; ops only where no work says more."""
    device = bool(facts.grown.any())
    if not device and any(one.kind != "calls" for one in facts.changes):
        return
    pairs, mask = (facts.work, facts.grown) if device else (facts.calls, facts.bigger)
    if not mask.any():
        return
    a, b = (pairs.all_a[mask], pairs.all_b[mask]) if device else (pairs.a[mask], pairs.b[mask])
    before, after = facts.work_time(a, b) if device else facts.call_time(a, b)
    what = "of the kernels and copies" if device else "of the ops"
    text = (
        f"{_count(len(a) / facts.count)} {what}{facts.each} work on other sizes ({_example(facts, a, b)}): "
        f"{duration(before)} → {duration(after)} on the {'GPU' if device else 'CPU'}."
    )
    yield facts.told("sizes", text, after - before, "device" if device else "cpu", a, b)


def _example(facts: Facts, a: I64, b: I64) -> str:
    """The sizes of the longest of them, as far as they differ."""
    longest = int(np.argmax(facts.b.trace.duration[b]))
    events = (facts.a.trace, int(a[longest])), (facts.b.trace, int(b[longest]))
    sizes = [{**_shapes(trace, i), **trace.args(i)} for trace, i in events]
    for key, name in (("shapes", ""), ("bytes", "bytes "), ("grid", "grid "), ("block", "block ")):
        one, other = (size.get(key) for size in sizes)
        if one != other and one is not None and other is not None:
            return plain(f"{_short(*events[1])}: {name}{_by(one)} → {_by(other)}", 120)
    return _short(*events[1])


def _shapes(trace: Trace, i: int) -> dict[str, object]:
    device = trace.is_kind(*DEVICE_WORK)[i]
    op = int(op_behind(trace, np.array([i]))[0]) if device else i
    dims = trace.args(op).get("Input Dims") if op >= 0 else None
    return {"shapes": [one for one in dims if one][:2]} if isinstance(dims, list) and any(dims) else {}


def _by(size: object) -> str:
    """`64x768 768x3072` for shapes, `2x66x1` for a grid."""
    if isinstance(size, list) and size and isinstance(size[0], list):
        return " ".join(map(_by, size))
    return "x".join(map(str, size)) if isinstance(size, list) else str(size)


def _slower_work(facts: Facts) -> Iterator[Explanation]:
    a, b = facts.work.all_a[~facts.grown], facts.work.all_b[~facts.grown]
    time = facts.a.trace.duration, facts.b.trace.duration
    whole = (facts.metrics["device_ns"].a or 0.0) * facts.count
    for one in slower(facts.a.trace.name[a].astype(np.int64), time[0][a], time[1][b], a, b, whole):
        yield _slow(facts, one, time, "device")


def _slower_calls(facts: Facts) -> Iterator[Explanation]:
    """Not of calls that wait for the device: the device decides how long they take."""
    waits = facts.trees[0].waits[np.searchsorted(facts.trees[0].at, facts.calls.a)]
    same = ~facts.bigger & ~waits & ~facts.other
    a, b = facts.calls.a[same], facts.calls.b[same]
    time = np.zeros(len(facts.a.trace), np.int64), np.zeros(len(facts.b.trace), np.int64)
    for own, tree in zip(time, facts.trees, strict=True):
        own[tree.at] = tree.self_time
    names, whole = facts.a.trace.name[a].astype(np.int64), facts.step * facts.count
    for one in slower(names, time[0][a], time[1][b], a, b, whole, CALL_CHANGE):
        yield _slow(facts, one, time, "cpu")


def _slow(facts: Facts, one: Slower, time: tuple[I64, I64], on: str) -> Explanation:
    before, after = float(np.mean(time[0][one.a])), float(np.mean(time[1][one.b]))
    rounds = np.unique(facts.b.round_of(one.b))
    alone = len(facts.b.steps) and len(rounds) == 1 and facts.count > 1
    where = f" in {facts.b.label(int(rounds[0]))}" if alone else ""
    many = round(len(one.a) / facts.count)
    some = f", {len(one.a):,} of {one.of:,} times" if len(one.a) < one.of else ""
    some = some or (f", {many:,} times{facts.each}" if many > 1 else "")
    name, place = _short(facts.a.trace, int(one.a[0])), "GPU" if on == "device" else "CPU"
    if on == "device" and is_communication(facts.a.trace.name_of(int(one.a[0]))):
        some += ", with its waiting for other ranks"
    text = f"{name} takes {duration(after)} instead of {duration(before)} on the {place}{where}{some}."
    return facts.told(
        "slower" if one.change > 0 else "faster", text, one.change / facts.count, on, one.a, one.b
    )


def _more_steps(facts: Facts) -> Iterator[Explanation]:
    a, b = (side.rounds for side in facts.whole)
    if a != b and min(a, b) > 1:
        yield Explanation("steps", f"B has {plural(b, 'step')}, A {a}.", 0, "cpu")
