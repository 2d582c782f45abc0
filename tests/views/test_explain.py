"""Explanations, launch chains and achieved rates on real traces, and on one small trace written by hand."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.kineto import cpu, run, trace_of
from tests.recorded import load

from tracetui.analysis.calls.calls import self_time_of
from tracetui.analysis.calls.chain import MOST_EVENTS, launch_chain, launched_by
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


def test_the_chain_of_a_kernel_as_the_series_draws_it() -> None:
    trace = recorded("mlp_eager.json.gz")
    kernel = find(trace, "nvjet")
    assert chain_of(explain(trace, kernel)) == [
        ("step", "ProfilerStep#2"),
        ("annotation", "mlp_fwd"),
        ("op", "aten::linear"),
        ("op", "aten::matmul"),
        ("op", "aten::mm"),
        ("launch", "cuLaunchKernelEx"),
        ("kernel", "gemm bf16 256x128 tnt"),
    ]
    links = explain(trace, kernel).chain.links
    assert [link.level for link in links] == list(range(7))
    assert links[-1].slice == kernel
    assert links[-1].delay == trace.start[kernel] - trace.start[trace.launch[kernel]]


def test_the_chain_of_an_op_goes_down_to_all_that_it_launched() -> None:
    trace = recorded("matmul_add_4096_warm_compile.json.gz")
    chain = launch_chain(trace, find(trace, "aten::addmm"))
    assert [(link.role, link.level) for link in chain.links[-6:]] == [
        ("launch", 5),
        ("copy", 6),
        ("launch", 5),
        ("memset", 6),
        ("launch", 5),
        ("kernel", 6),
    ]
    assert chain.more == 0


def test_long_chains_are_cut_to_the_longest_kernels() -> None:
    trace = recorded("llama_train.json.gz")
    step = find(trace, "ProfilerStep#")
    chain = launch_chain(trace, step)
    events = [link for link in chain.links if link.delay is not None]
    assert len(events) == MOST_EVENTS
    assert chain.more == len(launched_by(trace, step)) - MOST_EVENTS
    longest = np.sort(trace.duration[launched_by(trace, step)])[-MOST_EVENTS:]
    assert sorted(link.duration for link in events) == longest.tolist()


def test_a_backward_op_belongs_to_the_step_and_to_its_forward() -> None:
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
    levels = [link.level for link in explain(trace, kernel).chain.links]
    assert levels == [0, 1, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("name", RECORDED)
def test_everything_can_be_explained(name: str) -> None:
    trace = recorded(name)
    own = self_time_of(Part(trace))
    for i in range(0, len(trace), max(1, len(trace) // 400)):
        found = explain(trace, i, own)
        assert found.title
        assert found.what
        assert all(text.endswith(".") for text in (*found.what, *found.why))
        assert any(link.slice == i for link in found.chain.links)


def test_no_such_slice() -> None:
    trace = recorded("mlp_eager.json.gz")
    with pytest.raises(IndexError, match="no slice"):
        explain(trace, len(trace))
    with pytest.raises(IndexError):
        explain(trace, -1)


def test_why_a_tiny_kernel_is_slow() -> None:
    trace = recorded("matmul_add_64_nosched_20.json.gz")
    why = " ".join(explain(trace, find(trace, "nvjet", 1)).why)
    assert "8 blocks for 132 multiprocessors" in why
    assert "Its launch takes the CPU longer" in why
    assert "nothing was queued" in why
    assert "outside any op" in why


def test_a_kernel_that_waited_in_the_queue() -> None:
    trace = recorded("matmul_add_4096_warm_eager.json.gz")
    last = find(trace, "void at::native::vectorized", -1)
    assert any("queued behind other work" in text for text in explain(trace, last).why)


def test_the_profiler_in_an_op() -> None:
    trace = recorded("matmul_add_64_nosched_20.json.gz")
    first = explain(trace, find(trace, "aten::mm"))
    assert "2.50 ms of it is the profiler's own work." in first.why
    assert "The profiler asks for memory" in explain(trace, find(trace, "Activity Buffer")).what[0]


def test_a_first_use_and_the_hole_in_it() -> None:
    """In the file: the first aten::mm takes 56.557 ms; between a cudaMalloc in it and the loading of code
    nothing is recorded for 52.6 ms."""
    trace = load(SAMPLE_TRACES / "matmul_add_64_cold.json.gz")
    first, later = (" ".join(explain(trace, find(trace, "aten::mm", n)).why) for n in (0, 1))
    assert "used for the first time" in first
    assert "Later calls do not pay for that; every start of the program does." in first
    assert "For 52.6 ms of it, after cudaMalloc, the trace shows no call inside it." in first
    assert "first time" not in later
    call = " ".join(explain(trace, find(trace, "cudaLaunchKernel", 0)).why)
    assert "used for the first time" in call


def test_views_and_waits() -> None:
    trace = recorded("mlp_eager.json.gz")
    what = " ".join(explain(trace, find(trace, "aten::t")).what)
    assert "metadata only" in what
    assert "launches nothing" in what
    trace = recorded("matmul_add_4096_warm_eager.json.gz")
    wait = explain(trace, find(trace, "cudaDeviceSynchronize"))
    assert any("The GPU works for 286 µs of the 298 µs" in text for text in wait.why)


def test_a_copy_on_the_device() -> None:
    trace = recorded("matmul_add_4096_warm_compile.json.gz")
    facts = dict(explain(trace, find(trace, "Memcpy DtoD", 1)).facts)
    assert facts["bytes"] == "33.6 MB, 2.19 TB/s"
    assert "4.39 TB/s, 91% of the bandwidth" in facts["memory"]


# One matrix product of the MLP lesson with shapes, one elementwise op, and a linear around the product.
SHAPES = {
    "aten::linear": [[8192, 768], [3072, 768], []],
    "aten::mm": [[8192, 768], [768, 3072]],
    "aten::gelu": [[8192, 3072], []],
}


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
        op("aten::linear", 0, 50, 1),
        op("aten::mm", 5, 40, 2),
        x("cuda_runtime", "cudaMemsetAsync", 1, 8, 2, **linked(2, 10)),
        x("cuda_runtime", "cudaLaunchKernel", 1, 12, 5, **linked(2, 11)),
        op("aten::gelu", 60, 20, 3),
        x("cuda_runtime", "cudaLaunchKernel", 1, 65, 5, **linked(3, 12)),
        x("gpu_memset", "Memset (Device)", 7, 15, 1, **linked(2, 10, device=0, bytes=4)),
        x("kernel", product, 7, 20, 50, **linked(2, 11, device=0)),
        x("kernel", gelu, 7, 75, 25, **linked(3, 12, device=0)),
    ]
    properties = [{"id": 0, "name": device, "computeMajor": 9, "computeMinor": 0, "numSms": 132}]
    path.write_text(json.dumps({"deviceProperties": properties, "traceEvents": events}))
    return path


def test_achieved_rates(tmp_path: Path) -> None:
    trace = load(write_trace(tmp_path / "t.json"))
    table = efficiency(trace)
    assert table.recorded
    assert not table.sampled
    assert table.peak is not None
    # The linear launched nothing itself: its product is counted once.
    assert [row.name for row in table.ops] == ["aten::mm", "aten::gelu"]
    product, gelu = table.ops
    assert product.flops == 38_654_705_664
    assert product.shape == "8192 x 768 x 3072"
    assert product.duration == 51_000  # the memset is the op's time too
    assert product.tflops == pytest.approx(38_654_705_664 / 51e-6 / 1e12)
    by_kernel = {row.short: row for row in table.kernels}
    kernel = by_kernel["gemm bf16 256x128 tnt"]
    assert kernel.tflops == pytest.approx(38_654_705_664 / 50e-6 / 1e12)
    assert kernel.compute_share == pytest.approx(kernel.tflops / 989.5)
    assert gelu.tflops is None
    assert gelu.bytes == 2 * 8192 * 3072 * 2
    assert gelu.gbps == pytest.approx(2 * 8192 * 3072 * 2 / 25e-6 / 1e9)
    assert gelu.memory_share == pytest.approx(gelu.gbps / 4800)


def test_the_products_of_the_mlp_sample() -> None:
    table = efficiency(load(SAMPLE_TRACES / "mlp_eager.json.gz"))
    products = [row for row in table.ops if row.kind == "gemm"]
    assert {row.shape for row in products} == {"8192 x 768 x 3072", "8192 x 3072 x 768"}
    assert sum(row.calls for row in products) == 9  # three products in three steps
    for row in products:
        assert row.flops == row.calls * 38_654_705_664
        assert row.compute_share is not None
        assert 0.6 < row.compute_share < 0.9


def test_an_unknown_device_gets_rates_and_no_share(tmp_path: Path) -> None:
    table = efficiency(load(write_trace(tmp_path / "t.json", device="NVIDIA H900")))
    assert table.peak is None
    assert table.device == "NVIDIA H900"
    assert table.ops[0].tflops is not None
    assert table.ops[0].compute_share is None
    assert table.ops[1].memory_share is None


def test_without_shapes_there_is_nothing_to_count(tmp_path: Path) -> None:
    for trace in (load(write_trace(tmp_path / "t.json", shapes=False)), recorded("mlp_eager.json.gz")):
        table = efficiency(trace)
        assert (table.recorded, table.ops, table.kernels) == (False, (), ())


def test_rates_of_some_events_only(tmp_path: Path) -> None:
    trace = load(write_trace(tmp_path / "t.json"))
    kernel = find(trace, "void at::native")
    table = efficiency(trace, np.array([kernel], dtype=np.int64))
    assert [row.name for row in table.ops] == ["aten::gelu"]


def test_a_product_is_explained_with_its_rate(tmp_path: Path) -> None:
    trace = load(write_trace(tmp_path / "t.json"))
    facts = dict(explain(trace, find(trace, "nvjet")).facts)
    assert facts["M x K x N"] == "8192 x 768 x 3072"
    assert facts["FLOP"] == "38.7 G"
    assert facts["achieved"] == "773 TFLOP/s, 78% of the H200 SXM's peak"
    gelu = explain(trace, find(trace, "void at::native"))
    assert "bound by memory" in " ".join(gelu.why)


def test_operators_on_the_cpu(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "t.json")
    data = json.loads(path.read_text())
    data["traceEvents"] = [e for e in data["traceEvents"] if e["cat"] == "cpu_op"]
    path.write_text(json.dumps(data))
    table = efficiency(load(path))
    # The linear contains the product: only the product counts.
    assert [row.name for row in table.ops] == ["aten::mm", "aten::gelu"]
    assert table.ops[0].duration == 40_000
    assert table.ops[0].compute_share is None
    assert table.kernels == ()


def test_hostile_args_are_explained(tmp_path: Path) -> None:
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


def test_the_largest_part_is_that_of_all_calls_of_a_name(tmp_path: Path) -> None:
    inner = [cpu("aten::view", 1, 30), *(cpu("aten::narrow", 40 + 20 * n, 18) for n in range(3))]
    trace = trace_of(tmp_path, cpu("CatBackward0", 0, 100), *inner)
    told = explain(trace, 0)
    assert "most of it goes to aten::narrow (3 calls, 54.0 µs)." in " ".join(told.why)


def test_a_meaning_is_not_said_twice(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, cpu("aten::empty", 0, 10), *run(30, 10, 1))
    assert [text for text in explain(trace, 0).what if "launches nothing" in text] == [
        "Allocates a tensor, on a GPU from PyTorch's caching allocator, and does not fill it. "
        "It launches nothing."
    ]


@pytest.mark.parametrize(("major", "said"), [(7, "fp16 would use"), (9, "TF32 or bf16 would use")])
def test_what_would_use_the_tensor_cores_depends_on_the_device(tmp_path: Path, major: int, said: str) -> None:
    device = {"id": 0, "name": "a GPU", "computeMajor": major}
    trace = trace_of(tmp_path, *run(30, 10, 1, "sgemm_128x64_nn"), deviceProperties=[device])
    kernel = int(np.flatnonzero(trace.kind == Kind.KERNEL)[0])
    assert said in " ".join(explain(trace, kernel).why)


def test_the_pace_of_the_device_is_no_gap(tmp_path: Path) -> None:
    for pause, told in ((0.05, False), (0.1, True)):
        trace = trace_of(tmp_path, *run(30, 10, 1), *run(40 + pause, 10, 2))
        last = int(np.flatnonzero(trace.kind == Kind.KERNEL)[-1])
        assert ("was idle" in " ".join(explain(trace, last).why)) is told
