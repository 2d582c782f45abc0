"""Text cut, padded and wrapped to terminal cells."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size

from tracetui.core.units import BEFORE_UNIT

WIDEST, TALLEST = 1000, 500
"""Columns and lines of a screen at most, whatever the terminal says: a small trace then takes 130 MB, and
70 MB at 80 x 24."""
SHORTEST_CLAUSE = 5
"""A shorter beginning of a sentence (in cells) says nothing."""


def _head(text: str, width: int) -> str:
    """A prefix of the text that overflows `width` cells, or all of it, without looking at the rest."""
    size = 2 * width + 8
    while size < len(text) and cell_len(text[:size]) <= width:
        size *= 2  # combining marks take no cell
    return text[:size]


def fits(text: str, width: int) -> bool:
    """Whether the text takes at most `width` cells."""
    return cell_len(_head(text, width)) <= width


def clip(text: str, width: int) -> str:
    """The text cut to `width` cells, with an ellipsis if it was cut."""
    if width <= 0:
        return ""
    if text.isascii():
        return text if len(text) <= width else text[: width - 1] + "…"
    text = _head(text, width)
    return text if cell_len(text) <= width else _cut(set_cell_size(text, width - 1))


def _cut(head: str) -> str:
    """With one ellipsis at the end: the text may have been cut before."""
    return head.rstrip(" …") + "…"


def clauses(text: str, width: int) -> str:
    """A text cut to `width` cells by dropping whole sentences from its end, or clauses where too little
    were left."""
    if fits(text, width):
        return text
    head = set_cell_size(text, max(0, width - 1))  # the ellipsis comes after the clause
    if (end := head.rfind(". ")) >= 0.6 * width:
        return head[: end + 1]
    ends = [head.rfind(sign) for sign in (", ", "; ", ": ")]
    return _cut(head[: max(ends)]) if max(ends) >= SHORTEST_CLAUSE else clip(text, width)


def middle(text: str, width: int, tail: int = 0) -> str:
    """Like `clip`, but cut in the middle: file names differ at either end. `tail`: cells of the end."""
    if fits(text, width) or width < 5:
        return clip(text, width)
    size = tail or width // 2
    end = text[-size:]
    while cell_len(end) > size:
        end = end[1:]
    return _cut(set_cell_size(text, width - 1 - cell_len(end))) + end.lstrip("…")


def fit(text: str, width: int) -> str:
    """The text cut to `width` cells in the middle, where names differ least.

    For reports: unlike `middle`, two thirds of what is kept are its beginning."""
    if fits(text, width):
        return text
    if width < 4:
        return set_cell_size(text, max(0, width))
    head = (width - 1) * 2 // 3
    tail = text[-(width - 1 - head) :]
    return set_cell_size(text, width - 1 - cell_len(tail)) + "…" + tail


def cell(text: str, width: int, right: bool = False) -> str:
    """Exactly `width` cells: cut or padded."""
    text = clip(text, width)
    missing = width - (len(text) if text.isascii() else cell_len(text))
    return " " * missing + text if right else text + " " * missing


def same_place(before: Sequence[str], row: int, after: Sequence[str]) -> int:
    """The line of `after` with the start of line `row` of `before`: one text wrapped at two widths."""
    left = sum(len(text.replace(" ", "")) for text in before[:row])
    for n, text in enumerate(after):
        left -= len(text.replace(" ", ""))
        if left < 0:
            return n
    return max(0, len(after) - 1)


def wrap(text: str, width: int, limit: int = 1000) -> list[str]:
    """At most `limit` lines of at most `width` cells, broken at spaces if possible, but not between a number
    and its unit."""
    width = max(1, width)
    lines: list[str] = []
    at = 0
    while at < len(text) and len(lines) < limit:
        # The next line lies within a short piece of the rest.
        piece = _head(text[at : at + 64 * width], width)
        if cell_len(piece) <= width:
            lines.append(piece)
            at += len(piece)
            continue
        room = len(set_cell_size(piece, width).rstrip()) or 1
        cut = piece.rfind(" ", 0, room + 1)
        while cut > 0 and BEFORE_UNIT.match(text, at + cut):
            cut = piece.rfind(" ", 0, cut)
        if cut <= 0:
            cut = room
        lines.append(piece[:cut].rstrip())
        at += cut
        while at < len(text) and text[at] == " ":
            at += 1
    return lines or [""]
