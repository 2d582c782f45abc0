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
from tracetui.analysis.select import named
from tracetui.analysis.verdicts import verdict_of
from tracetui.core.units import duration, share, such, verb
from tracetui.rules.model import (
    OF_ALL,
    WORK_TIME,
    Finding,
    first_of,
    graded_kernels,
    numbers_of,
)

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
    fraction = share(time / work_time(part))
    line, flat, deep = (named(part.trace, f"aten::conv{n}d".__eq__).any() for n in (1, 2, 3))
    advice = (
        "Keep the model and its inputs in NHWC: "
        f"model.to(memory_format=torch.channels_last{'_3d' if deep and not flat else ''}), and the same for "
        "the input."
    )
    if line and not flat and not deep:
        advice = (
            "torch.channels_last is for tensors of 4 dimensions: a Conv1d needs no conversions if you write "
            "it as a Conv2d of height 1, with its input in that format."
        )
    yield Finding(
        "layout_conversions",
        graded_kernels(part, time),
        f"Conversions between NCHW and NHWC take {fraction} of {WORK_TIME}",
        f"{such(len(at), 'kernel', decoded_name(part, at.first).short)} "
        f"{verb(len(at), 'take')} {duration(time)}. They copy a tensor into the layout that a convolution "
        "wants, and back: fast convolutions mostly take NHWC, PyTorch's default is NCHW.",
        advice,
        first_of(at),
        numbers_of(part, at),
    )


def fp32_products(part: Part) -> Iterator[Finding]:
    """Matrix products or convolutions in fp32 that no tensor core touches."""
    trace = part.trace
    at = work_where(part, on_plain_units).longest_first()
    time = at.time
    if time < max(1, FP32_SHARE * work_time(part), OF_ALL * verdict_of(part).judged):
        return
    modern = has_tf32(trace, kernel_names_of(part).values())
    name = decoded_name(part, at.first)
    peak, _ = peak_of(trace)
    convolutions = at.among(work_of_kind(part, "conv"))
    what = "convolutions" if convolutions.all() else "kernels" if convolutions.any() else "matmuls"
    text = f"{such(len(at), 'kernel', name.short)} {verb(len(at), 'take')} {duration(time)}, "
    text += f"{share(time / work_time(part))} of {WORK_TIME}, on the plain fp32 units. "
    faster = "tf32" if modern else "fp16"
    if peak and peak.tflops_for(faster) and peak.tflops_for("fp32"):
        text += (
            f"The {peak.label} does {peak.tflops['fp32']:g} TFLOP/s there and {peak.tflops[faster]:g} in "
            f"{faster} on its tensor cores."
        )
    if modern and 2 * at[convolutions].time > time:
        advice = _FP32_CONVOLUTIONS
    elif modern:
        advice = (
            'torch.set_float32_matmul_precision("high") lets them run as TF32; autocast runs them in bf16.'
        )
    elif trace.info.devices:
        advice = "Run them in fp16 under autocast: this GPU's tensor cores do not take fp32."
    else:  # a file that names no device
        advice = "If the GPU has tensor cores (Volta or newer), run them in fp16 under autocast."
    yield Finding(
        "fp32_products",
        graded_kernels(part, time),
        f"fp32 {what} run without tensor cores: {share(time / work_time(part))} of {WORK_TIME}",
        text.strip(),
        advice,
        first_of(at),
        numbers_of(part, at),
    )


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
    yield Finding(
        "plain_convolutions",
        graded_kernels(part, time),
        f"{name.dtype} convolutions run without tensor cores: {share(time / work_time(part))} of {WORK_TIME}",
        f"{such(len(at), 'kernel', name.short)} {verb(len(at), 'take')} {duration(time)}: they read "
        f"{name.dtype} and multiply on the plain units, many times slower than the tensor cores could.",
        _PLAIN_CONVOLUTIONS,
        first_of(at),
        numbers_of(part, at),
    )


def double_precision(part: Part) -> Iterator[Finding]:
    """Matrix products or convolutions in fp64: often a default of NumPy's that nobody chose."""
    trace = part.trace
    at = work_where(
        part, lambda name: name.kind in ("gemm", "conv") and name.dtype in ("fp64", "complex128")
    ).longest_first()
    time = at.time
    if time < max(1, FP32_SHARE * work_time(part), OF_ALL * verdict_of(part).judged):
        return
    peak, _ = peak_of(trace)
    text = f"{such(len(at), 'kernel', decoded_name(part, at.first).short)} "
    text += f"{verb(len(at), 'take')} {duration(time)}, {share(time / work_time(part))} of {WORK_TIME}."
    faster = "tf32" if has_tf32(trace, kernel_names_of(part).values()) else "fp32"
    if peak and peak.tflops_for("fp64") and peak.tflops_for(faster):
        text += f" The {peak.label} does {peak.tflops['fp64']:g} TFLOP/s in fp64 at most, and "
        text += f"{peak.tflops[faster]:g} in {faster}."
    yield Finding(
        "double_precision",
        graded_kernels(part, time),
        f"fp64 {'kernels' if at.among(work_of_kind(part, 'conv')).any() else 'matmuls'} take "
        f"{share(time / work_time(part))} of {WORK_TIME}",
        f"{text} Everything between them moves twice the bytes of fp32.",
        "If the result does not need fp64, convert model and data to fp32 or bf16. NumPy makes float64 "
        "arrays unless told otherwise, and torch.from_numpy keeps their type.",
        first_of(at),
        numbers_of(part, at),
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
    shape = f" The longest is {trace.name_of(op)}, {work.shape}." if work else ""
    fraction = share(time / work_time(part))
    yield Finding(
        "unaligned_products",
        graded_kernels(part, time),
        f"Kernels with unaligned operands take {fraction} of {WORK_TIME}",
        f"{such(len(at), 'kernel', decoded_name(part, at.first).short)} {verb(len(at), 'load')} one "
        "element at a time (align1 in the name), because an operand's rows do not start at multiples of 16 "
        f"bytes: some dimension is not a multiple of 8.{shape} Kernels for aligned operands load up to "
        "eight at a time.",
        "Pad that dimension to a multiple of 8 (better, 64): vocabulary, sequence length, number of classes.",
        first_of(at),
        numbers_of(part, at),
    )
