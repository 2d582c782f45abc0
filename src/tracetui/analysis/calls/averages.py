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
from functools import partial
from typing import Any

import numpy as np

from tracetui.analysis.calls.calls import Calls, build_calls, calls_of
from tracetui.analysis.calls.groups import GROUPS, group_labels
from tracetui.analysis.calls.memory import MemoryUse, in_scope, memory_rows, outside
from tracetui.analysis.calls.sums import sum_by, sum_into, tally
from tracetui.analysis.part import WHOLE, Part, Scope, fact_of_trace
from tracetui.analysis.select import name_mask
from tracetui.analysis.steps.scope import members
from tracetui.core.threads import map_blocks, run_parallel, threads_for
from tracetui.trace import DEVICE_WORK, Kind, Trace
from tracetui.trace.memory import HOST, RECORD, Records, memory_records
from tracetui.trace.model import I32, I64, Bool


@dataclass(frozen=True, slots=True)
class AverageRow:
    """One row of the table. Times in nanoseconds."""

    name: str
    """Safe to show. `ProfilerStep#N` is `ProfilerStep*`."""
    group: str
    """What the row is grouped by besides its name: a shape, an annotation, an op; "" by default. Safe."""
    device: bool
    """Whether it is a device row ("CUDA"), not a CPU row."""
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

        Equal rows keep their order, as in PyTorch's table. Raises KeyError for an unknown column.
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
    """The averages of a scope (see `tracetui.analysis.steps.scope` for which events belong to one).

    `group`: "name" (PyTorch's default), "shape" (also by input shapes), "annotation" (also by the annotation
    above), "kernel" (kernels, copies and sets only), or "op" (those, each with the op that launched it).
    `calls`: the result of `build_calls(trace, python_functions)`, if already at hand.
    Raises ValueError for an unknown group.
    """
    if group not in GROUPS:
        raise ValueError(f"unknown group {group!r}: one of {', '.join(GROUPS)}")
    calls = calls or build_calls(trace, python_functions)
    scope = scope or WHOLE

    def counts(of: I64, some: Callable[[slice], Bool]) -> Bool:
        mask = np.empty(len(of), dtype=np.bool_)

        def look(part: slice) -> None:
            mask[part] = some(part)
            if scope.kind != "whole":
                mask[part] &= members(trace, scope, of[part])

        map_blocks(len(of), look)
        return mask

    work = group in ("kernel", "op")
    of_work = np.isin(np.arange(len(Kind)), DEVICE_WORK)
    some = slice(0 if work else None)
    cpu = calls.cpu[some]
    of_cpu = counts(cpu, lambda part: ~calls.removed[part])
    of_device = counts(
        calls.device,
        lambda part: (
            of_work[trace.kind[calls.device[part]]] if work else np.ones_like(calls.device[part], np.bool_)
        ),
    )
    names, codes = _row_names(trace)
    row_of, distinct, labels = _rows(trace, calls, of_cpu, of_device, group, codes, 4 * len(names))
    # Rows of memory records have no slice. They come after other rows with the same start time.
    memory = memory_rows(trace, calls, scope) if group == "name" else []
    count, size = len(distinct), len(distinct) + len(memory)
    on_device = distinct & 2 > 0
    of_device_events = calls.device_start, calls.device_duration
    tasks: list[Callable[[], Any]] = [
        partial(tally, row_of, cpu, (trace.start, trace.duration), trace.source, size, of_slices=True),
        partial(tally, row_of, calls.device, of_device_events, trace.source, size),
        *(
            partial(sum_by, row_of, cpu, values[some], size)
            for values in (calls.self_cpu, calls.device_total, calls.self_device)
        ),
    ]
    made = run_parallel(tasks, threads_for(len(calls.cpu)))
    (calls_of, first, cpu_total), (events_of, first_event, own), self_cpu, device_total, self_device = made
    calls_of += events_of
    calls_of[count:] = [m[1] for m in memory]
    begin, length, source = (np.zeros(size, dtype=np.int64) for _ in range(3))
    rows, mine = np.flatnonzero(~on_device), calls.cpu[first[:count][~on_device]]
    first[rows], begin[rows], length[rows] = mine, trace.start[mine], trace.duration[mine]
    rows, mine = np.flatnonzero(on_device), first_event[:count][on_device]
    first[rows], begin[rows], length[rows] = calls.device[mine], *(times[mine] for times in of_device_events)
    source[:count] = trace.source[first[:count]]
    begin[count:] = [m[2] for m in memory]
    source[count:] = np.iinfo(np.int64).max
    order = np.lexsort((source, -(begin + length), begin))
    rank = np.empty(size + 1, dtype=np.int32)
    rank[order], rank[-1] = np.arange(size), -1
    _renumber(row_of, rank)
    heads = np.where(order < count, order, -1).tolist()
    record = iter(sorted(memory, key=lambda m: m[2]))
    each = 4 * len(names)
    return Averages(
        tuple(names[distinct[i] % each // 4] if i >= 0 else next(record)[0] for i in heads),
        tuple(labels[distinct[i] // each] if i >= 0 else "" for i in heads),
        np.array([i >= 0 and on_device[i] for i in heads], dtype=np.bool_),
        np.array([i >= 0 and distinct[i] % 2 == 1 for i in heads], dtype=np.bool_),
        calls_of[order],
        cpu_total[order], self_cpu[order], (device_total + own)[order], (self_device + own)[order],
        first[order], row_of, scope, group, int(np.count_nonzero(trace.implausible)),
    )  # fmt: skip


def _rows(
    trace: Trace, calls: Calls, of_cpu: Bool, of_device: Bool, group: str, codes: I64, each: int
) -> tuple[I32, I64, list[str]]:
    """(the row of each slice, -1 for none; each row's key; the labels). A key is the label's number times
    `each`, plus the name's code, plus 2 for a device event, plus 1 for an annotation."""
    annotation = np.isin(np.arange(len(Kind)), (Kind.ANNOTATION, Kind.GPU_ANNOTATION)).astype(np.int64)
    row_of = np.full(len(trace), -1, dtype=np.int32)

    def keys(slices: I64) -> I64:
        key: I64 = codes[trace.name[slices]] + annotation[trace.kind[slices]]
        return key

    if group not in ("name", "kernel"):
        cpu_at, device_at = np.flatnonzero(of_cpu), np.flatnonzero(of_device)
        label, labels = group_labels(trace, calls, cpu_at, device_at, group)
        slices = np.concatenate([calls.cpu[cpu_at], calls.device[device_at]])
        key = keys(slices) + label * each
        key[len(cpu_at) :] += 2
        row_of[slices], distinct = _dense(key)
        return row_of, distinct, labels
    present = np.zeros(each + 1, dtype=np.bool_)
    for slices, mask, extra in ((calls.cpu[: len(of_cpu)], of_cpu, 0), (calls.device, of_device, 2)):

        def look(part: slice, slices: I64 = slices, mask: Bool = mask, extra: int = extra) -> None:
            mine = slices[part][mask[part]]
            row_of[mine] = key = keys(mine) + extra
            present[key] = True

        map_blocks(len(slices), look)
    number = np.cumsum(present, dtype=np.int32) - np.int32(1)
    number[-1] = -1  # where there is no row
    _renumber(row_of, number)
    return row_of, np.flatnonzero(present), [""]


def _renumber(row_of: I32, number: I32) -> None:
    """Replace each row by its number; the last number means no row."""

    def renumber(part: slice) -> None:
        row_of[part] = number[row_of[part]]

    map_blocks(len(row_of), renumber)


def _row_names(trace: Trace) -> tuple[list[str], I64]:
    """(the names, 4 times the place of each of the trace's names in them): all `ProfilerStep#N` are one."""
    names = trace.names
    table = np.arange(0, 4 * len(names), 4, dtype=np.int64)
    table[name_mask(trace, lambda name: name.startswith("ProfilerStep#"))] = 4 * len(names)
    return [*names, "ProfilerStep*"], table


def _dense(key: I64) -> tuple[I32, I64]:
    """(rank of each key among the distinct keys, the distinct keys)."""
    top = int(key.max(initial=-1)) + 1
    if top > 8 * len(key) + 65536:
        distinct, ranks = np.unique(key, return_inverse=True)
        return ranks.astype(np.int32), distinct
    present = np.zeros(top, dtype=np.bool_)
    present[key] = True
    number = np.cumsum(present, dtype=np.int32) - np.int32(1)
    return number[key], np.flatnonzero(present)


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


def averages_of(part: Part, group: str = "name", python_functions: bool = False) -> Averages:
    """The averages, by one of `GROUPS`."""

    def make() -> Averages:
        return averages(part.trace, part.scope, group=group, calls=calls_of(part, python_functions))

    return part.cached((averages_of, group, python_functions), make)


@fact_of_trace
def memory_of(part: Part) -> Records | None:
    """Allocations and frees; None if they were not recorded."""
    return memory_records(part.trace)


def memory_use_of(part: Part, group: str = "name", python_functions: bool = False) -> MemoryUse | None:
    """The memory of each row of the averages; None if it was not recorded."""
    records = memory_of(part)
    if records is None:
        return None
    table = averages_of(part, group, python_functions)
    return memory_use(part.trace, calls_of(part, python_functions), table, records)
