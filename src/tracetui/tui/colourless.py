"""`NO_COLOR`: what widgets draw without any colour, in bold, underlined, dim or reversed.

Textual's own filter turns colours into greys, which the terminal's background need not suit.
"""

from __future__ import annotations

from functools import lru_cache

from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter

LIGHT = 128
"""A background from this brightness on (0..255) stands out: its text is reversed."""


@lru_cache(maxsize=1024)
def without_colours(style: Style) -> Style:
    """A style less its colours and italics; reversed where its background is a light one."""
    reverse = bool(style.reverse)
    if style.bgcolor is not None and not style.bgcolor.is_default:
        red, green, blue = style.bgcolor.get_truecolor()
        reverse ^= 0.3 * red + 0.59 * green + 0.11 * blue >= LIGHT
    plain = Style(
        bold=style.bold or None,
        dim=style.dim or None,
        underline=style.underline or None,
        reverse=reverse or None,
    )
    return plain + Style.from_meta(style.meta) if style.meta else plain


class Colourless(LineFilter):
    """Takes the colours out of what widgets draw."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [
            Segment(text, None if style is None else without_colours(style), control)
            for text, style, control in segments
        ]
