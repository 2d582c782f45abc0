"""Whose calls a lane without a name holds.

Cuspy (PyTorch 2.15) numbers a thread whose tid CUPTI does not know by its pthread handle, so the calls of
autograd's thread lie on a lane of their own, beside the one with its ops. The calls of threads without ops,
such as NCCL's watchdog, lie on such lanes, too, and fall into other threads' ops by chance.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracetui.core.patterns import pattern
from tracetui.formats.diagnostics import Diagnostics
from tracetui.formats.store import Head
from tracetui.trace.lanes import Plan
from tracetui.trace.model import I8, I32, I64, Kind

_NAMELESS = pattern(r"(?:\[[^\]]*\] )?thread -?\d+")
_MOST = 0.5
"""More than this share of a thread's calls lie inside its ops; the others lie between them."""
_LANES = 64
"""Each lane is a pass over all slices: a file with more of them is left as it is."""
_CROSSING = 0.001
"""At most this share of a thread's calls crosses the border of one of its ops: only the clock can be why."""

_CALL, _OP = int(Kind.RUNTIME), int(Kind.CPU_OP)


def with_threads(
    heads: list[Head],
    used: Sequence[bool],
    plan: Plan,
    columns: tuple[I8, I32, I64, I64],
    diagnostics: Diagnostics,
) -> list[Head]:
    """The heads, with the threads' own tids where a lane without a name has nothing but the calls of a
    thread. `columns`: kind, lane, start and duration of all slices.

    Such a lane belongs to the one thread of its process that has ops but no calls, and whose ops contain
    most of the lane's calls. Of several such lanes, that with most calls in the ops is taken. The others stay
    where they are, and a notice says so.
    """
    kinds: dict[int, set[int]] = {}
    for lane, kind, is_used in zip(plan.lane_of_head.tolist(), plan.kind_of_head.tolist(), used, strict=True):
        if is_used:
            kinds.setdefault(lane, set()).add(kind)
    nameless = [n for n, has in kinds.items() if has == {_CALL} and _NAMELESS.fullmatch(plan.lanes[n].name)]
    threads = [n for n, has in kinds.items() if _OP in has and _CALL not in has]
    if not nameless or not threads or len(nameless) + len(threads) > _LANES:
        return heads
    calls = {n: _times(n, _CALL, columns) for n in nameless}
    fits: dict[int, list[tuple[int, int]]] = {n: [] for n in nameless}
    for thread in threads:
        ops = _times(thread, _OP, columns)
        for n in nameless:
            inside, crossing = _within(*calls[n], *ops)
            same = plan.lanes[n].process == plan.lanes[thread].process
            if same and inside > _MOST * len(calls[n][0]) and crossing <= _CROSSING * len(calls[n][0]):
                fits[n].append((inside, thread))
    most: dict[int, list[int]] = {}
    for inside, thread in sorted(one for found in fits.values() for one in found):
        most.setdefault(thread, []).insert(0, inside)
    owner: dict[int, int] = {}
    for n, found in fits.items():
        if len(found) == 1 and found[0][0] > max(most[found[0][1]][1:], default=0):
            owner[n] = found[0][1]
        elif found:
            diagnostics.note("whose_calls", count=len(calls[n][0]))
    if not owner:
        return heads
    lanes = plan.lane_of_head.tolist()
    tid = {n: heads[lanes.index(thread)][3] for n, thread in owner.items()}
    return [(*head[:3], tid.get(lane, head[3])) for head, lane in zip(heads, lanes, strict=True)]


def _times(lane: int, wanted: int, columns: tuple[I8, I32, I64, I64]) -> tuple[I64, I64]:
    """The starts of a lane's slices of one kind, and their ends. By start."""
    kind, lanes, start, duration = columns
    at = np.flatnonzero((lanes == lane) & (kind == wanted))
    at = at[np.argsort(start[at], kind="stable")]
    return start[at], start[at] + np.maximum(duration[at], 0)


def _within(start: I64, end: I64, op_start: I64, op_end: I64) -> tuple[int, int]:
    """How many of the calls lie inside an op, and how many cross the border of one."""
    borders = np.sort(np.concatenate([op_start, op_end]))
    crossing = np.searchsorted(borders, end) > np.searchsorted(borders, start, side="right")
    reach = np.concatenate([start[:1] - 1, np.maximum.accumulate(op_end)])
    inside = reach[np.searchsorted(op_start, start, side="right")] >= end
    return int(np.count_nonzero(inside & ~crossing)), int(np.count_nonzero(crossing))
