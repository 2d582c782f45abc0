"""Communication in the verdict: what of the busy time it is, alone, per step and over all."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kineto import Event, cpu, kernel, launch, memcpy, run, step, trace_of
from tests.recorded import load

from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.idle.gaps import find_gaps
from tracetui.analysis.idle.split import COLUMNS
from tracetui.analysis.idle.verdict import communication_text, judge
from tracetui.analysis.part import Part
from tracetui.analysis.steps.scope import range_scope, step_scope
from tracetui.analysis.steps.steps import steps_of, summarize_steps
from tracetui.analysis.verdicts import verdict_of
from tracetui.rules import find_findings
from tracetui.trace import Trace
from tracetui.views.event import trace_facts
from tracetui.views.gaps_text import gaps_answer
from tracetui.views.steps import steps_json
from tracetui.views.summary import summary_answer

NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"

RANK = (
    step(1, 0, 1000),
    *run(100, 100, 1),  # compute
    *run(200, 300, 2, NCCL, stream=13),  # of which 100 under computation, 50 under a copy
    *run(250, 100, 3),
    launch(190, 4, name="cudaMemcpyAsync"),
    memcpy(400, 50, 4, stream=15),
    step(2, 1000, 1000),
    *run(1100, 500, 5),
    *run(1600, 20, 6, NCCL, stream=13),
)
"""In step 1 the device is busy for 400 us, 200 of them with communication alone; in step 2 for 520 and 20."""


def test_the_share_is_that_of_communication_with_no_computation_beside_it(tmp_path: Path) -> None:
    steps = summarize_steps(trace_of(tmp_path, *RANK))
    first, second = steps.rows
    assert first.busy == 400_000
    assert first.verdict.communication_share == pytest.approx(200 / 400)
    assert second.verdict.communication_share == pytest.approx(20 / 520)
    assert steps.whole.verdict.communication_share == pytest.approx(220 / 920)
    assert steps.outside.verdict.communication_share is None
    assert "50.0% of its busy time is communication (by name) while nothing computes" in first.verdict.reason
    assert "communication" not in second.verdict.reason
    assert communication_text(first.verdict) == "communication alone 50.0% of the busy time"
    assert communication_text(second.verdict) == communication_text(steps.outside.verdict) == ""


def test_a_range_and_a_step_have_theirs(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, *RANK)
    # 200 to 300 us: 50 alone, 50 beside a kernel.
    found = Part(trace).in_scope(range_scope(200_000, 300_000))
    assert verdict_of(found).communication_share == pytest.approx(0.5)
    assert verdict_of(Part(trace).in_scope(step_scope(trace, 1))).communication_share == pytest.approx(0.5)


def test_text_and_json_say_it(tmp_path: Path) -> None:
    summary = summary_answer(Part(trace_of(tmp_path, *RANK)))
    text = summary.text(100)
    assert "23.9% of its busy time is communication (by name) while nothing computes" in " ".join(
        text.split()
    )
    told = summary.data()
    assert told["communication_share"] == pytest.approx(220 / 920)
    assert [s["communication_share"] for s in told["step_list"]] == pytest.approx([0.5, 20 / 520])


def gap_between_steps(tmp_path: Path) -> Trace:
    """Two steps of 1,000 us in which the device runs for 100, and 10,000 us of nothing between them."""
    events = []
    for n, begin in enumerate((0, 11_000)):
        events += [step(n, begin, 1000), cpu("aten::mm", begin + 10, 980)]
        for at, correlation in ((begin + 20, 4 * n), (begin + 940, 4 * n + 1)):
            events += [launch(at, correlation, 5), kernel(at + 10, 50, correlation)]
    return trace_of(tmp_path, *events)


def test_the_headline_and_what_explains_it_share_one_base(tmp_path: Path) -> None:
    trace = gap_between_steps(tmp_path)
    steps = summarize_steps(trace)
    # The second step begins when the first one's time is over, at 11,000 us.
    assert [row.window_length for row in steps.rows] == [11_000_000, 1_000_000]
    (finding,) = [f for f in find_findings(Part(trace)) if f.rule == "overhead_bound"]
    assert f"{finding.claims['busy_share']:1}" == "1.7% of the steps"
    reason = steps.whole.verdict.reason
    assert reason.startswith("The GPU is busy 1.7% of the steps; for 98.3% it waits for the CPU. Meanwhile ")
    assert f"{finding.claims['busy_ns']} of {finding.claims['time_ns']}" == "200 µs of 12.0 ms"
    assert f"{finding.claims['causes']}".startswith("host (10.0 ms)")
    (gaps,) = find_gaps(trace)
    assert finding.numbers["busy_share"] == pytest.approx(0.2 / 12)
    assert finding.numbers["idle_ns"] == 11_800_000
    assert finding.numbers["span_busy_share"] == pytest.approx(gaps.busy / gaps.span)
    assert trace.start[list(finding.evidence)].tolist() == [11_030_000, 950_000, 11_950_000, 30_000]


def test_of_a_step_and_of_a_range_the_base_is_said_too(tmp_path: Path) -> None:
    trace = gap_between_steps(tmp_path)
    for scope, base in (
        (step_scope(trace, 1), "of the step"),
        (range_scope(0, 2_000_000), "of the range"),
        (range_scope(0, 2_000_000, "viewport"), "of the view"),
    ):
        results = Part(trace).in_scope(scope)
        assert f"% {base}; for " in verdict_of(results).reason
        (finding,) = [f for f in find_findings(results) if f.rule == "overhead_bound"]
        assert finding.claims["busy_share"].of == base
        assert (f"{finding.claims['busy_ns']}", finding.claims["base"]) == ("100 µs", base)
    plain = trace_of(tmp_path, launch(100, 1), kernel(100, 300, 1))
    assert "100.0% of the recording: it sets the pace" in summarize_steps(plain).whole.verdict.reason


def test_where_the_device_ran_nothing_the_verdict_is_not_known(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, *run(100, 50, 1), step(1, 300, 100), step(2, 400, 100), *run(600, 50, 2))
    steps = summarize_steps(trace)
    for row in steps.rows:
        assert (row.busy, row.window_idle, row.verdict.verdict) == (0, 100_000, "not known")
        assert row.verdict.reason == "The GPU runs nothing here."
        assert row.verdict.busy_share == 0.0  # as in the table
    assert steps.whole.verdict.base == "of the recording"
    between = verdict_of(Part(trace).in_scope(range_scope(200_000, 500_000)))
    assert between.verdict == "not known"


def test_no_device_no_share(tmp_path: Path) -> None:
    whole = summarize_steps(trace_of(tmp_path, cpu("aten::mm", 0, 10))).whole
    assert whole.verdict.communication_share is None
    assert communication_text(whole.verdict) == ""


def test_real_ranks(wild: Path) -> None:
    whole = summarize_steps(load(wild / "dlrm_8ranks/worker0_step_12.1694128201545.pt.trace.json")).whole
    assert whole.verdict.verdict == "overhead-bound"
    assert whole.verdict.communication_share == pytest.approx(
        whole.exposed_communication / whole.busy, abs=0.01
    )
    assert whole.verdict.communication_share > 0.8
    whole = summarize_steps(load(wild / "a100_nccl_rank0of2_2024.json.gz")).whole
    assert "25.1% of its busy time is communication" in whole.verdict.reason
    whole = summarize_steps(load(wild / "v100_overlapping_kernels_2022.json.gz")).whole
    assert whole.verdict.verdict == "compute-bound"
    assert whole.verdict.communication_share == pytest.approx(0.102, abs=0.001)


span = st.tuples(st.integers(0, 400), st.integers(1, 60), st.booleans(), st.integers(0, 1))


@given(st.lists(span, max_size=12), st.lists(st.integers(1, 300), max_size=3))
def test_against_a_set_of_points(
    tmp_path_factory: pytest.TempPathFactory, spans: list[tuple[int, int, bool, int]], widths: list[int]
) -> None:
    events: list[Event] = []
    begin = 0
    for n, width in enumerate(widths):
        events.append(step(n, begin, width))
        begin += width
    talk: dict[int, set[int]] = {0: set(), 1: set()}
    work: dict[int, set[int]] = {0: set(), 1: set()}
    for n, (start, length, collective, device) in enumerate(spans):
        (talk if collective else work)[device] |= set(range(start, start + length))
        name = NCCL if collective else f"k{n}"
        args = {"correlation": n + 1, "device": device, "stream": n}
        events.append(kernel(start, length, n + 1, n, name, args=args, pid=device))
        events.append(launch(start, n + 1, 0.5))
    if not events:
        return
    steps = summarize_steps(trace_of(tmp_path_factory.mktemp("t"), *events))
    for row in steps.rows:
        low, high = (t // 1000 for t in row.window)
        window = set(range(low, high))
        busy = sum(len((talk[d] | work[d]) & window) for d in (0, 1))
        assert row.busy == busy * 1000
        # A device that hardly takes part is not judged.
        ran = {d: len(talk[d] | work[d]) for d in (0, 1)}
        used = [d for d in (0, 1) if ran[d] >= 0.01 * max(ran.values())]
        busy = sum(len((talk[d] | work[d]) & window) for d in used)
        alone = sum(len((talk[d] - work[d]) & window) for d in used)
        if busy:
            assert row.verdict.communication_share == pytest.approx(alone / busy)


@pytest.mark.parametrize(("categories", "named"), [(1, "c0"), (3, "c0, c1, c2"), (4, "c0, c1, c2, ...")])
def test_events_of_unknown_categories_on_a_device_are_said(
    tmp_path: Path, categories: int, named: str
) -> None:
    device = {"ph": "M", "name": "process_labels", "pid": 17, "tid": 0, "args": {"labels": "MTIA 17"}}
    events = [cpu("dma", 10 * n, 5, f"c{n}") | {"pid": 17, "tid": 3774} for n in range(categories)]
    results = Part(trace_of(tmp_path, device, cpu("aten::add", 0, 100), *events))
    many = "1 event" if categories == 1 else f"{categories} events"
    text = verdict_of(results).reason
    assert verdict_of(results).verdict == "not known"
    assert f"The device's lanes hold {many} of other categories ({named}): drawn, but not judged." in text
    assert summary_answer(results).data()["reason"] == text
    assert " ".join(gaps_answer(results).text(500).split()) == text
    assert {"no GPU work": text}.items() <= {f.label: f.value for f in trace_facts(results.trace)}.items()
    assert gaps_answer(results).markdown().strip() == text
    steps = steps_of(results)
    assert [row["reason"] for row in steps_json([steps.outside, steps.whole])] == [text, text]
    # A thread's unknown categories are no device's.
    threads = trace_of(tmp_path, cpu("cudaMalloc", 0, 5, "cuda_runtime"), cpu("x", 10, 5, "c0"))
    assert verdict_of(Part(threads)).reason == "There are no GPU events here."


@pytest.mark.parametrize(
    ("unknown", "around", "known"), [(40, False, False), (2, False, True), (40, True, True)]
)
def test_unknown_work_beside_kernels_is_no_idle_time(
    tmp_path: Path, unknown: float, around: bool, known: bool
) -> None:
    """Ten kernels of 50 us, one each 100 us; between them something else. A range around them is none."""
    events = [e for n in range(10) for e in run(100 * n + 10, 50, n + 1)]
    for n in range(10):
        start, length = (100 * n, 99) if around else (100 * n + 65, unknown if n == 0 or unknown > 9 else 1)
        events.append(kernel(start, min(length, 40) if not around else length, 0, name="x", cat="npu"))
    results = Part(trace_of(tmp_path, *events))
    verdict = verdict_of(results)
    assert (verdict.busy_share is not None) is known
    assert bool(gaps_of(results).devices) is known
    assert ("So it is not known when the device was idle." in verdict.reason) is not known
    assert known or not [f for f in find_findings(results) if f.rule in ("little_use", "idle_time")]
    text = summary_answer(results).text(80)
    assert ("GPU busy" in text) is known


def test_the_largest_part_is_the_one_that_is_named_first() -> None:
    """A fifth each: idle with work queued and from one kernel to the next; a third of computing."""
    time = dict.fromkeys(COLUMNS, 0) | {"compute": 36, "queued": 22, "back to back": 23, "host": 19}
    reason = judge(list(time.values()), None).reason
    assert "The largest part is compute, 36.0%; then from one kernel to the next, 23.0%." in reason


def test_clocks_that_differ_are_said(tmp_path: Path) -> None:
    """Kernels that start 2 ms before their launch: nothing is known of delays or of launches that block."""
    events = [
        e for n in range(20) for e in (launch(5000 + 100 * n, n + 1), kernel(3000 + 100 * n, 30, n + 1))
    ]
    results = Part(trace_of(tmp_path, *events))
    verdict = verdict_of(results)
    assert verdict.launch_delay is None
    assert "Nothing is queued" not in verdict.reason
    assert "starts before its launch, by 2.00 ms: the clocks of CPU and GPU differ" in verdict.reason
    assert "blocking_launches" not in [finding.rule for finding in find_findings(results)]
    assert not any(finding.claims.get("pace") == "the CPU's" for finding in find_findings(results))


def test_without_launches_nothing_is_known_to_be_in_flight(tmp_path: Path) -> None:
    """Two steps whose kernels have no launch: the first begins long before its kernel."""
    events = [step(1, 0, 1000), kernel(700, 250, 0), step(2, 1000, 1000), kernel(1100, 850, 0)]
    verdict = verdict_of(Part(trace_of(tmp_path, *events)))
    assert "700 µs before the first GPU event of the first step" in verdict.reason
    assert "with work queued" not in verdict.reason


def test_launches_without_kernels_are_no_trace_of_the_cpu_alone(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, cpu("aten::mm", 0, 50), launch(10, 1), launch(30, 2))
    told = "2 launches, but nothing of what they ran: the profiler got no events from the GPU."
    assert verdict_of(Part(trace)).reason.startswith(told)
    assert any(f.value.startswith(told) for f in trace_facts(trace))
