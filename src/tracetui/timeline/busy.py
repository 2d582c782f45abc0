"""When a device was busy, over all its streams."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from tracetui.trace.intervals import Intervals, union
from tracetui.trace.model import DEVICE_WORK, I64, Kind, Trace

IN_OPS = -1


def busy_of(trace: Trace) -> dict[int, Intervals]:
    """When each device was busy; without devices, when any thread was in an op (key `IN_OPS`), or, without
    ops, in anything (key -2)."""
    parts: dict[int, list[tuple[I64, I64]]] = {}
    for lane in trace.lanes:
        if lane.device >= 0:
            rows = slice(lane.first, lane.last)
            work = trace.is_kind(*DEVICE_WORK, of=rows) & ~trace.implausible[rows]
            if work.any():
                start = trace.start[rows][work]
                parts.setdefault(lane.device, []).append((start, start + trace.duration[rows][work]))
    found = {i: union(*map(np.concatenate, zip(*some, strict=True))) for i, some in sorted(parts.items())}
    if not found:
        ops = trace.is_kind(Kind.CPU_OP)
        key, mask = (IN_OPS, ops) if ops.any() else (-2, trace.depth == 0)
        mask = mask & ~trace.implausible
        start = trace.start[mask]
        found = {key: union(start, start + trace.duration[mask])}
    return found


def overall(parts: Collection[Intervals]) -> float:
    """Busy share of the time from first start to last end, over all devices; 0.0 if nothing ran."""
    span = sum(int(one.end[-1]) - int(one.start[0]) for one in parts if len(one))
    return sum(one.total for one in parts) / span if span else 0.0
