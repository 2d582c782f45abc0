"""Paint a scene on a canvas: overview, ruler, labels, lanes and overlays."""

from __future__ import annotations

import numpy as np

from tracetui.timeline.canvas import BOLD, Canvas
from tracetui.timeline.counters import paint_counters
from tracetui.timeline.flows import paint_flows
from tracetui.timeline.gap_cells import paint_gaps, tellers
from tracetui.timeline.ground import Ground
from tracetui.timeline.labels import paint_labels, paint_rules
from tracetui.timeline.links import THREADS
from tracetui.timeline.mark_columns import marked_columns
from tracetui.timeline.overview import paint_overview
from tracetui.timeline.paint import ASCII_SHARES, FROM_BELOW, Colors, paint_names, paint_rows
from tracetui.timeline.ruler import paint_ruler
from tracetui.timeline.scene import EDGE, TOP, Local, Scene
from tracetui.timeline.track_layout import Line, Of
from tracetui.timeline.uncolored import dot_range, tell_bars_apart


def paint(scene: Scene, height: int) -> Canvas:
    """The picture of a scene: `height` lines high, `scene.labels + scene.view.width + EDGE` cells wide."""
    theme = scene.theme
    canvas = Canvas.blank(scene.labels + scene.view.width + EDGE, height, theme.text, theme.paper)
    if height <= 0:
        return canvas
    paint_overview(scene, canvas)
    if height > 1:
        paint_ruler(scene, canvas)
    lines = scene.lines(height - TOP) if height > TOP else []
    papers = column_papers(scene)
    field = canvas.part(TOP, height, scene.labels, canvas.width - EDGE)
    field.paper[:] = papers
    for of in {line.source for line in lines}:
        own = [(y, line) for y, line in enumerate(lines) if line.source == of]
        _paint_source(scene.local(of), own, field, papers, scene.view.column(scene.cursor))
    if theme.plain:
        dot_range(scene, field)
    paint_rules(scene, canvas, lines)
    _paint_marks(scene, field)
    paint_flows(scene, lines, field)
    paint_labels(scene, canvas, lines)
    _paint_alone(scene, canvas, lines)
    _paint_edge(scene, canvas)
    if theme.ascii:
        canvas.to_ascii()
    return canvas


def _paint_source(
    local: Local, lines: list[tuple[int, Line]], field: Canvas, papers: Colors, cursor: int
) -> None:
    """Paint the lines of one source. `lines`: with their places in the field. `cursor`: its column."""
    shown = [line for _, line in lines if line.of is Of.LANE]
    ground = Ground(local, papers)
    telling = tellers(local.source.trace, (line for _, line in lines))
    if shown:
        cells, shares = paint_rows(local, shown, ground.below)
        if local.theme.plain:
            tell_bars_apart(local, shares, cells)
        paint_names(local, shown, shares, cells)
        paint_gaps(local, shown, cells, ground, shares.busy, telling)
        field.put_lines(cells, np.array([y for y, line in lines if line.of is Of.LANE], dtype=np.int64))
    for y, line in lines:
        if line.of is Of.DEVICE:
            _paint_device(local, line, field, y, ground, telling)
    paint_counters(local, lines, field, cursor)


def _paint_edge(scene: Scene, canvas: Canvas) -> None:
    """The scroll bars, where the lanes or those of the dock do not all fit."""
    theme, layout = scene.theme, scene.layout
    canvas.paper[:, -EDGE:] = theme.frame
    parts = layout.parts(canvas.height - TOP)
    above = TOP + parts.pinned
    _paint_scroll_bar(scene, canvas, above, parts.scrolled, layout.height, scene.top)
    _paint_scroll_bar(scene, canvas, above + parts.scrolled, parts.docked, layout.dock.height, scene.foot)


def _paint_scroll_bar(scene: Scene, canvas: Canvas, at: int, room: int, lines: int, top: int) -> None:
    """From line `at` on, for `lines` lines of which `room` are shown, from `top` on."""
    if 0 < room < lines:
        size = max(1, room * room // lines)
        first = at + min(room - size, -(-top * (room - size) // (lines - room)))
        canvas.glyph[first : first + size, -1] = ord("#" if scene.theme.ascii else "▐")
        canvas.ink[first : first + size, -1] = scene.theme.dim


def column_papers(scene: Scene) -> Colors:
    """The background of every column; the selected range has its own. Shape (width,)."""
    papers = np.full(scene.view.width, scene.theme.paper, dtype=np.int16)
    if scene.band is not None:
        papers[scene.band_columns] = scene.theme.band
    return papers


def _paint_marks(scene: Scene, field: Canvas) -> None:
    """Draw the marks' lines down the lanes; their labels are in the ruler."""
    theme = scene.theme
    for column, _, _ in marked_columns(scene):
        free = field.glyph[:, column] == ord(" ")
        free &= np.isin(field.paper[:, column], theme.grounds)
        field.glyph[free, column] = ord(":" if theme.ascii else "┊")
        field.ink[free, column] = theme.mark


def _paint_alone(scene: Scene, canvas: Canvas, lines: list[Line]) -> None:
    """Mark on the heading of a recording, and on the rules of its devices, where it has what the other one
    does not have: bars may be too small to show that."""
    for y, line in enumerate(lines, TOP):
        links = scene.sources[line.source].links
        if links is None or line.of not in (Of.RECORDING, Of.RULE):
            continue
        device = scene.layout.device[line.track] if line.of is Of.RULE else THREADS
        field = canvas.part(y, y + 1, scene.labels, canvas.width)
        field.glyph[0] = ord(" ")
        here = links.alone_in(int(device), scene.local(line.source).view)
        field = field.part(0, 1, 0, len(here))
        field.glyph[0, here] = ord(links.sign)
        field.ink[0, here] = scene.theme.text
        field.attributes[0, here] = BOLD


def _paint_device(
    local: Local, line: Line, field: Canvas, y: int, ground: Ground, telling: frozenset[int]
) -> None:
    """Paint a device's own line: how busy it is over all its streams."""
    theme, view = local.theme, local.view
    pieces = local.source.devices.get(line.ref)
    if pieces is None:
        return
    borders = view.borders()
    busy = pieces.overlap(borders[:-1], borders[1:])
    cells = Canvas.blank(view.width, 1, theme.busy, theme.paper)
    cells.paper[0] = ground.below(line, busy)
    eighths = np.where(busy >= view.cell, 8, np.minimum(7, -(-8 * busy // view.cell)))
    cells.glyph[0] = (ASCII_SHARES if theme.ascii else FROM_BELOW)[eighths]
    paint_gaps(local, [line], cells, ground, busy[np.newaxis], telling)
    field.put_lines(cells, np.array([y], dtype=np.int64))
