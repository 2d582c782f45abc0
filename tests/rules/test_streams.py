"""The rule on streams that take turns."""

import pytest
from tests.kineto import Event, cpu, kernel, launch, trace_of
from tests.rules.test_rules import found

NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def turns(count: int, ahead: float, overlap: float = 0, name: str = "") -> list[Event]:
    """`count` kernels of 50 us, every second one in stream 8 (called `name`), each `ahead` us behind its
    launch; those in stream 8 begin `overlap` us early."""
    events: list[Event] = []
    for n in range(count):
        at = 1000 + 60.0 * n
        begin, stream = (at - overlap, 8) if n % 2 else (at, 7)
        events += [launch(at - ahead, n + 1), kernel(begin, 50, n + 1, stream, name if n % 2 else "")]
        events.append(cpu("aten::mm", at - ahead - 5, 40))
    return events


def test_streams_that_take_turns(tmp_path):
    """Queued 500 us ahead, and still one after another."""
    finding = found(trace_of(tmp_path, *turns(20, 500)), "streams_in_turn")
    assert finding is not None
    told = [f"{finding.claims[name]}" for name in ("names", "turns", "why")]
    assert told == ["stream 7, stream 8", "19", "full"]
    assert finding.numbers == {"together_ns": 0, "kernel_ns": 1_000_000, "streams": 2}


def test_streams_without_work_in_between(tmp_path):
    events = [
        event | {"ts": 4 * event["ts"]} for event in turns(20, 3)
    ]  # idle for three quarters of the time
    assert found(trace_of(tmp_path, *events), "streams_in_turn").claims["why"] == "late"


@pytest.mark.parametrize(("waits", "told"), [(9, False), (10, True)])
@pytest.mark.parametrize("slower", [1, 4])
def test_streams_that_wait_for_each_other(tmp_path, waits, told, slower):
    """19 changes, and so many calls that have one stream wait for what was recorded in another."""
    events = [event | {"ts": slower * event["ts"]} for event in turns(20, 500)]
    events += [cpu("cudaStreamWaitEvent", 450 + n, 0.5, "cuda_runtime") for n in range(waits)]
    finding = found(trace_of(tmp_path, *events), "streams_in_turn")
    assert finding.claims["waits"].n == waits
    assert (finding.claims["why"] == "chained") is told


@pytest.mark.parametrize(("op", "told"), [("aten::_cudnn_rnn", False), ("", True)])
def test_streams_of_one_op_are_the_librarys(tmp_path, op, told):
    events = [event for event in turns(20, 500) if event["name"] != "aten::mm"]
    events += [cpu(op, 490, 1500)] if op else []
    assert (found(trace_of(tmp_path, *events), "streams_in_turn") is not None) is told


@pytest.mark.parametrize(("count", "overlap", "name"), [
    (10, 0, ""),  # 9 changes: phases
    (20, 13, ""),  # each second kernel runs for 3 us beside the one before
    (20, 0, NCCL),  # a collective waits for what it sends
])  # fmt: skip
def test_streams_that_are_no_surprise(tmp_path, count, overlap, name):
    assert found(trace_of(tmp_path, *turns(count, 500, overlap, name)), "streams_in_turn") is None
