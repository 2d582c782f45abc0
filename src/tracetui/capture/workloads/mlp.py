"""A GeGLU MLP: three GEMMs with gelu and a product between them, five kernels in eager mode."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn
from torch.profiler import record_function

from . import Setup, Step


def gelu_mul(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    return F.gelu(gate, approximate="tanh") * up


Activation = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class GegluMLP(nn.Module):
    """y = down(gelu(gate(x)) * up(x)), without biases."""

    def __init__(self, dim: int, hidden: int, act: Activation) -> None:
        super().__init__()
        self.gate = nn.Linear(dim, hidden, bias=False)
        self.up = nn.Linear(dim, hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)
        self.act = act

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.down(self.act(self.gate(x), self.up(x)))
        return out


def build(setup: Setup, batch: int, seq: int, dim: int, hidden: int, kernel: str) -> Step:
    act = gelu_mul
    if kernel == "liger":
        if setup.device.type == "cpu":
            raise ValueError("--kernel liger needs a GPU")
        # gelu and the product in one Triton kernel
        from liger_kernel.transformers.functional import liger_geglu

        act = liger_geglu
    x = torch.randn(batch, seq, dim, device=setup.device, dtype=setup.dtype)
    model = GegluMLP(dim, hidden, act).to(setup.device, setup.dtype).requires_grad_(False)
    mlp = setup.compile(model)

    def step() -> object:
        with record_function("mlp_fwd"):
            return mlp(x)

    return step
