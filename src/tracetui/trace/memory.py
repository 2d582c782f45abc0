"""The `[memory]` records of a trace: what was allocated and freed where, and the running totals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from msgspec import Struct

from tracetui.core import threads
from tracetui.trace.model import I64, Trace

RECORD = "[memory]"
HOST_TYPES, DEVICE_TYPES = (0, 2, 5), (1, 6, 12, 20)
"""`Device Type` of a record, by c10::DeviceType: CPU, MKLDNN, IDEEP; CUDA, HIP, XPU, PrivateUse1."""
BATCH = 500
"""Records to read from the file at a time."""
HOST = -1


class Records(Struct, frozen=True):
    """Records sorted by time. Arrays of equal length."""

    time: I64
    """Nanoseconds."""
    size: I64
    """Bytes allocated, negative where freed."""
    where: I64
    """The device's number, `HOST` for the host."""
    allocated: I64
    """Total bytes allocated there after this record, -1 if the file does not say."""
    reserved: I64


def memory_records(trace: Trace, going_on: Callable[[], bool] = lambda: True) -> Records | None:
    """The records with their sizes; None if there are none, or if they can no longer be read.

    The sizes are read from the file again, in batches; `going_on` is called after each, and stops the reading
    by returning False, in which case the result is None.
    """
    at = named_instants(trace, RECORD)
    start, source = trace.instants.start[at], trace.instants.source[at]
    rows = np.zeros((4, len(at)), dtype=np.int64)
    was_read = np.zeros(len(at), dtype=np.bool_)
    by_place = np.argsort(source)  # in file order: a compressed file is decoded sequentially
    for first in range(0, len(at), BATCH):
        threads.yield_to_ui()
        batch = by_place[first : first + BATCH]
        args = trace.args_of_sources(source[batch].tolist())
        was_read[batch] = [bool(one) for one in args]  # otherwise it can no longer be read
        rows[:, batch] = np.array([_row(one) for one in args], dtype=np.int64).T
        if not going_on():
            return None
    return Records(start[was_read], *rows[:, was_read]) if was_read.any() else None


def _row(args: Mapping[str, Any]) -> tuple[int, ...]:
    """The columns of a record, but for its time."""
    return *_size_and_place(args), *(_bytes(args, f"Total {what}", -1) for what in ("Allocated", "Reserved"))


def _size_and_place(args: Mapping[str, Any]) -> tuple[int, int]:
    """(bytes, device or `HOST`) of a record; 0 bytes for memory that PyTorch's table leaves out."""
    kind, number = args.get("Device Type"), _bytes(args, "Device Id", HOST)
    if kind in HOST_TYPES:
        return _bytes(args, "Bytes", 0), HOST
    if kind in DEVICE_TYPES:
        return _bytes(args, "Bytes", 0), max(number, 0)
    return 0, max(number, HOST)


def _bytes(args: Mapping[str, Any], key: str, otherwise: int) -> int:
    value = args.get(key)
    return int(value) if isinstance(value, int | float) and abs(value) < 1 << 62 else otherwise


def named_instants(trace: Trace, wanted: str) -> I64:
    """Indices of the instants with this name, by time."""
    names = [i for i, name in enumerate(trace.names) if name == wanted]
    return np.flatnonzero(np.isin(trace.instants.name, names)) if names else np.zeros(0, dtype=np.int64)


def moment(records: Records, time: int) -> list[tuple[int, int, int]]:
    """(where, bytes allocated, bytes reserved) at a time, for each device and the host that has a record with
    totals by then."""
    found = []
    until = int(np.searchsorted(records.time, time, side="right"))
    for where in np.unique(records.where).tolist():
        mine = np.flatnonzero((records.where[:until] == where) & (records.allocated[:until] >= 0))
        if len(mine):
            last = int(mine[-1])
            found.append((where, int(records.allocated[last]), int(records.reserved[last])))
    return found
