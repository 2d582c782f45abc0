"""Achieved rates of ops and kernels, on products whose work is counted by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.analysis.test_flops import inputs
from tests.kineto import Event, cpu, kernel, launch, trace_of

from tracetui.analysis.rates.efficiency import RUN, _spread, _Sum, computing_type, efficiency
from tracetui.analysis.rates.flops import Work

BF16 = "c10::BFloat16"
H200 = {"deviceProperties": [
    {"id": 0, "name": "NVIDIA H200", "computeMajor": 9, "computeMinor": 0, "numSms": 132}
]}  # fmt: skip
GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off"
SPLIT = "void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16>(cublasLt::cublasSplitKParams)"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, int>(int)"


def product_of(
    at: float, number: int, *kernels: tuple[str, float], name: str = "aten::mm", n: int = 512
) -> list[Event]:
    """A product of 1024 x 256 x n in bf16, and the kernels that it launched, with their durations in us."""
    events = [cpu(name, at, 5, **inputs([1024, 256], [256, n]), **{"External id": number})]
    for i, (kernel_name, length) in enumerate(kernels):
        correlation = 10 * number + i
        events.append(launch(at + 1 + i, correlation, 0.5))
        one = kernel(at + 10 + 100 * i, length, correlation, name=kernel_name)
        events.append(one | {"args": one["args"] | {"External id": number}})
    return events


FLOPS, BYTES = 2 * 1024 * 256 * 512, 2 * (1024 * 256 + 256 * 512 + 1024 * 512)


def test_the_rate_of_one_product(tmp_path):
    table = efficiency(trace_of(tmp_path, *product_of(0, 1, (GEMM, 2)), **H200))
    (op,), (made,) = table.ops, table.kernels
    for row in (op, made):
        assert (row.calls, row.duration, row.flops, row.bytes) == (1, 2000, FLOPS, BYTES)
        assert row.tflops == pytest.approx(FLOPS / 2e-6 / 1e12)
        assert row.gbps == pytest.approx(BYTES / 2e-6 / 1e9)
        assert row.compute_share == pytest.approx(FLOPS / 2e-6 / 989.5e12)
        assert row.memory_share == pytest.approx(BYTES / 2e-6 / 4800e9)
        assert row.shape == "1024 x 256 x 512"
        assert row.dtype == "bf16"
    assert (op.name, op.short, op.kernel) == ("aten::mm", "aten::mm", made.short)
    assert (made.name, made.kernel) == (GEMM, "")
    assert made.short != GEMM
    assert (table.recorded, table.sampled, table.device) == (True, False, "NVIDIA H200")


def test_bytes_that_one_call_does_not_know_are_not_known():
    known, unknown = (Work("gemm", 8, moved, None, "2 x 2 x 1") for moved in (24, None))
    for calls, moved in (((known, known), 48), ((known, unknown), None), ((unknown, known), None)):
        rows = _Sum(known, None)
        for one in calls:
            rows.add(one, 5, [])
        assert (rows.bytes, rows.flops, rows.duration, rows.calls) == (moved, 16, 10, 2)


def test_an_op_has_all_its_kernels_and_its_kernel_only_its_own(tmp_path):
    events = [
        *product_of(0, 1, (SPLIT, 1), (GEMM, 3), ("Memset (Device)", 0.5)), *product_of(1000, 2, (GEMM, 4))
    ]  # fmt: skip
    trace = trace_of(tmp_path, *events, **H200)
    table = efficiency(trace)
    (op,), (made,) = table.ops, table.kernels
    assert (op.calls, op.duration, op.flops) == (2, 8500, 2 * FLOPS)
    assert (made.name, made.calls, made.duration, made.flops) == (GEMM, 2, 7000, 2 * FLOPS)
    assert [trace.name_of(i) for i in op.slices] == ["aten::mm", "aten::mm"]
    assert [trace.name_of(i) for i in made.slices] == [GEMM, GEMM]


def test_two_products_in_one_op_have_no_rate_of_their_own(tmp_path):
    table = efficiency(trace_of(tmp_path, *product_of(0, 1, (GEMM, 1), (GEMM, 3)), **H200))
    assert [row.duration for row in table.ops] == [4000]
    assert table.kernels == ()


def test_rows_by_time_and_shapes(tmp_path):
    events = [
        *product_of(0, 1, (GEMM, 1)), *product_of(500, 2, (GEMM, 5), n=1024), *product_of(1000, 3, (GEMM, 3))
    ]  # fmt: skip
    table = efficiency(trace_of(tmp_path, *events, **H200))
    assert [(row.shape, row.duration) for row in table.ops] == [
        ("1024 x 256 x 1024", 5000), ("1024 x 256 x 512", 4000)
    ]  # fmt: skip
    (made,) = table.kernels
    assert (made.shape, made.calls, made.duration, made.flops) == ("", 3, 9000, 4 * FLOPS)


def test_part_of_the_events_and_part_of_the_ops(tmp_path):
    events = [event for i in range(5) for event in product_of(500 * i, i + 1, (GEMM, 1 + i))]
    trace = trace_of(tmp_path, *events, **H200)
    kernels = np.flatnonzero(trace.launch >= 0)
    some = efficiency(trace, kernels[1:3])
    assert (some.ops[0].calls, some.ops[0].duration, some.sampled) == (2, 5000, False)
    assert efficiency(trace, kernels[:0]).ops == ()
    few = efficiency(trace, limit=3)
    assert (few.ops[0].calls, few.ops[0].duration, few.sampled) == (3, 6000, True)  # the first three
    assert not efficiency(trace, limit=5).sampled


@given(st.integers(1, 5000), st.integers(1, 400))
def test_a_sample_is_of_short_runs_that_are_spread_over_all(count, limit):
    at = _spread(count, limit)
    assert len(at) <= min(count, limit)
    assert (np.diff(at, prepend=-1, append=count) > 0).all()
    if count > limit:
        assert len(at) > 0.8 * limit - 1
        runs = at.reshape(-(-limit // RUN), -1)
        assert (np.diff(runs, axis=1) == 1).all()
        part = np.arange(len(runs) + 1) * count // len(runs)
        assert (part[:-1] <= runs[:, 0]).all()
        assert (runs[:, -1] < part[1:]).all(), "each run lies in a part of its own"


def test_elementwise_work_has_no_flops_rate(tmp_path):
    events = product_of(0, 1, ("Memset (Device)", 1), (ADD, 3), name="aten::add")
    events[0]["args"] |= inputs([1024, 1024], [1024, 1024])
    events[2]["cat"] = "gpu_memset"
    table = efficiency(trace_of(tmp_path, *events, **H200))
    (op,), (made,) = table.ops, table.kernels
    assert (op.tflops, op.compute_share, op.duration) == (None, None, 4000)
    assert (made.name, made.duration, made.gbps) == (ADD, 3000, pytest.approx(6 * 1024**2 / 3e-6 / 1e9))


def test_ops_of_the_cpu_count_once(tmp_path):
    """Only those that call no other one that is counted, with their own durations."""
    shapes = inputs([64, 32], [32, 16])
    events = [
        cpu("aten::matmul", 0, 100, **shapes), cpu("aten::view", 5, 80), cpu("aten::mm", 10, 50, **shapes),
        cpu("aten::mm", 200, 30, **shapes), cpu("aten::mm", 300, -30, **shapes)
    ]  # fmt: skip
    table = efficiency(trace_of(tmp_path, *events))
    (row,) = table.ops
    assert (row.name, row.calls, row.duration, row.flops) == ("aten::mm", 2, 80_000, 2 * 2 * 64 * 32 * 16)
    assert (row.tflops, row.compute_share) == (pytest.approx(2 * 2 * 64 * 32 * 16 / 80e-6 / 1e12), None)
    assert (table.kernels, table.peak, table.device) == ((), None, "")


def test_the_type_that_computes():
    assert computing_type("bf16", None) == "bf16"
    assert computing_type("fp32", None) is None
    assert computing_type(None, None) is None


def test_the_throughput_of_ops_on_the_cpu(tmp_path):
    shapes = {"Input Dims": [[3, 5], [5, 7]], "Input type": ["float", "float"]}
    ops = [cpu("aten::mm", 100 * i, 20 + i, **shapes) for i in range(3)]
    around = cpu("aten::matmul", 0, 90, **shapes)
    table = efficiency(trace_of(tmp_path, around, *ops))
    assert (table.recorded, table.sampled, table.kernels) == (True, False, ())
    (row,) = table.ops
    assert (row.calls, row.flops, row.duration) == (3, 3 * 2 * 105, 63_000)
    assert (row.bytes, row.tflops) == (3 * 4 * (15 + 35 + 21), pytest.approx(1e-5))
    assert efficiency(trace_of(tmp_path, around, *ops), limit=2).sampled is True
    assert efficiency(trace_of(tmp_path, *(e | {"args": {}} for e in ops))).ops == ()
