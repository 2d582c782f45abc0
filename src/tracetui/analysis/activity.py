"""What the CPU was doing while a device stood idle, also when that was many small ops."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from tracetui.analysis.causes import CAUSES, Causes, is_op_name
from tracetui.analysis.kernel_names import short_name
from tracetui.analysis.nesting import sum_into
from tracetui.analysis.select import named
from tracetui.trace import Kind, Trace
from tracetui.trace.model import I64, Bool
from tracetui.units import plural

MOST = ", most in "


@dataclass(frozen=True, slots=True)
class SmallOps:
    """For each gap filled by ops none of which covers half of it: their number and the largest.

    Arrays of one length. Counts outermost ops only.
    """

    count: I64
    """0 where one slice covers half of the gap (`Causes.activity`), or where ops are not the cause."""
    name: I64
    """Index into `Trace.names` of the op name with the most time in the gap; -1 for none."""


def small_ops(trace: Trace, before: I64, causes: Causes) -> SmallOps:
    """The small ops of gaps with these causes; `before`: the slice whose end began each. Shapes (n,)."""
    start, end = trace.start[before] + trace.duration[before], trace.start[causes.event]
    count, name = np.zeros(len(start), dtype=np.int64), np.full(len(start), -1, dtype=np.int64)
    wanted = np.flatnonzero((causes.cause == CAUSES.index("dispatch")) & (causes.activity < 0))
    if not len(wanted):
        return SmallOps(count, name)
    launch = causes.launch[wanted]
    lane = trace.lane[launch]
    low, high = start[wanted], np.minimum(trace.start[launch], end[wanted])
    is_op = named(trace, is_op_name)
    for i in np.unique(lane).tolist():
        mine = np.flatnonzero(lane == i)
        which, ops, spent = _overlaps(trace, _outermost(trace, i, is_op), low[mine], high[mine])
        at = wanted[mine]
        count[at] = np.bincount(which, minlength=len(mine))
        # Sum the time of each (gap, name), then take the largest of each gap.
        pairs, back = np.unique(which * len(trace.names) + trace.name[ops], return_inverse=True)
        order = np.lexsort((-sum_into(back, spent, len(pairs)), pairs // len(trace.names)))
        stretch, first = np.unique(pairs[order] // len(trace.names), return_index=True)
        name[at[stretch]] = pairs[order][first] % len(trace.names)
    return SmallOps(count, name)


def _outermost(trace: Trace, lane: int, is_op: Bool) -> I64:
    """A lane's outermost ops, by time."""
    this = trace.lanes[lane]
    at = np.arange(this.first, this.last)
    at = at[(trace.kind[at] == Kind.CPU_OP) & ~trace.implausible[at] & is_op[trace.name[at]]]
    reach = np.maximum.accumulate(trace.start[at] + trace.duration[at])
    outer: Bool = np.ones(len(at), dtype=np.bool_)
    outer[1:] = trace.start[at[1:]] >= reach[:-1]
    return np.asarray(at[outer], dtype=np.int64)


def _overlaps(trace: Trace, ops: I64, low: I64, high: I64) -> tuple[I64, I64, I64]:
    """(position of the gap, op, overlap in ns) for each op that overlaps a gap [low, high)."""
    start, end = trace.start[ops], trace.start[ops] + trace.duration[ops]
    first = np.searchsorted(end, low, side="right")
    number = np.maximum(np.searchsorted(start, high, side="left") - first, 0)
    which = np.repeat(np.arange(len(low)), number)
    begun = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(number)[:-1]])
    at = first[which] + np.arange(len(which)) - begun[which]
    return which, ops[at], np.minimum(end[at], high[which]) - np.maximum(start[at], low[which])


def activity_text(trace: Trace, causes: Causes, small: SmallOps, i: int) -> str:
    """What the CPU did in gap i: a slice's short name, `7 ops, most in aten::add`, `outside ops`, or `-`."""
    at = int(causes.activity[i])
    name, category = (int(trace.name[at]), int(trace.category[at])) if at >= 0 else (-1, -1)
    host = CAUSES[int(causes.cause[i])] == "host"
    return _text(trace, name, category, int(small.count[i]), int(small.name[i]), host)


def activity_texts(trace: Trace, causes: Causes, small: SmallOps) -> list[str]:
    """`activity_text` for every gap; each distinct text is built once."""
    inside, at = causes.activity >= 0, np.maximum(causes.activity, 0)
    keys = zip(
        np.where(inside, trace.name[at], -1).tolist(),
        np.where(inside, trace.category[at], -1).tolist(),
        small.count.tolist(),
        small.name.tolist(),
        (causes.cause == CAUSES.index("host")).tolist(),
        strict=True,
    )
    text = cache(partial(_text, trace))
    return [text(*key) for key in keys]


def _text(trace: Trace, name: int, category: int, count: int, most: int, host: bool) -> str:
    if name >= 0:
        return short_name(trace.names[name], trace.categories[category])
    if count:
        return f"{plural(count, 'op')}{MOST}{short_name(trace.names[most], 'cpu_op')}"
    return "outside ops" if host else "-"
