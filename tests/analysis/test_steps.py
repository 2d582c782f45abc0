"""Steps, launches, scopes and verdicts on recorded traces, and on small ones made by hand."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.kineto import Event, cpu, kernel, launch, memcpy, note, run, step, trace_of
from tests.recorded import load

from tracetui.analysis.idle import kinds
from tracetui.analysis.idle.causes import CauseTotal
from tracetui.analysis.idle.gaps import find_gaps
from tracetui.analysis.idle.kinds import communicates, is_communication
from tracetui.analysis.idle.verdict import Verdict, judge
from tracetui.analysis.part import WHOLE
from tracetui.analysis.steps import steps as steps_module
from tracetui.analysis.steps.scope import (
    NEVER,
    find_steps,
    launch_times,
    members,
    range_scope,
    step_of,
    step_scope,
)
from tracetui.analysis.steps.steps import StepRow, Steps, step_windows, summarize_steps
from tracetui.trace import DEVICE_WORK, Kind, Trace

DATA = Path(__file__).parent.parent / "data"
SAMPLES = Path(__file__).parent.parent.parent / "sample_traces"
TRACES = sorted([*DATA.glob("*.json.gz"), *SAMPLES.glob("*.json.gz")])
SUMS = (
    "busy", "idle", "compute", "communication", "exposed_communication", "copy", "exposed_copy", "set",
    "launches", "kernels", "copies"
)  # fmt: skip


def check_sums(trace: Trace, steps: Steps) -> None:
    whole = steps.whole
    for name in SUMS:
        parts = [getattr(row, name) for row in (*steps.rows, steps.outside)]
        assert sum(parts) == getattr(whole, name), name
        assert min(parts) >= 0, name
    for row in (*steps.rows, steps.outside, whole):
        assert sum(t.duration for t in row.idle_by_cause) == row.idle
    by_cause: dict[str, list[int]] = {}
    for row in (*steps.rows, steps.outside):
        for total in row.idle_by_cause:
            sums = by_cause.setdefault(total.cause, [0, 0])
            sums[0] += total.gaps
            sums[1] += total.duration
    assert by_cause == {t.cause: [t.gaps, t.duration] for t in whole.idle_by_cause}
    gaps = find_gaps(trace)
    assert whole.busy == sum(g.busy for g in gaps)
    assert whole.idle == sum(g.idle for g in gaps)
    work = trace.is_kind(*DEVICE_WORK) & ~trace.implausible
    assert whole.kernels == int((work & (trace.kind == Kind.KERNEL)).sum())
    assert whole.kernels + whole.copies == int(work.sum())


@pytest.mark.parametrize("path", TRACES, ids=lambda p: p.name.split(".")[0])
def test_sums_on_recorded_traces(path):
    trace = load(path)
    check_sums(trace, summarize_steps(trace))
    check_sums(trace, summarize_steps(trace, "matmul_add"))
    check_sums(trace, summarize_steps(trace, "no such annotation"))


def test_sums_on_wild_traces(wild):
    for path in sorted([*wild.glob("*.json*"), *wild.glob("*/*.json*")]):
        trace = load(path)
        check_sums(trace, summarize_steps(trace))


def test_a_step_of_old_versions_is_an_op(tmp_path):
    old = cpu("ProfilerStep#3", 0, 100)
    assert find_steps(trace_of(tmp_path, old, cpu("aten::mm", 10, 5))).number.tolist() == [3]


def test_of_annotations_that_start_together_the_outer_one_comes_first(tmp_path):
    inner, outer = (cpu("loop", 0, length, "user_annotation") for length in (40, 100))
    later = cpu("loop", 60, 20, "user_annotation")
    assert find_steps(trace_of(tmp_path, inner, outer, later), "loop").end.tolist() == [
        100_000, 40_000, 80_000
    ]  # fmt: skip


@pytest.mark.parametrize(("name", "verdict"), [
    ("matmul_add_64_cold_eager", "overhead-bound"), ("matmul_add_64_warm_eager", "overhead-bound"),
    ("matmul_add_64_nosched_20", "overhead-bound"), ("matmul_add_4096_warm_eager", "compute-bound"),
    ("matmul_add_4096_warm_compile", "compute-bound"), ("llama_train", "overhead-bound")
])  # fmt: skip
def test_verdict_on_recorded_traces(name, verdict):
    whole = summarize_steps(load(DATA / f"{name}.json.gz")).whole
    assert whole.verdict.verdict == verdict
    assert whole.verdict.busy_share is not None
    assert whole.verdict.launch_delay is not None


@pytest.mark.parametrize("number", ["9" * 5000, "9" * 20, "\u0663", "-1", "1e3", ""])
def test_a_step_without_a_number_that_fits_is_none(tmp_path, number):
    events = [step(1, 0, 10), cpu(f"ProfilerStep#{number}", 20, 10, "user_annotation"), cpu("aten::mm", 1, 5)]
    assert find_steps(trace_of(tmp_path, *events)).number.tolist() == [1]


def test_a_step_that_the_file_has_twice_is_one(tmp_path):
    events = [step(1, 0, 90), step(2, 100, 90), *run(20, 50, 1), *run(120, 50, 2)]
    trace = trace_of(tmp_path, *events, *events)
    assert find_steps(trace).number.tolist() == [1, 2]
    assert [row.busy for row in summarize_steps(trace).rows] == [50_000, 50_000]


def test_a_trace_of_the_cpu_alone(tmp_path):
    trace = trace_of(tmp_path, cpu("ProfilerStep#0", 0, 100, "user_annotation"))
    steps = summarize_steps(trace)
    assert [row.verdict.verdict for row in (*steps.rows, steps.whole)] == ["not known", "not known"]
    assert steps.rows[0].busy_share is None


def pair(
    launched: float, start: float, duration: float, n: int, name: str = "k", stream: int = 7
) -> list[Event]:
    """A launch and its kernel."""
    return [launch(launched, n, 5), kernel(start, duration, n, stream, name)]


def test_overlap_counts_once_and_exposed_is_what_nothing_hides(tmp_path):
    copy = pair(30, 170, 50, 4, "Memcpy HtoD (Pinned -> Device)", 20)
    copy[1]["cat"] = "gpu_memcpy"
    trace = trace_of(
        tmp_path, cpu("ProfilerStep#0", 0, 100, "user_annotation"), *pair(5, 20, 60, 1),
        *pair(10, 40, 60, 2, stream=8),
        *pair(
            20, 60, 120, 3, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 30
        ),
        *copy
    )  # fmt: skip
    (row,) = summarize_steps(trace).rows
    assert row.compute == 80_000
    assert (row.communication, row.exposed_communication) == (120_000, 80_000)
    assert (row.copy, row.exposed_copy) == (50_000, 40_000)
    assert (row.launches, row.kernels, row.copies) == (4, 3, 1)


def test_collectives():
    for name in (
        "ncclDevKernel_AllGather_RING_LL",
        "void rccl_main",
        "ncclKernel_AllReduce_RING_LL_Sum_half",
    ):
        assert is_communication(name), name
    for name in ("nvjet_sm90_tst_64x8", "void at::native::accl()", "Memcpy PtoP"):
        assert not is_communication(name), name


def test_windows_do_not_overlap():
    for path in TRACES:
        trace = load(path)
        low, high = step_windows(trace, find_steps(trace))
        assert (low <= high).all()
        assert (low[1:] >= high[:-1]).all()


def test_work_queued_before_the_recording_belongs_to_no_step():
    """Its launches are missing, and its stream runs it during the first steps."""
    trace = load(SAMPLES / "attention_naive.json.gz")
    steps = summarize_steps(trace)
    unlinked = np.flatnonzero(trace.is_kind(Kind.KERNEL) & (trace.launch < 0))
    assert len(unlinked) == steps.outside.kernels == 2
    assert steps.outside.compute == int(trace.duration[unlinked].sum())
    assert [row.kernels for row in steps.rows] == [5, 5, 5]
    lengths = [row.compute for row in steps.rows]
    assert max(lengths) < 1.01 * min(lengths)


def test_names_of_nested_steps_are_not_asked_whether_they_communicate(tmp_path, monkeypatch):
    count, asked = 2000, []
    steps = [
        {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{i}", "pid": 1, "tid": 1, "ts": i,
         "dur": 2 * (count - i) + 1}
        for i in range(count)
    ]  # fmt: skip
    kernel = {"ph": "X", "cat": "kernel", "name": "ncclAllReduce", "pid": 0, "tid": 7, "ts": count, "dur": 1}
    path = tmp_path / "nested.json"
    path.write_text(json.dumps({"traceEvents": [*steps, kernel]}))

    def counted(name: str) -> bool:
        asked.append(name)
        return is_communication(name)

    monkeypatch.setattr(kinds, "is_communication", counted)
    trace = load(path)
    assert len(summarize_steps(trace).rows) == count
    assert communicates(trace).sum() == 1
    assert asked == ["ncclAllReduce"]


def test_a_step_is_judged_when_its_verdict_is_asked_for(tmp_path, monkeypatch):
    """There may be 100,000 steps, of which few are shown."""
    asked = []

    def counted(time: Any, *more: Any, **devices: int) -> Verdict:
        asked.append(time)
        return judge(time, *more, **devices)

    monkeypatch.setattr(steps_module, "judge", counted)
    events = [event for n in range(50) for event in (step(n, 100 * n, 90), *run(100 * n + 10, 50, n + 1))]
    steps = summarize_steps(trace_of(tmp_path, *events))
    assert len(asked) <= 2  # that of the whole
    before = len(asked)
    assert steps.rows[7].verdict is steps.rows[7].verdict
    assert len(asked) == before + 1


def looped(tmp_path: Path) -> list[Event]:
    return [
        kernel(5, 10, 90),
        *(
            event
            for n, at in ((7, 0), (8, 100), (9, 200))
            for event in (step(n, at, 90), *run(at + 20, 30, n))
        ),
        *run(185, 60, 20, stream=13),
    ]


def test_steps_and_their_windows(tmp_path):
    trace = trace_of(tmp_path, *looped(tmp_path))
    steps = find_steps(trace)
    assert (steps.number.tolist(), steps.start.tolist(), steps.end.tolist()) == (
        [7, 8, 9], [0, 100_000, 200_000], [90_000, 190_000, 290_000]
    )  # fmt: skip
    assert step_of(steps, np.array([-1, 0, 89_999, 90_000, 199_999, 200_000, 290_000])).tolist() == [
        -1, 0, 0, -1, -1, 2, -1
    ]  # fmt: skip
    low, high = step_windows(trace, steps)
    assert list(zip(low.tolist(), high.tolist(), strict=True)) == [
        (0, 100_000), (100_000, 200_000), (200_000, 290_000)
    ]  # fmt: skip


def test_when_work_was_launched(tmp_path):
    alone = kernel(2, 1, 92, 40)  # on a stream none of whose launches is there
    trace = trace_of(tmp_path, *looped(tmp_path), kernel(60, 1, 91), cpu("aten::mm", 3, 1), alone)
    time = dict(zip(trace.names, [0] * len(trace.names), strict=True))
    for i, at in enumerate(launch_times(trace, np.arange(len(trace))).tolist()):
        time[trace.name_of(i)] = at
    assert time["k7"] == 15_000
    assert time["k90"] == NEVER  # before the stream's first with a launch
    assert time["k91"] == 60_000  # its launch is lost
    assert time["aten::mm"] == 3_000
    assert time["k92"] == 2_000


def test_sums_over_steps(tmp_path):
    steps = summarize_steps(trace_of(tmp_path, *looped(tmp_path), memcpy(60, 10, 92), launch(50, 92)))
    assert [row.label for row in (*steps.rows, steps.outside, steps.whole)] == [
        "step 7", "step 8", "step 9", "outside", "whole"
    ]  # fmt: skip
    rows = [(r.busy, r.idle, r.compute, r.copy, r.kernels, r.copies, r.launches) for r in steps.rows]
    assert rows == [
        # 5..15 was launched by none, but is in the window; 20..50 and a copy 60..70; 120..150; 185..245.
        (50_000, 45_000, 30_000, 10_000, 1, 1, 2),
        (45_000, 55_000, 90_000, 0, 2, 0, 2),
        (50_000, 0, 5_000, 0, 1, 0, 1),
    ]
    # Before the first event, and after the last: 250..290.
    assert [r.window_idle for r in steps.rows] == [50_000, 55_000, 40_000]
    assert (steps.whole.busy, steps.whole.idle) == (145_000, 100_000)
    assert steps.whole.start == 0
    assert steps.whole.duration == 290_000
    assert (steps.outside.busy, steps.outside.idle, steps.outside.kernels) == (0, 0, 1)
    # Of the first, 5 us pass before work that was launched before the recording.
    assert [r.busy_share for r in steps.rows] == [50 / 95, 45 / 100, 50 / 90]
    assert steps.whole.verdict.busy_share == 145 / 285
    assert [r.window for r in steps.rows] == [(0, 100_000), (100_000, 200_000), (200_000, 290_000)]
    assert [r.start for r in steps.rows] == [0, 100_000, 200_000]
    assert {r.duration for r in steps.rows} == {90_000}


@pytest.mark.parametrize(("lengths", "unusual"), [
    ((100, 100, 151), [False, False, True]),
    ((100, 100, 150), [False, False, False]),
    ((100, 100, 49), [False, False, True]),
    ((100, 400), [False, False]),
    # The middle is 110, the middle deviation 20: 3 · 1.4826 · 20 = 88.96.
    ((100, 120, 80, 199), [False, False, False, True]),
    ((100, 120, 80, 198), [False, False, False, False]),
])  # fmt: skip
def test_unusual_steps(tmp_path, lengths, unusual):
    events = [step(i, 1000 * i, length) for i, length in enumerate(lengths)]
    steps = summarize_steps(trace_of(tmp_path, *events))
    assert [row.unusual for row in steps.rows] == unusual


def test_scopes(tmp_path):
    trace = trace_of(tmp_path, *looped(tmp_path))
    kernels = np.array([i for i in range(len(trace)) if trace.name_of(i).startswith("k")])

    def names(scope: object) -> set[str]:
        return {trace.name_of(int(i)) for i in kernels[members(trace, scope, kernels)]}  # type: ignore[arg-type]

    assert names(WHOLE) == names(None) == {"k90", "k7", "k8", "k9", "k20"}
    assert names(step_scope(trace, 8)) == {"k8", "k20"}  # launched at 180 us, runs from 185 to 245
    assert names(range_scope(20_000, 120_000)) == {"k7"}
    assert names(range_scope(19_999, 120_001)) == {"k7", "k8"}
    scope = step_scope(trace, 9)
    assert (scope.kind, scope.start, scope.end, scope.step, scope.by_launch) == (
        "step", 200_000, 290_000, 2, True
    )  # fmt: skip
    with pytest.raises(LookupError, match=r"no step 6 in this trace \(steps: 7 to 9\)"):
        step_scope(trace, 6)
    with pytest.raises(ValueError, match="empty"):
        range_scope(5, 5)
    assert range_scope(5, 6).by_launch is False


def test_steps_that_overlap(tmp_path):
    steps = find_steps(
        trace_of(tmp_path, step(1, 0, 100), step(2, 10, 20) | {"tid": 8}, step(3, 50, 20) | {"tid": 8})
    )
    times = np.array([5, 15, 40, 60, 80, 100]) * 1000
    assert [int(steps.number[i]) if i >= 0 else 0 for i in step_of(steps, times)] == [1, 2, 1, 3, 1, 0]


def test_steps_by_an_annotation(tmp_path):
    events = [cpu("train", 10 * i, 5, "user_annotation") for i in range(3)] + [cpu("train", 50, 5)]
    trace = trace_of(tmp_path, *events, cpu("ProfilerStep#x", 0, 1, "user_annotation"))
    steps = find_steps(trace, "train")
    assert (steps.number.tolist(), steps.start.tolist(), steps.name) == (
        [0, 1, 2], [0, 10_000, 20_000], "train"
    )  # fmt: skip
    assert len(find_steps(trace)) == 0
    assert [row.label for row in summarize_steps(trace, "train").rows] == ["train 0", "train 1", "train 2"]


def gaps(row: StepRow) -> tuple[int, float]:
    """(how many, us)."""
    of: tuple[CauseTotal, ...] = row.idle_by_cause
    assert sum(total.duration for total in of) == row.idle
    assert [total.duration for total in of] == sorted((total.duration for total in of), reverse=True)
    return sum(total.gaps for total in of), row.idle / 1000


def test_a_gap_counts_where_it_ends(tmp_path):
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


def test_the_window_of_the_last_step_ends_with_its_work(tmp_path):
    works = [*run(10, 20, 1), *run(95, 5, 2), kernel(150, 30, 2), *run(300, 5, 3)]
    steps = summarize_steps(trace_of(tmp_path, step(1, 0, 50), step(2, 60, 60), *works))
    assert [row.window for row in steps.rows] == [(0, 60_000), (60_000, 180_000)]
    assert (steps.outside.busy, steps.outside.kernels) == (5_000, 1)
    late = [launch(10, 1), kernel(400, 5, 1), *run(95, 5, 2)]  # of the first step, later than the second
    steps = summarize_steps(trace_of(tmp_path, step(1, 0, 50), step(2, 60, 60), *late))
    assert steps.rows[-1].window == (60_000, 120_000)


def test_the_lead_in_is_left_out_of_the_first_step_and_of_the_whole(tmp_path):
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
        40_000, 100_000, 100_000, 240_000
    ]  # fmt: skip


def test_steps_that_launched_nothing(tmp_path):
    trace = trace_of(tmp_path, step(1, 0, 50), step(2, 50, 50), *run(70, 10, 1), kernel(90, 10, 2))
    first, second = summarize_steps(trace).rows
    assert (first.verdict.verdict, first.verdict.launch_delay) == ("not known", None)
    assert (first.busy_share, second.verdict.launch_delay) == (0, 5_000)
    # Of two steps one is busy: the verdict is still on the steps.
    whole = summarize_steps(trace).whole
    assert whole.verdict.judged == 100_000 - sum(ns for _, ns in whole.verdict.left_out)
    assert whole.verdict.base == "of the steps"


def test_steps_of_the_cpu_alone(tmp_path):
    ops = [
        cpu("aten::mm", 0, 10), cpu("aten::mm", 110, 20), cpu("aten::mm", 150, 40), cpu("aten::mm", 260, 40)
    ]  # fmt: skip
    steps = summarize_steps(trace_of(tmp_path, *ops, step(1, 100, 40), step(2, 140, 60)))

    def of(verdict: Verdict) -> tuple[int, int]:
        assert verdict.cpu is not None
        return verdict.cpu.ops // 1000, verdict.cpu.span // 1000

    assert [of(row.verdict) for row in steps.rows] == [(20, 40), (40, 60)]
    assert of(steps.whole.verdict) == (60, 100)
    assert of(steps.outside.verdict) == (50, 200)
    assert of(summarize_steps(trace_of(tmp_path, *ops)).whole.verdict) == (110, 300)


def test_an_annotation_of_several_processes(tmp_path):
    """Steps by an annotation that somebody asks for are those of all, unlike the profiler's own."""
    events = [note("batch", 100 * n, 90) for n in range(2)]
    events += [e | {"pid": 10, "tid": 10, "ts": e["ts"] + 40} for e in events]
    events += [*run(10, 5, 1), *run(110, 5, 2)]
    assert len(find_steps(trace_of(tmp_path, *events), "batch")) == 4
