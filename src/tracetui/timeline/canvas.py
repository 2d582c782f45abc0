"""The grid of cells that everything is painted on, and its lines as runs of one style."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from rich.cells import get_character_cell_size

from tracetui.core.ascii_fallback import ASCII_FALLBACKS
from tracetui.core.cells import clip

PAPER = 256
"""The terminal's own background; as a foreground: reversed text."""
INK = 257
"""The terminal's own text color; as a background: reversed."""

BOLD = 1
UNDERLINE = 2
DIM = 4
ITALIC = 8

WIDE = 0xFFFF
"""Fills the cell after a character that is two cells wide."""
_SPACE = ord(" ")

Codes = npt.NDArray[np.uint32]
Small = npt.NDArray[np.int16]
Packed = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]
Run = tuple[str, int]
"""Text, and the number of its style; see `unpack`."""


class Canvas(Struct, eq=False):
    """Cells of (code point, foreground, background, attributes). All arrays of shape (height, width).

    Colors are 0..255 of the xterm palette, PAPER or INK.
    """

    glyph: Codes
    ink: Small
    paper: Small
    attributes: Small

    @classmethod
    def blank(cls, width: int, height: int, ink: int, paper: int) -> Canvas:
        shape = (max(0, height), max(0, width))
        return cls(
            np.full(shape, _SPACE, dtype=np.uint32),
            np.full(shape, ink, dtype=np.int16),
            np.full(shape, paper, dtype=np.int16),
            np.zeros(shape, dtype=np.int16),
        )

    @property
    def width(self) -> int:
        return int(self.glyph.shape[1])

    @property
    def height(self) -> int:
        return int(self.glyph.shape[0])

    def part(self, top: int, bottom: int, left: int, right: int) -> Canvas:
        """A window on this canvas: painting it paints this one."""
        where = (slice(top, bottom), slice(left, right))
        return Canvas(self.glyph[where], self.ink[where], self.paper[where], self.attributes[where])

    def put_lines(self, other: Canvas, lines: npt.NDArray[np.int64]) -> None:
        """Replace some lines by those of another canvas, which is as wide."""
        self.glyph[lines], self.ink[lines] = other.glyph, other.ink
        self.paper[lines], self.attributes[lines] = other.paper, other.attributes

    def put(
        self,
        line: int,
        column: int,
        text: str,
        ink: int | None = None,
        paper: int | None = None,
        attributes: int | None = None,
    ) -> None:
        """Write text, cut at the edges of the canvas; None leaves a color unchanged."""
        if not 0 <= line < self.height or not text:
            return
        codes = code_points(text)
        if column < 0:
            codes, column = codes[-column:], 0
        codes = codes[: max(0, self.width - column)]
        if not len(codes):
            return
        if codes[-1] != WIDE and get_character_cell_size(chr(int(codes[-1]))) == 2:
            codes = np.append(codes[:-1], np.uint32(_SPACE))  # half a wide character: leave it out
        if codes[0] == WIDE:
            codes = np.append(np.uint32(_SPACE), codes[1:])
        cells = slice(column, column + len(codes))
        self.glyph[line, cells] = codes
        if ink is not None:
            self.ink[line, cells] = ink
        if paper is not None:
            self.paper[line, cells] = paper
        if attributes is not None:
            self.attributes[line, cells] = attributes

    def to_ascii(self) -> None:
        """Replace everything that is not ASCII; characters without a fallback become question marks."""
        for code in np.unique(self.glyph[self.glyph > 126]).tolist():
            self.glyph[self.glyph == code] = ord(ASCII_FALLBACKS.get(chr(code), "?"))

    def styles(self) -> npt.NDArray[np.int32]:
        """One number per cell for its colors and attributes; see `unpack`. Shape (height, width)."""
        paper, attributes = self.paper.astype(np.int32), self.attributes.astype(np.int32)
        return self.ink.astype(np.int32) | (paper << 9) | (attributes << 18)

    def packed(self) -> Packed:
        """One number per cell for everything it shows; see `runs`. Shape (height, width)."""
        return (self.glyph.astype(np.int64) << 24) | self.styles()

    def runs(self, line: int) -> list[Run]:
        """A line as runs, neighbors of one style in one run."""
        return runs(self.part(line, line + 1, 0, self.width).packed()[0])

    def text(self, line: int) -> str:
        """A line's characters alone."""
        return str(self.glyph[line].tobytes(), "utf-32-le").replace(chr(WIDE), "")


def unpack(style: int) -> tuple[int, int, int]:
    """A style number's (ink, paper, attributes)."""
    return style & 511, (style >> 9) & 511, style >> 18


def runs(cells: Packed) -> list[Run]:
    """Packed cells as runs. Shape of `cells`: (width,)."""
    return [run for run in runs_among(cells, np.ones(len(cells), np.bool_)) if not isinstance(run, int)]


def runs_among(cells: Packed, wanted: Bool) -> list[Run | int]:
    """Some of packed cells as runs; a number is a count of cells between them that are not wanted. Both of
    shape (width,)."""
    if not len(cells):
        return []
    text = str((cells >> 24).astype("<u4").tobytes(), "utf-32-le")
    style = cells & 0xFFFFFF
    cut = (style[1:] != style[:-1]) & wanted[1:]
    cut |= wanted[1:] != wanted[:-1]
    begins = np.append(0, np.flatnonzero(cut) + 1)
    at = begins.tolist()
    found: list[Run | int] = []
    before, other = "", -1  # the last run; without a style after cells that are not wanted
    for a, b, key, here in zip(
        at, [*at[1:], len(cells)], style[begins].tolist(), wanted[begins].tolist(), strict=True
    ):
        if not here:
            found.append(b - a)
            other = -1
            continue
        piece = text[a:b]
        # The ink of a space is invisible: join it to the run on its left if that has the same background.
        if other >= 0 and other >> 9 == key >> 9 and not key >> 18 & UNDERLINE:
            blank = before.isspace()
            if blank or piece.isspace():
                before, other = before + piece, key if blank else other
                found[-1] = (before, other)
                continue
        before, other = piece, key
        found.append((piece, key))
    if chr(WIDE) in text:
        return [run if isinstance(run, int) else (run[0].replace(chr(WIDE), ""), run[1]) for run in found]
    return found


@lru_cache(maxsize=2048)
def code_points(text: str) -> Codes:
    """A text's code points by cell: WIDE after a two-cell character, nothing for a zero-width one. uint32."""
    if text.isascii():
        return np.frombuffer(text.encode("utf-32-le"), dtype="<u4")
    cells: list[int] = []
    for character in text:
        size = get_character_cell_size(character)
        if size:
            cells.append(ord(character))
        if size == 2:
            cells.append(WIDE)
    return np.array(cells, dtype=np.uint32)


cut = lru_cache(maxsize=4096)(clip)
