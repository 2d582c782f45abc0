"""Names of ops that have the overload in them (`aten::add.Tensor`), as PyTorch writes them with
`capture_overload_names`.

In a trace, an op has the name without its overload: PyTorch's own table counts them so, and what is known of
an op is known by that name. The overload can be read from the file again.
"""

from __future__ import annotations

import numpy as np

from tracetui.core.patterns import pattern
from tracetui.formats.store import Tables
from tracetui.trace.model import I8, I32, Kind

_OVERLOAD = pattern(r"(\w{1,200}::\w{1,200})\.(\w{1,200})")


def split_overload(name: str) -> tuple[str, str]:
    """(the name without the overload, the overload, "" for none) of an op."""
    match = _OVERLOAD.fullmatch(name)
    return (match[1], match[2]) if match else (name, "")


def drop_overloads(kind: I8, name: I32, tables: Tables) -> None:
    """Give ops their names without overloads. Changes `name` and `tables` in place."""
    full = {number: split_overload(text) for text, number in tables.names.items()}
    with_one = {number: bare for number, (bare, overload) in full.items() if overload}
    if not with_one:
        return
    ops = np.flatnonzero(kind == int(Kind.CPU_OP))
    table = np.arange(len(tables.names), dtype=np.int32)
    for number in with_one.keys() & set(np.unique(name[ops]).tolist()):
        table[number] = tables.names[with_one[number]]
    name[ops] = table[name[ops]]
