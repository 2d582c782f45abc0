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
from tracetui.analysis.select import named
from tracetui.core.units import duration, plural, share, verb
from tracetui.rules.model import WORK_TIME, Finding, first_of, graded
from tracetui.trace import Kind
from tracetui.trace.slices import Slices

_MATH = "aten::_scaled_dot_product_attention_math"


def _unaligned(part: Part, inside: Slices) -> str:
    """What `unaligned_products` would say of these."""
    count = len(inside[inside.among(work_where(part, lambda name: UNALIGNED in name.notes))])
    return (
        f" {plural(count, 'matmul')} {verb(count, 'load')} one element at a time (align1 in the name): some "
        "dimension is not a multiple of 8."
        if count
        else ""
    )


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
    listed = ", ".join(f"{decoded_name(part, i).short} ({duration(trace.duration[i])})" for i in parts)
    product = shown(int(units.first[top]))
    work = work_of(trace.name_of(product), trace.args(product)) if product != int(units.first[top]) else None
    scores = "The result of the first matmul"
    if work:
        many = f"{work.m} x {work.k} by {work.k} x {work.n}, in a batch of {work.batch:,}"
        scores = f"The first matmul is {many}; its result"
    both = "" if forward.all() else " (forward and backward count separately)"
    fraction = time / work_time(part)
    yield Finding(
        "unfused_attention",
        graded(part, time),
        f"Attention runs as separate kernels: {share(fraction)} of {WORK_TIME}",
        f"{plural(len(units.first), 'time')}{both}: a matmul, a softmax and another matmul, plus whatever is "
        f"in between; for example {listed}. Together they take {duration(time)}. {scores}, the matrix of "
        f"scores, goes to memory and back between kernels.{_unaligned(part, units.inside)}",
        _advice(part, [shown(int(i)) for i in units.softmax]),
        first_of(
            shown(int(i)) for i in np.stack([units.first, units.softmax, units.last], axis=1)[longest].ravel()
        ),
        {"share": fraction, "device_ns": float(time), "attentions": float(len(units.first))},
    )


def _advice(part: Part, softmax: list[int]) -> str:
    trace = part.trace
    math = named(part.trace, _MATH.__eq__)
    around = first_marked(trace, np.array(softmax, dtype=np.int64), math[trace.name])
    if (around >= 0).any():
        return (
            "scaled_dot_product_attention ran its math kernels here. Call it under torch.nn.attention."
            "sdpa_kernel(SDPBackend.FLASH_ATTENTION): it then says what rules out a fused kernel."
        )
    return (
        "torch.nn.functional.scaled_dot_product_attention does it in one kernel and never writes the scores; "
        "for your own mask or bias, use flex_attention. In torch.nn.MultiheadAttention: need_weights=False; "
        'in Transformers: attn_implementation="sdpa".'
    )
