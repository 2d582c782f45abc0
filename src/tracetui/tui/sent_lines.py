"""What the terminal was sent last, line by line, so that a repaint sends only the lines that differ.

Textual paints everything for every screen that opens or closes, and again for each change of its layout: two
to four times the same lines.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.control import Control
from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate
from textual.strip import Strip


class SentLines:
    """The lines of the screen as they were sent; those that are not known are sent whatever they are."""

    def __init__(self) -> None:
        self.width = 0
        self.lines: dict[int, str] = {}

    def forget(self) -> None:
        """The terminal may show something else by now: the next repaint sends every line that it draws."""
        self.lines.clear()

    def only_new(self, update: Any, width: int) -> Any:
        """The update of a screen of `width` cells, less the lines that the terminal shows already."""
        if width != self.width:
            self.width = width
            self.forget()
        if isinstance(update, LayoutUpdate) and update.region.x == 0:
            return _Changed(self, list(enumerate(update.strips, update.region.y)), None)
        if not isinstance(update, ChopsUpdate):
            return update
        whole: list[tuple[int, Iterable[Strip]]] = []
        parts: list[tuple[int, int, int]] = []
        for y, left, right in update.spans:
            strips = [strip for strip in update.chops[y].values() if strip is not None]
            if left <= 0 and right >= width and len(strips) == len(update.chops[y]):
                whole.append((y, strips))
            else:
                parts.append((y, left, right))
                self.lines.pop(y, None)
        rest = ChopsUpdate(update.chops, parts, update.chop_ends) if parts else None
        return _Changed(self, whole, rest)


class _Changed(CompositorUpdate):
    """Whole lines, of which those are sent that differ from what was sent, and parts of others."""

    def __init__(
        self, sent: SentLines, lines: list[tuple[int, Iterable[Strip]]], rest: ChopsUpdate | None
    ) -> None:
        self.sent, self.lines, self.rest = sent, lines, rest

    def render_segments(self, console: Console) -> str:
        shown = self.sent.lines
        parts: list[str] = []
        for y, strips in self.lines:
            text = "".join([strip.render(console) for strip in strips])
            if shown.get(y) != text:
                shown[y] = text
                parts += (Control.move_to(0, y).segment.text, text)
        if self.rest is not None:
            parts.append(self.rest.render_segments(console))
        return "".join(parts)
