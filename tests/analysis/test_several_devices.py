"""What is said of one process that uses several devices."""

from pathlib import Path

import pytest
from tests.kineto import Event, cpu, kernel, launch, memcpy, step, trace_of

from tracetui.analysis.part import Part
from tracetui.analysis.verdicts import verdict_of
from tracetui.rules import Finding, find_findings
from tracetui.trace import Trace, load
from tracetui.views.summary import summary_answer

DATA = Path(__file__).parent.parent / "data" / "two_gpus"


def on(device: int, start: float, duration: float, correlation: int, name: str = "", **args: object) -> Event:
    """A kernel of any device."""
    event = kernel(start, duration, correlation, name=name, pid=device)
    return event | {"args": event["args"] | {"device": device} | args}


def runs(device: int, start: float, duration: float, correlation: int, name: str = "") -> list[Event]:
    """A kernel of any device, with the launch that puts it on its way 5 us before."""
    return [launch(start - 5, correlation), on(device, start, duration, correlation, name)]


def alike(tmp_path: Path, devices: int, busy: float, op: float = 0) -> Trace:
    """Three steps of 1,000 us in which each device is busy for `busy`, after an op of `op`."""
    events: list[Event] = []
    for n in range(3):
        events.append(step(n, 1000 * n, 1000))
        events += [cpu("aten::mm", 1000 * n + 1, op)] * bool(op)
        for device in range(devices):
            events += runs(device, 1000 * n + op + 10 + 10 * device, busy, 10 * n + device + 1)
    return trace_of(tmp_path, *events)


@pytest.mark.parametrize(
    ("busy", "op", "said"), [(950, 0, ("it sets", "they set")), (100, 850, ("it waits", "they wait"))]
)
@pytest.mark.parametrize("devices", [1, 2])
def test_the_verdict_speaks_of_all(tmp_path, devices, busy, op, said):
    results = Part(alike(tmp_path, devices, busy, op))
    reason, text = verdict_of(results).reason, summary_answer(results).text(200)
    who = "The GPU is" if devices == 1 else "Taken together, the 2 GPUs are"
    assert reason.startswith(f"{who} busy ")
    assert [f" {words} " in reason for words in said] == [devices == 1, devices == 2]
    assert [f"   {word} busy" in text for word in ("GPU", "GPUs")] == [devices == 1, devices == 2]


def found(trace: Trace, rule: str) -> Finding:
    return next(finding for finding in find_findings(Part(trace)) if finding.rule == rule)


def waiting(tmp_path: Path, devices: int, call: str, op: str) -> Trace:
    """Three steps of 200 us: in each, a kernel of 20 us per device, for which the CPU waits longer."""
    events: list[Event] = []
    for n in range(3):
        events += [step(n, 200 * n, 198), cpu("aten::mm", 200 * n + 1, 30)]
        for device in range(devices):
            events += runs(device, 200 * n + 20 + device, 20, 10 * n + device + 1)
        events.append(cpu(call, 200 * n + 42, 92, "cuda_runtime"))
        events += [cpu(op, 200 * n + 41, 94)] * bool(op)
    return trace_of(tmp_path, *events)


@pytest.mark.parametrize(("rule", "call", "op"), [
    ("blocking_calls", "cudaStreamSynchronize", "aten::item"), ("explicit_waits", "cudaDeviceSynchronize", "")
])  # fmt: skip
def test_each_device_is_idle_while_the_cpu_waits(tmp_path, rule, call, op):
    one = found(waiting(tmp_path, 1, call, op), rule)
    two = found(waiting(tmp_path, 2, call, op), rule)
    assert (one.claims["gpus"].n, two.claims["gpus"].n) == (1, 2)
    assert two.numbers["idle_ns"] == pytest.approx(2 * one.numbers["idle_ns"], rel=0.02)


@pytest.mark.parametrize("devices", [1, 2])
def test_times_that_add_up_over_the_devices(tmp_path, devices):
    """In each step of 1,000 us: memory for 150 us, then short kernels, on each device as many."""
    events: list[Event] = []
    for n in range(4):
        events += [step(n, 1000 * n, 1000), cpu("cudaMalloc", 1000 * n + 10, 100, "cuda_runtime")]
        events += [cpu("cudaFree", 1000 * n + 120, 50, "cuda_runtime"), cpu("aten::add", 1000 * n + 180, 810)]
        for i in range(30):
            for device in range(devices):
                correlation = 100 * n + 2 * i + device + 1
                start = 1000 * n + 530 + 15 * i + 7 * device
                events += [launch(start, correlation), on(device, start + 5, 1, correlation, "add")]
    trace = trace_of(tmp_path, *events)
    one = devices == 1
    assert f"{'The GPU is' if one else '2 GPUs together are'} idle for" in found(trace, "allocations").text
    short = found(trace, "short_calls").text
    assert short.startswith(f"They keep {'the GPU busy for' if one else 'the GPUs busy for'} ")
    assert (" µs in all; " in short) is not one


@pytest.mark.parametrize("devices", [1, 2])
def test_first_calls_cost_each_device_its_time(tmp_path, devices):
    events = [launch(10, 1, 3000), on(0, 3020, 10, 1), launch(20, 2, 2990) | {"tid": 8}]
    events += [on(1, 3020, 10, 2)] * (devices - 1)
    for n in range(20):
        events += runs(n % devices, 3100 + 100 * n, 80, n + 10)
    assert found(trace_of(tmp_path, *events), "initialisation").claims["gpus"].n == devices


def test_a_copy_is_exposed_on_its_own_device(tmp_path):
    """In each step both devices copy at the same time, for 100 us; the first one then copies beside a kernel,
    while the other copies alone."""
    events: list[Event] = []
    for n in range(3):
        start, i = 1000 * n, 10 * n
        events += [step(n, start, 990), launch(start + 1, i + 1), launch(start + 6, i + 2)]
        events += [copy(0, start + 20, 100, i + 1), copy(1, start + 20, 100, i + 2)]
        events += [launch(start + 11, i + 3), launch(start + 16, i + 4), launch(start + 21, i + 5)]
        beside = copy(0, start + 200, 200, i + 4) | {"tid": 8}
        events += [on(0, start + 200, 200, i + 3), beside, copy(1, start + 300, 50, i + 5)]
    finding = found(trace_of(tmp_path, *events), "exposed_copies")
    assert finding.numbers["copies"] == 9
    assert f"{finding.claims['exposed_ns']}, {finding.claims['longest_ns']}" == "750 µs, 100 µs"


def copy(device: int, start: float, duration: float, correlation: int) -> Event:
    event = memcpy(start, duration, correlation)
    return event | {"pid": device, "args": event["args"] | {"device": device}}


def test_streams_that_take_turns_are_those_of_a_device(tmp_path):
    """20 kernels on each of two devices, by turns in two streams, for which 12 calls make a stream wait: so
    few that they are not the reason on both."""
    events: list[Event] = [cpu("cudaStreamWaitEvent", 50 * n, 2, "cuda_runtime") for n in range(12)]
    for n in range(20):
        for device in range(2):
            at, stream = 1000 + 100 * n, 7 + n % 2
            events.append(launch(10 * n + 3 * device, 2 * n + device + 1, 2))
            events.append(on(device, at, 90, 2 * n + device + 1, stream=stream) | {"tid": stream})
    both = [x for x in find_findings(Part(trace_of(tmp_path, *events))) if x.rule == "streams_in_turn"]
    assert [x.device for x in both] == ["GPU 0", "GPU 1"]
    assert not any(x.claims["why"] == "chained" for x in both)


def test_what_is_said_of_each_device(tmp_path):
    """Half of the kernels are shorter than their launches, and the CPU waits while they run."""
    events: list[Event] = []
    for n in range(4):
        start = 1000 * n
        events += [step(n, start, 990), cpu("aten::mm", start + 1, 980)]
        for device in range(2):
            i = 10 * n + 2 * device + 1
            events += [*runs(device, start + 520 + device, 200, i), *runs(device, start + 800, 1, i + 1)]
        events.append(cpu("cudaDeviceSynchronize", start + 530, 200, "cuda_runtime"))
    both = [x for x in find_findings(Part(trace_of(tmp_path, *events))) if x.rule == "overhead_bound"]
    assert [x.device for x in both] == ["GPU 0", "GPU 1"]
    for n, finding in enumerate(both):
        assert f"{finding.claims['short_launches']} of {finding.claims['short_of']}" == "8 of 16"
        assert (finding.claims["device"], finding.claims["pace"]) == (f"GPU {n}", "turns")


def test_a_wait_for_one_of_two_devices():
    """Each GPU is idle while data is copied to the other one, from pageable memory."""
    results = Part(load(DATA / "host_copies.json.gz"))
    idle = [x for x in find_findings(results) if x.rule == "idle_time"]
    assert [x.device for x in idle] == ["GPU 0", "GPU 1"]
    assert all("sync of several" in f"{x.claims['causes']}" for x in idle)
    assert all("send" in f"{x.claims['advice']}" for x in idle)
    assert "CPU waited for a GPU" in summary_answer(results).text(80)
