"""All gaps of a trace in one list, with their causes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tracetui.analysis.idle.causes import CAUSES, Causes
from tracetui.analysis.idle.gaps import DeviceGaps, clip, find_gaps
from tracetui.analysis.part import Part, fact
from tracetui.analysis.steps.scope import window_of
from tracetui.core.columns import repeated
from tracetui.trace.model import I64

NONE = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class GapList:
    """The gaps of all devices, by device and then by time. Arrays of one length; times in nanoseconds."""

    devices: tuple[DeviceGaps, ...]
    device: I64
    """The device's index in the trace."""
    index: I64
    """The gap's index among those of its device."""
    start: I64
    duration: I64
    before: I64
    """The slice whose end began the gap."""
    after: I64
    """The slice whose start ended it."""

    def __len__(self) -> int:
        return len(self.start)

    def find(self, device: int, index: int) -> int | None:
        """The position in this list of gap `index` of a device, or None."""
        low, high = np.searchsorted(self.device, (device, device + 1))
        at = low + int(np.searchsorted(self.index[low:high], index))
        return int(at) if at < high and self.index[at] == index else None


def list_gaps(devices: Sequence[DeviceGaps]) -> GapList:
    """The gaps of several devices, in their order."""
    number, count = np.array([(d.device, len(d)) for d in devices], dtype=np.int64).reshape(-1, 2).T
    fields = ("whole", "start", "duration", "before", "after")
    return GapList(tuple(devices), repeated(number, count), *(_joined(devices, field) for field in fields))


def _joined(parts: Sequence[object], field: str) -> I64:
    if len(parts) == 1:
        only: I64 = getattr(parts[0], field)
        return only
    return np.concatenate([*(getattr(part, field) for part in parts), NONE])


def join_causes(parts: Sequence[Causes]) -> Causes:
    """The causes of several devices' gaps, in their order."""
    if len(parts) == 1:
        return parts[0]
    fields = ("event", "launch", "op", "activity", "waited_for", "others")
    event, launch, op, activity, waited_for, others = (_joined(parts, field) for field in fields)
    cause, step = _joined(parts, "cause").astype(np.int8), _joined(parts, "step").astype(np.int32)
    pieces = np.concatenate([np.zeros((0, len(CAUSES)), np.int64), *(part.pieces for part in parts)])
    return Causes(pieces, cause, event, launch, op, step, activity, waited_for, others)


@fact
def gaps_of(part: Part) -> GapList:
    """The gaps of every device, in one list; for a part of the trace, cut at its borders."""
    if part.is_whole:
        return list_gaps(find_gaps(part.trace))
    return list_gaps([clip(device, *window_of(part)) for device in gaps_of(part.whole).devices])


def busy_share_of(part: Part) -> float | None:
    """Busy time of all devices over their spans; None without device events."""
    devices = gaps_of(part).devices
    span = sum(device.span for device in devices)
    return sum(device.busy for device in devices) / span if span else None
