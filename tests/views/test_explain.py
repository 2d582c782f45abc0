"""Explanations, launch chains and achieved rates on real traces, and on one small trace written by hand."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.kineto import Event, cpu, kernel, launch, run, trace_of
from tests.recorded import load

from tracetui.analysis.calls.calls import self_time_of
from tracetui.analysis.calls.chain import MOST_EVENTS, launch_chain, launched_by
from tracetui.analysis.names.kernel_names import decode
from tracetui.analysis.part import Part
from tracetui.analysis.rates.efficiency import efficiency
from tracetui.trace import Kind, Trace
from tracetui.views.explain import Explanation, explain

DATA = Path(__file__).parent.parent / "data"
SAMPLE_TRACES = DATA.parent.parent / "sample_traces"
RECORDED = sorted(path.name for path in DATA.glob("*.json.gz"))


@cache
def recorded(name: str) -> Trace:
    return load(DATA / name)


def find(trace: Trace, start: str, which: int = 0) -> int:
    return [i for i in range(len(trace)) if trace.name_of(i).startswith(start)][which]


def chain_of(explanation: Explanation) -> list[tuple[str, str]]:
    return [(link.role, link.name) for link in explanation.chain.links]


def test_the_chain_of_a_kernel_as_the_series_draws_it():
    trace = recorded("mlp_eager.json.gz")
    kernel = find(trace, "nvjet")
    assert chain_of(explain(trace, kernel)) == [
        ("step", "ProfilerStep#2"), ("annotation", "mlp_fwd"), ("op", "aten::linear"), ("op", "aten::matmul"),
        ("op", "aten::mm"), ("launch", "cuLaunchKernelEx"), ("kernel", "gemm bf16 256x128 tnt")
    ]  # fmt: skip
    links = explain(trace, kernel).chain.links
    assert [link.level for link in links] == list(range(7))
    assert links[-1].slice == kernel
    assert links[-1].delay == trace.start[kernel] - trace.start[trace.launch[kernel]]


def test_the_chain_of_an_op_goes_down_to_all_that_it_launched():
    trace = recorded("matmul_add_4096_warm_compile.json.gz")
    chain = launch_chain(trace, find(trace, "aten::addmm"))
    assert [(link.role, link.level) for link in chain.links[-6:]] == [
        ("launch", 5), ("copy", 6), ("launch", 5), ("memset", 6), ("launch", 5), ("kernel", 6)
    ]  # fmt: skip
    assert chain.more == 0


def test_long_chains_are_cut_to_the_longest_kernels():
    trace = recorded("llama_train.json.gz")
    step = find(trace, "ProfilerStep#")
    chain = launch_chain(trace, step)
    events = [link for link in chain.links if link.delay is not None]
    assert len(events) == MOST_EVENTS
    assert chain.more == len(launched_by(trace, step)) - MOST_EVENTS
    longest = np.sort(trace.duration[launched_by(trace, step)])[-MOST_EVENTS:]
    assert sorted(link.duration for link in events) == longest.tolist()


def test_a_backward_op_belongs_to_the_step_and_to_its_forward():
    trace = load(SAMPLE_TRACES / "train.json.gz")
    for start in ("autograd::engine::evaluate_function: MmBackward0", "MmBackward0"):
        chain = chain_of(explain(trace, find(trace, start)))
        assert chain[0][0] == "step"
        assert chain[1] == ("forward", "aten::mm")
        assert chain[2] == ("op", "evaluate MmBackward0")
        # Two products, one gradient each; one of them is split along K, and summed by a kernel of its own.
        assert [role for role, _ in chain].count("kernel") == 3
    # A kernel of the backward pass runs on another thread's launch, and finds both as well.
    kernel = next(link.slice for link in explain(trace, find(trace, "MmBackward0")).chain.links[::-1])
    assert chain_of(explain(trace, kernel))[:2] == [("step", "ProfilerStep#2"), ("forward", "aten::mm")]
    assert [link.level for link in explain(trace, kernel).chain.links] == [0, 1, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("name", RECORDED)
def test_everything_can_be_explained(name):
    trace = recorded(name)
    own = self_time_of(Part(trace))
    for i in range(0, len(trace), max(1, len(trace) // 400)):
        found = explain(trace, i, own)
        assert found.title
        assert found.what
        assert all(text.endswith(".") for text in (*found.what, *found.why))
        assert any(link.slice == i for link in found.chain.links)


def test_no_such_slice():
    trace = recorded("mlp_eager.json.gz")
    with pytest.raises(IndexError, match="no slice"):
        explain(trace, len(trace))
    with pytest.raises(IndexError):
        explain(trace, -1)


def test_why_a_tiny_kernel_is_slow():
    trace = recorded("matmul_add_64_nosched_20.json.gz")
    why = " ".join(explain(trace, find(trace, "nvjet", 1)).why)
    assert "8 blocks for 132 multiprocessors" in why
    assert "Its launch takes the CPU longer" in why
    assert "nothing was queued" in why
    assert "outside any op" in why


def test_a_kernel_that_waited_in_the_queue():
    trace = recorded("matmul_add_4096_warm_eager.json.gz")
    last = find(trace, "void at::native::vectorized", -1)
    assert any("queued behind other work" in text for text in explain(trace, last).why)


def test_the_profiler_in_an_op():
    trace = recorded("matmul_add_64_nosched_20.json.gz")
    assert "2.50 ms of it is the profiler's own work." in explain(trace, find(trace, "aten::mm")).why
    assert "The profiler asks for memory" in explain(trace, find(trace, "Activity Buffer")).what[0]


def test_a_first_use_and_the_hole_in_it():
    """In the file: the first aten::mm takes 56.557 ms; between a cudaMalloc in it and the loading of code
    nothing is recorded for 52.6 ms."""
    trace = load(SAMPLE_TRACES / "matmul_add_64_cold.json.gz")
    first, later = (" ".join(explain(trace, find(trace, "aten::mm", n)).why) for n in (0, 1))
    assert "used for the first time" in first
    assert "Later calls do not pay for that; every start of the program does." in first
    assert "For 52.6 ms of it, after cudaMalloc, the trace shows no call inside it." in first
    assert "first time" not in later
    assert "used for the first time" in " ".join(explain(trace, find(trace, "cudaLaunchKernel", 0)).why)


def test_views_and_waits():
    trace = recorded("mlp_eager.json.gz")
    what = " ".join(explain(trace, find(trace, "aten::t")).what)
    assert "metadata only" in what
    assert "launches nothing" in what
    trace = recorded("matmul_add_4096_warm_eager.json.gz")
    wait = explain(trace, find(trace, "cudaDeviceSynchronize"))
    assert any("The GPU works for 286 µs of the 298 µs" in text for text in wait.why)


def test_a_copy_on_the_device():
    trace = recorded("matmul_add_4096_warm_compile.json.gz")
    facts = dict(explain(trace, find(trace, "Memcpy DtoD", 1)).facts)
    assert facts["bytes"] == "33.6 MB, 2.19 TB/s"
    assert "4.39 TB/s, 91% of the bandwidth" in facts["memory"]


# One matrix product of the MLP lesson with shapes, one elementwise op, and a linear around the product.
SHAPES = {
    "aten::linear": [[8192, 768], [3072, 768], []], "aten::mm": [[8192, 768], [768, 3072]],
    "aten::gelu": [[8192, 3072], []]
}  # fmt: skip


def write_trace(path: Path, shapes: bool = True, device: str = "NVIDIA H200") -> Path:
    def x(cat: str, name: str, tid: int, ts: float, dur: float, **args: Any) -> dict[str, Any]:
        event = {"ph": "X", "cat": cat, "name": name, "tid": tid, "ts": ts, "dur": dur, "args": args}
        return {**event, "pid": 0 if tid == 7 else 1}

    def linked(number: int, correlation: int, **more: Any) -> dict[str, Any]:
        return {"External id": number, "correlation": correlation, **more}

    def op(name: str, ts: float, dur: float, number: int) -> dict[str, Any]:
        args: dict[str, Any] = {"External id": number}
        if shapes:
            dims = SHAPES[name]
            args["Input Dims"] = dims
            args["Input type"] = ["c10::BFloat16" if d else "Scalar" for d in dims]
        return x("cpu_op", name, 1, ts, dur, **args)

    gelu = (
        "void at::native::vectorized_elementwise_kernel<8, at::native::GeluCUDAKernelImpl("
        "at::TensorIteratorBase&, at::native::GeluType)::{lambda()#1}::operator()() const::"
        "{lambda(c10::BFloat16)#1}, std::array<char*, 2ul> >(int)"
    )
    product = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT"
    events = [
        op("aten::linear", 0, 50, 1), op("aten::mm", 5, 40, 2),
        x("cuda_runtime", "cudaMemsetAsync", 1, 8, 2, **linked(2, 10)),
        x("cuda_runtime", "cudaLaunchKernel", 1, 12, 5, **linked(2, 11)), op("aten::gelu", 60, 20, 3),
        x("cuda_runtime", "cudaLaunchKernel", 1, 65, 5, **linked(3, 12)),
        x("gpu_memset", "Memset (Device)", 7, 15, 1, **linked(2, 10, device=0, bytes=4)),
        x("kernel", product, 7, 20, 50, **linked(2, 11, device=0)),
        x("kernel", gelu, 7, 75, 25, **linked(3, 12, device=0))
    ]  # fmt: skip
    properties = [{"id": 0, "name": device, "computeMajor": 9, "computeMinor": 0, "numSms": 132}]
    path.write_text(json.dumps({"deviceProperties": properties, "traceEvents": events}))
    return path


def test_the_products_of_the_mlp_sample():
    table = efficiency(load(SAMPLE_TRACES / "mlp_eager.json.gz"))
    products = [row for row in table.ops if row.kind == "gemm"]
    assert {row.shape for row in products} == {"8192 x 768 x 3072", "8192 x 3072 x 768"}
    assert sum(row.calls for row in products) == 9  # three products in three steps
    for row in products:
        assert row.flops == row.calls * 38_654_705_664
        assert row.compute_share is not None
        assert 0.6 < row.compute_share < 0.9


def test_a_product_is_explained_with_its_rate(tmp_path):
    trace = load(write_trace(tmp_path / "t.json"))
    facts = dict(explain(trace, find(trace, "nvjet")).facts)
    assert facts["M x K x N"] == "8192 x 768 x 3072"
    assert facts["FLOP"] == "38.7 G"
    assert facts["achieved"] == "773 TFLOP/s, 78% of the H200 SXM's peak"
    assert "bound by memory" in " ".join(explain(trace, find(trace, "void at::native")).why)


def test_hostile_args_are_explained(tmp_path):
    path = write_trace(tmp_path / "t.json")
    data = json.loads(path.read_text())
    for event in data["traceEvents"]:
        event["args"].update({"Input Dims": [[-1], "x", {}], "grid": ["a", -3], "bytes": "many"})
    data["deviceProperties"] = [{"id": 0, "numSms": "all"}]
    path.write_text(json.dumps(data))
    trace = load(path)
    for i in range(len(trace)):
        assert explain(trace, i).what
    assert efficiency(trace).ops == ()


def test_the_largest_part_is_that_of_all_calls_of_a_name(tmp_path):
    inner = [cpu("aten::view", 1, 30), *(cpu("aten::narrow", 40 + 20 * n, 18) for n in range(3))]
    told = explain(trace_of(tmp_path, cpu("CatBackward0", 0, 100), *inner), 0)
    assert "most of it goes to aten::narrow (3 calls, 54.0 µs)." in " ".join(told.why)


def test_a_meaning_is_not_said_twice(tmp_path):
    trace = trace_of(tmp_path, cpu("aten::empty", 0, 10), *run(30, 10, 1))
    assert [text for text in explain(trace, 0).what if "launches nothing" in text] == [
        "Allocates a tensor, on a GPU from PyTorch's caching allocator, and does not fill it. "
        "It launches nothing."
    ]


@pytest.mark.parametrize(("major", "said"), [(7, "fp16 would use"), (9, "TF32 or bf16 would use")])
def test_what_would_use_the_tensor_cores_depends_on_the_device(tmp_path, major, said):
    device = {"id": 0, "name": "a GPU", "computeMajor": major}
    trace = trace_of(tmp_path, *run(30, 10, 1, "sgemm_128x64_nn"), deviceProperties=[device])
    assert said in " ".join(explain(trace, int(np.flatnonzero(trace.kind == Kind.KERNEL)[0])).why)


def test_the_pace_of_the_device_is_no_gap(tmp_path):
    for pause, told in ((0.05, False), (0.1, True)):
        trace = trace_of(tmp_path, *run(30, 10, 1), *run(40 + pause, 10, 2))
        last = int(np.flatnonzero(trace.kind == Kind.KERNEL)[-1])
        assert ("was idle" in " ".join(explain(trace, last).why)) is told


H200: dict[str, Any] = {"deviceProperties": [
    {"id": 0, "name": "NVIDIA H200", "computeMajor": 9, "computeMinor": 0, "numSms": 132}
]}  # fmt: skip
GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, int>(int)"
DIMS = {"aten::mm": [[1024, 256], [256, 512]], "aten::add": [[1024, 1024], [1024, 1024]]}
TYPES = {"aten::mm": "c10::BFloat16", "aten::add": "float"}


def why(trace: Trace, name: str) -> str:
    return " ".join(explain(trace, next(i for i in range(len(trace)) if trace.name_of(i) == name)).why)


def ran(tmp_path: Path, op: str, name: str, length: float, **args: Any) -> Trace:
    """One op with one kernel of so many microseconds."""
    event = kernel(10, length, 1, name=name)
    event["args"] |= {"External id": 1} | args
    shapes = {"Input Dims": DIMS[op], "Input type": [TYPES[op]] * 2, "External id": 1}
    return trace_of(tmp_path, cpu(op, 0, 9, **shapes), launch(2, 1, 0.1), event, **H200)


def test_bound_by_memory(tmp_path):
    """12.58 MB at 0.6 of 4,800 GB/s take 4.369 us."""
    assert "bound by memory" in why(ran(tmp_path, "aten::add", ADD, 4.369), ADD)
    assert "bound by memory" not in why(ran(tmp_path, "aten::add", ADD, 4.370), ADD)


def test_what_the_cache_gave(tmp_path):
    """12.58 MB in 2.6 us are 4,840 GB/s: the memory has 4,800."""
    said = why(ran(tmp_path, "aten::add", ADD, 2.6), ADD)
    assert "bound by memory" not in said
    assert "more than the 4.80 TB/s of the H200 SXM's memory: part of it came from the L2 cache" in said


def test_far_from_the_peak(tmp_path):
    """268 MFLOP at 0.3 of 989.5 TFLOP/s take 0.9043 us."""
    assert "of the peak" not in why(ran(tmp_path, "aten::mm", GEMM, 0.904), GEMM)
    assert "It reaches 30% of the peak: this shape (1024 x 256 x 512)" in why(
        ran(tmp_path, "aten::mm", GEMM, 0.905), GEMM
    )


@pytest.mark.parametrize(("name", "said"), [
    (GEMM, "this shape (1024 x 256 x 512) may be too small"),
    (GEMM.replace("sm90", "sm80"), "it is sm80 code, and uses nothing that this GPU has beyond"),
    ("ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x3_tn", "it is ampere code"),
    (
        "ampere_sgemm_128x64_tn",
        "this shape (1024 x 256 x 512) may be too small",
    ),  # no tensor cores anywhere
])  # fmt: skip
def test_code_for_an_older_device(tmp_path, name, said):
    assert said in why(ran(tmp_path, "aten::mm", name, 30), name)


@pytest.mark.parametrize(("grid", "said"), [
    ([119, 1, 1], ""),
    ([59, 2, 1], "It has 118 blocks for 132 multiprocessors: at least 14 of them have nothing to do."),
    ([11, 2, 3], "at least 66 of them have nothing to do"),
    ([13, 5, 1], "It has 65 blocks for 132 multiprocessors: most of the GPU has nothing to do."),
    ([1, 1, 1], "It has 1 block for"), ([0, 1, 1], ""), ([2**32, 1, 1], ""), ("many", ""),
    (["many", 1, 1], ""), ([-3, -3, 1], "")
])  # fmt: skip
def test_too_few_blocks(tmp_path, grid, said):
    found = why(ran(tmp_path, "aten::mm", GEMM, 0.9, grid=grid), GEMM)
    assert said in found
    assert ("multiprocessors" in found) == bool(said)


def test_longer_than_its_like(tmp_path):
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
def test_calls_that_do_other_work_are_no_measure(tmp_path, mine, theirs, told):
    events = [kernel(100 * i, 30 if i == 0 else 20, i, name="k") for i in range(3)]
    for event, grid in zip(events, (mine, theirs, theirs), strict=True):
        event["args"]["grid"] = list(grid)
    assert ("times the median of its" in why(trace_of(tmp_path, *events), "k")) == told


def test_when_it_started(tmp_path):
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


def test_a_launch_that_waits_for_the_queue(tmp_path):
    full = cpu("Command Buffer Full", 12, 80, cat="overhead") | {"pid": -1, "tid": 0}
    trace = trace_of(tmp_path, cpu("aten::mm", 5, 100), launch(10, 1, 90), kernel(200, 5, 1), full)
    assert "For 80.0 µs of it, a launch waits: the GPU's queue is full." in why(trace, "cudaLaunchKernel")
    assert "a launch waits" in why(trace, "aten::mm")
    assert "the profiler's own work" not in why(trace, "aten::mm")
    longer = trace_of(tmp_path, cpu("aten::mm", 5, 900), launch(10, 1, 90), kernel(990, 5, 1), full)
    assert "a launch waits" not in why(longer, "aten::mm")


def test_where_an_op_s_time_goes(tmp_path):
    def parts(*children: Event) -> Any:
        return explain(trace_of(tmp_path, cpu("aten::linear", 0, 100), *children), 0)

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


def test_how_a_copy_went(tmp_path):
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


@pytest.mark.parametrize(("name", "short", "kind", "family"), [
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
])  # fmt: skip
def test_names(name, short, kind, family):
    found = decode(name)
    assert (found.short, found.kind, found.family) == (short, kind, family)


def test_the_shape_and_type_of_a_mangled_convolution():
    plain = decode("_ZN7cutlass4conv17Conv2dFpropKernelE")
    assert (plain.tile, plain.dtype, plain.tensor_cores) == (None, None, None)
    simt = decode("_ZN7cutlass4conv17Conv3dDgradKernelI9GemmShapeILi64ELi32ELi8EE10bfloat16_t7MmaSimtE")
    assert (simt.tile, simt.dtype, simt.tensor_cores) == ("64x32x8", "bf16", False)
    assert simt.short == "conv dgrad bf16 64x32"


@pytest.mark.parametrize(("name", "short"), [
    ("void cutlass::device_kernel<flash::FlashAttnFwdSm90<flash::Mainloop> >(flash::Params)", "flash3 fwd"),
    ("void cutlass::device_kernel<flash::FlashAttnBwdSm90<flash::Mainloop> >(flash::Params)", "flash3 bwd")
])  # fmt: skip
def test_the_way_of_an_attention_kernel(name, short):
    assert decode(name).short.startswith(short)


def test_the_work_of_an_op_is_told_for_a_kernel_that_does_it(tmp_path):
    def labels(name: str, op: str) -> set[str]:
        trace = ran(tmp_path, op, name, 5)
        at = next(i for i in range(len(trace)) if trace.name_of(i) == name)
        return {label for label, _ in explain(trace, at).facts}

    assert "work" in labels(ADD, "aten::add")
    assert "M x K x N" in labels(GEMM, "aten::mm")
    assert not {"work", "M x K x N"} & labels(ADD, "aten::mm")
    assert not {"work", "M x K x N"} & labels(GEMM, "aten::add")
    assert "work" not in labels("void at::native::reduce_kernel<512, 1, float>(float)", "aten::add")


@pytest.mark.parametrize(("arguments", "dtype"), [
    ("long, bool", "int64"), ("bool, long", None), ("bool, float", "fp32"),
    ("int, c10::BFloat16, float", "bf16"), ("4, 5", None)
])  # fmt: skip
def test_the_type_of_a_kernel_that_nobody_knows(arguments, dtype):
    assert decode(f"void library::thing<{arguments}>(int)").dtype == dtype


CUB = "void at_cuda_detail::cub::Device{}Kernel<int>(int)"
BACKWARD = (
    "fmha_cutlassB_f16_aligned_64x64_k64_sm80(PyTorchMemEffAttention::AttentionBackwardKernel<int>::Params)"
)
RANDOM = "void at::native::(anonymous namespace)::distribution_elementwise_grid_stride_kernel<float, 4>(long)"


@pytest.mark.parametrize(("name", "said"), [
    (CUB.format("SelectSweep"), "It picks elements"), (CUB.format("Scan"), "Running sums"),
    ("void at::native::tensor_kernel_scan_innermost_dim<float, std::plus<float> >(float*)", "Running sums"),
    (CUB.format("Reduce"), "A reduction: many elements become one."), (BACKWARD, "The backward of attention"),
    (RANDOM, "It writes random numbers")
])  # fmt: skip
def test_what_a_kernel_does_within_its_kind(tmp_path, name, said):
    assert " ".join(explain(trace_of(tmp_path, kernel(0, 5, 1, name=name)), 0).what).startswith(said)


@pytest.mark.parametrize("name", ["Context Sync", "Stream Sync", "Event Sync", "Stream Wait Event"])
def test_marks_of_synchronization_keep_their_names(name):
    """They are no functions with a type before the name."""
    assert decode(name).short == name
    assert decode(f"void {name.replace(' ', '_')}(int)").short == name.replace(" ", "_")


@pytest.mark.parametrize(("name", "short", "kind"), [
    ("CopyHostToDevice", "memcpy HtoD", "memcpy"), ("CopyDeviceToDevice", "memcpy DtoD", "memcpy"),
    ("FillBuffer", "memset", "memset"), ("CopyHostToDeviceKernel", "CopyHostToDevice", "copy"),
    ("_attn_fwd", "attn_fwd", "attention")
])  # fmt: skip
def test_copies_of_roctracer_and_attention_in_triton(name, short, kind):
    assert (decode(name).short, decode(name).kind) == (short, kind)


def test_an_annotation_has_a_shadow_on_the_gpu_and_an_op_of_its_name_has_none(tmp_path):
    shadow = kernel(10, 5, 0, name="mine::forward", cat="gpu_user_annotation")
    noted = cpu("mine::forward", 0, 9, "user_annotation")
    trace = trace_of(tmp_path, noted, cpu("mine::forward", 2, 5), shadow)
    said = [" ".join(explain(trace, i).what) for i in range(2)]
    assert ["is in its shadow" in text for text in said] == [True, False]


def test_an_annotation_is_told_from_an_op_and_from_python(tmp_path):
    kinds = ("user_annotation", "python_function", "cpu_op")
    told = [" ".join(explain(trace_of(tmp_path, cpu("mine", 0, 9, kind)), 0).what) for kind in kinds]
    assert ["record_function" in text for text in told] == [True, False, False]
    assert ["Python function" in text for text in told] == [False, True, False]
    assert "operator" in told[2]
