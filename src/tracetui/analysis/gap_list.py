"""All gaps of a trace in one list, with their causes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetui.analysis.causes import Causes, gap_causes
from tracetui.analysis.gaps import DeviceGaps, clip, find_gaps
from tracetui.trace.model import I64, Trace


@dataclass(frozen=True, slots=True)
class GapList:
    """The gaps of all devices, by device and then by time. Arrays of one length; times in nanoseconds."""

    devices: tuple[DeviceGaps, ...]
    device: I64
    """The device's index, as the trace numbers it."""
    index: I64
    """The gap's place among those of its device."""
    start: I64
    duration: I64
    before: I64
    """The slice whose end began the gap."""
    after: I64
    """The slice whose start ended it."""

    def __len__(self) -> int:
        return len(self.start)

    def find(self, device: int, index: int) -> int | None:
        """The place in this list of gap `index` of a device."""
        found = np.flatnonzero((self.device == device) & (self.index == index))
        return int(found[0]) if len(found) else None


def list_gaps(trace: Trace) -> GapList:
    """The gaps of every device."""
    return _listed(tuple(find_gaps(trace)))


def gaps_within(trace: Trace, gaps: GapList, start: int, end: int) -> tuple[GapList, Causes]:
    """The gaps within a stretch of time, cut at its borders, and their causes."""
    cut = _listed(tuple(clip(d, start, end) for d in gaps.devices))
    return cut, list_causes(trace, cut)


def _listed(devices: tuple[DeviceGaps, ...]) -> GapList:

    def joined(parts: list[I64]) -> I64:
        return np.concatenate([*parts, np.zeros(0, dtype=np.int64)])

    return GapList(
        devices,
        joined([np.full(len(d), d.device, dtype=np.int64) for d in devices]),
        joined([d.whole for d in devices]),
        joined([d.start for d in devices]),
        joined([d.duration for d in devices]),
        joined([d.before for d in devices]),
        joined([d.after for d in devices]),
    )


def list_causes(trace: Trace, gaps: GapList) -> Causes:
    """The causes of all gaps, in their order."""
    parts = [gap_causes(trace, d) for d in gaps.devices]
    if len(parts) == 1:
        return parts[0]

    def joined(field: str) -> I64:
        return np.concatenate([*(getattr(p, field) for p in parts), np.zeros(0, dtype=np.int64)])

    cause, step = joined("cause").astype(np.int8), joined("step").astype(np.int32)
    return Causes(cause, joined("event"), joined("launch"), joined("op"), step, joined("activity"))
