"""The first use of a GPU, marks of synchronization, and steps that show little: what is said of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.kineto import Event, cpu, kernel, launch, memcpy, run, step, trace_of

from tracetui.analysis.calls.launches import find_launches
from tracetui.analysis.idle.causes import CAUSES, gap_causes
from tracetui.analysis.idle.gaps import find_gaps
from tracetui.analysis.idle.initialization import first_calls, first_ops
from tracetui.analysis.part import Part
from tracetui.analysis.steps.scope import step_table_of
from tracetui.analysis.steps.steps import steps_of
from tracetui.analysis.verdicts import verdict_of
from tracetui.rules import Finding, find_findings
from tracetui.timeline.busy import busy_of, overall
from tracetui.trace import Kind, Trace
from tracetui.views.explain import explain
from tracetui.views.summary import metrics_of, summary_answer


def found(trace: Trace, rule: str) -> list[Finding]:
    return [finding for finding in find_findings(Part(trace)) if finding.rule == rule]


def pieces(trace: Trace) -> dict[str, int]:
    """The idle time of all gaps by cause, in us."""
    total = sum(gap_causes(trace, gaps).pieces.sum(0) for gaps in find_gaps(trace))
    return {cause: time // 1000 for cause, time in zip(CAUSES, total.tolist(), strict=True) if time}


def usual(begin: float, first: int, count: int = 20) -> list[Event]:
    """Launches of 4 us each, one every 20 us."""
    return [
        event
        for n in range(count)
        for event in (launch(begin + 20 * n, first + n), kernel(begin + 6 + 20 * n, 10, first + n, name="k"))
    ]


def test_a_long_first_launch_is_initialisation(tmp_path: Path) -> None:
    long = [launch(500, 90, 600_000), kernel(600_510, 5, 90, name="new")]
    again = [launch(700_000, 91, 600), kernel(700_610, 5, 91, name="new")]  # not its first: a busy CPU
    trace = trace_of(tmp_path, *usual(0, 1), *long, *again)
    assert trace.duration[first_calls(trace)].tolist() == [600_000_000]
    assert pieces(trace)["initialisation"] == 600_000
    (finding,) = found(trace, "initialisation")
    assert f"{finding.claims['share']}" == "86% of the recording"
    assert f"{finding.claims['names']}" == "cudaLaunchKernel (600 ms)"
    assert not found(trace, "short_calls")
    verdict = verdict_of(Part(trace))
    assert verdict.left_out == (("initialisation", 600_000_000),)
    assert verdict.reason.startswith("Most of the recording is not counted: 600 ms of initialisation. ")
    assert "of the 101 ms of the recording that count" in verdict.reason


@pytest.mark.parametrize(
    ("long", "severity"), [(99_000, "info"), (102_000, "medium"), (299_000, "medium"), (302_000, "high")]
)
def test_the_severity_of_initialisation_follows_its_share(tmp_path: Path, long: int, severity: str) -> None:
    # 1 s in all, of which the first launch of "new" takes `long` us.
    events = [*usual(0, 1), launch(500, 90, long), kernel(500 + long + 5, 5, 90, name="new")]
    last = [launch(999_980, 91), kernel(999_986, 14, 91, name="k")]
    trace = trace_of(tmp_path, *events, *last)
    (finding,) = found(trace, "initialisation")
    assert finding.severity == severity
    assert finding.numbers["share"] == pytest.approx(long / 1e6, abs=1e-4)


@pytest.mark.parametrize(
    ("name", "length", "counts"),
    [
        ("cudaDeviceGetStreamPriorityRange", 29_900, True),
        ("cudaStreamCreateWithFlags", 150, True),
        ("cudaEventCreateWithFlags", 99, False),
        ("cudaFree", 600_000, True),
        ("cudaFree", 9_999, False),
        ("cudaMalloc", 2_000, False),
        ("cudaHostAlloc", 900_000, False),  # as long as what it pins is large
        ("cudaFuncGetAttributes", 1_000, True),
        ("cudaFuncGetAttributes", 999, False),
        ("cudaStreamSynchronize", 900_000, False),
        ("cudaMemcpyAsync", 40_000, False),
        ("hipModuleLoad", 300, True),
    ],
)
def test_calls_that_initialize(tmp_path: Path, name: str, length: float, counts: bool) -> None:
    call = cpu(name, 1000, length, "cuda_runtime")
    after = 1000 + length + 10
    trace = trace_of(tmp_path, *usual(0, 1), call, launch(after, 90), kernel(after + 6, 5, 90, name="k"))
    assert (len(first_calls(trace)) == 1) is counts
    assert ("initialisation" in pieces(trace)) is counts


def test_a_call_in_between_that_takes_long_is_none(tmp_path: Path) -> None:
    calls = [cpu("cudaStreamGetPriority", 20 * n, 1, "cuda_runtime") for n in range(20)]
    hiccup = cpu("cudaStreamGetPriority", 1000, 2_400, "cuda_runtime")
    trace = trace_of(tmp_path, *calls, hiccup, *run(10, 5, 1), *run(4000, 5, 2))
    assert not len(first_calls(trace))


def test_the_op_around_a_first_call(tmp_path: Path) -> None:
    """Most of what cuBLAS sets up is in no call that is recorded; the op is long once."""
    first = [cpu("aten::mm", 1000, 50_000), cpu("Lazy Function Loading", 50_900, 30, "overhead")]
    first += [launch(50_950, 90), kernel(50_960, 5, 90, name="mm")]
    later = [event for n in range(3) for event in mm(60_000 + 100 * n, 91 + n)]
    trace = trace_of(tmp_path, *usual(0, 1), *first, *later)
    ops = first_ops(trace, first_calls(trace))
    assert trace.duration[ops].tolist() == [50_000_000]
    assert pieces(trace)["initialisation"] == 49_954 + 35  # until its launch is over, and the rest of the op
    alone = trace_of(tmp_path, *usual(0, 1), *first)  # nothing to compare it with
    assert pieces(alone)["initialisation"] == 30


def mm(at: float, n: int) -> list[Event]:
    return [cpu("aten::mm", at, 40), launch(at + 10, n), kernel(at + 20, 5, n, name="mm")]


def test_loading_is_not_the_profilers_own_time(tmp_path: Path) -> None:
    loading = cpu("Lazy Function Loading", 120, 60, "overhead")
    trace = trace_of(tmp_path, *run(50, 50, 1), loading, *run(200, 20, 2))
    assert pieces(trace)["initialisation"] == 60
    assert "profiler" not in pieces(trace)
    (event,) = [i for i in range(len(trace)) if trace.kind[i] == Kind.OVERHEAD]
    told = explain(trace, event)
    assert "without the profiler, too" in " ".join(told.what)
    assert "profiler's own time" not in " ".join(told.what)


def test_a_launch_that_waits_for_a_place_in_the_queue(tmp_path: Path) -> None:
    """CUPTI says so. It is no first use, though the kernel is new, and no matter of the CPU's."""
    full = cpu("Command Buffer Full", 620, 600_000, "overhead")
    long = [launch(600, 90, 601_000), kernel(601_700, 5, 90, name="new")]
    trace = trace_of(tmp_path, *usual(0, 1), full, *long)
    assert not len(first_calls(trace))
    assert pieces(trace)["queued"] >= 600_000
    assert not {"initialisation", "profiler"} & set(pieces(trace))


def test_marks_of_synchronization_are_no_device_work(tmp_path: Path) -> None:
    names = ("Context Sync", "Stream Sync", "Event Sync", "Stream Wait Event")
    marks = [kernel(100 * n, 90, 0, name=name, cat="cuda_sync") for n, name in enumerate(names)]
    trace = trace_of(tmp_path, *marks, *run(500, 10, 1, name="gemm"))
    (gaps,) = find_gaps(trace)
    assert (gaps.busy, gaps.events) == (10_000, 1)
    told = summary_answer(Part(trace)).data()
    assert [top["name"] for top in told["top"]] == ["gemm"]
    assert told["whole"]["busy_ns"] == 10_000
    for finding in find_findings(Part(trace)):
        assert "Sync" not in finding.text + finding.title


def test_the_delay_of_a_graph_is_that_of_its_first_node(tmp_path: Path) -> None:
    events: list[Event] = []
    for n in range(3):
        at = 1000 * n
        events.append(launch(at, n + 1, 10, "cudaGraphLaunch"))
        events += [kernel(at + 17 + 20 * i, 19, n + 1) for i in range(30)]
    launches = find_launches(trace_of(tmp_path, *events))
    assert launches.median_delay == 17_000
    assert int(launches.first.sum()) == 3


def test_the_ends_of_a_step_count(tmp_path: Path) -> None:
    """11 us of device work in 33.7 ms are not compute-bound."""
    trace = trace_of(tmp_path, step(1, 0, 33_700), *run(20_000, 5, 1), *run(20_005, 6, 2))
    part = Part(trace)
    verdict = verdict_of(part)
    assert verdict.verdict == "overhead-bound"
    assert verdict.busy_share == pytest.approx(11 / 33_700)
    for name in ("busy", "step-busy", "device-busy"):
        assert metrics_of(part)[name] == pytest.approx(11 / 33_700)
    (finding,) = found(trace, "overhead_bound")
    assert f"{finding.claims['busy_share']:1}" == "<0.1% of the step"


def test_the_lead_in_counts_where_every_step_has_it(tmp_path: Path) -> None:
    def loop(front: float) -> list[Event]:
        events = [step(0, 0, 500), *run(300, 200, 1)]
        for n in range(1, 4):
            events += [step(n, 500 * n, 500), *run(500 * n + front, 500 - front, n + 1)]
        return events

    verdict = verdict_of(Part(trace_of(tmp_path, *loop(10))))
    assert verdict.left_out == (("lead-in", 300_000),)
    assert verdict.busy_share == pytest.approx(1670 / 1700)
    verdict = verdict_of(Part(trace_of(tmp_path, *loop(290))))
    assert verdict.left_out == ()
    assert verdict.busy_share == pytest.approx((200 + 3 * 210) / 2000)


def test_copies_bind(tmp_path: Path) -> None:
    events: list[Event] = [step(0, 0, 1000)]
    events += [launch(0, 1, 2, "cudaMemcpyAsync"), memcpy(5, 940, 1), launch(6, 2), kernel(945, 55, 2)]
    verdict = verdict_of(Part(trace_of(tmp_path, *events)))
    assert verdict.verdict == "copy-bound"
    assert verdict.share("copies") == pytest.approx(0.94)


@pytest.mark.parametrize(
    ("busy", "severity"), [(0.91, ""), (0.88, "low"), (0.7, "medium"), (0.52, "medium"), (0.49, "")]
)
def test_idle_time_between_much_and_little(tmp_path: Path, busy: float, severity: str) -> None:
    events = [event for n in range(10) for event in run(1000 * n + 5, 1000 * busy, n + 1)]
    trace = trace_of(tmp_path, *events, cpu("aten::mm", 0, 10_000))
    told = found(trace, "idle_time")
    assert [finding.severity for finding in told] == ([severity] if severity else [])


def test_no_cold_start_beside_an_empty_step(tmp_path: Path) -> None:
    first = [step(0, 0, 10_000), *(event for n in range(20) for event in run(500 * n + 10, 20, n + 1))]
    trace = trace_of(tmp_path, *first, step(1, 10_000, 50))
    assert not found(trace, "cold_start")
    assert not found(trace, "wide_first_step")


def test_one_union_for_overview_and_gaps(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, kernel(0, 100, 1), kernel(1000, 0, 2))
    (gaps,) = find_gaps(trace)
    assert overall(list(busy_of(trace).values())) == gaps.busy_share == pytest.approx(0.1)


def test_work_in_flight_is_told_apart(tmp_path: Path) -> None:
    early = [kernel(400, 50, 90), kernel(450, 50, 91)]  # launched before the recording
    trace = trace_of(tmp_path, cpu("aten::mm", 0, 20), *early, *run(520, 480, 1))
    verdict = verdict_of(Part(trace))
    assert verdict.left_out == (("in flight", 400_000),)
    assert "400 µs at the beginning, with work queued and nothing recorded running" in verdict.reason
    assert verdict.verdict == "compute-bound"


def test_a_stream_that_begins_later_is_not_the_beginning_of_the_recording(tmp_path: Path) -> None:
    """Nothing says what its first kernel waited for, after the device had worked, and stood idle."""
    events = [cpu("aten::mm", 0, 20), *run(20, 480, 1), launch(300, 2), kernel(900, 100, 2, stream=9)]
    verdict = verdict_of(Part(trace_of(tmp_path, *events)))
    assert "at the beginning" not in verdict.reason
    assert verdict.causes[CAUSES.index("queued")] == 400_000


def test_a_device_that_hardly_takes_part_is_not_judged(tmp_path: Path) -> None:
    touched = kernel(500, 1, 90) | {"pid": 1, "args": {"device": 1, "stream": 7, "correlation": 90}}
    trace = trace_of(tmp_path, launch(0, 1), kernel(0, 1000, 1), touched)
    results = Part(trace)
    assert verdict_of(results).busy_share == 1.0
    assert steps_of(results).whole.busy == 1_001_000  # in the table it counts
    assert metrics_of(results)["device-busy"] == 1.0


def test_after_the_last_launch_the_ops_of_every_thread_count(tmp_path: Path) -> None:
    """A step that runs nothing on the GPU: its backward pass is on a thread of its own."""
    backward = cpu("aten::mm_backward", 1200, 600) | {"tid": 10}
    trace = trace_of(
        tmp_path,
        step(0, 0, 1000),
        *run(20, 970, 1),
        step(1, 1000, 1000),
        cpu("aten::mm", 1000, 100),
        backward,
    )
    causes = dict(steps_of(Part(trace)).rows[1].window_causes)
    assert (causes["dispatch"], causes["host"]) == (700_000, 300_000)


@pytest.mark.parametrize(
    ("name", "said"), [("cudaLaunchKernel", "nvidia-smi"), ("hipLaunchKernel", "rocm-smi")]
)
def test_who_else_is_on_the_gpu_is_asked_by_its_own_command(tmp_path: Path, name: str, said: str) -> None:
    events = [step(0, 0, 1000)]
    for n in range(8):
        events += [launch(5 + n, n, 1, name), kernel(20 + 120 * n, 20, n)]
    (finding,) = (f for f in find_findings(Part(trace_of(tmp_path, *events))) if f.rule == "little_use")
    assert said in finding.advice


def test_a_step_that_launches_nothing_is_told(tmp_path: Path) -> None:
    events = [step(0, 0, 1000), *run(20, 100, 1), step(1, 1000, 900), step(2, 2000, 1000), *run(2020, 100, 2)]
    (finding,) = found(trace_of(tmp_path, *events), "overhead_bound")
    assert finding.claims["step_without"] == "step 1"


def test_the_steps_of_one_of_two_processes(tmp_path: Path) -> None:
    """A file merged from two processes, without their ranks: each has the same steps at the same times."""
    one = [event for n in range(3) for event in (step(n, 1000 * n, 990), *run(1000 * n + 20, 960, n + 1))]
    other: list[Event] = []
    for event in one:
        device = {"device": 1} if event["cat"] == "kernel" else {}
        args = event["args"] | {"correlation": event["args"].get("correlation", 0) + 100} | device
        other.append(event | {"pid": event["pid"] + 1, "args": args})
    results = Part(trace_of(tmp_path, *one, *other))
    assert [row.number for row in steps_of(results).rows] == [0, 1, 2]
    assert step_table_of(results).source == "ProfilerStep of one process"
    assert not [finding for finding in find_findings(results) if "idle" in finding.rule]


def test_of_steps_that_overlap_nobody_says_which_launched_what(tmp_path: Path) -> None:
    events = [step(0, 0, 1000), step(1, 10, 1000), *run(20, 100, 1), step(2, 2000, 1000), *run(2020, 100, 2)]
    (finding,) = found(trace_of(tmp_path, *events), "overhead_bound")
    assert "steps_without" not in finding.claims


def test_waiting_for_the_first_batch_is_no_cold_start(tmp_path: Path) -> None:
    name = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
    events: list[Event] = []
    for n, waits in enumerate((900, 10, 10, 10)):
        at = 2_000.0 * n
        events += [step(n, at, waits + 200), cpu(name, at + 5, waits, "user_annotation")]
        events += run(at + waits + 50, 50, n + 1)
    assert not found(trace_of(tmp_path, *events), "cold_start")
    other = [event | {"name": "prepare"} if event["name"] == name else event for event in events]
    assert found(trace_of(tmp_path, *other), "cold_start")


def test_calls_of_a_hundred_years(tmp_path: Path) -> None:
    """Ten times their median is more than 64 bits of nanoseconds hold."""
    years = 3.2e15  # µs
    calls = [launch(n * 1e15, n + 1, years) for n in range(4)]
    trace = trace_of(tmp_path, *calls, kernel(years + 1e15, 100, 1))
    assert not len(first_calls(trace))


@pytest.mark.parametrize(("slow", "fires"), [((0, 1), False), ((2, 3), True)])
def test_the_first_steps_are_slow_for_what_they_do_first(
    tmp_path: Path, slow: tuple[int, ...], fires: bool
) -> None:
    """Launches of 600 ms, of kernels that had not run: in the first two of seven steps, or later."""
    events: list[Event] = []
    at = 0.0
    for n in range(7):
        long = 600_000 if n in slow else 0
        events += [step(n, at, 500 + long), *usual(at + 10, 100 * n + 1)]
        if long:
            events += [launch(at + 450, 90 + n, long), kernel(at + 460 + long, 5, 90 + n, name=f"new{n}")]
        at += 510 + long
    assert bool(found(trace_of(tmp_path, *events), "slow_steps")) is fires


def loads_first(loading: float, ends: float = 600_000) -> list[Event]:
    """The first launch, which returns as its kernel starts, and some usual ones."""
    load = cpu("Lazy Function Loading", loading, 50, "overhead")
    first = [cpu("aten::add", 90, ends), launch(100, 90, ends), kernel(600_090, 100, 90, name="k")]
    return [load, *first, *usual(601_000, 1)]


def test_a_launch_that_waits_after_loading_is_in_flight(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, *loads_first(105))
    assert not len(first_calls(trace))
    assert not len(first_ops(trace, first_calls(trace)))
    assert not found(trace, "initialisation")
    assert dict(verdict_of(Part(trace)).left_out) == {"in flight": 599_950_000, "initialisation": 50_000}


@pytest.mark.parametrize("events", [loads_first(600_030), loads_first(105)[1:]])
def test_a_first_launch_that_loads_at_its_end(tmp_path: Path, events: list[Event]) -> None:
    trace = trace_of(tmp_path, *events)
    assert len(first_calls(trace)) == 1
    assert "in flight" not in dict(verdict_of(Part(trace)).left_out)
