"""Kernels of another type in several steps, other threads, and launches that are not in the file."""

import json

import pytest
from tests.compare.conftest import compared, comparison
from tests.compare.test_changes import conv
from tests.compare.test_some_steps import OPS, Op, recording, said
from tests.kineto import Event, cpu, kernel, launch, step, trace_of

from tracetui.analysis.part import Part
from tracetui.compare.calls import call_tree
from tracetui.compare.sides import side_of

ADD = "void at::native::vectorized_elementwise_kernel<8, at::native::CUDAFunctor_add<{}>, 3>(int)"
NORM = "void at::native::vectorized_layer_norm_kernel<{}, float, false>(int)"
ADAM = (
    "void multi_tensor_apply_kernel<FusedOptimizerTensorListMetadata<4>, FusedAdamMathFunctor<{}, 4> >(int)"
)
PRODUCTS = {
    "c10::BFloat16": "nvjet_sm90_tst_128x64_64x8_1x2_h_bz_NNT",
    "float": conv("64x64").replace("fprop_implicit_", ""),
}


def typed(of: str, length: float = 10, *more: Op) -> list[Op]:
    kernels = [PRODUCTS[of], *(name.format(of) for name in (ADD, NORM, ADAM, ADD))]
    ops = ["mm", "add", "layer_norm", "adamw", "add"]
    return [*((f"aten::{op}", 20, (one, length)) for op, one in zip(ops, kernels, strict=True)), *more]


def test_another_type_in_every_step(tmp_path):
    """Five kernels of four names a step, which take 30 instead of 10 us."""
    bf16, fp32 = recording(*[typed("c10::BFloat16")] * 4), recording(*[typed("float", 30)] * 4)
    for a, b, types, times, change in (
        (bf16, fp32, "fp32 instead of bf16", "50.0 µs → 150 µs", 100_000),
        (fp32, bf16, "bf16 instead of fp32", "150 µs → 50.0 µs", -100_000),
    ):
        ((kind, on, on_gpu, on_cpu, text),) = said(comparison(tmp_path, a, b))
        assert (kind, on, on_gpu, on_cpu) == ("dtype", "device", change, 0)
        start = f"The same ops run in {types}, 5 kernels (4 names) per step became 5 (4 names): {times} on "
        assert text.startswith(f"{start}the GPU, 100 µs → 100 µs on the CPU per step. Most of it: ")
        most = "30.0 µs → 90.0 µs" if change > 0 else "90.0 µs → 30.0 µs"
        assert text.endswith(f", 3 times: {most}.")


def test_few_kernels_of_another_type_are_told_one_by_one(tmp_path):
    def two(of: str) -> list[Event]:
        ops = [(f"aten::{op}", 20, (name.format(of), 10)) for op, name in (("a", ADD), ("n", NORM))]
        return recording(*[[ops[0], *OPS, ops[1]]] * 4)

    found = said(comparison(tmp_path, two("c10::BFloat16"), two("float")))
    assert [one[0] for one in found] == ["replaced", "replaced"]


def test_another_type_in_some_steps(tmp_path):
    plain, other = typed("c10::BFloat16"), typed("float", 30)
    found = comparison(tmp_path, recording(*[plain] * 4), recording(plain, other, plain, other))
    ((kind, _, change, _, text),) = said(found)
    assert (kind, change) == ("dtype", 50_000)
    assert "5 kernels (4 names) in 2 of 4 steps became 5 (4 names): 50.0 µs → 150 µs on the GPU, " in text
    assert " on the CPU each. " in text


def threads(first: int, second: int) -> list[Event]:
    """Steps on thread 9; five ops on one other thread, three on another one."""
    found = recording(*[OPS[:4]] * 3)
    for n, event in enumerate([e for e in found if e["cat"] == "user_annotation"]):
        for thread, names in ((first, "abcde"), (second, "xyz")):
            for k, name in enumerate(names):
                found.append(cpu(f"aten::{name}", event["ts"] + 10 * k + 1, 8) | {"tid": thread})
                number = 1000 + 100 * n + 10 * k + (thread == first)
                found.append(launch(event["ts"] + 10 * k + 2, number, 2) | {"tid": thread})
                found.append(kernel(event["ts"] + 10 * k + 5, 4, number, thread, name=f"of_{name}"))
    return found


def test_threads_are_the_same_whatever_their_numbers(tmp_path):
    found = comparison(tmp_path, threads(20, 30), threads(30, 20))
    assert said(found) == []
    assert found.same_program
    assert len(found.calls.a) == len(found.a.calls) == 3 * 2 * (4 + 5 + 3)
    assert len(found.work.a) == len(found.a.work) == 3 * (4 + 5 + 3)


@pytest.mark.parametrize("numbers", [(20, 30), (30, 20)])
def test_of_threads_that_call_at_once_the_one_that_launches_more_counts(tmp_path, numbers):
    events = [e for e in threads(*numbers) if e["tid"] != 9 or e["cat"] == "user_annotation"]
    trace = trace_of(tmp_path, *events)
    tree = call_tree(side_of(Part(trace)))
    counted = {trace.name_of(i) for i in tree.at[tree.own > 0].tolist()}
    assert counted == {"cudaLaunchKernel", *(f"aten::{name}" for name in "abcde")}


def test_a_launch_that_is_not_in_the_file(tmp_path):
    """Of one side the time on the CPU is not known: that is not told, nor that a graph did it."""
    a, b = (
        recording(*[[OPS[0], ("aten::f", 20, (name, long)), OPS[2]]] * 3)
        for name, long in (("old", 10), ("new", 15))
    )
    lost = {e["args"]["correlation"] for e in a if e["name"] == "old"}
    part = [e for e in a if e["cat"] != "cuda_runtime" or e["args"]["correlation"] not in lost]
    for one, other, names, times in (
        (part, b, "old became ", "10.0 µs → 15.0 µs"), (b, part, " became old", "15.0 µs → 10.0 µs")
    ):  # fmt: skip
        texts = [text for kind, *_, text in said(comparison(tmp_path, one, other)) if kind == "replaced"]
        assert len(texts) == 1
        assert names in texts[0]
        assert f": {times} on the GPU" in texts[0]
        assert "graph" not in texts[0]


def test_attention_of_another_library_is_more_than_another_type(tmp_path):
    """Its op is another one; all else runs the same ops."""
    attention = [
        (
            "aten::_cudnn_attention_forward", 20,
            ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_bf16", 10)
        ),
        ("aten::_efficient_attention_forward", 20, ("fmha_cutlassF_f32_aligned_64x64_rf_sm80", 40))
    ]  # fmt: skip
    a, b = typed("c10::BFloat16", 10, attention[0], *OPS), typed("float", 30, attention[1], *OPS)
    found = {one[0]: one for one in said(comparison(tmp_path, recording(*[a] * 4), recording(*[b] * 4)))}
    assert found["dtype"][2] == 100_000
    assert "5 kernels (4 names) per step became 5 (4 names)" in found["dtype"][4]
    assert found["replaced"][2] == 30_000
    start = "aten::_cudnn_attention_forward became aten::_efficient_attention_forward: 10.0 µs → 40.0 µs"
    assert found["replaced"][4].startswith(start)


def test_two_changes_of_types(tmp_path):
    """Five kernels from bf16 to fp32, and six of three ops to fp16."""
    two = (ADD, ADAM), (ADAM, ADAM), (ADD, ADD)

    def more(of: str, length: float) -> list[Op]:
        return [(f"aten::{n}", 20, *((name.format(of), length) for name in one)) for n, one in enumerate(two)]

    a = [*typed("c10::BFloat16"), *OPS, *more("c10::BFloat16", 10)]
    b = [*typed("float", 30), *OPS, *more("c10::Half", 12)]
    found = [
        one for one in said(comparison(tmp_path, recording(*[a] * 4), recording(*[b] * 4)))
        if one[0] == "dtype"
    ]  # fmt: skip
    assert [one[2] for one in found] == [100_000, 12_000]
    assert found[0][4].startswith("The same ops run in fp32 instead of bf16, 5 kernels")
    assert found[1][4].startswith("The same ops run in fp16 instead of bf16, 6 kernels")


@pytest.mark.parametrize(("one", "other", "notes"), [
    ("NVIDIA A10", "NVIDIA H200", ("A was recorded on NVIDIA A10, B on NVIDIA H200",)),
    ("NVIDIA A10", "NVIDIA A10", ()),
    ("", "NVIDIA A10", ()),  # not known
    ("NVIDIA A10", "", ()),
])  # fmt: skip
def test_another_device_is_noted(tmp_path, one, other, notes):
    events = [event for n in range(3) for event in (step(n, 1000 * n, 900), cpu("aten::mm", 1000 * n, 100))]
    paths = [tmp_path / "a.json", tmp_path / "b.json"]
    for path, name in zip(paths, (one, other), strict=True):
        known = {"deviceProperties": [{"id": 0, "name": name}]} if name else {}
        path.write_text(json.dumps({"traceEvents": events} | known))
    assert compared(*paths).notes == notes
