"""The tables of efficiency: achieved rates of operators by shape, and of kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.cells import cell_len

from tracetui.analysis.rates.efficiency import EfficiencyRow, EfficiencyTable
from tracetui.core.cells import fit
from tracetui.core.units import duration, share, significant
from tracetui.views import markdown
from tracetui.views.jsonable import share as json_share
from tracetui.views.lines import Line, bar
from tracetui.views.model import I64, Column, Columns, Table, by_key, each, select_columns
from tracetui.views.times import time_column
from tracetui.views.writers import Record, aligned, cells, markdown_table, records

SCREEN = "name what calls duration tflops compute_share compute_bar gbps memory_share memory_bar"
TEXT = "label calls duration flops tflops compute_share gbps memory_share"
MARKDOWN = "name shape calls duration flops tflops compute_share gbps memory_share"
JSON = """name label shape kind calls duration flops bytes tflops gbps compute_share memory_share kernel
    sm_active"""

BAR = 6
"""Cells of a bar on the screen."""
WIDE = 100
"""From this width (in cells), all columns of text are shown."""


def efficiency_columns(
    rows: Sequence[EfficiencyRow], what: str = "Operator", width: int = WIDE, kernels: int = 0
) -> Columns:
    """The columns of these rows. `what`: what the rows are; `width`: of the text; `kernels`: how many rows
    are kernels, which are the first ones.

    Rates in TFLOP/s (1e12) and GB/s (1e9), shares of the device's peak; null if unknown.
    """
    narrow = width < WIDE

    def of(name: str) -> Callable[[I64], list[Any]]:
        return each(lambda r: getattr(rows[r], name))

    def values(key: str) -> npt.NDArray[np.float64]:
        return np.array([getattr(row, key) or 0.0 for row in rows])

    def value(key: str) -> Callable[[I64], list[Any]]:
        return each(lambda r: json_share(getattr(rows[r], key)))

    def rate(key: str, title: str) -> Column:
        def cell(r: int) -> str:
            return _number(getattr(rows[r], key))

        shown = Column(key, title, cell, lambda: values(key), 9, drop=2)
        return shown.with_text(title, cell).with_fields(**{key: value(key)})

    def peak_share(key: str, title: str) -> Column:
        def cell(r: int) -> str:
            part = getattr(rows[r], key)
            return "-" if part is None else share(part)

        shown = Column(key, title, cell, lambda: values(key), 7, after=1)
        shown = shown.with_text("%" if narrow else "of peak", cell, markdown_heading="Of peak")
        return shown.with_fields(**{key: value(key)})

    def peak_bar(key: str, part: str) -> Column:
        return Column(key, "", lambda r: bar(getattr(rows[r], part) or 0.0, BAR), None, BAR, False, drop=4)

    def active(key: str, title: str) -> Column:
        """A share that samples give."""

        def cell(r: int) -> str:
            part = getattr(rows[r], key)
            return "-" if part is None else share(part)

        shown = Column(key, title, cell, lambda: values(key), 10, drop=1)
        return shown.with_text(title, cell).with_fields(**{f"{key}_share": value(key)})

    def name(r: int) -> str:
        return f"{rows[r].short}  {rows[r].shape}".rstrip()

    def calls(r: int) -> str:
        return f"{rows[r].calls:,}"

    def gflop(r: int) -> str:
        row = rows[r]
        return _number(row.flops / row.calls / 1e9) if row.tflops is not None else "-"

    def label(r: int) -> str:
        row = rows[r]
        dtype = row.dtype if row.kernel and not narrow else None  # a kernel's short name has it
        work = " ".join(part for part in (row.shape, dtype) if part)
        return _label(row.short, work, max(16, min(width, 132) - (48 if narrow else 66)))

    return by_key(
        Column("name", "Name and shape", name, lambda: [name(r) for r in range(len(rows))], right=False)
        .with_text(what, markdown=lambda r: markdown.code(rows[r].name))
        .with_fields(name=of("name")),
        Column("what", "", lambda r: "kernel" if r < kernels else "op", width=6, right=False, drop=3),
        Column("label", right=False).with_text("", label).with_fields(short_name=of("short")),
        Column("shape", right=False)
        .with_text("shape", lambda r: rows[r].shape)
        .with_fields(shape=of("shape")),
        Column("kind").with_fields(kind=of("kind"), dtype=of("dtype")),
        Column("calls", "Calls", calls, lambda: values("calls"), 7, drop=2)
        .with_text("calls", calls)
        .with_fields(calls=of("calls")),
        time_column("duration", "Time", np.array([row.duration for row in rows], dtype=np.int64))
        .with_text("time", lambda r: duration(rows[r].duration))
        .with_fields(duration_ns=of("duration")),
        Column("flops").with_text("GFLOP", gflop).with_fields(flops=of("flops")),
        Column("bytes").with_fields(bytes=of("bytes")),
        rate("tflops", "TFLOP/s"),
        peak_share("compute_share", "compute"),
        peak_bar("compute_bar", "compute_share"),
        rate("gbps", "GB/s"),
        peak_share("memory_share", "memory"),
        peak_bar("memory_bar", "memory_share"),
        Column("kernel").with_fields(kernel=of("kernel")),
        active("sm_active", "SMs active"),
    )


def efficiency_table(found: EfficiencyTable) -> Table:
    """Kernels, then ops by shape, on the screen."""
    rows = (*found.kernels, *found.ops)
    columns = efficiency_columns(rows, kernels=len(found.kernels))
    return Table(
        select_columns(columns, SCREEN + _sampled(rows)),
        len(rows),
        lambda r: f"{columns['name'].text(r)} {rows[r].name}",
        empty="no rates here"
        if found.recorded
        else "no shapes were recorded: capture with record_shapes=True",
        records=lambda order: records(select_columns(columns, JSON), order),
    )


def _sampled(rows: Sequence[EfficiencyRow]) -> str:
    """The column of what was sampled, if anything was."""
    return " sm_active" if any(row.sm_active is not None for row in rows) else ""


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
    return records(select_columns(efficiency_columns(rows), JSON), np.arange(len(rows)))


def rates_text(rows: Sequence[EfficiencyRow], width: int) -> list[Line]:
    """Rows as lines of at most `width` cells."""
    left_out = () if width >= WIDE else ("flops",)
    shown = select_columns(efficiency_columns(rows, width=width), TEXT + _sampled(rows), left_out)
    return aligned(shown, cells(shown, range(len(rows))))


def rates_markdown(rows: Sequence[EfficiencyRow], what: str) -> str:
    return markdown_table(
        select_columns(efficiency_columns(rows, what), MARKDOWN + _sampled(rows)), range(len(rows))
    )
