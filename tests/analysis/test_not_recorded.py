"""What was not recorded is neither busy nor idle, and times are not believed one by one.

The files in `data/unrecorded` are made up after public reports; the rest are small traces, and recordings
with something taken out."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from tests.kineto import Event, cpu, kernel, launch, run, step, trace_of
from tests.recorded import ROOT, load

from tracetui.analysis.idle.causes import AT
from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.idle.split import COLUMNS, causes_of, split_of
from tracetui.analysis.part import Part
from tracetui.analysis.steps.steps import steps_of
from tracetui.analysis.unrecorded import notes
from tracetui.analysis.verdicts import verdict_of
from tracetui.cli.main import main
from tracetui.compare.compare import compare
from tracetui.rules import find_findings
from tracetui.trace import Trace
from tracetui.trace.unknown import clocks, idle_known, why_unknown
from tracetui.trace.unrecorded_time import idle_unknown, unrecorded_time

MADE = ROOT / "tests" / "data" / "unrecorded"
GPU = ("kernel", "gpu_memcpy", "gpu_memset")
Events = list[dict[str, Any]]


def made(name: str) -> Trace:
    return load(MADE / f"{name}.json.gz")


def ran(*args: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, list(args), env={"COLUMNS": "100"})
    return result.exit_code, result.output


def told(trace: Trace) -> set[str]:
    return {finding.rule for finding in find_findings(Part(trace))}


def left_out(trace: Trace) -> dict[str, int]:
    return dict(verdict_of(Part(trace)).left_out)


# The files


@pytest.mark.parametrize(
    ("name", "why", "said"),
    [
        ("stream_missing", "lost", "25 of 55 launches, all through the recording, have no GPU event"),
        ("clock_drift", "clocks", "the clocks of CPU and GPU differ, and drift"),
        ("kernels_dur0", "durations", "36 of 36 kernels have a duration of 0: their times are missing"),
        ("two_long_kernels", "", "2 GPU events, but with times that cannot be right"),
    ],
)
def test_not_known_and_why(name, why, said):
    trace = made(name)
    verdict = verdict_of(Part(trace))
    assert (verdict.verdict, verdict.busy_share, why_unknown(trace)) == ("not known", None, why)
    assert said in verdict.reason
    assert not told(trace) & {"overhead_bound", "little_use", "idle_time", "communication"}
    code, text = ran("summary", str(MADE / f"{name}.json.gz"), "--fail-under", "busy=0.5")
    assert code == 3
    assert "busy is not known" in text


def test_half_of_the_events_at_time_0():
    trace = made("ts0_half")
    assert [(one.kind, one.count) for one in trace.notices] == [("no_time_given", 57)]
    verdict = verdict_of(Part(trace))
    assert verdict.verdict == "compute-bound"
    assert 0.87 <= (verdict.busy_share or 0) <= 0.91
    assert [row.number for row in steps_of(Part(trace)).rows] == [2, 3, 4]
    assert trace.span[1] - trace.span[0] < 10_000_000
    assert steps_of(Part(trace)).outside.window_causes[0][0] == "not recorded"
    text = ran("check", str(MADE / "ts0_half.json.gz"))[1]
    assert "57  an event at time 0, long before all others" in text
    assert "nothing is wrong" not in text


def test_a_wait_that_outlasts_all_that_was_recorded():
    """A graph's loop: only its first pass is in the file."""
    trace = made("graph_while_loop")
    verdict = verdict_of(Part(trace))
    assert verdict.verdict == "not known"
    assert "it may have run work that is not in the file" in verdict.reason
    assert left_out(trace)["not recorded"] == 4 * 4_803_000
    assert not told(trace) & {"overhead_bound", "little_use", "explicit_waits", "idle_time"}
    path = str(MADE / "graph_while_loop.json.gz")
    assert "idle 323 µs in 8 gaps, not known 14.4 ms" in " ".join(ran("gaps", path)[1].split())
    (device,) = json.loads(ran("gaps", path, "--json")[1])["devices"]
    assert device["idle_ns"] + device["unknown_ns"] + device["busy_ns"] == device["span_ns"]
    assert notes(trace)[0][:2] == ("missing", 4)


def test_work_from_before_on_a_second_stream():
    trace = made("in_flight_two_streams")
    verdict = verdict_of(Part(trace))
    assert verdict.verdict == "compute-bound"
    assert verdict.busy_share == pytest.approx(0.95, abs=0.01)
    assert verdict.judged == pytest.approx(10.5e6, rel=0.01)
    assert not told(trace) & {"little_use", "overhead_bound", "idle_time"}


def test_while_a_graph_is_captured():
    trace = made("graph_capture")
    verdict = verdict_of(Part(trace))
    assert verdict.verdict == "not known"
    assert "a CUDA graph is captured" in verdict.reason
    assert "graph_capture" in told(trace)
    assert not told(trace) & {"overhead_bound", "little_use", "idle_time"}
    assert not idle_unknown(trace)  # it is known that nothing ran


def test_a_recorders_loss_is_not_a_programs_change():
    whole, part = (str(MADE / f"stream_{name}.json.gz") for name in ("complete", "missing"))
    for a, b in ((whole, part), (part, whole)):
        code, text = ran("compare", a, b, "--fail-over", "launches=0")
        assert code == 0, text
        assert "is gone" not in text
        assert "is new" not in text
        assert "lost the kernels of 25 launches: only calls are compared" in text
    found = compare(Part(load(whole)), Part(load(part)))
    assert (found.metrics["launches"].a, found.metrics["launches"].b) == (11, 11)
    assert found.metrics["busy_share"].b is None


def test_a_step_that_is_left_out_counts_for_sameness():
    a, b = (Part(made(f"cmp_{name}")) for name in "ab")
    for found in (compare(a, b), compare(b, a)):
        assert not found.same_program
        assert "The same program" not in found.answer
        assert any("1 more step: what it launches is not in the file" in note for note in found.notes)
    assert compare(a, a).same_program


# Others of the same kinds


def step_of_kernels(n: int, at: float, count: int = 20, **more: Any) -> list[Event]:
    events = [step(n, at, 990)]
    for i in range(count):
        events += run(at + 20 + 47 * i, 46, 100 * n + i + 1, name=f"gemm{i}", **more)
    return events


def steps(count: int = 6) -> list[Event]:
    return [event for n in range(count) for event in step_of_kernels(n, 1000 * n)]


def gpu(event: Event) -> bool:
    return event.get("cat") in GPU


def moved(events: list[Event], by: Callable[[float], float]) -> list[Event]:
    """The events with the GPU's on another clock."""
    return [e | {"ts": e["ts"] + by(e["ts"])} if gpu(e) else e for e in events]


@pytest.mark.parametrize(
    ("by", "how"),
    [
        (lambda _: 3 * 3.6e9, "apart"),
        (lambda _: -3 * 3.6e9, "before"),
        (lambda ts: -0.05 * ts, "before"),
        (lambda ts: -0.05 * max(0.0, ts - 4000), "drift"),
        (lambda ts: 0.05 * ts, "grows"),
        (lambda _: 1.0, ""),
    ],
)
def test_clocks(tmp_path, by, how):
    events = steps()
    if how == "grows":  # with pauses in which the device is idle
        events = [e | {"dur": 10} if gpu(e) else e for e in events]
    trace = trace_of(tmp_path, *moved(events, by))
    assert clocks(trace).how == how
    assert idle_known(trace) is (not how)
    assert any("another clock" in text for _, _, text in notes(trace)) is bool(how)


def test_one_stream_without_durations(tmp_path):
    """Most kernels of a second stream have lost theirs: what the device did is not known."""
    other = [e for n in range(30) for e in run(30 + 190 * n, 0, 9000 + n, stream=9)]
    assert why_unknown(trace_of(tmp_path, *steps(), *other)) == "durations"
    assert idle_known(trace_of(tmp_path, *steps(), *other[:2]))


def test_one_stream_is_missing(tmp_path):
    """The collectives are few, but long."""
    around = [
        event
        for n in range(6)
        for event in (cpu("nccl:all_reduce", 1000 * n + 940, 20), launch(1000 * n + 945, 9000 + n))
    ]
    talk = [kernel(1000 * n + 955, 40, 9000 + n, stream=9, name="ncclDevKernel") for n in range(6)]
    assert idle_known(trace_of(tmp_path, *steps(), *around, *talk))
    assert why_unknown(trace_of(tmp_path, *steps(), *around)) == "lost"


def test_kernels_lost_at_once_are_not_counted(tmp_path):
    whole, events = trace_of(tmp_path, *steps()), steps()
    trace = trace_of(tmp_path, *(e for e in events if not gpu(e) or not 2300 < e["ts"] < 2700))
    verdict, healthy = verdict_of(Part(trace)), verdict_of(Part(whole))
    assert verdict.verdict == healthy.verdict == "compute-bound"
    assert left_out(trace)["not recorded"] == pytest.approx(400_000, rel=0.2)
    assert verdict.busy_share == pytest.approx(healthy.busy_share, abs=0.02)


def test_steps_that_are_whole_are_judged(tmp_path):
    """In two steps of eight, every second kernel is missing."""
    events, odd = steps(8), {f"gemm{i}" for i in range(1, 20, 2)}
    trace = trace_of(tmp_path, *(e for e in events if not 3000 <= e["ts"] < 5000 or e["name"] not in odd))
    found = steps_of(Part(trace))
    known, unknown = ["compute-bound"] * 3, ["not known"] * 2
    assert [row.verdict.verdict for row in found.rows] == [*known, *unknown, *known]
    assert verdict_of(Part(trace)).verdict == "compute-bound"
    assert verdict_of(Part(trace)).busy_share == pytest.approx(found.rows[1].verdict.busy_share, abs=0.02)


def test_a_wait_for_an_event_that_is_late(tmp_path):
    late = cpu("cudaEventSynchronize", 5980, 3000, "cuda_runtime")
    trace = trace_of(tmp_path, *steps(), late, *run(9000, 40, 9000))
    unknown = unrecorded_time(trace)[0]
    assert (unknown.end - unknown.start).tolist() == [3_000_000]
    ours = cpu("Buffer Flush", 5970, 3020, "overhead")
    assert not unrecorded_time(trace_of(tmp_path, *steps(), late, ours, *run(9000, 40, 9000)))


def test_a_recording_that_begins_with_a_wait(tmp_path):
    wait = cpu("cudaStreamSynchronize", -60_000, 59_900, "cuda_runtime")
    around = cpu("aten::item", -60_010, 59_920)
    trace = trace_of(tmp_path, around, wait, *(e for e in steps() if "Profiler" not in e["name"]))
    verdict = verdict_of(Part(trace))
    assert verdict.verdict == "compute-bound"
    assert left_out(trace)["in flight"] == 59_900_000


def test_the_causes_add_up(tmp_path):
    """With time of every kind, on two devices, by any way of asking."""
    begin = launch(100, 7000, name="cudaStreamBeginCapture")
    end = launch(4000, 7001, name="cudaStreamEndCapture")
    wait = cpu("cudaDeviceSynchronize", 5000, 3000, "cuda_runtime")
    events = [begin, end, wait, *run(10, 20, 1), *run(6000, 1, 2), *run(9000, 100, 3), launch(9500, 4)]
    other = [launch(30, 5), kernel(50, 10, 5, pid=1, args={"correlation": 5, "device": 1, "stream": 7})]
    trace = trace_of(tmp_path, *events, *other, *run(9800, 10, 6), cpu("op", 0, 10_000))
    split, (low, high) = split_of(Part(trace)), trace.span
    borders = np.linspace(low, high, 57).astype(np.int64)
    parts = split.overlap(borders[:-1], borders[1:])
    assert (parts >= 0).all()
    assert (parts.sum(2) == np.diff(borders)).all()
    assert np.array_equal(split.of_all(borders[:-1], borders[1:])[0], parts.sum(0))
    whole = split.overlap(np.array([low]), np.array([high]))[:, 0]
    assert np.array_equal(whole, parts.sum(1))
    assert whole[0, COLUMNS.index("graph capture")] > 0
    assert whole[0, COLUMNS.index("not recorded")] > 0
    gaps, causes = gaps_of(Part(trace)), causes_of(Part(trace))
    assert np.array_equal(causes.pieces.sum(1), gaps.duration)
    assert causes.pieces[:, AT["not recorded"]].sum() > 0


# Recordings with something taken out


def recorded(tmp_path: Path, change: Callable[[Events], Events]) -> Trace:
    with gzip.open(ROOT / "sample_traces" / "train.json.gz") as file:
        data = json.load(file)
    data["traceEvents"] = change(data["traceEvents"])
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(data))
    return load(path)


def of_gpu(event: dict[str, Any]) -> bool:
    return event.get("ph") == "X" and event.get("cat") in GPU


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda e: e | {"dur": 0} if of_gpu(e) else e, "durations"),
        (
            lambda e: e | {"ts": 0} if e["ph"] == "X" and e.get("cat") in ("cpu_op", "cuda_runtime") else e,
            "times",
        ),
        (lambda e: e | {"ts": e["ts"] + 3.6e9} if of_gpu(e) else e, "clocks"),
        (lambda e: {} if of_gpu(e) and e["args"]["correlation"] % 4 == 0 else e, "lost"),
        (lambda e: e, ""),
    ],
)
def test_a_recording_that_lost_much(tmp_path, change, why):
    trace = recorded(tmp_path, lambda events: [new for e in events if (new := change(e))])
    assert why_unknown(trace) == why
    assert (verdict_of(Part(trace)).verdict == "not known") is bool(why)
    said = [*trace.notices, *(note for note in notes(trace) if note[0] != "note")]
    assert bool(said) is bool(why)


def test_a_healthy_recording_has_no_unknown_time():
    for name in ("train", "train_ddp", "mlp_cuda_graph", "matmul_add_64_cold", "llm_decode"):
        assert not unrecorded_time(load(ROOT / "sample_traces" / f"{name}.json.gz")), name
