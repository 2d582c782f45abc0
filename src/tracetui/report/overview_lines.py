"""The overview laid out in lines, in one column or two."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from rich.cells import cell_len

from tracetui.cells import cell, clip, middle, wrap
from tracetui.report.overview import Block, Entry, Overview
from tracetui.tables.lines import Line, bar

TWO_COLUMNS = 104
"""From this width on, in cells."""
BAR = 10
NARROW_BAR = 6
LEAST_NAME, LEAST_TEXT = 12, 16
APART = 2
"""Cells between the two columns."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a line: all of it, or one column's."""

    left: int
    """Its first cell."""
    line: Line
    entry: int
    """The entry that it shows, by its place in reading order; -1 for none."""


def lay_out(overview: Overview, width: int, keep: Collection[int]) -> list[list[Piece]]:
    """The lines, each as its pieces from left to right. `keep`: the entries to show."""
    lines = [[Piece(0, [(text, "")], -1)] for text in wrap(overview.reason, max(1, width)) if text]
    for n, text in enumerate(wrap(f"Try: {overview.advice}", max(1, width)) if overview.advice else ()):
        head, rest = (text[:5], text[5:]) if not n else ("", text)
        lines.append([Piece(0, [(head, "accent"), (rest, "")], -1)])
    number = 0
    sides: list[list[tuple[Block, list[tuple[int, Entry]]]]] = []
    for side in (overview.left, overview.right):
        blocks = []
        for block in side:
            entries = [(n, entry) for n, entry in enumerate(block.entries, number) if n in keep]
            number += len(block.entries)
            if entries:
                blocks.append((block, entries))
        sides.append(blocks)
    if width < TWO_COLUMNS or not all(sides):
        return lines + [[piece] for piece in _column([*sides[0], *sides[1]], 0, width)]
    half = (width - APART + 5) // 2
    left, right = _column(sides[0], 0, half), _column(sides[1], half + APART, width - half - APART)
    pairs = zip_longest(left, right)
    return lines + [[piece for piece in pair if piece is not None] for pair in pairs]


def _column(blocks: Iterable[tuple[Block, list[tuple[int, Entry]]]], left: int, width: int) -> list[Piece]:
    found = []
    for block, entries in blocks:
        note = clip(f"  {block.note}", width - cell_len(block.title)) if block.note else ""
        heads, each = _entries([entry for _, entry in entries], width, block.heads)
        title = cell(block.title, cell_len(heads[0])) if block.heads else block.title
        numbers = "".join(heads[1:]) if block.heads else note
        found.append(Piece(left, [(title, "head"), (numbers, "dim")], -1))
        for (n, _), lines in zip(entries, each, strict=True):
            found += [Piece(left, line, n) for line in lines]
    return found


def _entries(
    entries: Sequence[Entry], width: int, heads: Sequence[str] = ()
) -> tuple[list[str], list[list[Line]]]:
    """The titles of the columns, and the lines of each entry of a block, in columns that line up: mark, name,
    numbers, bar, text. A text takes as many lines as it needs where no entry has a bar."""
    every = [tuple(heads), *(entry.numbers for entry in entries)]
    sizes = [max(map(cell_len, column)) for column in zip_longest(*every, fillvalue="")]
    bars = any(entry.part is not None for entry in entries)
    length = BAR if width >= 72 else NARROW_BAR
    taken = 1 + sum(size + 2 for size in sizes) + (length + 2 if bars else 0)
    names = max(cell_len(entry.name) for entry in entries)
    texts = max(cell_len(entry.text) for entry in entries)
    least = min(texts, LEAST_TEXT) + 2 if texts else 0
    name = max(min(names, LEAST_NAME), min(names, width - taken - least))
    room = width - taken - name - 2
    found: list[list[Line]] = []
    for entry in entries:
        barred = entry.part is not None
        line: Line = [(" ", ""), (cell(middle(entry.name, name), name), "" if barred else entry.style)]
        for size, number in zip_longest(sizes, entry.numbers, fillvalue=""):
            line.append((f"  {number:>{size}}", ""))
        if bars:
            line += [("  ", ""), (bar(entry.part or 0.0, length), entry.style)]
        texts_of = [clip(entry.text, room)] if bars else wrap(entry.text, max(LEAST_TEXT, room))
        if entry.text and room >= min(LEAST_TEXT, cell_len(entry.text)):
            line.append((f"  {texts_of[0]}", "dim" if barred else ""))
        more: list[Line] = [[(" " * (taken + name + 2), ""), (text, "")] for text in texts_of[1:]]
        found.append([line, *more])
    titles = (f"  {head:>{size}}" for head, size in zip(heads, sizes, strict=False))
    return [" " * (1 + name), *titles], found
