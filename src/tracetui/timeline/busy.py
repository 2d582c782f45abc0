"""When a device was busy, over all its streams."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from tracetui.trace.intervals import Union, union
from tracetui.trace.model import DEVICE_WORK, Bool, Trace


def busy_of(trace: Trace) -> dict[int, Union]:
    """When each device was busy; without devices, when any thread was (key -1)."""
    found: dict[int, Union] = {}
    if len(trace):
        device = np.array([lane.device for lane in trace.lanes], dtype=np.int32)[trace.lane]
        work = trace.is_kind(*DEVICE_WORK) & ~trace.implausible
        found = {i: _union(trace, work & (device == i)) for i in np.unique(device[work]).tolist()}
    if not any(i >= 0 for i in found):
        found = {-1: _union(trace, (trace.depth == 0) & ~trace.implausible)}
    return found


def _union(trace: Trace, mask: Bool) -> Union:
    start = trace.start[mask]
    return union(start, start + trace.duration[mask])


def overall(parts: Collection[Union]) -> float:
    """Busy share of the time from first start to last end, over all devices; 0.0 if nothing ran."""
    span = sum(int(one.end[-1]) - int(one.start[0]) for one in parts if len(one))
    return sum(one.total for one in parts) / span if span else 0.0
