"""Several GPUs of one process that are busy, but hardly ever at the same time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.part import Part, fact
from tracetui.analysis.steps.scope import slices_of
from tracetui.analysis.verdicts import verdict_window
from tracetui.trace import Kind
from tracetui.trace.intervals import all_of
from tracetui.trace.model import I64

TAKES_PART = 0.15
"""Of the busy time of all GPUs: one that has less only helps the others."""
BUSY_SHARE = 0.5
"""Of the time: where the GPUs, in turn, are busy for less, something else holds them up."""
AT_ONCE = 0.1
"""Of the time in which any of them is busy."""


@dataclass(frozen=True, slots=True)
class InTurn:
    """GPUs that take turns."""

    used: I64
    """Which of the devices take part."""
    busy: I64
    """How long each of all devices is busy, ns."""
    any_of_them: int
    """How long at least one of them is, ns."""
    together: int
    """By how much their busy times are more than that, ns."""
    sent: I64
    """The copies from one device to another. Slices."""


@fact
def gpus_in_turn_of(part: Part) -> InTurn | None:
    """The GPUs that take turns; None if they do not."""
    trace, (low, high) = part.trace, verdict_window(part)
    devices = gaps_of(part.whole).devices
    busy = np.array([device.blocks.time_in(low, high) for device in devices], dtype=np.int64)
    used = np.flatnonzero(busy > TAKES_PART * busy.sum())
    if len(used) < 2 or len({trace.rank_of(devices[i].device) for i in used}) > 1:
        return None
    any_of_them = all_of([devices[i].blocks for i in used]).time_in(low, high)
    together = int(busy[used].sum()) - any_of_them
    if any_of_them < BUSY_SHARE * (high - low) or together >= AT_ONCE * any_of_them:
        return None
    sent = slices_of(part, Kind.MEMCPY, lambda name: "PtoP" in name).at
    return InTurn(used, busy, any_of_them, together, sent)
