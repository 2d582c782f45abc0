"""How the time of devices splits, and what is judged of it, on traces of a few events."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.analysis.test_times_by_hand import split
from tests.kineto import Event, cpu, kernel, launch, memcpy, run, step, trace_of

from tracetui.analysis.idle.causes import CauseTotal
from tracetui.analysis.idle.split import COLUMNS, Split
from tracetui.analysis.idle.verdict import Verdict, communication_text, judge
from tracetui.analysis.steps.steps import StepRow, summarize_steps
from tracetui.trace import Trace
from tracetui.trace.model import I64


def times(*us: float) -> I64:
    return np.array([round(1000 * t) for t in us], dtype=np.int64)


def parts(time: I64) -> dict[str, float]:
    """By column, in us."""
    return {column: ns / 1000 for column, ns in zip(COLUMNS, time.tolist(), strict=True) if ns}


def of_all(trace: Trace, low: float, high: float) -> dict[str, float]:
    return parts(Split(trace).overlap(times(low), times(high))[:, 0].sum(0))


def on(event: Event, tid: int) -> Event:
    return event | {"tid": tid}


def of_device(event: Event, device: int = 1) -> Event:
    return event | {"pid": device, "args": event["args"] | {"device": device}}


# The split


def test_what_each_moment_counts_as(tmp_path: Path) -> None:
    talk = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    trace = trace_of(
        tmp_path,
        cpu("x", 0, 100, "user_annotation"),
        kernel(0, 20, 1), kernel(10, 20, 2, 13, talk),  # 10 us beside each other
        memcpy(25, 15, 3, stream=20), memcpy(40, 5, 4, "DtoD (Device -> Device)", 21),
        memcpy(42, 8, 5, "DtoH (Device -> Pinned)", 22),
        kernel(60, 5, 6, 13, talk), memcpy(61, 2, 7, "DtoD (Device -> Device)", 21),
    )  # fmt: skip
    assert of_all(trace, 0, 100) == {"compute": 25, "communication": 15, "copies": 15, "unlinked": 45}
    assert of_all(trace, 28, 44) == {"communication": 2, "copies": 10, "compute": 4}
    assert of_all(trace, 64, 64) == {}


def test_after_the_last_work_the_ops_of_every_thread_count(tmp_path: Path) -> None:
    """But of waiting and allocating, those of the thread that launched last."""
    events = [
        *run(10, 10, 1),
        cpu("aten::mm", 50, 30),
        on(cpu("aten::mul", 70, 20), 5),
        cpu("idle", 0, 100, "user_annotation"),
    ]
    events.append(on(cpu("cudaMalloc", 91, 5, "cuda_runtime"), 5))
    trace = trace_of(tmp_path, *events)
    assert of_all(trace, 20, 100) == {"dispatch": 40, "host": 40}
    assert of_all(trace, 60, 85) == {"dispatch": 25}
    later = [on(launch(25, 2), 5), kernel(30, 10, 2)]
    held = {"dispatch": 40, "allocation": 5, "host": 15}
    assert of_all(trace_of(tmp_path, *events, *later), 40, 100) == held
    lost = kernel(32, 8, 3)  # nobody launched it
    assert of_all(trace_of(tmp_path, *events, *later, lost), 40, 100) == held
    trace = trace_of(tmp_path, kernel(10, 10, 1), cpu("aten::mm", 0, 100))
    assert of_all(trace, 20, 100) == {"unlinked": 80}


def test_before_the_first_work(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, cpu("aten::mm", 0, 60), launch(80, 1), kernel(100, 10, 1))
    # 4 us are the launch, and 16 what is usual in this trace; it is the only one.
    assert of_all(trace, 0, 100) == {"dispatch": 60, "host": 20, "launch": 9, "in flight": 11}
    second = [launch(200, 2), kernel(220, 10, 2)]
    first = [cpu("aten::mm", 0, 60), launch(80, 1), kernel(100, 10, 1)]
    assert of_all(trace_of(tmp_path, *first, *second), 110, 220) == {"host": 90, "launch": 20}


def test_the_lead_of_a_range(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, cpu("aten::mm", 0, 100), kernel(10, 10, 1), kernel(50, 10, 2))
    (devices,) = Split(trace).times
    low, high = times(0, 0, 0, 15, 20, 60, 5), times(5, 10, 10.001, 30, 60, 99, 60)
    assert (devices.lead(low, high)[0] / 1000).tolist() == [0, 0, 10, 0, 30, 0, 5]


@pytest.mark.parametrize(
    ("leads", "found"),
    [
        ((21, 10, 10), 21),
        ((20, 10, 10), 0),
        ((21, 4, 10, 80), 21),
        ((50,), 0),
        ((50, 0), 50),
        ((6, 3), 0),
        ((7, 3), 7),
    ],
)
def test_the_lead_in(tmp_path: Path, leads: tuple[int, ...], found: int) -> None:
    """That of the first range, if it is more than twice the middle of the others."""
    events = [e for i, lead in enumerate(leads) for e in run(100 * i + lead, 99 - lead, i + 1)]
    trace = trace_of(tmp_path, cpu("aten::mm", 0, 1000), *events)
    of = Split(trace)
    low = times(*(100 * i for i in range(len(leads))))
    (time,) = of.lead_ins(low, low + 100_000)
    assert time.sum() == 1000 * found
    assert (time == of.overlap(low[:1], low[:1] + 1000 * found)[0, 0]).all()


@pytest.mark.parametrize(("length", "judged"), [(10, True), (9.999, False)])
def test_a_device_takes_part_from_a_hundredth_on(tmp_path: Path, length: float, judged: bool) -> None:
    other = of_device(kernel(500, length, 90))
    of = Split(trace_of(tmp_path, launch(0, 1), kernel(0, 1000, 1), other))
    time = of.judged(of.overlap(times(0), times(1000))[:, 0])
    assert time.sum(1).tolist() == [1_000_000, 1_000_000 if judged else 0]


def test_without_devices(tmp_path: Path) -> None:
    of = Split(trace_of(tmp_path, cpu("aten::mm", 0, 5)))
    assert of.overlap(times(0, 1), times(5, 2)).shape == (0, 2, len(COLUMNS))
    assert of.gaps_within(times(0), times(5)).sum() == 0
    assert of.lead_ins(times(0, 1), times(5, 2)).shape == (0, len(COLUMNS))


# The steps


def gaps(row: StepRow) -> tuple[int, float]:
    """(how many, us)."""
    of: tuple[CauseTotal, ...] = row.idle_by_cause
    assert sum(total.duration for total in of) == row.idle
    assert [total.duration for total in of] == sorted((total.duration for total in of), reverse=True)
    return sum(total.gaps for total in of), row.idle / 1000


def test_a_gap_counts_where_it_ends(tmp_path: Path) -> None:
    """Gaps 50 to 100, 120 to 200, 220 to 260, 290 to 350; steps from 100, from 200, until 300."""
    works = [*run(40, 10, 1), *run(100, 20, 2), *run(200, 20, 3), *run(260, 30, 4), *run(350, 10, 5)]
    steps = summarize_steps(trace_of(tmp_path, step(1, 100, 100), step(2, 200, 100), *works))
    assert [gaps(row) for row in steps.rows] == [(1, 80), (1, 50)]
    assert gaps(steps.outside) == (2, 100)
    assert gaps(steps.whole) == (4, 230)
    assert [row.window_length for row in steps.rows] == [100_000, 100_000]
    assert [sum(ns for _, ns in row.window_causes) for row in steps.rows] == [80_000, 50_000]
    assert (steps.outside.event, steps.outside.number, steps.outside.window) == (-1, -1, (0, 0))
    assert (steps.outside.start, steps.outside.duration, steps.whole.event) == (0, 0, -1)
    assert not steps.outside.unusual
    assert not steps.whole.unusual


def test_the_window_of_the_last_step_ends_with_its_work(tmp_path: Path) -> None:
    works = [*run(10, 20, 1), *run(95, 5, 2), kernel(150, 30, 2), *run(300, 5, 3)]
    steps = summarize_steps(trace_of(tmp_path, step(1, 0, 50), step(2, 60, 60), *works))
    assert [row.window for row in steps.rows] == [(0, 60_000), (60_000, 180_000)]
    assert (steps.outside.busy, steps.outside.kernels) == (5_000, 1)
    late = [launch(10, 1), kernel(400, 5, 1), *run(95, 5, 2)]  # of the first step, later than the second
    steps = summarize_steps(trace_of(tmp_path, step(1, 0, 50), step(2, 60, 60), *late))
    assert steps.rows[-1].window == (60_000, 120_000)


def test_the_lead_in_is_left_out_of_the_first_step_and_of_the_whole(tmp_path: Path) -> None:
    first = [step(0, 0, 100), *run(60, 40, 1)]
    more = [e for n in (1, 2) for e in (step(n, 100 * n, 100), *run(100 * n + 10, 80, n + 1))]
    steps = summarize_steps(trace_of(tmp_path, *first, *more, cpu("aten::mm", 300, 50)))
    assert [row.verdict.left_out for row in steps.rows] == [(("lead-in", 60_000),), (), ()]
    assert steps.outside.verdict.left_out == ()
    assert steps.whole.verdict.left_out == (("lead-in", 60_000),)
    assert [row.busy_share for row in steps.rows] == [1.0, 0.8, 0.8]
    assert steps.whole.verdict.busy_share == pytest.approx(200 / 240)
    assert steps.whole.busy_share == pytest.approx(200 / 350), "of the recording"
    assert [row.verdict.judged for row in steps.rows] == [40_000, 100_000, 100_000]
    assert [int(row.judged.sum()) for row in (*steps.rows, steps.whole)] == [
        40_000,
        100_000,
        100_000,
        240_000,
    ]


def test_steps_that_launched_nothing(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, step(1, 0, 50), step(2, 50, 50), *run(70, 10, 1), kernel(90, 10, 2))
    first, second = summarize_steps(trace).rows
    assert (first.verdict.verdict, first.verdict.launch_delay) == ("not known", None)
    assert (first.busy_share, second.verdict.launch_delay) == (0, 5_000)
    # Of two steps one is busy: the verdict is still on the steps.
    whole = summarize_steps(trace).whole
    assert whole.verdict.judged == 100_000 - sum(ns for _, ns in whole.verdict.left_out)
    assert whole.verdict.base == "of the steps"


def test_steps_of_the_cpu_alone(tmp_path: Path) -> None:
    ops = [
        cpu("aten::mm", 0, 10),
        cpu("aten::mm", 110, 20),
        cpu("aten::mm", 150, 40),
        cpu("aten::mm", 260, 40),
    ]
    steps = summarize_steps(trace_of(tmp_path, *ops, step(1, 100, 40), step(2, 140, 60)))

    def of(verdict: Verdict) -> tuple[int, int]:
        assert verdict.cpu is not None
        return verdict.cpu.ops // 1000, verdict.cpu.span // 1000

    assert [of(row.verdict) for row in steps.rows] == [(20, 40), (40, 60)]
    assert of(steps.whole.verdict) == (60, 100)
    assert of(steps.outside.verdict) == (50, 200)
    alone = summarize_steps(trace_of(tmp_path, *ops))
    assert of(alone.whole.verdict) == (110, 300)


# The verdict


@pytest.mark.parametrize(("length", "said"), [(10, True), (9, False)])
def test_what_is_left_out_is_said_from_a_hundredth_on(length: int, said: bool) -> None:
    assert ("initialisation" in judge(split(compute=990, initialisation=length), 1).reason) is said
    assert ("first step" in judge(split(compute=990), 1, lead_in=split(host=length)).reason) is said


@pytest.mark.parametrize(("second", "said"), [(10, True), (9, False)])
def test_a_second_cause_is_named_from_a_tenth_of_the_first_on(second: int, said: bool) -> None:
    reason = judge(split(compute=20, dispatch=100, sync=second, queued=5), 60_000).reason
    assert "dispatch" in reason
    assert ("sync" in reason) is said
    assert "launch to start" not in reason


@pytest.mark.parametrize(("talk", "said"), [(10, True), (9, False)])
def test_communication_is_said_from_a_tenth_of_the_busy_time_on(talk: int, said: bool) -> None:
    found = judge(split(compute=100 - talk, communication=talk, host=5), 1)
    assert found.verdict == "compute-bound"
    assert found.communication_share == talk / 100
    assert ("ommunication" in found.reason) is said
    assert bool(communication_text(found)) is said
    assert communication_text(judge(split(host=5), 1)) == ""


@pytest.mark.parametrize(
    ("parts", "words", "not_said"),
    [
        # Of the busy time, 35 of 80 are communication; said where it is not one of the two.
        ({"compute": 45, "communication": 35, "host": 20}, ("45.0%", "35.0%"), ("20.0%", "43.8%")),
        ({"compute": 45, "host": 35, "communication": 20}, ("45.0%", "35.0%", "30.8%"), ("20.0%",)),
        ({"queued": 60, "compute": 40}, ("60.0%", "40.0%"), ()),
        ({"unlinked": 60, "copies": 40}, ("60.0%", "40.0%"), ("50.0%",)),
    ],
)
def test_a_mixed_verdict_names_the_two_largest_parts(
    parts: dict[str, int], words: tuple[str, ...], not_said: tuple[str, ...]
) -> None:
    found = judge(split(**parts), 1)
    assert found.verdict == "mixed"
    text = found.reason.split("The largest part is ", 1)[1]
    assert all(word in text for word in words)
    assert not any(word in text for word in not_said)
    assert text.count("other ranks") == ("communication" in parts)


def test_a_verdict_on_communication_or_copies_names_its_share_alone() -> None:
    for part in ("communication", "copies"):
        found = judge(split(compute=20, host=15, **{part: 65}), 1)
        assert found.verdict == {"communication": "communication-bound", "copies": "copy-bound"}[part]
        assert "65.0%" in found.reason
        assert "20.0%" not in found.reason
        assert "15.0%" not in found.reason


def test_numbers_of_a_verdict() -> None:
    time = split(
        compute=30, communication=20, copies=10, sync=5, allocation=4, dispatch=3, host=2, launch=1,
        queued=15, back_to_back=6, unlinked=7, initialisation=100, profiler=50, in_flight=25,
    )  # fmt: skip
    found = judge(time, 7, lead_in=split(host=9))
    assert found.parts == (30, 20, 10, 15, 21, 7)
    assert found.judged == 103
    assert found.busy_share == 60 / 103
    assert found.communication_share == 20 / 60
    assert found.idle == 43
    assert dict(found.left_out) == {"lead-in": 9, "in flight": 25, "initialisation": 100, "profiler": 50}
    assert (found.share("cpu"), found.share("queued")) == (15 / 103, 21 / 103)
    empty = judge(split(initialisation=5), None)
    assert (empty.verdict, empty.judged, empty.share("cpu"), empty.busy_share) == ("not known", 0, 0, 0)
