"""How the trace screen looks: colours of the widgets, columns, what is said where."""

from __future__ import annotations

import numpy as np
from rich.style import Style
from textual.theme import Theme

from tracetui.timeline import themes as palette
from tracetui.tui.tables import drawing
from tracetui.tui.tables.model import Column
from tracetui.tui.tables.times import time_column
from tracetui.tui.themes import PALETTES, SIXTEEN, THEMES, palette_of


def test_every_theme_has_the_timeline_colours_that_go_with_it() -> None:
    assert set(THEMES) == set(PALETTES)
    for name, theme in THEMES.items():
        assert theme.dark == palette_of(name, 256, False).dark
        for colour in (theme.accent, theme.foreground, theme.warning, theme.error):
            assert colour is not None
            assert contrast(colour, theme.panel or "") >= 4.5, (name, colour)
            assert contrast(colour, theme.background or "") >= 4.5, (name, colour)
        readable(name, {**app_colours(theme), **theme.variables})
    readable("16 colours", {**SIXTEEN, "primary": "#000080"})
    assert palette_of("light", 0, False) is palette.PLAIN
    assert palette_of("dark", 16, True).ascii


def app_colours(theme: Theme) -> dict[str, str]:
    names = ("primary", "accent", "warning", "error", "foreground", "background", "surface", "panel")
    return {name: getattr(theme, name) for name in names}


def readable(name: str, colours: dict[str, str]) -> None:
    """Every pair of text and background that a widget uses."""
    backgrounds = ("background", "surface", "panel")
    texts = ("foreground", "text-muted", "accent", "warning", "error")
    pairs = [(text, back) for text in texts for back in backgrounds]
    pairs += [(f"block-cursor{b}-foreground", f"block-cursor{b}-background") for b in ("", "-blurred")]
    for text, back in pairs:
        assert contrast(colours[text], colours[back]) >= 4.5, (name, text, back)
    # The cursor is seen where the keys go to it, and where they do not.
    assert contrast(colours["block-cursor-blurred-background"], colours["background"]) >= 1.4, name
    both = (colours["block-cursor-blurred-background"], colours["block-cursor-background"])
    assert both[0] != both[1]


def contrast(a: str, b: str) -> float:
    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


# Tables


def test_times_of_a_column_have_one_unit_and_line_up() -> None:
    values = np.array([1_234_567, 0, 999, 60_000_000_001], dtype=np.int64)
    column = time_column("t", "Self GPU", lambda r: int(values[r]), lambda: values)
    assert [column.text(r) for r in range(4)] == ["1,234.567", "-", "0.999", "60,000,000.001"]
    assert (column.title, column.width) == ("Self GPU µs", len("60,000,000.001"))
    longer = time_column("t", "T", lambda r: int(values[r]) * 2, lambda: values * 2)
    assert [longer.title, longer.text(0), longer.text(3)] == ["T ms", "2.469", "120,000.000"]
    averages = time_column("t", "T", lambda r: 1234.5678, lambda: np.array([1234.5678]), zero="0")
    assert averages.text(0) == "1.235"
    nothing = time_column("t", "T", lambda r: 0, lambda: np.zeros(0, dtype=np.int64))
    assert nothing.width == len("0.000")


def test_the_sign_of_the_order_takes_nothing_from_a_title() -> None:
    columns = [(Column("a", "Word", str, None, 8, False), 8), (Column("b", "Number", str, None, 6), 6)]
    plain = Style.null()
    assert drawing.header(columns, ("b", True), 1, 18, plain, plain).text == " Word    ▼Number  "
    assert drawing.header(columns, ("a", False), 2, 18, plain, plain).text == "  Word ▲   Number "
