"""A canvas's style numbers as terminal codes and as Rich styles."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from rich.color import Color
from rich.style import Style

from tracetui.timeline.canvas import BOLD, DIM, INK, ITALIC, PAPER, UNDERLINE, Run, unpack


@lru_cache(maxsize=4096)
def rich_style(style: int) -> Style:
    """A canvas's style number as a Rich style."""
    ink, paper, attributes = unpack(style)
    return Style(
        color=Color.from_ansi(ink) if ink < PAPER else None,
        bgcolor=Color.from_ansi(paper) if paper < PAPER else None,
        bold=bool(attributes & BOLD) or None,
        underline=bool(attributes & UNDERLINE) or None,
        dim=bool(attributes & DIM) or None,
        italic=bool(attributes & ITALIC) or None,
        reverse=paper == INK or None,
    )


@lru_cache(maxsize=1024)
def _ink(color: int) -> str:
    if color >= PAPER:
        return "39"
    if color < 16:
        return str(30 + color if color < 8 else 82 + color)
    return f"38;5;{color}"


@lru_cache(maxsize=1024)
def _paper(color: int) -> str:
    if color >= PAPER:
        return "49"
    if color < 16:
        return str(40 + color if color < 8 else 92 + color)
    return f"48;5;{color}"


@lru_cache(maxsize=256)
def _attributes(attributes: int, reverse: bool) -> str:
    codes = ["0"]
    codes += [
        code for bit, code in ((BOLD, "1"), (DIM, "2"), (ITALIC, "3"), (UNDERLINE, "4")) if attributes & bit
    ]
    return ";".join([*codes, "7"] if reverse else codes)


Shown = tuple[int, int, int, bool]
"""The look of the terminal's next character: ink, paper, attributes, and whether the two colors are
reversed."""


@lru_cache(maxsize=4096)
def _change(now: Shown, style: int, blank: bool) -> tuple[Shown, str]:
    """Change from one look to a style's, for text that may be `blank`: the new look, and the codes for it."""
    ink_now, paper_now, *other_now = now
    ink, paper, attributes = unpack(style)
    if ink < PAPER and paper < PAPER and not attributes and not now[2]:
        ways = (_colors(now, ink, paper, blank, swapped) for swapped in (False, True))
        return min(ways, key=lambda way: len(way[1]))
    codes = []
    other = [attributes, paper == INK]
    if other != other_now:
        codes.append(_attributes(attributes, paper == INK))
        ink_now, paper_now = PAPER, PAPER
    if paper != paper_now and not (paper >= PAPER and paper_now >= PAPER):
        codes.append(_paper(paper))
    if ink != ink_now and not (ink >= PAPER and ink_now >= PAPER) and not (blank and not attributes):
        codes.append(_ink(ink))
        ink_now = ink
    return (ink_now, paper, attributes, paper == INK), f"\x1b[{';'.join(codes)}m" if codes else ""


def _colors(now: Shown, ink: int, paper: int, blank: bool, swapped: bool) -> tuple[Shown, str]:
    """Change to two colors without attributes. `swapped`: by reversing a look with the two colors exchanged.
    At the edge of a bar in its color, the reversal alone is enough."""
    front, back, _, reverse = now
    codes = [] if reverse == swapped else ["7" if swapped else "27"]
    fore, ground = (paper, ink) if swapped else (ink, paper)
    if back != ground and not (blank and swapped):
        codes.append(_paper(ground))
        back = ground
    if front != fore and not (blank and not swapped):
        codes.append(_ink(fore))
        front = fore
    return (front, back, 0, swapped), f"\x1b[{';'.join(codes)}m" if codes else ""


def ansi(runs: Sequence[Run | int]) -> str:
    """Runs as text with as few color changes as possible; ends with a reset.

    A number is a count of cells that stay as they are: the cursor jumps over them.
    """
    parts: list[str] = []
    now: Shown = (-1, -1, 0, False)
    for run in runs:
        if isinstance(run, int):
            parts.append(f"\x1b[{run}C")
        else:
            text, style = run
            now, codes = _change(now, style, text.isspace())
            parts += (codes, text)
    parts.append("\x1b[0m")
    return "".join(parts)
