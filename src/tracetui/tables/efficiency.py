"""The tables of efficiency: achieved rates of operators by shape, and of kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from rich.cells import cell_len

from tracetui.analysis.efficiency import EfficiencyRow
from tracetui.cells import fit
from tracetui.tables import markdown
from tracetui.tables.jsonable import share as json_share
from tracetui.tables.lines import Line
from tracetui.tables.model import Column, Columns, Fields, by_key, pick
from tracetui.tables.writers import Record, aligned, cells, markdown_table, records
from tracetui.units import duration, share, significant

NUMBERS = ("calls", "duration", "flops", "tflops", "compute_share", "gbps", "memory_share")
TEXT = ("label", *NUMBERS)
NARROW = tuple(key for key in TEXT if key != "flops")
MARKDOWN = ("name", "shape", *NUMBERS)
JSON = (
    "name",
    "label",
    "shape",
    "kind",
    "calls",
    "duration",
    "flops",
    "bytes",
    "tflops",
    "gbps",
    "compute_share",
    "memory_share",
    "kernel",
)

WIDE = 100
"""From so many cells on, no column gives way."""


def efficiency_columns(rows: Sequence[EfficiencyRow], what: str = "Operator", width: int = WIDE) -> Columns:
    """The columns of these rows; `what` they are; `width` of the text.

    Rates in TFLOP/s (1e12) and GB/s (1e9), shares of the device's peak; null for what is not known.
    """
    narrow = width < WIDE
    of_peak = "%" if narrow else "of peak"

    def field(name: str, value: Callable[[EfficiencyRow], Any]) -> Fields:
        return {name: lambda at: [value(rows[i]) for i in at.tolist()]}

    def rate(key: str, heading: str, value: Callable[[EfficiencyRow], float | None]) -> Column:
        return Column(
            key,
            heading=heading,
            cell=lambda r: _number(value(rows[r])),
            fields=field(key, lambda row: json_share(value(row))),
        )

    def peak_share(key: str, value: Callable[[EfficiencyRow], float | None]) -> Column:
        def cell(r: int) -> str:
            part = value(rows[r])
            return "-" if part is None else share(part)

        return Column(
            key,
            heading=of_peak,
            markdown_heading="Of peak",
            cell=cell,
            fields=field(key, lambda row: json_share(value(row))),
        )

    def gflop(r: int) -> str:
        row = rows[r]
        return _number(row.flops / row.calls / 1e9) if row.tflops is not None else "-"

    def label(r: int) -> str:
        row = rows[r]
        dtype = row.dtype if row.kernel and not narrow else None  # a kernel's short name has it
        work = " ".join(part for part in (row.shape, dtype) if part)
        return _label(row.short, work, max(16, min(width, 132) - (48 if narrow else 66)))

    return by_key(
        Column(
            "name",
            right=False,
            heading=what,
            markdown=lambda r: markdown.code(rows[r].name),
            fields=field("name", lambda row: row.name),
        ),
        Column("label", right=False, cell=label, fields=field("short_name", lambda row: row.short)),
        Column(
            "shape",
            right=False,
            heading="shape",
            cell=lambda r: rows[r].shape,
            fields=field("shape", lambda row: row.shape),
        ),
        Column("kind", fields=field("kind", lambda row: row.kind) | field("dtype", lambda row: row.dtype)),
        Column(
            "calls",
            heading="calls",
            cell=lambda r: f"{rows[r].calls:,}",
            fields=field("calls", lambda row: row.calls),
        ),
        Column(
            "duration",
            heading="time",
            cell=lambda r: duration(rows[r].duration),
            fields=field("duration_ns", lambda row: row.duration),
        ),
        Column("flops", heading="GFLOP", cell=gflop, fields=field("flops", lambda row: row.flops)),
        Column("bytes", fields=field("bytes", lambda row: row.bytes)),
        rate("tflops", "TFLOP/s", lambda row: row.tflops),
        peak_share("compute_share", lambda row: row.compute_share),
        rate("gbps", "GB/s", lambda row: row.gbps),
        peak_share("memory_share", lambda row: row.memory_share),
        Column("kernel", fields=field("kernel", lambda row: row.kernel)),
    )


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return "<0.01" if 0 < value < 0.005 else significant(value)


def _label(name: str, work: str, room: int) -> str:
    """A name and its work in `room` cells: the name gives way first, as its ends still tell it apart."""
    name = fit(name, max(12, room - 1 - cell_len(work)) if work else room)
    return f"{name} {fit(work, room - 1 - cell_len(name))}".rstrip()


def rates_json(rows: Sequence[EfficiencyRow]) -> list[Record]:
    """One object per row."""
    return records(pick(efficiency_columns(rows), JSON), np.arange(len(rows)))


def rates_text(rows: Sequence[EfficiencyRow], width: int) -> list[Line]:
    """Rows as lines of at most `width` cells."""
    shown = pick(efficiency_columns(rows, width=width), TEXT if width >= WIDE else NARROW)
    return aligned(shown, cells(shown, range(len(rows))))


def rates_markdown(rows: Sequence[EfficiencyRow], what: str) -> str:
    return markdown_table(pick(efficiency_columns(rows, what), MARKDOWN), range(len(rows)))
