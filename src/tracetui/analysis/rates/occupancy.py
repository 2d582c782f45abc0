"""How many blocks of a kernel fit on a multiprocessor, from what the file says about the kernel and the
device.

The rules are those of CUDA's occupancy calculator (`cuda_occupancy.h`), the estimate is Kineto's
(libkineto/src/CudaDeviceProperties.cpp). Kineto writes 0 for kernels with more than 48 KiB of shared memory,
because it does not tell the calculator that they asked for more: this affects many kernels of cuBLAS, cuDNN
and FlashAttention.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

WARP = 32
_REGISTER_UNIT = 256
"""A warp's registers are allocated in units of this many."""
_BLOCKS = {(7, 5): 16, (8, 6): 16, (8, 7): 16, (8, 9): 24}
"""The most blocks on a multiprocessor, if it is not 32 (24 from compute capability 12 on)."""


@dataclass(frozen=True, slots=True)
class Residency:
    """What is on a multiprocessor while a kernel runs."""

    blocks: int
    """The most blocks that fit at once."""
    warps: int
    """The number of warps in these blocks."""
    most_warps: int
    """The most warps that a multiprocessor holds."""
    grid: float
    """Blocks of the whole grid per multiprocessor."""
    occupancy: float
    """Share of the warps in use, 0 to 1: less than `warps / most_warps` if the grid is too small."""


def residency(args: Mapping[str, Any], device: Mapping[str, Any]) -> Residency | None:
    """Computed from a kernel's `args` and its device's properties; None if one of the numbers is missing or
    odd."""
    grid, block = args.get("grid"), args.get("block")
    if not isinstance(grid, list) or not isinstance(block, list):
        return None
    asked = [args.get("registers per thread"), args.get("shared memory"), device.get("computeMinor")]
    limits = ("maxThreadsPerMultiprocessor", "regsPerMultiprocessor", "sharedMemPerMultiprocessor", "numSms")
    given = [*grid, *block, *(device.get(key) for key in ("computeMajor", *limits))]
    if not all(_count(n, 0) for n in asked) or not all(_count(n, 1) for n in given):
        return None
    registers, shared, minor = (int(n) for n in asked if n is not None)
    major, threads_limit, register_limit, shared_limit, sms = (int(n) for n in given[-5:] if n is not None)
    threads = math.prod(block)
    warps, most_warps = -(-threads // WARP), threads_limit // WARP
    if device.get("warpSize", WARP) != WARP or not 5 <= major < 20 or warps > most_warps:
        return None
    fitting = [most_warps // warps, _BLOCKS.get((major, minor), 24 if major >= 12 else 32)]
    if registers:
        parts = 2 if (major, minor) == (6, 0) else 4  # each part of a multiprocessor has registers of its own
        each = -(-registers * WARP // _REGISTER_UNIT) * _REGISTER_UNIT
        fitting.append(register_limit // parts // each * parts // warps)
    reserved, unit = (1024, 128) if major >= 8 else (0, 256)
    if taken := -(-(shared + reserved) // unit) * unit:
        fitting.append(shared_limit // taken)
    blocks = min(fitting)
    if not blocks:
        return None
    per_sm = math.prod(grid) / sms
    used = min(float(blocks), per_sm) * threads / threads_limit
    return Residency(blocks, blocks * warps, most_warps, per_sm, used)


def blocks_of(args: Mapping[str, Any]) -> int:
    """The number of blocks in a kernel's whole grid; 0 if its `args` do not say."""
    grid = args.get("grid")
    if not isinstance(grid, list) or not all(_count(n, 1) for n in grid):
        return 0
    return math.prod(grid[:3])


def _count(value: object, least: int) -> bool:
    """Whether it is an integer that a kernel or a device may have."""
    return type(value) is int and least <= value < 1 << 40
