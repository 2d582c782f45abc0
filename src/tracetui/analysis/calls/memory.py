"""The memory that calls allocated and freed, counted as PyTorch's table does with `profile_memory`.

The rules are those of torch.autograd.profiler (`_parse_kineto_results`): a call gets all records from its
start to its end, both included, of any thread; its own are those minus its children's. A record outside all
calls gets a row of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetui.analysis.calls.calls import Calls
from tracetui.analysis.part import Scope
from tracetui.trace import Trace
from tracetui.trace.memory import HOST, RECORD, Records, named_instants
from tracetui.trace.model import I64, Bool

OUT_OF_MEMORY = "[OutOfMemory]"


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Bytes allocated minus freed, per row of an `Averages`. Arrays of its length."""

    host: I64
    self_host: I64
    device: I64
    self_device: I64


def change(records: Records, start: int, end: int) -> tuple[int, int]:
    """(host, device) bytes allocated minus freed from `start` to `end`, both included, by any thread."""
    first, last = np.searchsorted(records.time, start), np.searchsorted(records.time, end, side="right")
    size, host = records.size[first:last], records.where[first:last] == HOST
    return int(size[host].sum()), int(size[~host].sum())


def memory_rows(trace: Trace, calls: Calls, scope: Scope) -> list[tuple[str, int, int]]:
    """(name, count, first time) of the memory records that have rows of their own in PyTorch's table.

    These are all `[OutOfMemory]` records, and each `[memory]` record outside all CPU calls of all threads.
    """
    rows = []
    for wanted in (RECORD, OUT_OF_MEMORY):
        time = trace.instants.start[named_instants(trace, wanted)]
        time = time[in_scope(time, scope)]
        if wanted == RECORD:
            time = time[outside(trace, calls, time)]
        if len(time):
            rows.append((wanted, len(time), int(time[0])))
    return rows


def in_scope(time: I64, scope: Scope) -> Bool:
    """Mask: the instants that start in a scope."""
    if scope.kind == "whole":
        return np.ones(len(time), dtype=np.bool_)
    return np.asarray((time >= scope.start) & (time < scope.end))


def outside(trace: Trace, calls: Calls, time: I64) -> Bool:
    """Mask: the instants outside all CPU calls of all threads. A call includes both its ends."""
    if not len(calls.cpu) or not len(time):
        return np.ones(len(time), dtype=np.bool_)
    start = trace.start[calls.cpu]
    order = np.argsort(start, kind="stable")
    reach = np.maximum.accumulate((start + trace.duration[calls.cpu])[order])
    before = np.searchsorted(start[order], time, side="right")
    return np.asarray((before == 0) | (reach[np.maximum(before, 1) - 1] < time))
