"""Labels of processes and threads that no profiler would write, and launches that never ran."""

from typing import Any

import pytest
from tests.kineto import Event, cpu, kernel, launch, run, trace_of

from tracetui.trace import Trace
from tracetui.trace.unknown import clock_offset
from tracetui.trace.unrecorded import missing_kernels


def threads(trace: Trace) -> list[str]:
    return [lane.tid for lane in trace.lanes]


def test_numbers_stand_in_their_order_before_text(tmp_path):
    ids = ["10", "-3", "8", "stream x", "2", "b", "a", 7]
    trace = trace_of(tmp_path, *(cpu("op", 0, 1) | {"tid": tid} for tid in ids))
    assert threads(trace) == ["-3", "2", "7", "8", "10", "a", "b", "stream x"]


@pytest.mark.parametrize("key", ["pid", "tid"])
def test_a_number_of_any_length_is_a_label(tmp_path, key):
    """Python refuses to make numbers of so many digits."""
    labels: list[Any] = ["1" * 5000, "-" + "2" * 5000, "1" * 18, 5, "3" * 25]
    trace = trace_of(tmp_path, *(cpu("op", 0, 1) | {key: label} for label in labels))
    found = [lane.tid if key == "tid" else trace.processes[lane.process].pid for lane in trace.lanes]
    assert len(trace) == len(found) == 5
    assert found[:2] == ["5", "1" * 18]
    assert not trace.notices


@pytest.mark.parametrize(("tid", "given", "name"), [
    ("", "", "thread"), ("3", "", "thread 3"), ("-3", "", "thread -3"), ("3", "main", "thread 3 (main)"),
    ("3", "main 3", "main 3"), ("3", "thread of mine", "thread of mine"), ("worker", "", "worker"),
    ("worker", "mine", "worker"), ("thread 3", "", "thread 3"), ("", "mine", "mine")
])  # fmt: skip
def test_a_thread_is_called_by_its_number_and_its_name(tmp_path, tid, given, name):
    named: list[Event] = [{"ph": "M", "name": "thread_name", "pid": 9, "tid": tid, "args": {"name": given}}]
    (lane,) = trace_of(tmp_path, cpu("op", 0, 1) | {"tid": tid}, *(named if given else [])).lanes
    assert lane.name.strip() == name


def test_launches_that_never_ran(tmp_path):
    """Of those that later launches overtook; the last ones may still have been waiting at the end."""
    kernels = [*run(100, 5, 1), *run(200, 5, 2)]
    lost = [launch(10 * i, 50 + i) for i in range(6)]
    assert missing_kernels(trace_of(tmp_path, *kernels)) == 0
    assert missing_kernels(trace_of(tmp_path, *kernels, *lost)) == 6
    assert missing_kernels(trace_of(tmp_path, *kernels, *(e | {"ts": e["ts"] + 500} for e in lost))) == 0
    capture = cpu("cudaStreamBeginCapture", 1, 1, "cuda_runtime")
    assert missing_kernels(trace_of(tmp_path, *kernels, *lost, capture)) == 0


def test_without_launches_or_kernels_none_is_missing(tmp_path):
    copy = cpu("cudaMemcpyAsync", 5, 2, "cuda_runtime", correlation=1)
    for events in ([cpu("op", 0, 1)], [launch(0, 1)], [kernel(0, 5, 1)], [copy, kernel(9, 5, 1)]):
        trace = trace_of(tmp_path, *events)
        assert missing_kernels(trace) == 0
        assert clock_offset(trace) == 0
