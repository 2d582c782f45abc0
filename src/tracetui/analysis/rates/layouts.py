"""How a tensor's elements lie in memory, in words, from the shapes and strides that the profiler recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tracetui.analysis.rates.inputs import Shape, by, read_inputs

MOST = 6
"""At most this many inputs are described."""


def input_facts(args: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(label, words) for each tensor among an operator's inputs; [] where shapes were not recorded.

    `args`: the event's, with `Input Dims`, `Input type` and `Input Strides` (in elements).
    """
    inputs = read_inputs(args)
    strides = args.get("Input Strides")
    found = []
    for at in range(len(inputs.dims) if inputs is not None else 0):
        assert inputs is not None
        shape = inputs.shape(at)
        if not shape or not inputs.is_tensor(at):
            continue
        steps = strides[at] if isinstance(strides, list) and at < len(strides) else None
        how = layout(shape, steps)
        dtype = inputs.dtype(at)
        found.append((f"input {at + 1}", f"{by(shape)}{f' {dtype}' if dtype else ''}{how}"))
    return found[:MOST]


def layout(shape: Shape, strides: object) -> str:
    """`, strides 1, 64: transposed`; "" where the strides are not known or make no sense."""
    if not isinstance(strides, list) or len(strides) != len(shape):
        return ""
    if not all(type(step) is int and 0 <= step < 2**48 for step in strides):
        return ""
    told = ", ".join(map(str, strides))
    return f", {'stride' if len(shape) == 1 else 'strides'} {told}: {_how(shape, strides)}"


def _how(shape: Shape, strides: list[int]) -> str:
    sizes = [(size, step) for size, step in zip(shape, strides, strict=True) if size != 1]
    if 0 in shape or _in_order(sizes):
        return "in order"
    if any(step == 0 for _, step in sizes):
        return "expanded: the same elements are read again"
    if _in_order(sorted(sizes, key=lambda one: -one[1])):
        if len(shape) == 4 and _in_order([(shape[d], strides[d]) for d in (0, 2, 3, 1) if shape[d] != 1]):
            return "channels last"
        last_two = len(sizes) == 2 or _in_order([*sizes[:-2], sizes[-1], sizes[-2]])
        return "a transposed view" if last_two else "a view with its dimensions in a different order"
    return "a view of part of a larger tensor"


def _in_order(sizes: list[tuple[int, int]]) -> bool:
    """Whether elements follow one another without gaps. `sizes`: the (size, stride) of each dimension."""
    step = 1
    for size, stride in reversed(sizes):
        if stride != step:
            return False
        step *= size
    return True
