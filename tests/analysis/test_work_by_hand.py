"""FLOP, bytes and rates of single calls, each worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kineto import Event, cpu, kernel, launch, trace_of

from tracetui.analysis.rates.efficiency import RUN, _spread, _Sum, computing_type, efficiency
from tracetui.analysis.rates.flops import Work, work_of
from tracetui.analysis.rates.inputs import broadcast, per_axis, read_inputs

BF16 = "c10::BFloat16"


def inputs(
    *shapes: list[int], types: list[str] | None = None, values: list[str] | None = None
) -> dict[str, Any]:
    kinds = types or [BF16 if shape else "Scalar" for shape in shapes]
    return {"Input Dims": list(shapes), "Input type": kinds, "Concrete Inputs": values or [""] * len(shapes)}


def work(name: str, *shapes: list[int], **more: Any) -> Work:
    found = work_of(f"aten::{name}", inputs(*shapes, **more))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("made", "flops", "moved", "shape"),
    [
        # 2·m·k·n; two bytes for each element read or written once.
        (lambda: work("mm", [3, 5], [5, 7]), 2 * 3 * 5 * 7, 2 * (15 + 35 + 21), "3 x 5 x 7"),
        (lambda: work("mv", [3, 5], [5]), 2 * 3 * 5, 2 * (15 + 5 + 3), "3 x 5 x 1"),
        (lambda: work("matmul", [5], [5, 7]), 2 * 5 * 7, 2 * (5 + 35 + 7), "1 x 5 x 7"),
        (lambda: work("bmm", [4, 3, 5], [4, 5, 7]), 2 * 4 * 105, 2 * (60 + 140 + 84), "4 of 3 x 5 x 7"),
        (lambda: work("matmul", [4, 1, 3, 5], [2, 5, 7]), 2 * 8 * 105, 2 * (60 + 70 + 168), "8 of 3 x 5 x 7"),
        (lambda: work("addmm", [7], [3, 5], [5, 7], [], []), 210, 2 * (15 + 35 + 21 + 7), "3 x 5 x 7"),
        (
            lambda: work("baddbmm", [4, 3, 7], [4, 3, 5], [4, 5, 7], [], []),
            840,
            2 * (60 + 140 + 84 + 84),
            "4 of 3 x 5 x 7",
        ),
        (lambda: work("linear", [2, 3, 5], [7, 5], [7]), 420, 2 * (30 + 35 + 42 + 7), "6 x 5 x 7"),
        (lambda: work("linear", [2, 3, 5], [7, 5], []), 420, 2 * (30 + 35 + 42), "6 x 5 x 7"),
    ],
)
def test_products(made: Callable[[], Work], flops: int, moved: int, shape: str) -> None:
    found = made()
    assert (found.kind, found.flops, found.bytes, found.shape) == ("gemm", flops, moved, shape)
    assert found.dtype == "bf16"
    assert 2 * found.batch * found.m * found.k * found.n == flops


def test_the_tensor_that_an_op_writes_to_is_not_read() -> None:
    """`aten::div(self, other, out)`: two are read, one is written."""
    shape, float_and = [4, 8], ["float", "float", BF16]
    assert work("div", shape, shape).bytes == work("div", shape, shape, shape).bytes == 2 * 3 * 32
    assert work("div", shape, shape, shape, types=float_and).bytes == 32 * (4 + 4 + 2)
    assert work("relu", shape, shape).bytes == 2 * 2 * 32
    assert work("where", shape, shape, shape, types=["bool", BF16, BF16]).bytes == 32 * (1 + 2 + 2 + 2)


@pytest.mark.parametrize("zero", ["0", "0.0", "0."])
def test_a_product_that_adds_nothing_reads_nothing_more(zero: str) -> None:
    shapes = ([3, 7], [3, 5], [5, 7], [], [])
    assert work("addmm", *shapes, values=["", "", "", zero, "1"]).bytes == 2 * (15 + 35 + 21)
    assert work("addmm", *shapes, values=["", "", "", "0.5", "1"]).bytes == 2 * (15 + 35 + 21 + 21)


@pytest.mark.parametrize(
    "shapes", [([3, 5], [4, 7]), ([3, 5],), ([2, 3, 5], [4, 5, 7]), ([3, 5], []), ([], [5, 7])]
)
def test_products_that_do_not_fit(shapes: tuple[list[int], ...]) -> None:
    assert work_of("aten::mm", inputs(*shapes)) is None
    assert work_of("aten::linear", inputs(*shapes)) is None


def test_a_linear_layer_needs_a_matrix() -> None:
    assert work_of("aten::linear", inputs([3, 5], [2, 7, 5])) is None
    assert work_of("aten::linear", inputs([3, 5], [7, 4])) is None
    assert work_of("aten::linear", inputs([3, 5], [5])) is None


def convolution(
    x: list[int], weight: list[int], stride: str = "[1, 1]", pad: str = "[0, 0]", dilation: str = "[1, 1]",
    transposed: str = "False", groups: str = "1",
) -> Work | None:  # fmt: skip
    values = ["", "", "", stride, pad, dilation, transposed, "[0, 0]", groups]
    return work_of("aten::convolution", inputs(x, weight, *([] for _ in range(7)), values=values))


@pytest.mark.parametrize(
    ("made", "out", "each"),
    [
        # The output's elements, and 2 FLOP for each weight that one of them needs.
        (lambda: convolution([1, 2, 9, 8], [4, 2, 3, 3]), 4 * 7 * 6, 2 * 18),
        (lambda: convolution([1, 2, 9, 8], [4, 2, 3, 3], stride="[2, 3]"), 4 * 4 * 2, 2 * 18),
        (lambda: convolution([1, 2, 9, 8], [4, 2, 3, 3], stride="[2]"), 4 * 4 * 3, 2 * 18),
        (lambda: convolution([1, 2, 9, 8], [4, 2, 3, 3], pad="[1, 2]"), 4 * 9 * 10, 2 * 18),
        (lambda: convolution([1, 2, 9, 8], [4, 2, 3, 3], dilation="[2, 3]"), 4 * 5 * 2, 2 * 18),
        (lambda: convolution([5, 4, 9, 8], [4, 2, 3, 3], groups="2"), 5 * 4 * 7 * 6, 2 * 18),
        (lambda: convolution([5, 4, 9], [4, 4, 3], "[1]", "[0]", "[1]"), 5 * 4 * 7, 2 * 12),
        (lambda: convolution([1, 2, 3, 3], [4, 2, 3, 3]), 4, 2 * 18),
    ],
)
def test_convolutions(made: Callable[[], Work | None], out: int, each: int) -> None:
    found = made()
    assert found is not None
    assert found.kind == "conv"
    assert found.flops == out * each


def test_bytes_and_words_of_a_convolution() -> None:
    found = convolution([1, 2, 9, 8], [4, 2, 3, 3])
    assert found is not None
    assert found.bytes == 2 * (144 + 72 + 168)
    assert found.shape == "1 x 2 x 9 x 8 by 4 x 2 x 3 x 3"
    turned = convolution([1, 2, 9, 8], [2, 5, 3, 3], transposed="True")
    assert turned is not None
    assert (turned.flops, turned.bytes) == (2 * 144 * 45, None)
    assert turned.shape == "1 x 2 x 9 x 8 transposed by 2 x 5 x 3 x 3"


@pytest.mark.parametrize(
    "made",
    [
        lambda: convolution([1, 3, 9, 8], [4, 2, 3, 3]),  # channels do not fit
        lambda: convolution([1, 2, 2, 8], [4, 2, 3, 3]),  # smaller than the kernel
        lambda: convolution([1, 2, 9, 8], [4, 2, 3, 3], stride="[0, 1]"),
        lambda: convolution([1, 2, 9, 8], [4, 2, 3, 3], groups="0"),
        lambda: convolution([1, 2, 9, 8], [4, 2, 3, 3], pad="[1, 1, 1]"),
        lambda: convolution([1, 2, 9], [4, 2, 3, 3]),
        lambda: convolution([1, 2], [4, 2]),
        lambda: work_of(
            "aten::conv1d", inputs([1, 2], [4, 2], *[[]] * 5, values=[*[""] * 3, "1", "0", "1", "1"])
        ),
    ],
)
def test_convolutions_that_do_not_fit(made: Callable[[], Work | None]) -> None:
    assert made() is None


@pytest.mark.parametrize(
    ("mask", "gradients"),
    [
        ("[True, True, True]", 2),
        ("[True, False, True]", 1),
        ("[False, False, True]", 0),
        ("", 2),
        ("(1,0,1)", 1),
    ],
)
def test_gradients_of_a_convolution(mask: str, gradients: int) -> None:
    grad, x, weight = [1, 4, 7, 6], [1, 2, 9, 8], [4, 2, 3, 3]
    for transposed, once in (("False", 2 * 168 * 18), ("True", 2 * 144 * 18)):
        values = [*[""] * 4, "[1, 1]", "[0, 0]", "[1, 1]", transposed, "[0, 0]", "1", mask]
        found = work("convolution_backward", grad, x, weight, *([] for _ in range(8)), values=values)
        assert found.flops == gradients * once
        assert found.bytes == gradients * 2 * (168 + 144 + 72)
        assert found.shape == "1 x 2 x 9 x 8 by 4 x 2 x 3 x 3, backward"


def attention(name: str, queries: int, keys: int, causal: bool = False, dv: int = 16) -> Work:
    """2 in a batch, 3 heads, dimension 16."""
    q, k, v = [2, 3, queries, 16], [2, 3, keys, 16], [2, 3, keys, dv]
    values = ["", "", "", "0.", "True" if causal else "False", "False", ""]
    return work(name, q, k, v, [], [], [], [], values=values)


def test_attention() -> None:
    plain = attention("_scaled_dot_product_flash_attention", 10, 7)
    assert plain.flops == 2 * 6 * 70 * (16 + 16)
    assert plain.bytes == 2 * (2 * 3 * 16 * (10 + 7 + 7) + 2 * 3 * 10 * 16)
    assert plain.shape == "2 x 3 heads, 10 queries, 7 keys, dimension 16"
    assert attention("_scaled_dot_product_flash_attention", 10, 7, dv=8).flops == 2 * 6 * 70 * (16 + 8)


@pytest.mark.parametrize(
    ("queries", "keys", "pairs"), [(5, 5, 15), (5, 8, 15), (8, 5, 15 + 3 * 5), (1, 9, 1), (3, 1, 3)]
)
def test_a_causal_mask_counts_what_it_leaves(queries: int, keys: int, pairs: int) -> None:
    found = attention("_scaled_dot_product_flash_attention", queries, keys, True)
    assert pairs == sum(j <= i for i in range(queries) for j in range(keys))
    assert found.flops == 2 * 6 * pairs * 32
    assert found.shape.endswith(", causal")


@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize("shape", [[], [3, 10, 16], [2, 2, 3, 10, 16]])
def test_attention_has_four_dimensions(at: int, shape: list[int]) -> None:
    shapes = [[2, 3, 10, 16] for _ in range(3)]
    shapes[at] = shape
    assert work_of("aten::scaled_dot_product_attention", inputs(*shapes)) is None


def test_the_backward_of_attention() -> None:
    q = [2, 3, 10, 16]
    found = work("_scaled_dot_product_flash_attention_backward", q, q, q, q)
    assert found.flops == 2 * 6 * 100 * 5 * 16
    assert found.bytes == 2 * 2 * (4 * 960)
    assert found.shape.endswith("dimension 16, backward")


def test_elementwise() -> None:
    found = work("add", [4, 1, 6], [5, 1], types=["float", BF16])
    assert (found.kind, found.flops, found.shape, found.dtype) == ("elementwise", 120, "4 x 5 x 6", "fp32")
    assert found.bytes == 24 * 4 + 5 * 2 + 120 * 4
    assert work("mul_", [8], []).bytes == 8 * 2 + 8 * 2
    assert work_of("aten::add", inputs([3], [4])) is None
    assert work_of("aten::add", inputs([], [])) is None
    copy = work("copy_", [4, 6], [6], types=["float", "double"])
    assert (copy.flops, copy.bytes, copy.shape) == (0, 24 * 4 + 6 * 8, "4 x 6")
    assert work("copy_", [4], [4], types=["float", "unheard of"]).bytes is None
    assert work_of("aten::copy_", inputs([], [3])) is None


def test_shapes() -> None:
    assert broadcast((2, 1, 3), (4, 1)) == (2, 4, 3)
    assert broadcast((), (4, 1)) == (4, 1)
    assert broadcast((2,), (3,)) is None
    assert broadcast((0,), (1,)) == (0,)
    assert per_axis((3,), 2) == (3, 3)
    assert per_axis((3, 4), 2) == (3, 4)
    assert per_axis((3, 4), 3) is None
    assert per_axis(None, 1) is None


def test_recorded_inputs() -> None:
    call = read_inputs(
        {
            "Input Dims": [
                [2, 3],
                [],
                [[2], [3]],
                [2**48],
                [-1],
                [1.5],
                [2**48 - 1],
                [1] * 17,
                [1] * 16,
                5,
                "ab",
            ],
            "Input type": [BF16, "Scalar", "TensorList"],
            "Concrete Inputs": ["", "[1, -2]", " True ", "2", "x", "(3)", 5],
        }
    )
    assert call is not None
    assert [call.shape(i) for i in range(-1, 12)] == [
        None, (2, 3), (), None, None, None, None, (2**48 - 1,), None, (1,) * 16, None, None, None
    ]  # fmt: skip
    assert [call.is_tensor(i) for i in range(4)] == [True, False, False, False]
    assert [call.item(i) for i in (-1, 0, 1, 2, 3)] == [None, 2, None, None, None]
    assert [call.flag(i) for i in range(-1, 5)] == [False, False, False, True, True, False]
    assert [call.ints(i) for i in range(-1, 8)] == [None, None, (1, -2), None, (2,), None, (3,), None, None]
    assert call.value(-1) == call.value(7) == ""
    assert read_inputs({"Input Dims": "no"}) is None
    assert read_inputs({}) is None


# Rates: the H200's peaks are 989.5 TFLOP/s in bf16 and 4,800 GB/s.

H200 = {
    "deviceProperties": [
        {"id": 0, "name": "NVIDIA H200", "computeMajor": 9, "computeMinor": 0, "numSms": 132}
    ]
}
GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off"
SPLIT = "void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16>(cublasLt::cublasSplitKParams)"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, int>(int)"


def call(
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


def test_the_rate_of_one_product(tmp_path: Path) -> None:
    table = efficiency(trace_of(tmp_path, *call(0, 1, (GEMM, 2)), **H200))
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


def test_bytes_that_one_call_does_not_know_are_not_known() -> None:
    known, unknown = (Work("gemm", 8, moved, None, "2 x 2 x 1") for moved in (24, None))
    for calls, moved in (((known, known), 48), ((known, unknown), None), ((unknown, known), None)):
        rows = _Sum(known, None)
        for one in calls:
            rows.add(one, 5, [])
        assert (rows.bytes, rows.flops, rows.duration, rows.calls) == (moved, 16, 10, 2)


def test_an_op_has_all_its_kernels_and_its_kernel_only_its_own(tmp_path: Path) -> None:
    events = [*call(0, 1, (SPLIT, 1), (GEMM, 3), ("Memset (Device)", 0.5)), *call(1000, 2, (GEMM, 4))]
    trace = trace_of(tmp_path, *events, **H200)
    table = efficiency(trace)
    (op,), (made,) = table.ops, table.kernels
    assert (op.calls, op.duration, op.flops) == (2, 8500, 2 * FLOPS)
    assert (made.name, made.calls, made.duration, made.flops) == (GEMM, 2, 7000, 2 * FLOPS)
    assert [trace.name_of(i) for i in op.slices] == ["aten::mm", "aten::mm"]
    assert [trace.name_of(i) for i in made.slices] == [GEMM, GEMM]


def test_two_products_in_one_op_have_no_rate_of_their_own(tmp_path: Path) -> None:
    table = efficiency(trace_of(tmp_path, *call(0, 1, (GEMM, 1), (GEMM, 3)), **H200))
    assert [row.duration for row in table.ops] == [4000]
    assert table.kernels == ()


def test_rows_by_time_and_shapes(tmp_path: Path) -> None:
    events = [*call(0, 1, (GEMM, 1)), *call(500, 2, (GEMM, 5), n=1024), *call(1000, 3, (GEMM, 3))]
    table = efficiency(trace_of(tmp_path, *events, **H200))
    assert [(row.shape, row.duration) for row in table.ops] == [
        ("1024 x 256 x 1024", 5000),
        ("1024 x 256 x 512", 4000),
    ]
    (made,) = table.kernels
    assert (made.shape, made.calls, made.duration, made.flops) == ("", 3, 9000, 4 * FLOPS)


def test_part_of_the_events_and_part_of_the_ops(tmp_path: Path) -> None:
    events = [event for i in range(5) for event in call(500 * i, i + 1, (GEMM, 1 + i))]
    trace = trace_of(tmp_path, *events, **H200)
    kernels = np.flatnonzero(trace.launch >= 0)
    some = efficiency(trace, kernels[1:3])
    assert (some.ops[0].calls, some.ops[0].duration, some.sampled) == (2, 5000, False)
    assert efficiency(trace, kernels[:0]).ops == ()
    few = efficiency(trace, limit=3)
    assert (few.ops[0].calls, few.ops[0].duration, few.sampled) == (3, 6000, True)  # the first three
    assert not efficiency(trace, limit=5).sampled


@given(st.integers(1, 5000), st.integers(1, 400))
def test_a_sample_is_of_short_runs_that_are_spread_over_all(count: int, limit: int) -> None:
    at = _spread(count, limit)
    assert len(at) <= min(count, limit)
    assert (np.diff(at, prepend=-1, append=count) > 0).all()
    if count > limit:
        assert len(at) > 0.8 * limit - 1
        runs = at.reshape(-(-limit // RUN), -1)
        assert (np.diff(runs, axis=1) == 1).all()
        assert (runs[:, 0] * len(runs) // count == np.arange(len(runs))).all(), "a part without a run"


def test_elementwise_work_has_no_flops_rate(tmp_path: Path) -> None:
    events = call(0, 1, ("Memset (Device)", 1), (ADD, 3), name="aten::add")
    events[0]["args"] |= inputs([1024, 1024], [1024, 1024])
    events[2]["cat"] = "gpu_memset"
    table = efficiency(trace_of(tmp_path, *events, **H200))
    (op,), (made,) = table.ops, table.kernels
    assert (op.tflops, op.compute_share, op.duration) == (None, None, 4000)
    assert (made.name, made.duration, made.gbps) == (ADD, 3000, pytest.approx(6 * 1024**2 / 3e-6 / 1e9))


def test_ops_of_the_cpu_count_once(tmp_path: Path) -> None:
    """Only those that call no other one that is counted, with their own durations."""
    shapes = inputs([64, 32], [32, 16])
    events = [
        cpu("aten::matmul", 0, 100, **shapes),
        cpu("aten::view", 5, 80),
        cpu("aten::mm", 10, 50, **shapes),
        cpu("aten::mm", 200, 30, **shapes),
        cpu("aten::mm", 300, -30, **shapes),
    ]
    table = efficiency(trace_of(tmp_path, *events))
    (row,) = table.ops
    assert (row.name, row.calls, row.duration, row.flops) == ("aten::mm", 2, 80_000, 2 * 2 * 64 * 32 * 16)
    assert (row.tflops, row.compute_share) == (pytest.approx(2 * 2 * 64 * 32 * 16 / 80e-6 / 1e12), None)
    assert (table.kernels, table.peak, table.device) == ((), None, "")


def test_the_type_that_computes() -> None:
    assert computing_type("bf16", None) == "bf16"
    assert computing_type("fp32", None) is None
    assert computing_type(None, None) is None


@pytest.mark.parametrize(
    ("name", "first", "heads_first", "causal", "ragged"),
    [
        # Where PyTorch's schemas have `query`, `is_causal` (or the type of the mask), and the lengths.
        ("scaled_dot_product_attention", 0, True, 5, None),
        ("_scaled_dot_product_flash_attention", 0, True, 4, None),
        ("_scaled_dot_product_efficient_attention", 0, True, 6, None),
        ("_scaled_dot_product_cudnn_attention", 0, True, 6, None),
        ("_cudnn_attention_forward", 0, True, 10, 4),
        ("_flash_attention_forward", 0, False, 8, 3),
        ("_efficient_attention_forward", 0, False, 9, 4),
        ("_scaled_dot_product_flash_attention_backward", 1, True, 11, None),
        ("_scaled_dot_product_efficient_attention_backward", 1, True, 11, None),
        ("_scaled_dot_product_cudnn_attention_backward", 1, True, 14, None),
        ("_flash_attention_backward", 1, False, 11, 6),
        ("_efficient_attention_backward", 1, False, 14, 6),
    ],
)
def test_where_the_inputs_of_attention_stand(
    name: str, first: int, heads_first: bool, causal: int, ragged: int | None
) -> None:
    one = [2, 3, 10, 16] if heads_first else [2, 10, 3, 16]
    other = [2, 3, 7, 16] if heads_first else [2, 7, 3, 16]
    shapes: list[list[int]] = [[] for _ in range(16)]
    shapes[first : first + 3] = one, other, other
    products = 5 if first else 2
    assert work(name, *shapes).flops == 2 * 6 * 70 * products * 16
    for at in range(16):
        values = ["True" if i == at else "" for i in range(16)]
        pairs = 7 * 8 // 2 + 3 * 7 if at == causal else 70
        assert work(name, *shapes, values=values).flops == 2 * 6 * pairs * products * 16
    if ragged is not None:
        shapes[ragged] = [3]
        assert work_of(f"aten::{name}", inputs(*shapes)) is None


@pytest.mark.parametrize(
    ("name", "stride", "pad", "dilation", "groups"),
    [
        ("conv2d", 3, 4, 5, 6),
        ("cudnn_convolution_relu", 3, 4, 5, 6),
        ("_convolution", 3, 4, 5, 8),
        ("convolution_overrideable", 3, 4, 5, 8),
        ("mkldnn_convolution", 4, 3, 5, 6),
        ("miopen_convolution", 4, 3, 5, 6),
        ("cudnn_convolution", 3, 2, 4, 5),
    ],
)
def test_where_the_inputs_of_a_convolution_stand(
    name: str, stride: int, pad: int, dilation: int, groups: int
) -> None:
    shapes: list[list[int]] = [[] for _ in range(9)]
    shapes[:2] = [1, 4, 20, 20], [6, 2, 3, 3]
    values = [""] * 9
    values[stride], values[pad], values[dilation], values[groups] = "[2, 2]", "[1, 1]", "[3, 3]", "2"
    assert work(name, *shapes, values=values).flops == 2 * (6 * 8 * 8) * (2 * 3 * 3)


def test_no_more_inputs_are_read_than_an_op_has() -> None:
    call = read_inputs(
        {"Input Dims": [[1]] * 70, "Input type": ["float"] * 70, "Concrete Inputs": ["x"] * 70}
    )
    assert call is not None
    assert (call.shape(63), call.shape(64)) == ((1,), None)
    assert (call.dtype(63), call.dtype(64)) == ("fp32", None)
    assert (call.value(63), call.value(64)) == ("x", "")


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_attention_without_one_of_its_inputs(missing: int) -> None:
    shapes = [[1, 2, 3, 4]] * 3
    name = "aten::_scaled_dot_product_flash_attention"
    assert work_of(name, inputs(*shapes)) is not None
    for odd in ([], [2, 3, 4]):
        assert work_of(name, inputs(*(odd if i == missing else s for i, s in enumerate(shapes)))) is None
