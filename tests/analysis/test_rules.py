"""Each rule that the bundled traces do not set off: a small trace in which it fires, and one in which it
just does not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.analysis.test_findings import RECORDED, SAMPLES
from tests.kineto import Event, cpu, kernel, launch, memcpy, run, step, trace_of

from tracetui.analysis.findings import RULES, Finding
from tracetui.analysis.results import Results
from tracetui.analysis.scope import range_scope, step_scope
from tracetui.report.findings import findings_lines
from tracetui.tables.lines import plain_text
from tracetui.trace import Trace
from tracetui.units import share

NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
FP32 = "volta_sgemm_128x64_nn"
UNALIGNED = "void cutlass::Kernel2<cutlass_75_tensorop_bf16_s1688gemm_bf16_256x128_tn_align1>(Params)"
ALIGNED = "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_256x128_32x3_tn_align8>(Params)"
NEXT = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
V100 = {"deviceProperties": [{"id": 0, "name": "Tesla V100-SXM2-32GB", "computeMajor": 7, "computeMinor": 0}]}
H100 = {"deviceProperties": [{"id": 0, "name": "NVIDIA H100", "computeMajor": 9, "computeMinor": 0}]}


HERE = """
    blocking_calls communication data_loading exposed_copies fp32_products little_use pageable_memory spread
    unaligned_products
"""


def test_every_rule_fires_on_a_trace_that_a_clone_has() -> None:
    fired = " ".join((*RECORDED.values(), *SAMPLES.values(), HERE)).split()
    assert set(RULES) <= set(fired)


def found(trace: Trace, rule: str) -> Finding | None:
    """What the rule says, at most once; its evidence is there."""
    findings = [finding for finding in Results(trace).findings() if finding.rule == rule]
    assert len(findings) <= 1
    for finding in findings:
        assert finding.evidence
        assert not finding.title.endswith(".")
        assert finding.text.endswith(".")
    return findings[0] if findings else None


def evidence(trace: Trace, finding: Finding) -> list[str]:
    return [trace.name_of(i) for i in finding.evidence]


# Communication: 1,000 us of device time, of which `alone` have a collective and nothing else.


def rank(alone: float) -> list[Event]:
    return [
        launch(100, 1),
        kernel(100, 900 - alone, 1),
        *run(950 - alone, 50 + alone, 2, NCCL, stream=13),  # the first 50 us under computation
        *run(1000, 100, 3),
    ]


@pytest.mark.parametrize(("alone", "severity"), [(99, ""), (101, "medium"), (299, "medium"), (301, "high")])
def test_communication(tmp_path: Path, alone: float, severity: str) -> None:
    trace = trace_of(tmp_path, *rank(alone))
    finding = found(trace, "communication")
    assert (finding.severity if finding else "") == severity
    if finding:
        assert finding.title == f"Communication alone takes {alone / 10:.0f}% of the recording"
        assert finding.numbers["exposed_ns"] == alone * 1000
        assert finding.numbers["communication_ns"] == (50 + alone) * 1000
        assert finding.numbers["share_of_busy"] == pytest.approx(alone / 1000)
        assert evidence(trace, finding) == [NCCL]
        told = f"{alone / 10:.0f}% of the 1.00 ms of the recording, "
        assert f"while no other kernel runs: {told}{alone / 10:.0f}% of its busy time." in finding.text


def test_communication_in_a_range_is_cut_at_its_end(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, *rank(500))  # alone from 500 to 1,000 us
    begin = int(trace.start[np.flatnonzero([trace.name_of(i) == NCCL for i in range(len(trace))])[0]])
    part = range_scope(begin - 10_000, begin + 150_000)  # 60 us of computation, 100 us without
    (finding,) = [f for f in Results(trace).within(part).findings() if f.rule == "communication"]
    assert finding.numbers["share"] == pytest.approx(100 / 160)
    assert "62% of the 160 µs of the range, 62% of its busy time" in finding.text


def test_the_share_of_a_kernel_is_one_of_kernel_and_copy_time(tmp_path: Path) -> None:
    # Two streams at once: 600 us of work in 300 us of time.
    trace = trace_of(
        tmp_path, *run(100, 300, 1, "big"), *run(100, 300, 2, "big", stream=9), *run(400, 100, 3)
    )
    finding = found(trace, "hotspot")
    assert finding is not None
    assert finding.title == f"big takes {share(600 / 700)} of kernel and copy time"


# Data loading: two steps of 1,000 us, with `wait` in each.


def loop(wait: float, *more: Event) -> list[Event]:
    events = list(more)
    for n in range(2):
        events += [step(n, 1000 * n, 1000), cpu(NEXT, 1000 * n + 1, wait, "user_annotation")]
        events += run(1000 * n + 600, 300, n + 1)
    return events


@pytest.mark.parametrize(("wait", "severity"), [(49, ""), (51, "medium"), (301, "high")])
def test_data_loading(tmp_path: Path, wait: float, severity: str) -> None:
    trace = trace_of(tmp_path, *loop(wait))
    finding = found(trace, "data_loading")
    assert (finding.severity if finding else "") == severity
    if finding:
        assert finding.text.startswith(
            f"2 calls of {NEXT} take {2 * wait} µs, the longest {wait:.1f} µs."[:70]
        )
        assert finding.text.endswith("The loop launches nothing while it waits for its batch.")
        assert finding.numbers["share"] == pytest.approx(wait / 1000)
        assert evidence(trace, finding) == [NEXT, NEXT]


def test_one_wait_is_not_its_own_longest_and_a_launch_within_is_not_denied(tmp_path: Path) -> None:
    one = [step(0, 0, 1000), cpu(NEXT, 10, 200, "user_annotation"), *run(600, 300, 1)]
    finding = found(trace_of(tmp_path, *one), "data_loading")
    assert finding is not None
    assert (
        finding.text
        == f"1 call of {NEXT} takes 200 µs. The loop launches nothing while it waits for its batch."
    )
    copying = [*loop(200), launch(50, 9, name="cudaMemcpyAsync"), memcpy(60, 20, 9)]
    finding = found(trace_of(tmp_path, *copying), "data_loading")
    assert finding is not None
    assert "launches nothing" not in finding.text


# Blocking calls: .item() waits `wait` of some 2,000 us.


def item(wait: float, busy: float = 300) -> list[Event]:
    return [
        *run(10, busy, 1),
        cpu("aten::item", 20, wait + 20),
        cpu("cudaStreamSynchronize", 30, wait, "cuda_runtime"),
        *run(1600, 400, 2),
    ]


@pytest.mark.parametrize(("wait", "severity"), [(49, ""), (51, "low"), (300, "medium")])
def test_blocking_calls(tmp_path: Path, wait: float, severity: str) -> None:
    trace = trace_of(tmp_path, *item(wait))
    finding = found(trace, "blocking_calls")
    assert (finding.severity if finding else "") == severity
    if finding:
        assert finding.text.startswith("1 call such as cudaStreamSynchronize stops the CPU")
        assert "this thread launches nothing" in finding.text
        assert finding.numbers["wait_ns"] == wait * 1000
        assert evidence(trace, finding) == ["cudaStreamSynchronize"]


def test_blocking_calls_cost_little_where_the_device_stays_busy(tmp_path: Path) -> None:
    finding = found(trace_of(tmp_path, *item(300, busy=1500)), "blocking_calls")
    assert finding is not None
    assert finding.severity == "info"


def test_a_wait_outside_of_ops_is_no_blocking_op(tmp_path: Path) -> None:
    outside = [e for e in item(300) if e["name"] != "aten::item"]
    assert found(trace_of(tmp_path, *outside), "blocking_calls") is None


# Copies: from pageable memory, and while nothing computes.


def copying(length: float, way: str, start: float = 100) -> list[Event]:
    return [
        step(0, 0, 2000),
        launch(start - 5, 1, name="cudaMemcpyAsync"),
        memcpy(start, length, 1, way, stream=14),
        *run(1000, 900, 2),
    ]


@pytest.mark.parametrize(
    ("length", "way", "severity"),
    [
        (49, "HtoD (Pageable -> Device)", ""),
        (51, "HtoD (Pageable -> Device)", "low"),
        (200, "DtoH (Device -> Pageable)", "medium"),
        (200, "HtoD (Pinned -> Device)", ""),
    ],
)
def test_pageable_memory(tmp_path: Path, length: float, way: str, severity: str) -> None:
    trace = trace_of(tmp_path, *copying(length, way))
    finding = found(trace, "pageable_memory")
    assert (finding.severity if finding else "") == severity
    if finding:
        assert f"1 copy ({way[:4]}), at 1.00 GB/s on average." in finding.text
        assert evidence(trace, finding) == [f"Memcpy {way}"]


@pytest.mark.parametrize(
    ("length", "way", "start", "severity"),
    [
        (99, "HtoD (Pinned -> Device)", 100, ""),  # of a step of 2,000 us
        (101, "HtoD (Pinned -> Device)", 100, "low"),
        (101, "DtoH (Device -> Pinned)", 100, "low"),
        (401, "HtoD (Pageable -> Device)", 100, "medium"),
        (401, "HtoD (Pinned -> Device)", 1100, ""),  # under the kernel
        (101, "HtoD (Pinned -> Device)", 950, ""),  # half under the kernel
        (401, "DtoD (Device -> Device)", 100, ""),  # the device's own work
    ],
)
def test_exposed_copies(tmp_path: Path, length: float, way: str, start: float, severity: str) -> None:
    trace = trace_of(tmp_path, *copying(length, way, start))
    finding = found(trace, "exposed_copies")
    assert (finding.severity if finding else "") == severity
    if finding:
        assert finding.title == f"Copies while nothing computes take {share(length / 2000)} of the steps"
        assert finding.numbers == {"exposed_ns": length * 1000, "copies": 1, "share": length / 2000}
        assert evidence(trace, finding) == [f"Memcpy {way}"]


def test_exposed_copies_of_a_step_and_of_a_range(tmp_path: Path) -> None:
    second = [step(1, 2000, 1000), *run(2100, 800, 3)]
    trace = trace_of(tmp_path, *copying(301, "HtoD (Pinned -> Device)"), *second)
    titles = {
        name: [f.title for f in Results(trace).within(scope).findings() if f.rule == "exposed_copies"]
        for name, scope in (
            ("whole", None),
            ("first", step_scope(trace, 0)),
            ("second", step_scope(trace, 1)),
            ("range", range_scope(0, 500_000)),
        )
    }
    assert titles == {
        "whole": ["Copies while nothing computes take 10% of the steps"],
        "first": ["Copies while nothing computes take 15% of the step"],
        "second": [],
        "range": ["Copies while nothing computes take 60% of the time"],
    }


# Products: unaligned operands, and fp32 without tensor cores.


def products(name: str, length: float) -> list[Event]:
    return [*run(100, length, 1, name), *run(100 + length, 1000 - length, 2, ALIGNED)]


@pytest.mark.parametrize(("length", "severity"), [(49, ""), (51, "low"), (210, "medium")])
def test_unaligned_products(tmp_path: Path, length: float, severity: str) -> None:
    trace = trace_of(tmp_path, *products(UNALIGNED, length))
    finding = found(trace, "unaligned_products")
    assert (finding.severity if finding else "") == severity
    if finding:
        assert "1 kernel such as" in finding.text
        assert "loads one element at a time" in finding.text
        assert evidence(trace, finding) == [UNALIGNED]


@pytest.mark.parametrize(("length", "fires"), [(49, False), (51, True)])
def test_fp32_products(tmp_path: Path, length: float, fires: bool) -> None:
    trace = trace_of(tmp_path, *products(FP32, length), **V100)
    finding = found(trace, "fp32_products")
    assert (finding is not None) is fires
    if finding:
        assert evidence(trace, finding) == [FP32]
        assert "fp16" in finding.advice
    modern = found(trace_of(tmp_path, *products(FP32, 100), **H100), "fp32_products")
    assert modern is not None
    assert "TF32" in modern.advice


# A device that is idle for other reasons than overhead: work is queued, and waits.


@pytest.mark.parametrize(("busy", "fires"), [(0.51, False), (0.49, True)])
def test_little_use(tmp_path: Path, busy: float, fires: bool) -> None:
    events = []
    for n in range(10):
        events += [launch(980 + n, n + 1, 1), kernel(1000 + 100 * n, 100 * busy, n + 1)]
    events += [launch(996, 99, 1), kernel(2000, 1, 99)]
    trace = trace_of(tmp_path, *events)
    finding = found(trace, "little_use")
    assert (finding is not None) is fires
    if finding:
        assert finding.severity == "high"
        assert finding.numbers["busy_share"] == pytest.approx(491 / 1007)
        assert finding.title == "The device is busy only 48.8% of the recording"
        assert "queued, and nothing that was recorded ran on the device" in finding.text
    assert found(trace, "overhead_bound") is None


# The same kernel in each of three steps.


def steps(lengths: tuple[float, ...], other: str = "mm") -> list[Event]:
    events = []
    for n, length in enumerate(lengths):
        events += [step(n, 1000 * n, 900), *run(1000 * n + 100, length, 2 * n + 1, "scale")]
        events += run(1000 * n + 500, 300, 2 * n + 2, other if n == 2 else "mm")
    return events


@pytest.mark.parametrize(
    ("lengths", "fires"), [((50, 50, 64), False), ((50, 50, 66), True), ((5, 5, 9), False), ((50, 66), False)]
)
def test_spread(tmp_path: Path, lengths: tuple[float, ...], fires: bool) -> None:
    trace = trace_of(tmp_path, *steps(lengths))
    finding = found(trace, "spread")
    assert (finding is not None) is fires
    if finding:
        assert "takes 50.0 µs in one step and 66.0 µs in another" in finding.title
        assert "1 of 2 kernels per step varies by 1.3 times or more" in finding.text
        assert evidence(trace, finding) == ["scale"] * 3


def test_no_spread_between_steps_that_run_other_things(tmp_path: Path) -> None:
    assert found(trace_of(tmp_path, *steps((50, 50, 66), "bmm")), "spread") is None


# What else a sentence claims.


def test_the_children_named_are_those_that_take_most_over_all_calls(tmp_path: Path) -> None:
    events = []
    for n in range(3):
        events.append(cpu("aten::linear", 100 * n, 90))
        events += [cpu("aten::t", 100 * n + 1, 30), cpu("aten::mm", 100 * n + 40, 31)]
    events.append(cpu("aten::t", 172, 15))
    trace = trace_of(tmp_path, *events)
    finding = found(trace, "look_at_the_children")
    assert finding is None  # 27% of it is its own
    trace = trace_of(tmp_path, *events, *(cpu("aten::add", 100 * n + 72, 17) for n in (0, 2)))
    finding = found(trace, "look_at_the_children")
    assert finding is not None
    assert finding.title == "aten::linear spends 86% of its CPU time in what it calls"
    assert "most of that in aten::t." in finding.text  # mm is the longest child of each call but one
    assert evidence(trace, finding) == ["aten::linear", "aten::t"]


def test_the_advice_on_compiled_code_knows_its_graphs(tmp_path: Path) -> None:
    call = [cpu("Torch-Compiled Region: 0/0", 100, 100), cpu("TorchDynamo Cache Lookup", 50, 20)]
    finding = found(trace_of(tmp_path, *call), "compiled_overhead")
    assert finding is not None
    assert "CUDA graph" in finding.advice
    graph = cpu("cudaGraphLaunch", 150, 10, "cuda_runtime", correlation=1)
    finding = found(trace_of(tmp_path, *call, graph), "compiled_overhead")
    assert finding is not None
    assert "CUDA graph" not in finding.advice


def test_one_call_is_one_call(tmp_path: Path) -> None:
    events = [cpu("aten::view", 0, 3), *run(10, 100, 1)]
    finding = found(trace_of(tmp_path, *events), "metadata_only")
    assert finding is not None
    assert finding.title == "1 call of view ops starts no kernel"


def test_a_first_step_against_one_other(tmp_path: Path) -> None:
    events = [step(0, 0, 2600), step(1, 3000, 100), *run(10, 5, 1), *run(3010, 5, 2)]
    finding = found(trace_of(tmp_path, *events), "cold_start")
    assert finding is not None
    assert finding.title == "Cold start: the first step takes 26 times as long as the other"
    assert "Step 0 takes 2.60 ms on the CPU, the other step takes 100 µs." in finding.text


def test_evidence_is_listed_by_short_names(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, *products(UNALIGNED, 300))
    text = plain_text(findings_lines(Results(trace), 100))
    assert "  > gemm bf16 256x128 tn at 5.000 µs, 300 µs" in text
    assert "cutlass" not in text


def test_a_stretch_within_one_kernel_has_no_findings(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, *run(100, 1000, 1, "Memcpy DtoD (Device -> Device)", cat="gpu_memcpy"))
    assert Results(trace).within(range_scope(200_000, 300_000)).findings() == ()
