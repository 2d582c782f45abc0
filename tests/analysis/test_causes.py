"""The causes of gaps at the very limits of their rules, on traces of a few events."""

from pathlib import Path

import pytest
from tests.kineto import Event, cpu, kernel, launch, memcpy, trace_of

from tracetui.analysis.idle.causes import CAUSES, gap_causes, lead_in_causes
from tracetui.analysis.idle.gaps import find_gaps
from tracetui.analysis.idle.split import causes_of
from tracetui.analysis.part import Part
from tracetui.analysis.steps.scope import (
    range_scope,
)
from tracetui.trace import Trace


def test_the_first_slice_of_all_may_be_the_launch(tmp_path):
    trace = trace_of(tmp_path, launch(20, 2), kernel(0, 10, 1), kernel(30, 5, 2))
    (gaps,) = find_gaps(trace)
    causes = gap_causes(trace, gaps)
    assert (CAUSES[int(causes.cause[0])], causes.launch.tolist()) == ("host", [0])
    assert causes.activity.tolist() == [-1]


BEFORE = (launch(0, 1), kernel(10, 90, 1))
"""A kernel that ends at 100 us; the gap lasts until the second one begins."""


def pieces(tmp_path: Path, *events: Event) -> dict[str, float]:
    """Of the gap after BEFORE: the time of each cause, in us."""
    trace = trace_of(tmp_path, *BEFORE, *events)
    (gaps,) = find_gaps(trace)
    found = gap_causes(trace, gaps)
    assert found.parts(0)[0][0] == CAUSES[int(found.cause[0])]
    return {name: time / 1000 for name, time in zip(CAUSES, found.pieces[0].tolist(), strict=True) if time}


@pytest.mark.parametrize(("begin", "start", "expected"), [
    (98, 108, {"launch": 7, "back to back": 1}),  # its end at 102, and 5 us on its way
    (91, 115, {"queued": 15}),
    (91, 105, {"back to back": 5}),
    (91, 105.001, {"queued": 5.001}),
    (100, 109, {"launch": 9}),
    (110, 119, {"host": 10, "launch": 9}),  # 5 us are what is usual here
    (110, 134, {"host": 10, "launch": 24}),
    (110, 134.001, {"host": 10, "launch": 24, "back to back": 0.001}),  # no more than 20 us are
])  # fmt: skip
def test_a_launch_on_its_way(tmp_path, begin, start, expected):
    assert pieces(tmp_path, launch(begin, 2), kernel(start, 10, 2)) == expected


def test_the_usual_latency_is_the_median_of_launches_to_an_idle_device(tmp_path):
    later = [event for n, delay in ((3, 2), (4, 3), (5, 50)) for event in idle_launch(200 * n, n, delay)]
    found = pieces(tmp_path, *later, launch(110, 2, 4), kernel(114 + 30, 10, 2))
    assert found == {"host": 10, "launch": 4 + 16.5, "queued": 13.5}  # between 3 and 30 us


def idle_launch(at: float, correlation: int, delay: float) -> list[Event]:
    return [launch(at, correlation, 4), kernel(at + 4 + delay, 5, correlation)]


@pytest.mark.parametrize(("name", "category", "cause"), [
    ("cudaDeviceSynchronize", "cuda_runtime", "sync"), ("cudaMalloc", "cuda_runtime", "allocation"),
    ("Activity Buffer Request", "overhead", "profiler"),
    ("Lazy Function Loading", "overhead", "initialisation"), ("aten::add", "cpu_op", "dispatch")
])  # fmt: skip
def test_a_piece_is_as_long_as_what_fills_it(tmp_path, name, category, cause):
    after = (launch(190, 2), kernel(199, 10, 2))
    assert pieces(tmp_path, cpu(name, 120, 30, category), *after) == {"host": 60, cause: 30, "launch": 9}
    assert pieces(tmp_path, cpu(name, 80, 40, category), *after) == {"host": 70, cause: 20, "launch": 9}
    during = pieces(tmp_path, cpu(name, 192, 1, category), *after)
    own = category == "overhead"
    assert during == ({"host": 90, cause: 1, "launch": 8} if own else {"host": 90, "launch": 9})


def test_a_wait_costs_the_queue_that_it_drains(tmp_path):
    after = (launch(190, 2), kernel(199, 10, 2))
    wait = cpu("cudaStreamSynchronize", 60, 38, "cuda_runtime")  # over before the gap
    assert pieces(tmp_path, wait, *after) == {"sync": 38, "host": 52, "launch": 9}
    # Only waits since the launch before count; and they cost no more than there is until the launch.
    between = (launch(98.5, 3, 1), kernel(99, 1, 3, 8))
    assert pieces(tmp_path, wait, *between, *after) == {"host": 90, "launch": 9}
    long = cpu("cudaStreamSynchronize", 5, 94, "cuda_runtime")
    assert pieces(tmp_path, long, *after) == {"sync": 90, "launch": 9}


def test_the_first_that_holds_counts(tmp_path):
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


def test_what_the_queue_waited_for(tmp_path):
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


def test_the_lead_in(tmp_path):
    trace = trace_of(tmp_path, cpu("aten::mm", 0, 60), launch(80, 1), kernel(100, 10, 1), kernel(120, 5, 2))
    (gaps,) = find_gaps(trace)
    assert (gaps.lead_in, gaps.first, gaps.last, gaps.busy, gaps.idle) == (
        100_000, 100_000, 125_000, 15_000, 10_000
    )  # fmt: skip
    found = lead_in_causes(trace, [gaps]).get(gaps.device)
    assert CAUSES[int(found.cause[0])] == "dispatch"  # 60 of the 80 us until the launch
    assert trace.name_of(int(found.event[0])) == "k1"
    early = trace_of(tmp_path, kernel(100, 10, 1), cpu("aten::mm", 100, 60))
    (gaps,) = find_gaps(early)
    assert gaps.lead_in == 0
    assert lead_in_causes(early, [gaps]).get(gaps.device) is None


def test_the_causes_of_a_part_of_a_gap(tmp_path):
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


USUAL = [e for n in (95, 96, 97) for e in (launch(10 * n, n), kernel(10 * n + 9, 1, n))]
"""Later on, launches that take 5 us to arrive: so the median of all is 5 us."""


def elsewhere(number: int, start: float, end: float, device: int = 1) -> Event:
    """A kernel of another device, whose launch was not recorded."""
    return kernel(start, end - start, number) | {
        "pid": device, "args": {"device": device, "stream": 7, "correlation": number}
    }  # fmt: skip


@pytest.mark.parametrize(("spans", "end", "name"), [
    ([(50, 250)], 270, "k50"),  # the device 1 was done 20 us before, no longer
    ([(50, 250)], 270.001, ""),
    ([(50, 150), (160, 250), (260, 400)], 262, "k51"),  # the last that was over
    ([(50, 262), (270, 400)], 262, "k50"),
    ([(50, 262.001)], 262, ""),
    ([(50, 100)], 118, ""),  # over when the gap began
    ([(50, 100.001)], 118, "k50"),
    ([(300, 400)], 262, ""),
])  # fmt: skip
def test_work_of_another_device(tmp_path, spans, end, name):
    others = [elsewhere(50 + i, *span) for i, span in enumerate(spans)]
    trace = trace_of(tmp_path, *BEFORE, *others, launch(20, 2), kernel(end, 10, 2), *USUAL)
    causes = gap_causes(trace, find_gaps(trace)[0])
    at = int(causes.waited_for[0])
    assert (trace.name_of(at) if at >= 0 else "") == name
    assert causes.waited_for.tolist()[1:] == [-1] * 3, "the other gaps waited for their launch"


@pytest.mark.parametrize(
    ("end", "name"),
    [(139, ""), (144, ""), (144.001, "k50")],  # it arrives at 139
)
def test_what_is_hardly_queued_waited_for_nothing(tmp_path, end, name):
    late = [launch(130, 2), kernel(end, 10, 2, 8)]
    trace = trace_of(tmp_path, *BEFORE, elsewhere(50, 50, 138), *late, *USUAL)
    at = int(gap_causes(trace, find_gaps(trace)[0]).waited_for[0])
    assert (trace.name_of(at) if at >= 0 else "") == name


@pytest.mark.parametrize(
    ("end", "stream", "name"), [(120, 8, "k1"), (120.001, 8, ""), (120, 7, ""), (101, 8, "k1")]
)
def test_work_of_another_stream(tmp_path, end, stream, name):
    """What the gap began with, if that was less than a launch's way ago."""
    trace = trace_of(tmp_path, *BEFORE, launch(20, 2), kernel(end, 10, 2, stream), *USUAL)
    at = int(gap_causes(trace, find_gaps(trace)[0]).waited_for[0])
    assert (trace.name_of(at) if at >= 0 else "") == name


def piece(trace: Trace, i: int) -> dict[str, float]:
    """Of gap i of device 0, in us."""
    row = gap_causes(trace, find_gaps(trace)[0]).pieces[i]
    return {cause: ns / 1000 for cause, ns in zip(CAUSES, row.tolist(), strict=True) if ns}


@pytest.mark.parametrize(("copied", "call", "expected"), [
    (130, 20, {"sync": 10, "host": 50, "launch": 9}),  # from 130 to 140 the call waited
    (130, 19.999, {"host": 60, "launch": 9}),
    (140, 20, {"sync": 5, "host": 45, "launch": 9}),  # before the gap only until the copy began
    (140.7, 20, {"sync": 5, "host": 44.3, "launch": 9}),  # the last piece of it was on its way
    (140.85, 20, {"host": 49.15, "launch": 9}),  # it was over before its copy
    (130, 40, {"sync": 30, "host": 30, "launch": 9}),
])  # fmt: skip
def test_a_copy_that_blocks(tmp_path, copied, call, expected):
    copy = [launch(120, 2, call, "cudaMemcpyAsync"), memcpy(125, copied - 125, 2)]
    trace = trace_of(tmp_path, *BEFORE, *copy, launch(190, 3), kernel(199, 10, 3), *USUAL)
    assert piece(trace, 1) == expected
    other = [copy[0], kernel(125, copied - 125, 2)]  # no copy
    trace = trace_of(tmp_path, *BEFORE, *other, launch(190, 3), kernel(199, 10, 3), *USUAL)
    assert set(piece(trace, 1)) == {"host", "launch"}


def test_each_thread_waits_for_itself(tmp_path):
    """Two threads launch in turn; each had waited for another time."""
    events: list[Event] = [
        cpu("cudaStreamSynchronize", 60, 30, "cuda_runtime"),
        launch(190, 2),
        kernel(199, 10, 2),  # 199 to 209
        cpu("cudaStreamSynchronize", 195, 10, "cuda_runtime") | {"tid": 10},
        launch(290, 3) | {"tid": 10},
        kernel(299, 10, 3),  # 299 to 309
        launch(390, 4),
        kernel(399, 10, 4),
    ]
    trace = trace_of(tmp_path, *BEFORE, *events, *USUAL)
    assert piece(trace, 0) == {"sync": 30, "host": 60, "launch": 9}
    assert piece(trace, 1) == {"sync": 10, "host": 71, "launch": 9}
    assert piece(trace, 2) == {"host": 81, "launch": 9}


def test_work_that_nobody_launched(tmp_path):
    events = [cpu("aten::mm", 0, 3), cpu("aten::mul", 5, 200), kernel(150, 10, 90), launch(190, 3)]
    trace = trace_of(tmp_path, *BEFORE, *events, kernel(199, 10, 3), *USUAL)
    causes = gap_causes(trace, find_gaps(trace)[0])
    assert (causes.launch[0], causes.op[0], causes.step[0]) == (-1, -1, -1)
    assert piece(trace, 0) == {"unlinked": 50}
    assert trace.name_of(int(causes.op[1])) == "aten::mul"
    assert trace.name_of(int(causes.event[0])) == "k90"
