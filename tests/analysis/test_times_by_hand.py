"""Gaps, causes, steps and launches at the very limits of their rules, on traces of a few events."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.kineto import Event, cpu, kernel, launch, memcpy, run, step, trace_of

from tracetui.analysis.calls.ancestors import covering, deepest_at
from tracetui.analysis.calls.launches import find_launches, short_kernels
from tracetui.analysis.calls.memory import change
from tracetui.analysis.idle.causes import CAUSES, gap_causes, lead_in_causes
from tracetui.analysis.idle.exposed_time import alone_within, exposed_communication
from tracetui.analysis.idle.gaps import clip, find_gaps
from tracetui.analysis.idle.split import COLUMNS, causes_of
from tracetui.analysis.idle.verdict import OF_STEPS, PARTS, VERDICTS, judge
from tracetui.analysis.part import WHOLE, Part
from tracetui.analysis.steps.scope import (
    NEVER,
    find_steps,
    launch_times,
    members,
    range_scope,
    step_of,
    step_scope,
)
from tracetui.analysis.steps.steps import step_windows, summarize_steps
from tracetui.trace.intervals import union
from tracetui.trace.memory import memory_records
from tracetui.trace.model import I64
from tracetui.views.parts import time_parts

BEFORE = (launch(0, 1), kernel(10, 90, 1))
"""A kernel that ends at 100 us; the gap lasts until the second one begins."""


def pieces(tmp_path: Path, *events: Event) -> dict[str, float]:
    """Of the gap after BEFORE: the time of each cause, in us."""
    trace = trace_of(tmp_path, *BEFORE, *events)
    (gaps,) = find_gaps(trace)
    found = gap_causes(trace, gaps)
    assert found.parts(0)[0][0] == CAUSES[int(found.cause[0])]
    return {name: time / 1000 for name, time in zip(CAUSES, found.pieces[0].tolist(), strict=True) if time}


@pytest.mark.parametrize(
    ("begin", "start", "expected"),
    [
        (98, 108, {"launch": 7, "back to back": 1}),  # its end at 102, and 5 us on its way
        (91, 115, {"queued": 15}),
        (91, 105, {"back to back": 5}),
        (91, 105.001, {"queued": 5.001}),
        (100, 109, {"launch": 9}),
        (110, 119, {"host": 10, "launch": 9}),  # 5 us are what is usual here
        (110, 134, {"host": 10, "launch": 24}),
        (110, 134.001, {"host": 10, "launch": 24, "back to back": 0.001}),  # no more than 20 us are
    ],
)
def test_a_launch_on_its_way(tmp_path: Path, begin: float, start: float, expected: dict[str, float]) -> None:
    assert pieces(tmp_path, launch(begin, 2), kernel(start, 10, 2)) == expected


def test_the_usual_latency_is_the_median_of_launches_to_an_idle_device(tmp_path: Path) -> None:
    later = [event for n, delay in ((3, 2), (4, 3), (5, 50)) for event in idle_launch(200 * n, n, delay)]
    found = pieces(tmp_path, *later, launch(110, 2, 4), kernel(114 + 30, 10, 2))
    assert found == {"host": 10, "launch": 4 + 16.5, "queued": 13.5}  # between 3 and 30 us


def idle_launch(at: float, correlation: int, delay: float) -> list[Event]:
    return [launch(at, correlation, 4), kernel(at + 4 + delay, 5, correlation)]


@pytest.mark.parametrize(
    ("name", "category", "cause"),
    [
        ("cudaDeviceSynchronize", "cuda_runtime", "sync"),
        ("cudaMalloc", "cuda_runtime", "allocation"),
        ("Activity Buffer Request", "overhead", "profiler"),
        ("Lazy Function Loading", "overhead", "initialisation"),
        ("aten::add", "cpu_op", "dispatch"),
    ],
)
def test_a_piece_is_as_long_as_what_fills_it(tmp_path: Path, name: str, category: str, cause: str) -> None:
    after = (launch(190, 2), kernel(199, 10, 2))
    assert pieces(tmp_path, cpu(name, 120, 30, category), *after) == {"host": 60, cause: 30, "launch": 9}
    assert pieces(tmp_path, cpu(name, 80, 40, category), *after) == {"host": 70, cause: 20, "launch": 9}
    during = pieces(tmp_path, cpu(name, 192, 1, category), *after)
    own = category == "overhead"
    assert during == ({"host": 90, cause: 1, "launch": 8} if own else {"host": 90, "launch": 9})


def test_a_wait_costs_the_queue_that_it_drains(tmp_path: Path) -> None:
    after = (launch(190, 2), kernel(199, 10, 2))
    wait = cpu("cudaStreamSynchronize", 60, 38, "cuda_runtime")  # over before the gap
    assert pieces(tmp_path, wait, *after) == {"sync": 38, "host": 52, "launch": 9}
    # Only waits since the launch before count; and they cost no more than there is until the launch.
    between = (launch(98.5, 3, 1), kernel(99, 1, 3, 8))
    assert pieces(tmp_path, wait, *between, *after) == {"host": 90, "launch": 9}
    long = cpu("cudaStreamSynchronize", 5, 94, "cuda_runtime")
    assert pieces(tmp_path, long, *after) == {"sync": 90, "launch": 9}


def test_the_first_that_holds_counts(tmp_path: Path) -> None:
    after = (launch(190, 2), kernel(199, 10, 2))
    sync = cpu("cudaStreamSynchronize", 110, 20, "cuda_runtime")
    free = cpu("cudaFree", 110, 40, "cuda_runtime")
    op = cpu("aten::add", 110, 60)
    profiler = cpu("Buffer Flush", 105, 10, "overhead")
    told = {"profiler": 10, "sync": 15, "allocation": 20, "dispatch": 20, "host": 25, "launch": 9}
    assert pieces(tmp_path, op, free, sync, profiler, *after) == told
    assert pieces(tmp_path, sync, kernel(200, 10, 2)) == {"unlinked": 100}
    nested = (cpu("aten::add", 100, 40), cpu("aten::mul", 110, 20), cpu("aten::mm", 188, 30))
    assert pieces(tmp_path, *nested, *after) == {"dispatch": 42, "host": 48, "launch": 9}
    assert pieces(tmp_path, cpu("ProfilerStep#1", 80, 110), *after) == {"host": 90, "launch": 9}


def test_what_the_queue_waited_for(tmp_path: Path) -> None:
    other = [launch(2, 3), kernel(50, 60, 3, 13), launch(20, 2), kernel(118, 10, 2)]
    trace = trace_of(tmp_path, *BEFORE, *other)
    (gaps,) = find_gaps(trace)
    found = gap_causes(trace, gaps)
    assert found.parts(0) == [("queued", 8_000)]
    assert trace.name_of(int(found.waited_for[0])) == "k3"
    elsewhere = kernel(100, 150, 9) | {"pid": 1, "args": {"device": 1, "stream": 7, "correlation": 9}}
    for end, name in ((260, "k9"), (290, "")):
        trace = trace_of(tmp_path, *BEFORE, elsewhere, launch(20, 2), kernel(end, 10, 2))
        gaps, _ = find_gaps(trace)
        at = int(gap_causes(trace, gaps).waited_for[0])
        assert (trace.name_of(at) if at >= 0 else "") == name


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
    found = lead_in_causes(trace, [gaps]).get(gaps.device)
    assert found is not None
    assert CAUSES[int(found.cause[0])] == "dispatch"  # 60 of the 80 us until the launch
    assert trace.name_of(int(found.event[0])) == "k1"
    early = trace_of(tmp_path, kernel(100, 10, 1), cpu("aten::mm", 100, 60))
    (gaps,) = find_gaps(early)
    assert gaps.lead_in == 0
    assert lead_in_causes(early, [gaps]).get(gaps.device) is None


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
    assert one.overlap(low, high).tolist() == [5, 2, 0, 1, 0, 0]
    held = [False, True, True, False, True, True, False, False]  # an empty interval, at 40, holds nothing
    assert one.holds(np.array([-1, 0, 19, 20, 30, 34, 35, 40])).tolist() == held


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
        (0, 100_000),
        (100_000, 200_000),
        (200_000, 290_000),
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
    launches = find_launches(trace)
    assert [trace.name_of(int(i)) for i in launches.event] == ["k1", "k2", "k5", "k5", "k5"]
    assert launches.delay.tolist() == [20_000, -10_000, 20_000, 23_000, 26_000]
    assert launches.first.tolist() == [True, True, True, False, False]
    assert launches.cost.tolist() == [4_000, 4_000, 3_000, 3_000, 3_000]
    assert (launches.unlinked, launches.median_delay) == (1, 20_000)
    short = short_kernels(trace, launches)
    # As long as its launch is not shorter, nor what shares its launch with others.
    assert (short.events, short.of, short.names) == (1, 5, ("k1",))
    assert (short.count.tolist(), short.device_time.tolist(), short.launch_time.tolist()) == (
        [1], [3_000], [4_000]
    )  # fmt: skip
    none = find_launches(trace, range_scope(0, 1000))
    assert (len(none), none.median_delay) == (0, None)


@pytest.mark.parametrize(("start", "delay", "ahead"), [(49, None, 1_000), (50, 0, 0), (51, 1_000, 0)])
def test_a_delay_below_zero_is_not_known(tmp_path: Path, start: float, delay: int | None, ahead: int) -> None:
    launches = find_launches(trace_of(tmp_path, launch(50, 1), kernel(start, 5, 1)))
    assert (launches.median_delay, launches.ahead) == (delay, ahead)


def test_what_nothing_hides(tmp_path: Path) -> None:
    talk = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    trace = trace_of(
        tmp_path,
        kernel(0, 30, 1), kernel(20, 40, 2, 13, talk), kernel(50, 20, 3),
        memcpy(60, 30, 4, stream=20), memcpy(100, 5, 5, "DtoD (Device -> Device)"),
    )  # fmt: skip
    low, high = np.array([0, 25, 40, 80]) * 1000, np.array([200, 45, 55, 85]) * 1000
    assert (exposed_communication(trace).overlap(low, high) // 1000).tolist() == [20, 15, 10, 0]
    (at,) = np.flatnonzero([trace.name_of(i).startswith("Memcpy HtoD") for i in range(len(trace))])
    low, high = np.array([60, 80, 60]) * 1000, np.array([90, 85, 75]) * 1000
    assert (alone_within(trace, np.full(3, at), low, high) // 1000).tolist() == [20, 5, 5]


def split(**parts: int) -> I64:
    """The time of all devices by `COLUMNS`."""
    names = {column.replace(" ", "_"): i for i, column in enumerate(COLUMNS)}
    time = np.zeros(len(COLUMNS), np.int64)
    time[[names[part] for part in parts]] = list(parts.values())
    return time


@pytest.mark.parametrize(
    ("parts", "verdict"),
    [
        ({"compute": 80, "host": 20}, "compute-bound"),
        ({"compute": 79, "host": 21}, "mixed"),
        ({"compute": 50, "dispatch": 30, "host": 20}, "overhead-bound"),
        ({"compute": 51, "dispatch": 30, "host": 19}, "mixed"),
        ({"compute": 1, "sync": 10, "allocation": 10, "dispatch": 10, "host": 10, "launch": 10, "queued": 49},
         "overhead-bound"),
        ({"compute": 20, "queued": 80}, "mixed"),
        ({"compute": 20, "unlinked": 80}, "mixed"),
        ({"compute": 20, "back_to_back": 80}, "mixed"),
        ({"compute": 50, "communication": 50}, "communication-bound"),
        ({"compute": 51, "communication": 49}, "mixed"),
        ({"compute": 10, "copies": 50, "host": 40}, "copy-bound"),
        # Neither the first use of the device nor the profiler counts, nor what was under way.
        ({"compute": 8, "host": 2, "initialisation": 1000}, "compute-bound"),
        ({"compute": 8, "host": 2, "profiler": 1000}, "compute-bound"),
        ({"compute": 8, "host": 2, "in_flight": 1000}, "compute-bound"),
        ({"host": 100}, "not known"),
    ],
)  # fmt: skip
def test_verdicts(parts: dict[str, int], verdict: str) -> None:
    found = judge(split(**parts), 10_000)
    assert found.verdict == verdict
    assert found.verdict in VERDICTS
    if verdict != "not known":
        assert sum(found.share(part) for part in PARTS) == pytest.approx(1)


def test_what_a_verdict_says() -> None:
    assert judge(None, 10).verdict == "not known"
    told = judge(split(compute=60, dispatch=30, queued=10, profiler=20), 9_000, "here", split(host=50))
    assert told.reason == (
        "The GPU is busy 60.0% of the 100 ns here that count. The largest part is compute, 60.0%; then "
        "waiting for the CPU, 30.0%. "
        "Not counted: 50 ns before the first GPU event of the first step, 20 ns of the "
        "profiler's own work."
    )
    assert told.left_out == (("lead-in", 50), ("profiler", 20))
    # What is known of the lead-in has its own name; where most does not count, that comes first.
    told = judge(
        split(compute=60, dispatch=30, back_to_back=10, initialisation=900), 9_000, OF_STEPS,
        split(host=50, initialisation=70, in_flight=6),
    )  # fmt: skip
    assert told.left_out == (("lead-in", 50), ("in flight", 6), ("initialisation", 970))
    assert told.reason == (
        "Most of the steps' time is not counted: 970 ns of initialisation, 50 ns before the first GPU event "
        "of the first step, 6 ns at the beginning, with work queued and nothing recorded running. The GPU is "
        "busy 60.0% of the 100 ns of the steps that count. The largest part is compute, 60.0%; then waiting "
        "for the CPU, 30.0%."
    )
    assert "from one kernel to the next, 80.0%" in judge(split(compute=20, back_to_back=80), 1).reason
    assert "idle time with work queued, 80.0%" in judge(split(compute=20, queued=80), 1).reason
    waiting = {"compute": 10, "dispatch": 60, "host": 30}
    assert judge(split(**waiting), 49_999).reason == (
        "The GPU is busy 10.0% of the recording; for 90.0% it waits for the CPU. Meanwhile the CPU is "
        "in PyTorch ops (dispatch 60.0%), or the launching thread is in no recorded op (host 30.0%). Nothing "
        "is queued (launch to start 50.0 µs)."
    )
    assert "Nothing is queued" not in judge(split(**waiting), 50_000).reason
    assert "Nothing is queued" not in judge(split(**waiting), None).reason
    for queued, word in ((9, "Hardly anything"), (1, "Hardly anything"), (0, "Nothing")):
        reason = judge(split(compute=10, dispatch=90 - queued, queued=queued), 9_000).reason
        assert f"{word} is queued (launch to start 9.00 µs)." in reason
    assert judge(split(compute=10, dispatch=60, queued=29, back_to_back=1), 9_000).reason == (
        "The GPU is busy 10.0% of the recording; for 60.0% it waits for the CPU. Meanwhile the CPU is "
        "in PyTorch ops (dispatch 60.0%). For 29.0% it is idle with work queued."
    )
    told = judge(split(compute=40, dispatch=20, queued=36, back_to_back=4), 9_000)
    assert "then idle time with work queued, 36.0%" in told.reason  # the line of that name says the same
    assert "includes waiting for other ranks" in judge(split(compute=20, communication=80), 1).reason
    assert "(by name)" in judge(split(compute=20, communication=80), 1).reason
    assert "copies while no kernel runs" in judge(split(compute=20, copies=80), 1).reason


@pytest.mark.parametrize(("time", "shows"), [(0, False), (1, False), (2, True)])
def test_what_does_not_count_is_said_where_it_shows(time: int, shows: bool) -> None:
    verdict = judge(split(compute=1000, in_flight=time), None)
    assert verdict.noticeably_left_out is shows
    assert [part.what for part in time_parts(verdict)] == ["compute", *["in flight"] * shows]


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


def test_the_causes_of_a_part_of_a_gap(tmp_path: Path) -> None:
    """The gap lasts from 100 to 199 us; its launch begins at 190 and takes what is left."""
    results = Part(trace_of(tmp_path, *BEFORE, launch(190, 2), kernel(199, 10, 2)))
    for low, high, host, on_its_way in (
        (100, 199, 90, 9),
        (150, 209, 40, 9),
        (50, 150, 50, 0),
        (120, 195, 70, 5),
    ):
        found = causes_of(results.in_scope(range_scope(low * 1000, high * 1000))).pieces[0]
        assert dict(zip(CAUSES, found.tolist(), strict=True)) == {
            **dict.fromkeys(CAUSES, 0), "host": host * 1000, "launch": on_its_way * 1000,
        }  # fmt: skip
