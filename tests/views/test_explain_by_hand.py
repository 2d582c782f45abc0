"""What is said of one event, at the limits where it is said; names at the limits of how they are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.kineto import Event, cpu, kernel, launch, trace_of

from tracetui.analysis.names.kernel_names import decode
from tracetui.trace import Trace
from tracetui.views.explain import explain

H200: dict[str, Any] = {
    "deviceProperties": [
        {"id": 0, "name": "NVIDIA H200", "computeMajor": 9, "computeMinor": 0, "numSms": 132}
    ]
}
GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, int>(int)"
SHAPES = {"aten::mm": [[1024, 256], [256, 512]], "aten::add": [[1024, 1024], [1024, 1024]]}
TYPES = {"aten::mm": "c10::BFloat16", "aten::add": "float"}


def why(trace: Trace, name: str) -> str:
    at = next(i for i in range(len(trace)) if trace.name_of(i) == name)
    return " ".join(explain(trace, at).why)


def ran(tmp_path: Path, op: str, name: str, length: float, **args: Any) -> Trace:
    """One op with one kernel of so many microseconds."""
    event = kernel(10, length, 1, name=name)
    event["args"] |= {"External id": 1} | args
    shapes = {"Input Dims": SHAPES[op], "Input type": [TYPES[op]] * 2, "External id": 1}
    return trace_of(tmp_path, cpu(op, 0, 9, **shapes), launch(2, 1, 0.1), event, **H200)


def test_bound_by_memory(tmp_path: Path) -> None:
    """12.58 MB at 0.6 of 4,800 GB/s take 4.369 us."""
    assert "bound by memory" in why(ran(tmp_path, "aten::add", ADD, 4.369), ADD)
    assert "bound by memory" not in why(ran(tmp_path, "aten::add", ADD, 4.370), ADD)


def test_what_the_cache_gave(tmp_path: Path) -> None:
    """12.58 MB in 2.6 us are 4,840 GB/s: the memory has 4,800."""
    said = why(ran(tmp_path, "aten::add", ADD, 2.6), ADD)
    assert "bound by memory" not in said
    assert "more than the 4.80 TB/s of the H200 SXM's memory: part of it came from the L2 cache" in said


def test_far_from_the_peak(tmp_path: Path) -> None:
    """268 MFLOP at 0.3 of 989.5 TFLOP/s take 0.9043 us."""
    assert "of the peak" not in why(ran(tmp_path, "aten::mm", GEMM, 0.904), GEMM)
    assert "It reaches 30% of the peak: this shape (1024 x 256 x 512)" in why(
        ran(tmp_path, "aten::mm", GEMM, 0.905), GEMM
    )


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (GEMM, "this shape (1024 x 256 x 512) may be too small"),
        (GEMM.replace("sm90", "sm80"), "it is sm80 code, and uses nothing that this GPU has beyond"),
        ("ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x3_tn", "it is ampere code"),
        (
            "ampere_sgemm_128x64_tn",
            "this shape (1024 x 256 x 512) may be too small",
        ),  # no tensor cores anywhere
    ],
)
def test_code_for_an_older_device(tmp_path: Path, name: str, said: str) -> None:
    assert said in why(ran(tmp_path, "aten::mm", name, 30), name)


@pytest.mark.parametrize(
    ("grid", "said"),
    [
        ([119, 1, 1], ""),
        ([59, 2, 1], "It has 118 blocks for 132 multiprocessors: at least 14 of them have nothing to do."),
        ([11, 2, 3], "at least 66 of them have nothing to do"),
        ([13, 5, 1], "It has 65 blocks for 132 multiprocessors: most of the GPU has nothing to do."),
        ([1, 1, 1], "It has 1 block for"),
        ([0, 1, 1], ""),
        ([2**32, 1, 1], ""),
        ("many", ""),
        (["many", 1, 1], ""),
        ([-3, -3, 1], ""),
    ],
)
def test_too_few_blocks(tmp_path: Path, grid: Any, said: str) -> None:
    found = why(ran(tmp_path, "aten::mm", GEMM, 0.9, grid=grid), GEMM)
    assert said in found
    assert ("multiprocessors" in found) == bool(said)


def test_longer_than_its_like(tmp_path: Path) -> None:
    def said(*lengths: float) -> bool:
        events = [kernel(100 * i, length, i, name="k") for i, length in enumerate(lengths)]
        return "times the median of its" in why(trace_of(tmp_path, *events), "k")

    # The first one is explained: 1.5 times the median of three calls at least, and 5 us more.
    assert said(30, 20, 20)
    assert not said(29.9, 20, 20)
    assert said(10, 5, 5)
    assert not said(9.9, 5, 5)
    assert not said(30, 20)


@pytest.mark.parametrize(
    ("mine", "theirs", "told"), [((8, 1, 1), (8, 1, 1), True), ((8, 1, 1), (4, 1, 1), False)]
)
def test_calls_that_do_other_work_are_no_measure(
    tmp_path: Path, mine: tuple[int, ...], theirs: tuple[int, ...], told: bool
) -> None:
    events = [kernel(100 * i, 30 if i == 0 else 20, i, name="k") for i in range(3)]
    for event, grid in zip(events, (mine, theirs, theirs), strict=True):
        event["args"]["grid"] = list(grid)
    assert ("times the median of its" in why(trace_of(tmp_path, *events), "k")) == told


def test_when_it_started(tmp_path: Path) -> None:
    events = [launch(0, 1), kernel(10, 20, 1, name="first"), launch(20, 2), kernel(30, 2, 2, name="queued")]
    events += [launch(50, 3), kernel(60, 5, 3, name="waited")]
    trace = trace_of(tmp_path, *events)
    assert "It was queued behind other work: it starts 10.0 µs after its launch began." in why(
        trace, "queued"
    )
    assert "Its launch takes the CPU longer (4.00 µs) than it runs (2.00 µs)." in why(trace, "queued")
    assert "stood idle" not in why(trace, "queued")
    assert "It starts 10.0 µs after its launch began: nothing was queued" in why(trace, "waited")
    assert "longer" not in why(trace, "waited")
    assert "The GPU was idle for 28.0 µs before it" in why(trace, "waited")
    assert "stood idle" not in why(trace, "first")
    assert "It starts 10.0 µs after its launch began" in why(trace, "first")  # the first slice of all


def test_a_launch_that_waits_for_the_queue(tmp_path: Path) -> None:
    full = cpu("Command Buffer Full", 12, 80, cat="overhead") | {"pid": -1, "tid": 0}
    trace = trace_of(tmp_path, cpu("aten::mm", 5, 100), launch(10, 1, 90), kernel(200, 5, 1), full)
    assert "For 80.0 µs of it, a launch waits: the GPU's queue is full." in why(trace, "cudaLaunchKernel")
    assert "a launch waits" in why(trace, "aten::mm")
    assert "the profiler's own work" not in why(trace, "aten::mm")
    longer = trace_of(tmp_path, cpu("aten::mm", 5, 900), launch(10, 1, 90), kernel(990, 5, 1), full)
    assert "a launch waits" not in why(longer, "aten::mm")


def test_where_an_op_s_time_goes(tmp_path: Path) -> None:
    def parts(*children: Event) -> Any:
        trace = trace_of(tmp_path, cpu("aten::linear", 0, 100), *children)
        return explain(trace, 0)

    assert ("self", "20.0 µs of 100 µs") in parts(cpu("aten::mm", 10, 80)).facts
    assert parts(cpu("aten::mm", 10, 80)).why == ()
    found = parts(cpu("aten::mm", 10, 40.5), cpu("aten::t", 51, 20), cpu("aten::t", 72, 21))
    assert found.why == (
        "Little of its time is its own. Of what it calls, aten::t takes the most (2 calls, 41.0 µs).",
    )
    with pytest.raises(IndexError):
        explain(trace_of(tmp_path, cpu("a", 0, 1)), 1)
    with pytest.raises(IndexError):
        explain(trace_of(tmp_path, cpu("a", 0, 1)), -1)


def test_how_a_copy_went(tmp_path: Path) -> None:
    def facts(name: str, category: str, size: int) -> tuple[str, str]:
        event = kernel(10, 2, 1, name=name, cat=category)
        event["args"]["bytes"] = size
        found = explain(trace_of(tmp_path, event, **H200), 0)
        return " ".join(f"{k}: {v}" for k, v in found.facts), " ".join(found.why)

    assert "bytes: 64 B, 32.0 MB/s" in facts("Memset (Device)", "gpu_memset", 64)[0]
    assert "bytes" not in facts("Memset (Device)", "gpu_memset", 0)[0]
    told, _ = facts("Memcpy DtoD (Device -> Device)", "gpu_memcpy", 2_400_000)
    assert "read and written: 2.40 TB/s, 50% of the bandwidth" in told
    assert "pageable" in facts("Memcpy HtoD (Pageable -> Device)", "gpu_memcpy", 5)[1]


@pytest.mark.parametrize(
    ("name", "short", "kind", "family"),
    [
        ("triton_poi_fused_add_0", "triton poi: add", "elementwise", "triton"),
        ("triton_xyz_fused_add_0", "triton: xyz add", "other", "triton"),
        ("triton_tem_fused_mm_0", "triton tem: mm", "gemm", "triton"),
        ("triton_tem_fused_add_0", "triton tem: add", "other", "triton"),
        ("triton_red_fused__softmax_view_3", "triton red: softmax", "reduction", "triton"),
        ("triton_poi_fused_view_3", "triton poi: view", "elementwise", "triton"),
        ("triton_poi_fused_7", "triton poi 7", "elementwise", "triton"),
        # A mangled convolution of CUTLASS, without a shape; of another library; and no convolution.
        ("_ZN7cutlass4conv17Conv2dFpropKernelE", "conv fprop", "conv", "cutlass"),
        ("_ZN7library4conv17Conv2dFpropKernelE", "Conv2dFprop", "other", "other"),
        ("_Z", "_Z", "other", "other"),
        ("_Z" + "?" * 40, "_Z" + "?" * 30, "other", "other"),
    ],
)
def test_names(name: str, short: str, kind: str, family: str) -> None:
    found = decode(name)
    assert (found.short, found.kind, found.family) == (short, kind, family)


def test_the_shape_and_type_of_a_mangled_convolution() -> None:
    plain = decode("_ZN7cutlass4conv17Conv2dFpropKernelE")
    assert (plain.tile, plain.dtype, plain.tensor_cores) == (None, None, None)
    simt = decode("_ZN7cutlass4conv17Conv3dDgradKernelI9GemmShapeILi64ELi32ELi8EE10bfloat16_t7MmaSimtE")
    assert (simt.tile, simt.dtype, simt.tensor_cores) == ("64x32x8", "bf16", False)
    assert simt.short == "conv dgrad bf16 64x32"


@pytest.mark.parametrize(
    ("name", "short"),
    [
        (
            "void cutlass::device_kernel<flash::FlashAttnFwdSm90<flash::Mainloop> >(flash::Params)",
            "flash3 fwd",
        ),
        (
            "void cutlass::device_kernel<flash::FlashAttnBwdSm90<flash::Mainloop> >(flash::Params)",
            "flash3 bwd",
        ),
    ],
)
def test_the_way_of_an_attention_kernel(name: str, short: str) -> None:
    assert decode(name).short.startswith(short)


def test_the_work_of_an_op_is_told_for_a_kernel_that_does_it(tmp_path: Path) -> None:
    def labels(name: str, op: str) -> set[str]:
        trace = ran(tmp_path, op, name, 5)
        at = next(i for i in range(len(trace)) if trace.name_of(i) == name)
        return {label for label, _ in explain(trace, at).facts}

    assert "work" in labels(ADD, "aten::add")
    assert "M x K x N" in labels(GEMM, "aten::mm")
    assert not {"work", "M x K x N"} & labels(ADD, "aten::mm")
    assert not {"work", "M x K x N"} & labels(GEMM, "aten::add")
    assert "work" not in labels("void at::native::reduce_kernel<512, 1, float>(float)", "aten::add")


@pytest.mark.parametrize(
    ("arguments", "dtype"),
    [
        ("long, bool", "int64"),
        ("bool, long", None),
        ("bool, float", "fp32"),
        ("int, c10::BFloat16, float", "bf16"),
        ("4, 5", None),
    ],
)
def test_the_type_of_a_kernel_that_nobody_knows(arguments: str, dtype: str | None) -> None:
    assert decode(f"void library::thing<{arguments}>(int)").dtype == dtype


CUB = "void at_cuda_detail::cub::Device{}Kernel<int>(int)"
BACKWARD = (
    "fmha_cutlassB_f16_aligned_64x64_k64_sm80(PyTorchMemEffAttention::AttentionBackwardKernel<int>::Params)"
)
RANDOM = "void at::native::(anonymous namespace)::distribution_elementwise_grid_stride_kernel<float, 4>(long)"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (CUB.format("SelectSweep"), "It picks elements"),
        (CUB.format("Scan"), "Running sums"),
        (
            "void at::native::tensor_kernel_scan_innermost_dim<float, std::plus<float> >(float*)",
            "Running sums",
        ),
        (CUB.format("Reduce"), "A reduction: many elements become one."),
        (BACKWARD, "The backward of attention"),
        (RANDOM, "It writes random numbers"),
    ],
)
def test_what_a_kernel_does_within_its_kind(tmp_path: Path, name: str, said: str) -> None:
    assert " ".join(explain(trace_of(tmp_path, kernel(0, 5, 1, name=name)), 0).what).startswith(said)


@pytest.mark.parametrize("name", ["Context Sync", "Stream Sync", "Event Sync", "Stream Wait Event"])
def test_marks_of_synchronization_keep_their_names(name: str) -> None:
    """They are no functions with a type before the name."""
    assert decode(name).short == name
    assert decode(f"void {name.replace(' ', '_')}(int)").short == name.replace(" ", "_")


@pytest.mark.parametrize(
    ("name", "short", "kind"),
    [
        ("CopyHostToDevice", "memcpy HtoD", "memcpy"),
        ("CopyDeviceToDevice", "memcpy DtoD", "memcpy"),
        ("FillBuffer", "memset", "memset"),
        ("CopyHostToDeviceKernel", "CopyHostToDevice", "copy"),
        ("_attn_fwd", "attn_fwd", "attention"),
    ],
)
def test_copies_of_roctracer_and_attention_in_triton(name: str, short: str, kind: str) -> None:
    assert (decode(name).short, decode(name).kind) == (short, kind)


def test_an_annotation_has_a_shadow_on_the_gpu_and_an_op_of_its_name_has_none(tmp_path: Path) -> None:
    shadow = kernel(10, 5, 0, name="mine::forward", cat="gpu_user_annotation")
    noted = cpu("mine::forward", 0, 9, "user_annotation")
    trace = trace_of(tmp_path, noted, cpu("mine::forward", 2, 5), shadow)
    said = [" ".join(explain(trace, i).what) for i in range(2)]
    assert ["is in its shadow" in text for text in said] == [True, False]


def test_an_annotation_is_told_from_an_op_and_from_python(tmp_path: Path) -> None:
    kinds = ("user_annotation", "python_function", "cpu_op")
    told = [" ".join(explain(trace_of(tmp_path, cpu("mine", 0, 9, kind)), 0).what) for kind in kinds]
    assert ["record_function" in text for text in told] == [True, False, False]
    assert ["Python function" in text for text in told] == [False, True, False]
    assert "operator" in told[2]
