"""The rules on how one process uses several GPUs, on recordings of two H100s."""

from pathlib import Path

import pytest
from tests.kineto import Event, cpu, kernel, launch, memcpy, run, trace_of
from tests.rules.test_rules import found

from tracetui.analysis.part import Part
from tracetui.rules import Finding, find_findings
from tracetui.rules.claims import Count
from tracetui.trace import load

DATA = Path(__file__).parent.parent / "data" / "two_gpus"


@pytest.mark.parametrize(("name", "turns", "parallel"), [
    ("pipeline_big", True, False),  # half of the model on each GPU, one batch at a time
    ("tensor_parallel", True, False),  # half of each layer, on streams that wait for each other
    ("one_after_the_other", True, False),  # synchronized in between
    ("pipeline_inference", False, False),  # one GPU is a batch ahead
    ("two_threads", False, False),  # the GPUs have different amounts of work
    ("host_copies", False, False),
    ("data_parallel", False, True),
    ("data_parallel_inference", False, True),
])  # fmt: skip
def test_recordings(name, turns, parallel):
    trace = load(DATA / f"{name}.json.gz")
    assert (found(trace, "gpus_in_turn") is not None) is turns
    assert (found(trace, "data_parallel") is not None) is parallel


def test_a_model_on_two_gpus():
    finding = found(load(DATA / "pipeline_big.json.gz"), "gpus_in_turn")
    assert finding.severity == "high"
    told = [f"{finding.claims[name]}" for name in ("time_ns", "busy_ns", "each", "together_ns", "sent")]
    assert told == ["79.8 ms", "78.6 ms", "GPU 0 (40.8 ms), GPU 1 (40.8 ms)", "2.91 ms", "9"]
    apart = found(load(DATA / "one_after_the_other.json.gz"), "gpus_in_turn")
    assert (apart.claims["sent"], apart.numbers["together_ns"]) == (Count(0), 0)


def test_data_parallel():
    training = found(load(DATA / "data_parallel.json.gz"), "data_parallel")
    assert f"{training.claims['share']}" == "33% of kernel and copy time"
    assert training.claims["trains"] is True
    assert "DistributedDataParallel" in f"{training.claims['advice']}"
    idle = [x for x in findings_of(DATA / "data_parallel.json.gz") if x.rule == "overhead_bound"]
    assert all(x.claims["advice"] == training.claims["advice"] for x in idle)
    assert found(load(DATA / "data_parallel_inference.json.gz"), "data_parallel").claims["trains"] is False


def findings_of(path: Path) -> tuple[Finding, ...]:
    return find_findings(Part(load(path)))


def in_turn(count: int, both: float = 0) -> list[Event]:
    """Kernels of 100 us on GPU 0 and GPU 1 by turns, each `both` us before the one before it has ended."""
    events = [cpu("aten::mm", 0, 100 * count)]
    for n in range(count):
        begin = 100 + n * (100 - both)
        events += run(begin, 100, n + 1, pid=n % 2, args={"correlation": n + 1, "device": n % 2, "stream": 7})
    return events


@pytest.mark.parametrize(("both", "told"), [(0, True), (8, True), (12, False)])
def test_how_much_overlap_is_hardly_any(tmp_path, both, told):
    assert (found(trace_of(tmp_path, *in_turn(20, both)), "gpus_in_turn") is not None) is told


def test_a_gpu_that_hardly_takes_part(tmp_path):
    events = in_turn(20)
    few = [event for event in events if event["pid"] != 1 or event["ts"] < 400]
    assert found(trace_of(tmp_path, *few), "gpus_in_turn") is None


def test_gpus_that_wait_for_the_cpu(tmp_path):
    events = [event | {"ts": 3 * event["ts"]} for event in in_turn(20)]
    assert found(trace_of(tmp_path, *events), "gpus_in_turn") is None


def test_one_gpu_does_not_take_turns(tmp_path):
    events = [cpu("DataParallel.forward", 0, 900, "user_annotation"), launch(10, 1), *run(100, 800, 2)]
    trace = trace_of(tmp_path, *events, memcpy(20, 10, 1))
    assert found(trace, "gpus_in_turn") is None
    assert found(trace, "data_parallel") is None


def test_copies_between_gpus_are_not_from_the_host():
    assert found(load(DATA / "tensor_parallel.json.gz"), "exposed_copies").claims["why"] == "between GPUs"


def test_a_gpu_that_waits_for_another():
    both = [x for x in findings_of(DATA / "pipeline_big.json.gz") if x.rule == "idle_time"]
    assert [x.device for x in both] == ["GPU 1", "GPU 0"]
    assert all("queued until another device" in f"{x.claims['causes']}" for x in both)
    assert all("another GPU" in f"{x.claims['advice']}" for x in both)


def test_a_gpu_with_less_work():
    """After its last work the other one goes on for 212 ms."""
    finding = found(load(DATA / "two_threads.json.gz"), "little_use")
    assert finding.device == "GPU 1"
    assert f"{finding.claims['advice']}" == "uneven"


def test_the_profilers_work_by_device():
    both = [x for x in findings_of(DATA / "two_threads.json.gz") if x.rule == "profiler_overhead"]
    assert [x.device for x in both] == ["GPU 0", "GPU 1"]
    assert "lead_in_ns" in both[1].claims
    gaps = [x for x in findings_of(DATA / "data_parallel.json.gz") if x.rule == "profiler_overhead"]
    assert (gaps[1].device, "gaps" in gaps[1].claims) == ("GPU 1", True)


@pytest.mark.parametrize("gpus", [2, 4])
def test_the_profilers_work_on_many_gpus_is_told_once(tmp_path, gpus):
    events = [cpu("aten::mm", 0, 900), cpu("Activity Buffer Request", 20, 200, "overhead")]
    for n in range(gpus):
        args = {"correlation": n + 1, "device": n, "stream": 7}
        events += [launch(225 + n, n + 1, 1), kernel(240 + n, 500, n + 1, pid=n, args=args)]
    trace_of(tmp_path, *events)
    each = [x for x in findings_of(tmp_path / "t.json") if x.rule == "profiler_overhead"]
    assert (each[0].device, each[0].numbers["profiler_ns"]) == ("GPU 0", 200_000)
    assert each[0].claims.get("others") == (None if gpus < 3 else Count(3))
    assert len(each) == (2 if gpus < 3 else 1)
    if gpus > 2:
        told = next(x for x in findings_of(tmp_path / "t.json") if x.rule == "profiler_overhead")
        assert f"{told.claims['alike']}" == "GPU 1 (200 µs), GPU 2 (200 µs), GPU 3 (200 µs)"
