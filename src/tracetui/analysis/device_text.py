"""The words for devices in sentences."""

from __future__ import annotations

from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.idle.gaps import DeviceGaps
from tracetui.analysis.part import Part


def gpus_text(devices: int) -> str:
    """The word for all devices."""
    return "the GPU" if devices < 2 else "the GPUs"


def gpus_are(devices: int) -> str:
    """The beginning of a sentence on times that add up over the devices."""
    return "the GPU is" if devices < 2 else f"{devices:,} GPUs together are"


def device_text(part: Part, gaps: DeviceGaps) -> str:
    """The word for one device."""
    if len(gaps_of(part).devices) < 2:
        return "the GPU"
    rank = part.trace.rank_of(gaps.device)
    return part.trace.device_called(gaps.device) + (f" of {rank}" if rank else "")
