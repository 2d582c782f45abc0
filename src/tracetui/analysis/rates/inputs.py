"""What the profiler recorded of an operator's inputs: shapes, types and the values of its scalars.

With ``record_shapes=True`` an operator's ``args`` contain ``Input Dims`` (a list per input, empty for
non-tensors), ``Input type`` (C++ names such as ``c10::BFloat16``) and, since 2023, ``Concrete Inputs``
(scalars and lists as text).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tracetui.analysis.names.cxx import dtype_of

ITEM_SIZE = {
    "fp64": 8, "fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1, "uint8": 1, "bool": 1,
    "int16": 2, "int32": 4, "uint32": 4, "int64": 8, "uint64": 8, "complex64": 8, "complex128": 16,
}  # fmt: skip
"""Bytes per element, by the spelling of `tracetui.analysis.names.kernel_names`."""

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Inputs:
    """The inputs of one call, by position. Past the end, all methods return None, "" or False."""

    dims: Sequence[Shape | None]
    types: Sequence[str]
    values: Sequence[str]

    def shape(self, at: int) -> Shape | None:
        """The shape of input ``at``; () for a scalar, None for anything other than a single tensor."""
        return self.dims[at] if 0 <= at < len(self.dims) else None

    def dtype(self, at: int) -> str | None:
        """The element type, spelled as in `tracetui.analysis.names.kernel_names`."""
        return dtype_of(self.types[at]) if 0 <= at < len(self.types) else None

    def item(self, at: int) -> int | None:
        """Bytes per element."""
        return ITEM_SIZE.get(self.dtype(at) or "")

    def value(self, at: int) -> str:
        """The recorded text of a scalar or a list."""
        return self.values[at].strip() if 0 <= at < len(self.values) else ""

    def flag(self, at: int) -> bool:
        """Whether a recorded flag, or mask type, is set."""
        return self.value(at).lower() in ("true", "1", "2")

    def ints(self, at: int) -> Shape | None:
        """The value of a number or a list of numbers among the concrete inputs: ``[1, 1]``, ``1``."""
        text = self.value(at).strip("[]() ")
        try:
            return tuple(int(part) for part in text[:200].split(",")) if text else None
        except ValueError:
            return None

    def is_tensor(self, at: int) -> bool:
        """Whether an input is a tensor. Scalars are recorded with an empty shape and the type "Scalar"."""
        shape = self.shape(at)
        return shape is not None and (self.dtype(at) is not None if self.types else bool(shape))


def read_inputs(args: Mapping[str, Any]) -> Inputs | None:
    """The recorded inputs among an event's ``args``, or None where shapes were not recorded."""
    dims = _shapes(args.get("Input Dims", args.get("Input dims")))
    if dims is None:
        return None
    return Inputs(dims, _texts(args.get("Input type")), _texts(args.get("Concrete Inputs")))


def _shapes(value: Any) -> list[Shape | None] | None:
    """Recorded shapes, with None for a list of tensors and for anything else that is not a shape."""
    if not isinstance(value, list):
        return None
    return [tuple(item) if _is_shape(item) else None for item in value[:64]]


def _is_shape(value: Any) -> bool:
    # Limits, because a hostile file may ask for the product of a million numbers of a million digits.
    return (
        isinstance(value, list)
        and len(value) <= 16
        and all(type(size) is int and 0 <= size < 2**48 for size in value)
    )


def _texts(value: Any) -> list[str]:
    return [item if isinstance(item, str) else "" for item in value[:64]] if isinstance(value, list) else []


def broadcast(a: Shape, b: Shape) -> Shape | None:
    """The shape that two shapes broadcast to, or None if they do not."""
    longest = max(len(a), len(b))
    a, b = (1,) * (longest - len(a)) + a, (1,) * (longest - len(b)) + b
    if any(x != y and x != 1 and y != 1 for x, y in zip(a, b, strict=True)):
        return None
    return tuple(y if x == 1 else x for x, y in zip(a, b, strict=True))


def per_axis(values: Shape | None, axes: int) -> Shape | None:
    """One value per axis; a single value applies to all. None for any other number of values."""
    if values is None or len(values) not in (1, axes):
        return None
    return values * axes if len(values) == 1 else values


def by(shape: Shape) -> str:
    """A shape in words: ``64 x 128``."""
    return " x ".join(map(str, shape)) if shape else "1"
