"""A color for each name, and readable text on it.

Colors are numbers of the xterm palette (0..255): pictures look the same with 256 and with millions of
colors, and take few bytes to send.
"""

from __future__ import annotations

from functools import lru_cache
from zlib import crc32

import numpy as np
import numpy.typing as npt

from tracetui.timeline.canvas import INK, PAPER
from tracetui.timeline.color import contrast
from tracetui.timeline.themes import Theme
from tracetui.trace.indices import first_of_names
from tracetui.trace.model import Kind, Trace


@lru_cache(maxsize=4096)
def color_of_name(name: str, kind: Kind, theme: Theme) -> int:
    """The color of a name: the same in every run, every trace and every table."""
    # Steps are the ground for all else: each with a hue of its own, they would stand out most.
    family = theme.families[Kind.SPAN if name.startswith("ProfilerStep#") else kind]
    return family[crc32(name.encode("utf-8", "replace")) % len(family)]


class Palette:
    """The colors of a trace's names under a theme.

    A name's hue depends on the kind of its first event (annotations have the same name on CPU and GPU).
    """

    def __init__(self, trace: Trace, theme: Theme) -> None:
        self.theme = theme
        self._trace, self._first = trace, first_of_names(trace)
        self.colors: npt.NDArray[np.int16] = np.full(len(trace.names), -1, dtype=np.int16)
        """By name; -1 if not looked up yet."""

    def of(self, names: npt.NDArray[np.int32]) -> npt.NDArray[np.int16]:
        """Colors of names, in the same shape."""
        found: npt.NDArray[np.int16] = self.colors[names]
        if (found < 0).any():
            for name in sorted(set(names[found < 0].tolist())):
                self.colors[name] = self.color_of(name)
            found = self.colors[names]
        return found

    def color_of(self, name: int) -> int:
        """The color of one name."""
        first = int(self._first[name])
        kind = Kind(int(self._trace.kind[first]) if first >= 0 else 0)
        return color_of_name(self._trace.names[name], kind, self.theme)

    def text_on(self, colors: npt.NDArray[np.int16]) -> npt.NDArray[np.int16]:
        """Black or white (or the paper's own near-black), whichever reads better on a background."""
        found: npt.NDArray[np.int16] = _text_table(self.theme)[colors]
        return found


@lru_cache(maxsize=16)
def _text_table(theme: Theme) -> npt.NDArray[np.int16]:
    dark, light = (theme.paper, 231) if theme.dark else (16, theme.paper)
    if theme.plain:
        dark = light = PAPER
    elif theme.paper < 16:
        dark, light = 0, 15
    table = np.full(INK + 1, dark, dtype=np.int16)
    for color in range(256):
        table[color] = dark if contrast(color, dark) >= contrast(color, light) else light
    table[PAPER] = INK
    table[INK] = PAPER
    return table
