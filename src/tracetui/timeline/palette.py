"""Colours: one name, one colour, and the themes that give everything else its own.

Colours are numbers of the xterm palette (0..255), so that a picture looks the same with 256 colours and with
millions, and takes few bytes to send. Bars keep their colour in every theme with 256 colours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from zlib import crc32

import numpy as np
import numpy.typing as npt

from tracetui.timeline.canvas import INK, PAPER
from tracetui.trace.model import Kind, Trace

_COOL = (75, 110, 74, 73, 69, 104, 141, 72, 140, 39, 105, 111)
_WARM = (143, 173, 107, 175, 71, 209, 137, 176, 208, 70, 174, 170)
_AMBER = (179, 180, 172, 181)
_SOFT = (103, 109, 139, 108, 138, 146)

FAMILIES: Mapping[Kind, tuple[int, ...]] = {
    Kind.CPU_OP: _COOL,
    Kind.ANNOTATION: _SOFT,
    Kind.GPU_ANNOTATION: _SOFT,
    Kind.PYTHON: (108, 65, 109, 66, 72, 101),
    Kind.RUNTIME: _AMBER,
    Kind.OVERHEAD: (138, 131),
    Kind.KERNEL: _WARM,
    Kind.MEMCPY: (178,),
    Kind.MEMSET: (136,),
    Kind.SYNC: (95, 131),
    Kind.SPAN: (102,),
    Kind.OTHER: _COOL,
}
"""The hues that the names of a kind share out among themselves."""

_SAFE = (74, 208, 79, 175, 69, 173, 116, 139)
"""Colours that stay apart for people with any of the common colour blindnesses (after Okabe and Ito)."""


@dataclass(frozen=True, slots=True, eq=False)
class Theme:
    """Every colour and glyph choice of a picture. Numbers as in `Canvas`."""

    name: str
    dark: bool
    paper: int
    """Behind the lanes."""
    text: int
    dim: int
    """Text that may stay in the background: ruler, labels of folded lanes."""
    line: int
    """Rules and grid."""
    frame: int
    """Behind ruler, overview and labels."""
    selected: int
    same: int
    """Bars named like the selected one."""
    hint: int
    """Crowded cells that hold one of those, among others."""
    match: int
    gap: int
    flow: int
    mark: int
    band: int
    """Behind a selected range."""
    window: int
    """Behind the part of the overview that is on the screen."""
    busy: int
    """Busy share in the overview and on a device's own line."""
    many: int
    """Crowded cells of a thread in which no name prevails."""
    many_device: int
    """The same on a device."""
    families: Mapping[Kind, tuple[int, ...]] = field(default_factory=lambda: FAMILIES)
    plain: bool = False
    """No colours at all: bars are reversed, and neighbours are told apart by a line."""
    ascii: bool = False


DARK = Theme(
    name="dark",
    dark=True,
    paper=233,
    text=252,
    dim=245,
    line=239,
    frame=234,
    selected=231,
    same=229,
    hint=144,
    match=207,
    gap=167,
    flow=51,
    mark=214,
    band=236,
    window=239,
    busy=35,
    many=67,
    many_device=100,
)
LIGHT = Theme(
    name="light",
    dark=False,
    paper=255,
    text=235,
    dim=241,
    line=249,
    frame=254,
    selected=16,
    same=238,
    hint=244,
    match=163,
    gap=160,
    flow=27,
    mark=130,
    band=251,
    window=250,
    busy=35,
    many=67,
    many_device=100,
)
HIGH_CONTRAST = replace(
    DARK,
    name="high-contrast",
    paper=16,
    text=231,
    dim=252,
    line=244,
    frame=16,
    same=226,
    hint=187,
    match=201,
    gap=203,
    band=238,
    window=241,
    busy=46,
    many=153,
    many_device=186,
)
COLOUR_BLIND = replace(
    DARK,
    name="colour-blind",
    gap=203,
    busy=110,
    many=67,
    many_device=137,
    families=dict.fromkeys(Kind, _SAFE),
)
PLAIN = Theme(
    name="plain",
    dark=True,
    paper=PAPER,
    text=INK,
    dim=INK,
    line=INK,
    frame=PAPER,
    selected=INK,
    same=INK,
    hint=INK,
    match=INK,
    gap=INK,
    flow=INK,
    mark=INK,
    band=PAPER,
    window=PAPER,
    busy=INK,
    many=INK,
    many_device=INK,
    families=dict.fromkeys(Kind, (INK,)),
    plain=True,
)
SIXTEEN = Theme(
    name="16-colour",
    dark=True,
    paper=0,
    text=7,
    dim=7,
    line=8,
    frame=0,
    selected=15,
    same=11,
    hint=3,
    match=13,
    gap=9,
    flow=14,
    mark=11,
    band=8,
    window=8,
    busy=2,
    many=6,
    many_device=2,
    families={
        **dict.fromkeys(Kind, (4, 6, 12)),
        Kind.KERNEL: (2, 10, 3),
        Kind.RUNTIME: (3,),
        Kind.MEMCPY: (11,),
        Kind.MEMSET: (3,),
        Kind.OVERHEAD: (5,),
        Kind.SYNC: (5,),
    },
)

THEMES: Mapping[str, Theme] = {
    theme.name: theme for theme in (DARK, LIGHT, HIGH_CONTRAST, COLOUR_BLIND, PLAIN, SIXTEEN)
}


@lru_cache(maxsize=65536)
def colour_of_name(name: str, kind: Kind, theme: Theme) -> int:
    """The colour of a name: the same in every run, every trace and every table."""
    family = theme.families[kind]
    return family[crc32(name.encode("utf-8", "replace")) % len(family)]


class Palette:
    """The colours of a trace's names under a theme.

    A name takes its hue from the kind of its first event (annotations have one name on CPU and GPU).
    """

    def __init__(self, trace: Trace, theme: Theme) -> None:
        self.theme = theme
        self._names = trace.names
        kinds = np.zeros(len(trace.names), dtype=np.int8)
        kinds[trace.name[::-1]] = trace.kind[::-1]
        self._kinds = kinds
        self.colours: npt.NDArray[np.int16] = np.full(len(trace.names), -1, dtype=np.int16)
        """By name; -1 for one that nobody asked for yet."""

    def of(self, names: npt.NDArray[np.int32]) -> npt.NDArray[np.int16]:
        """Colours of names, in the same shape."""
        found: npt.NDArray[np.int16] = self.colours[names]
        if (found < 0).any():
            for name in np.unique(names[found < 0]).tolist():
                self.colours[name] = self.colour_of(name)
            found = self.colours[names]
        return found

    def colour_of(self, name: int) -> int:
        """The colour of one name."""
        return colour_of_name(self._names[name], Kind(int(self._kinds[name])), self.theme)

    def text_on(self, colours: npt.NDArray[np.int16]) -> npt.NDArray[np.int16]:
        """Black or white (or the paper's own near-black), whichever reads better on a background."""
        found: npt.NDArray[np.int16] = _text_table(self.theme)[colours]
        return found


@lru_cache(maxsize=16)
def _text_table(theme: Theme) -> npt.NDArray[np.int16]:
    dark, light = (theme.paper, 231) if theme.dark else (16, theme.paper)
    if theme.plain:
        dark = light = PAPER
    elif theme.paper < 16:
        dark, light = 0, 15
    table = np.full(INK + 1, dark, dtype=np.int16)
    for colour in range(256):
        table[colour] = dark if contrast(colour, dark) >= contrast(colour, light) else light
    table[PAPER] = INK
    table[INK] = PAPER
    return table


def rgb(colour: int) -> tuple[int, int, int]:
    """Red, green and blue (0..255) of a number of the xterm palette."""
    if colour < 16:
        if colour == 7:
            return (192, 192, 192)
        if colour == 8:
            return (128, 128, 128)
        level = 255 if colour > 8 else 128
        return tuple(level if colour >> bit & 1 else 0 for bit in range(3))  # type: ignore[return-value]
    if colour >= 232:
        grey = 8 + 10 * (colour - 232)
        return (grey, grey, grey)
    steps = (0, 95, 135, 175, 215, 255)
    colour -= 16
    return (steps[colour // 36], steps[colour // 6 % 6], steps[colour % 6])


def contrast(a: int, b: int) -> float:
    """The contrast of two colours as WCAG defines it: 1 to 21."""
    first, second = sorted((_luminance(a), _luminance(b)))
    return (second + 0.05) / (first + 0.05)


@lru_cache(maxsize=256)
def _luminance(colour: int) -> float:
    def linear(value: int) -> float:
        share = value / 255
        return share / 12.92 if share <= 0.03928 else float(((share + 0.055) / 1.055) ** 2.4)

    red, green, blue = map(linear, rgb(colour))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
