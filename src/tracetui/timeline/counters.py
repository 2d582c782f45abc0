"""Counters as small areas: the height is the value, the label its range."""

from __future__ import annotations

import numpy as np

from tracetui.timeline.canvas import Canvas
from tracetui.timeline.layout import Line
from tracetui.timeline.paint import ASCII_SHARES, FROM_BELOW
from tracetui.timeline.scene import Scene
from tracetui.trace.model import F64, I64


def values_at(start: I64, value: F64, times: I64) -> F64:
    """A step function at instants: the last sample at or before each, NaN before the first."""
    if not len(start):
        return np.full(len(times), np.nan)
    at = np.searchsorted(start, times, side="right") - 1
    return np.where(at >= 0, value[np.maximum(at, 0)], np.nan)


def paint_counter(scene: Scene, line: Line, field: Canvas, y: int) -> None:
    """Paint one line of a counter's area."""
    counters, theme = scene.fixed.trace.counters, scene.fixed.theme
    first, last = (int(i) for i in np.searchsorted(counters.series, [line.ref, line.ref + 1]))
    start, value = counters.start[first:last], counters.value[first:last]
    if not len(start):
        return
    shown = values_at(start, value, scene.view.borders()[1:] - 1)
    low, high = min(0.0, float(np.nanmin(value))), float(np.nanmax(value))
    height = int(scene.layout.shown[line.track])
    share = (shown - low) / ((high - low) or 1.0) * 8 * height
    eighths = np.nan_to_num(share, nan=0.0).round().astype(np.int64) - 8 * (height - 1 - line.depth)
    field.glyph[y] = (ASCII_SHARES if theme.ascii else FROM_BELOW)[np.clip(eighths, 0, 8)]
    field.ink[y] = theme.busy
