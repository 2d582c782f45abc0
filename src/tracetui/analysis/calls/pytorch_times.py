"""The averages' times as PyTorch's own floating point gives them: microseconds, bit for bit.

PyTorch converts every start and end to float microseconds since the start of the recording and adds up their
differences. The sums are off by a few 1e-10, which shows when a table rounds a number half-way between two
others, and in the order of equal rows. `Averages` is exact; this is for a table that must equal PyTorch's
character by character.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetui.analysis.calls.averages import Averages
from tracetui.analysis.calls.calls import Calls
from tracetui.trace import Kind, Trace
from tracetui.trace.model import F64, I64


@dataclass(frozen=True, slots=True)
class Times:
    """Microseconds per row of an `Averages`. Arrays of its length."""

    cpu_total: F64
    self_cpu: F64
    device_total: F64
    self_device: F64


def exact_times(table: Averages) -> Times:
    """The exact nanoseconds in microseconds."""
    ns = (table.cpu_total, table.self_cpu, table.device_total, table.self_device)
    return Times(*(time / 1e3 for time in ns))


def recording_start(trace: Trace) -> int | None:
    """When the recording began, in ns: PyTorch's zero. None if the trace does not say."""
    spans = np.flatnonzero(trace.kind == Kind.SPAN)
    found = [i for i in spans if trace.name_of(int(i)).startswith("PyTorch Profiler")]
    return int(trace.start[found[0]]) if found else None


def pytorch_times(trace: Trace, calls: Calls, table: Averages) -> Times:
    """The times of `table`, made from `calls`, as PyTorch computes them.

    Exact ones if the trace does not say when the recording began.
    """
    zero = recording_start(trace)
    if zero is None:
        return exact_times(table)
    begin = trace.start[calls.cpu] - zero
    end = begin + trace.duration[calls.cpu]
    cpu = end / 1000 - begin / 1000
    device_begin = calls.device_start - zero
    device_end = device_begin + calls.device_duration
    device = device_end / 1000 - device_begin / 1000

    n = len(calls.cpu)
    inner = np.flatnonzero(~calls.removed & (calls.cpu_parent >= 0))
    # bincount adds in the order of its input, as Python's sum does.
    self_cpu = cpu - np.bincount(calls.cpu_parent[inner], weights=cpu[inner], minlength=n)
    self_cpu[calls.asynchronous] = 0.0
    device_total, self_device = _device_times(calls, device, device_begin)

    slices = np.concatenate([calls.cpu, calls.device])
    row = table.row_of[slices].astype(np.int64)
    row[: len(calls.cpu)][calls.removed] = -1
    starts, ends = np.concatenate([begin, device_begin]), np.concatenate([end, device_end])
    order = np.lexsort((trace.source[slices], -ends, starts))
    order = order[row[order] >= 0]
    none = np.zeros(len(device))

    def add(on_cpu: F64, on_device: F64) -> F64:
        values = np.concatenate([on_cpu, on_device])[order]
        total: F64 = np.bincount(row[order], weights=values, minlength=len(table)).astype(np.float64)
        return total

    return Times(add(cpu, none), add(self_cpu, none), add(device_total, device), add(self_device, device))


def _device_times(calls: Calls, device: F64, begin: I64) -> tuple[F64, F64]:
    """(total, self) device time of each CPU call, in microseconds."""
    n = len(calls.cpu)
    order = np.argsort(begin, kind="stable")
    order = order[calls.device_op[order] >= 0]
    own = np.bincount(calls.device_op[order], weights=device[order], minlength=n).astype(np.float64)
    own[calls.asynchronous] = 0.0
    # In a chain of merged calls, the outermost gets the innermost's kernels.
    lifted = np.flatnonzero(calls.removed & calls.innermost)
    own[calls.merged_into[lifted]] = own[lifted]
    own[calls.removed] = 0.0

    parent = np.where(calls.removed, -1, calls.cpu_parent)
    below = np.zeros(n)
    for level in reversed(_levels(parent)):
        total = own[level] + below[level]
        up = parent[level]
        np.add.at(below, up[up >= 0], total[up >= 0])
    total = own + below
    return total, total - below


def _levels(parent: I64) -> list[I64]:
    """Positions by depth, outermost first."""
    depth = (parent >= 0).astype(np.int32)
    up = parent.copy()
    while len(at := np.flatnonzero(up >= 0)):
        # Each round doubles the number of levels that have been counted.
        depth[at] += depth[up[at]]
        up[at] = up[up[at]]
    order = np.argsort(depth, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(depth[order])) + 1) if len(order) else []
