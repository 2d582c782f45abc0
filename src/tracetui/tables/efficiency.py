"""The tables of efficiency: achieved rates of operators by shape, and of kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from rich.cells import cell_len

from tracetui.analysis.efficiency import EfficiencyRow, EfficiencyTable
from tracetui.cells import fit
from tracetui.tables import markdown
from tracetui.tables.jsonable import share as json_share
from tracetui.tables.lines import Line, bar
from tracetui.tables.model import I64, Column, Columns, Table, by_key, each, pick
from tracetui.tables.times import time_column
from tracetui.tables.writers import Record, aligned, cells, markdown_table, records
from tracetui.units import duration, share, significant

TEXT = "label calls duration flops tflops compute_share gbps memory_share"
MARKDOWN = "name shape calls duration flops tflops compute_share gbps memory_share"
JSON = "name label shape kind calls duration flops bytes tflops gbps compute_share memory_share kernel"

BAR = 6
"""Cells of a bar on the screen."""
WIDE = 100
"""From this width (in cells), all columns are shown."""


def efficiency_columns(rows: Sequence[EfficiencyRow], what: str = "Operator", width: int = WIDE) -> Columns:
    """The columns of these rows. `what`: what the rows are; `width`: of the text.

    Rates in TFLOP/s (1e12) and GB/s (1e9), shares of the device's peak; null if unknown.
    """
    narrow = width < WIDE
    of_peak = "%" if narrow else "of peak"

    def of(name: str) -> Callable[[I64], list[Any]]:
        return each(lambda r: getattr(rows[r], name))

    def rate(key: str, heading: str) -> Column:
        fields = {key: each(lambda r: json_share(getattr(rows[r], key)))}
        return Column(key).said(heading, lambda r: _number(getattr(rows[r], key))).filed(**fields)

    def peak_share(key: str) -> Column:
        fields = {key: each(lambda r: json_share(getattr(rows[r], key)))}
        cell = partial(_share, rows, key)
        return Column(key).said(of_peak, cell, markdown_heading="Of peak").filed(**fields)

    def gflop(r: int) -> str:
        row = rows[r]
        return _number(row.flops / row.calls / 1e9) if row.tflops is not None else "-"

    def label(r: int) -> str:
        row = rows[r]
        dtype = row.dtype if row.kernel and not narrow else None  # a kernel's short name has it
        work = " ".join(part for part in (row.shape, dtype) if part)
        return _label(row.short, work, max(16, min(width, 132) - (48 if narrow else 66)))

    return by_key(
        Column("name", right=False)
        .said(what, markdown=lambda r: markdown.code(rows[r].name))
        .filed(name=of("name")),
        Column("label", right=False).said("", label).filed(short_name=of("short")),
        Column("shape", right=False).said("shape", lambda r: rows[r].shape).filed(shape=of("shape")),
        Column("kind").filed(kind=of("kind"), dtype=of("dtype")),
        Column("calls").said("calls", lambda r: f"{rows[r].calls:,}").filed(calls=of("calls")),
        Column("duration")
        .said("time", lambda r: duration(rows[r].duration))
        .filed(duration_ns=of("duration")),
        Column("flops").said("GFLOP", gflop).filed(flops=of("flops")),
        Column("bytes").filed(bytes=of("bytes")),
        rate("tflops", "TFLOP/s"),
        peak_share("compute_share"),
        rate("gbps", "GB/s"),
        peak_share("memory_share"),
        Column("kernel").filed(kernel=of("kernel")),
    )


def efficiency_table(found: EfficiencyTable) -> Table:
    """Kernels, then ops by shape, on the screen."""
    rows = (*found.kernels, *found.ops)

    def rate(key: str, title: str, drop: int) -> Column:
        values = np.array([getattr(row, key) or 0.0 for row in rows])
        return Column(key, title, lambda r: _number(getattr(rows[r], key)), lambda: values, 9, drop=drop)

    def of_peak(key: str, title: str, drop: int) -> tuple[Column, Column]:
        values = np.array([getattr(row, key) or 0.0 for row in rows])
        return (
            Column(key, title, partial(_share, rows, key), lambda: values, 7, drop=drop, after=1),
            Column(f"{key}_bar", "", lambda r: bar(values[r], BAR), width=BAR, right=False, drop=drop + 4),
        )

    def name(r: int) -> str:
        return f"{rows[r].short}  {rows[r].shape}".rstrip()

    durations = np.array([row.duration for row in rows], dtype=np.int64)
    calls = np.array([row.calls for row in rows], dtype=np.int64)
    columns = (
        Column("name", "Name and shape", name, lambda: [name(r) for r in range(len(rows))], right=False),
        Column("what", "", lambda r: "kernel" if r < len(found.kernels) else "op", None, 6, False, 3),
        Column("calls", "Calls", lambda r: f"{calls[r]:,}", lambda: calls, 7, drop=2),
        time_column("duration", "Time", durations),
        rate("tflops", "TFLOP/s", 2),
        *of_peak("compute_share", "of peak", 0),
        rate("gbps", "GB/s", 2),
        *of_peak("memory_share", "of peak", 0),
    )
    nothing = (
        "no shapes were recorded: capture with record_shapes=True" if not found.recorded else "no rates here"
    )
    filed = efficiency_columns(rows)
    return Table(
        columns,
        len(rows),
        lambda r: f"{name(r)} {rows[r].name}",
        empty=nothing,
        records=lambda order: records(pick(filed, JSON), order),
    )


def _share(rows: Sequence[EfficiencyRow], key: str, row: int) -> str:
    part = getattr(rows[row], key)
    return "-" if part is None else share(part)


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return "<0.01" if 0 < value < 0.005 else significant(value)


def _label(name: str, work: str, room: int) -> str:
    """A name and its work in `room` cells. The name is cut first: its ends still distinguish it."""
    name = fit(name, max(12, room - 1 - cell_len(work)) if work else room)
    return f"{name} {fit(work, room - 1 - cell_len(name))}".rstrip()


def rates_json(rows: Sequence[EfficiencyRow]) -> list[Record]:
    """One object per row."""
    return records(pick(efficiency_columns(rows), JSON), np.arange(len(rows)))


def rates_text(rows: Sequence[EfficiencyRow], width: int) -> list[Line]:
    """Rows as lines of at most `width` cells."""
    shown = pick(efficiency_columns(rows, width=width), TEXT, () if width >= WIDE else ("flops",))
    return aligned(shown, cells(shown, range(len(rows))))


def rates_markdown(rows: Sequence[EfficiencyRow], what: str) -> str:
    return markdown_table(pick(efficiency_columns(rows, what), MARKDOWN), range(len(rows)))
