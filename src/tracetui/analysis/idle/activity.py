"""What the CPU was doing while a device stood idle, even if that was many small ops."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from tracetui.analysis.calls.sums import sum_into
from tracetui.analysis.idle.causes import CAUSES, Causes
from tracetui.analysis.idle.cpu_time import is_allocation, is_synchronizing
from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.idle.split import causes_of
from tracetui.analysis.names.kernel_names import short_name
from tracetui.analysis.part import Part, fact
from tracetui.analysis.select import name_mask, op_names
from tracetui.core.columns import counted, repeated
from tracetui.core.units import plural
from tracetui.trace import Kind, Trace
from tracetui.trace.indices import group_positions
from tracetui.trace.model import I64, Bool

MOST = ", most in "


_OPS_FILL = tuple(map(CAUSES.index, ("dispatch", "launch", "initialisation")))
"""The causes for which ops may fill most of a gap before the launch."""


@dataclass(frozen=True, slots=True)
class SmallOps:
    """For each gap filled by ops or calls of which none covers half of it: how many there are, and the name
    with the most time.

    Arrays of one length. Only the outermost ones count.
    """

    count: I64
    """0 if one slice covers half of the gap (`Causes.activity`; a `ProfilerStep` does not count), or if the
    cause is not of this kind."""
    name: I64
    """Index into `Trace.names` of the name with the most time in the gap; -1 for none."""
    calls: Bool
    """Whether runtime calls that wait or handle memory are counted, not ops."""
    slice: I64
    """The slice to name instead, -1 for none: `Causes.activity`, but a `ProfilerStep` only if nothing better
    is known."""


def small_ops(trace: Trace, before: I64, causes: Causes) -> SmallOps:
    """The small ops of gaps with these causes; `before`: the slice whose end began each. Shapes (n,)."""
    start, end = trace.end_of(before), trace.start[causes.event]
    step = name_mask(trace, lambda name: name.startswith("ProfilerStep#"))
    said = (causes.activity >= 0) & ~step[trace.name[np.maximum(causes.activity, 0)]]
    n = len(start)
    found = SmallOps(
        np.zeros(n, np.int64), np.full(n, -1, np.int64), np.zeros(n, np.bool_), causes.activity.copy()
    )
    left = ~said & (causes.launch >= 0)
    for cause, wanted in (("allocation", is_allocation), ("sync", is_synchronizing)):
        mine = np.flatnonzero(left & (causes.cause == CAUSES.index(cause)))
        found.calls[mine] = True
        _count(trace, found, causes, start, end, mine, Kind.RUNTIME, name_mask(trace, wanted))
    mine = np.flatnonzero(left & np.isin(causes.cause, _OPS_FILL))
    _count(trace, found, causes, start, end, mine, Kind.CPU_OP, op_names(trace))
    found.slice[~said & ((found.count > 0) | (causes.cause == CAUSES.index("host")))] = -1
    return found


def _count(
    trace: Trace, found: SmallOps, causes: Causes, start: I64, end: I64, wanted: I64, kind: Kind, names: Bool
) -> None:
    """Fill in the counts and names for the gaps `wanted`: slices of this kind that run before the launch."""
    launch = causes.launch[wanted]
    lane = trace.lane[launch]
    low, high = start[wanted], np.minimum(trace.start[launch], end[wanted])
    dispatch = causes.cause[wanted] == CAUSES.index("dispatch")
    for i, mine in group_positions(lane, len(trace.lanes)):
        which, ops, spent = _overlaps(trace, _outermost(trace, i, kind, names), low[mine], high[mine])
        fill = 2 * sum_into(which, spent, len(mine)) > (high - low)[mine]
        fill |= dispatch[mine] | (kind != Kind.CPU_OP)
        which, ops, spent = (values[fill[which]] for values in (which, ops, spent))
        at = wanted[mine]
        found.count[at] = counted(which, len(mine))
        # Sum the time of each (gap, name), then take the largest one in each gap.
        pairs, back = np.unique(which * len(trace.names) + trace.name[ops], return_inverse=True)
        order = np.lexsort((-sum_into(back, spent, len(pairs)), pairs // len(trace.names)))
        stretch, first = np.unique(pairs[order] // len(trace.names), return_index=True)
        found.name[at[stretch]] = pairs[order][first] % len(trace.names)


def _outermost(trace: Trace, lane: int, kind: Kind, names: Bool) -> I64:
    """A lane's outermost slices of a kind with these names, by time."""
    this = trace.lanes[lane]
    at = np.arange(this.first, this.last)
    at = at[(trace.kind[at] == kind) & ~trace.implausible[at] & names[trace.name[at]]]
    reach = np.maximum.accumulate(trace.end_of(at))
    outer: Bool = np.ones(len(at), dtype=np.bool_)
    outer[1:] = trace.start[at[1:]] >= reach[:-1]
    return np.asarray(at[outer], dtype=np.int64)


def _overlaps(trace: Trace, ops: I64, low: I64, high: I64) -> tuple[I64, I64, I64]:
    """(position of the gap, op, overlap in ns) for each op that overlaps a gap [low, high)."""
    start, end = trace.start[ops], trace.end_of(ops)
    first = np.searchsorted(end, low, side="right")
    number = np.maximum(np.searchsorted(start, high, side="left") - first, 0)
    which = repeated(np.arange(len(low)), number)
    begun = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(number)[:-1]])
    at = first[which] + np.arange(len(which)) - begun[which]
    return which, ops[at], np.minimum(end[at], high[which]) - np.maximum(start[at], low[which])


def activity_text(trace: Trace, causes: Causes, small: SmallOps, i: int) -> str:
    """What the CPU did in gap i: a slice's short name, `7 ops, most in aten::add`, `outside ops`, or `-`."""
    at = int(small.slice[i])
    name, category = (int(trace.name[at]), int(trace.category[at])) if at >= 0 else (-1, -1)
    host = CAUSES[int(causes.cause[i])] == "host"
    return _text(trace, name, category, int(small.count[i]), int(small.name[i]), bool(small.calls[i]), host)


def activity_texts(trace: Trace, causes: Causes, small: SmallOps) -> list[str]:
    """`activity_text` for every gap; each distinct text is built once."""
    inside, at = small.slice >= 0, np.maximum(small.slice, 0)
    keys = zip(
        np.where(inside, trace.name[at], -1).tolist(),
        np.where(inside, trace.category[at], -1).tolist(),
        small.count.tolist(),
        small.name.tolist(),
        small.calls.tolist(),
        (causes.cause == CAUSES.index("host")).tolist(),
        strict=True,
    )
    text = cache(partial(_text, trace))
    return [text(*key) for key in keys]


def _text(trace: Trace, name: int, category: int, count: int, most: int, calls: bool, host: bool) -> str:
    if name >= 0:
        return short_name(trace.names[name], trace.categories[category])
    if count:
        kind = "cuda_runtime" if calls else "cpu_op"
        several = f"{plural(count, 'call' if calls else 'op')}{MOST}" if count > 1 else ""
        return f"{several}{short_name(trace.names[most], kind)}"
    return "outside ops" if host else "-"


@fact
def small_ops_of(part: Part) -> SmallOps:
    """The small ops that fill gaps, in the order of `gaps_of`."""
    return small_ops(part.trace, gaps_of(part).before, causes_of(part))
