"""Reports as lines of (text, style) spans: the same lines become plain text, or colored text on a terminal.

Texts in spans are plain: nothing in them is ever read as markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.cells import cell_len

from tracetui.core.cells import wrap

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
"""Style names to terminal styles. Color never stands alone: the text says the same."""


def plain_text(lines: Iterable[Line]) -> str:
    """The lines without styles, each with its new line, without trailing blanks."""
    return "".join("".join(text for text, _ in line).rstrip() + "\n" for line in lines)


def paragraph(text: str, width: int, style: str = "", head: Sequence[Span] = ()) -> list[Line]:
    """A text in lines of at most `width` cells: the first one after `head`, the others as far right."""
    left = sum(cell_len(part) for part, _ in head)
    first, *more = wrap(text, width - left)
    return [[*head, (first, style)], *([(" " * left + part, style)] for part in more)]


INDENT = [("  ", "")]
"""The head of a paragraph below a title."""


def bar(share: float, width: int) -> str:
    """A bar of `width` cells, filled to an eighth of a cell; any share above zero shows."""
    eighths = round(max(0.0, min(1.0, share)) * width * 8)
    eighths = max(eighths, 1 if share > 0 else 0)
    full, part = divmod(eighths, 8)
    return ("█" * full + ("▏▎▍▌▋▊▉"[part - 1] if part else "")).ljust(width)


def columns(rows: Sequence[Sequence[str | Span]], align: str) -> list[Line]:
    """Rows of cells in columns that line up; `align` has one of "<" and ">" per column."""
    cells = [[cell if isinstance(cell, tuple) else (cell, "") for cell in row] for row in rows]
    widths = [max((cell_len(row[i][0]) for row in cells), default=0) for i in range(len(align))]
    lines: list[Line] = []
    for row in cells:
        line: Line = [*INDENT]
        for i, ((text, style), where, width) in enumerate(zip(row, align, widths, strict=True)):
            blank = " " * (width - cell_len(text))
            line.append((blank + text if where == ">" else text + blank, style))
            if i < len(align) - 1:
                line.append(("  ", ""))
        lines.append(line)
    return lines
