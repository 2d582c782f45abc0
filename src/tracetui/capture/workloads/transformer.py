"""A small decoder-only transformer in plain torch: RMSNorm, rotary positions, GQA, KV cache, gated MLP.

Not a workload itself: `llm` runs it forward, `train` trains it.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn
from torch.profiler import record_function


class RMSNorm(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return wide.to(x.dtype) * self.weight


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary positions: turn each pair (first half, second half) by its position's angle."""
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


class Attention(nn.Module):
    """`heads` query heads share `kv_heads` keys and values, which a cache keeps for all positions."""

    k_cache: torch.Tensor
    v_cache: torch.Tensor

    def __init__(self, dim: int, heads: int, kv_heads: int) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = heads, kv_heads, dim // heads
        self.q = nn.Linear(dim, dim, bias=False)
        self.k = nn.Linear(dim, kv_heads * self.head_dim, bias=False)
        self.v = nn.Linear(dim, kv_heads * self.head_dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)

    def make_cache(self, batch: int, length: int) -> None:
        shape = (batch, self.kv_heads, length, self.head_dim)
        self.register_buffer("k_cache", self.k.weight.new_zeros(shape))
        self.register_buffer("v_cache", self.v.weight.new_zeros(shape))

    def forward(
        self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, position: torch.Tensor | None
    ) -> torch.Tensor:
        batch, seq, dim = x.shape
        q = self.q(x).view(batch, seq, self.heads, self.head_dim).transpose(1, 2)
        k = self.k(x).view(batch, seq, self.kv_heads, self.head_dim).transpose(1, 2)
        v = self.v(x).view(batch, seq, self.kv_heads, self.head_dim).transpose(1, 2)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        mask = None
        if position is not None:
            self.k_cache.index_copy_(2, position, k)
            self.v_cache.index_copy_(2, position, v)
        if position is not None and seq == 1:
            # A single token looks at all that the cache holds up to its own position.
            k, v = self.k_cache, self.v_cache
            mask = (torch.arange(k.size(2), device=k.device) <= position)[None, :]
        group = self.heads // self.kv_heads
        k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)
        out: torch.Tensor = self.out(y.transpose(1, 2).reshape(batch, seq, dim))
        return out


class MLP(nn.Module):
    """SwiGLU or GeGLU."""

    def __init__(self, dim: int, hidden: int, kind: str) -> None:
        super().__init__()
        self.gate = nn.Linear(dim, hidden, bias=False)
        self.up = nn.Linear(dim, hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)
        self.swiglu = kind == "swiglu"

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate = self.gate(x)
        gate = F.silu(gate) if self.swiglu else F.gelu(gate, approximate="tanh")
        out: torch.Tensor = self.down(gate * self.up(x))
        return out


class Block(nn.Module):
    def __init__(self, dim: int, heads: int, kv_heads: int, hidden: int, mlp: str) -> None:
        super().__init__()
        self.norm1, self.attention = RMSNorm(dim), Attention(dim, heads, kv_heads)
        self.norm2, self.mlp = RMSNorm(dim), MLP(dim, hidden, mlp)

    def forward(
        self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, position: torch.Tensor | None
    ) -> torch.Tensor:
        with record_function("attention"):
            x = x + self.attention(self.norm1(x), cos, sin, position)
        with record_function("mlp"):
            out: torch.Tensor = x + self.mlp(self.norm2(x))
        return out


class Transformer(nn.Module):
    """Tokens (batch, seq) to logits (batch, seq, vocab). `length`: the longest sequence."""

    cos: torch.Tensor
    sin: torch.Tensor

    def __init__(
        self, length: int, layers: int, dim: int, heads: int, kv_heads: int, hidden: int, vocab: int, mlp: str
    ) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList(Block(dim, heads, kv_heads, hidden, mlp) for _ in range(layers))
        self.norm = RMSNorm(dim)
        self.head = nn.Linear(dim, vocab, bias=False)
        half = dim // heads // 2
        angles = torch.arange(length)[:, None] * 10000.0 ** (-torch.arange(half) / half)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def make_cache(self, batch: int, length: int) -> None:
        """Room for the keys and values of `length` positions in every block."""
        for block in self.blocks:
            attention = block.attention
            assert isinstance(attention, Attention)
            attention.make_cache(batch, length)

    def forward(self, tokens: torch.Tensor, position: torch.Tensor | None = None) -> torch.Tensor:
        """`position`: where the tokens stand, shape (seq,); their keys and values then go into the cache."""
        if position is None:
            cos, sin = self.cos[: tokens.size(1)], self.sin[: tokens.size(1)]
        else:
            cos, sin = self.cos[position], self.sin[position]
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x, cos, sin, position)
        logits: torch.Tensor = self.head(self.norm(x))
        return logits
