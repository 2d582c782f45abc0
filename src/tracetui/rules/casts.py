"""The rule on kernels that convert from one type to another and do nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from tracetui.analysis.calls.ancestors import first_marked
from tracetui.analysis.calls.sums import sum_into
from tracetui.analysis.device_work import decoded_name, device_work_of, kernel_names_of, work_op_of, work_time
from tracetui.analysis.names.kernel_names import short_name
from tracetui.analysis.part import Part
from tracetui.analysis.rates.inputs import read_inputs
from tracetui.analysis.select import name_mask
from tracetui.analysis.verdicts import verdict_of
from tracetui.rules.claims import Claims, Count, Named, Names, Remedy, says
from tracetui.rules.model import KERNELS, MEDIUM, Finding, build_finding, claims_of, graded_kernels
from tracetui.trace import Kind, Trace
from tracetui.trace.slices import Slices

READ = 20
"""Conversions, the longest, whose inputs are read."""
OF_ALL = 0.01
"""Of the time: what a device that is nearly always idle converts does not matter."""
_CASTS = re.compile(
    r"(?:float16|float8)_copy_kernel|copy_kernel.*LoadWithCast|gpu_kernel_impl<.{0,40}direct_copy_kernel"
)
"""PyTorch's kernels that copy from one type to another; those of one type are `gpu_kernel_impl_nocast`."""
_CONVERTS = ("aten::to", "aten::_to_copy", "aten::copy_", "aten::type_as")
_AUTOCASTED = re.compile(r"aten::(?:linear|matmul|addmm|mm|bmm|baddbmm|einsum|_?conv\w*)$")
"""Ops that convert their inputs only under autocast."""
_INSIDE = re.compile(r"aten::(?:_scaled_dot_product_|_?fft_)")
"""Ops that convert on their own account: the way they go is told elsewhere, or is the only one."""
_AUTOCAST = (
    "Autocast keeps each weight's cast until its block ends: put all microbatches of a step into one block. "
    "Or keep the weights in the lower type (with fp32 copies for the optimizer). torch.compile fuses the "
    "casts of activations with neighboring ops."
)
_KEEP_LOWER = (
    "Keep the weights in the lower type, so that nothing casts them: model.to(torch.bfloat16). Autocast "
    "keeps a weight's cast only until its block ends. torch.compile fuses the casts of activations with "
    "neighboring ops."
)
_ONCE = (
    "Convert a weight or a constant once, before the loop (if it has 8 bits to save memory, multiply it as "
    "it is, with torchao, say). If an op accepts the other type, skip the conversion. torch.compile fuses "
    "the others with neighboring ops."
)
_EIGHT_BITS = (
    "If these are weights kept in 8 bits to save memory, multiply them as they are: torchao and other "
    "libraries have kernels that convert as they read. torch.compile fuses the rest with neighboring ops."
)
_QUANTIZED = (
    "Matmuls run in {}: conversions to it and from its results belong to that, and torch.compile fuses them "
    "with what is next to them. Convert weights once, before the loop."
)
_UNKNOWN = (
    "Record the ops, too (ProfilerActivity.CPU): they show whether autocast or the program itself converts "
    "the weights."
)


def type_conversions(part: Part) -> Iterator[Finding]:
    """Kernels that only convert: the casts of autocast, `.float()`, a weight converted in every step."""
    trace, work = part.trace, device_work_of(part)
    casts = work.are_named(lambda name: _CASTS.search(name[:1000]))
    at, op = work[casts], work_op_of(part)[casts]
    plain = name_mask(part.trace, _CONVERTS.__contains__)
    other = first_marked(trace, op, (trace.kind == Kind.CPU_OP) & ~plain[trace.name])
    name = np.where(other >= 0, trace.name[other], -1)
    keep = (name < 0) | ~name_mask(part.trace, _INSIDE.match)[name]
    at, op, name = at[keep], op[keep], name[keep]
    time = at.time
    if time < max(1, MEDIUM * work_time(part), OF_ALL * verdict_of(part).judged):
        return
    backward = name_mask(part.trace, lambda name: name.startswith("ToCopyBackward"))
    called, which = np.unique(name, return_inverse=True)
    spent, calls = sum_into(which, at.duration, len(called)), np.bincount(which)
    places = []
    for i in np.argsort(-spent, kind="stable")[:3].tolist():
        if called[i] < 0:
            where = "conversions outside of other ops"
        elif backward[called[i]]:
            where = "the gradients of casts"
        else:
            where = short_name(trace.names[int(called[i])], "cpu_op")
        places.append(Named(where, int(calls[i]), int(spent[i])))
    trains = name_mask(part.trace, lambda name: "Backward" in name).any()
    autocast = [n >= 0 and bool(_AUTOCASTED.match(trace.names[n])) for n in called.tolist()]
    products = (k.dtype for k in kernel_names_of(part).values() if k.kind == "gemm")
    narrow = next((dtype for dtype in products if dtype in ("int8", "fp8", "fp4")), "")
    longest, known = at.longest_first(), bool((op >= 0).any())
    op_of = dict(zip(at.at.tolist(), op.tolist(), strict=True))
    why = (
        "unknown" if not known
        else "eight bits" if _from_eight_bits(trace, op_of, longest)
        else "quantized" if narrow
        else "once" if spent[autocast].sum() <= spent[called < 0].sum()
        else "autocast" if trains
        else "keep lower"
    )  # fmt: skip
    claims = claims_of(part, at) | {
        "of": Count(len(work.of_kind(Kind.KERNEL))),
        "name": decoded_name(part, longest.first).short,
        "places": Names(tuple(places) if known else ()),
        "narrow": narrow,
        "why": why,
    }
    severity = graded_kernels(part, time)
    yield build_finding(
        "type_conversions", severity, claims, longest, KERNELS, remedy=Remedy("remove", longest)
    )


_ADVICE = {
    "unknown": _UNKNOWN,
    "eight bits": _EIGHT_BITS,
    "quantized": _QUANTIZED,
    "once": _ONCE,
    "autocast": _AUTOCAST,
    "keep lower": _KEEP_LOWER,
}


@says("type_conversions")
def _type_conversions(c: Claims) -> tuple[str, str, str]:
    unknown = ". The trace does not show which ops request them."
    return (
        f"Conversions between data types take {c.share}",
        f"{c.kernels} of {c.of:kernel}, such as {c.name}, only {c.kernels:~convert}, for {c.device_ns}"
        f"{f': {c.places}.' if c.places.each else unknown}",
        _ADVICE[c.why].format(c.narrow),
    )


def _from_eight_bits(trace: Trace, op_of: dict[int, int], longest: Slices) -> bool:
    """Whether most of the longest conversions read 8 bits, where types were recorded."""
    ops = [op for i in longest[:READ] if (op := op_of[i]) >= 0]
    inputs = [read_inputs(args) for args in trace.args_of(ops)]
    narrow = [
        one is not None and one.item(1 if trace.name_of(op) == "aten::copy_" else 0) == 1
        for op, one in zip(ops, inputs, strict=True)
    ]
    return 2 * sum(narrow) > len(ops)
