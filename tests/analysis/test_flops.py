"""FLOPs and bytes from shapes, and the limits of devices: numbers that can be checked by hand."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracetui.analysis.rates.flops import Work, counted, work_of
from tracetui.analysis.rates.inputs import ITEM_SIZE, broadcast, per_axis, read_inputs
from tracetui.analysis.rates.peaks import LINKS, find_peak, known_peaks

BF16 = "c10::BFloat16"


def inputs(
    *shapes: list[int], types: list[str] | None = None, values: list[str] | None = None
) -> dict[str, Any]:
    kinds = types or [BF16 if shape else "Scalar" for shape in shapes]
    return {"Input Dims": list(shapes), "Input type": kinds, "Concrete Inputs": values or [""] * len(shapes)}


def test_old_files_have_no_types():
    work = work_of("aten::mm", {"Input dims": [[32, 1000], [1000, 2048]], "Input type": []})
    assert (work.flops, work.bytes, work.dtype) == (2 * 32 * 1000 * 2048, None, None)


@pytest.mark.parametrize(("name", "args"), [
    ("aten::mm", {}), ("aten::mm", inputs([2, 3], [4, 5])), ("aten::mm", inputs([], [])),
    ("aten::bmm", inputs([2, 8, 4], [3, 4, 8])), ("aten::view", inputs([2, 3])),
    ("mm", inputs([2, 3], [3, 4])), ("aten::add", inputs([2, 3], [4, 3])),
    ("aten::_foreach_add_", {"Input Dims": [[[2], [3]]]})
])  # fmt: skip
def test_what_cannot_be_counted_is_not(name, args):
    assert work_of(name, args) is None


def test_names_alone_say_what_can_be_counted():
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
def test_any_json_is_answered(name, dims, types, values):
    work = work_of(name, {"Input Dims": dims, "Input type": types, "Concrete Inputs": values})
    assert work is None or work.flops >= 0


SHAPE = st.lists(st.integers(-1, 2**50), max_size=5)


@given(
    NAMES, st.lists(SHAPE, max_size=12),
    st.lists(st.sampled_from(["[1, 1]", "0", "True", "x", ""]), max_size=12)
)  # fmt: skip
def test_any_shapes_are_answered(name, dims, values):
    work = work_of(name, {"Input Dims": dims, "Input type": ["float"] * len(dims), "Concrete Inputs": values})
    assert work is None or (work.flops >= 0 and (work.bytes is None or work.bytes >= 0))


def device(name: str, capability: str, sms: int, **more: Any) -> dict[str, Any]:
    major, minor = capability.split(".")
    return {"name": name, "computeMajor": int(major), "computeMinor": int(minor), "numSms": sms, **more}


def test_known_devices():
    h200 = find_peak(device("NVIDIA H200", "9.0", 132))
    assert h200.tflops_for("bf16") == pytest.approx(989.5)
    assert h200.bandwidth == 4800
    assert h200.tflops_for("int4") is None
    assert h200.tflops_for(None) is None
    assert find_peak(device("NVIDIA H100 80GB HBM3", "9.0", 132)).label == "H100 SXM"
    half = find_peak(device("AMD Instinct MI250X/MI250", "9.0", 104))
    assert half.label == "Instinct MI250, one of two dies"
    assert find_peak(device("", "9.4", 304, totalGlobalMem=206141652992)).label == "Instinct MI300X"


@pytest.mark.parametrize(("name", "capability", "sms", "label", "bf16", "link"), [
    ("NVIDIA A10", "8.6", 72, "A10", 125, "PCIe 4.0 x16"),
    ("NVIDIA A10G", "8.6", 80, "A10G", 70, "PCIe 4.0 x16"),
    ("NVIDIA A100 80GB PCIe", "8.0", 108, "A100 PCIe 80 GB", 312, "PCIe 4.0 x16"),
    ("NVIDIA A800-SXM4-80GB", "8.0", 108, "A800 SXM 80 GB", 312, "PCIe 4.0 x16"),
    ("NVIDIA H20", "9.0", 78, "H20", 148, "PCIe 5.0 x16"),
    ("NVIDIA H800", "9.0", 132, "H800 SXM", 989, "PCIe 5.0 x16"),
    ("NVIDIA GH200 480GB", "9.0", 132, "GH200 96 GB", 990, "NVLink-C2C"),
    ("NVIDIA GB200", "10.0", 152, "GB200", 2500, ""),
    ("AMD Instinct MI325X", "9.4", 304, "Instinct MI325X", 1307.4, "PCIe 5.0 x16"),
    ("AMD Instinct MI355X", "9.5", 256, "Instinct MI355X", 2516.6, "PCIe 5.0 x16")
])  # fmt: skip
def test_devices_of_similar_names(name, capability, sms, label, bf16, link):
    peak = find_peak(device(name, capability, sms))
    assert (peak.label, peak.tflops_for("bf16"), peak.link) == (label, bf16, link)


def test_an_unnamed_device_is_known_by_its_memory():
    assert find_peak(device("", "9.4", 304, totalGlobalMem=256 * 2**30)).label == "Instinct MI325X"


@pytest.mark.parametrize("properties", [
    device("NVIDIA H20-3e", "9.0", 78), device("NVIDIA H200 MIG 1g.18gb", "9.0", 16),
    device("NVIDIA H200", "9.0", 16), device("NVIDIA GeForce RTX 4090 Laptop GPU", "8.9", 76),
    device("ARTEMIS", "9.0", 132), device("", "9.0", 132), {}, {"name": None, "totalGlobalMem": "much"}
])  # fmt: skip
def test_unknown_devices_get_no_share(properties):
    assert find_peak(properties) is None


def test_the_table_of_peaks_is_sound():
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


def h200(**more: Any) -> dict[str, Any]:
    return {"name": "NVIDIA H200", "computeMajor": 9, "computeMinor": 0, "numSms": 132} | more


@pytest.mark.parametrize(("properties", "known"), [
    (h200(), True), (h200(computeMinor=1), False), (h200(computeMajor=None), True), (h200(numSms=131), False),
    (h200(numSms=None), True), (h200(name="NVIDIA H2000"), False)
])  # fmt: skip
def test_which_device_it_is(properties, known):
    assert (find_peak(properties) is not None) == known


@pytest.mark.parametrize(("gib", "known"), [
    (192, True), (192 * 0.951, True), (192 * 0.949, False), (192 * 1.049, True), (192 * 1.051, False)
])  # fmt: skip
def test_a_nameless_device_is_known_by_its_memory(gib, known):
    nameless = {
        "name": "", "computeMajor": 9, "computeMinor": 4, "numSms": 304, "totalGlobalMem": gib * 2**30
    }  # fmt: skip
    assert (find_peak(nameless) is not None) == known
    assert find_peak(nameless | {"numSms": None}) is None


def known_work(name: str, *shapes: list[int], **more: Any) -> Work:
    work = work_of(f"aten::{name}", inputs(*shapes, **more))
    assert work is not None
    return work


@pytest.mark.parametrize(("made", "flops", "moved", "shape"), [
    # 2·m·k·n; two bytes for each element read or written once.
    (lambda: known_work("mm", [3, 5], [5, 7]), 2 * 3 * 5 * 7, 2 * (15 + 35 + 21), "3 x 5 x 7"),
    (lambda: known_work("mv", [3, 5], [5]), 2 * 3 * 5, 2 * (15 + 5 + 3), "3 x 5 x 1"),
    (lambda: known_work("matmul", [5], [5, 7]), 2 * 5 * 7, 2 * (5 + 35 + 7), "1 x 5 x 7"),
    (lambda: known_work("bmm", [4, 3, 5], [4, 5, 7]), 2 * 4 * 105, 2 * (60 + 140 + 84), "4 of 3 x 5 x 7"),
    (
        lambda: known_work("matmul", [4, 1, 3, 5], [2, 5, 7]),
        2 * 8 * 105,
        2 * (60 + 70 + 168),
        "8 of 3 x 5 x 7",
    ),
    (lambda: known_work("addmm", [7], [3, 5], [5, 7], [], []), 210, 2 * (15 + 35 + 21 + 7), "3 x 5 x 7"),
    (
        lambda: known_work("baddbmm", [4, 3, 7], [4, 3, 5], [4, 5, 7], [], []),
        840,
        2 * (60 + 140 + 84 + 84),
        "4 of 3 x 5 x 7",
    ),
    (lambda: known_work("linear", [2, 3, 5], [7, 5], [7]), 420, 2 * (30 + 35 + 42 + 7), "6 x 5 x 7"),
    (lambda: known_work("linear", [2, 3, 5], [7, 5], []), 420, 2 * (30 + 35 + 42), "6 x 5 x 7"),
])  # fmt: skip
def test_products(made, flops, moved, shape):
    found = made()
    assert (found.kind, found.flops, found.bytes, found.shape) == ("gemm", flops, moved, shape)
    assert found.dtype == "bf16"
    assert 2 * found.batch * found.m * found.k * found.n == flops


def test_the_tensor_that_an_op_writes_to_is_not_read():
    """`aten::div(self, other, out)`: two are read, one is written."""
    shape, float_and = [4, 8], ["float", "float", BF16]
    assert known_work("div", shape, shape).bytes == known_work("div", shape, shape, shape).bytes == 2 * 3 * 32
    assert known_work("div", shape, shape, shape, types=float_and).bytes == 32 * (4 + 4 + 2)
    assert known_work("relu", shape, shape).bytes == 2 * 2 * 32
    assert known_work("where", shape, shape, shape, types=["bool", BF16, BF16]).bytes == 32 * (1 + 2 + 2 + 2)


@pytest.mark.parametrize("zero", ["0", "0.0", "0."])
def test_a_product_that_adds_nothing_reads_nothing_more(zero):
    shapes = ([3, 7], [3, 5], [5, 7], [], [])
    assert known_work("addmm", *shapes, values=["", "", "", zero, "1"]).bytes == 2 * (15 + 35 + 21)
    assert known_work("addmm", *shapes, values=["", "", "", "0.5", "1"]).bytes == 2 * (15 + 35 + 21 + 21)


@pytest.mark.parametrize(
    "shapes", [([3, 5], [4, 7]), ([3, 5],), ([2, 3, 5], [4, 5, 7]), ([3, 5], []), ([], [5, 7])]
)
def test_products_that_do_not_fit(shapes):
    assert work_of("aten::mm", inputs(*shapes)) is None
    assert work_of("aten::linear", inputs(*shapes)) is None


def test_a_linear_layer_needs_a_matrix():
    assert work_of("aten::linear", inputs([3, 5], [2, 7, 5])) is None
    assert work_of("aten::linear", inputs([3, 5], [7, 4])) is None
    assert work_of("aten::linear", inputs([3, 5], [5])) is None


def convolution(
    x: list[int], weight: list[int], stride: str = "[1, 1]", pad: str = "[0, 0]", dilation: str = "[1, 1]",
    transposed: str = "False", groups: str = "1",
) -> Work | None:  # fmt: skip
    values = ["", "", "", stride, pad, dilation, transposed, "[0, 0]", groups]
    return work_of("aten::convolution", inputs(x, weight, *([] for _ in range(7)), values=values))


@pytest.mark.parametrize(("made", "out", "each"), [
    # The output's elements, and 2 FLOP for each weight that one of them needs.
    (lambda: convolution([1, 2, 9, 8], [4, 2, 3, 3]), 4 * 7 * 6, 2 * 18),
    (lambda: convolution([1, 2, 9, 8], [4, 2, 3, 3], stride="[2, 3]"), 4 * 4 * 2, 2 * 18),
    (lambda: convolution([1, 2, 9, 8], [4, 2, 3, 3], stride="[2]"), 4 * 4 * 3, 2 * 18),
    (lambda: convolution([1, 2, 9, 8], [4, 2, 3, 3], pad="[1, 2]"), 4 * 9 * 10, 2 * 18),
    (lambda: convolution([1, 2, 9, 8], [4, 2, 3, 3], dilation="[2, 3]"), 4 * 5 * 2, 2 * 18),
    (lambda: convolution([5, 4, 9, 8], [4, 2, 3, 3], groups="2"), 5 * 4 * 7 * 6, 2 * 18),
    (lambda: convolution([5, 4, 9], [4, 4, 3], "[1]", "[0]", "[1]"), 5 * 4 * 7, 2 * 12),
    (lambda: convolution([1, 2, 3, 3], [4, 2, 3, 3]), 4, 2 * 18),
])  # fmt: skip
def test_the_output_of_a_convolution(made, out, each):
    found = made()
    assert found.kind == "conv"
    assert found.flops == out * each


def test_bytes_and_words_of_a_convolution():
    found = convolution([1, 2, 9, 8], [4, 2, 3, 3])
    assert found.bytes == 2 * (144 + 72 + 168)
    assert found.shape == "1 x 2 x 9 x 8 by 4 x 2 x 3 x 3"
    turned = convolution([1, 2, 9, 8], [2, 5, 3, 3], transposed="True")
    assert (turned.flops, turned.bytes) == (2 * 144 * 45, None)
    assert turned.shape == "1 x 2 x 9 x 8 transposed by 2 x 5 x 3 x 3"


@pytest.mark.parametrize("made", [
    lambda: convolution([1, 3, 9, 8], [4, 2, 3, 3]),  # channels do not fit
    lambda: convolution([1, 2, 2, 8], [4, 2, 3, 3]),  # smaller than the kernel
    lambda: convolution([1, 2, 9, 8], [4, 2, 3, 3], stride="[0, 1]"),
    lambda: work_of("aten::convolution", inputs([1, 2, 9, 8], [4, 2, 3, 3], *[[]] * 7)),  # no stride
    lambda: convolution([1, 2, 9, 8], [4, 2, 3, 3], groups="0"),
    lambda: convolution([1, 2, 9, 8], [4, 2, 3, 3], pad="[1, 1, 1]"),
    lambda: convolution([1, 2, 9], [4, 2, 3, 3]),
    lambda: convolution([1, 2], [4, 2]),
    lambda: work_of(
        "aten::conv1d", inputs([1, 2], [4, 2], *[[]] * 5, values=[*[""] * 3, "1", "0", "1", "1"])
    ),
])  # fmt: skip
def test_convolutions_that_do_not_fit(made):
    assert made() is None


@pytest.mark.parametrize(("mask", "gradients"), [
    ("[True, True, True]", 2), ("[True, False, True]", 1), ("[False, False, True]", 0), ("", 2),
    ("(1,0,1)", 1)
])  # fmt: skip
def test_gradients_of_a_convolution(mask, gradients):
    grad, x, weight = [1, 4, 7, 6], [1, 2, 9, 8], [4, 2, 3, 3]
    for transposed, once in (("False", 2 * 168 * 18), ("True", 2 * 144 * 18)):
        values = [*[""] * 4, "[1, 1]", "[0, 0]", "[1, 1]", transposed, "[0, 0]", "1", mask]
        found = known_work("convolution_backward", grad, x, weight, *([] for _ in range(8)), values=values)
        assert found.flops == gradients * once
        assert found.bytes == gradients * 2 * (168 + 144 + 72)
        assert found.shape == "1 x 2 x 9 x 8 by 4 x 2 x 3 x 3, backward"


def attention(name: str, queries: int, keys: int, causal: bool = False, dv: int = 16) -> Work:
    """2 in a batch, 3 heads, dimension 16."""
    q, k, v = [2, 3, queries, 16], [2, 3, keys, 16], [2, 3, keys, dv]
    values = ["", "", "", "0.", "True" if causal else "False", "False", ""]
    return known_work(name, q, k, v, [], [], [], [], values=values)


def test_the_work_of_attention():
    plain = attention("_scaled_dot_product_flash_attention", 10, 7)
    assert plain.flops == 2 * 6 * 70 * (16 + 16)
    assert plain.bytes == 2 * (2 * 3 * 16 * (10 + 7 + 7) + 2 * 3 * 10 * 16)
    assert plain.shape == "2 x 3 heads, 10 queries, 7 keys, dimension 16"
    assert attention("_scaled_dot_product_flash_attention", 10, 7, dv=8).flops == 2 * 6 * 70 * (16 + 8)


@pytest.mark.parametrize(
    ("queries", "keys", "pairs"), [(5, 5, 15), (5, 8, 15), (8, 5, 15 + 3 * 5), (1, 9, 1), (3, 1, 3)]
)
def test_a_causal_mask_counts_what_it_leaves(queries, keys, pairs):
    found = attention("_scaled_dot_product_flash_attention", queries, keys, True)
    assert pairs == sum(j <= i for i in range(queries) for j in range(keys))
    assert found.flops == 2 * 6 * pairs * 32
    assert found.shape.endswith(", causal")


@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize("shape", [[], [3, 10, 16], [2, 2, 3, 10, 16]])
def test_attention_has_four_dimensions(at, shape):
    shapes = [[2, 3, 10, 16] for _ in range(3)]
    shapes[at] = shape
    assert work_of("aten::scaled_dot_product_attention", inputs(*shapes)) is None


def test_of_an_input_that_is_a_list_of_tensors_no_shape_is_recorded():
    q = [2, 12, 1024, 64]
    several: list[Any] = [q, [q, q], q]
    for shapes in (several, several[1:], several[::-1][:2]):
        assert work_of("aten::_scaled_dot_product_flash_attention", inputs(*shapes)) is None


def test_the_backward_of_attention():
    q = [2, 3, 10, 16]
    found = known_work("_scaled_dot_product_flash_attention_backward", q, q, q, q)
    assert found.flops == 2 * 6 * 100 * 5 * 16
    assert found.bytes == 2 * 2 * (4 * 960)
    assert found.shape.endswith("dimension 16, backward")


def test_elementwise_work():
    found = known_work("add", [4, 1, 6], [5, 1], types=["float", BF16])
    assert (found.kind, found.flops, found.shape, found.dtype) == ("elementwise", 120, "4 x 5 x 6", "fp32")
    assert found.bytes == 24 * 4 + 5 * 2 + 120 * 4
    assert known_work("mul_", [8], []).bytes == 8 * 2 + 8 * 2
    assert work_of("aten::add", inputs([3], [4])) is None
    assert work_of("aten::add", inputs([], [])) is None
    copy = known_work("copy_", [4, 6], [6], types=["float", "double"])
    assert (copy.flops, copy.bytes, copy.shape) == (0, 24 * 4 + 6 * 8, "4 x 6")
    assert known_work("copy_", [4], [4], types=["float", "unheard of"]).bytes is None
    assert work_of("aten::copy_", inputs([], [3])) is None


def test_shapes():
    assert broadcast((2, 1, 3), (4, 1)) == (2, 4, 3)
    assert broadcast((), (4, 1)) == (4, 1)
    assert broadcast((2,), (3,)) is None
    assert broadcast((0,), (1,)) == (0,)
    assert per_axis((3,), 2) == (3, 3)
    assert per_axis((3, 4), 2) == (3, 4)
    assert per_axis((3, 4), 3) is None
    assert per_axis(None, 1) is None


def test_recorded_inputs():
    call = read_inputs({
        "Input Dims": [
            [2, 3], [], [[2], [3]], [2**48], [-1], [1.5], [2**48 - 1], [1] * 17, [1] * 16, 5, "ab"
        ],
        "Input type": [BF16, "Scalar", "TensorList"],
        "Concrete Inputs": ["", "[1, -2]", " True ", "2", "x", "(3)", 5]
    })  # fmt: skip
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


@pytest.mark.parametrize(("name", "first", "heads_first", "causal", "ragged"), [
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
])  # fmt: skip
def test_where_the_inputs_of_attention_stand(name, first, heads_first, causal, ragged):
    one = [2, 3, 10, 16] if heads_first else [2, 10, 3, 16]
    other = [2, 3, 7, 16] if heads_first else [2, 7, 3, 16]
    shapes: list[list[int]] = [[] for _ in range(16)]
    shapes[first : first + 3] = one, other, other
    products = 5 if first else 2
    assert known_work(name, *shapes).flops == 2 * 6 * 70 * products * 16
    for at in range(16):
        values = ["True" if i == at else "" for i in range(16)]
        pairs = 7 * 8 // 2 + 3 * 7 if at == causal else 70
        assert known_work(name, *shapes, values=values).flops == 2 * 6 * pairs * products * 16
    if ragged is not None:
        shapes[ragged] = [3]
        assert work_of(f"aten::{name}", inputs(*shapes)) is None


@pytest.mark.parametrize(("name", "stride", "pad", "dilation", "groups"), [
    ("conv2d", 3, 4, 5, 6), ("cudnn_convolution_relu", 3, 4, 5, 6), ("_convolution", 3, 4, 5, 8),
    ("convolution_overrideable", 3, 4, 5, 8), ("mkldnn_convolution", 4, 3, 5, 6),
    ("miopen_convolution", 4, 3, 5, 6), ("cudnn_convolution", 3, 2, 4, 5)
])  # fmt: skip
def test_where_the_inputs_of_a_convolution_stand(name, stride, pad, dilation, groups):
    shapes: list[list[int]] = [[] for _ in range(9)]
    shapes[:2] = [1, 4, 20, 20], [6, 2, 3, 3]
    values = [""] * 9
    values[stride], values[pad], values[dilation], values[groups] = "[2, 2]", "[1, 1]", "[3, 3]", "2"
    assert known_work(name, *shapes, values=values).flops == 2 * (6 * 8 * 8) * (2 * 3 * 3)


def test_no_more_inputs_are_read_than_an_op_has():
    call = read_inputs(
        {"Input Dims": [[1]] * 70, "Input type": ["float"] * 70, "Concrete Inputs": ["x"] * 70}
    )
    assert (call.shape(63), call.shape(64)) == ((1,), None)
    assert (call.dtype(63), call.dtype(64)) == ("fp32", None)
    assert (call.value(63), call.value(64)) == ("x", "")


def test_the_sizes_of_the_types():
    """As NumPy has them, of those that it has."""
    for name, size in ITEM_SIZE.items():
        known = name.replace("fp", "float") if name[:2] == "fp" and name != "fp8" else name
        if known not in ("tf32", "bf16", "fp8"):
            assert np.dtype(known).itemsize == size, name
    assert (ITEM_SIZE["tf32"], ITEM_SIZE["bf16"], ITEM_SIZE["fp8"]) == (4, 2, 1)
