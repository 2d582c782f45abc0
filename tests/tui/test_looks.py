"""How the trace screen looks: colours of the widgets, columns, what is said where."""

from __future__ import annotations

from textual.theme import Theme

from tracetui.timeline import themes as palette
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
