"""Casts of an op whose other work the other side has, too."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from tracetui.compare.groups import _with_their_ops
from tracetui.trace.model import Kind

CAST, GEMM = (
    SimpleNamespace(kind=kind, name=name) for kind, name in (("copy", "bfloat16_copy_kernel"), ("", "gemm"))
)


def side(kernels: list[Any], compiled: bool = False) -> Any:
    """A side whose kernels one op launched."""
    return SimpleNamespace(
        top=dict.fromkeys(range(len(kernels)), 100),
        op=dict.fromkeys(range(len(kernels)), 100),
        inside=lambda *_: 100,
        kernel=kernels.__getitem__,
        compiled=lambda i: compiled,
        side=SimpleNamespace(trace=SimpleNamespace(kind=np.full(len(kernels), Kind.KERNEL))),
    )


def test_casts_are_told_together_unless_a_compiled_kernel_took_them_in():
    left = side([CAST, CAST, GEMM])
    groups = [("replaced", [2], [0]), ("gone", [0, 1], [])]
    assert _with_their_ops(groups, left, side([GEMM])) == [("replaced", [2], [0]), ("gone", [0, 1], [])]
    assert _with_their_ops(groups, left, side([GEMM], compiled=True)) == [("replaced", [0, 1, 2], [0])]
