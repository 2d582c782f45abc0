"""What fixes are worth, how far that is trusted, and `tracetui whatif`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from tests.recorded import load
from tests.replay import machine
from tests.replay.machine import Machine, Options
from tests.replay.test_machine import CHANGES, ONE, Step

from tracetui.analysis.part import Part
from tracetui.cli.main import main
from tracetui.replay import graph
from tracetui.replay.graph import graph_of
from tracetui.replay.scenario import Scenario, binding, cpu_binds, replay
from tracetui.replay.worths import Worth, predict, worth, worths
from tracetui.rules.claims import Remedy
from tracetui.trace import Trace
from tracetui.trace.slices import Slices
from tracetui.views.whatif import remedy_worth

DATA = Path(__file__).parent.parent / "data"
SAMPLES = Path(__file__).parent.parent.parent / "sample_traces"
RECORDED = sorted([*SAMPLES.glob("*.json.gz"), *DATA.rglob("*.json.gz"), *DATA.rglob("*.pftrace.gz")])
RECORDED = [path for path in RECORDED if path.parent.name not in ("unrecorded", "writers")]  # made up
SLEEP = Path(__file__).parents[3] / "shared" / "traces" / "interleaved" / "without_sleep.a.json.gz"
CLOCK_NS = 2_000
"""How far a launch takes longer or shorter than usual, for no reason that a trace shows."""
STEPS = 12


def _part(tmp_path: Path, step: Step, options: Options | None = None) -> Part:
    return Part(Machine(options, seed=4).steps(STEPS, step).trace(tmp_path))


def _row(part: Part, kind: str, name: str) -> Worth:
    return next(one for one in worths(part).each if (one.kind, one.name) == (kind, name))


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_recordings_are_reproduced(path):
    part = Part(load(path))
    found = graph_of(part)
    if not found.by_steps:
        pytest.skip("no steps")
    measured = float(np.median(np.diff(found.measured[found.marks])))
    limit = 0.02 if found.in_graphs.samples else 0.005
    off = abs(float(np.median(replay(found).length)) - measured)
    assert off <= max(limit * measured, CLOCK_NS)
    assert found.unexplained <= (0.3 if "ranks" in path.parts else 0.15) * len(found.slices)


@pytest.mark.parametrize("name", ["train", "train_ddp", "mlp_eager", "mlp_cuda_graph"])
def test_derivatives_of_recordings(name):
    part = Part(load(SAMPLES / f"{name}.json.gz"))
    found, tiny = graph_of(part), 1e-6
    base = replay(found)
    of_nodes, flow = binding(found, base)
    changed = replay(found, Scenario(cpu=1 / (1 - tiny)))
    every = graph.whole_time(found)
    expected = float(cpu_binds(found, flow, *every)[0])
    assert (base.length - changed.length).mean() / tiny == pytest.approx(expected, abs=2, rel=1e-6)
    assert np.all(of_nodes[found.nodes.length > 0] >= -1)


def test_a_loader_that_sleeps(tmp_path):
    part = _part(tmp_path, machine.host_bound)
    truth = Machine(seed=5).steps(STEPS, machine.host_bound).step_ns
    without = Machine(Options(elsewhere=frozenset({"load"})), seed=6).steps(STEPS, machine.host_bound).step_ns
    found = _row(part, "annotation", "load")
    assert found.worth_ns == pytest.approx(truth - without, rel=0.05)
    assert found.derivative_ns == pytest.approx(found.worth_ns, rel=0.05)
    assert found.muted is None
    assert set(Slices(part.trace, found.slices).names) == {"load"}
    if not SLEEP.exists():
        pytest.skip("the recording is not there")
    found = _row(Part(load(SLEEP)), "annotation", "load")
    assert 4.0e6 <= found.worth_ns <= 4.5e6
    assert found.muted is None


def test_the_device_holds_the_step_up(tmp_path):
    """The CPU is worth nothing."""
    part = _part(tmp_path, machine.device_bound)
    found = worths(part)
    assert found.each[0].name == "gemm"
    of_device = ("kernel", "overlap", "graphs")
    of_cpu = [one for one in found.each if one.kind not in of_device and one.name not in of_device]
    assert all(one.worth_ns <= 0.005 * found.step_ns and one.muted == "within_noise" for one in of_cpu)
    part = Part(load(SAMPLES / "attention_math.json.gz"))
    gain, muted = worth(part, Scenario(cpu=1000))
    assert (gain, muted) == (pytest.approx(0, abs=1_000), "within_noise")


def test_a_wait_is_worth_little():
    part = Part(load(DATA / "pairs" / "train_item.json.gz"))
    found = _row(part, "cause", "sync")
    assert 0 < found.worth_ns < 0.02 * worths(part).step_ns
    assert found.muted == "within_noise"


def test_decoding_as_a_graph():
    """What the same program took as a CUDA graph lies in the range."""
    eager, as_graph = (Part(load(DATA / "pairs" / f"decode_{name}.json.gz")) for name in ("eager", "graph"))
    found = predict(eager, Scenario(graphs=True))
    assert worths(as_graph).step_ns == pytest.approx(204_000, abs=1_000)
    assert found.low <= worths(as_graph).step_ns <= found.high
    assert found.high - found.low < 0.03 * worths(eager).step_ns


def test_launches_in_one_call(tmp_path):
    """Split where the CPU waits, and where a copy from the host is launched."""

    def step(m: Machine, graph: bool) -> None:
        for kernel in ("gemm", "add"):
            with m.inside("load", "user_annotation"):
                m.work(80)
                m.launch("Memcpy HtoD (Pinned -> Device)", 15, cat="gpu_memcpy")
            if graph:
                m.graph([(kernel, 6.0)] * 15)
            else:
                for _ in range(15):
                    m.op("aten::mm", kernel, 6, 16)
                    m.work(3)
            m.sync()

    part = _part(tmp_path, lambda m: step(m, False), Options(jitter=0.02))
    truth = Machine(Options(jitter=0.02)).steps(STEPS, lambda m: step(m, True)).step_ns
    found = predict(part, Scenario(graphs=True))
    assert found.low <= truth <= found.high
    assert found.value == pytest.approx(truth, rel=0.05)


@pytest.mark.parametrize("step", ONE, ids=lambda step: step.__name__)
def test_ranges_hold_the_truth(tmp_path, step):
    part = _part(tmp_path, step)
    held = 0
    for options, scenario in CHANGES.values():
        ends = Machine(options, seed=7).steps(200, step).ends
        truth = float(np.median(np.diff(ends))) * 1000
        found = predict(part, scenario(graph_of(part)))
        assert found.low <= found.value <= found.high
        assert found.value == pytest.approx(truth, rel=0.02)
        held += found.low <= truth <= found.high
    assert held >= len(CHANGES) - 2


def test_remedies(tmp_path):
    part = _part(tmp_path, machine.host_bound)
    load = _row(part, "annotation", "load")
    for what in ("move", "speed_up"):
        gain, muted = remedy_worth(part, Remedy(what, Slices(part.trace, load.slices)))
        assert (gain, muted) == (pytest.approx(load.worth_ns, rel=1e-6), None)
    half, _ = remedy_worth(part, Remedy("speed_up", Slices(part.trace, load.slices), 2))
    assert half == pytest.approx(load.worth_ns / 2, rel=0.01)


def _muted(trace: Trace) -> str | None:
    found = worths(Part(trace))
    assert all(one.muted for one in found.each) == bool(found.muted)
    return found.muted


def test_muted_without_steps(tmp_path):
    run = Machine()
    machine.host_bound(run)
    assert _muted(run.trace(tmp_path)) == "no_steps"


def test_muted_where_it_is_not_reproduced(tmp_path, monkeypatch):
    trace = Machine().steps(STEPS, machine.two_streams).trace(tmp_path)
    assert _muted(trace) is None
    none = np.zeros(0, np.int64)
    monkeypatch.setattr(graph._Builder, "_waits_of_streams", lambda self, *_: (none, none, np.zeros(0)))
    monkeypatch.setattr(graph, "UNEXPLAINED", 1e9)
    assert _muted(trace) == "reproduction"


def test_muted_where_another_thread_launches(tmp_path):
    def step(m: Machine) -> None:
        begun = m.now
        machine.host_bound(m)
        over, m.now, m.thread = m.now, begun + 3, 11
        for _ in range(10):
            m.op("aten::mul", "side", 5, stream=30)
        m.now, m.thread = max(over, m.now), 9

    assert _muted(Machine().steps(STEPS, step).trace(tmp_path)) == "second_thread"


def test_muted_where_two_threads_launch_while_the_main_one_waits(tmp_path):
    def step(m: Machine) -> None:
        with m.inside("parallel_apply", "user_annotation"):
            begun = m.now + 1
            for thread, stream in ((11, 30), (12, 31)):
                m.now, m.thread = begun, thread
                for _ in range(10):
                    m.op("aten::mul", "side", 5, stream=stream)
            m.now, m.thread = m.now + 5, 9

    assert _muted(Machine().steps(STEPS, step).trace(tmp_path)) == "second_thread"


def test_muted_where_the_ranks_talk_on_the_cpu(tmp_path):
    def step(m: Machine) -> None:
        with m.inside("aten::mm"):
            m.work(100)
        with m.inside("gloo:all_reduce", "user_annotation"):
            m.work(50)

    assert _muted(Machine().steps(STEPS, step).trace(tmp_path)) == "collectives"


def test_muted_where_collectives_hold_the_step_up(tmp_path):
    def step(m: Machine) -> None:
        m.op("aten::mm", "gemm", 50)
        m.op("nccl:all_reduce", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 200)

    part = Part(Machine().steps(STEPS, step).trace(tmp_path))
    assert worths(part).muted == "collectives"

    def behind(m: Machine) -> None:
        m.work(300)
        step(m)

    # The CPU holds the step up, but once it is fast they would.
    part = Part(Machine().steps(STEPS, behind).trace(tmp_path))
    assert worths(part).muted is None
    assert worth(part, Scenario(cpu=100))[1] == "collectives"


def test_muted_where_device_events_are_missing(tmp_path):
    run = Machine().steps(STEPS, machine.host_bound)
    gone = [event for event in run.events if event["name"] == "gemm"][5:15]
    run.events = [event for event in run.events if event not in gone]
    assert _muted(run.trace(tmp_path)) == "unrecorded"


def test_the_command():
    trace = str(SAMPLES / "train.json.gz")
    result = CliRunner().invoke(main, ["whatif", trace, "--json"])
    assert result.exit_code == 0
    data = json.loads(result.stdout)
    assert list(data)[:6] == ["step_ns", "steps", "spread_ns", "reproduction_error", "muted", "worths"]
    assert {tuple(row) for row in data["worths"]} == {("kind", "name", "worth_ns", "derivative_ns", "muted")}
    gains = [row["worth_ns"] for row in data["worths"]]
    assert gains == sorted(gains, reverse=True)
    every = ["--graphs", "--cpu=2x", "--without=loss", "--kernel=nvjet=0.5x", "--no-sync", "--overlap"]
    data = json.loads(CliRunner().invoke(main, ["whatif", trace, "--json", "--cpu", "2x"]).stdout)
    assert data["predicted_ns"]["value"] == pytest.approx(data["step_ns"] / 2, rel=0.01)
    faster = json.loads(CliRunner().invoke(main, ["whatif", trace, "--json", *every]).stdout)
    assert faster["predicted_ns"]["value"] < data["predicted_ns"]["low"]
    text = CliRunner().invoke(main, ["whatif", trace, "--cpu", "2x"]).stdout
    assert "in this recording" in text
    assert "upper bounds" in text
    assert "| worth |" in CliRunner().invoke(main, ["whatif", trace, "--markdown"]).stdout


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--cpu", "0x"], 2, "expected a number above 0"),
        (["--cpu", "fast"], 2, "expected a number above 0"),
        (["--kernel", "gemm"], 2, "expected NAME=0.5x"),
        (["--kernel", "=0.5x"], 2, "expected NAME=0.5x"),
        (["--without", "no such\x1b[31m name"], 1, "nothing in this trace is called"),
        (["--kernel", "aten::mm=0.5x"], 1, "nothing in this trace is called"),
    ],
)
def test_wrong_usage(options, code, said):
    result = CliRunner().invoke(main, ["whatif", str(SAMPLES / "train.json.gz"), *options])
    assert result.exit_code == code
    assert said in result.stderr
    assert "\x1b" not in result.stderr
