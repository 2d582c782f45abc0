"""A document laid out in lines, in one column, two, or three."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from rich.cells import cell_len

from tracetui.core.cells import cell, clauses, middle, wrap
from tracetui.core.copying import replace
from tracetui.views.document import Block, Document, Entry
from tracetui.views.lines import Line, bar

TWO_COLUMNS = 104
"""From this width on, in cells."""
THREE_COLUMNS = 160
"""From this width on, in cells, what costs most takes two columns."""
LEAST_BAR, MOST_BAR = 6, 20
LEAST_NAME, LEAST_TEXT = 12, 16
APART = 2
"""Cells between the columns."""
MARK = "█ "
"""Before a part's name: the color that it has in the verdict line's bar."""
TRACK = "|track"
"""Ends the style of a bar: what is left of its cells is drawn as the whole that it is a part of."""
TIME = "time"
"""The block of where the time goes."""
COSTS = ("ops", "kernels")
"""The blocks of what costs most."""
COSTS_NEED = 52
"""Cells of those beside the parts of the time: with fewer, names would be cut too short."""
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


def lay_out(
    document: Document, width: int, keep: Collection[int], height: int = 0, chosen: int | None = None
) -> list[list[Piece]]:
    """The lines, each as its pieces from left to right. `keep`: the entries to show; `height`: the lines that
    can be seen at once, 0 where that is not known; `chosen`: the entry under the cursor."""
    if document.fixes is not None:
        return _fixes(document, width, keep, height, chosen)
    narrow = width < TWO_COLUMNS
    brief = narrow and 0 < height < FEW_LINES and bool(document.advice)
    top = _sentences(document, max(1, width - 1), max(2, height // 2) if brief else None)
    number = 0
    sides: list[list[Numbered]] = []
    for side in (document.left, document.right):
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
            left = column_lines([_brief(costs[0])], 0, half)
            top += _beside(left, column_lines([_brief(costs[1])], half + APART, width - half - APART))
        else:
            others = costs + others
        return top + _beside(column_lines(others, 0, width))
    columns = _columns(sides, width)
    nothing: list[Piece] = []
    airy = [*top, nothing, *_beside(*(column_lines(*column, apart=1) for column in columns))]
    return (
        airy if top and len(airy) <= height else top + _beside(*(column_lines(*column) for column in columns))
    )


def _fixes(
    document: Document, width: int, keep: Collection[int], height: int, chosen: int | None
) -> list[list[Piece]]:
    """What to fix first; below it what to try about the row under the cursor, and then the rest."""
    first: list[Numbered] = []
    rest: list[Numbered] = []
    number = 0
    for block in document.blocks:
        entries = [(n, entry) for n, entry in enumerate(block.entries, number) if n in keep]
        number += len(block.entries)
        if entries:
            (first if block is document.fixes else rest).append((block, entries))
    lines = _beside(column_lines(first, 0, width)) if first else []
    every = [entry for block in document.blocks for entry in block.entries]
    under = every[chosen] if chosen is not None and chosen < len(every) else None
    advice = under.advice if under is not None and under.advice else document.advice
    tried = [
        [Piece(1, [(text[:start], "accent"), (text[start:], "")], -1)]
        for n, text in enumerate(wrap(f"Try  {advice}", max(1, width - 1)))
        for start in (len("Try  ") if not n else 0,)
    ]
    nothing: list[Piece] = []
    airy = [nothing] if not height or len(lines) + 1 + len(tried) <= height else []
    others = _beside(column_lines(rest, 0, width)) if rest else []
    return [*lines, *airy, *tried, *([nothing] if others else []), *others]


def _columns(sides: Sequence[list[Numbered]], width: int) -> list[tuple[list[Numbered], int, int]]:
    """Blocks, first cell and width of each column."""
    left, right = sides
    if not left or not right:
        return [([*left, *right], 0, width)]
    bars = any(entry.part is not None for _, entries in left for _, entry in entries)
    if not bars or len(right) < 2 or width < THREE_COLUMNS:
        half = (width - APART + (5 if bars else 1)) // 2
        if bars:  # the parts of the time in full, where that leaves enough for the names beside them
            half = max(half, min(_needed(left), width - APART - COSTS_NEED))
        return [(left, 0, half), (right, half + APART, width - half - APART)]
    second, third = [right[0]], [right[1]]
    for one in right[2:]:
        shorter = min(second, third, key=lambda blocks: sum(1 + len(entries) for _, entries in blocks))
        shorter.append(one)
    each = (width - 2 * APART) // 3
    first = width - 2 * (each + APART)
    return [(left, 0, first), (second, first + APART, each), (third, first + each + 2 * APART, each)]


def _sentences(document: Document, width: int, most: int | None) -> list[list[Piece]]:
    """The reason and the advice, in at most so many lines. The advice has them first: what to do is said
    nowhere else. Before it stand the parts of the time, which the verdict line has as far as they fit."""
    parts = _legend(document, width) if most else []
    least = 0 if parts else 1  # lines of the reason
    most = most - len(parts) if most else None
    advice = _within(f"Try: {document.advice}", width, most and most - least) if document.advice else []
    reason = _within(document.reason, width, None if most is None else most - len(advice))
    lines = [Piece(1, line, -1) for line in parts]
    lines += [Piece(1, [(line, "")], -1) for line in reason if line]
    for n, text in enumerate(advice):
        start = 0 if n else len("Try: ")
        lines.append(Piece(1, [(text[:start], "accent"), (text[start:], "")], -1))
    return [[line] for line in lines]


def _legend(document: Document, width: int) -> list[Line]:
    """What the colors of the verdict line's bar are, with their shares: a line, or none."""
    line: Line = []
    time = next((block for block in document.left if block.key == TIME), None)
    for entry in time.entries if time is not None else ():
        mark, text = MARK, f"{entry.name} {entry.numbers[-1]}  "
        if entry.part is None or sum(cell_len(t) for t, _ in line) + cell_len(mark + text) > width + 2:
            break
        line += [(mark, entry.style), (text, "")]
    return [line] if line else []


def _within(text: str, width: int, most: int | None) -> list[str]:
    """A text in at most so many lines; of the last one, as many clauses as fit it."""
    lines = wrap(text, width)
    if not most or len(lines) <= most:
        return lines if most != 0 else []
    return [*lines[: most - 1], clauses(" ".join(lines[most - 1 :]), width)]


def _needed(blocks: Sequence[Numbered]) -> int:
    """The cells that the entries with bars need."""
    barred = [e for block, entries in blocks if any(_alike(block, entries)) for _, e in entries]
    grid = _grid(barred, 0)
    names, texts = (
        max(map(cell_len, column)) for column in zip(*((e.name, e.text) for e in barred), strict=True)
    )
    return grid.indent - grid.name + names + texts


def _beside(*columns: list[Piece | None]) -> list[list[Piece]]:
    return [[piece for piece in line if piece is not None] for line in zip_longest(*columns)]


def _brief(block: Numbered) -> Numbered:
    """Names, times and shares alone."""
    told = [(n, replace(e, numbers=e.numbers[:2], part=None, style="", text="")) for n, e in block[1]]
    return block[0], told


def column_lines(blocks: Sequence[Numbered], left: int, width: int, apart: int = 0) -> list[Piece | None]:
    """The lines of one column. `apart`: empty lines between blocks."""
    found: list[Piece | None] = []
    grids: dict[tuple[bool, tuple[str, ...]], list[Entry]] = {}
    for block, entries in blocks:
        grids.setdefault(_alike(block, entries), []).extend(entry for _, entry in entries)
    for block, entries in blocks:
        found += [None] * apart if found else []
        alike = _alike(block, entries)
        grid = _grid(grids[alike] if any(alike) else [entry for _, entry in entries], width, block.heads)
        title, note = block.title, ""
        if block.heads:
            title = cell(title, grid.name)
            note = "".join(f"  {head:>{size}}" for head, size in zip(block.heads, grid.numbers, strict=False))
        elif block.note:
            note = f"  {clauses(block.note, width - 3 - cell_len(title))}"
        found.append(Piece(left, [(" ", ""), (title, "head"), (note, "dim")], -1))
        found += [Piece(left, line, n) for n, entry in entries for line in _lines(entry, grid, width)]
    return found


def _alike(block: Block, entries: Iterable[tuple[int, Entry]]) -> tuple[bool, tuple[str, ...]]:
    """Whether a block has bars, and the titles of its numbers: those of one column that have the same line
    up."""
    return any(entry.part is not None for _, entry in entries), block.heads


@dataclass(frozen=True, slots=True)
class _Grid:
    """Cells of the columns of entries that line up: after the mark the name, numbers, bar and text."""

    name: int
    numbers: tuple[int, ...]
    bar: int
    """0 for none."""
    room: int
    """For the text."""

    @property
    def indent(self) -> int:
        """The first cell of the text."""
        return 1 + self.name + sum(size + 2 for size in self.numbers) + (self.bar + 2 if self.bar else 0) + 2


def _grid(entries: Sequence[Entry], width: int, heads: Sequence[str] = ()) -> _Grid:
    """Where there are bars, names come before texts, and bars get what both leave."""
    every = [tuple(heads), *(entry.numbers for entry in entries)]
    sizes = tuple(max(map(cell_len, column)) for column in zip_longest(*every, fillvalue=""))
    bars = any(entry.part is not None for entry in entries)
    names = max(cell_len(entry.name) for entry in entries)
    texts = max(cell_len(entry.text) for entry in entries)
    taken = 1 + sum(size + 2 for size in sizes) + (LEAST_BAR + 2 if bars else 0)
    least = min(texts, LEAST_TEXT) + 2 if texts and not bars else 0
    name = max(min(names, LEAST_NAME), min(names, width - taken - least))
    room = width - taken - name - 2
    texts = texts if room >= min(LEAST_TEXT, texts) else 0  # no text where there is no room for most of it
    more = max(0, min(room - (texts or -2), MOST_BAR - LEAST_BAR)) if bars else 0
    return _Grid(name, sizes, LEAST_BAR + more if bars else 0, room - more)


def _lines(entry: Entry, grid: _Grid, width: int) -> list[Line]:
    """The lines of an entry. A text takes as many as it needs where there are no bars."""
    barred, room = entry.part is not None, grid.room
    line: Line = [(" ", ""), (cell(middle(entry.name, grid.name), grid.name), "" if barred else entry.style)]
    line += [
        (f"  {number:>{size}}", "") for size, number in zip_longest(grid.numbers, entry.numbers, fillvalue="")
    ]
    if entry.part is not None:
        filled = bar(entry.part, grid.bar)
        track = max(round(grid.bar * entry.of), len(filled.rstrip()))
        line += [("  ", ""), (filled[:track], f"{entry.style}{TRACK}"), (filled[track:], "")]
    elif grid.bar:
        line.append((" " * (2 + grid.bar), ""))
    beside = room >= min(LEAST_TEXT, cell_len(entry.text))
    indent = grid.indent if beside else 2
    below = [] if grid.bar else wrap(entry.text, max(1, width - indent))
    if entry.text and beside:
        line.append((f"  {clauses(entry.text, room) if grid.bar else below.pop(0)}", "dim" if barred else ""))
    more: list[Line] = [[(" " * indent, ""), (text, "")] for text in below if text]
    return [line, *more]
