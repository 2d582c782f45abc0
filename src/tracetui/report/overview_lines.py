"""The overview laid out in lines, in one column or two."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from rich.cells import cell_len

from tracetui.cells import cell, clauses, clip, middle, wrap
from tracetui.copying import replace
from tracetui.report.overview import Block, Entry, Overview
from tracetui.tables.lines import Line, bar

TWO_COLUMNS = 104
"""From this width on, in cells."""
BAR = 10
NARROW_BAR = 6
LEAST_NAME, LEAST_TEXT = 12, 16
APART = 2
"""Cells between the two columns."""
COSTS = ("ops", "kernels")
"""The blocks of what costs most."""
COSTS_BESIDE = 64
"""From this width on, in cells, those stand beside each other and the others do not."""
FEW_LINES = 12
"""If fewer lines than this are in view, the sentences take at most half of them (in one column)."""

Numbered = tuple[Block, list[tuple[int, Entry]]]
"""A block, and those of its entries that are shown, with their places in reading order."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a line: all of it, or one column's."""

    left: int
    """Its first cell."""
    line: Line
    entry: int
    """The entry that it shows, by its place in reading order; -1 for none."""


def lay_out(overview: Overview, width: int, keep: Collection[int], height: int = 99) -> list[list[Piece]]:
    """The lines, each as its pieces from left to right. `keep`: the entries to show; `height`: the lines that
    can be seen at once."""
    narrow = width < TWO_COLUMNS
    brief = narrow and height < FEW_LINES and bool(overview.advice)
    lines = _sentences(overview, max(1, width), max(2, height // 2) if brief else None)
    number = 0
    sides: list[list[Numbered]] = []
    for side in (overview.left, overview.right):
        blocks = []
        for block in side:
            entries = [(n, entry) for n, entry in enumerate(block.entries, number) if n in keep]
            number += len(block.entries)
            if entries:
                blocks.append((block, entries))
        sides.append(blocks)
    if narrow:
        # What costs most comes first: the parts of the time are in the verdict line, too.
        costs = [one for one in sides[1] if one[0].key in COSTS]
        others = [one for one in (*sides[0], *sides[1]) if one[0].key not in COSTS]
        if len(costs) == 2 and width >= COSTS_BESIDE:
            half = (width - APART) // 2
            left = _column([_brief(costs[0])], 0, half)
            lines += _beside(left, _column([_brief(costs[1])], half + APART, width - half - APART))
        else:
            others = costs + others
        return lines + [[piece] for piece in _column(others, 0, width)]
    if not all(sides):
        return lines + [[piece] for piece in _column([*sides[0], *sides[1]], 0, width)]
    bars = any(entry.part is not None for _, entries in sides[0] for _, entry in entries)
    half = (width - APART + (5 if bars else 1)) // 2
    left, right = _column(sides[0], 0, half), _column(sides[1], half + APART, width - half - APART)
    return lines + _beside(left, right)


def _sentences(overview: Overview, width: int, most: int | None) -> list[list[Piece]]:
    """The reason and the advice, in at most so many lines. The advice has them first: what to do is said
    nowhere else, and the parts of the reason are in the verdict line."""
    advice = _within(f"Try: {overview.advice}", width, most - 1 if most else None) if overview.advice else []
    reason = _within(overview.reason, width, most - len(advice) if most else None)
    lines = [[Piece(0, [(line, "")], -1)] for line in reason if line]
    for n, line in enumerate(advice):
        start = 0 if n else len("Try: ")
        lines.append([Piece(0, [(line[:start], "accent"), (line[start:], "")], -1)])
    return lines


def _within(text: str, width: int, most: int | None) -> list[str]:
    """A text in at most so many lines; of the last one, as many clauses as fit it."""
    lines = wrap(text, width)
    if most is None or len(lines) <= most:
        return lines
    return [*lines[: most - 1], clauses(" ".join(lines[most - 1 :]), width)]


def _beside(left: list[Piece], right: list[Piece]) -> list[list[Piece]]:
    return [[piece for piece in pair if piece is not None] for pair in zip_longest(left, right)]


def _brief(block: Numbered) -> Numbered:
    """Names and numbers alone."""
    return block[0], [(n, replace(entry, part=None, style="", text="")) for n, entry in block[1]]


def _column(blocks: Iterable[Numbered], left: int, width: int) -> list[Piece]:
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
        beside = room >= min(LEAST_TEXT, cell_len(entry.text))
        indent = taken + name + 2 if beside else 2
        below = [] if bars else wrap(entry.text, max(1, width - indent))
        if entry.text and beside:
            line.append((f"  {clip(entry.text, room) if bars else below.pop(0)}", "dim" if barred else ""))
        more: list[Line] = [[(" " * indent, ""), (text, "")] for text in below if text]
        found.append([line, *more])
    titles = (f"  {head:>{size}}" for head, size in zip(heads, sizes, strict=False))
    return [" " * (1 + name), *titles], found
