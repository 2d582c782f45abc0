"""`--ascii`: every character that is drawn outside of the timeline made one that any terminal has."""

from __future__ import annotations

from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

from tracetui.ascii_fallback import ASCII_FALLBACKS

_TABLE = str.maketrans(ASCII_FALLBACKS)


def to_ascii(text: str) -> str:
    """The text in ASCII, with as many cells."""
    if text.isascii():
        return text
    text = text.translate(_TABLE)
    return text if text.isascii() else "".join(c if c.isascii() else "?" * cell_len(c) for c in text)


class AsciiFilter(LineFilter):
    """Makes what widgets draw ASCII."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [Segment(to_ascii(text), style, control) for text, style, control in segments]
