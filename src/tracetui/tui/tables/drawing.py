"""The lines of a table: titles, rows, the scroll bar, and a message in place of rows."""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from tracetui.core.cells import cell, clauses, clip, middle, wrap
from tracetui.views.model import Column, Table

Columns = Sequence[tuple[Column, int]]
"""The visible columns and their widths in cells."""

CURSOR = "▸"
"""Marks the row under the cursor, also without colors."""


def header(
    columns: Columns, order: tuple[str | None, bool], chip: int, width: int, plain: Style, marked: Style
) -> Strip:
    """The titles, with the sorted column marked. `order`: its key, and whether the largest comes first."""
    sort, descending = order
    arrow = "▼" if descending else "▲"
    segments = [Segment(" " * (chip - 1), plain)]
    before = 1  # cells since the column on the left: the arrow takes one of these, none of the title
    for column, size in columns:
        room = size + before
        if column.key != sort:
            segments.append(Segment(cell(column.title, size, column.right).rjust(room), plain))
        elif column.right:
            segments.append(Segment(cell(arrow + clip(column.title, size), room, True), marked))
        elif len(column.title) + 2 <= size:
            segments.append(Segment(cell(f"{column.title} {arrow}", size).rjust(room), marked))
        else:
            segments.append(Segment(cell(arrow + clip(column.title, size), size + 1).rjust(room), marked))
        before = column.after
    return Strip(segments).adjust_cell_length(width, plain)


def row(
    table: Table, row: int, here: bool, columns: Columns, chip: int, width: int, style: Style, bar: Segment
) -> Strip:
    """One row. `here`: whether the cursor is on it; `chip`: cells before the columns; `bar`: the last
    cell."""
    color = table.color(row) if table.color is not None else None
    lead = "▌" if color else " "
    mark = CURSOR if here else " "
    segments = [Segment(lead, style + Style(color=color) if color else style)] if chip > 1 else []
    # All cells form one run with one style, which takes fewer bytes on a slow link.
    words = "".join(_cell(c, row, size) + " " * c.after for c, size in columns[:-1])
    words += "".join(_cell(c, row, size) for c, size in columns[-1:])
    return Strip([*segments, Segment(mark + cell(words, width - 1 - chip), style), bar], width)


def foot(table: Table, columns: Columns, chip: int, width: int, style: Style, filtered: bool) -> Strip:
    """The line of totals below the rows. They are for all rows, including those that a filter hides."""
    texts = dict(table.foot)
    if filtered and "name" in texts:
        texts["name"] += " of all rows"
    words = "".join(cell(texts.get(c.key, ""), size, c.right) + " " * c.after for c, size in columns)
    return Strip([Segment(" " * chip + words, style)]).adjust_cell_length(width, style)


def _cell(column: Column, row: int, size: int) -> str:
    text = column.text(row)
    if column.ends:
        text = text if len(text) <= 8 * size else text[: 4 * size] + text[-4 * size :]
        text = middle(text, size)
    return cell(clauses(text, size) if column.clauses else text, size, column.right)


def message(text: str, y: int, width: int, style: Style) -> Strip | None:
    """Line `y` of the wrapped message that is shown in place of rows; None below its last line."""
    lines = [line for part in text.split("\n") for line in wrap(part, max(1, width - 2))]
    return Strip([Segment(cell(" " + lines[y], width), style)], width) if y < len(lines) else None


def scroll_bar(y: int, top: int, page: int, rows: int, bar: Style, base: Style) -> Segment:
    """The scroll bar at line `y` of a page: "█" for what is in view, "│" for the rest; " " if everything is
    in view."""
    if rows <= page:
        return Segment(" ", base)
    thumb = max(1, page * page // rows)
    first = (top * (page - thumb) + (rows - page) // 2) // (rows - page)
    return Segment("█" if first <= y < first + thumb else "│", bar)
