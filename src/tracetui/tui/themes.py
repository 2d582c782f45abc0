"""The app's themes, each with the timeline's colours that go with it.

Colours are those of the xterm palette: a terminal with 256 of them shows what one with millions shows.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

from textual.theme import Theme

from tracetui.timeline import palette
from tracetui.timeline.palette import Theme as Palette


def _theme(name: str, dark: bool, *, cursor: tuple[str, str], bar: str, **colours: str) -> Theme:
    variables = {
        "block-cursor-background": cursor[0],
        "block-cursor-foreground": cursor[1],
        "scrollbar": bar,
        "scrollbar-background": colours["surface"],
    }
    theme = Theme(name, colours.pop("primary"), dark=dark, variables=variables)
    return replace(theme, **colours)  # type: ignore[arg-type]


THEMES: Mapping[str, Theme] = {
    theme.name: theme
    for theme in (
        _theme(
            "dark",
            True,
            primary="#5f87af",
            accent="#ffaf5f",
            warning="#ffaf00",
            error="#ff5f5f",
            foreground="#d0d0d0",
            background="#121212",
            surface="#1c1c1c",
            panel="#262626",
            cursor=("#005f87", "#ffffff"),
            bar="#6c6c6c",
        ),
        _theme(
            "light",
            False,
            primary="#005f87",
            accent="#005faf",
            warning="#5f5f00",
            error="#af0000",
            foreground="#262626",
            background="#eeeeee",
            surface="#e4e4e4",
            panel="#dadada",
            cursor=("#005f87", "#ffffff"),
            bar="#8a8a8a",
        ),
        _theme(
            "high-contrast",
            True,
            primary="#ffffff",
            accent="#ffff00",
            warning="#ffff00",
            error="#ff8787",
            foreground="#ffffff",
            background="#000000",
            surface="#000000",
            panel="#303030",
            cursor=("#ffff00", "#000000"),
            bar="#ffffff",
        ),
        _theme(
            "colour-blind",
            True,
            primary="#5f87af",
            accent="#87d7ff",
            warning="#ffd75f",
            error="#ff8700",
            foreground="#d0d0d0",
            background="#121212",
            surface="#1c1c1c",
            panel="#262626",
            cursor=("#005faf", "#ffffff"),
            bar="#6c6c6c",
        ),
    )
}

PALETTES: Mapping[str, Palette] = {
    "dark": palette.DARK,
    "light": palette.LIGHT,
    "high-contrast": palette.HIGH_CONTRAST,
    "colour-blind": palette.COLOUR_BLIND,
}


def palette_of(theme: str, colours: int, ascii: bool) -> Palette:
    """The timeline's theme for an app's theme on a terminal of so many colours (0: none)."""
    found = PALETTES.get(theme, palette.DARK)
    if colours == 0:
        found = palette.PLAIN
    elif colours <= 16:
        found = palette.SIXTEEN
    return replace(found, ascii=True) if ascii else found


def default_theme(environment: Mapping[str, str] = os.environ) -> str:
    """Light where the terminal says that its background is (`COLORFGBG`, which rxvt and Konsole set)."""
    background = environment.get("COLORFGBG", "").rpartition(";")[2]
    return "light" if background in ("7", "15") else "dark"
