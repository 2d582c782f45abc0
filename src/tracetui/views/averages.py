"""The table of averages: calls and times by name. (As text: `tracetui.views.pytorch_table`.)"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from tracetui.analysis.calls.averages import Averages
from tracetui.analysis.calls.calls import calls_of
from tracetui.analysis.calls.memory import MemoryUse
from tracetui.analysis.names.kernel_names import short_name
from tracetui.analysis.names.short_names import told_apart
from tracetui.analysis.part import Part
from tracetui.core.copying import replace
from tracetui.core.patterns import pattern
from tracetui.core.units import in_unit, memory_size, share_of
from tracetui.trace.model import I64, Kind, Trace
from tracetui.views import markdown
from tracetui.views.jsonable import us
from tracetui.views.lines import bar
from tracetui.views.model import Column, Columns, Table, by_key, each, select_columns
from tracetui.views.times import time_column
from tracetui.views.writers import Record, markdown_table, records

DEVICE = "self_device self_device_share device_total"
CPU = "self_cpu self_cpu_share cpu_total"
MEMORY = "self_device_memory device_memory self_cpu_memory cpu_memory"
SCREEN = {
    "all": f"name device {DEVICE} device_average {CPU} cpu_average {MEMORY} calls",
    "ops": f"name self_device device_bar {DEVICE[12:]} {CPU} cpu_bar cpu_average {MEMORY} calls",
    "kernels": "name self_device device_bar self_device_share device_average calls",
    "annotations": "name device cpu_total self_cpu cpu_average device_total device_average calls",
}
"""The columns of each part of the averages, see `part_rows`."""
MARKDOWN = f"name group {CPU} {DEVICE} self_cpu_memory self_device_memory calls"
JSON = """name device calls cpu_total self_cpu device_total self_device group
    cpu_memory self_cpu_memory device_memory self_device_memory"""
FILE = f"{JSON} self_cpu_share self_device_share cpu_average device_average"

BAR = 6
"""Cells of a bar in the table."""

GROUP_HEADERS = {
    "shape": "Input Shapes", "annotation": "Annotation", "module": "Module", "op": "Launched by",
    "overload": "Overload Name",
}  # fmt: skip


_SHAPE = pattern(r"\[(\d+(?:, \d+)*)\]")


def has_cpu(averages: Averages) -> bool:
    """Whether there are CPU rows: not if grouped by kernel."""
    return averages.grouped_by not in ("kernel", "op")


def format_time(us: float) -> str:
    """Microseconds as PyTorch writes them: `1.234us`, `1.234ms`, `1.234s`."""
    if us >= 1e6:
        return f"{us / 1e6:.3f}s"
    if us >= 1e3:
        return f"{us / 1e3:.3f}ms"
    return f"{us:.3f}us"


def format_share(part: float, whole: float) -> str:
    """A percentage as PyTorch writes it; NaN for a share of nothing."""
    return f"{part * 100.0 / whole:.2f}%" if whole else "NaN"


def format_memory(count: int) -> str:
    """Bytes as PyTorch writes them: `512 B`, `1.50 KB` (1,024 bytes), `-2.00 GB`."""
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if abs(count) >= size:
            return f"{count / size:.2f} {unit}"
    return f"{count} B"


def device_total(a: Averages, rows: I64 | None) -> int:
    """What the device's times on the screen are shares of, ns. In a part of the trace the ops of `rows` may
    have launched more than what ran there."""
    if rows is None:
        return a.total_self_device
    return max(a.total_self_device, int(a.self_device[rows[~a.device[rows]]].sum()))


def brief_shapes(shapes: str) -> str:
    """PyTorch's input shapes for the screen: `[[4, 256, 512], [512], [], []]` is `4x256x512, 512`."""
    inner = shapes[1:-1] if shapes[:1] == "[" and shapes[-1:] == "]" else shapes
    end = len(inner)
    while inner.endswith(", []", 0, end):
        end -= 4
    return _SHAPE.sub(lambda found: found[1].replace(", ", "x"), inner[:end]).removesuffix("[]")


def average_columns(
    a: Averages, memory: MemoryUse | None = None, trace: Trace | None = None, rows: I64 | None = None
) -> Columns:
    """The columns. `memory`: if it was recorded; `trace`: for the short names on the screen; `rows`: those on
    the screen (None: all)."""
    calls = np.maximum(a.calls, 1)

    @cache
    def names() -> list[str]:
        assert trace is not None
        shorts = [short_name(name, category_of(trace, a, row)) for row, name in enumerate(a.names)]
        apart = told_apart(shorts, a.names, list(zip(a.device.tolist(), a.groups, strict=True)))
        groups = [brief_shapes(group) for group in a.groups] if a.grouped_by == "shape" else a.groups
        return [f"{name}  {group}" if group else name for name, group in zip(apart, groups, strict=True)]

    def time(key: str, title: str, heading: str, values: I64, drop: int) -> Column:
        def micros(row: int) -> float:
            return us(int(values[row]))

        total = {"self_cpu": a.total_self_cpu, "self_device": device_total(a, rows)}.get(key, 0)
        return (
            time_column(key, title, values, drop, total=total, rows=rows)
            .with_text(heading, lambda r: format_time(micros(r)))
            .with_fields(**{f"{key}_us": each(micros)})
        )

    def average(key: str, title: str, values: I64, drop: int) -> Column:
        fields = {f"{key}_us": each(lambda r: us(int(values[r]) / int(calls[r])))}
        return time_column(key, title, values / calls, drop, rows=rows).with_fields(**fields)

    def share(key: str, title: str, heading: str, values: I64, total: int, drop: int) -> Column:
        shown = device_total(a, rows) if values is a.self_device else total

        def text(row: int) -> str:
            return share_of(int(values[row]), shown) if values[row] else "-"

        return (
            Column(key, title, text, lambda: values, 8, drop=drop)
            .with_text(heading, lambda r: format_share(int(values[r]), total))
            .with_fields(**{key: each(lambda r: int(values[r]) / total if total else None)})
        )

    def allocated(key: str, title: str, heading: str, values: I64, drop: int) -> Column:
        """Bytes allocated minus bytes freed."""

        def text(row: int) -> str:
            count = int(values[row])
            return f"{'-' if count < 0 else ''}{memory_size(abs(count))}" if count else "-"

        return (
            Column(key, title, text, lambda: values, 12, drop=drop)
            .with_text(heading, lambda r: format_memory(int(values[r])))
            .with_fields(**{f"{key}_bytes": each(lambda r: int(values[r]))})
        )

    def device(row: int) -> str:
        return "GPU" if a.device[row] else "CPU"

    def count(row: int) -> str:
        return f"{int(a.calls[row]):,}"

    def filled(key: str, values: I64, drop: int) -> Column:
        """A bar beside the times; the longest is full."""
        longest = max(1, int((values if rows is None else values[rows]).max(initial=0)))
        return Column(key, "", lambda r: bar(int(values[r]) / longest, BAR), None, BAR, False, drop)

    columns = [
        Column("name", "Name", lambda r: names()[r], names, right=False, descending=False, ends=True)
        .with_text("name", markdown=lambda r: markdown.code(a.names[r]))
        .with_fields(name=each(lambda r: a.names[r])),
        Column("device", "On", device, lambda: a.device, 3, right=False, drop=3).with_fields(
            device=each(lambda r: "CUDA" if a.device[r] else "CPU"),
            user_annotation=each(lambda r: bool(a.annotation[r])),
        ),
        time("self_device", "Self GPU", "Self CUDA", a.self_device, 0),
        share("self_device_share", "GPU %", "Self CUDA %", a.self_device, a.total_self_device, 4),
        time("device_total", "GPU total", "CUDA total", a.device_total, 2),
        average("device_average", "GPU avg", a.device_total, 9),
        time("self_cpu", "Self CPU", "Self CPU", a.self_cpu, 1),
        share("self_cpu_share", "CPU %", "Self CPU %", a.self_cpu, a.total_self_cpu, 6),
        time("cpu_total", "CPU total", "CPU total", a.cpu_total, 5),
        average("cpu_average", "CPU avg", a.cpu_total, 8),
        filled("device_bar", a.self_device * ~(a.device & a.annotation), 7),
        filled("cpu_bar", a.self_cpu, 10),
        Column("calls", "Calls", count, lambda: a.calls, 7)
        .with_text("calls", count)
        .with_fields(calls=each(lambda r: int(a.calls[r]))),
    ]
    if a.grouped_by != "name":
        columns.append(
            Column("group", right=False)
            .with_text(GROUP_HEADERS.get(a.grouped_by, ""), markdown=lambda r: markdown.code(a.groups[r]))
            .with_fields(group=each(lambda r: a.groups[r]))
        )
    if memory is not None:
        columns += [
            allocated("self_device_memory", "Self GPU mem", "Self CUDA Mem", memory.self_device, 3),
            allocated("device_memory", "GPU mem", "CUDA Mem", memory.device, 10),
            allocated("self_cpu_memory", "Self CPU mem", "Self CPU Mem", memory.self_host, 7),
            allocated("cpu_memory", "CPU mem", "CPU Mem", memory.host, 11),
        ]
    return by_key(*columns)


def category_of(trace: Trace, averages: Averages, row: int) -> str:
    """The category of a row's first event, "" if it has none."""
    first = int(averages.first[row])
    return trace.categories[int(trace.category[first])] if first >= 0 else ""


SELF_DEVICE_TIME, DEVICE_TIME, SELF_CPU_TIME = "self GPU time", "GPU time", "self CPU time"
TIME_OF = dict.fromkeys(("self_device", "self_device_share"), SELF_DEVICE_TIME)
TIME_OF |= dict.fromkeys(("device_total", "device_average"), DEVICE_TIME)
TIME_OF |= dict.fromkeys(("self_cpu", "self_cpu_share"), SELF_CPU_TIME)
"""Which time of a call a column is about; the others: its length."""


def instances(part: Part, averages: Averages, row: int, by: str | None) -> tuple[I64, I64, str]:
    """The slices counted in a row, those first that have most of what the column `by` tells; these times, ns;
    and what they are, "" for the lengths."""
    trace, what = part.trace, TIME_OF.get(by or "", "")
    if not what or averages.device[row]:
        what, found = "", np.flatnonzero(averages.row_of == row)
        times = trace.duration[found]
    else:
        calls = calls_of(part)
        times_of = {SELF_DEVICE_TIME: calls.self_device, DEVICE_TIME: calls.device_total}
        at = np.flatnonzero((averages.row_of[calls.cpu] == row) & ~calls.removed)
        found, times = calls.cpu[at], times_of.get(what, calls.self_cpu)[at]
    order = np.lexsort((found, -trace.duration[found], -times))
    return found[order], times[order], what


def part_rows(trace: Trace, averages: Averages, part: str) -> I64:
    """The rows of a part of the averages: "annotations" with their shadows on the device, "kernels" (all
    other rows of a device), or "ops" (all other rows, as PyTorch's table has them)."""
    at = np.maximum(averages.first, 0)
    marked = np.isin(trace.kind[at], (Kind.ANNOTATION, Kind.GPU_ANNOTATION)) if len(trace) else False
    noted = averages.annotation | (marked & (averages.first >= 0))
    if part == "all":
        return np.arange(len(averages))
    found = {"annotations": noted, "kernels": averages.device & ~noted, "ops": ~averages.device & ~noted}
    return np.flatnonzero(found[part])


def averages_table(
    trace: Trace,
    averages: Averages,
    part: str = "all",
    color: Callable[[int], str | None] | None = None,
    memory: MemoryUse | None = None,
) -> Table:
    """A part of the averages on the screen. `color` maps a name's index to its color in the timeline."""
    a = averages
    rows = part_rows(trace, a, part)
    columns = average_columns(a, memory, trace, rows)
    without = [] if a.device.any() else [*DEVICE.split(), "device_average", "device_bar"]
    if part == "kernels":
        columns = {
            **columns,
            "self_device": replace(columns["self_device"], title=columns["self_device"].title[5:]),
        }
    if part == "annotations":
        drops = {"cpu_total": 0, "device_total": 1, "self_cpu": 6}
        columns = {**columns, **{key: replace(columns[key], drop=n) for key, n in drops.items()}}
    totals = {"self_cpu": a.total_self_cpu, "self_device": device_total(a, rows)}
    foot = {key: in_unit(total, columns[key].title.split()[-1]) for key, total in totals.items() if total}
    without += [key for key in MEMORY.split() if key in columns and not columns[key].any()]

    def searched(row: int) -> str:
        return f"{columns['name'].text(row)} {a.names[row]} {a.groups[row]} {category_of(trace, a, row)}"

    return Table(
        select_columns(columns, SCREEN[part], without),
        len(a),
        searched,
        (lambda r: color(int(trace.name[a.first[r]])) if a.first[r] >= 0 else None) if color else None,
        empty=f"no {part} here",
        only=rows,
        foot={"name": "total", **foot} if part != "annotations" and foot else {},
        records=lambda order: records(select_columns(columns, FILE), order),
    )


def averages_json(averages: Averages, order: Sequence[int], memory: MemoryUse | None = None) -> list[Record]:
    """One object per row, with `group` if rows are not grouped by name alone, and bytes if memory was
    recorded."""
    return records(select_columns(average_columns(averages, memory), JSON), np.array(order, dtype=np.int64))


def averages_markdown(averages: Averages, order: Sequence[int], memory: MemoryUse | None = None) -> str:
    """PyTorch's columns as a Markdown table."""
    a = averages
    cpu, device = has_cpu(a), bool((a.self_device > 0).any())
    without = [] if cpu else CPU.split()
    without += [] if device else DEVICE.split()
    without += [] if a.grouped_by in GROUP_HEADERS else ["group"]
    without += [] if memory is not None and memory.self_host.any() else ["self_cpu_memory"]
    without += [] if memory is not None and memory.self_device.any() else ["self_device_memory"]
    shown = select_columns(average_columns(a, memory), MARKDOWN, without)
    totals = [f"Self CPU time total: {format_time(us(a.total_self_cpu))}"] if cpu else []
    totals += [f"Self CUDA time total: {format_time(us(a.total_self_device))}"] if device else []
    return markdown_table(shown, order) + "\n" + ", ".join(totals) + "\n"
