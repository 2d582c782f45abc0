"""Sentences that once served several situations: each case is the one in which such a sentence was false."""

from __future__ import annotations

import pytest
from tests.kineto import Event, cpu, kernel, launch, memcpy, run, step, trace_of

from tracetui.analysis.part import Part
from tracetui.analysis.verdicts import verdict_of
from tracetui.rules import Finding, find_findings
from tracetui.rules.claims import Share
from tracetui.trace import Trace
from tracetui.views.gap_words import words_of_all

GEMM = "ampere_sgemm_128x64_nn"


def told(trace: Trace, rule: str) -> Finding:
    (finding,) = [one for one in find_findings(Part(trace)) if one.rule == rule]
    return finding


def test_data_loading_is_a_share_of_the_windows_as_all_shares_of_the_steps(tmp_path):
    """Steps of 60 us, each with an evaluation of 40 us behind it: the last window is 60 us long."""
    events: list[Event] = []
    for n in range(4):
        at = 100.0 * n
        events.append(step(n, at, 60))
        events.append(cpu("enumerate(DataLoader)#_SingleProcess", at + 1, 30, "user_annotation"))
        events += run(at + 40, 20, n + 1)
    assert told(trace_of(tmp_path, *events), "data_loading").claims["share"] == Share(
        120_000, 360_000, "of the steps"
    )


@pytest.mark.parametrize(
    ("dims", "row"), [([[1024], [8, 4]], "[1024]"), ([[1, 64], [8, 4]], "[1, 64]"), ([[8, 64], [8, 4]], "")]
)
def test_a_copied_row_is_not_said_to_be_added_without_a_copy(tmp_path, dims, row):
    op = cpu("aten::addmm", 0, 30, **{"External id": 5, "Input Dims": dims, "Input type": ["float", "float"]})
    events = [op, launch(5, 1), memcpy(20, 10, 1, "DtoD (Device -> Device)")]
    events += [launch(15, 2), kernel(31, 50, 2, name=GEMM)]
    finding = told(trace_of(tmp_path, *events), "copy_before_product")
    assert finding.claims.get("row", "") == row
    assert ("would be added" in finding.text) == (not row)


def test_a_wait_beside_an_idle_gpu_is_not_said_to_cost_little_because_the_gpu_works(tmp_path):
    def meanwhile(*events: Event) -> str:
        return f"{told(trace_of(tmp_path, *events), 'blocking_calls').claims['meanwhile']}"

    # The wait ends with work of another stream that was launched before it and starts late.
    wait = cpu("hipMemcpyWithStream", 31, 9000, "cuda_runtime", correlation=2)
    late = [*run(10, 4, 1), cpu("aten::copy_", 30, 9002), wait, kernel(9025, 5, 2, stream=3)]
    events = [e for n in range(20) for e in run(9100 + 30 * n, 25, n + 3)]
    assert meanwhile(*late, *events) == "idle for other reasons"

    events = [e for n in range(92) for e in run(10 + 100 * n, 95, n + 1)]
    events += [cpu("aten::copy_", 9200, 900), launch(9201, 99), kernel(9206, 880, 99)]
    assert meanwhile(*events, cpu("cudaStreamSynchronize", 9206, 885, "cuda_runtime")) == "busy"


@pytest.mark.parametrize("name", ["gloo:all_reduce", "mpi:all_reduce", "ucc:all_reduce"])
def test_a_collective_on_the_cpu_is_not_its_overhead(tmp_path, name):
    events: list[Event] = []
    for n in range(3):
        at = 40_000.0 * n
        events += [step(n, at, 40_000), cpu("aten::mm", at + 8, 8), *run(at + 20, 9_000, 2 * n + 1, GEMM)]
        events.append(cpu("c10d::allreduce_", at + 9_500, 29_000))
        events.append(cpu(name, at + 9_600, 28_800, "user_annotation") | {"tid": 8})
        events += [cpu("aten::add_", at + 38_998, 8), *run(at + 39_010, 900, 2 * n + 2)]
    trace = trace_of(tmp_path, *events)
    finding = told(trace, "overhead_bound")
    assert f"{finding.claims['advice']}" == "collective on the CPU"
    assert f"{finding.claims['talking_ns']}" == "87.0 ms"
    assert "overhead" not in finding.text
    assert "sets the pace" not in finding.text
    assert words_of_all(Part(trace))["dispatch"] == "mostly a collective on the CPU"


def test_a_collective_that_launches_is_not_one_of_the_cpu(tmp_path):
    events: list[Event] = []
    for n in range(3):
        at = 10_000.0 * n
        events += [step(n, at, 10_000), cpu("c10d::allreduce_", at + 10, 8_000)]
        events += run(at + 7_900, 1_000, n + 1, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)")
    assert "talking_ns" not in told(trace_of(tmp_path, *events), "overhead_bound").claims


def test_python_before_the_first_kernel_is_looked_at(tmp_path):
    events = [step(6, 0, 39_100), cpu("a.py(1): main", 1, 39_000, "python_function")]
    events.append(cpu("video.py(129): preprocess", 90, 26_700, "python_function"))
    events.append(cpu("overrides.py(9): handle", 27_050, 70, "python_function"))
    events += [*run(26_900, 100, 1), *run(27_130, 30, 2)]
    events += [e for n in range(100) for e in run(27_170 + 110 * n, 105, n + 3)]
    (within,) = told(trace_of(tmp_path, *events), "overhead_bound").claims["within"].each
    assert (within.name, within.ns) == ("preprocess", 26_700_000)


def test_a_first_call_gets_the_advice_on_first_calls(tmp_path):
    def advice(*more: Event) -> str:
        events = [*run(10, 10, 1), *run(9_000, 10, 99), *more]
        return f"{told(trace_of(tmp_path, *events), 'overhead_bound').claims['advice']}"

    assert advice(cpu("aten::arange", 30, 8_900)) == "first call"
    again = [cpu("aten::arange", 30 + 1_000 * n, 900) for n in range(9)]
    assert advice(*again) == "on the GPU"
    assert advice(cpu("cudaFree", 30, 8_900, "cuda_runtime")) == "first allocation"
    frees = [cpu("cudaFree", 30 + 1_000 * n, 900, "cuda_runtime") for n in range(9)]
    assert advice(*frees) == "allocation"


def test_gpu_events_that_were_left_out_are_not_said_to_be_missing(tmp_path):
    odd = [kernel(10, 130_000, 1), kernel(20, 120_000, 2, stream=8)]
    trace = trace_of(tmp_path, cpu("Broadcast", 0, 300), launch(5, 1), launch(8, 2), *odd)
    assert trace.implausible[[trace.name_of(i) in ("k1", "k2") for i in range(len(trace))]].all()
    reason = verdict_of(Part(trace)).reason
    assert reason == (
        "2 GPU events, but with times that cannot be right: left out. So it is not known what the GPU did."
    )
