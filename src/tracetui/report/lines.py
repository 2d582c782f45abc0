"""Reports as lines of (text, style) spans: the same lines become plain text, or coloured text on a terminal.

Texts in spans are plain: nothing in them is ever read as markup.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from rich.cells import cell_len, set_cell_size

from tracetui.units import BEFORE_UNIT

__all__ = ["STYLES", "Line", "Span", "bar", "columns", "fit", "plain_text", "wrap"]

Span = tuple[str, str]
"""(text, style); the style is a key of `STYLES`."""
Line = list[Span]

STYLES = {
    "": "",
    "title": "bold",
    "head": "bold dim",
    "dim": "dim",
    "good": "bold green",
    "warn": "bold yellow",
    "bad": "bold red",
    "accent": "cyan",
}
"""Style names to terminal styles. Colour never stands alone: the text says the same."""


def plain_text(lines: Iterable[Line]) -> str:
    """The lines without styles, each with its new line, without trailing blanks."""
    return "".join("".join(text for text, _ in line).rstrip() + "\n" for line in lines)


def fit(text: str, width: int) -> str:
    """`text` in at most `width` cells; what is cut is cut in the middle, where names differ least."""
    if cell_len(text) <= width:
        return text
    if width < 4:
        return set_cell_size(text, max(0, width))
    head = (width - 1) * 2 // 3
    tail = text[-(width - 1 - head) :]
    return set_cell_size(text, width - 1 - cell_len(tail)) + "…" + tail


def wrap(text: str, width: int) -> list[str]:
    """`text` in lines of at most `width` characters, broken between words: a number keeps its unit."""
    kept = textwrap.wrap(BEFORE_UNIT.sub("\u00a0", text), width, break_on_hyphens=False)
    return [line.replace("\u00a0", " ") for line in kept]


def bar(share: float, width: int) -> str:
    """A bar of `width` cells, filled to an eighth of a cell; any share above zero shows."""
    eighths = round(max(0.0, min(1.0, share)) * width * 8)
    eighths = max(eighths, 1 if share > 0 else 0)
    full, part = divmod(eighths, 8)
    return ("█" * full + ("▏▎▍▌▋▊▉"[part - 1] if part else "")).ljust(width)


def columns(rows: Sequence[Sequence[str | Span]], align: str, indent: str = "  ") -> list[Line]:
    """Rows of cells in columns that line up; `align` has one of "<" and ">" per column."""
    cells = [[cell if isinstance(cell, tuple) else (cell, "") for cell in row] for row in rows]
    widths = [max((cell_len(row[i][0]) for row in cells), default=0) for i in range(len(align))]
    lines: list[Line] = []
    for row in cells:
        line: Line = [(indent, "")]
        for i, ((text, style), where, width) in enumerate(zip(row, align, widths, strict=True)):
            blank = " " * (width - cell_len(text))
            line.append((blank + text if where == ">" else text + blank, style))
            if i < len(align) - 1:
                line.append(("  ", ""))
        lines.append(line)
    return lines
