"""What each fix would be worth in this recording, by a replay of it; and how far that can be trusted.

A worth is how much shorter the mean step of the replay is once something takes no time. Worths do not add up:
where one thing is gone, another holds the step up. A derivative says what a little less of it would bring.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from msgspec import Struct
from msgspec.structs import replace as changed

from tracetui.analysis.calls.calls import is_collective, outermost_ops_of
from tracetui.analysis.idle.kinds import communicates
from tracetui.analysis.part import Part, fact_of_trace
from tracetui.analysis.select import name_mask, plausible
from tracetui.analysis.steps.scope import step_table_of
from tracetui.analysis.steps.steps import unusual_lengths
from tracetui.replay.driver import among
from tracetui.replay.graph import Graph, graph_of, on_cpu, whole_time
from tracetui.replay.scenario import (
    MOVE,
    NO_CHANGE,
    OVERLAP,
    SPEED_UP,
    Change,
    Scenario,
    Steps,
    binding,
    cpu_binds,
    movable,
    replay,
    waits,
)
from tracetui.trace import DEVICE_WORK, Kind
from tracetui.trace.model import F64, I64, Bool
from tracetui.trace.slices import Slices
from tracetui.trace.unrecorded import unrecorded

EACH = 5
"""So many names of each kind are replayed: those with the largest derivatives."""
OFF, LOST, ALONE, ON_PATH = 0.02, 0.01, 0.05, 0.01
SMALL, SPREADS = 0.03, 2.0
NO_STEPS, REPRODUCTION, SECOND_THREAD, COLLECTIVES, UNRECORDED, WITHIN_NOISE = (
    "no_steps", "reproduction", "second_thread", "collectives", "unrecorded", "within_noise",
)  # fmt: skip
"""Why a worth is not to be relied on: the trace has no steps; the replay is more than `OFF` away from what
was measured; a thread launches on its own; collectives hold the step up, and there is one rank only; device
work is missing in the file; and of one worth, that it is small beside the spread of the steps."""
NO_TIME = 1e-9
"""The part of its time that something takes which takes no time."""
WHOLE = 0.9
"""An annotation with more of the CPU's time than this is the step itself."""


class Worth(Struct, frozen=True, eq=False):
    """What it would be worth if something took no time."""

    kind: str
    """`annotation`, `op` or `kernel`: all of this name (annotations and ops: their time on the CPU). `cause`:
    see `name`."""
    name: str
    """Safe to show. Of a cause: `sync` (no call waits for the device), `dispatch` (the CPU takes no time in
    ops), `host` (it takes none outside of them), `overlap` (copies and collectives run beside all else),
    `graphs` (what is launched between two waits is launched in one call)."""
    worth_ns: float
    """Of the mean step."""
    derivative_ns: float | None
    """The same to first order: what a hundredth less of it would bring, times a hundred. None where it cannot
    be had in part."""
    slices: I64
    """What it is about; none for a cause."""
    muted: str | None
    """Why not to rely on it, or None."""


class Range(Struct, frozen=True):
    """A step as it would have been, ns."""

    low: float
    value: float
    high: float


class Worths(Struct, frozen=True, eq=False):
    """The worths, largest first, and what was measured."""

    step_ns: float
    """The median step: from the end of the one before, on the CPU or the device, whichever is later, to its
    own."""
    steps: int
    """How many steps there are."""
    spread_ns: float
    """The standard deviation of the steps, without the first one and those far from the median, if there are
    others."""
    reproduction_error: float
    """The replayed median step, as a share above the measured one."""
    muted: str | None
    each: tuple[Worth, ...]


class _Base(Struct, frozen=True, eq=False):
    """The replay without a change."""

    graph: Graph
    steps: Steps
    counted: Bool
    """The steps of means: not those far from the median, and not the first one, in which the queue fills."""
    step: float
    spread: float
    error: float
    of_nodes: F64
    flow: F64
    muted: str | None

    def mean(self, steps: Steps) -> float:
        return float(steps.length[self.counted].mean())

    @property
    def talks(self) -> bool:
        """Whether there are collectives."""
        return bool(communicates(self.graph.trace).any())

    @property
    def noise(self) -> float:
        """A gain up to this may be none, ns."""
        return max(SMALL * self.step, SPREADS * self.spread / float(np.sqrt(self.counted.sum())))


@fact_of_trace
def _base_of(part: Part) -> _Base:
    graph = graph_of(part)
    measured = np.diff(graph.measured[graph.marks])
    step = float(np.median(measured))
    counted = ~unusual_lengths(measured.astype(np.int64))
    counted[0] &= not counted[1:].any()
    some = measured[counted] if counted.sum() > 1 else measured
    spread = float(some.std(ddof=1)) if len(some) > 1 else 0.0
    steps = replay(graph)
    error = float(np.median(steps.length)) / step - 1 if step > 0 else 0.0
    of_nodes, flow = binding(graph, steps, counted)
    found = _Base(graph, steps, counted, step, spread, error, of_nodes, flow, None)
    return changed(found, muted=_muted(part, found))


def _muted(part: Part, base: _Base) -> str | None:
    trace, graph = part.trace, base.graph
    if not graph.by_steps:
        return NO_STEPS
    if abs(base.error) > OFF:
        return REPRODUCTION
    if graph.alone > ALONE:
        return SECOND_THREAD
    lost = unrecorded(trace)
    if len(lost.launches) - lost.after > LOST * max(1, lost.of):
        return UNRECORDED
    if not len(plausible(trace, *DEVICE_WORK)):  # the ranks talk on the CPU
        at = np.concatenate([plausible(trace, kind) for kind in (Kind.CPU_OP, Kind.ANNOTATION)])
        at = at[name_mask(trace, is_collective)[trace.name[at]]]
        if trace.duration[at].sum() > ON_PATH * base.step * len(base.counted):
            return COLLECTIVES
    return COLLECTIVES if _talks(base, base.of_nodes) else None


def _talks(base: _Base, of_nodes: F64) -> bool:
    """Whether collectives hold the step up, going by how much it grows with each node's length."""
    trace, length = base.graph.trace, base.graph.nodes.length
    talk = communicates(trace)[trace.name[base.graph.slices]] & (length > 0)
    return float((of_nodes * length)[talk].sum()) > ON_PATH * base.step


@fact_of_trace
def worths(part: Part) -> Worths:
    """What each fix is worth, largest first; only what is worth anything."""
    if not len(part.trace):
        return Worths(0.0, 0, 0.0, 0.0, NO_STEPS, ())
    base = _base_of(part)
    found = [one for one in _each(part, base) if one.worth_ns > 0]
    found.sort(key=lambda one: -one.worth_ns)
    return Worths(base.step, len(base.counted), base.spread, base.error, base.muted, tuple(found))


def worth(part: Part, scenario: Scenario) -> tuple[float, str | None]:
    """(how much shorter the mean step is under a scenario, ns; why not to rely on it, or None)."""
    if not len(part.trace):
        return 0.0, NO_STEPS
    base = _base_of(part)
    steps = replay(base.graph, scenario)
    gain = base.mean(base.steps) - base.mean(steps)
    if base.muted or abs(gain) <= base.noise:
        return gain, base.muted or WITHIN_NOISE
    # Once they hold the step up, the other ranks would have to be replayed, too.
    talks = base.talks and _talks(base, binding(base.graph, steps, base.counted)[0])
    return gain, COLLECTIVES if talks else None


def predict(part: Part, scenario: Scenario) -> Range:
    """The step under a scenario: with the constants from their range, and as far as the spread of the steps
    and the error of the replay allow."""
    base = _base_of(part) if len(part.trace) else None
    if base is None or base.step <= 0 or base.mean(base.steps) <= 0:
        return Range(0.0, 0.0, 0.0)
    found = []
    for end in (0, -1, 1):
        other = replay(base.graph, changed(NO_CHANGE, end=end))
        share = base.mean(replay(base.graph, changed(scenario, end=end))) / base.mean(other)
        found.append(base.step * share)
    apart = SPREADS * base.spread / float(np.sqrt(base.counted.sum())) + abs(base.error) * base.step
    # What the spread leaves open shrinks with the step.
    apart *= min(1.0, found[0] / base.step)
    return Range(max(0.0, min(found) - apart), found[0], max(found) + apart)


def _each(part: Part, base: _Base) -> Iterator[Worth]:
    make = partial(_made, part)
    yield from _causes(part, base, make)
    yield from _named(part, base, make)


def _made(
    part: Part, kind: str, name: str, scenario: Scenario, derivative: float | None, slices: I64 | None = None
) -> Worth:
    gain, muted = worth(part, scenario)
    none = np.zeros(0, np.int64)
    return Worth(kind, name, gain, derivative, none if slices is None else slices, muted)


def _causes(part: Part, base: _Base, make: partial[Worth]) -> Iterator[Worth]:
    graph = base.graph
    length = graph.nodes.length
    held = waits(graph)
    if len(held):
        is_wait = among(part.trace, held)[graph.slices]
        returns = float((base.of_nodes * graph.back.value)[is_wait & (base.steps.result.bound >= 0)].sum())
        yield make("cause", "sync", Scenario([Change(MOVE, held)]), returns)
    if len(aside := movable(graph)):
        mine = among(part.trace, aside)[graph.slices]
        yield make(
            "cause",
            "overlap",
            Scenario([Change(OVERLAP, aside)]),
            float((base.of_nodes * length)[mine].sum()),
        )
    ops = outermost_ops_of(part)
    low, high = on_cpu(graph, ops)
    in_ops = float(cpu_binds(graph, base.flow, low, high).sum())
    every = float(cpu_binds(graph, base.flow, *whole_time(graph))[0])
    if len(ops):
        yield make("cause", "dispatch", Scenario([Change(MOVE, ops)]), in_ops)
        yield make("cause", "host", Scenario(free=between(graph, low, high)), every - in_ops)
        yield make("cause", "graphs", Scenario(graphs=True), None)


def outside_of(part: Part, at: I64) -> Scenario:
    """The CPU takes no time outside of these slices and of ops."""
    graph = graph_of(part)
    return Scenario(free=between(graph, *on_cpu(graph, np.append(outermost_ops_of(part), at))))


def between(graph: Graph, low: F64, high: F64) -> tuple[F64, F64]:
    """The CPU's own time without some stretches of it."""
    order = np.argsort(low, kind="stable")
    first, last = whole_time(graph)
    begin = np.maximum.accumulate(np.append(first, high[order]))
    end = np.append(low[order], last)
    return begin[end > begin], end[end > begin]


def _named(part: Part, base: _Base, make: partial[Worth]) -> Iterator[Worth]:
    graph, trace = base.graph, part.trace
    steps = step_table_of(part)
    notes = plausible(trace, Kind.ANNOTATION)
    own = np.zeros(len(trace.names), np.bool_)
    own[trace.name[steps.event]] = True
    notes = notes[~own[trace.name[notes]]]
    for kind, at in (("annotation", notes), ("op", outermost_ops_of(part))):
        low, high = on_cpu(graph, at)
        if kind == "annotation" and len(at):
            begin, end = whole_time(graph)
            share = np.bincount(trace.name[at], high - low) / max(1.0, float(end[0] - begin[0]))
            keep = share[trace.name[at]] < WHOLE
            at, low, high = at[keep], low[keep], high[keep]
        spent = cpu_binds(graph, base.flow, low, high)
        for one, derivative in _largest(Slices(trace, at), spent):
            yield make(kind, one.first_name, Scenario([Change(MOVE, one.at)]), derivative, one.at)
    work = np.flatnonzero(graph.nodes.length > 0)
    at = graph.slices[work]
    spent = (base.of_nodes * graph.nodes.length)[work]
    for one, derivative in _largest(Slices(trace, at), spent):
        change = Change(SPEED_UP, one.at, 1 / NO_TIME)
        yield make("kernel", one.first_name, Scenario([change]), derivative, one.at)


def _largest(some: Slices, spent: F64) -> Iterator[tuple[Slices, float]]:
    """The names with the most time, with their slices."""
    if not len(some):
        return
    time = np.bincount(some.name, weights=spent, minlength=len(some.trace.names))
    for name in np.argsort(-time, kind="stable")[:EACH].tolist():
        if time[name] > 0:
            yield some[some.name == name], float(time[name])
