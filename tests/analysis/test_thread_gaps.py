"""The gaps of the main thread in a trace of the CPU alone, against times counted by hand."""

from __future__ import annotations

from pathlib import Path

from tests.kineto import Event, cpu, run, step, trace_of

from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.idle.thread_gaps import REASONS, activity_of, all_gaps_of, thread_gaps_of
from tracetui.analysis.part import Part
from tracetui.analysis.steps.scope import range_scope, step_scope
from tracetui.analysis.verdicts import verdict_of
from tracetui.trace import Trace
from tracetui.views.gaps_text import gaps_json
from tracetui.views.parts import evidence


def note(name: str, start: float, duration: float) -> Event:
    return cpu(name, start, duration, "user_annotation")


def python(name: str, start: float, duration: float) -> Event:
    return cpu(name, start, duration, "python_function")


def other(event: Event) -> Event:
    """The event on another thread."""
    return event | {"tid": 5}


LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
LOOP = [
    step(0, 0, 100),
    note(LOADER, 0, 20),
    cpu("aten::stack", 2, 4),  # a part of loading
    cpu("aten::linear", 20, 10),
    cpu("aten::addmm", 22, 6),
    python("train.py(7): read", 30, 30),
    python("<built-in function sleep>", 31, 28),
    cpu("aten::relu", 60, 10),
    other(cpu("aten::mm", 72, 18)),
    cpu("aten::sum", 90, 10),
    step(1, 100, 100),
    note("wait", 100, 40),
    cpu("aten::linear", 140, 10),
    python("tracetui/capture/child/steps.py(72): leave", 150, 12),
    cpu("aten::sum", 160, 10),
]


def told(trace: Trace) -> list[tuple[float, float, str, str]]:
    """(start, length in us, reason, what the thread was in) of each gap."""
    part = Part(trace)
    found = thread_gaps_of(part)
    return [
        (start / 1000, length / 1000, REASONS[reason], activity_of(part, n))
        for n, (start, length, reason) in enumerate(
            zip(found.gaps.start.tolist(), found.gaps.duration.tolist(), found.reason.tolist(), strict=True)
        )
    ]


def test_each_gap_has_a_reason(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, *LOOP)
    assert told(trace) == [
        (0, 20, "data loading", LOADER),
        (30, 30, "Python", "sleep, in train.py(7): read"),
        (70, 20, "other threads", ""),
        (100, 40, "annotation", "wait"),
        (150, 10, "profiler", "steps.py(72): leave"),
        (170, 30, "nothing recorded", ""),  # up to the end of the last step
    ]


def test_on_one_thread_the_gaps_are_what_is_not_in_ops(tmp_path: Path) -> None:
    part = Part(trace_of(tmp_path, *(event for event in LOOP if event["tid"] == 9)))
    cpu_time = verdict_of(part).cpu
    assert cpu_time is not None
    assert sum(one.idle for one in thread_gaps_of(part).gaps.devices) == cpu_time.span - cpu_time.ops


def test_gaps_of_a_step_and_of_a_range_are_cut(tmp_path: Path) -> None:
    whole = Part(trace_of(tmp_path, *LOOP))
    assert (thread_gaps_of(whole.in_scope(step_scope(whole.trace, 1))).gaps.duration / 1000).tolist() == [
        40, 10, 30,
    ]  # fmt: skip
    part = thread_gaps_of(whole.in_scope(range_scope(45_000, 65_000)))
    assert part.gaps.duration.tolist() == [15_000]
    assert [REASONS[reason] for reason in part.reason] == ["Python"]


def test_the_main_thread_is_that_of_the_steps_else_that_of_the_process(tmp_path: Path) -> None:
    long = other(cpu("aten::mm", 0, 500))
    assert [lane.tid for lane in _main(trace_of(tmp_path, step(0, 0, 90), long, cpu("aten::mm", 5, 1)))] == [
        "9"
    ]
    assert [lane.tid for lane in _main(trace_of(tmp_path, long, cpu("aten::mm", 5, 1)))] == ["9"]
    third = cpu("aten::mm", 5, 1) | {"tid": 6}
    assert [lane.tid for lane in _main(trace_of(tmp_path, long, third))] == ["5"]


def _main(trace: Trace) -> list[object]:
    return [trace.lanes[~one.device] for one in thread_gaps_of(Part(trace)).gaps.devices]


def test_a_trace_with_a_gpu_has_the_gaps_of_its_gpu(tmp_path: Path) -> None:
    part = Part(trace_of(tmp_path, cpu("aten::mm", 0, 10), *run(6, 4, 1), *run(20, 4, 2)))
    assert not len(thread_gaps_of(part).gaps)
    assert all_gaps_of(part) is gaps_of(part)
    assert "threads" not in gaps_json(part)


def test_the_example_of_a_part_is_the_longest_stretch_of_the_main_thread(tmp_path: Path) -> None:
    part = Part(trace_of(tmp_path, *LOOP))
    gaps = all_gaps_of(part)

    def length(what: str) -> float:
        target = evidence(part, what)
        assert target.gap is not None
        return int(gaps.duration[target.gap]) / 1000

    assert length("outside ops") == 40
    assert length("data loading") == 20
    assert evidence(part, "ops").event is not None


def test_json_has_every_gap_and_its_reason(tmp_path: Path) -> None:
    data = gaps_json(Part(trace_of(tmp_path, *LOOP)), 30_000)
    (thread,) = data["threads"]
    assert data["devices"] == []
    assert (thread["span_ns"], thread["ops_ns"], thread["idle_ns"], thread["gap_count"]) == (
        200_000, 50_000, 150_000, 6,
    )  # fmt: skip
    assert sum(one["duration_ns"] for one in thread["reasons"]) == thread["idle_ns"]
    assert thread["gaps"][0] == {
        "start_ns": 30_000, "duration_ns": 30_000, "reason": "Python", "step": 0,
        "cpu": "<built-in function sleep>", "caller": "train.py(7): read",
        "after": "aten::linear", "before": "aten::relu",
    }  # fmt: skip
    assert [one["duration_ns"] for one in thread["gaps"]] == [30_000, 40_000, 30_000]
