"""All gaps of a trace in one list, with their causes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tracetui.analysis.causes import Causes
from tracetui.analysis.gaps import DeviceGaps
from tracetui.trace.model import I64

NONE = np.zeros(0, dtype=np.int64)


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


def list_gaps(devices: Sequence[DeviceGaps]) -> GapList:
    """The gaps of several devices, in their order."""

    def joined(parts: list[I64]) -> I64:
        return np.concatenate([*parts, NONE])

    return GapList(
        tuple(devices),
        joined([np.full(len(d), d.device, dtype=np.int64) for d in devices]),
        joined([d.whole for d in devices]),
        joined([d.start for d in devices]),
        joined([d.duration for d in devices]),
        joined([d.before for d in devices]),
        joined([d.after for d in devices]),
    )


def join_causes(parts: Sequence[Causes]) -> Causes:
    """The causes of several devices' gaps, in their order."""
    if len(parts) == 1:
        return parts[0]

    def joined(field: str) -> I64:
        return np.concatenate([*(getattr(p, field) for p in parts), NONE])

    cause, step = joined("cause").astype(np.int8), joined("step").astype(np.int32)
    return Causes(cause, joined("event"), joined("launch"), joined("op"), step, joined("activity"))
