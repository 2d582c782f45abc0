"""Floating-point operations and bytes of an operator, from the shapes that the profiler recorded.

Counting, so that the numbers can be checked by hand:

- A matrix product of M x K by K x N takes 2·M·K·N operations: one multiplication and one addition each.
- A convolution takes 2 operations per output element and weight that contributes to it; its backward takes
  as many for each of the two gradients that is requested.
- Attention takes 2·D operations per pair of a query and a key for the scores and 2·Dv for the values; the
  backward takes five such products (the scores again, and four gradients). With a causal mask only the
  unmasked pairs are counted. Softmax is not counted.
- An elementwise operator counts one operation per output element, whatever its function costs.
- Bytes are the minimum memory traffic: every operand read once, every result written once. A kernel can need
  more, and less only if the data is in a cache.

`work_of` counts a SINGLE operator. Operators nest (``aten::linear`` calls ``aten::addmm``): count only the
one that launched the kernels, so that each piece of work is counted once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tracetui.analysis.rates.inputs import Inputs, Shape, broadcast, by, per_axis, read_inputs


@dataclass(frozen=True, slots=True)
class Work:
    """The work of one call of an operator.

    Attributes:
        kind: ``gemm``, ``conv``, ``attention`` or ``elementwise``.
        flops: operations, counted as described above.
        bytes: minimum traffic with the device's memory, or None if the types were not recorded.
        dtype: the element type of the first operand, or None.
        m, k, n: the shape of a matrix product, M x K by K x N; 0 for the other kinds.
        batch: how many products of that shape.
        shape: the work in words, ``8192 x 768 x 3072`` (M x K x N) for a product.
    """

    kind: str
    flops: int
    bytes: int | None
    dtype: str | None
    shape: str
    m: int = 0
    k: int = 0
    n: int = 0
    batch: int = 1


# The positions of a product's operands among the arguments: (first, second, what is added or -1).
_PLAIN, _ADDING = (0, 1, -1), (1, 2, 0)
_PRODUCTS = {
    **dict.fromkeys(("mm", "bmm", "mv", "matmul", "_scaled_mm", "_int_mm"), _PLAIN),
    **dict.fromkeys(("addmm", "addmm_", "baddbmm", "baddbmm_", "addmv", "addmv_"), _ADDING),
    "_addmm_activation": _ADDING,
}

# The positions of a convolution's stride, padding, dilation, groups and flag "transposed" (-1: none).
_CONVOLUTIONS = {
    **dict.fromkeys(("conv1d", "conv2d", "conv3d", "cudnn_convolution_relu"), (3, 4, 5, 6, -1)),
    **dict.fromkeys(("convolution", "_convolution", "convolution_overrideable"), (3, 4, 5, 8, 6)),
    **dict.fromkeys(("miopen_convolution", "mkldnn_convolution"), (4, 3, 5, 6, -1)),
    "cudnn_convolution": (3, 2, 4, 5, -1),
}


@dataclass(frozen=True, slots=True)
class _Attention:
    """The positions of an attention operator's query (key and value follow) and of its options."""

    causal: int
    query: int = 0
    heads_first: bool = True
    """Batch x heads x sequence x dimension, not batch x sequence x heads x dimension."""
    ragged: int = -1
    """Position of the sequence offsets; if they are given, the work cannot be counted from the shapes."""
    products: tuple[int, int] = (1, 1)
    """The number of products over D and over Dv."""


_BACKWARD = (3, 2)
_ATTENTION = {
    "scaled_dot_product_attention": _Attention(5),
    "_scaled_dot_product_flash_attention": _Attention(4),
    "_scaled_dot_product_efficient_attention": _Attention(6),
    "_scaled_dot_product_cudnn_attention": _Attention(6),
    "_cudnn_attention_forward": _Attention(10, ragged=4),
    "_flash_attention_forward": _Attention(8, heads_first=False, ragged=3),
    "_efficient_attention_forward": _Attention(9, heads_first=False, ragged=4),
    "_scaled_dot_product_flash_attention_backward": _Attention(11, 1, products=_BACKWARD),
    "_scaled_dot_product_efficient_attention_backward": _Attention(11, 1, products=_BACKWARD),
    "_scaled_dot_product_cudnn_attention_backward": _Attention(14, 1, products=_BACKWARD),
    "_flash_attention_backward": _Attention(11, 1, False, 6, _BACKWARD),
    "_efficient_attention_backward": _Attention(14, 1, False, 6, _BACKWARD),
}

_ELEMENTWISE = {
    **dict.fromkeys(
        (
            "gelu", "relu", "silu", "sigmoid", "tanh", "exp", "log", "sqrt", "rsqrt", "neg", "abs", "cos",
            "sin", "erf", "reciprocal", "leaky_relu", "hardswish", "hardsigmoid", "hardtanh", "elu",
            "softplus", "mish", "square",
        ),
        1,
    ),
    **dict.fromkeys(
        (
            "add", "sub", "mul", "div", "pow", "clamp_min", "bitwise_and", "threshold_backward",
            "gelu_backward", "silu_backward", "sigmoid_backward", "tanh_backward",
        ),
        2,
    ),
    **dict.fromkeys(("addcmul", "addcdiv", "lerp", "where", "clamp", "masked_fill"), 3),
}  # fmt: skip
"""How many operands they read. A tensor after those is `out`, which is written."""


def counted(name: str) -> bool:
    """Whether `work_of` can count an operator, by its name alone."""
    op = _base(name)
    return any(op in table for table in (_PRODUCTS, _CONVOLUTIONS, _ATTENTION, _OTHERS)) or _is_elementwise(
        op
    )


def work_of(name: str, args: Mapping[str, Any]) -> Work | None:
    """Count one call of an operator.

    Args:
        name: the operator, ``aten::mm``.
        args: its event's ``args``, of which ``Input Dims``, ``Input type`` and ``Concrete Inputs`` are read
            (``Input dims`` in files of 2020).

    Returns:
        the work, or None for an operator that is not counted, for one whose shapes were not recorded, and for
        shapes that do not fit together. Never raises for any JSON value.
    """
    op = _base(name)
    call = read_inputs(args)
    if call is None:
        return None
    if op in _PRODUCTS:
        return _product(call, *_PRODUCTS[op])
    if op in _OTHERS:
        return _OTHERS[op](call)
    if op in _CONVOLUTIONS:
        return _convolution(call, *_CONVOLUTIONS[op])
    if op in _ATTENTION:
        return _attention(call, _ATTENTION[op])
    return _elementwise(call, _ELEMENTWISE[op.removesuffix("_")]) if _is_elementwise(op) else None


def _base(name: str) -> str:
    return name[6:] if name.startswith("aten::") else ""


def _is_elementwise(op: str) -> bool:
    return op.removesuffix("_") in _ELEMENTWISE and not op.startswith("_")


def _product(call: Inputs, first: int, second: int, added: int) -> Work | None:
    a, b = call.shape(first), call.shape(second)
    if not a or not b:
        return None
    m, k = (a[-2], a[-1]) if len(a) > 1 else (1, a[0])
    k2, n = (b[-2], b[-1]) if len(b) > 1 else (b[0], 1)
    if k != k2:
        return None
    batches = broadcast(a[:-2], b[:-2])
    if batches is None:
        return None
    batch = math.prod(batches)
    item = call.item(first)
    c = call.shape(added) if added >= 0 else None
    traffic = None
    if item is not None:
        # A product that adds C reads it, unless beta (the fourth argument of the addmm family) is 0.
        reads = math.prod(c) if c is not None and call.value(3) not in ("0", "0.0", "0.") else 0
        traffic = item * (math.prod(a) + math.prod(b) + batch * m * n + reads)
    return _gemm(m, k, n, batch, traffic, call.dtype(first))


def _linear(call: Inputs) -> Work | None:
    x, weight = call.shape(0), call.shape(1)
    if not x or not weight or len(weight) != 2 or x[-1] != weight[1]:
        return None
    m, k, n = math.prod(x[:-1]), weight[1], weight[0]
    item = call.item(0)
    bias = call.shape(2)
    traffic = None if item is None else item * (m * k + k * n + m * n + (math.prod(bias) if bias else 0))
    return _gemm(m, k, n, 1, traffic, call.dtype(0))


def _gemm(m: int, k: int, n: int, batch: int, traffic: int | None, dtype: str | None) -> Work:
    shape = f"{m} x {k} x {n}" if batch == 1 else f"{batch} of {m} x {k} x {n}"
    return Work("gemm", 2 * batch * m * k * n, traffic, dtype, shape, m, k, n, batch)


def _convolution(
    call: Inputs, stride: int, pad: int, dilation: int, groups: int, transposed: int
) -> Work | None:
    x, weight = call.shape(0), call.shape(1)
    if not x or not weight or len(weight) < 3 or len(x) != len(weight):
        return None
    item = call.item(0)
    space = len(weight) - 2
    strides, pads, dilations = (per_axis(call.ints(at), space) for at in (stride, pad, dilation))
    group = (call.ints(groups) or (0,))[0]
    if strides is None or pads is None or dilations is None or group < 1 or 0 in strides:
        return None
    if transposed >= 0 and call.flag(transposed):
        flops = 2 * math.prod(x) * math.prod(weight[1:])
        return Work("conv", flops, None, call.dtype(0), f"{by(x)} transposed by {by(weight)}")
    if x[1] != weight[1] * group:
        return None
    out = [
        (x[2 + i] + 2 * pads[i] - dilations[i] * (weight[2 + i] - 1) - 1) // strides[i] + 1
        for i in range(space)
    ]
    if min(out) < 1:
        return None
    elements = x[0] * weight[0] * math.prod(out)
    traffic = None if item is None else item * (math.prod(x) + math.prod(weight) + elements)
    flops = 2 * elements * math.prod(weight[1:])
    return Work("conv", flops, traffic, call.dtype(0), f"{by(x)} by {by(weight)}")


def _convolution_backward(call: Inputs) -> Work | None:
    """``convolution_backward(grad_output, input, weight, ..., output_mask)``."""
    grad, x, weight = call.shape(0), call.shape(1), call.shape(2)
    if not grad or not x or not weight or len(weight) < 3 or len(grad) != len(weight):
        return None
    mask = call.value(10).lower().strip("[]()").split(",")
    gradients = sum(part.strip() in ("true", "1") for part in mask[:2]) if call.value(10) else 2
    once = 2 * math.prod(x if call.flag(7) else grad) * math.prod(weight[1:])
    item = call.item(0)
    # Each gradient reads the output's gradient and one operand, and writes the shape of the other.
    sizes = gradients * (math.prod(grad) + math.prod(x) + math.prod(weight))
    traffic = None if item is None else item * sizes
    return Work("conv", once * gradients, traffic, call.dtype(0), f"{by(x)} by {by(weight)}, backward")


def _attention(call: Inputs, what: _Attention) -> Work | None:
    q, k, v = (call.shape(what.query + i) for i in range(3))
    if not q or not k or not v or len(q) != 4 or len(k) != 4 or len(v) != 4:
        return None
    if what.ragged >= 0 and call.shape(what.ragged):
        return None
    sequence, head = (2, 1) if what.heads_first else (1, 2)
    batch, heads, queries, keys, d, dv = q[0], q[head], q[sequence], k[sequence], q[3], v[3]
    causal = call.flag(what.causal)
    # The mask is aligned to the first query and the first key: query i sees keys 0 to i.
    full = min(queries, keys)
    pairs = full * (full + 1) // 2 + max(0, queries - keys) * keys if causal else queries * keys
    over_d, over_dv = what.products
    flops = 2 * batch * heads * pairs * (over_d * d + over_dv * dv)
    item = call.item(what.query)
    operands = math.prod(q) + math.prod(k) + math.prod(v)
    output = batch * heads * queries * dv
    backward = over_d > 1
    traffic = None if item is None else item * (2 * (operands + output) if backward else operands + output)
    asked = f"{queries} {'query' if queries == 1 else 'queries'}"
    shape = f"{batch} x {heads} heads, {asked}, {keys} keys, dimension {d}"
    shape += (", causal" if causal else "") + (", backward" if backward else "")
    return Work("attention", flops, traffic, call.dtype(what.query), shape)


def _elementwise(call: Inputs, operands: int) -> Work | None:
    tensors = [i for i in range(len(call.dims)) if call.is_tensor(i)]
    tensors, given = tensors[:operands], tensors[operands:]
    shapes = [call.dims[i] or () for i in tensors]
    out: Shape | None = ()
    for shape in shapes:
        out = broadcast(out, shape) if out is not None else None
    if not out:
        return None
    elements = math.prod(out)
    items = [call.item(i) for i in tensors]
    sizes = [item for item in items if item is not None]
    traffic = None
    if len(sizes) == len(items):
        reads = sum(math.prod(shape) * item for shape, item in zip(shapes, sizes, strict=True))
        # A zero-dimensional tensor does not widen the result: bf16 times a double is bf16.
        written = max(item for shape, item in zip(shapes, sizes, strict=True) if shape)
        written = next((call.item(i) for i in given if call.dims[i] == out), None) or written
        traffic = reads + elements * written
    return Work("elementwise", elements, traffic, call.dtype(tensors[0]), by(out))


def _copy(call: Inputs) -> Work | None:
    """``copy_(self, src)``: no arithmetic, one read and one write."""
    to, source = call.shape(0), call.shape(1)
    if not to or source is None:
        return None
    written, read = call.item(0), call.item(1)
    traffic = math.prod(to) * written + math.prod(source) * read if written and read else None
    return Work("elementwise", 0, traffic, call.dtype(0), by(to))


_OTHERS = {"linear": _linear, "convolution_backward": _convolution_backward, "copy_": _copy}
