"""The averages as text in PyTorch's own layout: what `prof.key_averages().table(...)` prints, character for
character.

It follows torch.autograd.profiler_util._build_table: widths, units, and where names are cut.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass

import numpy as np

from tracetui.analysis.calls.averages import SORT_COLUMNS, Averages, averages_of, memory_use_of
from tracetui.analysis.calls.calls import calls_of, is_collective
from tracetui.analysis.calls.memory import MemoryUse
from tracetui.analysis.calls.pytorch_times import Times, pytorch_times
from tracetui.analysis.part import Part
from tracetui.core.units import plural
from tracetui.trace.model import F64, I64, Trace
from tracetui.trace.unended import unfinished
from tracetui.views.answer import Answer
from tracetui.views.averages import (
    GROUP_HEADERS,
    averages_json,
    averages_markdown,
    format_memory,
    format_share,
    format_time,
    has_cpu,
)

NAME_WIDTH = 55
"""PyTorch's default limit for the name column."""
FULL_NAME_WIDTH = 200
SHAPES_WIDTH = 80
COLUMN_WIDTH = 12
GAP = "  "


UNGROUPED = {
    "shape": "the trace has no shapes: record with record_shapes=True",
    "annotation": "the trace has no annotations: add them with torch.profiler.record_function",
    "overload": "the trace has no overloads: record with capture_overload_names=True in torch.profiler's "
    "experimental_config",
    "module": "the trace has no modules: record with with_stack=True",
}
"""What is said where no row has anything to be grouped by."""


@dataclass(frozen=True, slots=True)
class _Column:
    header: str
    rank: int
    """On a narrow terminal, columns with the highest rank are dropped first."""
    cell: Callable[[int], str]


def _columns(
    table: Averages,
    times: Times,
    memory: MemoryUse | None,
    all_cpu: float,
    all_device: float,
    device: str,
    unended: Set[int],
) -> list[_Column]:
    def time(header: str, rank: int, values: F64) -> _Column:
        return _Column(header, rank, lambda i: format_time(float(values[i])))

    def average(header: str, values: F64) -> _Column:
        return _Column(header, 4, lambda i: format_time(float(values[i]) / int(table.calls[i])))

    def share(header: str, rank: int, values: F64, whole: float) -> _Column:
        return _Column(header, rank, lambda i: format_share(float(values[i]), whole))

    def size(header: str, rank: int, values: I64) -> _Column:
        return _Column(header, rank, lambda i: format_memory(int(values[i])))

    def cpu_share(i: int) -> str:
        if i in unended or (table.annotation[i] and not table.device[i] and is_collective(table.names[i])):
            return "0"  # what PyTorch writes for asynchronous events
        return format_share(float(times.cpu_total[i]), all_cpu)

    columns = []
    if has_cpu(table):
        columns += [
            share("Self CPU %", 2, times.self_cpu, all_cpu),
            time("Self CPU", 0, times.self_cpu),
            _Column("CPU total %", 5, cpu_share),
            time("CPU total", 3, times.cpu_total),
            average("CPU time avg", times.cpu_total),
        ]
    if (times.self_device > 0).any():
        columns += [
            time(f"Self {device}", 0, times.self_device),
            share(f"Self {device} %", 1, times.self_device, all_device),
            time(f"{device} total", 3, times.device_total),
            average(f"{device} time avg", times.device_total),
        ]
    if memory is not None:
        columns += [size("CPU Mem", 6, memory.host), size("Self CPU Mem", 6, memory.self_host)]
        if (memory.self_device > 0).any():
            columns += [
                size(f"{device} Mem", 3, memory.device),
                size(f"Self {device} Mem", 3, memory.self_device),
            ]
    return [*columns, _Column("# of Calls", 0, lambda i: str(int(table.calls[i])))]


MEMORY_COLUMNS = {
    "cpu_memory_usage": "host",
    "self_cpu_memory_usage": "self_host",
    "device_memory_usage": "device",
    "self_device_memory_usage": "self_device",
}
"""Sort columns of traces with memory records, by PyTorch's names: the sizes in `MemoryUse`."""


def sort_rows(table: Averages, times: Times, column: str, memory: MemoryUse | None = None) -> list[int]:
    """Row numbers in PyTorch's order: largest first, equal ones unchanged.

    Raises KeyError for a column not in `SORT_COLUMNS` or `MEMORY_COLUMNS`. Without `memory`, the latter leave
    the order as it is.
    """
    if column == "name":
        return [int(i) for i in table.sorted_by(column, ascending=True)]
    key = column.replace("cuda", "device")
    if column in SORT_COLUMNS:
        values = {
            "cpu_time_total": times.cpu_total,
            "self_cpu_time_total": times.self_cpu,
            "cpu_time": times.cpu_total / table.calls,
            "device_time_total": times.device_total,
            "self_device_time_total": times.self_device,
            "device_time": times.device_total / table.calls,
        }.get(key, table.calls)
    else:
        values = getattr(memory, MEMORY_COLUMNS[key], np.zeros(len(table)))
    return [int(i) for i in np.argsort(-values, kind="stable")]


def device_header(trace: Trace) -> str:
    """What PyTorch calls the devices of a trace in its headers: the backend, which for ROCm is CUDA, too."""
    if any(category.startswith("xpu_") for category in trace.categories):
        return "XPU"
    used = next((lane.device for lane in trace.lanes if lane.kind == "stream"), -1)
    word = trace.device_called(used).partition(" ")[0]
    return "CUDA" if word == "GPU" else word


def pytorch_table(
    table: Averages,
    times: Times,
    order: Sequence[int],
    *,
    memory: MemoryUse | None = None,
    name_width: int = NAME_WIDTH,
    fit: int | None = None,
    device: str = "CUDA",
    unended: Set[int] = frozenset(),
) -> str:
    """The rows of `order` as text ending in a newline; "" for an empty table.

    `times`: those of the table's rows, see `analysis.calls.pytorch_times`; `memory`: if it was recorded.
    `name_width`: the limit of the name column (PyTorch's `max_name_column_width`). `fit`: drop columns and
    cut names until a line has at most this many characters, for a terminal. `device`: see `device_header`.
    `unended`: rows of what had not ended when the profiler stopped.
    """
    if not len(table):
        return ""
    every = everything if len(everything := list(order)) == len(table) else range(len(table))
    all_cpu = sum(float(times.self_cpu[i]) for i in every)
    all_device = sum(
        float(times.self_device[i]) for i in every if table.device[i] and not table.annotation[i]
    )
    columns = _columns(table, times, memory, all_cpu, all_device, device, unended)
    # PyTorch measures the names of all rows, even of those beyond the limit.
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
    lines = [rule, line(headers), rule]
    for row, i in zip(table.rows(order), order, strict=True):
        name = row.name if len(row.name) < name_width - 3 else row.name[: name_width - 3] + "..."
        last = [row.group[:group_column]] if grouped else []
        lines.append(line([name, *(c.cell(i) for c in columns), *last]))
    lines.append(rule)
    if has_cpu(table):
        lines.append(f"Self CPU time total: {format_time(all_cpu)}")
    if (times.self_device > 0).any():
        lines.append(f"Self {device} time total: {format_time(all_device)}")
    return "\n".join(lines) + "\n"


def averages_answer(
    part: Part,
    sort: str | None = None,
    limit: int = 0,
    group: str = "name",
    python_functions: bool = False,
    name_width: int | None = None,
    fit: bool = True,
) -> Answer:
    """PyTorch's averages table: one row per name, and what `group` says.

    `sort`: the name of a column, by default the time on devices if there is any; `limit`: rows, 0 for all.
    `name_width`: of the widest name in a text; `fit`: whether a text takes no more than its width.
    """
    table = averages_of(part, group, python_functions)
    times = pytorch_times(part.trace, calls_of(part, python_functions), table)
    memory = memory_use_of(part, group, python_functions)
    by = "self_cuda_time_total" if table.total_self_device else "self_cpu_time_total"
    try:
        order = sort_rows(table, times, sort or by, memory)
    except KeyError:
        known = ", ".join((*SORT_COLUMNS, *MEMORY_COLUMNS))
        raise ValueError(f"unknown column {sort!r}: one of {known}") from None
    order = order[:limit] if limit else order

    def text(width: int) -> str:
        wide = width if fit and name_width is None else None
        widest = name_width or FULL_NAME_WIDTH
        device, rows = device_header(part.trace), {int(table.row_of[i]) for i in unfinished(part.trace)}
        return pytorch_table(
            table, times, order, memory=memory, name_width=widest, fit=wide, device=device, unended=rows
        )

    notes = (
        "" if len(table) else "no PyTorch events in this trace",
        "" if any(table.groups) else UNGROUPED.get(group, ""),
        f"left out: {plural(table.left_out, 'slice')} with impossible times" if table.left_out else "",
    )
    return Answer(
        "table",
        lambda: averages_json(table, order, memory),
        lambda: averages_markdown(table, order, memory),
        text,
        notes=tuple(filter(None, notes)),
    )
