"""Each rule that the bundled traces do not set off: a small trace in which it fires, and one in which it
just does not."""

import re
from pathlib import Path

import numpy as np
import pytest
from tests.kineto import Event, cpu, kernel, launch, memcpy, run, step, trace_of
from tests.rules.shares import check_shares
from tests.rules.test_findings import RECORDED, SAMPLES

from tracetui.analysis.idle.cpu_time import is_allocation, is_synchronizing
from tracetui.analysis.names.kernel_names import decode
from tracetui.analysis.part import Part
from tracetui.analysis.steps.scope import range_scope, step_scope
from tracetui.analysis.verdicts import earlier_share_of, verdict_of
from tracetui.core.units import share
from tracetui.rules import RULES, Finding, find_findings
from tracetui.rules.claims import Count, Ratio, Share, Time, names_of
from tracetui.rules.model import OF_WORK
from tracetui.trace import Trace
from tracetui.views.findings_text import findings_lines
from tracetui.views.lines import plain_text

NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
FP32 = "volta_sgemm_128x64_nn"
UNALIGNED = "void cutlass::Kernel2<cutlass_75_tensorop_bf16_s1688gemm_bf16_256x128_tn_align1>(Params)"
ALIGNED = "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_256x128_32x3_tn_align8>(Params)"
NEXT = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
V100 = {"deviceProperties": [{"id": 0, "name": "Tesla V100-SXM2-32GB", "computeMajor": 7, "computeMinor": 0}]}
H100 = {"deviceProperties": [{"id": 0, "name": "NVIDIA H100", "computeMajor": 9, "computeMinor": 0}]}
GEMM = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT"
SOFTMAX = (
    "void (anonymous namespace)::softmax_warp_{way}<c10::BFloat16, c10::BFloat16, float, 10, false, "
    "false>(c10::BFloat16*, c10::BFloat16 const*, int, int, int, bool const*, int, bool)"
)
ADD = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
    "std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)"
)
FLASH = (
    "void flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, cutlass::bfloat16_t> >()"
)


def test_every_rule_fires_on_a_trace_that_a_clone_has():
    """A recorded one, or one that a test makes, which asks `found` for the rule."""
    fired = " ".join((*RECORDED.values(), *SAMPLES.values())).split()
    for path in Path(__file__).parent.parent.glob("*/test_*.py"):
        fired += re.findall(r'\bfound\(.*?, "(\w+)"\)', path.read_text(encoding="utf-8"))
    assert set(RULES) - set(fired) == set(), "it needs a test in this file"


PARTS = (0, 6), (3, 9)
"""Tenths of a trace, of which the same rule must say shares of what they are."""


def found(trace: Trace, rule: str) -> Finding | None:
    """What the rule says, at most once; its evidence is there."""
    results = Part(trace)
    findings = [finding for finding in find_findings(results) if finding.rule == rule]
    assert len(findings) <= 1
    low, high = trace.span
    parts = [
        range_scope(low + of[0] * (high - low) // 10, low + of[1] * (high - low) // 10 + 1) for of in PARTS
    ]
    for part in (results, *map(results.in_scope, parts)):
        for one in RULES[rule](part):
            check_shares(part, one)
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
def test_communication(tmp_path, alone, severity):
    trace = trace_of(tmp_path, *rank(alone))
    finding = found(trace, "communication")
    assert (finding.severity if finding else "") == severity
    if finding:
        assert f"{finding.claims['share']}" == f"{alone / 10:.0f}% of the recording"
        assert finding.numbers["exposed_ns"] == alone * 1000
        assert finding.numbers["communication_ns"] == (50 + alone) * 1000
        assert finding.numbers["share_of_busy"] == pytest.approx(alone / 1000)
        assert evidence(trace, finding) == [NCCL]
        assert f"{finding.claims['share_of_busy']}" == f"{alone / 10:.0f}% of the GPU's busy time"


@pytest.mark.parametrize(("call", "other", "between_two"), [
    ("nccl:recv 0<-1", "aten::mm", True), ("c10d::send", "aten::mm", True),
    ("nccl:recv", "nccl:all_to_all", False)
])  # fmt: skip
def test_sends_and_receives_are_no_collectives(tmp_path, call, other, between_two):
    """An all-to-all runs kernels of the same name."""
    events = [cpu(call, 0, 10), cpu(other, 12, 10), launch(2, 1), launch(14, 2)]
    events += [kernel(20, 300, 1, name="ncclDevKernel_SendRecv(ncclDevKernelArgs)"), kernel(320, 200, 2)]
    finding = found(trace_of(tmp_path, *events), "communication")
    assert finding.claims["kind"] == ("between two" if between_two else "among all")


def test_communication_in_a_range_is_cut_at_its_end(tmp_path):
    trace = trace_of(tmp_path, *rank(500))  # alone from 500 to 1,000 us
    begin = int(trace.start[np.flatnonzero([trace.name_of(i) == NCCL for i in range(len(trace))])[0]])
    part = range_scope(begin - 10_000, begin + 150_000)  # 60 us of computation, 100 us without
    (finding,) = [f for f in find_findings(Part(trace).in_scope(part)) if f.rule == "communication"]
    assert finding.numbers["share"] == pytest.approx(100 / 160)
    assert (
        f"{finding.claims['time_ns']}, {finding.claims['share_of_busy']}"
        == "160 µs, 62% of the GPU's busy time"
    )


@pytest.mark.parametrize(("late", "fires"), [(3, True), (30, False)])
def test_launches_that_do_not_block_say_that_none_do(tmp_path, late, fires):
    """Of 100 kernels so many end after their launch has returned."""
    events = [
        e for n in range(100)
        for e in (launch(100 * n, n + 1, 20 if n < late else 60), kernel(100 * n + 5, 50, n + 1))
    ]  # fmt: skip
    assert (found(trace_of(tmp_path, *events), "blocking_launches") is not None) is fires


def test_the_share_of_a_kernel_is_one_of_kernel_and_copy_time(tmp_path):
    # Two streams at once: 600 us of work in 300 us of time.
    trace = trace_of(
        tmp_path, *run(100, 300, 1, "big"), *run(100, 300, 2, "big", stream=9), *run(400, 100, 3)
    )
    finding = found(trace, "hotspot")
    assert (finding.claims["name"], finding.claims["share"]) == ("big", Share(600_000, 700_000, OF_WORK))


@pytest.mark.parametrize(("call", "length", "fires"), [(60, 50, True), (8, 50, False), (60, 15, False)])
def test_blocking_launches(tmp_path, call, length, fires):
    """100 kernels, each launched after the one before: calls of 60 us return after them."""
    events = [
        e for n in range(100) for e in (launch(100 * n, n + 1, call), kernel(100 * n + 5, length, n + 1))
    ]
    trace = trace_of(tmp_path, *events)
    finding = found(trace, "blocking_launches")
    assert (finding is not None) is fires
    if finding:
        assert (finding.claims["kernels"], finding.claims["of"]) == (Count(100), Count(100))
        assert found(trace, "short_calls") is None


@pytest.mark.parametrize(("wait", "said"), [(150, False), (900, True)])
@pytest.mark.parametrize("device", [False, True])
def test_a_step_that_waits_for_the_others_is_named(tmp_path, wait, said, device):
    """Four steps of some 500 us; the third waits longer for the other ranks."""
    events, at = [], 0.0
    for n, talk in enumerate((200.0, 200.0, wait, 200.0)):
        events += [step(n, at, 300 + talk), cpu("aten::mm", at + 10, 280)]
        if device:
            events += [*run(at + 20, 270, 2 * n + 1), *run(at + 295, talk, 2 * n + 2, NCCL)]
        else:
            events.append(cpu("gloo:all_reduce", at + 295, talk, "user_annotation"))
        at += 300 + talk
    finding = found(trace_of(tmp_path, *events), "communication")
    assert finding is not None
    late = [finding.claims.get(name) for name in ("late_step", "late_ratio", "late_of_it_ns", "late_ns")]
    assert late == (["step 2", Ratio(1200 / 500), Time(700_000), Time(700_000)] if said else [None] * 4)


# Data loading: two steps of 1,000 us, with `wait` in each.
def loop(wait: float, *more: Event) -> list[Event]:
    events = list(more)
    for n in range(2):
        events += [step(n, 1000 * n, 1000), cpu(NEXT, 1000 * n + 1, wait, "user_annotation")]
        events += run(1000 * n + 600, 300, n + 1)
    return events


@pytest.mark.parametrize(
    ("wait", "severity"), [(49, ""), (51, "low"), (99, "low"), (100, "medium"), (301, "high")]
)
def test_data_loading(tmp_path, wait, severity):
    trace = trace_of(tmp_path, *loop(wait))
    finding = found(trace, "data_loading")
    assert (finding.severity if finding else "") == severity
    if finding:
        assert (finding.claims["calls"], finding.claims["name"]) == (Count(2), NEXT)
        assert finding.claims["longest_ns"] == Time(1000 * wait)
        assert finding.claims["launches"] is False
        assert finding.numbers["share"] == pytest.approx(wait / 1000)
        assert evidence(trace, finding) == [NEXT, NEXT]


def test_of_several_devices_each_is_named(tmp_path):
    """Two devices of 2,000 us: one with 100 us of work, one with 200 us."""
    label = [
        {"ph": "M", "name": "process_labels", "pid": d, "tid": 0, "args": {"labels": f"GPU {d}"}}
        for d in (0, 1)
    ]
    first = [*run(10, 50, 1), *run(1940, 50, 2)]
    second = [
        e | {"pid": 1, "tid": 9} if e["cat"] == "kernel" else e
        for e in (*run(20, 100, 3), *run(1890, 100, 4))
    ]
    some = find_findings(Part(trace_of(tmp_path, *label, *first, *second)))
    assert sorted(f.claims["device"] for f in some if "busy_share" in f.claims) == ["GPU 0", "GPU 1"]


def test_one_wait_is_not_its_own_longest_and_a_launch_within_is_not_denied(tmp_path):
    one = [step(0, 0, 1000), cpu(NEXT, 10, 200, "user_annotation"), *run(600, 300, 1)]
    finding = found(trace_of(tmp_path, *one), "data_loading")
    assert (finding.claims["calls"], finding.claims["launches"]) == (Count(1), False)
    old = [e | {"cat": "Operator"} if e["name"] == NEXT else e for e in loop(200)]
    finding = found(trace_of(tmp_path, *old), "data_loading")
    assert finding.numbers["share"] == pytest.approx(0.2)
    copying = [*loop(200), launch(50, 9, name="cudaMemcpyAsync"), memcpy(60, 20, 9)]
    finding = found(trace_of(tmp_path, *copying), "data_loading")
    assert finding.claims["launches"] is True


def test_the_advice_on_data_loading_is_not_what_the_program_does(tmp_path):
    def advice(*more: Event, name: str = NEXT) -> tuple[str, bool]:
        """Its name, and whether to pin memory."""
        events = [e | {"name": name} if e["name"] == NEXT else e for e in loop(200)]
        finding = found(trace_of(tmp_path, *events, *more), "data_loading")
        return f"{finding.claims['advice']}", finding.claims["pin"]

    assert advice() == ("load in workers", True)
    pageable = memcpy(940, 20, 9, "HtoD (Pageable -> Device)")
    assert advice(launch(930, 9, name="cudaMemcpyAsync"), pageable)[1]
    assert not advice(launch(930, 9, name="cudaMemcpyAsync"), memcpy(940, 20, 9))[1]
    assert not advice(cpu("aten::pin_memory", 20, 10))[1]
    batch = cpu(NEXT, 0, 300, "user_annotation")
    on_cpu = found(trace_of(tmp_path, step(0, 0, 1000), batch, cpu("aten::mm", 400, 500)), "data_loading")
    assert (on_cpu.claims["pin"], on_cpu.claims["launches"]) == (False, True)
    other = cpu("my SingleProcess code", 10, 5, "user_annotation")
    several = advice(other, name=NEXT.replace("SingleProcess", "MultiProcessing"))
    assert several == (
        "more workers",
        True,
    )


# Blocking calls: .item() waits `wait` of some 2,000 us.
def item(wait: float, busy: float = 300) -> list[Event]:
    return [
        *run(10, busy, 1), cpu("aten::item", 20, wait + 20),
        cpu("cudaStreamSynchronize", 30, wait, "cuda_runtime"), *run(1600, 400, 2)
    ]  # fmt: skip


@pytest.mark.parametrize(("wait", "severity"), [(49, ""), (51, "low"), (300, "medium")])
def test_blocking_calls(tmp_path, wait, severity):
    trace = trace_of(tmp_path, *item(wait))
    finding = found(trace, "blocking_calls")
    assert (finding.severity if finding else "") == severity
    if finding:
        assert finding.text.startswith("1 call (cudaStreamSynchronize) stops the CPU")
        assert "the GPU is idle because of these waits" in finding.text
        assert finding.numbers["wait_ns"] == wait * 1000
        assert evidence(trace, finding) == ["cudaStreamSynchronize"]


def test_blocking_calls_cost_little_where_the_device_stays_busy(tmp_path):
    assert found(trace_of(tmp_path, *item(300, busy=1580)), "blocking_calls").severity == "info"


def test_a_wait_outside_of_ops_is_no_blocking_op(tmp_path):
    outside = [e for e in item(300) if e["name"] != "aten::item"]
    assert found(trace_of(tmp_path, *outside), "blocking_calls") is None


# Copies: from pageable memory, and while nothing computes.
def copying(length: float, way: str, start: float = 100) -> list[Event]:
    waits = length + 8 if way == "DtoH (Device -> Pageable)" else 4
    return [
        step(0, 0, 2000), launch(start - 5, 1, waits, "cudaMemcpyAsync"),
        memcpy(start, length, 1, way, stream=14), *run(1000, 900, 2)
    ]  # fmt: skip


@pytest.mark.parametrize(("length", "way", "severity"), [
    (49, "HtoD (Pageable -> Device)", ""), (51, "HtoD (Pageable -> Device)", "low"),
    (200, "DtoH (Device -> Pageable)", "medium"), (200, "HtoD (Pinned -> Device)", "")
])  # fmt: skip
def test_pageable_memory(tmp_path, length, way, severity):
    trace = trace_of(tmp_path, *copying(length, way))
    finding = found(trace, "pageable_memory")
    assert (finding.severity if finding else "") == severity
    if finding:
        assert f"{finding.claims['ways']}: {finding.claims['rate']}" == f"{way[:4]}: 1.00 GB/s"
        assert finding.claims["out"] is way.startswith("DtoH")
        assert evidence(trace, finding) == [f"Memcpy {way}"]
        words = [event | {"args": event["args"] | {"bytes": "9"}} for event in copying(length, way)]
        finding = found(trace_of(tmp_path, *words), "pageable_memory")
        assert "rate" not in finding.claims  # text is no size


@pytest.mark.parametrize(("length", "way", "start", "severity"), [
    (99, "HtoD (Pinned -> Device)", 100, ""),  # of a step of 2,000 us
    (101, "HtoD (Pinned -> Device)", 100, "low"),
    (101, "DtoH (Device -> Pinned)", 100, "low"),
    (401, "HtoD (Pageable -> Device)", 100, "medium"),
    (401, "HtoD (Pinned -> Device)", 1100, ""),  # under the kernel
    (101, "HtoD (Pinned -> Device)", 950, ""),  # half under the kernel
    (401, "DtoD (Device -> Device)", 100, ""),  # the device's own work
])  # fmt: skip
def test_exposed_copies(tmp_path, length, way, start, severity):
    trace = trace_of(tmp_path, *copying(length, way, start))
    finding = found(trace, "exposed_copies")
    assert (finding.severity if finding else "") == severity
    if finding:
        assert finding.claims["share"] == Share(length * 1000, 2_000_000, "of the step")
        assert finding.numbers == {"exposed_ns": length * 1000, "copies": 1, "share": length / 2000}
        assert finding.claims["out"] is way.startswith("DtoH")
        assert evidence(trace, finding) == [f"Memcpy {way}"]


def test_exposed_copies_of_a_step_and_of_a_range(tmp_path):
    second = [step(1, 2000, 1000), *run(2100, 800, 3)]
    trace = trace_of(tmp_path, *copying(301, "HtoD (Pinned -> Device)"), *second)
    shares = {
        name: [
            f"{f.claims['share']}" for f in find_findings(
                Part(trace).in_scope(scope)
            ) if f.rule == "exposed_copies"
        ] for name,
        scope in (
            ("whole", None), ("first", step_scope(trace, 0)), ("second", step_scope(trace, 1)),
            ("range", range_scope(0, 500_000))
        )
    }  # fmt: skip
    assert shares == {"whole": ["10% of the steps"], "first": ["15% of the step"], "second": [], "range": [
        "60% of the range"
    ]}  # fmt: skip


# Products: unaligned operands, and fp32 without tensor cores.
def products(name: str, length: float) -> list[Event]:
    return [*run(100, length, 1, name), *run(100 + length, 1000 - length, 2, ALIGNED)]


@pytest.mark.parametrize(("length", "severity"), [(49, ""), (51, "low"), (210, "medium")])
def test_unaligned_products(tmp_path, length, severity):
    trace = trace_of(tmp_path, *products(UNALIGNED, length))
    finding = found(trace, "unaligned_products")
    assert (finding.severity if finding else "") == severity
    if finding:
        assert evidence(trace, finding) == [UNALIGNED]


@pytest.mark.parametrize(("rest", "of_attention"), [(1000, True), (9000, False)])
def test_unaligned_products_within_attention_are_advised_once(tmp_path, rest, of_attention):
    # Two unaligned products of 300 us each around a softmax; attention is worth a finding, or is not.
    parts = ((UNALIGNED, "aten::bmm", 300), (SOFTMAX.format(way="forward"), "aten::_softmax", 100))
    events, at = [], 100.0
    for n, (name, op, length) in enumerate((*parts, parts[0])):
        events += [cpu(op, at - 8, 10), *run(at, length, n + 1, name)]
        at += length
    trace = trace_of(tmp_path, *events, cpu("aten::mm", at - 8, 10), *run(at, rest, 9, GEMM))
    attention = found(trace, "unfused_attention")
    assert (attention is not None and attention.claims["unaligned"] == Count(2)) is of_attention
    assert (found(trace, "unaligned_products") is None) is of_attention
    # One outside of it is told by itself.
    more = [cpu("aten::mm", at + rest - 8, 10), *run(at + rest, 800, 10, UNALIGNED)]
    trace = trace_of(tmp_path, *events, cpu("aten::mm", at - 8, 10), *run(at, rest, 9, GEMM), *more)
    assert found(trace, "unaligned_products").numbers["kernels"] == (1 if of_attention else 3)


@pytest.mark.parametrize(("length", "fires"), [(49, False), (51, True)])
def test_fp32_products(tmp_path, length, fires):
    trace = trace_of(tmp_path, *products(FP32, length), **V100)
    finding = found(trace, "fp32_products")
    assert (finding is not None) is fires
    if finding:
        assert evidence(trace, finding) == [FP32]
        assert finding.claims["why"] == "fp16"
    assert found(trace_of(tmp_path, *products(FP32, 100), **H100), "fp32_products").claims["why"] == "tf32"


FP64 = "void cutlass::Kernel2<cutlass_80_tensorop_d884gemm_64x32_16x4_tn_align1>(Params)"


@pytest.mark.parametrize(("length", "fires"), [(49, False), (51, True)])
def test_double_precision(tmp_path, length, fires):
    """Kernels for fp64 load one element at a time as a rule: nothing is unaligned."""
    trace = trace_of(tmp_path, *products(FP64, length), **H100)
    finding = found(trace, "double_precision")
    assert (finding is not None) is fires
    assert found(trace, "unaligned_products") is None
    if finding:
        assert finding.claims["name"] == "gemm fp64 64x32 tn"
        assert evidence(trace, finding) == [FP64]
        known = {"deviceProperties": [H100["deviceProperties"][0] | {"name": "NVIDIA H200", "numSms": 132}]}
        told = found(trace_of(tmp_path, *products(FP64, length), **known), "double_precision")
        assert told is not None
        peaks = [told.claims[name] for name in ("peak_of", "slow_tflops", "fast_tflops", "fast")]
        assert peaks == ["H200 SXM", Ratio(67), Ratio(494.5), "tf32"]
        assert told.remedy is not None
        assert told.remedy.factor == 494.5 / 67


def gridded(number: int, start: float, length: float, blocks: list[int], name: str = "") -> list[Event]:
    launched, done = run(start, length, number, name or f"k{number}")
    return [launched, done | {"args": done["args"] | {"grid": blocks}}]


SMS = {"deviceProperties": [H100["deviceProperties"][0] | {"numSms": 132}]}


@pytest.mark.parametrize(("blocks", "length", "fires"), [
    ([8, 1, 1], 30, True), ([16, 2, 1], 30, True), ([33, 1, 1], 30, False), ([8, 1, 1], 19, False)
])  # fmt: skip
def test_small_grids(tmp_path, blocks, length, fires):
    events = [*gridded(1, 10, length, blocks, "few"), *gridded(2, 10 + length, 200, [1000], "many")]
    finding = found(trace_of(tmp_path, *events, **SMS), "small_grids")
    assert (finding is not None) is fires
    if finding is not None:
        count = blocks[0] * blocks[1]
        assert finding.claims["multiprocessors"] == Count(132)
        assert f"{finding.claims['kernels']}" == f"few ({count} blocks)"
        assert finding.claims["share"] == Share(30_000, 230_000, OF_WORK)
        assert len(finding.evidence) == 1


def test_a_kernel_that_only_waits_needs_no_more_blocks(tmp_path):
    """`torch.cuda._sleep`."""
    name = "at::cuda::(anonymous namespace)::spin_kernel(long)"
    trace = trace_of(tmp_path, *gridded(1, 10, 900, [1], name), *gridded(2, 910, 50, [500], ADD), **SMS)
    assert found(trace, "small_grids") is None
    assert found(trace, "hotspot").claims["why"] == "spins"


@pytest.mark.parametrize(("ops", "own"), [(True, False), (False, True)])
def test_the_grid_of_a_kernel_that_no_op_launches(tmp_path, ops, own):
    """One written in Triton, and launched from Python."""
    events = [*gridded(1, 10, 900, [1], "sum_all"), *gridded(2, 910, 50, [500], ADD), step(0, 0, 1000)]
    events += [cpu("aten::sum", 4, 8)] if ops else []
    finding = found(trace_of(tmp_path, *events, **SMS), "small_grids")
    assert finding.claims["of_no_op"] is own
    bare = [event for event in events if event["cat"] != "user_annotation"]  # the CPU was not recorded
    finding = found(trace_of(tmp_path, *bare, **SMS), "small_grids")
    assert finding.claims["of_no_op"] is False


def test_small_grids_says_the_time_of_the_calls_that_are(tmp_path):
    """Of one name, two of four calls have few blocks. Without a grid or a device, nothing is said."""
    grids = [[8, 1, 1], [1000, 1, 1], [4, 2, 1], [500, 2, 1]]
    events = [e for i, grid in enumerate(grids) for e in gridded(i, 10 + 100 * i, 40 + 20 * i, grid, "one")]
    finding = found(trace_of(tmp_path, *events, **SMS), "small_grids")
    assert finding.numbers["device_ns"] == 40_000 + 80_000
    assert "one (8 blocks)" in f"{finding.claims['kernels']}"
    assert len(finding.evidence) == 2
    assert found(trace_of(tmp_path, *events, **H100), "small_grids") is None
    bare = [event | {"args": event["args"] | {"grid": None}} for event in events]
    assert found(trace_of(tmp_path, *bare, **SMS), "small_grids") is None


@pytest.mark.parametrize(("start", "fires"), [(300, True), (170, False), (40, False)])
def test_small_grids_not_where_something_runs_beside_it(tmp_path, start, fires):
    launched, beside = run(start, 60, 3, "beside", stream=8, tid=8)
    events = [*gridded(1, 10, 40, [500]), *gridded(2, 60, 120, [8]), launched, beside]
    assert (found(trace_of(tmp_path, *events, **SMS), "small_grids") is not None) is fires


@pytest.mark.parametrize(("calls", "told"), [(100, False), (101, True)])
def test_small_grids_of_many_calls(tmp_path, calls, told):
    """Not each grid of more than a hundred calls of a name is read: a tenth of the time is another's."""
    events = [e for n in range(calls) for e in gridded(n + 1, 40 * n + 10, 30, [8], "few")]
    events += gridded(999, 40 * calls + 10, 3 * calls, [500], "many")
    finding = found(trace_of(tmp_path, *events, **SMS), "small_grids")
    assert finding.claims["about"] is told
    assert share(finding.numbers["share"]) == "91%"


def test_few_blocks_are_told_once(tmp_path):
    """They are no hotspot, and not what memory limits, unless most calls of the name have more."""
    for blocks, rules in (([4], {"small_grids"}), ([400], {"memory_bound", "hotspot"})):
        events = [
            *gridded(1, 10, 900, blocks, SOFTMAX.format(way="forward")), *gridded(2, 910, 50, [500], ADD)
        ]  # fmt: skip
        fired = {finding.rule for finding in find_findings(Part(trace_of(tmp_path, *events, **SMS)))}
        assert fired & {"small_grids", "memory_bound", "hotspot"} == rules


def test_collectives_have_few_blocks(tmp_path):
    events = [*gridded(1, 10, 400, [16], NCCL), *gridded(2, 410, 600, [500])]
    assert found(trace_of(tmp_path, *events, **SMS), "small_grids") is None


def test_no_fused_attention_is_advised_in_fp64(tmp_path):
    for product, fires in ((GEMM, True), (FP64, False)):
        events = [cpu("aten::bmm", 92, 10), *run(100, 300, 1, product)]
        events += [cpu("aten::_softmax", 392, 10), *run(400, 300, 2, SOFTMAX.format(way="forward"))]
        events += [cpu("aten::bmm", 692, 10), *run(700, 300, 3, product)]
        assert (found(trace_of(tmp_path, *events), "unfused_attention") is not None) is fires


# A device that is idle for other reasons than overhead: work is queued, and waits.
@pytest.mark.parametrize(("length", "severity"), [(200, "low"), (600, "high")])
def test_faster_kernels_are_of_little_use_where_the_cpu_sets_the_pace(tmp_path, length, severity):
    events = [step(n, 1000 * n, 1000) for n in (0, 1)]
    events += [e for n in (0, 1) for e in run(1000 * n + 990 - length, length, n + 1, FP32)]
    assert found(trace_of(tmp_path, *events), "fp32_products").severity == severity


@pytest.mark.parametrize(("pause", "fires"), [(0.2, False), (1, True)])
def test_the_moments_between_short_kernels(tmp_path, pause, fires):
    """100 queued kernels of 4 us."""
    work = [kernel(300 + (4 + pause) * n, 4, n + 1) for n in range(100)]
    trace = trace_of(tmp_path, *(launch(2 * n, n + 1, 1) for n in range(100)), *work)
    finding = found(trace, "between_kernels")
    assert (finding is not None) is fires
    if finding:
        assert f"{finding.claims['share']}" == "20% of the 505 µs of the recording that count"
        assert (finding.claims["pause_ns"], finding.claims["kernel_ns"]) == (Time(1000), Time(4000))
        assert finding.numbers["idle_ns"] == 99_000


@pytest.mark.parametrize(("busy", "fires"), [(0.51, False), (0.49, True)])
def test_little_use(tmp_path, busy, fires):
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
        assert finding.claims["busy_share"] == Share(491_000, 1_007_000, "of the recording")
        assert finding.claims["causes"].each[0].name.startswith("queued")
    assert found(trace, "overhead_bound") is None


@pytest.mark.parametrize(("short", "said"), [(1, ""), (2, "2 of 2 "), (5, "5 of 5 ")])
@pytest.mark.parametrize("in_ops", [True, False])
def test_a_single_short_kernel_explains_no_idle_time(tmp_path, short, said, in_ops):
    """Nor do several where the CPU is outside of ops all the time."""
    events: list[Event] = []
    for n in range(short):
        at = 500 * n + 480
        events += [launch(at, n + 1, 8), kernel(at + 8, 5, n + 1)]
        events += [cpu("aten::mul", 500 * n, 490)] if in_ops else []
    finding = found(trace_of(tmp_path, *events, step(0, 0, 2500)), "overhead_bound")
    counted = f"{finding.claims['short_launches']} of {finding.claims['short_of']} "
    assert (counted if finding.claims["short_of"] else "") == (said if in_ops and short > 1 else "")


@pytest.mark.parametrize(("times", "told"), [(2, False), (5, True)])
def test_an_annotation_that_is_most_of_the_time_without_a_call(tmp_path, times, told):
    """The device is idle for 975 of each 1,000 us."""
    events = [event for n in range(5) for event in run(1000 * n + 10, 20, n + 1)]
    events += [cpu("prepare", 1000 * n + 100, 600, "user_annotation") for n in range(times)]
    finding = found(trace_of(tmp_path, *events), "overhead_bound")
    assert f"{finding.claims.get('within', '')}" == ("prepare (3.00 ms)" if told else "")


# The same kernel in each of three steps.
def steps(lengths: tuple[float, ...], other: str = "mm") -> list[Event]:
    events = []
    for n, length in enumerate(lengths):
        events += [step(n, 1000 * n, 900), *run(1000 * n + 100, length, 2 * n + 1, "scale")]
        events += run(1000 * n + 500, 300, 2 * n + 2, other if n == 2 else "mm")
    return events


@pytest.mark.parametrize(("lengths", "fires"), [
    ((50, 50, 64), False), ((50, 50, 66), False), ((50, 50, 90), True), ((5, 5, 9), False), ((50, 90), False)
])  # fmt: skip
def test_spread(tmp_path, lengths, fires):
    trace = trace_of(tmp_path, *steps(lengths))
    finding = found(trace, "spread")
    assert (finding is not None) is fires
    if finding:
        assert finding.numbers == {"shortest_ns": 50_000, "longest_ns": 90_000, "kernels": 1}
        assert finding.claims["of"] == Count(2)
        assert evidence(trace, finding) == ["scale"] * 3


def test_no_spread_between_steps_that_run_other_things(tmp_path):
    assert found(trace_of(tmp_path, *steps((50, 50, 90), "bmm")), "spread") is None


# What else a sentence claims.
def test_the_children_named_are_those_that_take_most_over_all_calls(tmp_path):
    events = []
    for n in range(3):
        events.append(cpu("aten::linear", 100 * n, 90))
        events += [cpu("c10d::t", 100 * n + 1, 30), cpu("c10d::mm", 100 * n + 40, 31)]
    trace = trace_of(tmp_path, *events)
    assert found(trace, "look_at_the_children") is None  # no name takes half of it
    events += [cpu("c10d::t", 100 * n + 72, 17) for n in range(3)]
    trace = trace_of(tmp_path, *events)
    finding = found(trace, "look_at_the_children")
    assert f"{finding.claims['name']}: {finding.claims['share']}" == "aten::linear: 52% of its CPU time"
    assert (finding.claims["below"], finding.numbers["inside_ns"]) == (
        "c10d::t",
        141_000,
    )  # mm is the longest
    assert finding.numbers["levels"] == 1
    assert evidence(trace, finding)[:3] == ["c10d::t", "aten::linear", "c10d::t"]


def test_an_op_that_hands_its_work_on_is_no_finding(tmp_path):
    """aten::linear is aten::addmm: that it spends its time there says nothing."""
    events = [cpu("aten::linear", 0, 100), cpu("aten::t", 1, 18), cpu("aten::addmm", 20, 76)]
    assert found(trace_of(tmp_path, *events), "look_at_the_children") is None
    events = [cpu("aten::linear", 0, 100), cpu("aten::to", 1, 20), cpu("mine::addmm", 22, 76)]
    assert found(trace_of(tmp_path, *events), "look_at_the_children") is not None


def test_the_advice_on_compiled_code_knows_its_graphs(tmp_path):
    call = [cpu("Torch-Compiled Region: 0/0", 100, 100), cpu("TorchDynamo Cache Lookup", 50, 20)]
    for more, told in (([], False), ([*run(0, 1, 1), *run(150, 10, 2)], True)):  # the CPU alone, and a GPU
        finding = found(trace_of(tmp_path, *call, *more), "compiled_overhead")
        assert finding.claims["graphs"] is told
    graph = cpu("cudaGraphLaunch", 150, 10, "cuda_runtime", correlation=1)
    finding = found(trace_of(tmp_path, *call, graph), "compiled_overhead")
    assert finding.claims["graphs"] is False


def test_guards_of_no_weight(tmp_path):
    """Less than 3% of the recording, or next to work that is queued: the device waits for 9% or 10%."""
    for guard, fires in ((29, False), (30, True)):
        call = [cpu("Torch-Compiled Region: 0/0", 100, 900), cpu("TorchDynamo Cache Lookup", 0, guard)]
        assert (found(trace_of(tmp_path, *call), "compiled_overhead") is not None) is fires
    call = [cpu("Torch-Compiled Region: 0/0", 100, 900), cpu("TorchDynamo Cache Lookup", 0, 90)]
    for waits, fires in ((90, False), (100, True)):
        device = [launch(0, 1), kernel(4, 500 - waits, 1), launch(490, 2), kernel(504, 500, 2)]
        assert (found(trace_of(tmp_path, *call, *device), "compiled_overhead") is not None) is fires


@pytest.mark.parametrize(
    ("time", "severity"), [(500, "high"), (499, "medium"), (100, "medium"), (99, "low"), (10, "low"), (9, "")]
)
def test_how_bad_it_is_to_compile_depends_on_the_share(tmp_path, time, severity):
    compiling = cpu("_compile.compile_inner (dynamo_timed)", 0, time)
    finding = found(trace_of(tmp_path, compiling, cpu("aten::mm", 500, 500)), "compiling")
    assert (finding.severity if finding else "") == severity


def test_one_call_is_one_call(tmp_path):
    events = [cpu("aten::view", 42, 4), *run(10, 30, 1), *run(60, 10, 2)]
    finding = found(trace_of(tmp_path, *events), "metadata_only")
    assert finding.numbers["calls"] == 1
    assert finding.numbers["idle_ns"] == 4000
    for begin, idle in ((37.4, None), (37.5, 1500)):  # 1.4 and 1.5 of 60 us
        found_then = found(trace_of(tmp_path, cpu("aten::view", begin, 4), *events[1:]), "metadata_only")
        assert (found_then.numbers["idle_ns"] if found_then else None) == idle
    long = [*events, *run(90, 10, 3)]
    assert found(trace_of(tmp_path, *long), "metadata_only") is None  # 4% of the recording
    rest = cpu("aten::mm", 0, 42)
    assert found(trace_of(tmp_path, *events, rest), "metadata_only") is None  # 7% of the ops' time


def test_a_call_that_its_op_does_not_suggest(tmp_path):
    """`aten::index` that waits for an allocation in an op below it; not a product in `aten::linear`."""
    wrapped = [cpu("aten::linear", 0, 90), cpu("aten::matmul", 5, 80), cpu("aten::mm", 10, 70)]
    wrapped += [launch(12, 1, 60), kernel(80, 5, 1)]
    assert found(trace_of(tmp_path, *wrapped), "look_at_the_children") is None
    below = [cpu("aten::index", 100, 200), cpu("aten::empty", 110, 180)]
    below += [cpu("cudaMalloc", 120, 160, "cuda_runtime"), cpu("cudaMalloc", 282, 5, "cuda_runtime")]
    trace = trace_of(tmp_path, *wrapped, *below)
    finding = found(trace, "look_at_the_children")
    assert f"{finding.claims['name']}: {finding.claims['share']}" == "aten::index: 82% of its CPU time"
    assert (finding.claims["below"], finding.claims["calls"]) == ("cudaMalloc", Count(1))
    assert [finding.numbers[name] for name in ("total_ns", "inside_ns", "levels")] == [200_000, 165_000, 2]
    assert evidence(trace, finding) == ["cudaMalloc", "aten::index", "cudaMalloc"]
    wait = [e | {"name": "cudaStreamSynchronize"} if e["name"] == "cudaMalloc" else e for e in below]
    assert found(trace_of(tmp_path, *wrapped, *wait), "look_at_the_children") is None  # blocking_calls


def test_a_first_use_inside_an_op_is_told_once(tmp_path):
    for name, fires in (("cudaFuncGetAttributes", True), ("cudaDeviceGetStreamPriorityRange", False)):
        inner = [cpu(name, 110 + 1000 * n, 700, "cuda_runtime") for n in range(3)]  # one is made once only
        ops = [cpu("aten::randn", 100 + 1000 * n, 800) for n in range(3)]
        trace = trace_of(tmp_path, *ops, *inner, *run(5000, 10, 1))
        assert (found(trace, "look_at_the_children") is not None) is fires


def test_queries_that_take_time(tmp_path):
    query = "cudaOccupancyMaxActiveBlocksPerMultiprocessor"
    for length, fires in ((9, False), (11, True)):
        events = [cpu("aten::mm", 0, 60), cpu(query, 5, length, "cuda_runtime"), launch(20, 1)]
        finding = found(trace_of(tmp_path, *events, kernel(40, 960, 1)), "planned_launches")
        assert (finding is not None) is fires
    alone = [cpu("aten::mm", 60, 9), cpu(query, 5, 11, "cuda_runtime"), launch(20, 1)]
    assert found(trace_of(tmp_path, *alone, kernel(40, 960, 1)), "planned_launches") is None, "of no op"


def test_a_first_step_against_one_other(tmp_path):
    events = [step(0, 0, 2600), step(1, 3000, 100), *run(10, 5, 1), *run(3010, 5, 2)]
    finding = found(trace_of(tmp_path, *events), "cold_start")
    assert (finding.claims["ratio"], finding.claims["others_alike"]) == (Ratio(26), Count(1))
    assert (finding.numbers["first_ns"], finding.numbers["usual_ns"]) == (2_600_000, 100_000)
    dear = [cpu("aten::mm", 20, 2020), cpu("aten::mm", 3020, 20)]
    finding = found(trace_of(tmp_path, *events, *dear), "cold_start")
    assert f"{finding.claims['dearer']}" == "aten::mm (2.00 ms)"


def test_a_first_step_is_compared_with_those_that_do_as_much(tmp_path):
    """Step 0 launches four kernels, step 1 none: that step 1 is short says nothing."""
    events = [step(0, 0, 1000), step(1, 1100, 5), step(2, 1200, 900)]
    for n, start in enumerate((20, 220, 420, 620, 1220, 1420, 1620)):
        events += run(start, 50, n + 1)
    assert found(trace_of(tmp_path, *events), "cold_start") is None
    events += [step(3, 2200, 100), *run(2210, 20, 8), *run(2240, 20, 9), *run(2270, 10, 10)]
    events += [step(4, 2400, 90), *run(2410, 20, 11), *run(2440, 20, 12), *run(2470, 10, 13)]
    events[2] = step(2, 1200, 110)
    finding = found(trace_of(tmp_path, *events), "cold_start")
    assert (finding.claims["others_alike"], finding.claims["usual_ns"]) == (Count(2), Time(95_000))
    assert (finding.claims["all_alike"], finding.claims["without_warm_up"]) == (False, True)


@pytest.mark.parametrize(("lengths", "cold"), [
    ((631, 571, 505, 516, 200, 15, 4, 20), False), ((631, 15, 505, 16, 20, 15, 4, 20), True)
])  # fmt: skip
def test_several_slow_steps_are_no_cold_start(tmp_path, lengths, cold):
    events: list[Event] = []
    for n, length in enumerate(lengths):
        events += [step(n, 1000 * n, length), cpu("aten::mm", 1000 * n, length - 2)]
    rules = {finding.rule for finding in find_findings(Part(trace_of(tmp_path, *events)))}
    assert bool(rules & {"cold_start", "wide_first_step"}) is cold


@pytest.mark.parametrize(("widths", "told"), [
    ((250, 100), "There is only one other step to compare with"),
    ((250, 100, 100), "The next step is like the others")
])  # fmt: skip
def test_a_wide_first_step_is_compared_with_the_others(tmp_path, widths, told):
    events = [step(n, 1000 * n, width) for n, width in enumerate(widths)]
    work = [event for n in range(len(widths)) for event in run(1000 * n + 10, 5, n + 1)]
    assert told in found(trace_of(tmp_path, *events, *work), "wide_first_step").text


def test_compiling_is_no_cold_start(tmp_path):
    events = [step(0, 0, 2600), step(1, 3000, 100), *run(10, 5, 1), *run(3010, 5, 2)]
    inner = "OutputGraph.call_user_compiler (dynamo_timed)"
    events += [cpu("_compile.compile_inner (dynamo_timed)", 100, 2400), cpu(inner, 200, 2000)]
    trace = trace_of(tmp_path, *events)
    finding = found(trace, "compiling")
    assert finding.severity == "high"
    assert finding.numbers["compile_ns"] == 2_400_000
    assert finding.claims["phases"].each[0].name == "_compile.compile_inner"
    assert evidence(trace, finding)[1] == inner
    assert found(trace, "cold_start") is None


# Attention in parts: 100 us of products, 100 us between, 100 us of softmax.
def attention(start: float, first: int, op: str = "aten::bmm", way: str = "forward") -> list[Event]:
    events = []
    parts = [(GEMM, op), (ADD, "aten::add"), (SOFTMAX.format(way=way), "aten::_softmax"), (GEMM, op)]
    if way == "backward":
        parts = [parts[0], *parts, parts[0]]
    for n, (name, around) in enumerate(parts):
        at = start + 100 * n
        events += [cpu(around, at - 8, 10), *run(at, 100, first + n, name)]
    return events


@pytest.mark.parametrize(("way", "time"), [("forward", 400), ("backward", 600)])
@pytest.mark.parametrize("rest", [2500, 6500])
def test_unfused_attention(tmp_path, way, time, rest):
    events = [*attention(100, 1, way=way), cpu("aten::mm", 992, 10), *run(1000, rest, 9, GEMM)]
    finding = found(trace := trace_of(tmp_path, *events), "unfused_attention")
    part = time / (time + rest)
    assert (finding is not None) is (part >= 0.1)
    if finding:
        assert f"{finding.claims['share']}" == f"{share(part)} of kernel and copy time"
        assert finding.numbers["device_ns"] == 1000 * time
        assert finding.severity == "medium"
        assert evidence(trace, finding) == ["aten::bmm", "aten::_softmax", "aten::bmm"]
        assert finding.claims["math"] is False


def test_attention_of_both_passes(tmp_path):
    both = [*attention(100, 1), *attention(1000, 11, way="backward")]
    finding = found(trace_of(tmp_path, *both), "unfused_attention")
    assert (finding.claims["attentions"], finding.claims["backward"]) == (Count(2), True)
    alone = found(trace_of(tmp_path, *attention(100, 1)), "unfused_attention")
    assert (alone.claims["attentions"], alone.claims["backward"]) == (Count(1), False)


def test_attention_by_math_kernels(tmp_path):
    math = cpu("aten::_scaled_dot_product_attention_math", 50, 500)
    assert found(trace_of(tmp_path, math, *attention(100, 1)), "unfused_attention").claims["math"] is True


def test_what_is_no_attention(tmp_path):
    assert found(trace_of(tmp_path, *attention(100, 1, "aten::mm")), "unfused_attention") is None
    fused = [cpu("aten::bmm", 92, 10), *run(100, 100, 1, GEMM), *run(200, 100, 2, FLASH)]
    fused += [cpu("aten::bmm", 292, 10), *run(300, 100, 3, GEMM)]
    assert found(trace_of(tmp_path, *fused), "unfused_attention") is None
    streams = attention(100, 1)
    streams[-1]["tid"] = 8  # the second product, on another stream
    assert found(trace_of(tmp_path, *streams), "unfused_attention") is None


def test_attention_without_ops_comes_several_times(tmp_path):
    for times, fires in ((2, False), (3, True)):
        graph = [
            e for n in range(times) for e in attention(100 + 500 * n, 1 + 10 * n) if e["cat"] == "kernel"
        ]
        finding = found(trace := trace_of(tmp_path, *graph), "unfused_attention")
        assert (finding is not None) is fires
        if finding:
            assert finding.numbers["attentions"] == 3
            assert finding.numbers["device_ns"] == trace.duration.sum()


def test_what_passes_over_memory(tmp_path):
    """Not the parts of an attention, and not copies from the host, whatever their time."""
    other = SOFTMAX.format(way="forward")
    rest = [cpu("aten::mm", 492, 10), *run(500, 900, 9, GEMM)]
    passing = [*run(1400, 500, 10, ADD), *run(1900, 500, 11, other)]
    finding = found(trace := trace_of(tmp_path, *rest, *passing), "memory_bound")
    assert finding.numbers["share"] == pytest.approx(1000 / 1900)
    assert evidence(trace, finding) == [ADD, other]
    assert found(trace_of(tmp_path, *rest, *attention(100, 1)), "memory_bound") is None
    copied = [*run(1400, 300, 10, ADD), *run(1700, 100, 11, other)]
    copied += [launch(1795, 12), memcpy(1800, 4000, 12)]
    trace = trace_of(tmp_path, *rest, *copied)
    assert found(trace, "memory_bound") is None
    assert found(trace, "hotspot") is None


def test_the_kernels_that_pass_over_memory_most_are_named(tmp_path):
    """Four of them, the longest first."""
    events: list[Event] = []
    for n, op in enumerate(("add", "sub", "mul", "div", "neg")):
        name = f"void at::native::vectorized_elementwise_kernel<4, at::native::{op}_kernel_cuda(int)>(int)"
        events += run(1000 * n, 900 + n, n + 1, name)
    finding = found(trace_of(tmp_path, *events), "memory_bound")
    assert [one.name.split()[0] for one in finding.claims["names"].each] == ["neg", "div", "mul", "sub"]


# Very many collectives, of `length` each, behind 2 us of computation.
def collectives(count: int, length: float, elements: int | None) -> list[Event]:
    events = []
    sent = {} if elements is None else {"In msg nelems": elements, "dtype": "Float"}
    for n in range(count):
        talk = kernel(20 + 20 * n, length, 2 * n + 1, name=NCCL)
        events += [launch(10 + 20 * n, 2 * n + 1), talk | {"args": talk["args"] | sent}]
        events += [*run(16 + 20 * n, 2, 2 * n + 2), cpu("c10d::allreduce_", 9 + 20 * n, 3)]
    return events


@pytest.mark.parametrize(("count", "length", "elements", "fires"), [
    (49, 10, 64, False), (50, 10, 64, True), (60, 10, (1 << 16) + 1, False), (60, 10, None, True)
])  # fmt: skip
def test_small_collectives(tmp_path, count, length, elements, fires):
    trace = trace_of(tmp_path, *collectives(count, length, elements))
    finding = found(trace, "small_collectives")
    assert (finding is not None) is fires
    if finding:
        assert finding.numbers["collectives"] == count
        assert f"{finding.claims['sent'] or ''}" == ("" if elements is None else "256 B")
        assert finding.numbers["exposed_ns"] == count * length * 1000
        assert finding.numbers["cpu_ns"] == count * 3000
        assert evidence(trace, finding) == [NCCL] * 20


def test_small_collectives_per_step(tmp_path):
    events = collectives(200, 10, 64)
    finding = found(trace_of(tmp_path, *events, step(0, 0, 2000), step(1, 2001, 2010)), "small_collectives")
    assert (finding.claims["many"], finding.claims["per_step"]) == (Count(100), True)
    many = [step(n, 200 * n, 199) for n in range(20)]  # 10 in each
    assert found(trace_of(tmp_path, *events, *many), "small_collectives") is None


# The recording itself.
def ddp(buffers: float, gradients: float, forward: str = "DistributedDataParallel.forward") -> list[Event]:
    """A step of 1,000 us in which DDP's own copies take so long on the CPU."""
    return [
        step(0, 0, 1000), cpu(forward, 1, 400, "user_annotation"),
        cpu("aten::flatten_dense_tensors", 2, buffers / 2),
        cpu("aten::unflatten_dense_tensors", 102, buffers / 2), *run(390, 20, 1),
        cpu("torch.distributed.ddp.reducer::copy_bucket_to_grad", 500, gradients), *run(980, 20, 2)
    ]  # fmt: skip


@pytest.mark.parametrize(("buffers", "gradients", "severity", "said"), [
    (30, 19, "", ""), (30, 22, "low", "buffers gradients"), (60, 0, "low", "buffers"),
    (0, 110, "medium", "gradients")
])  # fmt: skip
def test_what_ddp_copies(tmp_path, buffers, gradients, severity, said):
    finding = found(trace_of(tmp_path, *ddp(buffers, gradients)), "ddp_copies")
    assert (finding.severity if finding else "") == severity
    if finding:
        assert finding.numbers["cpu_ns"] == (buffers + gradients) * 1000
        assert (finding.claims["buffers_ns"].ns > 0) is ("buffers" in said)
        assert (finding.claims["gradients_ns"].ns > 0) is ("gradients" in said)
    # The flat tensors of others are none of DDP's.
    assert found(trace_of(tmp_path, *ddp(buffers, 0, "forward")), "ddp_copies") is None


def test_what_ddp_copies_costs_nothing_where_the_gpu_is_busy(tmp_path):
    assert found(trace_of(tmp_path, *[*ddp(60, 60), *run(6, 990, 3, stream=9)]), "ddp_copies") is None


def test_a_captured_graph(tmp_path):
    events = [cpu("cudaStreamIsCapturing", 1, 1, "cuda_runtime"), *run(10, 20, 1)]
    assert found(trace_of(tmp_path, *events), "graph_capture") is None
    for name, start, length in (
        ("cudaStreamBeginCapture", 100, 5),
        ("cudaStreamEndCapture", 300, 10),
        ("cudaGraphInstantiateWithFlags", 320, 50),
        ("cudaStreamBeginCapture", 900, 5),  # its end was not recorded
    ):
        events.append(cpu(name, start, length, "cuda_runtime"))
    finding = found(trace := trace_of(tmp_path, *events), "graph_capture")
    assert finding.numbers["captures"] == 1
    assert finding.numbers["capture_ns"] == 210_000
    assert finding.numbers["instantiate_ns"] == 50_000
    assert evidence(trace, finding)[0] == "cudaStreamBeginCapture"
    assert len(finding.evidence) == 3


@pytest.mark.parametrize(("stacks", "shapes", "busy", "fires"), [
    (True, True, 100, True), (True, False, 100, False), (False, True, 100, False), (True, True, 880, False)
])  # fmt: skip
def test_a_recording_that_costs(tmp_path, stacks, shapes, busy, fires):
    events = [cpu("aten::mm", 5, 10, **({"Input Dims": [[2, 2]]} if shapes else {}))]
    events += [*run(12, busy, 1), *run(900, 100, 2)]
    if stacks:
        events += [
            cpu("a.py(1): main", 0, 950, "python_function"), cpu("a.py(9): f", 2, 40, "python_function")
        ]  # fmt: skip
    finding = found(trace := trace_of(tmp_path, *events), "recording_cost")
    assert (finding is not None) is fires
    if finding:
        assert finding.claims["also"] == names_of(["shapes"])
        assert evidence(trace, finding) == ["a.py(1): main", "a.py(9): f"]
        for name, told in (("[memory]", ["shapes", "memory"]), ("[other]", ["shapes"])):
            mark = {"ph": "i", "s": "t", "name": name, "pid": 9, "tid": 9, "ts": 5, "args": {"Bytes": 8}}
            assert found(trace_of(tmp_path, *events, mark), "recording_cost").claims["also"] == names_of(told)


def test_stacks_alone_cost_where_there_are_very_many(tmp_path):
    for calls, fires in ((60, False), (140, True)):
        events = [cpu(f"a.py({n}): f", 7 * n, 5, "python_function") for n in range(calls)]
        finding = found(
            trace_of(tmp_path, cpu("aten::mm", 0, 10), *run(10, 1, 1), *run(1000, 9, 2), *events),
            "recording_cost",
        )
        assert (finding is not None) is fires
        if finding:
            assert finding.claims["also"] == names_of([])


# Copies against the link: an A10 has PCIe 4.0 x16, 31.5 GB/s one way.

MI210 = {"deviceProperties": [
    {"id": 0, "name": "AMD Instinct MI210", "computeMajor": 9, "computeMinor": 0, "numSms": 104}
]}  # fmt: skip
A10 = {
    "deviceProperties": [{"id": 0, "name": "NVIDIA A10", "computeMajor": 8, "computeMinor": 6, "numSms": 72}]
}


@pytest.mark.parametrize(("gbps", "told"), [(15.7, "50%"), (15.8, ""), (10, "32%"), (40, "")])
def test_slow_copies(tmp_path, gbps, told):
    copy = memcpy(100, 1000, 1)
    copy["args"]["bytes"] = int(gbps * 1e6)
    trace = trace_of(tmp_path, launch(95, 1, name="cudaMemcpyAsync"), copy, *run(1200, 500, 2), **A10)
    finding = found(trace, "slow_copies")
    assert (finding is not None) is bool(told)
    if finding:
        assert finding.claims["pinned"] is True
        assert f"{finding.claims['link_share']}" == f"{told} of what PCIe 4.0 x16 carries one way"
    exposed = found(trace, "exposed_copies")
    assert exposed is not None
    part = f" ({share(gbps / 31.5)} of what PCIe 4.0 x16 carries one way)" if gbps < 31.5 else ""
    reached = f" ({exposed.claims['link_share']})" if "link_share" in exposed.claims else ""
    assert f"{exposed.claims['rate']}{reached}" == f"{gbps:.1f} GB/s{part}"
    unknown = trace_of(tmp_path, launch(95, 1, name="cudaMemcpyAsync"), copy, *run(1200, 500, 2))
    assert found(unknown, "slow_copies") is None


def test_the_share_of_slow_copies_is_one_of_the_range(tmp_path):
    """Two copies of 1,000 us at a time on two streams, which end after the range."""
    events = [launch(0, 1, name="cudaMemcpyAsync"), launch(5, 2, name="cudaMemcpyAsync"), *run(1200, 500, 3)]
    for stream in (7, 8):
        copy = memcpy(100, 1000, stream - 6)
        copy["tid"], copy["args"]["stream"], copy["args"]["bytes"] = stream, stream, 10_000_000
        events.append(copy)
    trace = trace_of(tmp_path, *events, **A10)
    for scope, part in ((None, 1000 / 1600), (range_scope(50_000, 600_000), 1.0)):
        results = Part(trace).in_scope(scope) if scope else Part(trace)
        shares = [f.numbers["share"] for f in find_findings(results) if f.rule == "slow_copies"]
        assert shares == [pytest.approx(part)]


def test_slow_copies_are_those_of_pinned_memory_and_the_host(tmp_path):
    others = [
        memcpy(3000, 700, 3, "HtoD (Pageable -> Device)"), memcpy(4000, 600, 4, "DtoD (Device -> Device)")
    ]  # fmt: skip
    events = [launch(95, 1, name="cudaMemcpyAsync"), memcpy(100, 1000, 1), *others, *run(5200, 500, 2)]
    assert found(trace_of(tmp_path, *events, **A10), "slow_copies").numbers["copy_ns"] == 1_000_000


@pytest.mark.parametrize("name", [
    "CopyHostToDevice", "CopyDeviceToHost", "Memcpy HtoD (Host -> Device)", "Memcpy M2D (Memory -> Device)"
])  # fmt: skip
def test_slow_copies_of_memory_that_names_do_not_tell(tmp_path, name):
    def copied(gbps: float, name: str) -> Trace:
        copy = memcpy(100, 1000, 1) | {"name": name}
        copy["args"]["bytes"] = int(gbps * 1e6)
        return trace_of(tmp_path, launch(95, 1, name="hipMemcpyAsync"), copy, *run(1200, 500, 2), **MI210)

    finding = found(copied(12.0, name), "slow_copies")
    assert f"{finding.claims['link_share']:bare}" == "38%"
    assert finding.claims["pinned"] is False
    assert found(copied(16.0, name), "slow_copies") is None
    for other in ("CopyDeviceToDevice", "Memcpy PtoP (Device -> Device)", "Memcpy D2D (Device -> Device)"):
        assert found(copied(12.0, other), "slow_copies") is None


def test_a_copy_within_the_device_is_none_of_the_host(tmp_path):
    for name, host in (("Memcpy D2D (Device -> Device)", False), ("Memcpy M2D (Memory -> Device)", True)):
        copy = memcpy(100, 1000, 1) | {"name": name}
        trace = trace_of(tmp_path, launch(95, 1, name="urEnqueueUSMMemcpy"), copy, *run(1200, 100, 2))
        assert (found(trace, "exposed_copies") is not None) is host


def test_what_stands_first(tmp_path):
    """Of one severity, what takes most of the time; a piece of evidence stands once."""
    trace = trace_of(
        tmp_path, *run(100, 400, 1, FP32), *run(500, 500, 2, UNALIGNED), *run(1000, 100, 3), **H100
    )
    assert [f.rule for f in find_findings(Part(trace))][:2] == ["unaligned_products", "fp32_products"]
    for finding in find_findings(Part(trace)):
        assert len(set(finding.evidence)) == len(finding.evidence)


def test_evidence_is_listed_by_short_names(tmp_path):
    text = plain_text(findings_lines(Part(trace_of(tmp_path, *products(UNALIGNED, 300))), 100))
    assert "  > gemm bf16 256x128 tn at 5.000 µs, 300 µs" in text
    assert "cutlass" not in text


@pytest.mark.parametrize(
    ("calls", "said"), [(19, "  > and 16 more"), (20, "  > and more"), (25, "  > and more")]
)
def test_a_full_list_of_evidence_counts_nothing(tmp_path, calls, said):
    events = [event for n in range(calls) for event in run(10 + 100 * n, 90, n + 1, "big")]
    trace = trace_of(tmp_path, *events, *run(5000, 10, 99))
    assert said in plain_text(findings_lines(Part(trace), 100)).splitlines()


def test_a_stretch_within_one_kernel_has_no_findings(tmp_path):
    trace = trace_of(tmp_path, *run(100, 1000, 1, "Memcpy DtoD (Device -> Device)", cat="gpu_memcpy"))
    assert find_findings(Part(trace).in_scope(range_scope(200_000, 300_000))) == ()


# What the idle time is put down to, and what is advised.
def test_where_no_work_ends_the_idle_time_the_last_work_shows_it(tmp_path):
    events = [launch(0, 1), launch(5, 2), kernel(10, 10, 1), kernel(20, 10, 2)]
    finding = found(trace := trace_of(tmp_path, step(0, 10, 990), *events), "overhead_bound")
    assert finding is not None
    assert evidence(trace, finding) == ["k2"]


def test_waiting_for_batches_is_named_as_the_reason(tmp_path):
    """The loader runs ops of its own: its time is `dispatch`, and yet no larger batch helps."""
    loading = [cpu("aten::stack", 1000 * n + 5, 390) for n in range(2)]
    finding = found(trace_of(tmp_path, *loop(400, *loading)), "overhead_bound")
    assert finding.claims["loading_ns"] == Time(800_000)
    assert "load in workers" in f"{finding.claims['advice']}"
    trace = trace_of(tmp_path, *loop(400, *loading))
    shares = {f.rule: f.claims.get("share") for f in find_findings(Part(trace))}
    assert shares["data_loading"] == Share(800_000, 2_000_000, "of the steps")


def test_loading_where_nothing_else_was_recorded(tmp_path):
    """As when the export comes after the first step of another cycle of the profiler's schedule."""
    loader = cpu("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 110, 90, "user_annotation")
    finding = found(
        trace_of(tmp_path, step(6, 100, 300), loader, cpu("Iteration", 0, 1000, "Trace")), "data_loading"
    )
    assert f"{finding.claims['share']}" == "30% of the step"
    assert finding.claims["launches"] is True


def test_a_single_long_gap_is_told_and_what_it_is_in(tmp_path):
    """Steps of 1,000 us with five kernels of 140 us; in the second one a checkpoint."""

    def told(save: float, steps: bool = True, name: str = "torch.save") -> Finding | None:
        starts, lengths = (0, 1000, 2000 + save), (1000, 1000 + save, 1000)
        events = [step(n, at, lengths[n]) for n, at in enumerate(starts) if steps]
        for n, at in enumerate(starts):
            events += [e for i in range(5) for e in run(at + 100 + 170 * i, 140, 5 * n + i + 1)]
        call = cpu(name, 1940, save, "user_annotation" if name == "torch.save" else "cpu_op")
        return found(trace_of(tmp_path, *events, call), "overhead_bound")

    finding = told(9000)
    assert finding is not None
    within = "The CPU was in torch.save for 9.00 ms of it."
    alone = "Step 1 alone has 9.30 ms of it: it takes 10.0 ms, the median step 1.00 ms."
    assert finding.text.endswith(f"{within} {alone}")
    assert told(1) is None
    assert told(9000, steps=False).text.endswith(f"{within} One gap alone takes 9.18 ms.")
    compiled = told(9000, name="bytecode_tracing (dynamo_timed)")
    assert compiled.text.endswith(f"For 9.00 ms of it, torch.compile was compiling. {alone}")
    assert "compiling" in f"{compiled.claims['advice']}"


def test_what_was_compiled_before_what_counts_is_not_in_it(tmp_path):
    """The lead-in of the first of three steps, 5,000 us, does not count; it is all compiling."""
    phase = cpu("bytecode_tracing (dynamo_timed)", 10, 4900)
    events = [step(0, 0, 6000), *(step(n, 5000 + 1000 * n, 1000) for n in (1, 2)), phase]
    events += [e for n in range(3) for e in run(5020 + 1000 * n, 100, n + 1)]
    finding = found(
        trace_of(tmp_path, *events, *(cpu("aten::mm", 5200 + 1000 * n, 700) for n in range(3))),
        "overhead_bound",
    )
    assert "compiling_ns" not in finding.claims
    assert "compiling" not in f"{finding.claims['advice']}"


def test_no_ops_no_word_on_python(tmp_path):
    finding = found(trace_of(tmp_path, *run(10, 10, 1), *run(400, 10, 2)), "overhead_bound")
    assert "no ops" in f"{finding.claims['causes']}"
    assert "no ops" in f"{finding.claims['advice']}"


def test_memory_that_is_given_back_is_advised_on_where_it_is_the_second_cause(tmp_path):
    events = [*run(10, 10, 1), *run(2000, 10, 2), cpu("aten::mm", 30, 1900)]
    frees = [cpu("cudaFree", at, 300, "cuda_runtime") for at in (50, 400)]
    finding = found(trace_of(tmp_path, *events, *frees), "overhead_bound")
    assert "allocation" in f"{finding.claims['advice']}"
    # The first of all may be what creates the context.
    once = cpu("cudaFree", 50, 600, "cuda_runtime")
    finding = found(trace_of(tmp_path, *events, once), "overhead_bound")
    assert finding is not None
    assert "allocation" not in f"{finding.claims['advice']}"


def test_first_requests_for_memory_are_not_put_down_to_freeing(tmp_path):
    events = [*run(10, 10, 1), *run(700, 10, 2), cpu("aten::empty", 100, 590)]
    events.append(cpu("cudaMalloc", 110, 570, "cuda_runtime"))
    finding = found(trace_of(tmp_path, *events), "overhead_bound")
    assert "first requests" in f"{finding.claims['advice']}"
    events.append(cpu("cudaFree", 36, 64, "cuda_runtime"))
    finding = found(trace_of(tmp_path, *events), "overhead_bound")
    assert "allocation" in f"{finding.claims['advice']}"


def test_where_cpu_and_gpu_take_turns_faster_kernels_would_help(tmp_path):
    """A loop that waits for the GPU, then loads: each waits for the other in turn."""
    events = []
    for n in range(3):
        at = 1000 * n
        events += [step(n, at, 1000), *run(at + 10, 400, n + 1), cpu("aten::item", at + 20, 395)]
        events.append(cpu("cudaStreamSynchronize", at + 25, 387, "cuda_runtime"))
    finding = found(trace_of(tmp_path, *events), "overhead_bound")
    assert (finding.claims["pace"], finding.claims["waited_ns"]) == ("turns", Time(770_000))
    # One wait at the end is no turn.
    once = [*run(10, 10, 1), *run(600, 200, 2), cpu("cudaDeviceSynchronize", 602, 199, "cuda_runtime")]
    finding = found(trace_of(tmp_path, *once), "overhead_bound")
    assert finding.claims["pace"] == "the CPU's"
    # The waits of another thread hold nothing up.
    elsewhere = [e | {"tid": 8} if e["name"] == "cudaStreamSynchronize" else e for e in events]
    finding = found(trace_of(tmp_path, *elsewhere), "overhead_bound")
    assert finding.claims["pace"] == "the CPU's"


@pytest.mark.parametrize(
    ("rest", "severity", "said"), [(1600, "info", "costs little here"), (4000, "low", "cannot work ahead")]
)
def test_waits_that_leave_the_gpu_busy_cost_what_the_cpu_could_have_done(tmp_path, rest, severity, said):
    waiting = [
        *run(10, 1400, 1), cpu("aten::item", 20, 1380), cpu("cudaStreamSynchronize", 30, 1360, "cuda_runtime")
    ]  # fmt: skip
    finding = found(trace_of(tmp_path, *waiting, *[*run(1412, 5, 2), *run(rest, 400, 3)]), "blocking_calls")
    assert finding.severity == severity
    assert said in finding.text
    assert finding.claims["why"] == ("leave" if severity == "info" else "read later")
    if severity == "low":
        hidden = f"{finding.claims['hidden_ns']} of {finding.claims['for_the_cpu_ns']}"
        assert (finding.claims["meanwhile"], hidden) == ("not ahead", "1.36 ms of 2.59 ms")


def test_the_advice_on_overhead_knows_what_is_done_already(tmp_path):
    def advice(*events: Event) -> str:
        finding = found(trace_of(tmp_path, *events), "overhead_bound")
        return f"{finding.claims['advice']}"

    busy = [cpu("aten::mm", 0, 990), *run(10, 10, 1), *run(900, 10, 2)]
    assert advice(*busy) == "more per launch"
    assert advice(*busy, cpu("Torch-Compiled Region: 0/0", 0, 995)).startswith("compiled already")
    graph = [e | {"name": "cudaGraphLaunch"} if e["name"] == "cudaLaunchKernel" else e for e in busy]
    assert advice(*graph) == "graphs already"


@pytest.mark.parametrize("stream", [7, 8])
def test_work_that_is_queued_waits_for_what_there_is(tmp_path, stream):
    """On one stream, with all launches recorded, there is nothing left in the process to wait for."""
    events = [*run(10, 300, 1), *run(10, 5, 3, stream=stream), launch(20, 2), kernel(700, 300, 2, stream)]
    finding = found(trace_of(tmp_path, *events), "idle_time")
    assert finding.claims["causes"].each[0].name == ("queued alone" if stream == 7 else "queued")
    assert f"{finding.claims['advice']}" == ("other processes" if stream == 7 else "queued")


def test_what_can_hide_copies(tmp_path):
    def advice(length: float, *, compute: float, stream: int, memory: str = "Pinned") -> str:
        copy = [
            launch(95, 1, name="cudaMemcpyAsync"),
            memcpy(100, length, 1, f"HtoD ({memory} -> Device)", stream),
        ]
        return found(trace_of(tmp_path, *copy, *run(110 + length, compute, 2)), "exposed_copies").advice

    assert advice(500, compute=49, stream=14).startswith("Copy less")
    assert advice(500, compute=51, stream=14).startswith("Start each copy a batch ahead")
    assert advice(500, compute=51, stream=7).startswith("Copy the next batch")
    assert advice(500, compute=51, stream=14, memory="Pageable").startswith("Copy the next batch")


def test_a_kernel_of_one_operator_and_views_is_not_fused(tmp_path):
    assert (
        found(trace_of(tmp_path, *run(10, 100, 1, "triton_poi_fused_gelu_view_2")), "fused_kernels") is None
    )
    fused = run(10, 100, 1, "triton_poi_fused_add_gelu_view_2")
    assert found(trace_of(tmp_path, *fused), "fused_kernels") is not None
    # Of a device that is nearly always idle it does not matter.
    for step_length, fires in ((4000, True), (4001, False)):
        trace = trace_of(tmp_path, *fused, step(0, 0, step_length))
        assert (found(trace, "fused_kernels") is not None) is fires


def test_steps_that_are_found_have_no_schedule(tmp_path):
    def cold(name: str) -> str:
        events = [e for n in range(5) for e in run(10_000 + 100 * n, 5, n + 2)]
        first = cpu(name.format(0), 0, 9_000, "user_annotation")
        later = [cpu(name.format(n + 1), 9_990 + 100 * n, 90, "user_annotation") for n in range(5)]
        return found(trace_of(tmp_path, first, *run(100, 5, 1), *later, *events), "cold_start").text

    assert "the profiler had no warm-up" in cold("ProfilerStep#{}")
    assert "schedule" not in cold("iteration {}")


@pytest.mark.parametrize(("elements", "small"), [(65_536, True), (65_537, False)])
def test_a_collective_of_256_kib_is_still_small(tmp_path, elements, small):
    finding = found(trace_of(tmp_path, *collectives(60, 10, elements)), "small_collectives")
    assert (finding is not None) is small


@pytest.mark.parametrize(("usual", "far"), [(4, False), (5, True)])
def test_what_some_kernels_take_beyond_the_usual_is_a_part_of_all(tmp_path, usual, far):
    """Eleven times the usual: 40 of 952 us too much are 4.2%, 50 of 965 are 5.2%."""
    finding = found(trace_of(tmp_path, *steps((usual, usual, 11 * usual))), "spread")
    assert (finding is not None and "device_ns" in finding.claims) is far


@pytest.mark.parametrize(("long", "far"), [(499, False), (501, True)])
def test_kernels_that_another_process_interrupts(tmp_path, long, far):
    finding = found(trace_of(tmp_path, *steps((50, 50, long))), "spread")
    assert ("device_ns" in finding.claims) is far
    if far:
        assert finding.numbers["device_ns"] == 451_000
        assert finding.severity == "medium"
        assert finding.numbers["share"] == pytest.approx(451 / 1501)


def test_the_time_between_kernels_is_no_idle_finding(tmp_path):
    """On a device that is 80% busy with kernels of 8 us, 2 us apart, nothing held anything up."""
    events = [launch(0, 1, name="cudaGraphLaunch")]
    events += [kernel(10 + 10 * n, 8, 1) for n in range(100)]
    assert found(trace_of(tmp_path, *events), "idle_time") is None
    assert found(trace_of(tmp_path, *run(10, 500, 1), *run(700, 300, 2)), "idle_time") is not None


def test_where_ranks_wait_for_each_other_the_cpu_is_not_all(tmp_path):
    finding = found(trace_of(tmp_path, *[*run(10, 100, 1), *run(600, 100, 2)]), "overhead_bound")
    assert finding.claims["pace"] == "the CPU's"
    finding = found(trace_of(tmp_path, *[*run(10, 100, 1), *run(600, 150, 2, name=NCCL)]), "overhead_bound")
    assert finding.claims["pace"] != "the CPU's"


def test_a_full_queue_is_no_cold_start(tmp_path):
    events = [step(0, 0, 2600), step(1, 3000, 100), *run(10, 5, 1), *run(3010, 5, 2)]
    assert found(trace_of(tmp_path, *events), "cold_start") is not None
    events.append(cpu("Command Buffer Full", 50, 2500, "overhead"))
    assert found(trace_of(tmp_path, *events), "cold_start") is None


def test_the_kernel_after_the_top_one_is_as_long(tmp_path):
    events = [*run(10, 300, 1, "a"), *run(310, 290, 2, "b")]
    assert found(trace_of(tmp_path, *events), "hotspot") is None
    events[-1]["dur"] = 150
    assert found(trace_of(tmp_path, *events), "hotspot") is not None


def test_collectives_of_the_cpu(tmp_path):
    events = [step(0, 0, 1000), cpu("aten::mm", 0, 300)]
    finding = found(trace_of(tmp_path, *events, cpu("gloo:all_reduce", 200, 600, tid=9)), "communication")
    assert finding.claims["share"] == Share(500_000, 1_000_000, "of the step")
    assert (finding.claims["kind"], finding.numbers["communication_ns"]) == ("of the CPU", 600_000)
    assert (
        found(trace_of(tmp_path, *events, cpu("gloo:all_reduce", 200, 150, tid=9)), "communication") is None
    )


WGRAD = "void cudnn::cnn::wgrad_alg0_engine<float, 128, 6, 7, 3, 3, 5, false, 512>(int)"
TO_NHWC = "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true, (cudnnKernelDataType_t)2>(int)"


def test_convolutions_on_plain_units_of_a_device_without_a_name(tmp_path):
    finding = found(trace_of(tmp_path, *run(10, 300, 1, WGRAD), *run(310, 300, 2, FP32)), "fp32_products")
    assert finding.numbers["share"] == 1.0
    assert finding.claims["why"] == "unknown"


@pytest.mark.parametrize(("length", "fires"), [(10, False), (20, True)])
def test_layout_conversions(tmp_path, length, fires):
    events = [*run(10, 300, 1, WGRAD), *run(310, length, 2, TO_NHWC)]
    finding = found(trace_of(tmp_path, *events), "layout_conversions")
    assert (finding is not None) is fires
    assert found(trace_of(tmp_path, *events[2:]), "layout_conversions") is None  # no convolution
    for op, advice in (("aten::conv1d", "1"), ("aten::conv2d", "2")):
        finding = found(trace_of(tmp_path, *events, cpu(op, 0, 9)), "layout_conversions")
        assert (finding is not None) is fires
        assert finding is None or finding.claims["dims"] == advice


# Work of before the recording: kernels without a launch, before the first of their stream that has one.
def earlier(length: float, own: float) -> list[Event]:
    """Of two events launched before the recording, the second follows its predecessor at once."""
    queued = [kernel(10, length - 1, 900), kernel(10 + length - 1, 1, 901)]
    return [cpu("aten::mm", 0, 20), *queued, launch(5, 1), kernel(10 + length, own, 1)]


@pytest.mark.parametrize(("length", "own", "fires", "said"), [
    (49, 151, False, False), (51, 149, True, False), (99, 101, True, False), (101, 99, True, True)
])  # fmt: skip
def test_work_in_flight_at_start(tmp_path, length, own, fires, said):
    trace = trace_of(tmp_path, *earlier(length, own))
    part = Part(trace)
    finding, verdict = found(trace, "work_in_flight_at_start"), verdict_of(part)
    assert earlier_share_of(part) == pytest.approx(length / 200)
    assert (finding is not None) is fires
    assert ("work that was launched before the recording." in verdict.reason) is said
    if finding:
        assert finding.severity == "info"
        assert f"{finding.claims['share']}" == f"{share(length / 200)} of the busy time"
        assert finding.numbers["events"] == 2
        assert finding.numbers["last_end_ns"] == 1000 * (10 + length)
        assert evidence(trace, finding) == ["k900", "k901"]


def test_work_without_a_launch_later_on_is_not_of_before_the_recording(tmp_path):
    # One kernel of a graph whose node has no correlation, after the stream's first launch.
    late = [launch(5, 1), kernel(10, 10, 1), kernel(20, 90, 900)]
    assert not found(trace_of(tmp_path, cpu("aten::mm", 0, 20), *late), "work_in_flight_at_start")
    # Nor does anything say so where no launch was recorded at all.
    assert not found(trace_of(tmp_path, kernel(10, 10, 1), kernel(20, 90, 2)), "work_in_flight_at_start")


def test_calls_and_copies_of_an_intel_gpu(tmp_path):
    for name in ("urQueueFinish", "urEventWait", "zeFenceHostSynchronize"):
        assert is_synchronizing(name)
    assert is_allocation("urUSMDeviceAlloc")
    assert decode("Memcpy M2D (Memory -> Device)").short == "memcpy M2D"
    finding = found(
        trace_of(tmp_path, step(0, 0, 1000), *run(100, 500, 1, "Memcpy M2D", cat="gpu_memcpy")),
        "exposed_copies",
    )
    assert (finding.numbers["copies"], f"{finding.claims['ways']}") == (1, "M2D")


def test_where_nothing_links_launches_and_work_nothing_is_said_of_them(tmp_path):
    events: list[Event] = []
    for n in range(20):
        events += [
            cpu("aten::reshape", 100 * n, 60), launch(100 * n + 20, n + 1), kernel(100 * n + 30, 5, 1000 + n)
        ]  # fmt: skip
    findings = {f.rule: f for f in find_findings(Part(trace_of(tmp_path, *events)))}
    assert "metadata_only" not in findings
    assert f"{findings['little_use'].claims['advice']}" != "unlinked"
    for n in range(20):
        events[3 * n + 2]["args"]["correlation"] = n + 1
    events += [cpu("aten::view", 100 * n + 70, 25) for n in range(20)]
    assert "metadata_only" in {f.rule for f in find_findings(Part(trace_of(tmp_path, *events)))}


# What a program does to itself, step after step.
def small(op: str, start: float, correlation: int, busy: float = 2, **args: str) -> list[Event]:
    """An op of 8 us that launches a short kernel."""
    return [cpu(op, start, 8, **args), launch(start + 2, correlation), kernel(start + 9, busy, correlation)]


@pytest.mark.parametrize(("op", "count", "instead"), [
    ("aten::lerp_", 40, "torch._foreach_lerp_"),
    ("aten::linalg_vector_norm", 40, "clip_grad_norm_(..., foreach=True)"),
    ("aten::zero_", 40, "zero_grad(set_to_none=True)"),
    ("aten::lerp_", 20, ""),
    ("aten::index_put_", 40, ""),
])  # fmt: skip
def test_tensor_loops(tmp_path, op, count, instead):
    events = [e for n in range(count) for e in small(op, 10 * n, n + 1)]
    events += [e for n in range(40) for e in small(f"aten::op{n % 2}", 1000 + 10 * n, n + 101)]
    finding = found(trace_of(tmp_path, *events), "tensor_loops")
    assert (instead in finding.advice if finding else "") == (True if instead else "")
    if finding:
        assert finding.numbers["calls"] == 40
        assert f"{finding.claims['loops']}" == f"{op} (40, 398 µs)"


def test_a_loop_of_the_optimizer_is_the_optimizers(tmp_path):
    events = [e for n in range(40) for e in small("aten::add_", 10 * n + 1, n + 1)]
    trace = trace_of(tmp_path, cpu("Optimizer.step#SGD.step", 0, 420, "user_annotation"), *events)
    assert found(trace, "tensor_loops").claims["in_optimizer"] is True


def test_memory_that_is_allocated_and_freed_in_every_step(tmp_path):
    """A sixth of each step in cudaMalloc and cudaFree, half of it in ops: said, though not the main cause."""
    events: list[Event] = []
    for n in range(4):
        at = 1000 * n
        events += [step(n, at, 990), cpu("aten::mm", at + 10, 700), launch(at + 700, n + 1)]
        events += [
            cpu("cudaMalloc", at + 100, 80, "cuda_runtime"), cpu("cudaFree", at + 200, 80, "cuda_runtime")
        ]  # fmt: skip
        events.append(kernel(at + 710, 100, n + 1))
    finding = found(trace_of(tmp_path, *events), "allocations")
    assert finding.severity == "medium"
    assert "cudaFree (4, 320 µs)" in f"{finding.claims['names']}"
    assert "allocation" in f"{finding.claims['advice']}"
    # Next to a first use that is most of the time and not counted, it is little.
    first = [cpu("aten::mm", -20_900, 20_000), cpu("Lazy Function Loading", -2000, 30, "overhead")]
    first += [step(9, -20_950, 20_900), launch(-1000, 99), kernel(-950, 20, 99)]
    finding = found(trace_of(tmp_path, *first, *events), "allocations")
    assert finding.severity == "low"
    assert finding.numbers["share"] > 0.1
    # Where it is the main cause, that is told of the idle time, and once.
    for event in events:
        event["dur"] = {"cudaMalloc": 350, "cudaFree": 300}.get(event["name"], event["dur"])
        event["ts"] += 300 * (event["name"] == "cudaFree")
    rules = [f.rule for f in find_findings(Part(trace_of(tmp_path, *events)))]
    assert "idle_time" in rules or "overhead_bound" in rules, rules
    assert "allocations" not in rules


@pytest.mark.parametrize(("test", "fires"), [("aten::_is_any_true", True), ("aten::any", False)])
def test_anomaly_detection(tmp_path, test, fires):
    events: list[Event] = []
    for n in range(4):
        at = 100 * n
        node = "autograd::engine::evaluate_function: MulBackward0"
        events += [
            cpu(node, at, 60), *small("aten::isnan", at + 10, 2 * n + 1), *small(test, at + 20, 2 * n + 2)
        ]  # fmt: skip
        events.append(cpu("aten::item", at + 30, 10))
    finding = found(trace_of(tmp_path, *events), "anomaly_detection")
    assert (finding is not None) is fires
    if finding:
        assert finding.numbers == {"nodes": 4.0, "check_ns": 104_000.0, "share": pytest.approx(104 / 360)}


def test_the_waits_of_anomaly_detection_are_told_once(tmp_path):
    events: list[Event] = []
    for n in range(4):
        at, wait = 1000 * n, cpu("cudaStreamSynchronize", 0, 90, "cuda_runtime")
        events += [
            cpu("autograd::engine::evaluate_function: MulBackward0", at, 600),
            *small("aten::isnan", at + 10, 2 * n + 1), *small("aten::_is_any_true", at + 20, 2 * n + 2),
            *(cpu("aten::item", at + 30, 100), wait | {"ts": at + 35})
        ]  # fmt: skip
    trace = trace_of(tmp_path, *events)
    bound = found(trace, "overhead_bound")
    assert "anomaly" in f"{bound.claims['advice']}"
    assert found(trace, "anomaly_detection")
    assert not found(trace, "blocking_calls")
    own = [cpu("aten::item", 700, 200), cpu("cudaStreamSynchronize", 705, 190, "cuda_runtime")]
    finding = found(trace_of(tmp_path, *events, *own), "blocking_calls")
    assert finding
    assert (finding.numbers["calls"], finding.numbers["wait_ns"]) == (1, 190_000)


_TO_BF16 = "void at::native::vectorized_elementwise_kernel<8, at::native::bfloat16_copy_kernel_cuda(...)>"
_TO_FP32 = (
    "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(...), LoadWithCast>"
)
_LAYOUT = (
    "at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<direct_copy_kernel_cuda>>"
)


@pytest.mark.parametrize(("op", "name", "busy", "where", "advice"), [
    ("aten::linear", _TO_BF16, 20, "aten::linear (4, 80.0 µs)", "Keep the weights in the lower type"),
    ("aten::to", _TO_FP32, 20, "outside of other ops (4, 80.0 µs)", "Convert a weight or a constant once"),
    ("aten::nll_loss", _TO_FP32, 20, "aten::nll_loss (4, 80.0 µs)", "Convert a weight or a constant once"),
    ("aten::_scaled_dot_product_attention_math", _TO_FP32, 20, None, ""),
    ("ToCopyBackward0", _TO_FP32, 20, "the gradients of casts (4, 80.0 µs)", ""),
    ("aten::to", _LAYOUT, 20, None, ""),
    ("aten::linear", _TO_BF16, 5, None, ""),
])  # fmt: skip
def test_type_conversions(tmp_path, op, name, busy, where, advice):
    events: list[Event] = []
    for n in range(4):
        at = 400 * n
        events += [cpu(op, at, 40), cpu("aten::to", at + 1, 20), cpu("aten::_to_copy", at + 2, 18)]
        events += [cpu("aten::copy_", at + 3, 16), launch(at + 5, 2 * n + 1), launch(at + 25, 2 * n + 2)]
        events += [kernel(at + 15, busy, 2 * n + 1, name=name), kernel(at + 50, 80, 2 * n + 2)]
    finding = found(trace_of(tmp_path, *events), "type_conversions")
    assert (finding is not None) is (where is not None)
    if finding and where:
        assert finding.text.startswith("4 of 8 kernels")
        assert where in finding.text
        assert advice in finding.advice
        assert finding.numbers == {"share": 0.2, "device_ns": 80_000.0, "kernels": 4.0}


@pytest.mark.parametrize(
    ("trains", "advice"), [(True, "all microbatches"), (False, "model.to(torch.bfloat16)")]
)
def test_autocast_without_a_backward_pass(tmp_path, trains, advice):
    events = [cpu("autograd::engine::evaluate_function: AddmmBackward0", 5_000, 10)] if trains else []
    for n in range(4):
        events += [cpu("aten::linear", 400 * n, 40), cpu("aten::copy_", 400 * n + 3, 16)]
        events += [launch(400 * n + 5, n + 1), kernel(400 * n + 15, 20, n + 1, name=_TO_BF16)]
    assert advice in found(trace_of(tmp_path, *events), "type_conversions").advice


_SGEMM = "void implicit_convolve_sgemm<{0}, {0}, 128, 5, 5, 3, 3, 3, 1, false, false, true>(int, int)"


@pytest.mark.parametrize(("dtype", "of"), [("__nv_bfloat16", "bf16"), ("__half", "fp16"), ("float", "")])
@pytest.mark.parametrize("time", [4, 5])
def test_plain_convolutions(tmp_path, dtype, of, time):
    name = _SGEMM.format(dtype)
    trace = trace_of(tmp_path, *run(10, 100 - time, 1), *run(200, time, 2, name))
    finding = found(trace, "plain_convolutions")
    assert (finding is not None) is bool(of and time == 5)
    if finding:
        assert (finding.claims["dtype"], finding.claims["name"]) == (of, f"implicit_convolve_sgemm {of}")
        assert finding.numbers == {"share": 0.05, "device_ns": 5_000.0, "kernels": 1.0}


@pytest.mark.parametrize(
    ("convolved", "what", "advice"),
    [(0, "matmuls", 'set_float32_matmul_precision("high")'), (40, "kernels", "set_float32_matmul_precision"),
     (60, "kernels", "backends.cudnn.allow_tf32 = False"), (100, "convolutions", "cudnn.allow_tf32")],
)  # fmt: skip
def test_fp32_convolutions_may_use_tf32_already(tmp_path, convolved, what, advice):
    events = run(10, 100 - convolved, 1, "ampere_sgemm_128x64_tn") if convolved < 100 else []
    events += run(200, convolved, 2, _SGEMM.format("float")) if convolved else []
    finding = found(trace_of(tmp_path, *events, **H100), "fp32_products")
    assert (finding.claims["what"], finding.numbers["share"]) == (what, 1)
    assert advice in finding.advice


@pytest.mark.parametrize(
    ("name", "fused"),
    [("Adam", True), ("AdamW", True), ("SGD", True), ("RMSprop", False), ("Adafactor", False),
     ("MyAdam", False)],
)  # fmt: skip
def test_only_some_optimizers_can_be_fused(tmp_path, name, fused):
    """Those of `torch.optim` that take fused=True on a GPU."""
    events = [e for n in range(40) for e in (cpu("aten::add_", 100 * n, 90), *run(100 * n + 85, 2, n + 1))]
    events.append(cpu(f"Optimizer.step#{name}.step", 0, 4_000, "user_annotation"))
    finding = found(trace_of(tmp_path, *events), "overhead_bound")
    assert ("fused" in f"{finding.claims['advice']}") is fused
    loop = [e for n in range(100) for e in (cpu("aten::add_", 20 * n, 15), *run(20 * n + 10, 2, n + 1))]
    loop.append(cpu(f"Optimizer.step#{name}.step", 0, 2_000, "user_annotation"))
    finding = found(trace_of(tmp_path, *loop), "optimizer_loop")
    assert finding.claims["can"] == ("fuse" if fused else "foreach")


@pytest.mark.parametrize(("ops", "node", "fires"), [
    (("linear", "layer_norm"), "autograd::engine::evaluate_function: AddmmBackward0", True),
    (("mm", "native_layer_norm_backward"), "autograd::engine::evaluate_function: AddmmBackward0", False),
    (("linear", "layer_norm"), "my forward", False),
    (("linear", "linear"), "autograd::engine::evaluate_function: AddmmBackward0", False),  # a custom backward
])  # fmt: skip
def test_recomputation(tmp_path, ops, node, fires):
    events: list[Event] = []
    for n in range(3):
        at = 100 * n
        events.append(cpu(node, at, 90))
        events += [
            e for k, op in enumerate(ops) for e in small(f"aten::{op}", at + 10 + 20 * k, 3 * n + k + 1)
        ]
        events += small("aten::mm", at + 60, 3 * n + 3)
    finding = found(trace_of(tmp_path, *events), "recomputation")
    assert (finding is not None) is fires
    if finding:
        assert finding.numbers["cpu_ns"] == 3 * 28_000
        assert finding.numbers["share"] == pytest.approx(2 / 3)


@pytest.mark.parametrize(("pause", "said"), [(3000, True), (100, False)])
def test_the_stretch_outside_of_ops_that_every_step_has(tmp_path, pause, said):
    events, at = [], 0.0
    for n in range(4):
        events += [step(n, at, 400 + pause), cpu("Optimizer.zero_grad#A", at + 390, 5, "user_annotation")]
        events += [e for k in range(4) for e in small("aten::mm", at + 90 * k, 4 * n + k + 1)]
        at += 400 + pause
    finding = found(trace_of(tmp_path, *events), "overhead_bound")
    assert finding.claims.get("after") == ("Optimizer.zero_grad#A" if said else None)


def test_a_fused_optimizer_is_not_advised_to_be_fused(tmp_path):
    for more, advised in (("aten::_fused_adamw_", False), ("aten::_foreach_add_", True)):
        events = [e for n in range(4) for e in (step(n, 100 * n, 100), *small("aten::mm", 100 * n, n + 1))]
        events += [cpu("Optimizer.step#AdamW.step", 40, 50, "user_annotation"), cpu(more, 55, 20)]
        events = [e | {"dur": 80} if e["name"] == "aten::mm" else e for e in events]
        finding = found(trace_of(tmp_path, *events), "overhead_bound")
        assert ("fused" in f"{finding.claims['advice']}") is advised


@pytest.mark.parametrize(("pause", "said"), [(0, True), (9000, False)])
def test_an_op_of_the_cpu_is_told_where_it_is_much_of_the_idle_time(tmp_path, pause, said):
    """Here the CPU is outside of ops for 300 us, or 9,300."""
    events: list[Event] = []
    for n in range(3):
        at = (1000 + pause) * n
        events += [cpu("aten::sort", at, 600), *small("aten::mm", at + 700, n + 1)]
    assert ("on_cpu" in found(trace_of(tmp_path, *events), "overhead_bound").claims) is said


@pytest.mark.parametrize(("length", "severity"), [(10, ""), (30, "low"), (150, "medium"), (600, "high")])
def test_collecting_garbage_is_told(tmp_path, length, severity):
    collect = cpu("Python GC", 100, length, "python_function")
    finding = found(trace_of(tmp_path, step(1, 0, 1000), cpu("aten::mm", 800, 100), collect), "garbage")
    assert (finding.severity if finding else "") == severity
