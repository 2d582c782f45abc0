"""Series as area charts: height shows the value, the label gives it at the cursor."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tracetui.timeline.canvas import Canvas
from tracetui.timeline.paint import ASCII_SHARES, FROM_BELOW
from tracetui.timeline.scene import Local, Source
from tracetui.timeline.series import Series, brief_of, text_of
from tracetui.timeline.track_layout import Line, Of
from tracetui.trace.model import I64


def paint_counters(local: Local, lines: Iterable[tuple[int, Line]], field: Canvas, cursor: int) -> None:
    """Paint a source's series, each on one or more lines. `lines`: the source's lines with their place in the
    field. `cursor`: the column whose values the labels tell."""
    theme, borders, series = local.theme, local.view.borders(), local.source.series
    tops: dict[int, I64] = {}
    for y, line in lines:
        if line.of is not Of.COUNTER or not 0 <= line.ref < len(series):
            continue
        one, height = series[line.ref], int(local.layout.shown[line.track])
        if line.ref not in tops:
            share = (one.peaks(borders) - one.low) / ((one.top - one.low) or 1.0)
            tops[line.ref] = np.ceil(np.nan_to_num(share, nan=0.0) * 8 * height).astype(np.int64)
        eighths = np.clip(tops[line.ref] - 8 * (height - 1 - line.depth), 0, 8)
        field.glyph[y] = (ASCII_SHARES if theme.ascii else FROM_BELOW)[eighths]
        field.ink[y] = theme.area
        if 0 <= cursor < field.width:
            field.ink[y, cursor] = theme.text


def most(series: Series) -> str:
    """The largest value, in words."""
    return f"most {text_of(series.high, series.unit)}"


def values_at(source: Source, series: int, time_ns: int) -> tuple[str, str, str]:
    """A series' value at a time of the axis, out of its largest one, in full and short; and the value alone.
    If it has none then: its largest one, in full and short, and ""."""
    one = source.series[series]
    value = float(one.at(np.array([time_ns - source.offset], dtype=np.int64))[0])
    if value != value:
        return most(one), f"most {brief_of(one.high, one.unit)}", ""
    now, high = text_of(value, one.unit), text_of(one.high, one.unit)
    brief = brief_of(value, one.unit)
    if one.unit in ("%", "W", "C"):
        brief = brief.removesuffix(one.unit)
    briefly = f"{brief}/{brief_of(one.high, one.unit)}"
    if one.unit == "%":  # 13 % of 40 % would be a product
        return f"{now}, most {high}", briefly, now
    number, _, unit = now.partition(" ")
    full = f"{number} of {high}" if unit == high.partition(" ")[2] else f"{now} of {high}"
    return full, briefly, brief_of(value, one.unit)
