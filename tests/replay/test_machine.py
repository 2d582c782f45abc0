"""The replay against a machine whose truth is known."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.kineto import Event, kernel, launch, trace_of
from tests.kineto import step as step_of
from tests.replay import machine
from tests.replay.machine import BACKWARD, Machine, Options

from tracetui.analysis.part import Part
from tracetui.analysis.select import slices_named
from tracetui.replay import driver, engine, graph
from tracetui.replay.graph import Graph, graph_of, on_cpu, whole_time
from tracetui.replay.scenario import (
    MOVE,
    NO_CHANGE,
    OVERLAP,
    REMOVE,
    SPEED_UP,
    Change,
    Scenario,
    binding,
    cpu_binds,
    movable,
    replay,
    waits,
)
from tracetui.trace.intervals import EMPTY

Step = Callable[[Machine], None]
STEPS = 12
ONE = (machine.host_bound, machine.device_bound, machine.waiting, machine.replayed)
PROGRAMS = (*ONE, machine.two_streams)


def _of(graph: Graph, what: str, name: str, factor: float = 1.0) -> Scenario:
    return Scenario([Change(what, slices_named(graph.trace, name.__eq__), factor)])


CHANGES: dict[str, tuple[Options, Callable[[Graph], Scenario]]] = {
    "cpu 2x": (Options(cpu=2), lambda _: Scenario(cpu=2)),
    "cpu 8x": (Options(cpu=8), lambda _: Scenario(cpu=8)),
    "gemm 2x": (Options(kernel={"gemm": 0.5}), lambda g: _of(g, SPEED_UP, "gemm", 2)),
    "add slower": (Options(kernel={"add": 4}), lambda g: _of(g, SPEED_UP, "add", 0.25)),
    "without log": (Options(without=frozenset({"log"})), lambda g: _of(g, REMOVE, "log")),
    "without add": (Options(without=frozenset({"add"})), lambda g: _of(g, REMOVE, "add")),
    "load elsewhere": (Options(elsewhere=frozenset({"load"})), lambda g: _of(g, MOVE, "load")),
    "backward elsewhere": (Options(elsewhere=frozenset({BACKWARD})), lambda g: _of(g, MOVE, BACKWARD)),
    "no waits": (Options(syncs=False), lambda g: Scenario([Change(MOVE, waits(g))])),
    "copies aside": (Options(copies_aside=True), lambda g: Scenario([Change(OVERLAP, movable(g))])),
}


def _measured(tmp_path: Path, step: Step) -> Graph:
    return graph_of(Part(Machine(seed=2).steps(STEPS, step).trace(tmp_path)))


def _error(graph: Graph, step: Step, change: str) -> float:
    options, scenario = CHANGES[change]
    # An `inside` puts back what it changes, so that each run begins with the same options.
    truth = Machine(options, seed=3).steps(STEPS, step).step_ns
    return float(replay(graph, scenario(graph)).length.mean()) / truth - 1


@pytest.mark.parametrize("step", PROGRAMS, ids=lambda step: step.__name__)
def test_what_was_measured(tmp_path, step):
    run = Machine(seed=2).steps(STEPS, step)
    found = graph_of(Part(run.trace(tmp_path)))
    assert np.diff(found.measured[found.marks]).mean() == pytest.approx(run.step_ns, rel=1e-6)
    assert replay(found).length.mean() == pytest.approx(run.step_ns, rel=0.003)
    assert not found.unexplained


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("step", PROGRAMS, ids=lambda step: step.__name__)
def test_a_change(tmp_path, step, change):
    assert abs(_error(_measured(tmp_path, step), step, change)) <= (0.01 if step in ONE else 0.03)


@pytest.mark.parametrize(
    ("step", "options", "name", "factor", "left_out"),
    [
        (machine.one_of_two, Options(kernel={"gemm": 0.25}), "gemm", 4, "of one stream"),
        (machine.an_earlier_one, Options(kernel={"gemm": 3}), "gemm", 1 / 3, "ended_before"),
        (machine.told, Options(kernel={"side": 10}), "side", 0.1, "told_waits"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_waited_for(
    tmp_path, monkeypatch, step, options, name, factor,
    left_out,
):  # fmt: skip
    """Of one stream, of an event, as the file says it; and that it is wrong without."""
    truth = Machine(options, seed=3).steps(STEPS, step).step_ns
    found = _measured(tmp_path, step)
    assert replay(found, _of(found, SPEED_UP, name, factor)).length.mean() == pytest.approx(truth, rel=0.01)
    none = np.zeros(0, np.int64)
    if left_out == "of one stream":
        monkeypatch.setattr(graph, "OF_STREAM", "no call")
    else:
        monkeypatch.setattr(graph, left_out, lambda *_: (none, none))
    without = graph_of(Part(found.trace))
    wrong = replay(without, _of(without, SPEED_UP, name, factor)).length.mean()
    assert wrong != pytest.approx(truth, rel=0.05)


def test_dependencies_within_a_graph(tmp_path):
    """A node that ended long before another one began holds it up once it takes longer."""
    events: list[Event] = []
    for number in range(4):
        at = 1000.0 * number
        call = launch(at + 10, number, 10, "cudaGraphLaunch")
        a = kernel(at + 25, 20, number, 7, "a")
        b, c = kernel(at + 26, 100, number, 8, "b"), kernel(at + 126.4, 10, number, 8, "c")
        ends = [("s", a), ("f", c)]
        flows = [
            {"ph": phase, "cat": "ac2g", "name": "ac2g", "id": (1 << 40) + number, "bp": "e"}
            | {key: event[key] for key in ("pid", "tid", "ts")}
            for phase, event in ends
        ]
        events += [step_of(number, at, 990), call, a, b, c, *flows]
    found = graph_of(Part(trace_of(tmp_path, *events)))
    longer = replay(found, _of(found, SPEED_UP, "a", 0.1))
    waiting = np.flatnonzero(found.slices == slices_named(found.trace, "c".__eq__)[0])[0]
    assert longer.begin[waiting] - replay(found).begin[waiting] == pytest.approx(100_000, abs=2_000)


def test_a_copy_that_the_cpu_waits_for(tmp_path):
    """Without the wait it still runs."""

    def step(m: Machine, waits: bool) -> None:
        m.op("aten::mm", "gemm", 60)
        m.ids += 1
        begun, end = m.now, max(m.now + 3, m.free[7] + 1.2) + 300
        m._call("cudaMemcpyAsync", "cuda_runtime", end + 5 - begun if waits else 4, correlation=m.ids)
        m._device("Memcpy HtoD (Pageable -> Device)", 300, 7, begun + 3, 1.2, "gpu_memcpy")
        m.work(200)

    part = Part(Machine(Options(jitter=0)).steps(STEPS, lambda m: step(m, True)).trace(tmp_path))
    found = graph_of(part)
    truth = np.diff(Machine(Options(jitter=0)).steps(STEPS, lambda m: step(m, False)).ends)[1:].mean() * 1000
    assert len(waits(found)) == STEPS
    faster = replay(found, Scenario([Change(MOVE, waits(found))]))
    assert faster.length[1:].mean() == pytest.approx(truth, rel=0.01)
    assert replay(found).length[1:].mean() > 1.3 * truth


@pytest.mark.parametrize("name", ["_before", "_targets", "_waits_of_streams", "splice", "launch"])
def test_each_edge_counts(tmp_path, monkeypatch, name):
    """Without one kind of edge, some change is predicted wrongly."""
    none = np.zeros(0, np.int64)
    found = {step: _measured(tmp_path, step) for step in PROGRAMS}
    if name == "_before":
        monkeypatch.setattr(graph._Builder, name, lambda self: np.full(len(self.kind), -1))
    elif name == "_targets":
        monkeypatch.setattr(graph._Builder, name, lambda self: (none, none))
    elif name == "_waits_of_streams":
        monkeypatch.setattr(graph._Builder, name, lambda self, *_: (none, none, np.zeros(0)))
    elif name == "splice":
        monkeypatch.setattr(driver, "_bursts", lambda *_: (EMPTY, False))
    else:
        monkeypatch.setattr(graph, "WORK", engine.QUEUED)
    wrong = 0.0
    for step in PROGRAMS:
        without = graph_of(Part(found[step].trace))
        limit = 0.01 if step in ONE else 0.03
        wrong = max(wrong, *(abs(_error(without, step, change)) / limit for change in CHANGES))
    assert wrong > 1


@pytest.mark.parametrize("step", PROGRAMS, ids=lambda step: step.__name__)
def test_derivatives_are_finite_differences(tmp_path, step):
    found = _measured(tmp_path, step)
    base = replay(found)
    of_nodes, flow = binding(found, base)
    trace, tiny = found.trace, 1e-6
    for name in ("gemm", "add", "side", "reduce"):
        at = slices_named(trace, name.__eq__)
        mine = np.isin(found.slices, at) & (found.slices >= 0)
        expected = float((of_nodes * found.nodes.length)[mine].sum())
        changed = replay(found, Scenario([Change(SPEED_UP, at, 1 / (1 - tiny))]))
        assert (base.length - changed.length).mean() / tiny == pytest.approx(expected, abs=1)
    expected = float(cpu_binds(found, flow, *whole_time(found))[0])
    changed = replay(found, Scenario(cpu=1 / (1 - tiny)))
    assert (base.length - changed.length).mean() / tiny == pytest.approx(expected, abs=1)
    for name in ("load", "aten::mm", BACKWARD):
        at = slices_named(trace, name.__eq__)
        expected = float(cpu_binds(found, flow, *on_cpu(found, at)).sum())
        changed = replay(found, Scenario([Change(SPEED_UP, at, 1 / (1 - tiny))]))
        assert (base.length - changed.length).mean() / tiny == pytest.approx(expected, abs=1)


def test_c_and_python_agree(tmp_path, monkeypatch):
    if engine.LIBRARY is None:
        pytest.skip("the library in C is not installed")
    for step in PROGRAMS:
        found = _measured(tmp_path, step)
        for scenario in (NO_CHANGE, *(make(found) for _, make in CHANGES.values())):
            fast = replay(found, scenario)
            flows = binding(found, fast)
            with monkeypatch.context() as patch:
                patch.setattr(engine, "LIBRARY", None)
                slow = replay(found, scenario)
                for one, other in zip(flows, binding(found, slow), strict=True):
                    np.testing.assert_array_equal(one, other)
            np.testing.assert_array_equal(fast.end, slow.end)
            np.testing.assert_array_equal(fast.result.bound, slow.result.bound)
