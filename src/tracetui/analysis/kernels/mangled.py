"""CUTLASS convolutions with mangled names: what the template arguments say without demangling."""

from __future__ import annotations

import re

from tracetui.analysis.kernels import cxx
from tracetui.analysis.kernels.model import KernelName, join_words

_WAY = re.compile(r"\d+Conv[23]d(Fprop|Dgrad|Wgrad)")
_SHAPE = re.compile(r"GemmShapeILi(\d{1,4})ELi(\d{1,4})ELi(\d{1,4})E")
_TYPE = re.compile(r"\d(tfloat32_t|bfloat16_t|half_t)")


def decode_mangled(name: str) -> KernelName | None:
    """Decode a mangled convolution of CUTLASS, or None if the name is not one."""
    text = name[: cxx.LIMIT]
    way = _WAY.search(text)
    if not text.startswith("_Z") or "cutlass" not in text or way is None:
        return None
    # The first shape is that of a block of threads; those of warps and instructions follow.
    shape = _SHAPE.search(text)
    operand = _TYPE.search(text)
    dtype = cxx.DTYPES[operand[1]] if operand else None
    short = join_words("conv", way[1].lower(), dtype, f"{shape[1]}x{shape[2]}" if shape else None)
    tile = "x".join(shape.groups()) if shape else None
    cores = True if "MmaTensorOp" in text else False if "MmaSimt" in text else None
    return KernelName(name, "cutlass", short, "conv", dtype=dtype, tile=tile, tensor_cores=cores)
