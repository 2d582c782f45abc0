"""The filters that every drawn line passes through with `--ascii` and with `NO_COLOR`.

Textual's own filter for `NO_COLOR` turns colors into grays, which may not suit the terminal's background.
"""

from __future__ import annotations

from functools import lru_cache

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter

from tracetui.core.ascii_fallback import ASCII_FALLBACKS

_TABLE = str.maketrans(ASCII_FALLBACKS)
LIGHT = 128
"""Text on a background at least this bright (0..255) is shown reversed."""


def to_ascii(text: str) -> str:
    """The text in ASCII, as wide as before."""
    if text.isascii():
        return text
    text = text.translate(_TABLE)
    return text if text.isascii() else "".join(c if c.isascii() else "?" * cell_len(c) for c in text)


class AsciiFilter(LineFilter):
    """Turns what widgets draw into ASCII. (The timeline does that itself.)"""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [Segment(to_ascii(text), style, control) for text, style, control in segments]


@lru_cache(maxsize=1024)
def without_colors(style: Style) -> Style:
    """A style without colors and italics, reversed if its background is light."""
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


class Colorless(LineFilter):
    """Removes the colors from what widgets draw; bold, dim, underline and reverse remain."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [
            Segment(text, None if style is None else without_colors(style), control)
            for text, style, control in segments
        ]
