"""The first use of a GPU, marks of synchronization, and steps that show little: what is said of them."""

import pytest
from tests.kineto import Event, cpu, kernel, launch, memcpy, run, step, trace_of

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
from tracetui.trace.model import I64
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
        event for n in range(count)
        for event in (launch(begin + 20 * n, first + n), kernel(begin + 6 + 20 * n, 10, first + n, name="k"))
    ]  # fmt: skip


def test_a_long_first_launch_is_initialisation(tmp_path):
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
def test_the_severity_of_initialisation_follows_its_share(tmp_path, long, severity):
    # 1 s in all, of which the first launch of "new" takes `long` us.
    events = [*usual(0, 1), launch(500, 90, long), kernel(500 + long + 5, 5, 90, name="new")]
    trace = trace_of(tmp_path, *events, *[launch(999_980, 91), kernel(999_986, 14, 91, name="k")])
    (finding,) = found(trace, "initialisation")
    assert finding.severity == severity
    assert finding.numbers["share"] == pytest.approx(long / 1e6, abs=1e-4)


def test_the_op_around_a_first_call(tmp_path):
    """Most of what cuBLAS sets up is in no call that is recorded; the op is long once."""
    first = [cpu("aten::mm", 1000, 50_000), cpu("Lazy Function Loading", 50_900, 30, "overhead")]
    first += [launch(50_950, 90), kernel(50_960, 5, 90, name="mm")]
    later = [event for n in range(3) for event in mm(60_000 + 100 * n, 91 + n)]
    trace = trace_of(tmp_path, *usual(0, 1), *first, *later)
    assert trace.duration[first_ops(trace, first_calls(trace))].tolist() == [50_000_000]
    assert pieces(trace)["initialisation"] == 49_954 + 35  # until its launch is over, and the rest of the op
    alone = trace_of(tmp_path, *usual(0, 1), *first)  # nothing to compare it with
    assert pieces(alone)["initialisation"] == 30


def mm(at: float, n: int) -> list[Event]:
    return [cpu("aten::mm", at, 40), launch(at + 10, n), kernel(at + 20, 5, n, name="mm")]


def test_loading_is_not_the_profilers_own_time(tmp_path):
    loading = cpu("Lazy Function Loading", 120, 60, "overhead")
    trace = trace_of(tmp_path, *run(50, 50, 1), loading, *run(200, 20, 2))
    assert pieces(trace)["initialisation"] == 60
    assert "profiler" not in pieces(trace)
    (event,) = [i for i in range(len(trace)) if trace.kind[i] == Kind.OVERHEAD]
    told = explain(trace, event)
    assert "without the profiler, too" in " ".join(told.what)
    assert "profiler's own time" not in " ".join(told.what)


def test_a_launch_that_waits_for_a_place_in_the_queue(tmp_path):
    """CUPTI says so. It is no first use, though the kernel is new, and no matter of the CPU's."""
    full = cpu("Command Buffer Full", 620, 600_000, "overhead")
    long = [launch(600, 90, 601_000), kernel(601_700, 5, 90, name="new")]
    trace = trace_of(tmp_path, *usual(0, 1), full, *long)
    assert not len(first_calls(trace))
    assert pieces(trace)["queued"] >= 600_000
    assert not {"initialisation", "profiler"} & set(pieces(trace))


def test_marks_of_synchronization_are_no_device_work(tmp_path):
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


def test_the_ends_of_a_step_count(tmp_path):
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


def test_the_lead_in_counts_where_every_step_has_it(tmp_path):
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


def test_copies_bind(tmp_path):
    events: list[Event] = [step(0, 0, 1000)]
    events += [launch(0, 1, 2, "cudaMemcpyAsync"), memcpy(5, 940, 1), launch(6, 2), kernel(945, 55, 2)]
    verdict = verdict_of(Part(trace_of(tmp_path, *events)))
    assert verdict.verdict == "copy-bound"
    assert verdict.share("copies") == pytest.approx(0.94)


@pytest.mark.parametrize(
    ("busy", "severity"), [(0.91, ""), (0.88, "low"), (0.7, "medium"), (0.52, "medium"), (0.49, "")]
)
def test_idle_time_between_much_and_little(tmp_path, busy, severity):
    events = [event for n in range(10) for event in run(1000 * n + 5, 1000 * busy, n + 1)]
    told = found(trace_of(tmp_path, *events, cpu("aten::mm", 0, 10_000)), "idle_time")
    assert [finding.severity for finding in told] == ([severity] if severity else [])


def test_no_cold_start_beside_an_empty_step(tmp_path):
    first = [step(0, 0, 10_000), *(event for n in range(20) for event in run(500 * n + 10, 20, n + 1))]
    trace = trace_of(tmp_path, *first, step(1, 10_000, 50))
    assert not found(trace, "cold_start")
    assert not found(trace, "wide_first_step")


def test_one_union_for_overview_and_gaps(tmp_path):
    trace = trace_of(tmp_path, kernel(0, 100, 1), kernel(1000, 0, 2))
    (gaps,) = find_gaps(trace)
    assert overall(list(busy_of(trace).values())) == gaps.busy_share == pytest.approx(0.1)


def test_work_in_flight_is_told_apart(tmp_path):
    early = [kernel(400, 50, 90), kernel(450, 50, 91)]  # launched before the recording
    verdict = verdict_of(Part(trace_of(tmp_path, cpu("aten::mm", 0, 20), *early, *run(520, 480, 1))))
    assert verdict.left_out == (("in flight", 400_000),)
    assert "400 µs at the beginning, with work queued and nothing recorded running" in verdict.reason
    assert verdict.verdict == "compute-bound"


def test_a_stream_that_begins_later_is_not_the_beginning_of_the_recording(tmp_path):
    """Nothing says what its first kernel waited for, after the device had worked, and stood idle."""
    events = [cpu("aten::mm", 0, 20), *run(20, 480, 1), launch(300, 2), kernel(900, 100, 2, stream=9)]
    verdict = verdict_of(Part(trace_of(tmp_path, *events)))
    assert "at the beginning" not in verdict.reason
    assert verdict.causes[CAUSES.index("queued")] == 400_000


def test_a_device_that_hardly_takes_part_is_not_judged(tmp_path):
    touched = kernel(500, 1, 90) | {"pid": 1, "args": {"device": 1, "stream": 7, "correlation": 90}}
    results = Part(trace_of(tmp_path, launch(0, 1), kernel(0, 1000, 1), touched))
    assert verdict_of(results).busy_share == 1.0
    assert steps_of(results).whole.busy == 1_001_000  # in the table it counts
    assert metrics_of(results)["device-busy"] == 1.0


@pytest.mark.parametrize(
    ("name", "said"), [("cudaLaunchKernel", "nvidia-smi"), ("hipLaunchKernel", "rocm-smi")]
)
def test_who_else_is_on_the_gpu_is_asked_by_its_own_command(tmp_path, name, said):
    events = [step(0, 0, 1000)]
    for n in range(8):
        events += [launch(5 + n, n, 1, name), kernel(20 + 120 * n, 20, n)]
    (finding,) = (f for f in find_findings(Part(trace_of(tmp_path, *events))) if f.rule == "little_use")
    assert said in finding.advice


def test_a_step_that_launches_nothing_is_told(tmp_path):
    events = [step(0, 0, 1000), *run(20, 100, 1), step(1, 1000, 900), step(2, 2000, 1000), *run(2020, 100, 2)]
    (finding,) = found(trace_of(tmp_path, *events), "overhead_bound")
    assert finding.claims["step_without"] == "step 1"


def test_the_steps_of_one_of_two_processes(tmp_path):
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


def test_of_steps_that_overlap_nobody_says_which_launched_what(tmp_path):
    events = [step(0, 0, 1000), step(1, 10, 1000), *run(20, 100, 1), step(2, 2000, 1000), *run(2020, 100, 2)]
    (finding,) = found(trace_of(tmp_path, *events), "overhead_bound")
    assert "steps_without" not in finding.claims


def test_waiting_for_the_first_batch_is_no_cold_start(tmp_path):
    name = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
    events: list[Event] = []
    for n, waits in enumerate((900, 10, 10, 10)):
        at = 2_000.0 * n
        events += [step(n, at, waits + 200), cpu(name, at + 5, waits, "user_annotation")]
        events += run(at + waits + 50, 50, n + 1)
    assert not found(trace_of(tmp_path, *events), "cold_start")
    other = [event | {"name": "prepare"} if event["name"] == name else event for event in events]
    assert found(trace_of(tmp_path, *other), "cold_start")


def test_calls_of_a_hundred_years(tmp_path):
    """Ten times their median is more than 64 bits of nanoseconds hold."""
    years = 3.2e15  # µs
    calls = [launch(n * 1e15, n + 1, years) for n in range(4)]
    assert not len(first_calls(trace_of(tmp_path, *calls, kernel(years + 1e15, 100, 1))))


@pytest.mark.parametrize(("slow", "fires"), [((0, 1), False), ((2, 3), True)])
def test_the_first_steps_are_slow_for_what_they_do_first(tmp_path, slow, fires):
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


def lengths_of(trace: Trace, at: I64) -> list[float]:
    return [time / 1000 for time in trace.duration[at].tolist()]


def each_50_ms(name: str, *lengths: float) -> list[Event]:
    """Calls of these lengths in us, each 50 ms after the one before."""
    return [cpu(name, 50_000 * i, length, "cuda_runtime") for i, length in enumerate(lengths)]


@pytest.mark.parametrize(("name", "took", "expected"), [
    ("cudaFuncGetAttributes", (200, 20, 20), [200]),  # ten times the median, and the first
    ("cudaFuncGetAttributes", (199.999, 20, 20), []),
    ("cudaFuncGetAttributes", (20, 200, 20), []),
    ("cudaFuncGetAttributes", (100, 1, 1), [100]),  # no shorter one is
    ("cudaFuncGetAttributes", (99.999, 1, 1), []),
    ("cudaFuncGetAttributes", (1000, 20), [1000]),  # two are too few to have a median
    ("cudaFuncGetAttributes", (999.999, 20), []),
    ("cudaMalloc", (10_000, 1, 1), [10_000]),
    ("cudaMalloc", (9_999.999, 1, 1), []),
    ("cudaMalloc", (19_999, 2000, 2000), []),
    ("cudaMalloc", (20_000, 2000, 2000), [20_000]),
    ("cuModuleLoadData", (100, 150, 99.999, 120), [100, 150, 120]),  # each loads something
    ("cudaMemcpyAsync", (40_000, 1, 1), []),
    ("cudaStreamSynchronize", (40_000, 1, 1), []),
    ("cudaStreamCreateWithFlags", (150,), [150]),
    ("cudaEventCreateWithFlags", (99,), []),
    ("cudaDeviceGetStreamPriorityRange", (29_900,), [29_900]),
    ("cudaFree", (600_000,), [600_000]),
    ("cudaFree", (9_999,), []),
    ("cudaHostAlloc", (900_000,), []),  # as long as what it pins is large
    ("hipModuleLoad", (300,), [300]),
])  # fmt: skip
def test_first_calls(tmp_path, name, took, expected):
    trace = trace_of(tmp_path, *each_50_ms(name, *took))
    assert lengths_of(trace, first_calls(trace)) == expected


def test_the_medians_of_two_names_are_apart(tmp_path):
    slow = [e | {"ts": e["ts"] + 20_000} for e in each_50_ms("cudaFuncSetAttribute", 9_000, 1_000, 1_000)]
    trace = trace_of(tmp_path, *each_50_ms("cudaFuncGetAttributes", 300, 20, 20), *slow)
    assert lengths_of(trace, first_calls(trace)) == [300]


def test_the_first_launch_of_a_kernel(tmp_path):
    def new(at: float, n: int, length: float, name: str, stream: int = 7) -> list[Event]:
        return [launch(at, n, length), kernel(at + 900, 5, n, stream, name)]

    events = [e for n in range(5) for e in new(4000 + 1000 * n, 10 + n, 4, "a")]
    events += [*new(1000, 1, 4, "a"), *new(2000, 2, 100, "b"), *new(3000, 3, 500, "b")]
    trace = trace_of(tmp_path, *events)
    assert lengths_of(trace, first_calls(trace)) == [100]
    # A kernel without a launch tells nothing of when its name was launched first.
    trace = trace_of(tmp_path, *events, *[kernel(3500, 5, 80, name="b"), kernel(1500, 5, 81, 30, "c")])
    assert lengths_of(trace, first_calls(trace)) == [100]


LOADING = "Lazy Function Loading"


def in_an_op(begin: float, length: float, *others: tuple[float, float]) -> list[Event]:
    """`aten::mm` at `begin` with code that is loaded in its middle, on a thread of CUPTI's own, and others
    (start, length) of the name."""
    loading = cpu(LOADING, begin + length / 2, 10, "overhead") | {"tid": 77}
    ops = [cpu("aten::mm", *other) for other in ((begin, length), *others)]
    return [*ops, loading, *each_50_ms("cudaFuncGetAttributes", 1, 1)]


@pytest.mark.parametrize(("op", "others", "counts"), [
    ((0, 1000), [(2000, 1)], True),
    ((0, 999.999), [(2000, 1)], False),  # no shorter one is
    ((0, 2000), [(5000, 200), (6000, 200)], True),  # ten times the median of the others
    ((0, 2000), [(5000, 200), (6000, 200.002)], False),
    ((0, 2000), [], False),
    ((0, 2000), [(2000, 1)], True),
    ((0, 2000), [(500, 100)], False),  # one within it is no other one
    ((0, 2000), [(500, 1), (5000, 200)], True),
    ((0, 2000), [(0, 0), (5000, 200)], True),  # at once, and of no length
    ((10, 2000), [(0, 10), (5000, 10)], False),  # not the first
    ((10, 2000), [(5000, 10), (0, 5)], False),
])  # fmt: skip
def test_first_ops(tmp_path, op, others, counts):
    trace = trace_of(tmp_path, *in_an_op(*op, *others))
    assert not len(first_calls(trace))
    assert lengths_of(trace, first_ops(trace, first_calls(trace))) == ([op[1]] if counts else [])


@pytest.mark.parametrize(("name", "counts"), [("new", True), ("old", False)])
def test_a_later_op_loads_what_it_is_the_first_to_launch(tmp_path, name, counts):
    """A product of a new shape needs a kernel that is not loaded yet."""
    before = [cpu("aten::mm", 0, 40), launch(10, 1), kernel(20, 5, 1, name="old")]
    events = [*in_an_op(100, 2000), launch(2050, 2), kernel(2060, 5, 2, name=name), *before]
    trace = trace_of(tmp_path, *events)
    assert lengths_of(trace, first_ops(trace, first_calls(trace))) == ([2000] if counts else [])


def test_an_op_holds_what_was_loaded_if_it_holds_the_middle_of_it(tmp_path):
    def with_loading(begin: float, length: float) -> Trace:
        loading = cpu(LOADING, begin, length, "overhead") | {"tid": 77}
        return trace_of(tmp_path, cpu("aten::mm", 1000, 2000), cpu("aten::mm", 4000, 10), loading)

    for begin, length, counts in ((980, 50, True), (970, 50, False), (2970, 50, True), (2980, 50, False)):
        trace = with_loading(begin, length)
        assert len(first_ops(trace, first_calls(trace))) == counts, begin


def test_only_what_initializes_makes_an_op_one_of_initialisation(tmp_path):
    inner = [cpu("cudaStreamCreate", 500, 300, "cuda_runtime"), cpu("aten::empty", 400, 600)]
    ops = [cpu("aten::mm", 0, 2000), cpu("aten::mm", 4000, 10), cpu("aten::empty", 4002, 1)]
    trace = trace_of(tmp_path, *ops, *inner)
    # The op right around the call is too short to be one; the one around that is another story.
    assert lengths_of(trace, first_ops(trace, first_calls(trace))) == []
    trace = trace_of(tmp_path, *ops, inner[0])
    assert lengths_of(trace, first_ops(trace, first_calls(trace))) == [2000]
    trace = trace_of(tmp_path, *ops, inner[0] | {"name": "cudaMemcpyAsync"})
    assert lengths_of(trace, first_ops(trace, first_calls(trace))) == []


def loads_first(loading: float, ends: float = 600_000) -> list[Event]:
    """The first launch, which returns as its kernel starts, and some usual ones."""
    load = cpu("Lazy Function Loading", loading, 50, "overhead")
    first = [cpu("aten::add", 90, ends), launch(100, 90, ends), kernel(600_090, 100, 90, name="k")]
    return [load, *first, *usual(601_000, 1)]


def test_a_launch_that_waits_after_loading_is_in_flight(tmp_path):
    trace = trace_of(tmp_path, *loads_first(105))
    assert not len(first_calls(trace))
    assert not len(first_ops(trace, first_calls(trace)))
    assert not found(trace, "initialisation")
    assert dict(verdict_of(Part(trace)).left_out) == {"in flight": 599_950_000, "initialisation": 50_000}


@pytest.mark.parametrize("events", [loads_first(600_030), loads_first(105)[1:]])
def test_a_first_launch_that_loads_at_its_end(tmp_path, events):
    trace = trace_of(tmp_path, *events)
    assert len(first_calls(trace)) == 1
    assert "in flight" not in dict(verdict_of(Part(trace)).left_out)
