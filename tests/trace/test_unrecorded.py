"""What the profiler did not record: launches and device events that lack each other."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.kineto import Event, cpu, kernel, launch, memcpy, run, step, trace_of
from tests.recorded import FOLDERS, ROOT, load

from tracetui.analysis.idle.split import split_of
from tracetui.analysis.part import Part
from tracetui.analysis.steps.scope import step_table_of
from tracetui.analysis.steps.steps import steps_of
from tracetui.analysis.unrecorded import lost_launches, notes
from tracetui.analysis.verdicts import verdict_of
from tracetui.trace import Trace
from tracetui.trace.unrecorded import Unrecorded, unrecorded
from tracetui.trace.unrecorded_time import unrecorded_time

CUSPY = ROOT / "tests" / "data" / "cuspy"
DEVICE = {"kernel", "gpu_memcpy", "gpu_memset"}
LOSES = {"ddp_late_rank1": (48, 308, 48), "ddp_slow_gpu": (20, 332, 0), "tp_decode": (45, 480, 5)}
"""Launches without device events, all launches, and device events without a launch."""
TRUE_LOSSES = {
    "h200_500ms", "rank0", "stream_missing", "two_writers_append", "cmp_b", "pipeline_inference", *LOSES,
}  # fmt: skip
"""The recordings in which launches lack their events: each was looked at."""


def found(tmp_path: Path, *events: Event) -> Unrecorded:
    return unrecorded(trace_of(tmp_path, *events))


def names(trace: Trace) -> list[int]:
    return trace.correlation[unrecorded(trace).launches].tolist()


def read_events(path: Path) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    return [e for e in events if e["ph"] == "X"]


@pytest.mark.parametrize("name", LOSES)
def test_recordings_of_cuspy_lose_the_end(name):
    path = CUSPY / f"{name}.json.gz"
    events = read_events(path)
    calls = [
        (e["ts"], e["args"]["correlation"]) for e in events if e["cat"] in ("cuda_runtime", "cuda_driver")
        and any(word in e["name"] for word in ("LaunchKernel", "MemcpyAsync", "MemsetAsync"))
    ]  # fmt: skip
    ran = {e["args"]["correlation"] for e in events if e["cat"] in DEVICE}
    lost = sorted(call for call in calls if call[1] not in ran)
    unlinked = ran - {correlation for _, correlation in calls}
    assert (len(lost), len(calls), len(unlinked)) == LOSES[name]
    assert min(lost) > max(call for call in calls if call[1] in ran)

    trace = load(path)
    told = unrecorded(trace)
    assert names(trace) == [correlation for _, correlation in lost]
    assert (told.of, told.before, told.after) == (len(calls), 0, len(lost))
    assert set(trace.correlation[told.work].tolist()) == unlinked
    assert told.earlier == len(unlinked)
    assert lost_launches(trace) == f"{len(lost)} of {len(calls)} launches, at the end"
    assert ("missing", len(lost)) == notes(trace)[0][:2]

    whole = Part(trace)
    steps = steps_of(whole)
    assert steps.outside.lost + sum(row.lost for row in steps.rows) == steps.whole.lost == len(lost)
    for row in steps.rows:
        inside = [ts for ts, _ in lost if row.start <= round(ts * 1000) - trace.info.zero_ns < row.window[1]]
        assert row.lost == len(inside) or row is steps.rows[-1]
    said = f"The device events of {len(lost)} of {len(calls)} launches, at the end, are not in the file."
    assert verdict_of(whole).reason.endswith(said)


def test_every_other_recording_is_silent():
    told = set()
    for folder in FOLDERS[:2]:
        for path in sorted(folder.rglob("*.json.gz")):
            if path.parent.name == "unrecorded":  # made to lack something
                continue
            trace = load(path)
            if lost_launches(trace):
                told.add(path.name.split(".")[0])
            assert unrecorded(trace).earlier == len(unrecorded(trace).work), path
    assert told <= TRUE_LOSSES
    assert told >= set(LOSES)


def test_a_healthy_trace_lacks_nothing(tmp_path):
    told = found(tmp_path, *run(10, 5, 1), *run(20, 5, 2))
    assert (len(told.launches), told.of, len(told.work)) == (0, 2, 0)


def test_where_launches_are_lost(tmp_path):
    events = [launch(10.0 * i, i) for i in range(1, 8)]
    trace = trace_of(tmp_path, *events, kernel(25, 3, 2), kernel(55, 3, 5))
    told = unrecorded(trace)
    assert names(trace) == [1, 3, 4, 6, 7]
    assert (told.of, told.before, told.after) == (7, 1, 2)
    assert lost_launches(trace) == "5 of 7 launches, 1 at the beginning, 2 in between, 2 at the end"
    # From the first lost launch, or the end of the work before it, to the work after it or to the end.
    zero, time = trace.info.zero_ns, unrecorded_time(trace)[0].union
    times = [((a + zero) / 1000, (b + zero) / 1000) for a, b in zip(time.start, time.end, strict=True)]
    assert list(times) == [(10, 25), (30, 55), (60, 74)]


def test_work_that_is_behind_hides_nothing(tmp_path):
    trace = trace_of(tmp_path, launch(10, 1), launch(20, 2), kernel(12, 100, 1), cpu("op", 0, 150))
    end = int(unrecorded_time(trace)[0].start[0]) + trace.info.zero_ns
    assert end == 112_000  # not 20 us: the device was busy with what came first


def test_a_copy_without_an_event_may_have_copied_nothing(tmp_path):
    none = launch(30, 3, name="cudaMemsetAsync")
    trace = trace_of(tmp_path, *run(10, 5, 1), none, *run(50, 5, 5))
    assert not names(trace)
    assert unrecorded(trace).of == 2
    # Among lost kernels, it is lost too.
    trace = trace_of(tmp_path, *run(10, 5, 1), none, launch(40, 4))
    assert names(trace) == [3, 4]
    trace = trace_of(tmp_path, launch(5, 1, name="cudaMemcpyAsync"), memcpy(10, 5, 1), launch(40, 4))
    assert names(trace) == [4]
    assert unrecorded(trace).of == 2


@pytest.mark.parametrize(("calls", "launches"), [
    ("cudaLaunchHostFunc cudaEventRecord cudaGraphAddMemcpyNode", []),
    ("cuLaunchKernelEx hipModuleLaunchKernel cudaGraphLaunch urEnqueueKernelLaunch", [3]),
])  # fmt: skip
def test_calls_that_launch(tmp_path, calls, launches):
    for name in calls.split():
        assert names(trace_of(tmp_path, *run(10, 5, 1), launch(30, 3, name=name))) == launches, name


def test_what_is_captured_does_not_run(tmp_path):
    begin, end = launch(20, 2, name="cudaStreamBeginCapture"), launch(60, 6, name="cudaStreamEndCapture")
    other = launch(40, 4) | {"tid": 10}  # by any thread
    events = [*run(10, 5, 1), launch(30, 3), other, launch(70, 7)]
    assert names(trace_of(tmp_path, *events, begin, end)) == [7]
    assert names(trace_of(tmp_path, *events, end)) == [7]  # begun before the recording
    assert names(trace_of(tmp_path, *events, begin)) == []  # still under way at its end
    assert names(trace_of(tmp_path, *events, launch(65, 8, name="cudaGraphInstantiate"))) == [7]


def test_a_call_within_a_launch_is_part_of_it(tmp_path):
    outer = launch(30, 3, 8, "cudaLaunchCooperativeKernel")
    trace = trace_of(tmp_path, *run(10, 5, 1), outer, launch(32, 4, 2, "cuLaunchKernel"), kernel(40, 5, 4))
    assert (names(trace), unrecorded(trace).of) == ([], 2)
    trace = trace_of(tmp_path, *run(10, 5, 1), outer, launch(32, 4, 2, "cuLaunchKernel"))
    assert (names(trace), unrecorded(trace).of) == ([3], 2)


def test_without_any_event_of_a_device(tmp_path):
    trace = trace_of(tmp_path, launch(10, 1), launch(20, 2))
    assert (names(trace), unrecorded(trace).after, unrecorded_time(trace)) == ([1, 2], 2, {})
    assert lost_launches(trace) == "all 2 launches"
    # Events of a category that is not known may be what ran.
    other = kernel(15, 3, 1) | {"cat": "mtia_ccp_events"}
    assert names(trace_of(tmp_path, launch(10, 1), launch(20, 2), other)) == [2]


def test_without_any_link(tmp_path):
    told = found(tmp_path, launch(10, 1), kernel(15, 3, 7))
    assert (len(told.launches), len(told.work)) == (0, 1)


def test_a_file_that_is_cut_off_says_only_that(tmp_path):
    path = tmp_path / "cut.json"
    path.write_text(json.dumps({"traceEvents": [*run(10, 5, 1), launch(30, 3), kernel(40, 5, 3)]})[:-80])
    trace = load(path)
    assert trace.cut_off
    assert not lost_launches(trace)
    assert all(level != "missing" for level, *_ in notes(trace))


def test_device_events_from_before_the_recording(tmp_path):
    told = found(tmp_path, kernel(1, 2, 90), kernel(4, 2, 91), *run(10, 5, 1), kernel(20, 5, 92))
    assert (len(told.work), told.earlier) == (3, 2)


def test_each_device_has_its_own_times(tmp_path):
    second = {"pid": 1, "tid": 8, "args": {"correlation": 2, "device": 1, "stream": 8}}
    mine = [launch(30, 3), *run(10, 5, 1)]
    others = [launch(12, 2) | {"tid": 11}, kernel(20, 5, 2, **second)]
    trace = trace_of(tmp_path, *mine, *others, cpu("op", 0, 50))
    assert set(unrecorded_time(trace)) == {0}  # the thread of the lost launch uses only this one
    either = [launch(12, 2), kernel(20, 5, 2, **second)]
    assert set(unrecorded_time(trace_of(tmp_path, *mine, *either, cpu("op", 0, 50)))) == {0, 1}


def test_the_verdict_leaves_out_what_is_not_known(tmp_path):
    """Three steps of 100 us, half busy; in the second one, launches are lost for 30 us."""
    events = [step(1, 0, 100), *run(10, 50, 1), step(2, 100, 100), *run(110, 30, 2), *run(180, 20, 4)]
    events += [step(3, 200, 100), *run(210, 50, 6)]
    healthy = Part(trace_of(tmp_path, *events))
    results = Part(trace_of(tmp_path, *events, *[launch(150, 3), launch(160, 5)]))
    assert steps_of(healthy).rows[1].verdict.busy_share == pytest.approx(50 / 100)
    row = steps_of(results).rows[1]
    assert (row.lost, dict(row.verdict.left_out)["not recorded"]) == (2, 30_000)
    assert row.verdict.busy_share == pytest.approx(50 / 70)
    assert row.busy + row.window_idle == row.window_length
    assert dict(row.window_causes)["not recorded"] == 30_000
    assert steps_of(results).rows[0].verdict == steps_of(healthy).rows[0].verdict
    assert np.array_equal(split_of(results).overlap(np.array([0]), np.array([100_000])).sum(), 100_000)
    for part in (results, results.in_scope(step_table_of(results).scope(1))):
        assert "are not in the file." in verdict_of(part).reason
    assert "not in the file" not in verdict_of(results.in_scope(step_table_of(results).scope(0))).reason


def test_work_of_a_call_within_a_launch_is_that_launchs(tmp_path):
    outer, inner = launch(10, 1, 8, "cudaLaunchCooperativeKernel"), launch(12, 2, 2, "cuLaunchKernel")
    trace = trace_of(tmp_path, outer, inner, kernel(20, 5, 2), launch(40, 3))
    told = unrecorded(trace)
    assert (len(told.launches), told.of, unrecorded_time(trace)[0].union.total) == (1, 2, 4000)


def test_two_writers_with_the_same_ids(tmp_path):
    """Which of the launches with one id has which of the kernels is not known; both are there."""
    other = launch(11, 1) | {"tid": 10}
    events = [launch(10, 1), other, kernel(20, 5, 1), *run(50, 5, 2)]
    assert names(trace_of(tmp_path, *events, kernel(30, 5, 1, stream=8))) == []
    assert names(trace_of(tmp_path, *events)) == [1]
