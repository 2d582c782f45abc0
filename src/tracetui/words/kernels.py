"""Explains kernels, copies and memsets, by their decoded names."""

from __future__ import annotations

import re

from tracetui.analysis.names.model import KernelName
from tracetui.words.texts import sections

_GENERATED = (
    "cuDNN generates it for the case at hand. The numbers in its name are not documented; knob is cuDNN's "
    "word for a setting."
)


def kernel(name: KernelName) -> tuple[str, ...]:
    """What a kernel, a copy or a memset is; () if its name says nothing."""
    kinds, copies, families, special = (text for _, text in sections("kernels").values())
    if name.kind == "memcpy":
        return tuple(text for way, text in copies.items() if way in name.short) or (kinds["memcpy"],)
    found = (text for key, text in special.items() if _is_of(name, *key.split(" ", 1)))
    what = next(found, kinds.get(name.kind, ""))
    family = families.get(name.family, "")
    if name.family == "cudnn" and "generated" in name.name[:60]:
        family = _GENERATED
    return tuple(text for text in (what, family) if text)


def _is_of(name: KernelName, kind: str, word: str) -> bool:
    return name.kind == kind and re.search(word, name.short, re.I) is not None
