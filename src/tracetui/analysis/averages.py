"""The averages table: the same rows and numbers as `prof.key_averages()`, rebuilt from the JSON alone.

Known differences to PyTorch's own table, on purpose:
- PyTorch before 2.15 can hang kernels on the rows of `overhead` events (`Activity Buffer Request`, `Lazy
  Function Loading`, ...) that are not theirs, as such an event's id may equal an op's; all calls around it
  then count these kernels twice. This never does.
- `python_function` slices are left out, as PyTorch 2.11 and 2.15 do, unless asked for (2.13 counts them).
- Slices that cannot be as the file says (`Trace.implausible`) are left out and counted in
  `Averages.left_out`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tracetui.analysis.calls import Calls, build_calls
from tracetui.analysis.groups import GROUPS, group_labels
from tracetui.analysis.memory import memory_rows
from tracetui.analysis.nesting import sum_into
from tracetui.analysis.scope import WHOLE, Scope, members
from tracetui.trace import Kind, Trace
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
    """The slice of its first event, -1 where it has none (`[memory]`)."""


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
    """The slice of the row's first event, -1 where it has none."""
    row_of: I32
    """The row of every slice of the trace, -1 for those that have none. Shape (len(trace),)."""
    scope: Scope
    grouped_by: str
    left_out: int
    """Odd slices that were left out, over the whole trace."""

    def __len__(self) -> int:
        return len(self.names)

    @property
    def total_self_cpu(self) -> int:
        """The sum over all rows, in ns; the CPU percentages divide by it."""
        return int(self.self_cpu.sum())

    @property
    def total_self_device(self) -> int:
        """The sum over device rows that are no annotations, in ns; the device percentages divide by it."""
        return int(self.self_device[self.device & ~self.annotation].sum())

    def row(self, i: int) -> AverageRow:
        return AverageRow(
            self.names[i],
            self.groups[i],
            bool(self.device[i]),
            bool(self.annotation[i]),
            int(self.calls[i]),
            int(self.cpu_total[i]),
            int(self.self_cpu[i]),
            int(self.device_total[i]),
            int(self.self_device[i]),
            int(self.first[i]),
        )

    def rows(self, order: Sequence[int] | I64 | None = None) -> list[AverageRow]:
        """The rows, in their own order or in that of `order`."""
        return [self.row(int(i)) for i in (range(len(self)) if order is None else order)]

    def sorted_by(self, column: str, ascending: bool = False) -> I64:
        """Row numbers sorted by a column (`SORT_COLUMNS`), largest first unless `ascending`.

        Equal rows keep their order, as in PyTorch. Raises KeyError for an unknown column.
        """
        return sort_order(self, column, ascending)


SORT_COLUMNS = (
    "name",
    "calls",
    "count",
    "cpu_time_total",
    "self_cpu_time_total",
    "cpu_time",
    "device_time_total",
    "self_device_time_total",
    "device_time",
    "cuda_time_total",
    "self_cuda_time_total",
    "cuda_time",
)
"""Columns to sort by, under the names that `prof.key_averages().table(sort_by=...)` takes."""


def sort_order(table: Averages, column: str, ascending: bool = False) -> I64:
    """See `Averages.sorted_by`."""
    if column not in SORT_COLUMNS:
        raise KeyError(column)
    column = column.replace("cuda", "device")
    if column == "name":
        order = sorted(
            range(len(table)), key=lambda i: (table.names[i], table.groups[i]), reverse=not ascending
        )
        return np.array(order, dtype=np.int64)
    calls = np.maximum(table.calls, 1)
    values = {
        "calls": table.calls,
        "count": table.calls,
        "cpu_time_total": table.cpu_total,
        "self_cpu_time_total": table.self_cpu,
        "cpu_time": table.cpu_total / calls,
        "device_time_total": table.device_total,
        "self_device_time_total": table.self_device,
        "device_time": table.device_total / calls,
    }[column]
    return np.argsort(values if ascending else -values, kind="stable")


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
    `calls`: what `build_calls(trace, python_functions)` gave, to save work when the scope or group changes.
    Raises ValueError for an unknown group.
    """
    if group not in GROUPS:
        raise ValueError(f"unknown group {group!r}: one of {', '.join(GROUPS)}")
    calls = calls or build_calls(trace, python_functions)
    scope = scope or WHOLE

    cpu_at = np.flatnonzero(~calls.removed)
    if group in ("kernel", "op"):
        cpu_at = cpu_at[:0]
    cpu_at = cpu_at[members(trace, scope, calls.cpu[cpu_at])]
    device_kind = trace.kind[calls.device]
    device_at = np.flatnonzero(members(trace, scope, calls.device))
    if group in ("kernel", "op"):
        device_at = device_at[np.isin(device_kind[device_at], (Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET))]

    slices = np.concatenate([calls.cpu[cpu_at], calls.device[device_at]])
    on_device = np.zeros(len(slices), dtype=np.bool_)
    on_device[len(cpu_at) :] = True
    kind = trace.kind[slices]
    annotation = (kind == Kind.ANNOTATION) | (kind == Kind.GPU_ANNOTATION)
    start = np.concatenate([trace.start[calls.cpu[cpu_at]], calls.device_start[device_at]])
    duration = np.concatenate([trace.duration[calls.cpu[cpu_at]], calls.device_duration[device_at]])
    own_device = np.concatenate([calls.self_device[cpu_at], calls.device_duration[device_at]])
    all_device = np.concatenate([calls.device_total[cpu_at], calls.device_duration[device_at]])
    self_cpu = np.concatenate([calls.self_cpu[cpu_at], np.zeros(len(device_at), dtype=np.int64)])

    name, names = _row_names(trace, slices)
    label, labels = group_labels(trace, calls, cpu_at, device_at, group)
    key = ((label * max(1, len(names)) + name) * 2 + on_device) * 2 + annotation
    row, count = _dense(key)
    first = _first_events(row, count, start, start + duration, trace.source[slices])
    # Rows of memory records come last of those that begin with them, and have no slice.
    memory = memory_rows(trace, calls, scope) if group == "name" else []
    size = count + len(memory)
    begin = np.concatenate([start[first], np.array([m[2] for m in memory], dtype=np.int64)])
    until = np.concatenate([(start + duration)[first], begin[count:]])
    source = np.concatenate([trace.source[slices[first]], np.full(len(memory), np.iinfo(np.int64).max)])
    order = np.lexsort((source, -until, begin))
    rank = np.empty(size, dtype=np.int64)
    rank[order] = np.arange(size)
    row = rank[row]
    of_slices = order < count
    first = np.where(of_slices, first[np.minimum(order, count - 1)], -1) if count else np.full(size, -1)
    calls_of = np.bincount(row, minlength=size).astype(np.int64)
    calls_of[rank[count:]] = [m[1] for m in memory]

    row_of = np.full(len(trace), -1, dtype=np.int32)
    row_of[slices] = row
    heads = [int(i) for i in first]
    record = iter(sorted(memory, key=lambda m: m[2]))
    return Averages(
        tuple(names[name[i]] if i >= 0 else next(record)[0] for i in heads),
        tuple(labels[label[i]] if i >= 0 else "" for i in heads),
        np.array([i >= 0 and on_device[i] for i in heads], dtype=np.bool_),
        np.array([i >= 0 and annotation[i] for i in heads], dtype=np.bool_),
        calls_of,
        sum_into(row, np.where(on_device, 0, duration), size),
        sum_into(row, self_cpu, size),
        sum_into(row, all_device, size),
        sum_into(row, own_device, size),
        np.array([slices[i] if i >= 0 else -1 for i in heads], dtype=np.int64),
        row_of,
        scope,
        group,
        int(np.count_nonzero(trace.implausible)),
    )


def _row_names(trace: Trace, slices: I64) -> tuple[I64, list[str]]:
    """(name index of each slice, the names): the trace's names, with all `ProfilerStep#N` made one."""
    names = list(trace.names)
    table = np.arange(len(names), dtype=np.int64)
    steps = [i for i, name in enumerate(names) if name.startswith("ProfilerStep#")]
    if steps:
        table[steps] = len(names)
        names.append("ProfilerStep*")
    return table[trace.name[slices]], names


def _dense(key: I64) -> tuple[I64, int]:
    """(number of each key among the distinct keys, how many there are)."""
    if not len(key):
        return key, 0
    top = int(key.max()) + 1
    if top > 8 * len(key) + 65536:
        distinct, number = np.unique(key, return_inverse=True)
        return number.astype(np.int64), len(distinct)
    present = np.zeros(top, dtype=np.bool_)
    present[key] = True
    number = np.cumsum(present) - 1
    return number[key], int(number[-1]) + 1


def _first_events(row: I64, count: int, start: I64, end: I64, source: I64) -> I64:
    """For each row the position of its first event: earliest, then longest, then first in the file."""
    earliest = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(earliest, row, start)
    at = np.flatnonzero(start == earliest[row])
    at = at[np.lexsort((source[at], -end[at], row[at]))]
    leading = np.ones(len(at), dtype=np.bool_)
    leading[1:] = row[at[1:]] != row[at[:-1]]
    return at[leading]
