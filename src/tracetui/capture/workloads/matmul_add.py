"""torch.add(torch.matmul(x, w), b): two kernels, and all that the CPU does to launch them."""

from __future__ import annotations

import torch
from torch.profiler import record_function

from . import Setup, Step


def fn(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.add(torch.matmul(x, w), b)


def build(setup: Setup, size: int, batch: int | None) -> Step:
    # With a batch axis matmul dispatches to bmm instead of mm.
    shape = (size, size) if batch is None else (batch, size, size)
    x = torch.randn(shape, device=setup.device, dtype=setup.dtype)
    w = torch.randn(shape, device=setup.device, dtype=setup.dtype)
    b = torch.randn(shape, device=setup.device, dtype=setup.dtype)
    matmul_add = setup.compile(fn)

    def step() -> object:
        with record_function("matmul_add"):
            return matmul_add(x, w, b)

    return step
