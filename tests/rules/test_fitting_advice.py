"""Advice that fits what holds the GPU up: one small program each, and one that looks like it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.kineto import Event, cpu, kernel, launch, memcpy, run, trace_of
from tests.rules.test_rules import found

from tracetui.analysis.part import Part
from tracetui.analysis.verdicts import verdict_of
from tracetui.rules import find_findings
from tracetui.trace import Trace


def advice(trace: Trace, *rules: str) -> list[str]:
    return [f"{each.claims['advice']}" for each in find_findings(Part(trace)) if each.rule in rules]


IDLE = "overhead_bound", "idle_time", "little_use"


def rounds(*inner: Event, count: int = 6, length: float = 1000) -> list[Event]:
    """These events in each of several rounds, every one with a kernel of 50 us at its end."""
    events: list[Event] = []
    for n in range(count):
        events += [each | {"ts": each["ts"] + n * length} for each in inner]
        events += run(n * length + length - 60, 50, 100 + n, name="k")
    return events


@pytest.mark.parametrize(
    ("op", "advised"),
    [
        ("aten::_pin_memory", "pin once"),
        ("aten::randn", "on the GPU"),
        ("PythonSubclass", "more per launch"),
        ("aten::_nested_view_from_jagged", "more per launch"),
    ],
)
def test_ops_that_work_on_the_cpu(tmp_path: Path, op: str, advised: str) -> None:
    trace = trace_of(tmp_path, *rounds(cpu(op, 50, 800), cpu("aten::mm", 860, 90)))
    assert advice(trace, *IDLE) == [advised]


@pytest.mark.parametrize(("gap", "advised"), [(20, "graph pool"), (None, "allocation")])
def test_memory_of_a_captured_graph(tmp_path: Path, gap: float | None, advised: str) -> None:
    """Freeing right before a capture, which `torch.cuda.graph` does, is no `empty_cache()` in a loop."""
    freed = [cpu("cudaFree", 400 * n, 300, "cuda_runtime") for n in range(6)]
    events = [*run(5, 30, 1), *(each | {"ts": each["ts"] + 100} for each in freed), *run(2680, 300, 2)]
    if gap is not None:
        begin, end = "cudaStreamBeginCapture", "cudaStreamEndCapture"
        events += [cpu(begin, 2430 + gap, 2, "cuda_runtime"), cpu(end, 2500 + gap, 2, "cuda_runtime")]
    assert advice(trace_of(tmp_path, cpu("aten::mm", 0, 40), *events), *IDLE) == [advised]


@pytest.mark.parametrize(
    ("op", "why"),
    [("c10d::barrier", "barrier"), ("aten::coalesce", "coalesce"), ("aten::item", "read later")],
)
def test_waits_in_ops(tmp_path: Path, op: str, why: str) -> None:
    inner = [cpu(op, 100, 400), cpu("record_param_comms", 110, 380), launch(115, 1, 4), kernel(125, 300, 1)]
    inner.append(cpu("cudaStreamSynchronize", 130, 350, "cuda_runtime"))
    events = rounds(*inner)
    for n, each in enumerate(events):  # a launch of its own in each round
        if each["args"].get("correlation") == 1:
            each["args"] = each["args"] | {"correlation": 1000 + n // 7}
    finding = found(trace_of(tmp_path, *events), "blocking_calls")
    assert finding is not None
    assert finding.claims["why"] == why


def closing_wait(ends: float) -> list[Event]:
    """Two GPUs get some work each; the CPU waits for the one that has more, until `ends`."""
    events = [cpu("aten::mm", 0, 40)]
    for n in range(4):
        events += run(100 * n + 10, 50, n + 1)
        events += [launch(100 * n + 12, 50 + n), kernel(100 * n + 20, 50, 50 + n, pid=1)]
        events[-1]["args"] |= {"device": 1}
        events.append(cpu("cudaDeviceSynchronize", 100 * n + 25, 40, "cuda_runtime"))
    events += [launch(390, 90), kernel(400, ends - 400, 90)]
    return [*events, cpu("cudaDeviceSynchronize", 395, ends - 390, "cuda_runtime")]


def test_a_gpu_that_is_done_first_is_not_held_up(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, *closing_wait(3000))
    assert found(trace, "explicit_waits") is None
    finding = next(each for each in find_findings(Part(trace)) if each.rule in IDLE)
    assert finding.device == "GPU 1"
    assert "sync at the end" in f"{finding.claims['causes']}"
    assert "then had to launch again" not in finding.text
    assert sum(verdict_of(Part(trace)).causes) > 2_000_000


def test_waits_outside_of_ops_are_not_read_backs(tmp_path: Path) -> None:
    wait = cpu("cudaDeviceSynchronize", 70, 500, "cuda_runtime")
    inner = [cpu("aten::mm", 0, 20), launch(10, 1), kernel(16, 550, 1, name="k"), wait]
    events: list[Event] = []
    for n in range(6):
        events += [each | {"ts": each["ts"] + 700 * n} for each in inner]
        for each in events[-4:]:
            if "correlation" in each["args"]:
                each["args"] = each["args"] | {"correlation": n + 1}
    assert "out of the loop" in advice(trace_of(tmp_path, *events), *IDLE)


@pytest.mark.parametrize("sent", [True, False])
def test_gpus_in_turn(tmp_path: Path, sent: bool) -> None:
    """Each GPU computes while the other one does not, and the CPU launches when it is told to."""
    events: list[Event] = [cpu("aten::mm", 0, 40), cpu("aten::mm", 20_000, 5)]
    for n in range(20):
        start, device = 1000 * n, n % 2
        events += [launch(start + 100, n + 1), kernel(start + 110, 700, n + 1, pid=device)]
        events[-1]["args"] |= {"device": device}
        if sent:
            events += [launch(start + 815, 500 + n), memcpy(start + 820, 50, 500 + n, "PtoP")]
            events[-1] |= {"pid": device, "args": events[-1]["args"] | {"device": device}}
    trace = trace_of(tmp_path, *events)
    assert found(trace, "gpus_in_turn") is not None
    assert set(advice(trace, *IDLE)) == ({"another GPU"} if sent else {"host"})


@pytest.mark.parametrize(
    ("name", "advised"), [("<built-in function collect>", "garbage"), ("collect", "in annotation")]
)
def test_collecting_garbage(tmp_path: Path, name: str, advised: str) -> None:
    trace = trace_of(tmp_path, *rounds(cpu(name, 100, 800, "python_function"), cpu("aten::mm", 905, 50)))
    assert advice(trace, *IDLE) == [advised]


@pytest.mark.parametrize(("inside", "advised"), [(False, "in annotation"), (True, "more per launch")])
def test_a_hook_of_a_gradient(tmp_path: Path, inside: bool, advised: str) -> None:
    node = cpu("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", 100, 850)
    hook = cpu("train.py(49): slow", 110, 810, "python_function")
    sleep = cpu("<built-in function sleep>", 112, 800, "python_function")
    ops = [cpu("aten::detach", 114, 2)] if inside else []
    trace = trace_of(tmp_path, *rounds(node, hook, sleep, *ops))
    assert advice(trace, *IDLE) == [advised]
    finding = next(each for each in find_findings(Part(trace)) if each.rule in IDLE)
    assert ("The CPU was in slow for " in finding.text) is not inside


@pytest.mark.parametrize(("streams", "advised"), [(6, "new streams"), (2, "first requests")])
def test_memory_of_streams_that_come_and_go(tmp_path: Path, streams: int, advised: str) -> None:
    events: list[Event] = [cpu("aten::mm", 0, 40)]
    for n in range(6):
        events.append(cpu("cudaMalloc", 1000 * n + 50, 600, "cuda_runtime"))
        events += run(1000 * n + 700, 250, n + 1, tid=10 + n % streams)
        events[-1]["args"] |= {"stream": 10 + n % streams}
    assert advice(trace_of(tmp_path, *events), *IDLE) == [advised]
