"""The peak rates of known devices, from ``device_peaks.toml``, which gives the sources."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LINKS = {"PCIe 3.0 x16": 15.75, "PCIe 4.0 x16": 31.5, "PCIe 5.0 x16": 63.0, "NVLink-C2C": 450.0}
"""GB/s (1e9) in one direction. PCIe: 8, 16, 32 GT/s per lane, 128b/130b; packet headers cost a little more.
NVLink-C2C: half of the 900 GB/s of both directions (GH200 data sheet)."""


@dataclass(frozen=True, slots=True)
class Peak:
    """The limits of one device model.

    Attributes:
        label: the model, as people call it.
        names: regular expression that matches the driver's whole name for it.
        capability: compute capability, "9.0".
        sms: number of multiprocessors (compute units on AMD).
        memory_gib: size of the memory in GiB, if it is needed to tell models apart, else None.
        bandwidth: memory bandwidth in GB/s (1e9 bytes).
        tflops: dense TFLOP/s (1e12) by element type; matrix units where the device has them for that type.
        source: where the figures come from.
        link: its way to the host, one of `LINKS`, "" where that is not known.
    """

    label: str
    names: str
    capability: str
    sms: int
    memory_gib: float | None
    bandwidth: float
    tflops: Mapping[str, float]
    source: str
    link: str = ""

    def tflops_for(self, dtype: str | None) -> float | None:
        """TFLOP/s for an element type as `analysis.names.kernel_names` spells it; None where unknown."""
        return None if dtype is None else self.tflops.get(dtype)


@cache
def known_peaks() -> tuple[Peak, ...]:
    """Every device model with known limits."""
    text = resources.files(__package__).joinpath("device_peaks.toml").read_text(encoding="utf-8")
    return tuple(Peak(**{"memory_gib": None, **row}) for row in tomllib.loads(text)["device"])


def find_peak(properties: Mapping[str, Any]) -> Peak | None:
    """The limits of a device.

    Args: properties: one entry of the trace's ``deviceProperties``: ``name``, ``computeMajor``,
        ``computeMinor``, ``numSms``, ``totalGlobalMem``.

    Returns: the model whose name matches and whose other properties do not contradict it; None for an unknown
        device, a part of one (MIG), or a namesake with another number of multiprocessors. A device without a
        name (ROCm leaves it empty at times) is known by its capability, multiprocessors and memory together.
    """
    name = str(properties.get("name") or "").strip()
    return next((peak for peak in known_peaks() if _is(peak, name, properties)), None)


def _is(peak: Peak, name: str, properties: Mapping[str, Any]) -> bool:
    capability = f"{properties.get('computeMajor')}.{properties.get('computeMinor')}"
    sms = properties.get("numSms")
    if properties.get("computeMajor") is not None and capability != peak.capability:
        return False
    if sms is not None and sms != peak.sms:
        return False
    if name:
        return re.fullmatch(peak.names, name) is not None
    memory = properties.get("totalGlobalMem")
    if sms is None or peak.memory_gib is None or not isinstance(memory, int | float):
        return False
    return abs(memory / 2**30 - peak.memory_gib) < 0.05 * peak.memory_gib
