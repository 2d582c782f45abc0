"""Gaps against an independent union, event by event; the cause of a gap rule by rule; every sum adding up."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kineto import cpu, kernel, launch, run, step, trace_of
from tests.recorded import load

from tracetui.analysis.idle.causes import CAUSES, cause_totals, gap_causes, lead_in_causes
from tracetui.analysis.idle.cpu_time import is_allocation, is_synchronizing
from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.idle.gaps import clip, find_gaps, without_work_text
from tracetui.analysis.idle.split import causes_of
from tracetui.analysis.idle.waited_for import waits_for_others
from tracetui.analysis.part import Part
from tracetui.rules import find_findings
from tracetui.trace import DEVICE_WORK, Trace
from tracetui.views.explain import explain
from tracetui.views.gap_words import cause_text
from tracetui.views.gaps_text import causes_markdown, gap_report, gaps_answer
from tracetui.views.parts import BRIEF
from tracetui.views.summary import summary_answer
from tracetui.words.cause_words import CAUSE_TEXT

DATA = Path(__file__).parent.parent / "data"
SAMPLES = Path(__file__).parent.parent.parent / "sample_traces"
TRACES = sorted([*DATA.glob("*.json.gz"), *SAMPLES.glob("*.json.gz")])


def by_hand(intervals: list[tuple[int, int]]) -> tuple[list[tuple[int, int]], int]:
    """(gaps as (start, length), busy time) of intervals, one after the other."""
    intervals = sorted(intervals)
    gaps = []
    begun, reach = intervals[0]
    busy = 0
    for start, end in intervals[1:]:
        if start > reach:
            gaps.append((reach, start - reach))
            busy += reach - begun
            begun, reach = start, end
        reach = max(reach, end)
    return gaps, busy + reach - begun


def check_against_hand(trace: Trace) -> int:
    work: dict[int, list[tuple[int, int]]] = {}
    for i in range(len(trace)):
        if trace.kind[i] in DEVICE_WORK and not trace.implausible[i]:
            start = int(trace.start[i])
            device = trace.lanes[int(trace.lane[i])].device
            work.setdefault(device, []).append((start, start + int(trace.duration[i])))
    found = find_gaps(trace)
    assert [g.device for g in found] == sorted(work)
    for gaps in found:
        expected, busy = by_hand(work[gaps.device])
        assert list(zip(gaps.start.tolist(), gaps.duration.tolist(), strict=True)) == expected
        assert gaps.busy == busy
        assert gaps.busy + gaps.idle == gaps.span == gaps.last - gaps.first
        assert gaps.first == min(s for s, _ in work[gaps.device])
        assert gaps.last == max(e for _, e in work[gaps.device])
        assert int(gaps.duration.sum()) == gaps.idle
        assert (trace.start[gaps.before] + trace.duration[gaps.before] == gaps.start).all()
        assert (trace.start[gaps.after] == gaps.end).all()
        totals = cause_totals(gap_causes(trace, gaps))
        assert sum(t.duration for t in totals) == gaps.idle
        assert sum(t.gaps for t in totals) == len(gaps)
    return len(found)


@pytest.mark.parametrize("path", TRACES, ids=lambda p: p.name.split(".")[0])
def test_recorded_traces(path):
    assert check_against_hand(load(path)) >= 1


# A kernel that ends at 100 us; the gap lasts until the second one begins.
BEFORE = (launch(0, 1), kernel(10, 90, 1))


@pytest.mark.parametrize(("cause", "events"), [
    ("host", [launch(290, 2), kernel(300, 10, 2)]),
    ("host", [cpu("aten::add", 100, 60), launch(290, 2), kernel(300, 10, 2)]),
    ("dispatch", [cpu("aten::add", 120, 200), launch(290, 2), kernel(300, 10, 2)]),
    ("sync", [cpu("cudaDeviceSynchronize", 20, 110, "cuda_runtime"), launch(190, 2), kernel(200, 10, 2)]),
    ("sync", [cpu("cudaMemcpy", 110, 120, "cuda_runtime"), launch(280, 2), kernel(300, 10, 2)]),
    # The wait took 3 us of the 190 that passed until the launch: without it, nothing would be much
    # better.
    ("host", [cpu("cudaStreamSynchronize", 98, 3, "cuda_runtime"), launch(290, 2), kernel(300, 10, 2)]),
    ("allocation", [cpu("cudaMalloc", 110, 150, "cuda_runtime"), launch(290, 2), kernel(300, 10, 2)]),
    ("allocation", [cpu("cudaFree", 50, 160, "cuda_runtime"), launch(290, 2), kernel(300, 10, 2)]),
    (
        "profiler",
        [cpu("Activity Buffer Request", 105, 150, "overhead"), launch(290, 2), kernel(300, 10, 2)],
    ),
    ("launch", [launch(97, 2, 6), kernel(108, 10, 2)]),
    ("queued", [launch(92, 2, 4), kernel(108, 10, 2)]),
    ("queued", [launch(20, 2), kernel(108, 10, 2)]),
    ("queued", [launch(20, 2), cpu("Buffer Flush", 101, 5, "overhead"), kernel(108, 10, 2)]),
    ("queued", [launch(110, 2), kernel(300, 10, 2)]),
    ("host", [launch(280, 2), kernel(320, 10, 2)]),
    ("unlinked", [kernel(300, 10, 2)]),
])  # fmt: skip
def test_cause(tmp_path, cause, events):
    trace = trace_of(tmp_path, *BEFORE, *events)
    (gaps,) = find_gaps(trace)
    assert gaps.start.tolist() == [trace.start[gaps.before[0]] + 90_000]
    assert CAUSES[int(gap_causes(trace, gaps).cause[0])] == cause


def test_cause_names_what_there_is(tmp_path):
    trace = trace_of(
        tmp_path, *BEFORE, cpu("ProfilerStep#4", 0, 400, "user_annotation"),
        cpu("load_batch", 110, 160, "user_annotation"), cpu("aten::mm", 280, 40, **{"External id": 3}),
        launch(290, 2), kernel(300, 10, 2)
    )  # fmt: skip
    (gaps,) = find_gaps(trace)
    causes = gap_causes(trace, gaps)
    assert trace.name_of(int(causes.event[0])) == "k2"
    assert trace.name_of(int(causes.launch[0])) == "cudaLaunchKernel"
    assert trace.name_of(int(causes.op[0])) == "aten::mm"
    assert trace.name_of(int(causes.activity[0])) == "load_batch"
    assert causes.step.tolist() == [0]


def test_streams_of_a_device_are_one_and_devices_are_apart(tmp_path):
    other = kernel(0, 5, 5) | {"pid": 1}
    trace = trace_of(tmp_path, kernel(0, 100, 1), kernel(50, 100, 2, 13), kernel(160, 10, 3, 7), other)
    first, second = find_gaps(trace)
    assert (first.device, first.duration.tolist(), first.busy) == (0, [10_000], 160_000)
    assert (second.device, len(second), second.busy_share) == (1, 0, 1.0)


def test_lead_in_of_the_profiler():
    """The 2.5 ms in which CUPTI got its first buffer are no gap, and have their cause."""
    trace = load(DATA / "matmul_add_64_nosched_20.json.gz")
    (gaps,) = find_gaps(trace)
    assert CAUSES[int(lead_in_causes(trace, [gaps]).get(gaps.device).cause[0])] == "profiler"
    assert gaps.lead_in > 2_400_000


def test_nothing_on_a_device(tmp_path):
    assert find_gaps(trace_of(tmp_path, cpu("aten::mm", 0, 10))) == []


@given(st.lists(st.floats(min_value=-0.1, max_value=1.1), min_size=1, max_size=6))
@settings(max_examples=40, deadline=None)
def test_clips_add_up(shares):
    trace = load(DATA / "mlp_eager.json.gz")
    (gaps,) = find_gaps(trace)
    low, high = trace.span
    borders = sorted({gaps.first - 1, gaps.last + 1, *(low + int(s * (high - low)) for s in shares)})
    borders = [b for b in borders if gaps.first - 1 <= b <= gaps.last + 1]
    parts = [clip(gaps, a, b) for a, b in itertools.pairwise(borders)]
    assert sum(p.busy for p in parts) == gaps.busy
    assert sum(p.idle for p in parts) == gaps.idle
    for part in parts:
        assert int(part.duration.sum()) == part.idle
        assert (part.duration > 0).all()
        assert (gaps.start[part.whole] <= part.start).all()


@pytest.mark.parametrize(("names", "synchronizing", "allocation"), [
    ("cudaDeviceSynchronize cudaStreamSynchronize_ptsz hipMemcpyWithStream cudaMemcpy cuMemcpyDtoH_v2",
     True, False),
    ("cudaMalloc cudaHostAlloc hipFree cuMemMap cuMemCreate cudaFreeHost", False, True),
    ("cudaMemcpyAsync cudaLaunchKernel cudaMallocAsync cudaEventQuery hipFreeAsync", False, False),
])  # fmt: skip
def test_synchronizing_and_allocating(names, synchronizing, allocation):
    for name in names.split():
        assert (is_synchronizing(name), is_allocation(name)) == (synchronizing, allocation), name


def test_every_cause_has_words():
    assert set(CAUSE_TEXT) == set(CAUSES)
    assert max(map(len, CAUSE_TEXT.values())) <= 32


@pytest.mark.parametrize(("backward", "said"), [(9, False), (10, True), (80, True)])
def test_another_thread_may_be_in_ops_while_the_launching_one_is_not(tmp_path, backward, said):
    # From the kernel's end at 100 us until the launch at 200; autograd's thread is in an op for `backward`.
    first, second = (launch(10, 1), kernel(20, 80, 1)), (launch(200, 2), kernel(210, 10, 2))
    other = cpu("autograd::engine::evaluate_function: AddBackward0", 110, backward) | {"tid": 77}
    elsewhere = cpu("aten::add", 110, 90) | {"pid": 5, "tid": 5}  # of another process
    results = Part(trace_of(tmp_path, *first, other, elsewhere, *second))
    assert causes_of(results).others.tolist() == [backward * 1000]
    says = "launching thread outside any op" if said else "the CPU was outside any op"
    (report,) = gap_report(results)
    told = (cause_text(results, 0), gaps_answer(results).text(100), causes_markdown(report))
    assert all(says in text for text in told)
    assert BRIEF.get(says, BRIEF["host"]) in summary_answer(results).text(100)
    longer = (
        "launching thread was outside any op, while another thread of the process was in ops for some of it"
    )
    (finding,) = [f for f in find_findings(results) if f.rule == "overhead_bound"]
    assert (longer in finding.text) is said
    assert (longer in " ".join(explain(results.trace, int(gaps_of(results).after[0])).why)) is said


def test_without_ops_nothing_is_outside_of_them(tmp_path):
    results = Part(trace_of(tmp_path, launch(10, 1), kernel(20, 80, 1), launch(200, 2), kernel(210, 9, 2)))
    told = (cause_text(results, 0), gaps_answer(results).text(100))
    assert all("the CPU was in no recorded call" in text and "any op" not in text for text in told)
    assert " in no recorded call" in summary_answer(results).text(100)


def waiting(mark: bool, after: float, **args: Any) -> list[dict[str, Any]]:
    """Two copies on stream 14, each with an event; a kernel of stream 7 is told to wait for the second, and
    starts `after` us after its end at 300 us."""
    calls = [
        launch(0, 1, name="cudaMemcpyAsync"), cpu("cudaEventRecord", 10, 1, "cuda_runtime", correlation=50),
        launch(20, 2, name="cudaMemcpyAsync"), cpu("cudaEventRecord", 30, 1, "cuda_runtime", correlation=51),
        cpu("cudaStreamWaitEvent", 40, 1, "cuda_runtime", correlation=52), launch(50, 3)
    ]  # fmt: skip
    told = {
        "correlation": 52, "stream": 7, "wait_on_stream": 14, "wait_on_cuda_event_record_corr_id": 51
    } | args  # fmt: skip
    wait = cpu("Stream Wait Event", 40, 1, "cuda_sync") | {"pid": 0, "tid": 1000007, "args": told}
    work = [
        kernel(100, 99, 1, stream=14, name="Memcpy HtoD (Pinned -> Device)", cat="gpu_memcpy"),
        kernel(200, 100, 2, stream=14, name="Memcpy DtoH (Device -> Pinned)", cat="gpu_memcpy"),
        kernel(300 + after, 10, 3, name="k"),
    ]
    return [*calls, *work, *([wait] if mark else [])]


@pytest.mark.parametrize(("mark", "after", "args", "text"), [
    (True, 142, {}, "queued; it had to wait for memcpy DtoH pinned, which finished 142 µs earlier"),
    (False, 142, {}, "queued, but nothing recorded ran on this GPU"),
    (True, 15, {}, "queued until memcpy DtoH pinned was done"),
    (True, 142, {"stream": 9}, "queued, but nothing recorded ran on this GPU"),
    (True, 142, {"wait_on_stream": 15}, "queued, but nothing recorded ran on this GPU"),
    # The first copy was done before: not what it waited for.
    (
        True,
        142,
        {"wait_on_cuda_event_record_corr_id": 50},
        "queued, but nothing recorded ran on this GPU",
    ),
    (
        True,
        142,
        {"wait_on_cuda_event_record_corr_id": -1},
        "queued, but nothing recorded ran on this GPU",
    ),
    (
        True,
        142,
        {"wait_on_cuda_event_record_corr_id": "x"},
        "queued, but nothing recorded ran on this GPU",
    ),
    (True, 142, {"correlation": 99}, "queued, but nothing recorded ran on this GPU"),
])  # fmt: skip
def test_what_a_stream_was_told_to_wait_for(tmp_path, mark, after, args, text):
    results = Part(trace_of(tmp_path, *waiting(mark, after, **args)))
    assert cause_text(results, int(np.argmax(gaps_of(results).start))) == f"queued: {text}"


def test_a_wait_before_the_last_launch_of_its_stream_holds_nothing_up(tmp_path):
    # Another kernel of stream 7 was launched after the wait: it is that which waited.
    events = [*waiting(True, 142), launch(45, 4), kernel(301, 0.5, 4, name="first")]
    results = Part(trace_of(tmp_path, *events))
    assert "had to wait" not in cause_text(results, int(np.argmax(gaps_of(results).start)))


def test_device_events_without_a_category_are_said(tmp_path):
    event = {"ph": "X", "name": "MatMulV2", "pid": 3, "tid": 2, "ts": 5, "dur": 9}
    label = {"ph": "M", "name": "process_name", "pid": 3, "args": {"name": "Ascend Hardware"}}
    label2 = label | {"name": "process_labels", "args": {"labels": "NPU"}}
    trace = trace_of(tmp_path, cpu("aten::mm", 0, 20), event, label, label2)
    assert "1 event without a category: drawn, but not judged" in without_work_text(trace)


def test_a_record_that_the_trace_does_not_have_is_not_another(tmp_path):
    events = waiting(True, 142, wait_on_cuda_event_record_corr_id=52)
    for event in events:
        if event["args"].get("correlation") == 51:
            event["args"]["correlation"] = 53
    results = Part(trace_of(tmp_path, *events))
    assert "had to wait" not in cause_text(results, int(np.argmax(gaps_of(results).start)))


def test_unknown_events_with_the_ids_of_launches_are_what_ran(tmp_path):
    """In a file without metadata no lane is known to be a device's."""
    events = [launch(10 * n, n + 1) for n in range(3)]
    ran = [kernel(10 * n + 5, 4, n + 1, cat="mtia_ccp_events", pid=3) for n in range(2)]
    ran.append(cpu("free", 5, 4, "other"))
    text = without_work_text(trace_of(tmp_path, *events, *ran))
    assert text == (
        "No event here has the category of a kernel, a copy or a memset. 2 events of other categories "
        "(mtia_ccp_events) have the ids of launches: drawn, but not judged."
    )
    assert "got no events from the GPU" in without_work_text(trace_of(tmp_path, *events, ran[2]))


@pytest.mark.parametrize(("streams", "others"), [((), True), ((7,), False), ((7, 8), True)])
def test_work_of_one_stream_waits_for_no_other(tmp_path, streams, others):
    """Without any device nothing is known of it."""
    work = [event for i in streams for event in run(100 * i, 10, i, stream=i)]
    assert waits_for_others(trace_of(tmp_path, step(1, 0, 50), *work)) is others


def test_gaps_between_overlapping_streams(tmp_path):
    trace = trace_of(
        tmp_path,
        kernel(0, 50, 1), kernel(10, 20, 2, 8), kernel(50, 10, 3, 8), kernel(61, 9, 4), kernel(64, 6, 5, 8),
        kernel(90, 0, 6), kernel(95, 5, 7),
    )  # fmt: skip
    (gaps,) = find_gaps(trace)
    assert list(zip(gaps.start.tolist(), gaps.end.tolist(), strict=True)) == [
        (60_000, 61_000), (70_000, 90_000), (90_000, 95_000)
    ]  # fmt: skip
    assert [trace.name_of(int(i)) for i in gaps.before] == ["k3", "k4", "k6"]
    assert [trace.name_of(int(i)) for i in gaps.after] == ["k4", "k6", "k7"]
    assert (gaps.events, gaps.busy, gaps.span) == (7, 74_000, 100_000)
    assert gaps.busy_share == 0.74
    assert gaps.longest().tolist() == [1, 2, 0]
    assert gaps.longest(5_000).tolist() == [1, 2]
    assert gaps.longest(5_001).tolist() == [1]


@pytest.mark.parametrize(("low", "high", "gaps_in", "busy", "whole"), [
    (0, 100, [(20, 30), (50, 80)], 60, [0, 1]), (-50, 500, [(20, 30), (50, 80)], 60, [0, 1]),
    (20, 80, [(20, 30), (50, 80)], 20, [0, 1]), (25, 60, [(25, 30), (50, 60)], 20, [0, 1]),
    (30, 50, [], 20, []), (29, 51, [(29, 30), (50, 51)], 20, [0, 1]), (55, 70, [(55, 70)], 0, [1]),
    (85, 200, [], 15, []), (120, 200, [], 0, []), (-20, -10, [], 0, [])
])  # fmt: skip
def test_clip(tmp_path, low, high, gaps_in, busy, whole):
    (gaps,) = find_gaps(trace_of(tmp_path, kernel(0, 20, 1), kernel(30, 20, 2), kernel(80, 20, 3)))
    part = clip(gaps, low * 1000, high * 1000)
    assert [
        (a // 1000, b // 1000) for a, b in zip(part.start.tolist(), part.end.tolist(), strict=True)
    ] == gaps_in
    assert (part.busy, part.whole.tolist()) == (busy * 1000, whole)
    assert part.span == 1000 * max(0, min(high, 100) - max(low, 0))
    assert part.idle == part.span - part.busy
