"""Rules on matmuls and convolutions: the units they run on, their types, alignment and layouts."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tracetui.analysis.attention import outside_attention
from tracetui.analysis.device_work import (
    decoded_name,
    device_work_of,
    has_tf32,
    kernel_names_of,
    work_of_kind,
    work_op_of,
    work_time,
    work_where,
)
from tracetui.analysis.names.gemm import UNALIGNED
from tracetui.analysis.names.model import on_plain_units
from tracetui.analysis.part import Part
from tracetui.analysis.rates.efficiency import peak_of
from tracetui.analysis.rates.flops import work_of
from tracetui.analysis.select import name_mask
from tracetui.analysis.verdicts import verdict_of
from tracetui.core.units import such
from tracetui.rules.claims import Claim, Claims, Ratio, Remedy, says
from tracetui.rules.model import KERNELS, OF_ALL, Finding, build_finding, claims_of, graded_kernels
from tracetui.trace.slices import Slices

FP32_SHARE = 0.05
_CHANNELS = "numbers of channels that are multiples of 8, and memory_format=torch.channels_last."
# The default: https://pytorch.org/docs/stable/notes/cuda.html
_FP32_CONVOLUTIONS = (
    "Convolutions may use TF32 unless torch.backends.cudnn.allow_tf32 = False: look for that. Otherwise, the "
    f"library chose no such kernel for these shapes: try {_CHANNELS}"
)
_PLAIN_CONVOLUTIONS = (
    f"Use {_CHANNELS} torch.backends.cudnn.benchmark=True lets the library measure its kernels and pick the "
    "fastest. A convolution whose patches do not overlap is a matmul: cut the input into patches and call a "
    "Linear layer."
)
UNALIGNED_SHARE = 0.05
LAYOUT_SHARE = 0.05
_CHANGES_LAYOUT = re.compile(r"(?i)nchwToNhwc|nhwcToNchw|batched_transpose_\d+x\d+")
"""cuDNN's names, and MIOpen's."""


def layout_conversions(part: Part) -> Iterator[Finding]:
    """Convolutions between which the layout of images is changed, from NCHW to NHWC and back."""
    at = work_where(part, lambda name: _CHANGES_LAYOUT.search(name.name[:200]) is not None).longest_first()
    time = at.time
    if not time or time < LAYOUT_SHARE * work_time(part) or not len(work_of_kind(part, "conv")):
        return
    line, flat, deep = (name_mask(part.trace, f"aten::conv{n}d".__eq__).any() for n in (1, 2, 3))
    claims = claims_of(part, at) | {
        "name": decoded_name(part, at.first).short,
        "dims": "1" if line and not flat and not deep else "3" if deep and not flat else "2",
    }
    severity = graded_kernels(part, time)
    yield build_finding("layout_conversions", severity, claims, at, KERNELS, remedy=Remedy("remove", at))


@says("layout_conversions")
def _layout_conversions(c: Claims) -> tuple[str, str, str]:
    advice = (
        "Keep the model and its inputs in NHWC: "
        f"model.to(memory_format=torch.channels_last{'_3d' if c.dims == '3' else ''}), and the same for the "
        "input."
    )
    if c.dims == "1":
        advice = (
            "torch.channels_last is for tensors of 4 dimensions: a Conv1d needs no conversions if you write "
            "it as a Conv2d of height 1, with its input in that format."
        )
    return (
        f"Conversions between NCHW and NHWC take {c.share}",
        f"{such(c.kernels.n, 'kernel', c.name)} {c.kernels:~take} {c.device_ns}. They copy a tensor into the "
        "layout that a convolution wants, and back: fast convolutions mostly take NHWC, PyTorch's default is "
        "NCHW.",
        advice,
    )


def fp32_products(part: Part) -> Iterator[Finding]:
    """Matrix products or convolutions in fp32 that no tensor core touches."""
    trace = part.trace
    at = work_where(part, on_plain_units).longest_first()
    time = at.time
    if time < max(1, FP32_SHARE * work_time(part), OF_ALL * verdict_of(part).judged):
        return
    modern = has_tf32(trace, kernel_names_of(part).values())
    convolutions = at.among(work_of_kind(part, "conv"))
    claims = claims_of(part, at) | {
        "name": decoded_name(part, at.first).short,
        "what": "convolutions" if convolutions.all() else "kernels" if convolutions.any() else "matmuls",
        "why": "convolutions" if modern and 2 * at[convolutions].time > time
        else "tf32" if modern
        else "fp16" if trace.info.devices
        else "unknown",  # a file that names no device
        **_peaks(part, "fp32", "tf32" if modern else "fp16"),
    }  # fmt: skip
    severity = graded_kernels(part, time)
    yield build_finding("fp32_products", severity, claims, at, KERNELS, remedy=_faster(at, claims))


def _peaks(part: Part, slow: str, fast: str) -> dict[str, Claim]:
    """What the device does at most in two types, where that is known."""
    peak, _ = peak_of(part.trace)
    if not peak or not peak.tflops_for(fast) or not peak.tflops_for(slow):
        return {}
    low, high = Ratio(peak.tflops[slow]), Ratio(peak.tflops[fast])
    return {"peak_of": peak.label, "slow_tflops": low, "fast_tflops": high, "fast": fast}


def _faster(at: Slices, claims: dict[str, Claim]) -> Remedy:
    slow, fast = claims.get("slow_tflops"), claims.get("fast_tflops")
    known = isinstance(slow, Ratio) and isinstance(fast, Ratio)
    return Remedy("speed_up", at, fast.value / slow.value if known else None)  # type: ignore[union-attr]


_FP32 = {
    "convolutions": _FP32_CONVOLUTIONS,
    "tf32": 'torch.set_float32_matmul_precision("high") lets them run as TF32; autocast runs them in bf16.',
    "fp16": "Run them in fp16 under autocast: this GPU's tensor cores do not take fp32.",
    "unknown": "If the GPU has tensor cores (Volta or newer), run them in fp16 under autocast.",
}


@says("fp32_products")
def _fp32_products(c: Claims) -> tuple[str, str, str]:
    text = f"{such(c.kernels.n, 'kernel', c.name)} {c.kernels:~take} {c.device_ns}, {c.share}, on the plain "
    text += "fp32 units."
    if "fast" in c:
        text += f" The {c.peak_of} does {c.slow_tflops.value:g} TFLOP/s there and {c.fast_tflops.value:g} in "
        text += f"{c.fast} on its tensor cores."
    return f"fp32 {c.what} run without tensor cores: {c.share}", text, _FP32[c.why]


def plain_convolutions(part: Part) -> Iterator[Finding]:
    """Convolutions in fp16 or bf16 that no tensor core touches."""
    at = work_where(
        part,
        lambda name: name.kind == "conv" and name.tensor_cores is False and name.dtype in ("fp16", "bf16"),
    ).longest_first()
    time = at.time
    if time < max(1, FP32_SHARE * work_time(part), OF_ALL * verdict_of(part).judged):
        return
    name = decoded_name(part, at.first)
    claims = claims_of(part, at) | {"name": name.short, "dtype": name.dtype}
    severity = graded_kernels(part, time)
    yield build_finding("plain_convolutions", severity, claims, at, KERNELS, remedy=Remedy("speed_up", at))


@says("plain_convolutions")
def _plain_convolutions(c: Claims) -> tuple[str, str, str]:
    return (
        f"{c.dtype} convolutions run without tensor cores: {c.share}",
        f"{such(c.kernels.n, 'kernel', c.name)} {c.kernels:~take} {c.device_ns}: they read {c.dtype} and "
        "multiply on the plain units, many times slower than the tensor cores could.",
        _PLAIN_CONVOLUTIONS,
    )


def double_precision(part: Part) -> Iterator[Finding]:
    """Matrix products or convolutions in fp64: often a default of NumPy's that nobody chose."""
    at = work_where(
        part, lambda name: name.kind in ("gemm", "conv") and name.dtype in ("fp64", "complex128")
    ).longest_first()
    time = at.time
    if time < max(1, FP32_SHARE * work_time(part), OF_ALL * verdict_of(part).judged):
        return
    faster = "tf32" if has_tf32(part.trace, kernel_names_of(part).values()) else "fp32"
    claims = claims_of(part, at) | {
        "name": decoded_name(part, at.first).short,
        "convolutions": bool(at.among(work_of_kind(part, "conv")).any()),
        **_peaks(part, "fp64", faster),
    }
    severity = graded_kernels(part, time)
    yield build_finding("double_precision", severity, claims, at, KERNELS, remedy=_faster(at, claims))


@says("double_precision")
def _double_precision(c: Claims) -> tuple[str, str, str]:
    text = f"{such(c.kernels.n, 'kernel', c.name)} {c.kernels:~take} {c.device_ns}, {c.share}."
    if "fast" in c:
        text += f" The {c.peak_of} does {c.slow_tflops.value:g} TFLOP/s in fp64 at most, and "
        text += f"{c.fast_tflops.value:g} in {c.fast}."
    return (
        f"fp64 {'kernels' if c.convolutions else 'matmuls'} take {c.share}",
        f"{text} Everything between them moves twice the bytes of fp32.",
        "If the result does not need fp64, convert model and data to fp32 or bf16. NumPy makes float64 "
        "arrays unless told otherwise, and torch.from_numpy keeps their type.",
    )


def unaligned_products(part: Part) -> Iterator[Finding]:
    """Products on tensor cores that have to load their operands piecemeal, as the rows are not aligned."""
    trace = part.trace
    at = work_where(part, lambda name: UNALIGNED in name.notes and name.tensor_cores is True)
    at = outside_attention(part, at).longest_first()
    time = at.time
    if not time or time < UNALIGNED_SHARE * work_time(part):
        return
    op = int(work_op_of(part)[device_work_of(part).among(at[:1])][0])
    work = work_of(trace.name_of(op), trace.args(op)) if op >= 0 else None
    claims = claims_of(part, at) | {"name": decoded_name(part, at.first).short}
    if work:
        claims |= {"op": trace.name_of(op), "shape": work.shape}
    severity = graded_kernels(part, time)
    yield build_finding("unaligned_products", severity, claims, at, KERNELS, remedy=Remedy("speed_up", at))


@says("unaligned_products")
def _unaligned_products(c: Claims) -> tuple[str, str, str]:
    shape = f" The longest is {c.op}, {c.shape}." if "op" in c else ""
    return (
        f"Kernels with unaligned operands take {c.share}",
        f"{such(c.kernels.n, 'kernel', c.name)} {c.kernels:~load} one element at a time (align1 in the "
        "name), because an operand's rows do not start at multiples of 16 bytes: some dimension is not a "
        f"multiple of 8.{shape} Kernels for aligned operands load up to eight at a time.",
        "Pad that dimension to a multiple of 8 (better, 64): vocabulary, sequence length, number of classes.",
    )
