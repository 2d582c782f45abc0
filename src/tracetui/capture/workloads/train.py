"""Training steps of a small transformer: forward, backward, AdamW."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch.profiler import record_function

from . import Setup, Step
from .transformer import Transformer

ADAMW: dict[str, dict[str, Any]] = {
    "fused": {"fused": True},  # one kernel updates many parameters at once
    "foreach": {"foreach": True},  # one kernel per operation, over lists of parameters
    "plain": {"foreach": False, "fused": False},  # a loop: one kernel per operation and parameter
}


def build(
    setup: Setup,
    optimizer: str,
    loss: str,
    batch: int,
    seq: int,
    layers: int,
    dim: int,
    heads: int,
    kv_heads: int,
    hidden: int,
    vocab: int,
    mlp: str,
) -> Step:
    model = Transformer(seq, layers, dim, heads, kv_heads, hidden, vocab, mlp).to(setup.device, setup.dtype)
    forward = setup.compile(model)
    adamw = torch.optim.AdamW(model.parameters(), lr=1e-4, **ADAMW[optimizer])
    tokens = torch.randint(vocab, (batch, seq + 1), device=setup.device)
    read = loss == "item"
    inputs, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].reshape(-1)

    def step() -> object:
        with record_function("forward"):
            logits = forward(inputs)
            found = F.cross_entropy(logits.float().view(-1, vocab), targets)
        if read:  # as a program that logs it does: the CPU waits for the GPU
            found.item()
        with record_function("backward"):
            found.backward()
        with record_function("optimizer"):
            adamw.step()
            adamw.zero_grad(set_to_none=True)
        return found.detach()

    return step
