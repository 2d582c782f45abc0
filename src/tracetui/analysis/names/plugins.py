"""Families of kernels that other packages know. They are asked first: they know what is their own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tracetui.analysis.names import cxx
from tracetui.analysis.names.model import KernelName
from tracetui.core.copying import replace
from tracetui.core.plugins import attempt, loaded
from tracetui.core.safe_text import plain

_LONGEST = 200


def decode_by_plugin(text: str) -> KernelName | None:
    """What the first plugin that knows a readable name says; None if none does. Raises nothing."""
    for plugin, family in loaded("kernels"):
        if found := attempt(plugin, partial(_ask, family, text)):
            return found
    return None


def _ask(family: Callable[[str], KernelName | None], text: str) -> KernelName | None:
    """What a plugin says, safe to show. Raises where it is no `KernelName`."""
    found = family(text[: cxx.LIMIT])
    if found is None:
        return None
    return replace(
        found,
        name=text,
        family=plain(found.family, _LONGEST),
        short=plain(found.short),
        kind=plain(found.kind, _LONGEST),
        ops=tuple(plain(op, _LONGEST) for op in found.ops),
        notes=tuple(plain(note, _LONGEST) for note in found.notes),
    )
