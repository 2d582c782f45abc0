"""The averages table: the same rows and numbers as `prof.key_averages()`, rebuilt from the JSON alone.

Known differences from PyTorch's own table, on purpose:
- PyTorch before 2.15 can attribute kernels to `overhead` events (`Activity Buffer Request`, `Lazy Function
  Loading`, ...) by mistake, as such an event's id may equal an op's; all calls around it then count these
  kernels twice. This table never does.
- `python_function` slices are left out, as PyTorch 2.11 and 2.15 do, unless asked for (2.13 counts them).
- Implausible slices (`Trace.implausible`) are left out and counted in `Averages.left_out`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracetui.analysis.calls import Calls, build_calls
from tracetui.analysis.groups import GROUPS, group_labels
from tracetui.analysis.memory import MemoryUse, in_scope, memory_rows, outside
from tracetui.analysis.nesting import sum_at, sum_into
from tracetui.analysis.scope import WHOLE, Scope, members
from tracetui.analysis.select import named
from tracetui.formats.machine import in_blocks, in_turn, threads_for, together
from tracetui.trace import DEVICE_WORK, Kind, Trace
from tracetui.trace.memory import HOST, RECORD, Records
from tracetui.trace.model import I32, I64, Bool


@dataclass(frozen=True, slots=True)
class AverageRow:
    """One row of the table. Times in nanoseconds."""

    name: str
    """Safe to show. `ProfilerStep#N` is `ProfilerStep*`."""
    group: str
    """What the row is grouped by besides its name: a shape, an annotation, an op; "" by default. Safe."""
    device: bool
    """A device row ("CUDA"), not a CPU row."""
    annotation: bool
    calls: int
    cpu_total: int
    self_cpu: int
    device_total: int
    self_device: int
    first: int
    """The slice of its first event, -1 if it has none (`[memory]`)."""


@dataclass(frozen=True, slots=True)
class Averages:
    """The averages, one entry per row, in the order of the rows' first events. Times in nanoseconds."""

    names: tuple[str, ...]
    groups: tuple[str, ...]
    device: Bool
    annotation: Bool
    calls: I64
    cpu_total: I64
    self_cpu: I64
    device_total: I64
    self_device: I64
    first: I64
    """The slice of the row's first event, -1 if it has none."""
    row_of: I32
    """The row of every slice of the trace, or -1. Shape (len(trace),)."""
    scope: Scope
    grouped_by: str
    left_out: int
    """Implausible slices in the whole trace, which are left out."""

    def __len__(self) -> int:
        return len(self.names)

    @property
    def total_self_cpu(self) -> int:
        """The sum over all rows, in ns; the CPU percentages divide by it."""
        return int(self.self_cpu.sum())

    @property
    def total_self_device(self) -> int:
        """The sum over device rows other than annotations, in ns; the device percentages divide by it."""
        return int(self.self_device[self.device & ~self.annotation].sum())

    def row(self, i: int) -> AverageRow:
        arrays = (self.device, self.annotation, self.calls, self.cpu_total, self.self_cpu)
        values = (array[i].item() for array in (*arrays, self.device_total, self.self_device, self.first))
        return AverageRow(self.names[i], self.groups[i], *values)

    def rows(self, order: Sequence[int] | I64 | None = None) -> list[AverageRow]:
        """The rows, in their own order or in that of `order`."""
        return [self.row(int(i)) for i in (range(len(self)) if order is None else order)]

    def sorted_by(self, column: str, ascending: bool = False) -> I64:
        """Row numbers sorted by a column (`SORT_COLUMNS`), largest first unless `ascending`.

        Equal rows keep their order, as in PyTorch. Raises KeyError for an unknown column.
        """
        if column not in SORT_COLUMNS:
            raise KeyError(column)
        if column == "name":
            keys = list(zip(self.names, self.groups, strict=True))
            return np.array(sorted(range(len(self)), key=keys.__getitem__, reverse=not ascending), np.int64)
        calls = np.maximum(self.calls, 1)
        values = {
            "calls": self.calls,
            "count": self.calls,
            "cpu_time_total": self.cpu_total,
            "self_cpu_time_total": self.self_cpu,
            "cpu_time": self.cpu_total / calls,
            "device_time_total": self.device_total,
            "self_device_time_total": self.self_device,
            "device_time": self.device_total / calls,
        }[column.replace("cuda", "device")]
        return np.argsort(values if ascending else -values, kind="stable")


SORT_COLUMNS = (
    "name", "calls", "count", "cpu_time_total", "self_cpu_time_total", "cpu_time", "device_time_total",
    "self_device_time_total", "device_time", "cuda_time_total", "self_cuda_time_total", "cuda_time",
)  # fmt: skip
"""Columns to sort by, with the names that `prof.key_averages().table(sort_by=...)` takes."""


def averages(
    trace: Trace,
    scope: Scope | None = None,
    *,
    group: str = "name",
    python_functions: bool = False,
    calls: Calls | None = None,
) -> Averages:
    """The averages of a scope (see `tracetui.analysis.scope` for which events belong to one).

    `group`: "name" (PyTorch's default), "shape" (also by input shapes), "annotation" (also by the annotation
    above), "kernel" (kernels, copies and sets only), or "op" (those, each with the op that launched it).
    `calls`: the result of `build_calls(trace, python_functions)`, if already at hand.
    Raises ValueError for an unknown group.
    """
    if group not in GROUPS:
        raise ValueError(f"unknown group {group!r}: one of {', '.join(GROUPS)}")
    calls = calls or build_calls(trace, python_functions)
    scope = scope or WHOLE

    def in_scope(at: I64, of: I64) -> I64:
        return at if scope.kind == "whole" else at[members(trace, scope, of[at])]

    cpu_at, device_at = np.flatnonzero(~calls.removed), np.arange(len(calls.device))
    if group in ("kernel", "op"):
        cpu_at, device_at = cpu_at[:0], np.flatnonzero(np.isin(trace.kind[calls.device], DEVICE_WORK))
    cpu_at, device_at = in_scope(cpu_at, calls.cpu), in_scope(device_at, calls.device)
    events = _Events(trace, calls, cpu_at, device_at)
    slices, cpus = events.slices, len(cpu_at)
    names, codes = _row_names(trace)
    annotation = np.zeros(len(Kind), dtype=np.int64)
    annotation[[int(Kind.ANNOTATION), int(Kind.GPU_ANNOTATION)]] = 1
    label, labels = group_labels(trace, calls, cpu_at, device_at, group)
    kind: Any = np.int32 if 4 * len(names) * len(labels) < 1 << 31 else np.int64
    key = np.empty(len(slices), dtype=kind)

    def look(part: slice) -> None:
        at = slices[part]
        key[part] = codes[trace.name[at]] + annotation[trace.kind[at]]

    in_blocks(len(slices), look)
    key[cpus:] += 2
    if len(labels) > 1:
        key += label * (4 * len(names))
    row, count = _dense(key)
    first = _first_events(row, count, events)
    start, duration, source = events.of(first)
    # Rows of memory records have no slice. They come after other rows that start at the same time.
    memory = memory_rows(trace, calls, scope) if group == "name" else []
    size = count + len(memory)
    begin = np.concatenate([start, np.array([m[2] for m in memory], dtype=np.int64)])
    until = np.concatenate([start + duration, begin[count:]])
    source = np.concatenate([source, np.full(len(memory), np.iinfo(np.int64).max)])
    order = np.lexsort((source, -until, begin))
    rank = np.empty(size, dtype=np.int32)
    rank[order] = np.arange(size)
    of_slices = order < count
    first = np.where(of_slices, first[np.minimum(order, count - 1)], -1) if count else np.full(size, -1)
    calls_of = np.zeros(size, dtype=np.int64)

    def count_calls(part: slice) -> None:
        calls_of[:] += np.bincount(row[part], minlength=size)

    in_turn(len(row), count_calls, max(size, 1 << 16))  # which makes no wider copy of all rows
    calls_of[count:] = [m[1] for m in memory]

    row_of = np.full(len(trace), -1, dtype=np.int32)

    def put(part: slice) -> None:
        row_of[slices[part]] = rank[row[part]]

    in_blocks(len(slices), put)
    heads = [int(i) for i in first]
    record = iter(sorted(memory, key=lambda m: m[2]))
    of_cpu, of_device = row[:cpus], row[cpus:]
    sums: list[Callable[[], I64]] = [
        lambda: sum_at(of_cpu, trace.duration, slices[:cpus], size),
        lambda: sum_at(of_cpu, calls.self_cpu, cpu_at, size),
        lambda: sum_at(of_device, calls.device_duration, device_at, size),
        lambda: sum_at(of_cpu, calls.device_total, cpu_at, size),
        lambda: sum_at(of_cpu, calls.self_device, cpu_at, size),
    ]
    cpu_total, self_cpu, own, device_total, self_device = together(sums, threads_for(len(of_cpu)))
    return Averages(
        tuple(names[key[i] // 4 % len(names)] if i >= 0 else next(record)[0] for i in heads),
        tuple(labels[label[i]] if i >= 0 else "" for i in heads),
        np.array([i >= cpus for i in heads], dtype=np.bool_),
        np.array([i >= 0 and key[i] % 2 == 1 for i in heads], dtype=np.bool_),
        calls_of[order],
        cpu_total[order], self_cpu[order], (device_total + own)[order], (self_device + own)[order],
        np.array([slices[i] if i >= 0 else -1 for i in heads], dtype=np.int64),
        row_of, scope, group, int(np.count_nonzero(trace.implausible)),
    )  # fmt: skip


class _Events:
    """What the rows are of: calls, then device events, whose times are not quite those of their slices."""

    def __init__(self, trace: Trace, calls: Calls, cpu_at: I64, device_at: I64) -> None:
        self.trace = trace
        self.slices = np.empty(len(cpu_at) + len(device_at), dtype=np.int64)
        np.take(calls.cpu, cpu_at, out=self.slices[: len(cpu_at)], mode="clip")
        np.take(calls.device, device_at, out=self.slices[len(cpu_at) :], mode="clip")
        self.cpus = len(cpu_at)
        self.start, self.duration = calls.device_start[device_at], calls.device_duration[device_at]

    def starts(self, part: slice) -> I64:
        """When those of a part of them start."""
        start: I64 = self.trace.start[self.slices[part]]
        low = max(part.start, self.cpus)
        if low < part.stop:
            start[low - part.start :] = self.start[low - self.cpus : part.stop - self.cpus]
        return start

    def of(self, at: I64) -> tuple[I64, I64, I64]:
        """(start, duration, place in the file) of some of them."""
        slices, device = self.slices[at], at >= self.cpus
        start, duration = self.trace.start[slices], self.trace.duration[slices]
        start[device] = self.start[at[device] - self.cpus]
        duration[device] = self.duration[at[device] - self.cpus]
        return start, duration, self.trace.source[slices]


def _row_names(trace: Trace) -> tuple[list[str], I64]:
    """(the names, 4 times the place of each of the trace's names in them): all `ProfilerStep#N` are one."""
    names = trace.names
    table = np.arange(0, 4 * len(names), 4, dtype=np.int64)
    table[named(trace, lambda name: name.startswith("ProfilerStep#"))] = 4 * len(names)
    return [*names, "ProfilerStep*"], table


def _dense(key: I32 | I64) -> tuple[I32, int]:
    """(rank of each key among the distinct keys, number of distinct keys)."""
    if not len(key):
        return key.astype(np.int32), 0
    top = int(key.max()) + 1
    if top > 8 * len(key) + 65536:
        distinct, ranks = np.unique(key, return_inverse=True)
        return ranks.astype(np.int32), len(distinct)
    present = np.zeros(top, dtype=np.bool_)
    present[key] = True
    number = np.cumsum(present, dtype=np.int32) - np.int32(1)
    return number[key], int(number[-1]) + 1


def _first_events(row: I32, count: int, events: _Events) -> I64:
    """The position of each row's first event: the earliest, then the longest, then the first in the file."""
    earliest = np.full(count, np.iinfo(np.int64).max)
    in_turn(len(row), lambda part: np.minimum.at(earliest, row[part], events.starts(part)))

    def look(part: slice) -> I64:
        found: I64 = np.flatnonzero(events.starts(part) == earliest[row[part]]) + part.start
        return found

    at = np.concatenate([np.zeros(0, np.int64), *in_blocks(len(row), look)])
    _, duration, source = events.of(at)
    at = at[np.lexsort((source, -duration, row[at]))]  # of one row, they start together
    leading = np.ones(len(at), dtype=np.bool_)
    leading[1:] = row[at[1:]] != row[at[:-1]]
    return at[leading]


def memory_use(trace: Trace, calls: Calls, table: Averages, records: Records) -> MemoryUse:
    """The memory columns of `table`, which must come from `calls`."""
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
    host = records.where == HOST
    for size in (np.where(host, records.size, 0), np.where(host, 0, records.size)):
        reach = np.concatenate([[0], np.cumsum(size)])
        own = reach[last] - reach[first]
        alone = np.where(calls.asynchronous, 0, own - sum_into(calls.cpu_parent[inner], own[inner], n))
        for values in (own, alone):
            column = sum_into(row[shown], values[shown], len(table))
            column[orphan] = size[loose].sum()
            columns.append(column)
    return MemoryUse(*columns)
