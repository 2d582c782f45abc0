"""Attention that runs as separate kernels: a product, scaling and a mask, a softmax, another product."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tracetui.analysis.calls.ancestors import first_marked
from tracetui.analysis.device_work import decoded_name, device_work_of, kernel_names_of, work_op_of, work_time
from tracetui.analysis.names.gemm import UNALIGNED
from tracetui.analysis.names.model import KernelName
from tracetui.analysis.part import Part
from tracetui.analysis.rates.flops import work_of
from tracetui.analysis.select import named
from tracetui.core.units import duration, plural, share, verb
from tracetui.rules.model import WORK_TIME, Finding, first_of, graded
from tracetui.trace import Kind
from tracetui.trace.model import I64

ATTENTION_SHARE = 0.1
NEAR = 12
"""At most this many kernels from a product to the softmax: scaling, mask, dropout, copies, conversions."""
REPEATED = 3
"""Where the ops are not known (CUDA graphs), a softmax between two products must come this often."""

_BATCHED = frozenset(("aten::bmm", "aten::baddbmm"))
_MATH = "aten::_scaled_dot_product_attention_math"
_BREAK, _PRODUCT, _BETWEEN, _SOFTMAX, _REDUCTION = range(5)


@dataclass(frozen=True, slots=True)
class Units:
    """Attentions whose parts are kernels of their own. Arrays of one length but for `inside`."""

    first: I64
    """The product before the softmax (slices)."""
    softmax: I64
    last: I64
    """The product after it."""
    time: I64
    """The parts' durations together, in ns."""
    inside: I64
    """Every part of every attention (slices)."""


def unfused_units(part: Part) -> Units:
    """The attentions of a scope that no fused kernel does, forward and backward.

    On one stream, a softmax between two products with nothing but elementwise work, copies, memsets and
    ATen kernels such as tril between. The products are those of ``bmm``: a router's softmax follows an ``mm``
    or ``addmm``. Not in fp64, for which PyTorch has no fused attention.
    """
    trace = part.trace
    if not any(_is_softmax(name) for name in kernel_names_of(part).values()):
        nothing = np.zeros(0, dtype=np.int64)
        return Units(nothing, nothing, nothing, nothing, nothing)
    op = work_op_of(part)
    order = np.lexsort((trace.start[device_work_of(part)], trace.lane[device_work_of(part)]))
    work, op = device_work_of(part)[order], op[order]
    between = ("elementwise", "copy", "memset")
    table = np.zeros(len(trace.names), dtype=np.int8)
    for i, name in kernel_names_of(part).items():
        if name.kind == "gemm":
            table[i] = _PRODUCT if name.dtype != "fp64" else _BREAK
        elif _is_softmax(name):
            table[i] = _SOFTMAX
        elif name.kind == "reduction":
            table[i] = _REDUCTION
        elif name.kind in between or "DtoD" in name.short or (name.family, name.kind) == ("aten", "other"):
            table[i] = _BETWEEN
    role = table[trace.name[work]]
    batched = (op >= 0) & named(part.trace, _BATCHED.__contains__)[trace.name[op]]
    role[(role == _PRODUCT) & (op >= 0) & ~batched] = _BREAK
    role[(role == _REDUCTION) & (op >= 0)] = _BETWEEN  # of a safe softmax
    role[(role != _PRODUCT) & batched] = _BETWEEN  # a product's split-K reduction
    keep = np.flatnonzero(role != _BETWEEN)
    what, lane = role[keep], trace.lane[work[keep]]

    def product(at: I64, step: int) -> I64:
        """The position in `keep` one step from `at`, or `at` itself where that is no near product."""
        to = np.clip(at + step, 0, len(keep) - 1)
        near = (what[to] == _PRODUCT) & (lane[to] == lane[at]) & (np.abs(keep[to] - keep[at]) <= NEAR)
        return np.where(near, to, at)

    at = np.flatnonzero(what == _SOFTMAX)
    low, high = product(at, -1), product(at, 1)
    whole = (low < at) & (high > at)
    at, low, high = at[whole], low[whole], high[whole]
    unknown = (op[keep[low]] < 0) | (op[keep[high]] < 0)
    if int(unknown.sum()) < REPEATED:
        at, low, high = at[~unknown], low[~unknown], high[~unknown]
    # The backward pass has two products on each side. Where ops are not known, these could be others.
    backward = np.array([_is_backward(part, int(i)) for i in work[keep[at]]], dtype=np.bool_)
    backward &= (op[keep[low]] >= 0) & (op[keep[high]] >= 0)
    wide_low, wide_high = (
        np.where(backward, product(low, -1), low),
        np.where(backward, product(high, 1), high),
    )
    sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(trace.duration[work])])
    begin, end = keep[wide_low], keep[wide_high] + 1
    depth = np.zeros(len(work) + 1, dtype=np.int64)
    np.add.at(depth, begin, 1)
    np.add.at(depth, end, -1)
    inside = work[np.cumsum(depth[:-1]) > 0]
    first, softmax, last = (work[keep[which]] for which in (low, at, high))
    return Units(first, softmax, last, sums[end] - sums[begin], inside)


def _unaligned(part: Part, inside: I64) -> str:
    """What `unaligned_products` would say of these."""
    names = np.unique(part.trace.name[inside]).tolist()
    slow = [i for i in names if UNALIGNED in kernel_names_of(part)[i].notes]
    count = int(np.isin(part.trace.name[inside], slow).sum())
    return (
        f" {plural(count, 'matmul')} {verb(count, 'load')} one element at a time (align1 in the name): some "
        "dimension is not a multiple of 8."
        if count
        else ""
    )


def _is_softmax(name: KernelName) -> bool:
    """A softmax, and no log_softmax, which is a loss's."""
    fused = any("softmax" in op and "log_softmax" not in op for op in name.ops)
    return fused or (name.kind == "softmax" and not name.short.startswith("log_"))


def _is_backward(part: Part, softmax: int) -> bool:
    name = decoded_name(part, softmax)
    return "bwd" in name.short or any("softmax_backward" in op for op in name.ops)


def unfused_attention(part: Part) -> Iterator[Finding]:
    """The parts of attention take more than a tenth of the kernel time."""
    trace, units = part.trace, unfused_units(part)
    time = int(trace.duration[units.inside].sum())
    if not _worth_saying(part, units.inside):
        return
    op_of = dict(zip(device_work_of(part).tolist(), work_op_of(part).tolist(), strict=True))

    def shown(i: int) -> int:
        """The op behind a kernel, else the kernel."""
        return op_of[i] if op_of[i] >= 0 else i

    longest = np.argsort(-units.time, kind="stable")
    forward = np.array([not _is_backward(part, int(i)) for i in units.softmax[longest]], dtype=np.bool_)
    top = int(longest[np.argmax(forward)])  # the longest of the forward pass, if there is one
    low, high = int(trace.start[units.first[top]]), int(trace.start[units.last[top]])
    inside = units.inside[trace.lane[units.inside] == trace.lane[units.first[top]]]
    parts = inside[(trace.start[inside] >= low) & (trace.start[inside] <= high)]
    parts = parts[(trace.kind[parts] == Kind.KERNEL) | (trace.kind[parts] == Kind.MEMCPY)]
    parts = parts[trace.duration[parts] >= 0.02 * units.time[top]]
    listed = ", ".join(f"{decoded_name(part, int(i)).short} ({duration(trace.duration[i])})" for i in parts)
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


def outside_attention(part: Part, at: I64) -> I64:
    """The slices of `at` that `unfused_attention` does not speak of already."""
    inside = unfused_units(part).inside
    return at[~np.isin(at, inside)] if _worth_saying(part, inside) else at


def _worth_saying(part: Part, inside: I64) -> bool:
    time = int(part.trace.duration[inside].sum())
    return len(inside) > 0 and time >= ATTENTION_SHARE * work_time(part)
