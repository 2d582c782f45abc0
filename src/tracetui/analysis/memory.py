"""What calls allocated and freed, as PyTorch's table counts it with `profile_memory`.

The rules are those of torch.autograd.profiler (`_parse_kineto_results`): a call has all records between its
start and its end, both included, of whatever thread; its own are those less its children's. A record that no
call has makes a row of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tracetui.analysis.calls import Calls
from tracetui.analysis.nesting import sum_into
from tracetui.analysis.scope import Scope
from tracetui.trace import Trace
from tracetui.trace.model import I64, Bool

if TYPE_CHECKING:
    from tracetui.analysis.averages import Averages

__all__ = ["MemoryUse", "Records", "change", "memory_records", "memory_rows", "memory_use", "moment"]

RECORD, OUT_OF_MEMORY = "[memory]", "[OutOfMemory]"
HOST_TYPES, DEVICE_TYPES = (0, 2, 5), (1, 6, 12, 20)
"""`Device Type` of a record, by c10::DeviceType: CPU, MKLDNN, IDEEP; CUDA, HIP, XPU, PrivateUse1."""


@dataclass(frozen=True, slots=True)
class Records:
    """The `[memory]` records of a trace, sorted by time. Arrays of one length."""

    time: I64
    """Nanoseconds."""
    host: I64
    """Bytes allocated, negative where freed; 0 for a record of the other kind of memory."""
    device: I64
    where: I64
    """The device's number, -1 for the host."""
    allocated: I64
    """Bytes of all that is allocated there after this record, -1 where the file does not tell."""
    reserved: I64


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Bytes per row of an `Averages`: allocated less freed. Arrays of its length."""

    host: I64
    self_host: I64
    device: I64
    self_device: I64


def memory_records(trace: Trace) -> Records | None:
    """The records with their sizes, which are read from the file again; None where there are none."""
    at = _named(trace, RECORD)
    if not len(at):
        return None
    columns = np.zeros((5, len(at)), dtype=np.int64)
    host, device, where, allocated, reserved = columns
    for i, args in enumerate(trace.args_of_sources(trace.instants.source[at].tolist())):
        kind = args.get("Device Type")
        if kind in HOST_TYPES:
            host[i] = _bytes(args, "Bytes", 0)
        elif kind in DEVICE_TYPES:
            device[i] = _bytes(args, "Bytes", 0)
        where[i] = max(-1, _bytes(args, "Device Id", -1)) if kind in DEVICE_TYPES else -1
        allocated[i], reserved[i] = (_bytes(args, f"Total {what}", -1) for what in ("Allocated", "Reserved"))
    return Records(trace.instants.start[at], host, device, where, allocated, reserved)


def _bytes(args: Mapping[str, Any], key: str, otherwise: int) -> int:
    value = args.get(key)
    return value if isinstance(value, int) and abs(value) < 1 << 62 else otherwise


def moment(records: Records, time: int) -> list[tuple[int, int, int]]:
    """(where, bytes allocated, bytes reserved) at an instant, for each device and the host (-1), as far as
    the records tell: what the last one up to it says."""
    found = []
    until = int(np.searchsorted(records.time, time, side="right"))
    for where in np.unique(records.where).tolist():
        mine = np.flatnonzero((records.where[:until] == where) & (records.allocated[:until] >= 0))
        if len(mine):
            last = int(mine[-1])
            found.append((where, int(records.allocated[last]), int(records.reserved[last])))
    return found


def change(records: Records, start: int, end: int) -> tuple[int, int]:
    """(host, device) bytes allocated less freed from `start` to `end`, both included, by any thread."""
    first, last = np.searchsorted(records.time, start), np.searchsorted(records.time, end, side="right")
    return int(records.host[first:last].sum()), int(records.device[first:last].sum())


def memory_use(trace: Trace, calls: Calls, table: Averages, records: Records) -> MemoryUse:
    """The memory columns of `table`, which was made from `calls`."""
    n = len(calls.cpu)
    start = trace.start[calls.cpu]
    first = np.searchsorted(records.time, start, side="left")
    last = np.searchsorted(records.time, start + trace.duration[calls.cpu], side="right")
    row = np.where(calls.removed, -1, table.row_of[calls.cpu]).astype(np.int64)
    shown = row >= 0
    inner = np.flatnonzero(~calls.removed & (calls.cpu_parent >= 0))
    orphan = np.array([table.first[i] < 0 and name == RECORD for i, name in enumerate(table.names)], np.bool_)
    loose = in_scope(records.time, table.scope) & outside(trace, calls, records.time)
    columns = []
    for size in (records.host, records.device):
        reach = np.concatenate([[0], np.cumsum(size)])
        own = reach[last] - reach[first]
        alone = np.where(calls.asynchronous, 0, own - sum_into(calls.cpu_parent[inner], own[inner], n))
        for values in (own, alone):
            column = sum_into(row[shown], values[shown], len(table))
            column[orphan] = size[loose].sum()
            columns.append(column)
    return MemoryUse(*columns)


def memory_rows(trace: Trace, calls: Calls, scope: Scope) -> list[tuple[str, int, int]]:
    """(name, count, first time) of the memory records that PyTorch gives rows of their own, without times.

    Those are all `[OutOfMemory]`, and the `[memory]` that lie in no CPU call of any thread.
    """
    rows = []
    for wanted in (RECORD, OUT_OF_MEMORY):
        time = trace.instants.start[_named(trace, wanted)]
        time = time[in_scope(time, scope)]
        if wanted == RECORD:
            time = time[outside(trace, calls, time)]
        if len(time):
            rows.append((wanted, len(time), int(time[0])))
    return rows


def _named(trace: Trace, wanted: str) -> I64:
    """Positions of the instants of a name, by time."""
    names = [i for i, name in enumerate(trace.names) if name == wanted]
    return np.flatnonzero(np.isin(trace.instants.name, names)) if names else np.zeros(0, dtype=np.int64)


def in_scope(time: I64, scope: Scope) -> Bool:
    """Mask: the instants that start in a scope."""
    if scope.kind == "whole":
        return np.ones(len(time), dtype=np.bool_)
    return np.asarray((time >= scope.start) & (time < scope.end))


def outside(trace: Trace, calls: Calls, time: I64) -> Bool:
    """Mask: the instants that lie in no CPU call of any thread, ends included."""
    if not len(calls.cpu) or not len(time):
        return np.ones(len(time), dtype=np.bool_)
    start = trace.start[calls.cpu]
    order = np.argsort(start, kind="stable")
    reach = np.maximum.accumulate((start + trace.duration[calls.cpu])[order])
    before = np.searchsorted(start[order], time, side="right")
    return np.asarray((before == 0) | (reach[np.maximum(before, 1) - 1] < time))
