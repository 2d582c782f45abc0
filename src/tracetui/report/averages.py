"""The averages as JSON and as Markdown. (As text: `tracetui.report.pytorch_table`.)"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tracetui.analysis.averages import Averages
from tracetui.analysis.memory import MemoryUse
from tracetui.report import markdown
from tracetui.report.jsonable import us
from tracetui.report.pytorch_table import GROUP_HEADERS, format_memory, format_share, format_time

__all__ = ["averages_json", "averages_markdown"]


def averages_json(
    table: Averages, order: Sequence[int], memory: MemoryUse | None = None
) -> list[dict[str, Any]]:
    """One object per row. `group` is there where rows are grouped by more than their name, the bytes of
    memory where they were recorded."""
    rows = []
    for i, row in zip(order, table.rows(order), strict=True):
        entry: dict[str, Any] = {
            "name": row.name,
            "device": "CUDA" if row.device else "CPU",
            "user_annotation": row.annotation,
            "calls": row.calls,
            "cpu_total_us": us(row.cpu_total),
            "self_cpu_us": us(row.self_cpu),
            "device_total_us": us(row.device_total),
            "self_device_us": us(row.self_device),
        }
        if table.grouped_by != "name":
            entry["group"] = row.group
        if memory is not None:
            entry["cpu_memory_bytes"] = int(memory.host[i])
            entry["self_cpu_memory_bytes"] = int(memory.self_host[i])
            entry["device_memory_bytes"] = int(memory.device[i])
            entry["self_device_memory_bytes"] = int(memory.self_device[i])
        rows.append(entry)
    return rows


def averages_markdown(table: Averages, order: Sequence[int], memory: MemoryUse | None = None) -> str:
    """PyTorch's columns as a Markdown table."""
    device = bool((table.self_device > 0).any())
    grouped = GROUP_HEADERS.get(table.grouped_by)
    cpu = table.grouped_by not in ("kernel", "op")
    headers = ["Name", *([grouped] if grouped else [])]
    headers += ["Self CPU", "Self CPU %", "CPU total"] if cpu else []
    headers += ["Self CUDA", "Self CUDA %", "CUDA total"] if device else []
    on_host = memory is not None and bool(memory.self_host.any())
    on_device = memory is not None and bool(memory.self_device.any())
    headers += ["Self CPU Mem"] if on_host else []
    headers += ["Self CUDA Mem"] if on_device else []
    headers.append("Calls")
    all_cpu, all_device = table.total_self_cpu, table.total_self_device
    rows = []
    for i, row in zip(order, table.rows(order), strict=True):
        cells = [markdown.code(row.name), *([markdown.code(row.group)] if grouped else [])]
        if cpu:
            cells += [format_time(us(row.self_cpu)), format_share(row.self_cpu, all_cpu)]
            cells.append(format_time(us(row.cpu_total)))
        if device:
            cells += [format_time(us(row.self_device)), format_share(row.self_device, all_device)]
            cells.append(format_time(us(row.device_total)))
        if memory is not None:
            cells += [format_memory(int(memory.self_host[i]))] if on_host else []
            cells += [format_memory(int(memory.self_device[i]))] if on_device else []
        rows.append([*cells, f"{row.calls:,}"])
    align = "<" + ("<" if grouped else "") + ">" * (len(headers) - 1 - bool(grouped))
    text = markdown.table(headers, rows, align)
    totals = [f"Self CPU time total: {format_time(us(all_cpu))}"] if cpu else []
    totals += [f"Self CUDA time total: {format_time(us(all_device))}"] if device else []
    return text + "\n" + ", ".join(totals) + "\n"
