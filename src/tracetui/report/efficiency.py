"""Achieved rates of operators and kernels as text, Markdown and JSON."""

from __future__ import annotations

from typing import Any

from rich.cells import cell_len

from tracetui.analysis.efficiency import EfficiencyRow, EfficiencyTable, efficiency
from tracetui.analysis.scope import Scope, members
from tracetui.report import markdown
from tracetui.report.jsonable import share as json_share
from tracetui.report.lines import Line, Span, columns, fit, wrap
from tracetui.safe_text import plain
from tracetui.trace import DEVICE_WORK, Trace
from tracetui.units import duration, share, significant

__all__ = ["efficiency_json", "efficiency_lines", "efficiency_markdown", "measure"]

NO_SHAPES = "No shapes were recorded (record_shapes=True), so the work done is not known."
CACHED = "A share of the bandwidth above 100%: some of the data was still in a cache."
SAMPLED = "Of very many operators, evenly spread ones were read: calls and times are a part of all."


def measure(trace: Trace, scope: Scope) -> EfficiencyTable:
    """The rates within a scope."""
    if scope.kind == "whole":
        return efficiency(trace)
    events = trace.is_kind(*DEVICE_WORK).nonzero()[0]
    return efficiency(trace, events[members(trace, scope, events)])


def _row_json(row: EfficiencyRow) -> dict[str, Any]:
    return {
        "name": row.name,
        "short_name": row.short,
        "shape": row.shape,
        "kind": row.kind,
        "dtype": row.dtype,
        "calls": row.calls,
        "duration_ns": row.duration,
        "flops": row.flops,
        "bytes": row.bytes,
        "tflops": json_share(row.tflops),
        "gbps": json_share(row.gbps),
        "compute_share": json_share(row.compute_share),
        "memory_share": json_share(row.memory_share),
        "kernel": row.kernel,
    }


def efficiency_json(table: EfficiencyTable) -> dict[str, Any]:
    """Rates in TFLOP/s (1e12) and GB/s (1e9), shares of the device's peak; null for what is not known."""
    peak = table.peak
    return {
        "device": plain(table.device),
        "recorded": table.recorded,
        "sampled": table.sampled,
        "peak": None
        if peak is None
        else {
            "label": peak.label,
            "bandwidth_gbps": peak.bandwidth,
            "tflops": dict(peak.tflops),
            "source": peak.source,
        },
        "ops": [_row_json(row) for row in table.ops],
        "kernels": [_row_json(row) for row in table.kernels],
    }


def _percent(value: float | None) -> str:
    return "-" if value is None else share(value)


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return "<0.01" if 0 < value < 0.005 else significant(value)


def _cells(row: EfficiencyRow) -> list[str]:
    return [
        f"{row.calls:,}",
        duration(row.duration),
        _number(row.flops / row.calls / 1e9) if row.tflops is not None else "-",
        _number(row.tflops),
        _percent(row.compute_share),
        _number(row.gbps),
        _percent(row.memory_share),
    ]


HEADERS = ("calls", "time", "GFLOP", "TFLOP/s", "of peak", "GB/s", "of peak")


def _label(name: str, what: str, room: int) -> str:
    """A name and its work in `room` cells: the name gives way first, as its ends still tell it apart."""
    name = fit(name, max(12, room - 1 - cell_len(what)) if what else room)
    return f"{name} {fit(what, room - 1 - cell_len(name))}".rstrip()


def _about(table: EfficiencyTable) -> str:
    if table.peak is None:
        name = plain(table.device)
        return f"The peak of {name} is not known, so there are no shares." if name else ""
    return f"Shares are of the {table.peak.label}'s peak: {table.peak.source}."


def efficiency_lines(table: EfficiencyTable, width: int, limit: int = 20) -> list[Line]:
    """Operators by shape, then kernels, longest first; `limit`: rows of each, 0 for all."""
    if not table.recorded:
        return [[(NO_SHAPES, "")]]
    if not table.ops:
        return [[("No operator whose work can be counted.", "")]]
    lines: list[Line] = []
    narrow = width < 100
    keep = [i for i, header in enumerate(HEADERS) if not (narrow and header == "GFLOP")]
    headers = [("%" if narrow and HEADERS[i] == "of peak" else HEADERS[i], "dim") for i in keep]
    room = max(16, min(width, 132) - (48 if narrow else 66))
    for title, rows in (("Operators", table.ops), ("Kernels", table.kernels)):
        if not rows:
            continue
        lines += [[]] if lines else []
        lines.append([(title, "title")])
        cells: list[list[str | Span]] = [[("", "dim"), *headers]]
        for row in rows[:limit] if limit else rows:
            dtype = row.dtype if row.kernel and not narrow else None  # a kernel's short name has it
            numbers = _cells(row)
            what = " ".join(part for part in (row.shape, dtype) if part)
            cells.append([_label(row.short, what, room), *(numbers[i] for i in keep)])
        lines += columns(cells, "<" + ">" * len(keep))
        if limit and len(rows) > limit:
            lines.append([(f"  and {len(rows) - limit:,} more: --limit 0", "dim")])
    cached = any((row.memory_share or 0) > 1 for row in (*table.ops, *table.kernels))
    for note in (_about(table), CACHED if cached else "", SAMPLED if table.sampled else ""):
        lines += [[], *([(part, "dim")] for part in wrap(note, min(width, 100)))] if note else []
    return lines


def efficiency_markdown(table: EfficiencyTable, limit: int = 20) -> str:
    if not table.recorded:
        return NO_SHAPES + "\n"
    text = ""
    for title, rows in (("Operators", table.ops), ("Kernels", table.kernels)):
        if rows:
            body = [
                [markdown.code(row.name), markdown.cell(row.shape), *map(markdown.cell, _cells(row))]
                for row in (rows[:limit] if limit else rows)
            ]
            names = [title[:-1], "Shape", *(h.capitalize() if h.islower() else h for h in HEADERS)]
            text += markdown.heading(title) + "\n" + markdown.table(names, body, "<<>>>>>>>") + "\n"
    return text + markdown.cell(_about(table)) + "\n"
