"""Lines from an event to what it caused, if both are on the screen."""

from __future__ import annotations

from tracetui.timeline.canvas import BOLD, Canvas
from tracetui.timeline.scene import Scene
from tracetui.timeline.track_layout import Line, Of


def position(scene: Scene, lines: list[Line], slice_index: int) -> tuple[int, int] | None:
    """The (line, column) where a slice of the active source begins; None if that is off the screen."""
    source = scene.source
    lane, depth = int(source.trace.lane[slice_index]), source.rows.depth(slice_index)
    column = scene.view.column(scene.source.start(slice_index))
    if not 0 <= column < scene.view.width:
        return None
    for y, line in enumerate(lines):
        if (line.source, line.of, line.ref, line.depth) == (scene.active, Of.LANE, lane, depth):
            return y, column
    return None


def paint_flows(scene: Scene, lines: list[Line], field: Canvas) -> None:
    """Draw the scene's flows over the lanes: down (or up) from the cause, then along to the effect."""
    for source, target in scene.flows:
        begin, end = position(scene, lines, source), position(scene, lines, target)
        if begin is not None and end is not None:
            _draw(scene, field, begin, end)


def _draw(scene: Scene, field: Canvas, begin: tuple[int, int], end: tuple[int, int]) -> None:
    theme = scene.theme
    (y0, x0), (y1, x1) = begin, end
    glyphs = "|-++++v^" if theme.ascii else "│─└┘┌┐▼▲"
    upright, level, down_right, down_left, up_right, up_left, arrow_down, arrow_up = list(glyphs)
    down = y1 > y0
    step = 1 if down else -1

    def dot(y: int, x: int, glyph: str) -> None:
        field.put(y, x, glyph, ink=_ink(scene, field, y, x), attributes=BOLD)

    if y1 == y0:
        return
    bend = y1 - step
    for y in range(y0 + step, bend + (step if x0 == x1 else 0), step):
        dot(y, x0, upright)
    if x0 != x1 and bend != y0:
        right = x1 > x0
        dot(bend, x0, (down_right if right else down_left) if down else (up_right if right else up_left))
        for x in range(x0 + (1 if right else -1), x1, 1 if right else -1):
            dot(bend, x, level)
    dot(bend if bend != y0 else y1, x1, arrow_down if down else arrow_up)


def _ink(scene: Scene, field: Canvas, y: int, x: int) -> int:
    """The flow's color on the background; over a bar, the bar's own text color."""
    theme = scene.theme
    paper = int(field.paper[y, x])
    if paper in theme.grounds:
        return theme.flow
    return int(scene.source.palette.text_on(field.paper[y : y + 1, x])[0])
