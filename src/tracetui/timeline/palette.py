"""Colours: one name, one colour, and the themes that give everything else its own.

Colours are numbers of the xterm palette (0..255), so that a picture looks the same with 256 colours and with
millions, and takes few bytes to send. Bars keep their colour in every theme with 256 colours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from zlib import crc32

import numpy as np
import numpy.typing as npt

from tracetui.timeline.canvas import INK, PAPER
from tracetui.trace.model import DEVICE_WORK, Kind, Trace

_COOL = (75, 110, 74, 73, 69, 104, 141, 72, 140, 39, 105, 111)
_WARM = (143, 173, 107, 175, 71, 209, 137, 176, 208, 149, 174, 170)
_AMBER = (179, 137, 143, 180, 136, 144)
_SOFT = (103, 109, 139, 108, 138, 146)

FAMILIES: Mapping[Kind, tuple[int, ...]] = {
    Kind.CPU_OP: _COOL,
    Kind.ANNOTATION: _SOFT,
    Kind.GPU_ANNOTATION: _SOFT,
    Kind.PYTHON: (108, 65, 109, 66, 72, 101),
    Kind.RUNTIME: _AMBER,
    Kind.OVERHEAD: (138, 131),
    Kind.KERNEL: _WARM,
    Kind.MEMCPY: (220,),
    Kind.MEMSET: (178,),
    Kind.SYNC: (95, 131),
    Kind.SPAN: (102,),
    Kind.OTHER: _COOL,
}
"""The hues that the names of a kind share out among themselves."""

_SAFE = (74, 208, 79, 175, 220, 69, 173, 116)
"""Colours that stay apart for people with any of the common colour blindnesses (after Okabe and Ito)."""

MANY: Mapping[Kind, int] = {
    Kind.CPU_OP: 67,
    Kind.ANNOTATION: 60,
    Kind.GPU_ANNOTATION: 60,
    Kind.PYTHON: 65,
    Kind.RUNTIME: 94,
    Kind.OVERHEAD: 95,
    Kind.KERNEL: 64,
    Kind.MEMCPY: 136,
    Kind.MEMSET: 136,
    Kind.SYNC: 95,
    Kind.SPAN: 60,
    Kind.OTHER: 67,
}
"""A cell with many events of which none prevails."""


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
    families: Mapping[Kind, tuple[int, ...]] = field(default_factory=lambda: FAMILIES)
    many: Mapping[Kind, int] = field(default_factory=lambda: MANY)
    plain: bool = False
    """No colours at all: bars are reversed, and neighbours are told apart by a line."""
    ascii: bool = False


DARK = Theme("dark", True, 233, 252, 245, 239, 234, 231, 229, 207, 167, 51, 214, 236, 239, 71)
LIGHT = Theme("light", False, 255, 235, 242, 249, 254, 16, 238, 163, 160, 27, 166, 251, 250, 71)
HIGH_CONTRAST = Theme("high-contrast", True, 16, 231, 252, 244, 16, 231, 226, 201, 196, 51, 214, 237, 240, 46)
COLOUR_BLIND = Theme(
    "colour-blind",
    True,
    233,
    252,
    245,
    239,
    234,
    231,
    229,
    207,
    203,
    51,
    214,
    236,
    239,
    74,
    families=dict.fromkeys(Kind, _SAFE),
    many=dict.fromkeys(Kind, 102),
)
PLAIN = Theme(
    "plain",
    True,
    PAPER,
    INK,
    INK,
    INK,
    PAPER,
    INK,
    INK,
    INK,
    INK,
    INK,
    INK,
    PAPER,
    PAPER,
    INK,
    families=dict.fromkeys(Kind, (INK,)),
    many=dict.fromkeys(Kind, INK),
    plain=True,
)
SIXTEEN = Theme(
    "16-colour",
    True,
    0,
    7,
    7,
    8,
    0,
    15,
    11,
    13,
    9,
    14,
    11,
    8,
    8,
    2,
    families={
        **dict.fromkeys(Kind, (4, 6, 12)),
        Kind.KERNEL: (2, 10, 3),
        Kind.RUNTIME: (3,),
        Kind.MEMCPY: (11,),
        Kind.MEMSET: (3,),
        Kind.OVERHEAD: (5,),
        Kind.SYNC: (5,),
    },
    many={**dict.fromkeys(Kind, 6), Kind.KERNEL: 2, Kind.RUNTIME: 3},
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
        self.many = np.array([theme.many[Kind(k)] for k in range(len(Kind))], dtype=np.int16)

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


def hexadecimal(colour: int) -> str:
    """A colour as "#rrggbb"."""
    return "#{:02x}{:02x}{:02x}".format(*rgb(colour))


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


def is_device_work(kind: int) -> bool:
    """Whether events of a kind keep a device busy."""
    return kind in DEVICE_WORK
