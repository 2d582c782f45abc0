"""A small language model: prefill reads the prompt at once, decode makes one token a step from the cache."""

from __future__ import annotations

import torch
from torch.profiler import record_function

from . import Setup, Step
from .transformer import Transformer


def build(
    setup: Setup,
    phase: str,
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
    length = seq + setup.steps
    model = Transformer(length, layers, dim, heads, kv_heads, hidden, vocab, mlp)
    model = model.to(setup.device, setup.dtype).requires_grad_(False)
    model.make_cache(batch, length)
    forward = setup.compile(model)
    prompt = torch.randint(vocab, (batch, seq), device=setup.device)
    positions = torch.arange(seq, device=setup.device)

    def prefill() -> object:
        with record_function("prefill"):
            return forward(prompt, positions)

    if phase == "prefill":
        return prefill

    # The prompt is read here, outside the profile: a decode step starts from a cache that holds it.
    token = model(prompt, positions)[:, -1:].argmax(-1)
    position = torch.full((1,), seq, device=setup.device)

    def decode() -> object:
        with record_function("decode"):
            logits = forward(token, position)
            token.copy_(logits.argmax(-1))
            position.add_(1)
            return token

    return decode
