"""Attention that no fused kernel does: a product, scaling and a mask, a softmax, another product."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetui.analysis.device_work import decoded_name, device_work_of, kernel_names_of, work_op_of, work_time
from tracetui.analysis.names.model import KernelName
from tracetui.analysis.part import Part, fact
from tracetui.analysis.select import name_mask
from tracetui.trace.model import I64
from tracetui.trace.slices import Slices

ATTENTION_SHARE = 0.1
NEAR = 12
"""At most this many kernels from a product to the softmax: scaling, mask, dropout, copies, conversions."""
REPEATED = 3
"""Where the ops are not known (CUDA graphs), a softmax between two products must come this often."""

_BATCHED = frozenset(("aten::bmm", "aten::baddbmm"))
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
    inside: Slices
    """Every part of every attention."""


@fact
def unfused_units(part: Part) -> Units:
    """The attentions of a scope that no fused kernel does, forward and backward.

    On one stream, a softmax between two products with nothing but elementwise work, copies, memsets and
    ATen kernels such as tril between. The products are those of ``bmm``: a router's softmax follows an ``mm``
    or ``addmm``. Not in fp64, for which PyTorch has no fused attention.
    """
    trace = part.trace
    if not any(_is_softmax(name) for name in kernel_names_of(part).values()):
        nothing = np.zeros(0, dtype=np.int64)
        return Units(nothing, nothing, nothing, nothing, Slices(trace, nothing))
    order = np.lexsort((device_work_of(part).start, device_work_of(part).lane))
    work, op = device_work_of(part).at[order], work_op_of(part)[order]
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
    batched = (op >= 0) & name_mask(part.trace, _BATCHED.__contains__)[trace.name[op]]
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
    backward = np.array([is_backward(part, int(i)) for i in work[keep[at]]], dtype=np.bool_)
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
    return Units(first, softmax, last, sums[end] - sums[begin], Slices(trace, inside))


def _is_softmax(name: KernelName) -> bool:
    """A softmax, and no log_softmax, which is a loss's."""
    fused = any("softmax" in op and "log_softmax" not in op for op in name.ops)
    return fused or (name.kind == "softmax" and not name.short.startswith("log_"))


def is_backward(part: Part, softmax: int) -> bool:
    """Whether a softmax (slice) is of the backward pass."""
    name = decoded_name(part, softmax)
    return "bwd" in name.short or any("softmax_backward" in op for op in name.ops)


def outside_attention(part: Part, slices: Slices) -> Slices:
    """Those that are not a part of such attention, where it takes long enough to be told of."""
    return slices.without(unfused_units(part).inside) if is_long(part) else slices


def is_long(part: Part) -> bool:
    """Whether attention that is not fused takes so long that it is told of by itself."""
    inside = unfused_units(part).inside
    return len(inside) > 0 and inside.time >= ATTENTION_SHARE * work_time(part)
