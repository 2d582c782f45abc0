"""Series as small areas: the height is the value, the label says it at the cursor."""

from __future__ import annotations

import numpy as np

from tracetui.timeline.canvas import Canvas
from tracetui.timeline.layout import Line
from tracetui.timeline.paint import ASCII_SHARES, FROM_BELOW
from tracetui.timeline.scene import Scene
from tracetui.timeline.series import brief_of, text_of


def paint_counter(scene: Scene, line: Line, field: Canvas, y: int) -> None:
    """Paint one line of a series' area."""
    if not 0 <= line.ref < len(scene.series):
        return
    one, theme = scene.series[line.ref], scene.fixed.theme
    height = int(scene.layout.shown[line.track])
    share = (one.peaks(scene.view.borders()) - one.low) / ((one.high - one.low) or 1.0)
    eighths = np.ceil(np.nan_to_num(share, nan=0.0) * 8 * height).astype(np.int64)
    eighths = np.clip(eighths - 8 * (height - 1 - line.depth), 0, 8)
    field.glyph[y] = (ASCII_SHARES if theme.ascii else FROM_BELOW)[eighths]
    field.ink[y] = theme.area


def cursor(scene: Scene) -> int:
    """The instant that values are told for: the selection's start where it is in view, else the middle."""
    if scene.selected >= 0:
        start = int(scene.fixed.trace.start[scene.selected])
        if scene.view.contains(start):
            return start
    return (scene.view.start_ns + scene.view.end_ns) // 2


def value_text(scene: Scene, series: int) -> str:
    """A series' value at the cursor."""
    return values_at_cursor(scene, series)[0]


def values_at_cursor(scene: Scene, series: int) -> tuple[str, str]:
    """A series' value at the cursor, in full and as short as can be; "" where it has none."""
    one = scene.series[series]
    value = float(one.at(np.array([cursor(scene)], dtype=np.int64))[0])
    return text_of(value, one.unit), brief_of(value, one.unit)
