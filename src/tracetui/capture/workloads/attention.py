"""Causal attention: written out, a kernel per line, or fused into one that never stores the scores."""

from __future__ import annotations

import contextlib
import math

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.profiler import record_function

from . import Setup, Step

FUSED = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "math": SDPBackend.MATH,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
}


def naive(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, future: torch.Tensor) -> torch.Tensor:
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(q.size(-1))
    scores = scores.masked_fill(future, float("-inf"))
    weights = torch.softmax(scores, dim=-1)
    return weights @ v


def inplace(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, future: torch.Tensor) -> torch.Tensor:
    scores = q @ k.transpose(-2, -1)
    scores.div_(math.sqrt(q.size(-1)))
    scores.masked_fill_(future, float("-inf"))
    weights = torch.softmax(scores, dim=-1)
    return weights @ v


def sdpa(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, future: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def build(setup: Setup, backend: str, batch: int, heads: int, seq: int, head_dim: int) -> Step:
    if backend in ("efficient", "cudnn") and setup.device.type == "cpu":
        raise ValueError(f"--backend {backend} needs a GPU")
    shape = (batch, heads, seq, head_dim)
    q = torch.randn(shape, device=setup.device, dtype=setup.dtype)
    k = torch.randn(shape, device=setup.device, dtype=setup.dtype)
    v = torch.randn(shape, device=setup.device, dtype=setup.dtype)
    # True above the diagonal: what lies in a token's future, which it must not see.
    future = torch.ones(seq, seq, device=setup.device, dtype=torch.bool).triu(1)
    attention = setup.compile({"naive": naive, "inplace": inplace}.get(backend, sdpa))

    def step() -> object:
        only = sdpa_kernel(FUSED[backend]) if backend in FUSED else contextlib.nullcontext()
        with only, record_function(f"attention_{backend}"):
            return attention(q, k, v, future)

    return step
