"""Attention that runs as separate kernels: a product, scaling and a mask, a softmax, another product."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tracetui.analysis.attention import is_backward, is_long, unfused_units
from tracetui.analysis.calls.ancestors import first_marked
from tracetui.analysis.device_work import decoded_name, device_work_of, work_op_of, work_time, work_where
from tracetui.analysis.names.gemm import UNALIGNED
from tracetui.analysis.part import Part
from tracetui.analysis.rates.flops import work_of
from tracetui.analysis.select import name_mask
from tracetui.rules.claims import Claims, Count, Named, Names, Remedy, Share, Time, says
from tracetui.rules.model import OF_WORK, Finding, build_finding, graded
from tracetui.trace import Kind

_MATH_KERNELS = (
    "scaled_dot_product_attention ran its math kernels here. Call it under torch.nn.attention."
    "sdpa_kernel(SDPBackend.FLASH_ATTENTION): it then says what rules out a fused kernel."
)
_FUSED = (
    "torch.nn.functional.scaled_dot_product_attention does it in one kernel and never writes the scores; for "
    "your own mask or bias, use flex_attention. In torch.nn.MultiheadAttention: need_weights=False; in "
    'Transformers: attn_implementation="sdpa".'
)
_MATH = "aten::_scaled_dot_product_attention_math"


def unfused_attention(part: Part) -> Iterator[Finding]:
    """The parts of attention take more than a tenth of the kernel time."""
    trace, units = part.trace, unfused_units(part)
    if not is_long(part):
        return
    time = units.inside.time
    op_of = dict(zip(device_work_of(part).at.tolist(), work_op_of(part).tolist(), strict=True))

    def shown(i: int) -> int:
        """The op behind a kernel, else the kernel."""
        return op_of[i] if op_of[i] >= 0 else i

    longest = np.argsort(-units.time, kind="stable")
    forward = np.array([not is_backward(part, int(i)) for i in units.softmax[longest]], dtype=np.bool_)
    top = int(longest[np.argmax(forward)])  # the longest of the forward pass, if there is one
    low, high = int(trace.start[units.first[top]]), int(trace.start[units.last[top]])
    inside = units.inside[units.inside.lane == trace.lane[units.first[top]]]
    parts = inside[(inside.start >= low) & (inside.start <= high)].of_kind(Kind.KERNEL, Kind.MEMCPY)
    parts = parts[parts.duration >= 0.02 * units.time[top]]
    product = shown(int(units.first[top]))
    work = work_of(trace.name_of(product), trace.args(product)) if product != int(units.first[top]) else None
    unaligned = work_where(part, lambda name: UNALIGNED in name.notes)
    math = first_marked(
        trace, np.array([shown(int(i)) for i in units.softmax]), name_mask(trace, _MATH.__eq__)[trace.name]
    )
    all_of_it = np.stack([units.first, units.softmax, units.last], axis=1)[longest].ravel()
    yield build_finding(
        "unfused_attention",
        graded(part, time),
        {
            "share": Share(time, work_time(part), OF_WORK),
            "device_ns": Time(time),
            "attentions": Count(len(units.first)),
            "backward": not forward.all(),
            "parts": Names(
                tuple(Named(decoded_name(part, i).short, ns=int(trace.duration[i])) for i in parts)
            ),
            "shape": f"{work.m} x {work.k} by {work.k} x {work.n}" if work else "",
            "batch": Count(work.batch if work else 0),
            "unaligned": Count(len(units.inside[units.inside.among(unaligned)])),
            "math": bool((math >= 0).any()),
        },
        units.inside,
        "share device_ns attentions",
        first=(shown(int(i)) for i in all_of_it),
        remedy=Remedy("speed_up", units.inside),
    )


@says("unfused_attention")
def _unfused_attention(c: Claims) -> tuple[str, str, str]:
    both = " (forward and backward count separately)" if c.backward else ""
    scores = "The result of the first matmul"
    if c.shape:
        scores = f"The first matmul is {c.shape}, in a batch of {c.batch}; its result"
    unaligned = ""
    if c.unaligned.n:  # what `unaligned_products` would say of these
        unaligned = (
            f" {c.unaligned:matmul} {c.unaligned:~load} one element at a time (align1 in the name): some "
        )
        unaligned += "dimension is not a multiple of 8."
    return (
        f"Attention runs as separate kernels: {c.share}",
        f"{c.attentions:time}{both}: a matmul, a softmax and another matmul, plus whatever is in between; "
        f"for example {c.parts}. Together they take {c.device_ns}. {scores}, the matrix of scores, goes to "
        f"memory and back between kernels.{unaligned}",
        _MATH_KERNELS if c.math else _FUSED,
    )
