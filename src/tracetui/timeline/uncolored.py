"""Without colors, highlights are shown by texture.

Bars are reversed, and underlined so that one row does not run into the next. The selection, its namesakes and
search matches are not reversed but filled, each with a texture of its own; a selected range is dotted.
"""

from __future__ import annotations

import numpy as np

from tracetui.timeline.canvas import INK, PAPER, UNDERLINE, Canvas
from tracetui.timeline.paint import ASCII_HAIRLINE, HAIRLINE
from tracetui.timeline.raster import Raster
from tracetui.timeline.scene import Local, Scene

SELECTED, ASCII_SELECTED = ord("═"), ord("=")
MATCH, ASCII_MATCH = ord("▒"), ord(":")
SAME, ASCII_SAME = ord("░"), ord("-")
MATCH_HAIRLINE, ASCII_MATCH_HAIRLINE = ord("║"), ord("!")
RANGE, ASCII_RANGE = ord("·"), ord(".")


def tell_bars_apart(local: Local, shares: Raster, cells: Canvas) -> None:
    """Fill highlighted bars and underline the others, before the names are written."""
    ascii, source, trace = local.theme.ascii, local.source, local.source.trace
    some = shares.count > 0
    solid = shares.full & (shares.count != 2)
    blank = solid & (cells.glyph == ord(" "))
    cells.attributes[blank] |= UNDERLINE
    if not len(trace):
        return
    same = some & (trace.name[shares.first] == source.same) if source.same >= 0 else np.zeros_like(some)
    match = some & source.matches[shares.first] if source.matches is not None else np.zeros_like(some)
    chosen = some & (shares.first == local.selected)
    for lit, texture in (
        (same & ~match & ~chosen, ASCII_SAME if ascii else SAME),
        (match & ~chosen, ASCII_MATCH if ascii else MATCH),
        (chosen, ASCII_SELECTED if ascii else SELECTED),
    ):
        here = lit & blank
        cells.glyph[here] = texture
        cells.ink[here], cells.paper[here] = INK, PAPER
        cells.attributes[here] = 0
    hair = match & (cells.glyph == (ASCII_HAIRLINE if ascii else HAIRLINE))
    cells.glyph[hair] = ASCII_MATCH_HAIRLINE if ascii else MATCH_HAIRLINE


def dot_range(scene: Scene, field: Canvas) -> None:
    """Dot the empty cells of the selected range."""
    columns = scene.band_columns
    part = field.part(0, field.height, columns.start, columns.stop)
    free = (part.glyph == ord(" ")) & (part.paper == PAPER)
    part.glyph[free] = ASCII_RANGE if scene.theme.ascii else RANGE
