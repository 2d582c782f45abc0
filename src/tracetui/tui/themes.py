"""The app's themes, each with the timeline's colours that go with it.

Colours are those of the xterm palette: a terminal with 256 of them shows what one with millions shows.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

from textual.theme import Theme

from tracetui.timeline import themes as palette
from tracetui.timeline.themes import Theme as Palette


def _theme(
    name: str, dark: bool, *, muted: str, cursor: tuple[str, str], row: str, bar: str, **colours: str
) -> Theme:
    """`muted`: text of less interest; `cursor`: a table's row where the keys go there, as (background, text);
    `row`: the background of that row where they do not; `bar`: scroll bars."""
    variables = {
        "text-muted": muted,
        "block-cursor-background": cursor[0],
        "block-cursor-foreground": cursor[1],
        "block-cursor-blurred-background": row,
        "block-cursor-blurred-foreground": colours["foreground"],
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
            muted="#9e9e9e",
            cursor=("#005f87", "#ffffff"),
            row="#3a3a3a",
            bar="#6c6c6c",
        ),
        _theme(
            "light",
            False,
            primary="#005f87",
            accent="#005faf",
            warning="#875f00",
            error="#af0000",
            foreground="#262626",
            background="#ffffff",
            surface="#eeeeee",
            panel="#e4e4e4",
            muted="#585858",
            cursor=("#005f87", "#ffffff"),
            row="#d0d0d0",
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
            muted="#d0d0d0",
            cursor=("#ffff00", "#000000"),
            row="#4e4e4e",
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
            muted="#9e9e9e",
            cursor=("#005faf", "#ffffff"),
            row="#3a3a3a",
            bar="#6c6c6c",
        ),
    )
}

SIXTEEN: Mapping[str, str] = {
    "foreground": "#c0c0c0",
    "background": "#000000",
    "surface": "#000000",
    "panel": "#000000",
    "accent": "#ffff00",
    "warning": "#ffff00",
    "error": "#ffff00",
    "text-muted": "#c0c0c0",
    "block-cursor-background": "#c0c0c0",
    "block-cursor-foreground": "#000000",
    "block-cursor-blurred-background": "#808080",
    "block-cursor-blurred-foreground": "#000000",
    "scrollbar": "#c0c0c0",
    "scrollbar-background": "#000000",
}
"""What a terminal of 16 colours has, in place of any theme's: mixed shades would all become one. Black lies
behind all text: what the other dark colours are is up to the terminal."""

_INKS = ("primary", "foreground", "accent", "warning", "error", "text-muted", "scrollbar")
_PAPERS = ("background", "surface", "surface-lighten-1", "panel", "scrollbar-background")
NONE: Mapping[str, str] = {
    **dict.fromkeys(_INKS, "#ffffff"),
    **dict.fromkeys(_PAPERS, "#000000"),
    "block-cursor-background": "#ffffff",
    "block-cursor-foreground": "#000000",
    "block-cursor-blurred-background": "#000000",
    "block-cursor-blurred-foreground": "#ffffff",
    "input-selection-background": "#ffffff",
}
"""Where no colours are wanted, in place of any theme's: what has white behind it is sent reversed."""

ABOUT: Mapping[str, str] = {
    "dark": "a dark terminal",
    "light": "a light terminal, a projector",
    "high-contrast": "eyes or screens that need strong contrast",
    "colour-blind": "eyes that mix up red and green",
}
"""What each theme is for."""

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
