"""Groups of ops that together compute one thing, such as an RMSNorm written out in single ops."""

from __future__ import annotations

import numpy as np

from tracetui.trace import Kind, Trace
from tracetui.trace.model import I64

_CORE = (("aten::pow", "aten::square"), ("aten::mean",), ("aten::add",), ("aten::rsqrt",))
_AFTER = (("aten::mul",), ("aten::to", "aten::_to_copy"), ("aten::mul",))
PARTS = frozenset(name for names in _CORE for name in names)
"""Names of the ops around which `rms_norm` looks."""


def rms_norm(trace: Trace, i: int) -> I64:
    """The ops, by time, of the written-out RMSNorm that op i is part of; empty if it is part of none."""
    inside = trace.parent == trace.parent[i]
    ops = np.flatnonzero(inside & (trace.lane == trace.lane[i]) & (trace.kind == Kind.CPU_OP))
    at = int(np.searchsorted(ops, i))
    for first in range(max(0, at - len(_CORE) + 1), at + 1):
        core = [trace.name_of(int(op)) for op in ops[first : first + len(_CORE)]]
        if len(core) == len(_CORE) and all(name in names for name, names in zip(core, _CORE, strict=True)):
            stop = first + len(_CORE)
            for names in _AFTER:
                stop += stop < len(ops) and trace.name_of(int(ops[stop])) in names
            first -= first > 0 and trace.name_of(int(ops[first - 1])) == "aten::to"
            return np.asarray(ops[first:stop], dtype=np.int64)
    return np.zeros(0, np.int64)
