"""When a device was busy, over all its streams."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from tracetui.trace.intervals import Union, union
from tracetui.trace.model import DEVICE_WORK, Bool, Kind, Trace

IN_OPS = -1


def busy_of(trace: Trace) -> dict[int, Union]:
    """When each device was busy; without devices, when any thread was in an op (key `IN_OPS`), or, without
    ops, in anything (key -2)."""
    found: dict[int, Union] = {}
    if len(trace):
        device = np.array([lane.device for lane in trace.lanes], dtype=np.int32)[trace.lane]
        work = trace.is_kind(*DEVICE_WORK) & ~trace.implausible
        found = {i: _union(trace, work & (device == i)) for i in np.unique(device[work]).tolist()}
    if not any(i >= 0 for i in found):
        ops = trace.is_kind(Kind.CPU_OP)
        key, mask = (IN_OPS, ops) if ops.any() else (-2, trace.depth == 0)
        found = {key: _union(trace, mask & ~trace.implausible)}
    return found


def _union(trace: Trace, mask: Bool) -> Union:
    start = trace.start[mask]
    return union(start, start + trace.duration[mask])


def overall(parts: Collection[Union]) -> float:
    """Busy share of the time from first start to last end, over all devices; 0.0 if nothing ran."""
    span = sum(int(one.end[-1]) - int(one.start[0]) for one in parts if len(one))
    return sum(one.total for one in parts) / span if span else 0.0
