"""FLOPs and bytes from shapes, and the limits of devices: numbers that can be checked by hand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracetui.analysis.rates.flops import counted, work_of
from tracetui.analysis.rates.peaks import LINKS, find_peak, known_peaks

BF16 = "c10::BFloat16"


def recorded(
    *shapes: list[int], types: list[str] | None = None, values: list[str] | None = None
) -> dict[str, Any]:
    return {
        "Input Dims": list(shapes),
        "Input type": types or [BF16 if shape else "Scalar" for shape in shapes],
        "Concrete Inputs": values or [""] * len(shapes),
    }


def test_the_products_of_the_mlp_lesson() -> None:
    # 64 sequences of 128 tokens, 768 to 3072 features and back.
    for shapes in (([8192, 768], [768, 3072]), ([8192, 3072], [3072, 768])):
        work = work_of("aten::mm", recorded(*shapes))
        assert work is not None
        assert work.flops == 2 * 8192 * 768 * 3072 == 38_654_705_664
        assert (work.m, work.k, work.n, work.batch, work.dtype) == (8192, *shapes[1], 1, "bf16")
        assert work.bytes == 2 * (8192 * 768 + 768 * 3072 + 8192 * 3072)
    assert work_of("aten::mm", recorded([8192, 768], [768, 3072])).shape == "8192 x 768 x 3072"  # type: ignore[union-attr]


def test_addmm_reads_what_it_adds() -> None:
    shapes = ([4096, 4096], [4096, 4096], [4096, 4096], [], [])
    work = work_of("aten::addmm", recorded(*shapes, values=["", "", "", "1", "1"]))
    without = work_of("aten::addmm", recorded(*shapes, values=["", "", "", "0", "1"]))
    assert work is not None
    assert without is not None
    assert work.flops == without.flops == 2 * 4096**3
    assert work.bytes == 4 * 2 * 4096**2
    assert without.bytes == 3 * 2 * 4096**2


def test_batched_products() -> None:
    work = work_of("aten::bmm", recorded([16, 5185, 64], [16, 64, 5185]))
    assert work is not None
    assert (work.flops, work.batch) == (2 * 16 * 5185 * 64 * 5185, 16)
    work = work_of("aten::baddbmm", recorded([16, 8, 4], [16, 8, 2], [16, 2, 4], [], []))
    assert work is not None
    assert work.flops == 2 * 16 * 8 * 2 * 4
    work = work_of("aten::matmul", recorded([2, 1, 8, 3], [5, 3, 4]))
    assert work is not None
    assert (work.batch, work.flops) == (10, 2 * 10 * 8 * 3 * 4)


def test_linear_and_mv() -> None:
    work = work_of("aten::linear", recorded([64, 128, 768], [3072, 768], [3072]))
    assert work is not None
    assert (work.m, work.k, work.n) == (8192, 768, 3072)
    work = work_of("aten::mv", recorded([100, 20], [20]))
    assert work is not None
    assert work.flops == 2 * 100 * 20


def test_convolutions() -> None:
    # The patch embedding of a vision transformer: 1008 / 14 = 72 patches a side.
    values = ["", "", "[0, 0]", "[14, 14]", "[1, 1]", "1", "False", "False", "True"]
    shapes = ([1, 3, 1008, 1008], [1024, 3, 14, 14], *([] for _ in range(7)))
    work = work_of("aten::cudnn_convolution", recorded(*shapes, values=values))
    assert work is not None
    assert work.flops == 2 * (72 * 72 * 1024) * (3 * 14 * 14)
    values = ["", "", "", "[2, 2]", "[3, 3]", "[1, 1]", "False", "[0, 0]", "1"]
    shapes = ([32, 3, 224, 224], [64, 3, 7, 7], *([] for _ in range(7)))
    work = work_of("aten::convolution", recorded(*shapes, values=values))
    assert work is not None
    assert work.flops == 2 * (32 * 64 * 112 * 112) * (3 * 7 * 7)
    # Without the concrete stride and padding the output's size is not known.
    assert work_of("aten::convolution", recorded(*shapes)) is None


def test_the_backward_of_a_convolution_counts_the_gradients_asked_for() -> None:
    shapes = ([8, 64, 56, 56], [8, 64, 56, 56], [64, 64, 3, 3], *([] for _ in range(8)))
    once = 2 * (8 * 64 * 56 * 56) * (64 * 3 * 3)
    for mask, gradients in (("[True, True, False]", 2), ("[False, True, False]", 1)):
        values = [*[""] * 4, "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1", mask]
        work = work_of("aten::convolution_backward", recorded(*shapes, values=values))
        assert work is not None
        assert work.flops == gradients * once


def test_attention() -> None:
    q = [2, 12, 1024, 64]
    shapes = (q, q, q, [], [], [], [])
    plain = work_of("aten::_scaled_dot_product_flash_attention", recorded(*shapes))
    assert plain is not None
    assert plain.flops == 4 * 2 * 12 * 1024 * 1024 * 64
    causal = work_of(
        "aten::_scaled_dot_product_flash_attention",
        recorded(*shapes, values=["", "", "", "0.", "True", "False", ""]),
    )
    assert causal is not None
    assert causal.flops == 4 * 2 * 12 * (1024 * 1025 // 2) * 64
    backward = work_of("aten::_scaled_dot_product_flash_attention_backward", recorded(q, *shapes[:3]))
    assert backward is not None
    assert backward.flops == 10 * 2 * 12 * 1024 * 1024 * 64
    # Flash attention's own operator takes batch x sequence x heads x dimension.
    inner = work_of("aten::_flash_attention_forward", recorded(*([2, 1024, 12, 64] for _ in range(3))))
    assert inner is not None
    assert inner.flops == plain.flops
    # Sequences of several lengths in one batch: the shapes do not say how much there is to do.
    ragged = recorded(*([1, 4096, 12, 64] for _ in range(3)), [9], [9])
    assert work_of("aten::_flash_attention_forward", ragged) is None
    # Of an input that is a list of tensors, no shape is recorded.
    several: list[Any] = [q, [q, q], q]
    for shapes in (several, several[1:], several[::-1][:2]):
        assert work_of("aten::_scaled_dot_product_flash_attention", recorded(*shapes)) is None


def test_elementwise() -> None:
    work = work_of("aten::add", recorded([4096, 4096], [4096], []))
    assert work is not None
    assert (work.kind, work.flops) == ("elementwise", 4096 * 4096)
    assert work.bytes == 2 * (4096 * 4096 + 4096 + 4096 * 4096)
    scaled = work_of("aten::mul", recorded([10, 10], [], types=[BF16, "double"]))
    assert scaled is not None
    assert scaled.bytes == 100 * 2 + 8 + 100 * 2
    copy = work_of("aten::copy_", recorded([10, 10], [10, 10], [], types=["float", BF16, "Scalar"]))
    assert copy is not None
    assert (copy.flops, copy.bytes) == (0, 100 * 4 + 100 * 2)


def test_old_files_have_no_types() -> None:
    work = work_of("aten::mm", {"Input dims": [[32, 1000], [1000, 2048]], "Input type": []})
    assert work is not None
    assert (work.flops, work.bytes, work.dtype) == (2 * 32 * 1000 * 2048, None, None)


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("aten::mm", {}),
        ("aten::mm", recorded([2, 3], [4, 5])),
        ("aten::mm", recorded([], [])),
        ("aten::bmm", recorded([2, 8, 4], [3, 4, 8])),
        ("aten::view", recorded([2, 3])),
        ("mm", recorded([2, 3], [3, 4])),
        ("aten::add", recorded([2, 3], [4, 3])),
        ("aten::_foreach_add_", {"Input Dims": [[[2], [3]]]}),
    ],
)
def test_what_cannot_be_counted_is_not(name: str, args: dict[str, Any]) -> None:
    assert work_of(name, args) is None


def test_names_alone_say_what_can_be_counted() -> None:
    assert counted("aten::addmm")
    assert counted("aten::add_")
    assert counted("aten::copy_")
    assert not counted("aten::t")
    assert not counted("aten::_foreach_add_")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=20,
)
NAMES = st.sampled_from(
    ["mm", "addmm", "linear", "convolution", "convolution_backward", "add", "cudnn_convolution", "copy_",
     "_flash_attention_forward", "scaled_dot_product_attention"]
).map("aten::{}".format)  # fmt: skip


@given(NAMES, JSON, JSON, JSON)
def test_any_json_is_answered(name: str, dims: Any, types: Any, values: Any) -> None:
    work = work_of(name, {"Input Dims": dims, "Input type": types, "Concrete Inputs": values})
    assert work is None or work.flops >= 0


SHAPE = st.lists(st.integers(-1, 2**50), max_size=5)


@given(
    NAMES,
    st.lists(SHAPE, max_size=12),
    st.lists(st.sampled_from(["[1, 1]", "0", "True", "x", ""]), max_size=12),
)
def test_any_shapes_are_answered(name: str, dims: list[list[int]], values: list[str]) -> None:
    work = work_of(name, {"Input Dims": dims, "Input type": ["float"] * len(dims), "Concrete Inputs": values})
    assert work is None or (work.flops >= 0 and (work.bytes is None or work.bytes >= 0))


def device(name: str, capability: str, sms: int, **more: Any) -> dict[str, Any]:
    major, minor = capability.split(".")
    return {"name": name, "computeMajor": int(major), "computeMinor": int(minor), "numSms": sms, **more}


def test_known_devices() -> None:
    h200 = find_peak(device("NVIDIA H200", "9.0", 132))
    assert h200 is not None
    assert h200.tflops_for("bf16") == pytest.approx(989.5)
    assert h200.bandwidth == 4800
    assert h200.tflops_for("int4") is None
    assert h200.tflops_for(None) is None
    h100 = find_peak(device("NVIDIA H100 80GB HBM3", "9.0", 132))
    assert h100 is not None
    assert h100.label == "H100 SXM"
    half = find_peak(device("AMD Instinct MI250X/MI250", "9.0", 104))
    assert half is not None
    assert half.label == "Instinct MI250, one of two dies"
    unnamed = find_peak(device("", "9.4", 304, totalGlobalMem=206141652992))
    assert unnamed is not None
    assert unnamed.label == "Instinct MI300X"


@pytest.mark.parametrize(
    ("name", "capability", "sms", "label", "bf16", "link"),
    [
        ("NVIDIA A10", "8.6", 72, "A10", 125, "PCIe 4.0 x16"),
        ("NVIDIA A10G", "8.6", 80, "A10G", 70, "PCIe 4.0 x16"),
        ("NVIDIA A100 80GB PCIe", "8.0", 108, "A100 PCIe 80 GB", 312, "PCIe 4.0 x16"),
        ("NVIDIA A800-SXM4-80GB", "8.0", 108, "A800 SXM 80 GB", 312, "PCIe 4.0 x16"),
        ("NVIDIA H20", "9.0", 78, "H20", 148, "PCIe 5.0 x16"),
        ("NVIDIA H800", "9.0", 132, "H800 SXM", 989, "PCIe 5.0 x16"),
        ("NVIDIA GH200 480GB", "9.0", 132, "GH200 96 GB", 990, "NVLink-C2C"),
        ("NVIDIA GB200", "10.0", 152, "GB200", 2500, ""),
        ("AMD Instinct MI325X", "9.4", 304, "Instinct MI325X", 1307.4, "PCIe 5.0 x16"),
        ("AMD Instinct MI355X", "9.5", 256, "Instinct MI355X", 2516.6, "PCIe 5.0 x16"),
    ],
)
def test_devices_of_similar_names(
    name: str, capability: str, sms: int, label: str, bf16: float, link: str
) -> None:
    peak = find_peak(device(name, capability, sms))
    assert peak is not None
    assert (peak.label, peak.tflops_for("bf16"), peak.link) == (label, bf16, link)


def test_an_unnamed_device_is_known_by_its_memory() -> None:
    peak = find_peak(device("", "9.4", 304, totalGlobalMem=256 * 2**30))
    assert peak is not None
    assert peak.label == "Instinct MI325X"


@pytest.mark.parametrize(
    "properties",
    [
        device("NVIDIA H20-3e", "9.0", 78),
        device("NVIDIA H200 MIG 1g.18gb", "9.0", 16),
        device("NVIDIA H200", "9.0", 16),
        device("NVIDIA GeForce RTX 4090 Laptop GPU", "8.9", 76),
        device("ARTEMIS", "9.0", 132),
        device("", "9.0", 132),
        {},
        {"name": None, "totalGlobalMem": "much"},
    ],
)
def test_unknown_devices_get_no_share(properties: dict[str, Any]) -> None:
    assert find_peak(properties) is None


def test_the_table_of_peaks_is_sound() -> None:
    for peak in known_peaks():
        assert peak.source
        assert peak.bandwidth > 0
        assert peak.link in ("", *LINKS)
        rates = peak.tflops
        assert rates.get("fp32", 0) <= rates.get("tf32", rates["fp16"])
        assert rates.get("tf32", 0) <= rates["fp16"]
        assert rates.get("bf16", rates["fp16"]) == rates["fp16"]
        assert rates["fp16"] <= rates.get("int8", rates["fp16"])
        # A figure with sparsity among dense ones would be four times its neighbor, not twice.
        assert rates.get("fp8", 0) <= 2.1 * rates["fp16"]
