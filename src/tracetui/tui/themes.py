"""The app's themes, and the timeline's colors for each.

All colors are in the xterm palette: a terminal with 256 colors shows the same as one with millions.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from textual.theme import Theme

from tracetui.core.copying import replace
from tracetui.timeline import themes as palette
from tracetui.timeline.themes import Theme as Palette

_COLORS: Mapping[str, tuple[str, str, str, str]] = {
    # role: dark, light, high-contrast, color-blind
    "primary": ("#5f87af", "#005f87", "#ffffff", "#5f87af"),
    "accent": ("#ffaf5f", "#005faf", "#ffff00", "#87d7ff"),
    "warning": ("#ffaf00", "#875f00", "#ffff00", "#ffd75f"),
    "error": ("#ff5f5f", "#af0000", "#ff8787", "#ff8700"),
    "foreground": ("#d0d0d0", "#262626", "#ffffff", "#d0d0d0"),
    "background": ("#121212", "#ffffff", "#000000", "#121212"),
    "surface": ("#1c1c1c", "#eeeeee", "#000000", "#1c1c1c"),
    "panel": ("#262626", "#e4e4e4", "#303030", "#262626"),
    # text of less interest, scroll bars
    "text-muted": ("#9e9e9e", "#585858", "#d0d0d0", "#9e9e9e"),
    "scrollbar": ("#6c6c6c", "#8a8a8a", "#ffffff", "#6c6c6c"),
    # a table's cursor row, with and without the focus
    "block-cursor-background": ("#005f87", "#005f87", "#ffff00", "#005faf"),
    "block-cursor-foreground": ("#ffffff", "#ffffff", "#000000", "#ffffff"),
    "block-cursor-blurred-background": ("#3a3a3a", "#d0d0d0", "#4e4e4e", "#3a3a3a"),
    # the parts of a step's time: what the device did, then why it was idle; in the dark theme as safe for
    # eyes that confuse red and green as in that of their own
    "success": ("#87d7ff", "#005f00", "#87ff00", "#87d7ff"),
    "part-compute": ("#5fafff", "#5f8700", "#87d700", "#5fafff"),
    "part-communication": ("#af87d7", "#875faf", "#d7afff", "#af87d7"),
    "part-copies": ("#afaf87", "#878700", "#ffd75f", "#afaf87"),
    "part-initialisation": ("#878787", "#5f5f5f", "#b2b2b2", "#878787"),
    "part-profiler": ("#767676", "#767676", "#9e9e9e", "#767676"),
    "part-sync": ("#ffd787", "#af5f00", "#ffaf5f", "#ffd787"),
    "part-allocation": ("#d7af87", "#af5f87", "#ff87d7", "#d7af87"),
    "part-dispatch": ("#ff8700", "#d70000", "#ff5f5f", "#ff8700"),
    "part-host": ("#d7875f", "#af5f5f", "#ff8787", "#d7875f"),
    "part-launch": ("#ffaf5f", "#870000", "#ffafaf", "#ffaf5f"),
    "part-queued": ("#8787af", "#5f8787", "#afd7d7", "#8787af"),
    "part-back-to-back": ("#8a8a8a", "#808080", "#bcbcbc", "#8a8a8a"),
    "part-unlinked": ("#af8787", "#875f5f", "#d7afaf", "#af8787"),
    "part-graph-capture": ("#767676", "#767676", "#9e9e9e", "#767676"),
    "part-in-flight": ("#767676", "#767676", "#9e9e9e", "#767676"),
    "part-not-recorded": ("#767676", "#767676", "#9e9e9e", "#767676"),
    "part-ops": ("#5f87d7", "#005fd7", "#5fafff", "#5f87d7"),
    "part-data-loading": ("#d7af5f", "#878700", "#ffd75f", "#d7af5f"),
    "part-outside-ops": ("#878787", "#767676", "#b2b2b2", "#878787"),
}
_FIELDS = ("primary", "accent", "warning", "error", "foreground", "background", "surface", "panel")
"""The roles that are fields of Textual's `Theme`; the others are variables of it."""


def _theme(column: int, name: str) -> Theme:
    colors = {role: row[column] for role, row in _COLORS.items()}
    variables = {role: color for role, color in colors.items() if role not in _FIELDS}
    variables["block-cursor-blurred-foreground"] = colors["foreground"]
    variables["scrollbar-background"] = colors["surface"]
    theme = Theme(name, colors["primary"], dark=name != "light", variables=variables)
    for field in _FIELDS:
        setattr(theme, field, colors[field])
    return theme


THEMES: Mapping[str, Theme] = {
    name: _theme(n, name) for n, name in enumerate(("dark", "light", "high-contrast", "color-blind"))
}

SIXTEEN: Mapping[str, str] = {
    **dict.fromkeys(("foreground", "text-muted", "scrollbar", "block-cursor-background"), "#c0c0c0"),
    **dict.fromkeys(("background", "surface", "panel", "scrollbar-background"), "#000000"),
    **dict.fromkeys(("block-cursor-foreground", "block-cursor-blurred-foreground"), "#000000"),
    **dict.fromkeys(("accent", "warning", "error"), "#ffff00"),
    "block-cursor-blurred-background": "#808080",
}
"""Used instead of any theme's colors if the terminal has 16 colors: mixed shades would all become the same
one. The background is always black: the look of the other dark colors is up to the terminal."""

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
"""Used instead of any theme's colors with NO_COLOR: text on white is sent reversed."""

ABOUT: Mapping[str, str] = {
    "dark": "for a dark terminal",
    "light": "for a light terminal or a projector",
    "high-contrast": "for eyes or screens that need strong contrast",
    "color-blind": "for eyes that confuse red and green",
}
"""The purpose of each theme."""


def palette_of(theme: str, colors: int, ascii: bool) -> Palette:
    """The timeline's theme for an app's theme, on a terminal with this many colors (0: none)."""
    found = palette.THEMES.get(theme, palette.DARK)
    if colors == 0:
        found = palette.PLAIN
    elif colors <= 16:
        found = palette.SIXTEEN
    return replace(found, ascii=True) if ascii else found


def default_theme(environment: Mapping[str, str] = os.environ) -> str:
    """Light if the terminal says that its background is (`COLORFGBG`, set by rxvt and Konsole), else dark."""
    background = environment.get("COLORFGBG", "").rpartition(";")[2]
    return "light" if background in ("7", "15") else "dark"
