"""nn.Linear with bias: a transpose that moves no data, and one GEMM that adds the bias as it writes."""

from __future__ import annotations

import torch
from torch import nn
from torch.profiler import record_function

from . import Setup, Step


def build(setup: Setup, batch: int, in_dim: int, out_dim: int) -> Step:
    x = torch.randn(batch, in_dim, device=setup.device, dtype=setup.dtype)
    layer = nn.Linear(in_dim, out_dim, bias=True).to(setup.device, setup.dtype).requires_grad_(False)
    linear = setup.compile(layer)

    def step() -> object:
        with record_function("linear_fwd"):
            return linear(x)

    return step
