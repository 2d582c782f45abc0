"""A family of kernels: what their names say, for bars, tables, and rules about products or attention."""

from __future__ import annotations

import re

from tracetui.analysis.names.model import KernelName

# A name is a stranger's text: a pattern must take linear time.
_NAME = re.compile(r"acme_(gemm|softmax)_(bf16|fp16|fp32)_(\d{1,4}x\d{1,4})")


def decode_acme(name: str) -> KernelName | None:
    """None for the kernels of others: then tracetui's own families are asked. The kinds are those of
    `KernelName`; "collective" counts as communication."""
    match = _NAME.match(name)
    if match is None:
        return None
    kind, dtype, tile = match.groups()
    return KernelName(name, "acme", f"acme {kind} {dtype} {tile}", kind=kind, dtype=dtype, tile=tile)
