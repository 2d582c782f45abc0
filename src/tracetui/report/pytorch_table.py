"""The averages as text in PyTorch's own layout: what `prof.key_averages().table(...)` prints, character for
character.

Worked out from torch.autograd.profiler_util._build_table: widths, units, and what is cut where.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tracetui.analysis.averages import SORT_COLUMNS, Averages
from tracetui.analysis.calls import is_collective
from tracetui.analysis.memory import MemoryUse
from tracetui.analysis.pytorch_times import Times
from tracetui.tables.averages import GROUP_HEADERS, format_memory, format_share, format_time

__all__ = [
    "FULL_NAME_WIDTH",
    "MEMORY_COLUMNS",
    "NAME_WIDTH",
    "pytorch_table",
    "sort_rows",
]

NAME_WIDTH = 55
"""PyTorch's default for the widest name column."""
FULL_NAME_WIDTH = 200
SHAPES_WIDTH = 80
COLUMN_WIDTH = 12
GAP = "  "


@dataclass(frozen=True, slots=True)
class _Column:
    header: str
    cell: str
    """Which of the cells of `_cells`."""
    rank: int
    """Columns of a high rank are the first to go where the terminal is narrow."""


def _columns(cpu: bool, device: bool, memory: MemoryUse | None) -> list[_Column]:
    columns = (
        []
        if not cpu
        else [
            _Column("Self CPU %", "self_cpu_share", 2),
            _Column("Self CPU", "self_cpu", 0),
            _Column("CPU total %", "cpu_share", 5),
            _Column("CPU total", "cpu", 3),
            _Column("CPU time avg", "cpu_average", 4),
        ]
    )
    if device:
        columns += [
            _Column("Self CUDA", "self_device", 0),
            _Column("Self CUDA %", "device_share", 1),
            _Column("CUDA total", "device", 3),
            _Column("CUDA time avg", "device_average", 4),
        ]
    if memory is not None:
        columns += [_Column("CPU Mem", "memory", 6), _Column("Self CPU Mem", "self_memory", 6)]
        if (memory.self_device > 0).any():
            columns += [
                _Column("CUDA Mem", "device_memory", 3),
                _Column("Self CUDA Mem", "self_device_memory", 3),
            ]
    columns.append(_Column("# of Calls", "calls", 0))
    return columns


def _cells(times: Times, i: int, calls: int, all_cpu: float, all_device: float) -> dict[str, str]:
    cpu, self_cpu = float(times.cpu_total[i]), float(times.self_cpu[i])
    device, self_device = float(times.device_total[i]), float(times.self_device[i])
    return {
        "self_cpu_share": format_share(self_cpu, all_cpu),
        "self_cpu": format_time(self_cpu),
        "cpu_share": format_share(cpu, all_cpu),
        "cpu": format_time(cpu),
        "cpu_average": format_time(cpu / calls),
        "self_device": format_time(self_device),
        "device_share": format_share(self_device, all_device),
        "device": format_time(device),
        "device_average": format_time(device / calls),
        "calls": str(calls),
    }


def _memory_cells(memory: MemoryUse, i: int) -> dict[str, str]:
    return {
        "memory": format_memory(int(memory.host[i])),
        "self_memory": format_memory(int(memory.self_host[i])),
        "device_memory": format_memory(int(memory.device[i])),
        "self_device_memory": format_memory(int(memory.self_device[i])),
    }


MEMORY_COLUMNS = (
    "cpu_memory_usage",
    "self_cpu_memory_usage",
    "device_memory_usage",
    "self_device_memory_usage",
    "cuda_memory_usage",
    "self_cuda_memory_usage",
)
"""Columns to sort by where the trace has memory records, under PyTorch's names."""


def sort_rows(table: Averages, times: Times, column: str, memory: MemoryUse | None = None) -> list[int]:
    """Row numbers as PyTorch sorts them by a column: largest first, equal ones as they come.

    Raises KeyError for a column that is none of `SORT_COLUMNS` and `MEMORY_COLUMNS`; by one of these the
    rows stay as they are where there is no `memory`.
    """
    if column in MEMORY_COLUMNS:
        sizes = np.zeros(len(table), dtype=np.int64)
        if memory is not None:
            sizes = {
                "cpu_memory_usage": memory.host,
                "self_cpu_memory_usage": memory.self_host,
                "device_memory_usage": memory.device,
                "self_device_memory_usage": memory.self_device,
            }[column.replace("cuda", "device")]
        return [int(i) for i in np.argsort(-sizes, kind="stable")]
    if column not in SORT_COLUMNS:
        raise KeyError(column)
    if column == "name":
        return [int(i) for i in table.sorted_by(column, ascending=True)]
    values = {
        "cpu_time_total": times.cpu_total,
        "self_cpu_time_total": times.self_cpu,
        "cpu_time": times.cpu_total / table.calls,
        "device_time_total": times.device_total,
        "self_device_time_total": times.self_device,
        "device_time": times.device_total / table.calls,
    }.get(column.replace("cuda", "device"), table.calls)
    return [int(i) for i in np.argsort(-values, kind="stable")]


def pytorch_table(
    table: Averages,
    times: Times,
    order: Sequence[int],
    *,
    memory: MemoryUse | None = None,
    name_width: int = NAME_WIDTH,
    fit: int | None = None,
) -> str:
    """The rows of `order` as text, with a new line at the end; "" for a table without rows.

    `times`: of the table's rows, see `tracetui.analysis.pytorch_times`; `memory`: where it was recorded.
    `name_width`: the widest that the name column may be (PyTorch's `max_name_column_width`). `fit`: leave
    columns out and cut names until a line has at most so many characters, for a terminal.
    """
    if not len(table):
        return ""
    device = bool((times.self_device > 0).any())
    cpu = table.grouped_by not in ("kernel", "op")  # these have no CPU rows
    columns = _columns(cpu, device, memory)
    # PyTorch measures the names of all rows, also of those that the limit leaves out.
    name_column = min(max(map(len, table.names)) + 4, name_width)
    grouped = GROUP_HEADERS.get(table.grouped_by)
    group_column = min(max(map(len, table.groups)) + 4, SHAPES_WIDTH) if grouped else 0
    if fit is not None:
        spare = fit - (group_column + len(GAP) if grouped else 0)
        while len(columns) > 3 and spare - len(columns) * (COLUMN_WIDTH + len(GAP)) - len(GAP) < min(
            name_column, 24
        ):
            columns.remove(max(columns, key=lambda c: c.rank))
        room = spare - len(columns) * (COLUMN_WIDTH + len(GAP)) - len(GAP)
        name_column = name_width = max(12, min(name_column, room))
    widths = [name_column] + [COLUMN_WIDTH] * len(columns) + ([group_column] if grouped else [])
    headers = ["Name", *(c.header for c in columns), *([grouped] if grouped else [])]

    def line(cells: Sequence[str]) -> str:
        return "".join(f"{cell:>{width}}{GAP}" for cell, width in zip(cells, widths, strict=True))

    rule = "".join("-" * width + GAP for width in widths)
    every = everything if len(everything := list(order)) == len(table) else range(len(table))
    all_cpu = sum(float(times.self_cpu[i]) for i in every)
    all_device = sum(
        float(times.self_device[i]) for i in every if table.device[i] and not table.annotation[i]
    )
    lines = [rule, line(headers), rule]
    for row, i in zip(table.rows(order), order, strict=True):
        cells = _cells(times, i, row.calls, all_cpu, all_device)
        if row.annotation and not row.device and is_collective(row.name):
            cells["cpu_share"] = "0"  # what PyTorch writes for asynchronous events
        if memory is not None:
            cells |= _memory_cells(memory, i)
        name = row.name if len(row.name) < name_width - 3 else row.name[: name_width - 3] + "..."
        last = [row.group[:group_column]] if grouped else []
        lines.append(line([name, *(cells[c.cell] for c in columns), *last]))
    lines.append(rule)
    if cpu:
        lines.append(f"Self CPU time total: {format_time(all_cpu)}")
    if device:
        lines.append(f"Self CUDA time total: {format_time(all_device)}")
    return "\n".join(lines) + "\n"
