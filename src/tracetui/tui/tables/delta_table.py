"""A table's lines as strips that send only the cells that changed on the terminal."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.color import Color, ColorSystem
from rich.segment import Segment
from rich.style import Style
from textual.app import App
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from tracetui.timeline.canvas import BOLD, DIM, INK, ITALIC, PAPER, UNDERLINE, Packed, code_points
from tracetui.timeline.color import rgb
from tracetui.tui.filters import AsciiFilter
from tracetui.tui.textual_private import filters
from tracetui.tui.timeline.delta_strips import Board, DeltaStrip

if TYPE_CHECKING:
    from typing_extensions import Self

_NUMBERS = {rgb(number): number for number in range(16, 256)}


def can_send_deltas(app: App[Any]) -> bool:
    """Whether these strips can be used: they need 256 colors, and bypass the app's filters."""
    colors = app.console.color_system in ("256", "truecolor") and not app.no_color
    return colors and not any(isinstance(f, AsciiFilter) for f in filters(app))


def packed(segments: Iterable[Segment], width: int) -> Packed:
    """Segments as a canvas's packed cells, shape (width,), padded with blanks."""
    cells = np.full(width, ord(" ") << 24 | number_of(Style.null()), dtype=np.int64)
    at = 0
    for text, style, _ in segments:
        codes = code_points(text)[: width - at]
        cells[at : at + len(codes)] = codes.astype(np.int64) << 24 | number_of(style or Style.null())
        at += len(codes)
    return cells


@lru_cache(maxsize=1024)
def number_of(style: Style) -> int:
    """A Rich style as a canvas's style number."""
    attributes = (
        (BOLD if style.bold else 0)
        | (UNDERLINE if style.underline else 0)
        | (DIM if style.dim else 0)
        | (ITALIC if style.italic else 0)
    )
    ink, paper = _color(style.color, INK), _color(style.bgcolor, PAPER)
    return ink | paper << 9 | attributes << 18


def _color(color: Color | None, default: int) -> int:
    if color is None or color.is_default:
        return default
    if color.number is not None:
        return color.number
    red, green, blue = color.get_truecolor()
    found = _NUMBERS.get((red, green, blue))
    if found is None:
        found = color.downgrade(ColorSystem.EIGHT_BIT).number
    return default if found is None else found


class DeltaLines(Widget):
    """A borderless widget that draws with `render_line`; call `redraw` when a line has changed."""

    _board: Board | None = None
    _drawn: list[DeltaStrip] | None = None
    """The lines that `redraw` made; cleared by the next `refresh`."""
    _ground: Style | None = None

    @property
    def ground(self) -> Style:
        """`rich_style`, cached for all lines that are drawn together, because Textual works it out each
        time."""
        if self._ground is None:
            self._ground = self.rich_style
        return self._ground

    def refresh(
        self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False
    ) -> Self:
        self._drawn = None
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)

    def redraw(self, lines: Collection[int] | None = None) -> None:
        """Send the cells that have changed. `lines`: the only lines that can have changed; None if any may
        have."""
        width, height = self.size
        if not self.is_attached or not width or not can_send_deltas(self.app):
            self.refresh()
            return
        made, self._ground = self._drawn, None
        if lines is None or made is None or len(made) != height or made[0].cell_length != width:
            lines, made = range(height), [self._delta(y, width, height) for y in range(height)]
        else:
            lines = [y for y in lines if 0 <= y < height]
            for y in lines:
                made[y] = self._delta(y, width, height)
        regions = [Region(0, y, made[y].end, 1) for y in lines if made[y].end]
        if regions:
            self.refresh(*regions)
        self._drawn = made

    def render_lines(self, crop: Region) -> list[Strip]:
        self._ground = None
        if not can_send_deltas(self.app):
            return super().render_lines(crop)
        width, height = self.size
        made = self._drawn
        if made is not None and len(made) == height and made[0].cell_length == width:
            strips = made[crop.y : crop.bottom]
        else:
            strips = [self._delta(y, width, height) for y in range(crop.y, min(crop.bottom, height))]
        if crop.x == 0 and crop.width >= width:
            return list(strips)
        return [strip.piece(crop.x, crop.right) for strip in strips]

    def _delta(self, y: int, width: int, height: int) -> DeltaStrip:
        if self._board is None or len(self._board.lines) != height:
            self._board = Board(height)
        return DeltaStrip(packed(self.render_line(y), width), y, self._board)
