"""The column of lane labels on the left."""

from __future__ import annotations

from rich.cells import cell_len

from tracetui.timeline.canvas import BOLD, Canvas, cut
from tracetui.timeline.counters import value_text
from tracetui.timeline.layout import Line, Of
from tracetui.timeline.scene import TOP, Scene


def label_width(width: int) -> int:
    """Cells of the column on a screen of `width` cells."""
    return max(8, min(26, 14 + max(0, width - 80) // 10))


def paint_labels(scene: Scene, canvas: Canvas, lines: list[Line]) -> None:
    """Paint the labels of the lines below the ruler."""
    theme, width = scene.fixed.theme, scene.labels
    canvas.paper[TOP:, :width] = theme.frame
    canvas.ink[TOP:, :width] = theme.dim
    for y, line in enumerate(lines, TOP):
        if line.of is Of.PROCESS:
            text = " " + scene.fixed.trace.processes[line.ref].name
            canvas.paper[y] = theme.frame
            canvas.put(y, 0, cut(text, canvas.width), ink=theme.text, attributes=BOLD)
            continue
        if line.depth == 0:
            put_label(scene, canvas, y, line)
        elif line.more:
            canvas.put(y, 0, cut(f"   +{line.more} rows", width - 1))


def put_label(scene: Scene, canvas: Canvas, y: int, line: Line) -> None:
    theme = scene.fixed.theme
    rows = int(scene.layout.rows[line.track])
    folded = int(scene.layout.shown[line.track]) < rows
    sign = (("+" if folded else "-") if theme.ascii else ("▸" if folded else "▾")) if rows > 1 else " "
    if line.pinned:
        sign = "*" if theme.ascii else "•"
    room = scene.labels - 3
    if line.of is Of.COUNTER and line.ref < len(scene.series):
        value = value_text(scene, line.ref)
        canvas.put(y, scene.labels - 1 - cell_len(value), value, ink=theme.text)
        room = max(0, room - cell_len(value) - 1)
    text = shortened(label_text(scene, line), room)
    canvas.put(y, 0, sign, ink=theme.dim)
    canvas.put(y, 2, text, ink=theme.text if line.of is Of.LANE else theme.dim)
    if line.more and line.depth == 0 and line.of is Of.LANE:
        more = f"+{line.more}"
        if cell_len(text) + 3 + len(more) < scene.labels:
            canvas.put(y, scene.labels - 1 - len(more), more, ink=theme.dim)


def label_text(scene: Scene, line: Line) -> str:
    """What a line's label says."""
    trace = scene.fixed.trace
    if line.of is Of.LANE:
        return trace.lanes[line.ref].name
    if line.of is Of.DEVICE:
        return f"GPU {line.ref} busy"
    return scene.series[line.ref].name if line.ref < len(scene.series) else ""


def shortened(text: str, width: int) -> str:
    """A lane's name in at most `width` cells; the words that all lanes share go first."""
    for long, short in (("thread ", ""), ("stream ", "s"), (" annotations", " annot.")):
        if cell_len(text) <= width:
            break
        text = text.replace(long, short, 1)
    return cut(text, width)
