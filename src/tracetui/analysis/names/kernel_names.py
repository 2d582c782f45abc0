"""Decoding the names of kernels, and short names for any event.

`decode` is for the names on a device's lanes, `short_name` for any event by its category. Both are pure,
accept any text, never raise, and take time linear in a bounded part of the name. Callers cache one result per
distinct name.
"""

from __future__ import annotations

import re

from tracetui.analysis.names import cxx
from tracetui.analysis.names.aten import decode_aten
from tracetui.analysis.names.communication import decode_communication
from tracetui.analysis.names.cutlass import decode_library, decode_template
from tracetui.analysis.names.gemm import decode_gemm
from tracetui.analysis.names.inductor import decode_triton
from tracetui.analysis.names.model import KernelName
from tracetui.analysis.names.others import decode_attention, decode_cub, decode_other, decode_transfer
from tracetui.analysis.names.plugins import decode_by_plugin
from tracetui.analysis.names.rocm import decode_rocm
from tracetui.core.copying import replace
from tracetui.trace.categories import CATEGORY_KINDS
from tracetui.trace.model import DEVICE_WORK

DEVICE_CATEGORIES = frozenset(name for name, kind in CATEGORY_KINDS.items() if kind in DEVICE_WORK)
"""Categories, in lower case, whose names `decode` understands."""

LONGEST = 40
"""The most characters in a short name."""

_BUILTIN = re.compile(r"<built-in (?:method|function) ([^ >]{1,80})")


def decode(name: str) -> KernelName:
    """What a device event's name says.

    Args:
        name: the full name of a kernel, a copy or a memset.

    Returns: the decoded name; fields that the name does not state are None, and ``family`` is ``other`` for a
        name that follows no known convention.
    """
    text = cxx.readable(name)
    function = cxx.parse(text)
    found = (
        decode_by_plugin(text)
        or decode_transfer(text)
        or decode_communication(text, function)
        or decode_triton(text)
        or decode_rocm(text, function)
        or decode_library(text, function)
        or decode_attention(text, cxx.inner(function))
        or decode_gemm(text)
        or decode_template(text)
        or decode_aten(text, function)
        or decode_cub(text, function)
        or decode_other(text, function)
    )
    if text is not name:
        found = replace(found, name=name)
    return found if len(found.short) <= LONGEST else replace(found, short=_fit(found.short))


def _fit(text: str) -> str:
    """The two ends of a text that is too long for a table, as names may differ at either end."""
    return f"{text[: LONGEST // 2]}…{text[len(text) - LONGEST // 2 + 1 :]}"


def short_name(name: str, category: str) -> str:
    """A name to write into a bar or a table cell.

    Kernels are decoded. Operators and runtime calls keep their names. PyTorch's wrappers around a name are
    removed: ``autograd::engine::evaluate_function: MulBackward0``, ``torch/nn/modules/module.py(1747):
    _call_impl``, ``## Call CompiledFxGraph f3k... ##``.

    Args:
        name: the event's full name.
        category: the event's category as the trace writes it (``cat``).
    """
    if category.lower() in DEVICE_CATEGORIES:
        return decode(name).short
    if category == "python_function":
        return _python(name)
    if name.startswith("autograd::engine::evaluate_function: "):
        return f"evaluate {name[37:]}"
    if name.startswith("## Call CompiledFxGraph "):
        return f"CompiledFxGraph {name[24:32]}"
    return name


def _python(name: str) -> str:
    if match := _BUILTIN.match(name):
        return match.group(1)
    if name.startswith("nn.Module: "):
        return name[11:]
    where, found, function = name.rpartition("): ")
    return function if found and where and function else name
