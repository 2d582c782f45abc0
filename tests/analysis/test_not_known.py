"""Traces that do not show what the GPU did when: clocks that differ, kernels that are missing."""

import json
from pathlib import Path

import pytest
from tests.kineto import Event, cpu, kernel, launch, memcpy, run, step, trace_of

from tracetui.analysis.idle.causes import CAUSES
from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.idle.gaps import without_work_text
from tracetui.analysis.part import Part
from tracetui.analysis.steps.scope import range_scope, step_scope, step_table_of
from tracetui.analysis.steps.steps import steps_of
from tracetui.analysis.verdicts import verdict_of
from tracetui.compare.compare import compare
from tracetui.rules import find_findings
from tracetui.trace import Trace, load
from tracetui.views.gaps_text import gaps_answer
from tracetui.views.summary import metrics_of, summary_answer

SYNC = "cudaDeviceSynchronize"


def steps(late: float = 0, *, kernels: bool = True, pageable: bool = False) -> list[Event]:
    """Four steps of ten kernels of 20 us, each with a copy; then a wait for all. `late`: what the device's
    clock is off by, us."""
    events: list[Event] = []
    for n in range(4):
        events += [step(n, 1000 * n, 990), cpu("aten::mm", 1000 * n + 10, 900)]
        for i in range(10):
            at = 1000 * n + 90 * i + 20
            events.append(launch(at, 100 * n + i))
            events += [kernel(at + 8 + late, 20, 100 * n + i)] if kernels else []
        way = "DtoH (Device -> Pageable)" if pageable else "HtoD (Pinned -> Device)"
        events.append(launch(1000 * n + 950, 100 * n + 50, 30, "cudaMemcpyAsync"))
        events.append(memcpy(1000 * n + 958 + late, 5, 100 * n + 50, way))
    return events + ([] if pageable else [cpu(SYNC, 3992, 20, "cuda_runtime", correlation=999)])


@pytest.mark.parametrize("pageable", [False, True])
@pytest.mark.parametrize("late", [-1500, -400, 400, 1500])
def test_a_clock_that_is_off_leaves_no_verdict(tmp_path, late, pageable):
    results = Part(trace_of(tmp_path, *steps(late, pageable=pageable)))
    verdict = verdict_of(results)
    assert (verdict.verdict, verdict.busy_share, verdict.parts) == ("not known", None, ())
    assert "the clocks of CPU and GPU differ" in verdict.reason
    assert not find_findings(results)
    assert not gaps_of(results).devices
    assert "dispatch" not in summary_answer(results).text(100)
    assert [row.window_length for row in steps_of(results).rows] == [1_000_000, 1_000_000, 1_000_000, 990_000]


@pytest.mark.parametrize("late", [-6, 0, 6, 40])
def test_a_clock_that_is_right_or_hardly_off_has_one(tmp_path, late):
    assert verdict_of(Part(trace_of(tmp_path, *steps(late)))).verdict == "overhead-bound"


@pytest.mark.parametrize(("waits_until", "known"), [(880, True), (400, False)])
def test_a_copy_whose_call_does_not_wait_but_the_next_one(tmp_path, waits_until, known):
    """Where the device reads pageable memory itself, the call returns at once."""
    events: list[Event] = []
    for n in range(8):
        at = 1000 * n
        events += [cpu("aten::mm", at, 20), launch(at + 5, 2 * n + 1, 4), kernel(at + 15, 800, 2 * n + 1)]
        events += [cpu("aten::item", at + 30, 900), launch(at + 32, 2 * n + 2, 6, "cudaMemcpyAsync")]
        events.append(memcpy(at + 860, 2, 2 * n + 2, "DtoH (Device -> Pageable)"))
        wait = waits_until - 40
        events.append(cpu("cudaStreamSynchronize", at + 40, wait, "cuda_runtime", correlation=900 + n))
    assert (verdict_of(Part(trace_of(tmp_path, *events))).verdict != "not known") is known


def test_a_wait_for_one_of_two_devices_says_nothing_of_the_other(tmp_path):
    """The other one still has a kernel of 5 ms to do."""
    args = {"correlation": 900, "device": 1, "stream": 7}
    other = [launch(3000, 900), kernel(3010, 5000, 900, pid=1, args=args)]
    assert verdict_of(Part(trace_of(tmp_path, *steps(), *other))).busy_share is not None


def test_kernels_that_are_missing_leave_no_verdict(tmp_path):
    results = Part(trace_of(tmp_path, *steps(kernels=False)))
    verdict = verdict_of(results)
    assert (verdict.verdict, verdict.busy_share) == ("not known", None)
    assert verdict.reason == (
        "40 launches of kernels, but not what they ran: those kernels are missing from the trace. So it is "
        "not known how busy the GPU was."
    )
    assert not find_findings(results)


def test_what_is_captured_or_still_to_run_is_not_missing(tmp_path):
    """Launches in a capture run nothing; those at the end run after the recording."""
    begin = cpu("cudaStreamBeginCapture", 1, 2, "cuda_runtime", correlation=800)
    captured = verdict_of(Part(trace_of(tmp_path, begin, *steps(kernels=False))))
    assert "a CUDA graph is captured" in captured.reason
    late = [launch(5000 + 10 * n, 2000 + n) for n in range(100)]
    assert verdict_of(Part(trace_of(tmp_path, *steps(), *late))).verdict != "not known"


def test_what_is_missing_is_not_compared(tmp_path):
    whole = Part(trace_of(tmp_path, *steps()))
    for events, note in ((steps(kernels=False), "B lost the kernels of 40 launches"), (steps(1500), "")):
        found = compare(whole, Part(trace_of(tmp_path, *events)))
        assert not found.explanations
        assert not found.idle
        assert found.metrics["busy_share"].b is None
        assert found.metrics["step_ns"].b == found.metrics["step_ns"].a
        assert note in " ".join(found.notes)
        assert (found.metrics["kernels"].b is None) is bool(note)
        assert found.answer.startswith(f"No difference: the same {'calls' if note else 'work'}")


def test_old_traces_record_annotations_as_operators(tmp_path):
    """`save` is no op, though its category says so: Python works for 700 us."""

    def causes(*names: str) -> dict[str, int]:
        events = [
            cpu("forward", 0, 1000, "Operator"), cpu(names[0], 100, 700, "Operator"),
            cpu(names[1], 820, 100, "Operator")
        ]  # fmt: skip
        work = [launch(10, 1), kernel(20, 20, 1), launch(900, 2), kernel(910, 20, 2)]
        verdict = verdict_of(Part(trace_of(tmp_path, *events, *work)))
        return {c: t // 1000 for c, t in zip(CAUSES, verdict.causes, strict=True) if t}

    assert causes("save", "aten::mm")["host"] > 780
    assert causes("save", "aten::mm")["dispatch"] == 80
    assert causes("save", "CudnnConvolutionBackward")["dispatch"] == 80
    assert causes("mylib::save", "detach_")["dispatch"] == 780


def test_a_wait_in_an_annotation_of_an_old_trace_is_in_no_op(tmp_path):
    """PyTorch 1.8 records ProfilerStep as an operator."""

    def findings(around: str) -> set[str]:
        events: list[Event] = []
        for n in range(4):
            at = 1000 * n
            events += [cpu(around, at, 990, "Operator"), cpu("aten::mm", at + 10, 20, "Operator")]
            events += [launch(at + 15, n), kernel(at + 25, 300, n), cpu(SYNC, at + 40, 300, "Runtime")]
        return {finding.rule for finding in find_findings(Part(trace_of(tmp_path, *events)))}

    assert {"explicit_waits", "blocking_calls"} & findings("ProfilerStep#1") == {"explicit_waits"}
    assert {"explicit_waits", "blocking_calls"} & findings("aten::item") == {"blocking_calls"}


@pytest.mark.parametrize(
    "call", ["synStreamSynchronize", "musaDeviceSynchronize", "aclrtSynchronizeStream", "cnrtQueueSync"]
)
def test_waits_of_other_backends(call, tmp_path):
    events = [cpu(call, 20, 400, "privateuse1_runtime"), launch(900, 2), kernel(910, 20, 2)]
    verdict = verdict_of(Part(trace_of(tmp_path, launch(10, 1), kernel(20, 390, 1), *events)))
    assert verdict.causes[CAUSES.index("sync")] > 0


def test_events_that_may_be_a_devices(tmp_path):
    """Of another process, which the file does not call a device."""
    ops = [cpu("aten::mm", 100 * n, 80) for n in range(4)]
    other = [cpu("gemm", 100 * n, 50, "gpu_op") | {"pid": 2} for n in range(4)]
    said = (
        "No event here has the category of a kernel, a copy or a memset. Whether 4 events of other "
        "categories (gpu_op) run on a device is not known."
    )
    only_cpu = verdict_of(Part(trace_of(tmp_path, *ops, cpu("x", 90, 5, "glow_thing"))))
    assert only_cpu.reason.startswith("Only the CPU was recorded.")
    assert verdict_of(Part(trace_of(tmp_path, *ops, *other))).reason.startswith(said)
    assert without_work_text(trace_of(tmp_path, *other)) == said


@pytest.mark.parametrize(("first", "last", "kept"), [(2, 4, [2, 3]), (0, 2, [0, 1]), (1, 3, [1, 2])])
def test_steps_whose_gpu_work_was_not_recorded_do_not_count(tmp_path, first, last, kept):
    """The GPU is recorded from a later step on, or until an earlier one: then it was not idle."""

    def there(event: Event) -> bool:
        return event["cat"] not in ("kernel", "gpu_memcpy") or 1000 * first <= event["ts"] < 1000 * last

    results = Part(trace_of(tmp_path, *filter(there, steps())))
    table, whole = step_table_of(results), Part(trace_of(tmp_path, *steps()))
    assert (table.number.tolist(), table.unrecorded) == (kept, 4 - len(kept))
    share = verdict_of(whole).busy_share
    assert share is not None
    assert verdict_of(results).busy_share == pytest.approx(share, abs=0.01)
    text = summary_answer(results).text(100)
    assert f"{4 - len(kept)} more steps: what they launch is not in the trace, or not all" in text
    text = gaps_answer(results).text(100)
    assert ("10 launches, of which nothing else is in the trace" in text) == (first == 1)
    assert not any("steps_without" in one.claims for one in find_findings(results))


def test_a_step_in_which_a_graph_is_captured_was_recorded(tmp_path):
    events = [e for e in steps() if e["cat"] != "kernel" or e["ts"] >= 1000]
    capture = cpu("cudaStreamBeginCapture", 12, 2, "cuda_runtime", correlation=998)
    table = step_table_of(Part(trace_of(tmp_path, capture, *events)))
    assert (len(table), table.unrecorded) == (4, 0)


LOADER = cpu("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 700, 200, "user_annotation")
OPS = [event for n in range(4) for event in (step(n, 1000 * n, 990), cpu("aten::mm", 1000 * n + 100, 600))]
WORK: list[Event] = [event for n in range(4) for event in run(1000 * n + 20, 970, n + 1)]


def cut(tmp_path: Path, *events: Event) -> Trace:
    """The trace of these events in a file that ends within the one after."""
    (tmp_path / "t.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": [*events, OPS[0]]})[:-40])
    trace = load(tmp_path / "t.json")
    assert [notice.kind for notice in trace.notices] == ["truncated"]
    return trace


@pytest.mark.parametrize("work", [(), WORK[:4], WORK[4:], WORK])
def test_what_the_gpu_did_is_not_known(tmp_path, work):
    results = Part(cut(tmp_path, *OPS, LOADER, *work))
    for part in (None, range_scope(0, 2_500_000), step_scope(results.trace, 1)):
        verdict = verdict_of(results.in_scope(part))
        assert (verdict.verdict, verdict.busy_share, verdict.parts) == ("not known", None, ())
        assert verdict.reason.startswith("The file is cut off.")
    assert metrics_of(results)["busy"] is None
    text = summary_answer(results).text(100)
    assert "idle" not in text
    assert "0.0%" not in text
    assert [row.number for row in steps_of(results).rows] == [0, 1, 2, 3]


def test_what_the_cpu_did_is(tmp_path):
    (finding,) = find_findings(Part(cut(tmp_path, *OPS, LOADER | {"dur": 280}, *WORK[:2])))
    assert f"{finding.claims['share']}" == "7.0% of the steps"
    assert finding.claims["launches"] is True
