"""Gaps, causes, steps and launches at the very limits of their rules, on traces of a few events."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.kineto import Event, cpu, kernel, launch, memcpy, run, step, trace_of

from tracetui.analysis.ancestors import covering, deepest_at
from tracetui.analysis.causes import CAUSES, gap_causes, lead_in_cause
from tracetui.analysis.exposed_time import exposed_communication, host_copies_alone
from tracetui.analysis.gaps import clip, find_gaps
from tracetui.analysis.launches import find_launches, short_kernels
from tracetui.analysis.memory import change
from tracetui.analysis.scope import (
    NEVER,
    WHOLE,
    find_steps,
    launch_times,
    members,
    range_scope,
    step_of,
    step_scope,
)
from tracetui.analysis.steps import step_windows, summarize_steps
from tracetui.analysis.verdict import judge
from tracetui.trace.intervals import union
from tracetui.trace.memory import memory_records

BEFORE = (launch(0, 1), kernel(10, 90, 1))
"""A kernel that ends at 100 us; the gap lasts until the second one begins."""


def cause(tmp_path: Path, *events: Event) -> str:
    trace = trace_of(tmp_path, *BEFORE, *events)
    (gaps,) = find_gaps(trace)
    return CAUSES[int(gap_causes(trace, gaps).cause[0])]


@pytest.mark.parametrize(
    ("begin", "expected"), [(91, "launch"), (90.999, "dependency"), (100, "launch"), (100.001, "host")]
)
def test_a_launch_is_on_its_way_for_5_us(tmp_path: Path, begin: float, expected: str) -> None:
    assert cause(tmp_path, launch(begin, 2), kernel(115, 10, 2)) == expected


@pytest.mark.parametrize(
    ("begin", "start", "expected"),
    [
        # 20 us after the launch's end, and more than half of the gap.
        (110, 134, "host"),
        (110, 134.001, "dependency"),
        (120, 148, "host"),
        (120, 148.002, "dependency"),
    ],
)
def test_what_waits_longer_than_a_launch_takes(
    tmp_path: Path, begin: float, start: float, expected: str
) -> None:
    assert cause(tmp_path, launch(begin, 2), kernel(start, 10, 2)) == expected


@pytest.mark.parametrize(
    ("name", "category", "expected"),
    [
        ("cudaDeviceSynchronize", "cuda_runtime", "sync"),
        ("cudaMalloc", "cuda_runtime", "allocation"),
        ("Activity Buffer Request", "overhead", "profiler"),
    ],
)
def test_half_of_the_time_is_enough(tmp_path: Path, name: str, category: str, expected: str) -> None:
    # 90 us until the launch; the profiler's share is one of the whole gap of 100 us.
    half = 50 if expected == "profiler" else 45
    after = (launch(190, 2), kernel(200, 10, 2))
    assert cause(tmp_path, cpu(name, 120, half, category), *after) == expected
    assert cause(tmp_path, cpu(name, 120, half - 0.001, category), *after) == "host"
    # A call that began before the gap counts as a whole; one that ended then, or began later, not at all.
    assert cause(tmp_path, cpu(name, 101 - half, half, category), *after) == expected
    assert cause(tmp_path, cpu(name, 100 - half, half, category), *after) == "host"
    late = 190 if expected != "profiler" else 200
    assert cause(tmp_path, cpu(name, late, 80, category), *after) == "host"


def test_more_than_half_of_the_time_in_ops_is_dispatch(tmp_path: Path) -> None:
    after = (launch(190, 2), kernel(200, 10, 2))
    assert cause(tmp_path, cpu("aten::add", 80, 65), *after) == "host"
    assert cause(tmp_path, cpu("aten::add", 80, 65.002), *after) == "dispatch"
    assert cause(tmp_path, cpu("ProfilerStep#1", 80, 110), *after) == "host"  # an annotation among the ops
    nested = (cpu("aten::add", 100, 40), cpu("aten::mul", 110, 20), cpu("aten::mm", 188, 30))
    assert cause(tmp_path, *nested, *after) == "host"  # 42 us, however deep


def test_the_first_rule_that_fits_decides(tmp_path: Path) -> None:
    after = (launch(190, 2), kernel(200, 10, 2))
    sync = cpu("cudaStreamSynchronize", 100, 90, "cuda_runtime")
    free = cpu("cudaFree", 100, 90, "cuda_runtime")
    op = cpu("aten::add", 100, 90)
    assert cause(tmp_path, op, free, sync, *after) == "sync"
    assert cause(tmp_path, op, free, *after) == "allocation"
    assert cause(tmp_path, op, *after) == "dispatch"
    assert cause(tmp_path, sync, cpu("Buffer Flush", 120, 60, "overhead"), *after) == "profiler"
    assert cause(tmp_path, sync, kernel(200, 10, 2)) == "unlinked"


def test_the_lead_in(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, cpu("aten::mm", 0, 60), launch(80, 1), kernel(100, 10, 1), kernel(120, 5, 2))
    (gaps,) = find_gaps(trace)
    assert (gaps.lead_in, gaps.first, gaps.last, gaps.busy, gaps.idle) == (
        100_000,
        100_000,
        125_000,
        15_000,
        10_000,
    )
    found = lead_in_cause(trace, gaps)
    assert found is not None
    assert CAUSES[int(found.cause[0])] == "dispatch"  # 60 of the 80 us until the launch
    assert trace.name_of(int(found.event[0])) == "k1"
    early = trace_of(tmp_path, kernel(100, 10, 1), cpu("aten::mm", 100, 60))
    (gaps,) = find_gaps(early)
    assert gaps.lead_in == 0
    assert lead_in_cause(early, gaps) is None


def test_gaps_between_overlapping_streams(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        kernel(0, 50, 1), kernel(10, 20, 2, 8), kernel(50, 10, 3, 8), kernel(61, 9, 4), kernel(64, 6, 5, 8),
        kernel(90, 0, 6), kernel(95, 5, 7),
    )  # fmt: skip
    (gaps,) = find_gaps(trace)
    assert list(zip(gaps.start.tolist(), gaps.end.tolist(), strict=True)) == [
        (60_000, 61_000),
        (70_000, 90_000),
        (90_000, 95_000),
    ]
    assert [trace.name_of(int(i)) for i in gaps.before] == ["k3", "k4", "k6"]
    assert [trace.name_of(int(i)) for i in gaps.after] == ["k4", "k6", "k7"]
    assert (gaps.events, gaps.busy, gaps.span) == (7, 74_000, 100_000)
    assert gaps.busy_share == 0.74
    assert gaps.longest().tolist() == [1, 2, 0]
    assert gaps.longest(5_000).tolist() == [1, 2]
    assert gaps.longest(5_001).tolist() == [1]


@pytest.mark.parametrize(
    ("low", "high", "gaps_in", "busy", "whole"),
    [
        (0, 100, [(20, 30), (50, 80)], 60, [0, 1]),
        (-50, 500, [(20, 30), (50, 80)], 60, [0, 1]),
        (20, 80, [(20, 30), (50, 80)], 20, [0, 1]),
        (25, 60, [(25, 30), (50, 60)], 20, [0, 1]),
        (30, 50, [], 20, []),
        (29, 51, [(29, 30), (50, 51)], 20, [0, 1]),
        (55, 70, [(55, 70)], 0, [1]),
        (85, 200, [], 15, []),
        (120, 200, [], 0, []),
        (-20, -10, [], 0, []),
    ],
)
def test_clip(
    tmp_path: Path, low: int, high: int, gaps_in: list[tuple[int, int]], busy: int, whole: list[int]
) -> None:
    (gaps,) = find_gaps(trace_of(tmp_path, kernel(0, 20, 1), kernel(30, 20, 2), kernel(80, 20, 3)))
    part = clip(gaps, low * 1000, high * 1000)
    assert [
        (a // 1000, b // 1000) for a, b in zip(part.start.tolist(), part.end.tolist(), strict=True)
    ] == gaps_in
    assert (part.busy, part.whole.tolist()) == (busy * 1000, whole)
    assert part.span == 1000 * max(0, min(high, 100) - max(low, 0))
    assert part.idle == part.span - part.busy


def test_a_union_and_its_parts() -> None:
    one = union(np.array([30, 0, 10, 40]), np.array([35, 10, 20, 40]))
    assert (one.start.tolist(), one.end.tolist(), one.total) == ([0, 30, 40], [20, 35, 40], 25)
    assert one.until(np.array([-1, 0, 1, 20, 25, 31, 35, 99])).tolist() == [0, 0, 1, 20, 20, 21, 25, 25]
    low, high = np.array([0, 19, 20, 34, 35, 9]), np.array([5, 31, 30, 36, 99, 3])
    assert one.within(low, high).tolist() == [5, 2, 0, 1, 0, 0]
    assert one.touching(low, high).tolist() == [20, 25, 0, 5, 0, 0]


def test_the_slice_that_covers_half(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, cpu("outer", 0, 100), cpu("half", 20, 31), cpu("inner", 30, 2))
    lane = np.zeros(5, dtype=np.int64)
    start = np.array([20, 20, 10, 200, 20]) * 1000
    end = np.array([80, 83, 51, 300, 20]) * 1000
    found = covering(trace, lane, start, end)
    assert [trace.name_of(int(i)) if i >= 0 else "-" for i in found] == ["half", "outer", "half", "-", "-"]
    exactly = covering(trace, lane[:2], np.array([-11_000, -11_002]), np.array([51_000, 51_000]))
    assert [trace.name_of(int(i)) for i in exactly] == ["half", "outer"]
    times = np.array([0, 20, 30, 31, 32, 50, 99, 100, -1]) * 1000
    deepest = deepest_at(trace, np.zeros(9, dtype=np.int64), times)
    names = [trace.name_of(int(i)) if i >= 0 else "-" for i in deepest]
    assert names == ["outer", "half", "inner", "inner", "half", "half", "outer", "-", "-"]
    assert deepest_at(trace, np.array([-1]), np.array([5])).tolist() == [-1]


# Steps: the second one's kernel runs into the third; a kernel queued before the recording runs first.


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


def test_steps_and_their_windows(tmp_path: Path) -> None:
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
        (0, 90_000),
        (100_000, 245_000),  # its second kernel ends at 245 us
        (245_000, 290_000),
    ]


def test_when_work_was_launched(tmp_path: Path) -> None:
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


def test_sums_over_steps(tmp_path: Path) -> None:
    steps = summarize_steps(trace_of(tmp_path, *looped(tmp_path), memcpy(60, 10, 92), launch(50, 92)))
    assert [row.label for row in (*steps.rows, steps.outside, steps.whole)] == [
        "step 7", "step 8", "step 9", "outside", "whole"
    ]  # fmt: skip
    rows = [(r.busy, r.idle, r.compute, r.copy, r.kernels, r.copies, r.launches) for r in steps.rows]
    assert rows == [
        # 5..15 was launched by none, but is in the window; 20..50 and a copy 60..70; 120..150; 185..245.
        (50_000, 35_000, 30_000, 10_000, 1, 1, 2),
        (90_000, 55_000, 90_000, 0, 2, 0, 2),
        (5_000, 0, 5_000, 0, 1, 0, 1),
    ]
    assert (steps.whole.busy, steps.whole.idle) == (145_000, 100_000)
    assert steps.whole.start == 0
    assert steps.whole.duration == 290_000
    assert (steps.outside.busy, steps.outside.idle, steps.outside.kernels) == (0, 10_000, 1)
    assert steps.rows[0].busy_share == 50 / 85
    assert steps.busy_share == 145 / 235
    assert [r.window for r in steps.rows] == [(0, 90_000), (100_000, 245_000), (245_000, 290_000)]
    assert [r.start for r in steps.rows] == [0, 100_000, 200_000]
    assert {r.duration for r in steps.rows} == {90_000}


@pytest.mark.parametrize(
    ("lengths", "unusual"),
    [
        ((100, 100, 151), [False, False, True]),
        ((100, 100, 150), [False, False, False]),
        ((100, 100, 49), [False, False, True]),
        ((100, 400), [False, False]),
        # The middle is 110, the middle deviation 20: 3 · 1.4826 · 20 = 88.96.
        ((100, 120, 80, 199), [False, False, False, True]),
        ((100, 120, 80, 198), [False, False, False, False]),
    ],
)
def test_unusual_steps(tmp_path: Path, lengths: tuple[int, ...], unusual: list[bool]) -> None:
    events = [step(i, 1000 * i, length) for i, length in enumerate(lengths)]
    steps = summarize_steps(trace_of(tmp_path, *events))
    assert [row.unusual for row in steps.rows] == unusual


def test_scopes(tmp_path: Path) -> None:
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
        "step",
        200_000,
        290_000,
        2,
        True,
    )
    with pytest.raises(LookupError, match=r"no step 6 in this trace \(steps: 7 to 9\)"):
        step_scope(trace, 6)
    with pytest.raises(ValueError, match="empty"):
        range_scope(5, 5)
    assert range_scope(5, 6).by_launch is False


def test_steps_that_overlap(tmp_path: Path) -> None:
    steps = find_steps(
        trace_of(tmp_path, step(1, 0, 100), step(2, 10, 20) | {"tid": 8}, step(3, 50, 20) | {"tid": 8})
    )
    times = np.array([5, 15, 40, 60, 80, 100]) * 1000
    assert [int(steps.number[i]) if i >= 0 else 0 for i in step_of(steps, times)] == [1, 2, 1, 3, 1, 0]


def test_steps_by_an_annotation(tmp_path: Path) -> None:
    events = [cpu("train", 10 * i, 5, "user_annotation") for i in range(3)] + [cpu("train", 50, 5)]
    trace = trace_of(tmp_path, *events, cpu("ProfilerStep#x", 0, 1, "user_annotation"))
    steps = find_steps(trace, "train")
    assert (steps.number.tolist(), steps.start.tolist(), steps.name) == (
        [0, 1, 2],
        [0, 10_000, 20_000],
        "train",
    )
    assert len(find_steps(trace)) == 0
    assert [row.label for row in summarize_steps(trace, "train").rows] == ["train 0", "train 1", "train 2"]


def test_launches(tmp_path: Path) -> None:
    graph = [launch(100, 5, 9, "cudaGraphLaunch"), kernel(120, 2, 5), kernel(123, 2, 5), kernel(126, 8, 5)]
    events = [launch(0, 1), kernel(20, 3, 1), launch(50, 2), kernel(40, 4, 2), kernel(70, 5, 3), *graph]
    trace = trace_of(tmp_path, *events)
    found = find_launches(trace)
    assert [trace.name_of(int(i)) for i in found.event] == ["k1", "k2", "k5", "k5", "k5"]
    assert found.delay.tolist() == [20_000, 0, 20_000, 23_000, 26_000]
    assert found.first.tolist() == [True, True, True, False, False]
    assert found.cost.tolist() == [4_000, 4_000, 3_000, 3_000, 3_000]
    assert (found.unlinked, found.median_delay) == (1, 20_000)
    short = short_kernels(trace, found)
    # As long as its launch is not shorter.
    assert (short.events, short.of, short.names) == (3, 5, ("k5", "k1"))
    assert (short.count.tolist(), short.device_time.tolist(), short.launch_time.tolist()) == (
        [2, 1], [4_000, 3_000], [6_000, 4_000]
    )  # fmt: skip
    none = find_launches(trace, range_scope(0, 1000))
    assert (len(none), none.median_delay) == (0, None)


def test_what_nothing_hides(tmp_path: Path) -> None:
    talk = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    trace = trace_of(
        tmp_path,
        kernel(0, 30, 1), kernel(20, 40, 2, 13, talk), kernel(50, 20, 3),
        memcpy(60, 30, 4, stream=20), memcpy(100, 5, 5, "DtoD (Device -> Device)"),
    )  # fmt: skip
    low, high = np.array([0, 25, 40, 80]) * 1000, np.array([200, 45, 55, 85]) * 1000
    assert (exposed_communication(trace).within(low, high) // 1000).tolist() == [20, 15, 10, 0]
    assert (host_copies_alone(trace).within(low, high) // 1000).tolist() == [20, 0, 0, 5]
    assert exposed_communication(trace_of(tmp_path, kernel(0, 1, 1))).devices == ()


@pytest.mark.parametrize(
    ("busy", "delay", "verdict"),
    [
        (0.8, 10, "compute-bound"),
        (0.79, 49_999, "mixed"),
        (0.5, 49_999, "mixed"),
        (0.499, 49_999, "overhead-bound"),
        (0.499, 50_000, "mixed"),
        (0.499, None, "mixed"),
        (0.0, None, "not known"),
        (0.0, 10, "overhead-bound"),
        (None, 10, "not known"),
    ],
)
def test_verdicts(busy: float | None, delay: int | None, verdict: str) -> None:
    assert judge(busy, delay).verdict == verdict


def test_what_a_verdict_says() -> None:
    assert "keeps up" in judge(0.6, 49_999).reason
    assert "though work is queued" in judge(0.6, 50_000).reason
    assert "communication while nothing computes" in judge(0.6, 1, 0.1).reason
    assert "communication" not in judge(0.6, 1, 0.099).reason


def memory(at: float, size: int, kind: int = 1, device: int = 0, **more: int) -> Event:
    args = {"Bytes": size, "Device Type": kind, "Device Id": device} | {
        k.replace("_", " "): v for k, v in more.items()
    }
    return {"ph": "i", "s": "t", "name": "[memory]", "pid": 9, "tid": 9, "ts": at, "args": args}


def test_memory(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        cpu("aten::mm", 0, 100),
        memory(10, 512, Total_Allocated=512, Total_Reserved=2048),
        memory(20, 64, 0, -1, Total_Allocated=64),
        memory(30, -512, Total_Allocated=0, Total_Reserved=2048),
        memory(40, 1000, 99),  # of a type that PyTorch's table does not count
        memory(50, 7, 12, -1),
    )
    records = memory_records(trace)
    assert records is not None
    assert (records.time // 1000).tolist() == [10, 20, 30, 40, 50]
    assert records.size.tolist() == [512, 64, -512, 0, 7]
    assert records.where.tolist() == [0, -1, 0, 0, 0]
    assert records.allocated.tolist() == [512, 64, 0, -1, -1]
    assert records.reserved.tolist() == [2048, -1, 2048, -1, -1]
    assert change(records, 10_000, 20_000) == (64, 512)
    assert change(records, 10_001, 30_000) == (64, -512)
    assert change(records, 20_001, 50_000) == (0, -505)
