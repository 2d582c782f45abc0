"""Copies between a device and ordinary host memory, which the driver moves in pieces."""

from __future__ import annotations

import re

from tracetui.analysis.calls.ancestors import outermost_op
from tracetui.analysis.device_work import device_work_of, op_behind
from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.part import Part, fact
from tracetui.analysis.select import name_mask
from tracetui.trace import Kind
from tracetui.trace.slices import Slices

PAGEABLE_NS = 50_000
PAGEABLE_SHARE = 0.01
STAGED_NS = 5_000
"""A copy that takes less, of up to some 64 kB, goes in one piece: pinning it would gain nothing."""
_COPYING = re.compile(r"aten::(?:to|_to_copy|copy_|_foreach_copy_|index_put_?)|(?!aten::).*")
OUT = ("DtoH", "DeviceToHost", "D2H", "D2M")


def is_copying(name: str) -> bool:
    """Whether a program that calls an op of this name asks for a copy."""
    return _COPYING.fullmatch(name) is not None


@fact
def pageable_copies(part: Part) -> Slices:
    """Those that the program could avoid; none where they take little time."""
    trace = part.trace
    at = device_work_of(part).named(lambda name: name.startswith("Memcpy") and "Pageable" in name)
    called = outermost_op(part, op_behind(trace, at.at))
    # What an op copies for itself, such as the status of a decomposition, nobody can pin.
    at = at[(called < 0) | name_mask(trace, is_copying, Kind.CPU_OP)[trace.name[called]]]
    span = sum(gaps.span for gaps in gaps_of(part).devices)
    little = at.time < max(PAGEABLE_NS, PAGEABLE_SHARE * span)
    return at[:0] if little or 2 * at[at.duration < STAGED_NS].time > at.time else at
