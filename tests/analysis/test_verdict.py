"""Communication in the verdict: what of the busy time it is, alone, per step and over all."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kineto import Event, cpu, kernel, launch, memcpy, run, step, trace_of
from tests.recorded import load

from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.idle.gaps import find_gaps
from tracetui.analysis.idle.split import COLUMNS
from tracetui.analysis.idle.verdict import OF_STEPS, PARTS, VERDICTS, communication_text, judge
from tracetui.analysis.part import Part
from tracetui.analysis.steps.scope import (
    range_scope,
    step_scope,
)
from tracetui.analysis.steps.steps import steps_of, summarize_steps
from tracetui.analysis.verdicts import verdict_of
from tracetui.rules import find_findings
from tracetui.trace import Trace
from tracetui.trace.model import I64
from tracetui.views.event import trace_facts
from tracetui.views.gaps_text import gaps_answer
from tracetui.views.parts import time_parts
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


def test_the_share_is_that_of_communication_with_no_computation_beside_it(tmp_path):
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


def test_a_range_and_a_step_have_theirs(tmp_path):
    trace = trace_of(tmp_path, *RANK)
    # 200 to 300 us: 50 alone, 50 beside a kernel.
    found = Part(trace).in_scope(range_scope(200_000, 300_000))
    assert verdict_of(found).communication_share == pytest.approx(0.5)
    assert verdict_of(Part(trace).in_scope(step_scope(trace, 1))).communication_share == pytest.approx(0.5)


def test_text_and_json_say_it(tmp_path):
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


def test_the_headline_and_what_explains_it_share_one_base(tmp_path):
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


def test_of_a_step_and_of_a_range_the_base_is_said_too(tmp_path):
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


def test_where_the_device_ran_nothing_the_verdict_is_not_known(tmp_path):
    trace = trace_of(tmp_path, *run(100, 50, 1), step(1, 300, 100), step(2, 400, 100), *run(600, 50, 2))
    steps = summarize_steps(trace)
    for row in steps.rows:
        assert (row.busy, row.window_idle, row.verdict.verdict) == (0, 100_000, "not known")
        assert row.verdict.reason == "The GPU runs nothing here."
        assert row.verdict.busy_share == 0.0  # as in the table
    assert steps.whole.verdict.base == "of the recording"
    assert verdict_of(Part(trace).in_scope(range_scope(200_000, 500_000))).verdict == "not known"


def test_no_device_no_share(tmp_path):
    whole = summarize_steps(trace_of(tmp_path, cpu("aten::mm", 0, 10))).whole
    assert whole.verdict.communication_share is None
    assert communication_text(whole.verdict) == ""


def test_real_ranks(wild):
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
def test_against_a_set_of_points(tmp_path_factory, spans, widths):
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
    for row in summarize_steps(trace_of(tmp_path_factory.mktemp("t"), *events)).rows:
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
def test_events_of_unknown_categories_on_a_device_are_said(tmp_path, categories, named):
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
def test_unknown_work_beside_kernels_is_no_idle_time(tmp_path, unknown, around, known):
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
    assert ("GPU busy" in summary_answer(results).text(80)) is known


def test_the_largest_part_is_the_one_that_is_named_first():
    """A fifth each: idle with work queued and from one kernel to the next; a third of computing."""
    time = dict.fromkeys(COLUMNS, 0) | {"compute": 36, "queued": 22, "back to back": 23, "host": 19}
    reason = judge(list(time.values()), None).reason
    assert "The largest part is compute, 36.0%; then from one kernel to the next, 23.0%." in reason


def test_clocks_that_differ_are_said(tmp_path):
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


def test_without_launches_nothing_is_known_to_be_in_flight(tmp_path):
    """Two steps whose kernels have no launch: the first begins long before its kernel."""
    events = [step(1, 0, 1000), kernel(700, 250, 0), step(2, 1000, 1000), kernel(1100, 850, 0)]
    verdict = verdict_of(Part(trace_of(tmp_path, *events)))
    assert "700 µs before the first GPU event of the first step" in verdict.reason
    assert "with work queued" not in verdict.reason


def test_launches_without_kernels_are_no_trace_of_the_cpu_alone(tmp_path):
    trace = trace_of(tmp_path, cpu("aten::mm", 0, 50), launch(10, 1), launch(30, 2))
    told = "2 launches, but nothing of what they ran: the profiler got no events from the GPU."
    assert verdict_of(Part(trace)).reason.startswith(told)
    assert any(f.value.startswith(told) for f in trace_facts(trace))


def split(**parts: int) -> I64:
    """The time of all devices by `COLUMNS`."""
    names = {column.replace(" ", "_"): i for i, column in enumerate(COLUMNS)}
    time = np.zeros(len(COLUMNS), np.int64)
    time[[names[part] for part in parts]] = list(parts.values())
    return time


@pytest.mark.parametrize(("parts", "verdict"), [
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
])  # fmt: skip
def test_verdicts(parts, verdict):
    found = judge(split(**parts), 10_000)
    assert found.verdict == verdict
    assert found.verdict in VERDICTS
    if verdict != "not known":
        assert sum(found.share(part) for part in PARTS) == pytest.approx(1)


def test_what_a_verdict_says():
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
def test_what_does_not_count_is_said_where_it_shows(time, shows):
    verdict = judge(split(compute=1000, in_flight=time), None)
    assert verdict.noticeably_left_out is shows
    assert [part.what for part in time_parts(verdict)] == ["compute", *["in flight"] * shows]


@pytest.mark.parametrize(("length", "said"), [(10, True), (9, False)])
def test_what_is_left_out_is_said_from_a_hundredth_on(length, said):
    assert ("initialisation" in judge(split(compute=990, initialisation=length), 1).reason) is said
    assert ("first step" in judge(split(compute=990), 1, lead_in=split(host=length)).reason) is said


@pytest.mark.parametrize(("second", "said"), [(10, True), (9, False)])
def test_a_second_cause_is_named_from_a_tenth_of_the_first_on(second, said):
    reason = judge(split(compute=20, dispatch=100, sync=second, queued=5), 60_000).reason
    assert "dispatch" in reason
    assert ("sync" in reason) is said
    assert "launch to start" not in reason


@pytest.mark.parametrize(("talk", "said"), [(10, True), (9, False)])
def test_communication_is_said_from_a_tenth_of_the_busy_time_on(talk, said):
    found = judge(split(compute=100 - talk, communication=talk, host=5), 1)
    assert found.verdict == "compute-bound"
    assert found.communication_share == talk / 100
    assert ("ommunication" in found.reason) is said
    assert bool(communication_text(found)) is said
    assert communication_text(judge(split(host=5), 1)) == ""


@pytest.mark.parametrize(("parts", "words", "not_said"), [
    # Of the busy time, 35 of 80 are communication; said where it is not one of the two.
    ({"compute": 45, "communication": 35, "host": 20}, ("45.0%", "35.0%"), ("20.0%", "43.8%")),
    ({"compute": 45, "host": 35, "communication": 20}, ("45.0%", "35.0%", "30.8%"), ("20.0%",)),
    ({"queued": 60, "compute": 40}, ("60.0%", "40.0%"), ()),
    ({"unlinked": 60, "copies": 40}, ("60.0%", "40.0%"), ("50.0%",)),
])  # fmt: skip
def test_a_mixed_verdict_names_the_two_largest_parts(parts, words, not_said):
    found = judge(split(**parts), 1)
    assert found.verdict == "mixed"
    text = found.reason.split("The largest part is ", 1)[1]
    assert all(word in text for word in words)
    assert not any(word in text for word in not_said)
    assert text.count("other ranks") == ("communication" in parts)


def test_a_verdict_on_communication_or_copies_names_its_share_alone():
    for part in ("communication", "copies"):
        found = judge(split(compute=20, host=15, **{part: 65}), 1)
        assert found.verdict == {"communication": "communication-bound", "copies": "copy-bound"}[part]
        assert "65.0%" in found.reason
        assert "20.0%" not in found.reason
        assert "15.0%" not in found.reason


def test_numbers_of_a_verdict():
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
