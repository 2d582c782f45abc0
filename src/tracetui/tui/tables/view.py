"""The widget that shows a table. It draws only visible lines: a million rows cost no more than ten."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from rich.cells import cell_len
from textual import events
from textual.message import Message
from textual.strip import Strip

from tracetui.tui.bindings import bind
from tracetui.tui.line_widget import Scrolled
from tracetui.tui.tables import drawing
from tracetui.tui.tables.delta_table import DeltaLines
from tracetui.views.model import I64, Column, Table, arrange, fit, next_sort, scrolled

EMPTY = np.zeros(0, dtype=np.int64)


FEW_ROWS = 500
"""With at most this many rows, all names are measured."""


def no_wider(table: Table, columns: list[tuple[Column, int]]) -> list[tuple[Column, int]]:
    """The columns, with a flexible column that has others after it made no wider than its longest text:
    numbers far from their names are hard to read."""
    if table.rows > FEW_ROWS:
        return columns
    found = []
    for column, width in columns:
        if not column.width and column is not columns[-1][0]:
            texts = map(column.text, range(table.rows))
            width = min(width, max(map(cell_len, (f"{column.title} ▼", *texts))))
        found.append((column, width))
    return found


class TableView(Scrolled, DeltaLines, can_focus=True):
    """A table with a cursor, sorted by key or by a click on a title, and filtered by a text."""

    DEFAULT_CSS = """
    TableView { height: 1fr; width: 1fr; }
    TableView > .drawn--head { background: $panel; }
    TableView > .drawn--accent { background: $panel; }
    TableView:blur > .drawn--cursor {
        background: $block-cursor-blurred-background; color: $block-cursor-blurred-foreground;
    }
    """
    BINDINGS = bind(
        "up move(-1)  down move(1)  pageup page(-1)  pagedown page(1)  home first  end last  enter choose"
    )

    HEADER: ClassVar[int] = 1
    """Lines above the rows: 1 for the titles, or 0."""

    class Highlighted(Message):
        """The user moved the cursor to a row."""

        def __init__(self, row: int) -> None:
            super().__init__()
            self.row = row

    class Chosen(Message):
        """The user chose a row. `again`: how many times before, since the cursor moved to it."""

        def __init__(self, row: int, again: int) -> None:
            super().__init__()
            self.row, self.again = row, again

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self.table: Table | None = None
        self.order: I64 = EMPTY
        """The visible rows in the order shown."""
        self.cursor = 0
        """The cursor's position in that order."""
        self.top = 0
        self.sort: str | None = None
        self.descending = True
        self.needle = ""
        self.waiting = "…"
        """The message while there is no table."""
        self._again = 0
        self._placed = False
        """Whether the user moved the cursor to its row, so that it was not just left at the top."""
        self._fitted: tuple[int, list[tuple[Column, int]]] | None = None

    # The table and its order

    def set_table(
        self, table: Table, sort: str | None = None, descending: bool = True, row: int | None = None
    ) -> None:
        """Show another table. The filter stays; so does the order, if the table has that column.

        `row`: the row of the new table to put the cursor on; if the filter hides it, the nearest one.
        """
        self.table = table
        if self.sort is None or table.column(self.sort) is None:
            self.sort, self.descending = sort, descending
        high, again = self.cursor - self.top, self._again
        self._arrange(keep=row)
        if row is not None and len(self.order):
            self.cursor, self._again = int(np.abs(self.order - row).argmin()), again
            self.top = scrolled(self.cursor - high, self.cursor, self.page, len(self.order))
            self.redraw()

    def set_filter(self, needle: str) -> None:
        """Show only the rows whose text contains `needle`."""
        if needle != self.needle:
            self.needle = needle
            self._arrange(keep=self.row)

    def sort_by(self, key: str, descending: bool | None = None) -> None:
        """Sort by a column; if the rows are already sorted by it, reverse them."""
        column = self.table.column(key) if self.table is not None else None
        if column is None or column.values is None:
            return
        if descending is None:
            descending = not self.descending if key == self.sort else column.descending
        self.sort, self.descending = key, descending
        self._arrange(keep=self.row if self._placed else None)

    def sort_next(self, step: int) -> None:
        """Sort by the next column to the right (1) or to the left (-1)."""
        if self.table is not None:
            column = next_sort([c for c, _ in self._columns()], self.sort, step)
            if column is not None:
                self.sort_by(column.key, column.descending)

    def reverse(self) -> None:
        """Reverse the order."""
        if self.sort is not None:
            self.sort_by(self.sort)

    @property
    def row(self) -> int | None:
        """The row under the cursor."""
        return int(self.order[self.cursor]) if self.cursor < len(self.order) else None

    def show_row(self, row: int) -> bool:
        """Put the cursor on a row and bring it into view; False if the filter hides the row."""
        found = np.flatnonzero(self.order == row)
        if not len(found):
            return False
        at, self._placed = int(found[0]), True
        seen = self.top <= at < self.top + self.page
        if self.page and not seen and abs(at - self.cursor) != 1:
            self._to_middle(at)
            if at == self.cursor:
                self.redraw()
        self._to(at, tell=False)
        return True

    def _to_middle(self, at: int) -> None:
        """Scroll a position to the middle: at an edge it would look like the first or last row."""
        self.top = scrolled(at - self.page // 2, at, self.page, len(self.order))

    def _arrange(self, keep: int | None) -> None:
        self._fitted = None
        if self.table is None:
            return
        self.order = arrange(self.table, self.sort, self.descending, self.needle)
        found = np.flatnonzero(self.order == keep) if keep is not None else EMPTY
        self._placed = self._placed and len(found) > 0
        self.cursor = int(found[0]) if len(found) else 0
        self._again = 0
        self.top = scrolled(0, self.cursor, self.page, len(self.order))
        if self.top:
            self._to_middle(self.cursor)
        self.redraw()

    # Moving

    @property
    def page(self) -> int:
        """How many rows fit on the screen."""
        return max(0, self.size.height - self.HEADER - self._foot)

    @property
    def _foot(self) -> int:
        """The number of lines below the rows: one for totals, if there are any and there is room."""
        return int(self.table is not None and bool(self.table.foot) and self.size.height >= self.HEADER + 3)

    def _to(self, at: int, tell: bool = True) -> None:
        at = max(0, min(at, len(self.order) - 1))
        if not len(self.order) or at == self.cursor:
            return
        self.cursor, self._again, self._placed = at, 0, at > 0 or not tell
        self.top = scrolled(self.top, at, self.page, len(self.order))
        self.redraw()
        if tell:
            self.post_message(self.Highlighted(int(self.order[at])))

    def action_move(self, step: int) -> None:
        self._to(self.cursor + step)

    def action_page(self, pages: int) -> None:
        self._to(self.cursor + pages * max(1, self.page - 1))

    def action_first(self) -> None:
        self._to(0)

    def action_last(self) -> None:
        self._to(len(self.order) - 1)

    def action_choose(self) -> None:
        row = self.row
        if row is not None:
            again, self._again = self._again, self._again + 1
            self.post_message(self.Chosen(row, again))

    def scroll_rows(self, rows: int) -> None:
        """Scroll without moving the cursor."""
        self.top = max(0, min(self.top + rows, len(self.order) - self.page))
        self.redraw()

    def on_click(self, event: events.Click) -> None:
        event.stop()
        if event.y < self.HEADER:
            key = self._column_at(event.x)
            if key is not None:
                self.sort_by(key)
            return
        at = self.top + event.y - self.HEADER
        if at < min(len(self.order), self.top + self.page):
            self._to(at)
            if event.chain > 1:
                self.action_choose()

    def _column_at(self, x: int) -> str | None:
        left = self._chip
        for column, width in self._columns():
            if left <= x < left + width + column.after:
                return column.key
            left += width + column.after
        return None

    def fail(self, message: str) -> None:
        """Show a message instead of the table that says why there is none."""
        self.table = None
        self.waiting = message
        self.redraw()

    def on_resize(self) -> None:
        self._fitted = None
        top = scrolled(self.top, self.cursor, self.page, len(self.order))
        if abs(top - self.top) > self.page > 0:  # the cursor moved while it could not be shown
            self._to_middle(self.cursor)
            self.redraw()
        elif top != self.top:
            self.top = top
            self.redraw()  # the lines may have been drawn before this event

    # Drawing

    @property
    def _chip(self) -> int:
        """Cells before the columns: the color chip, if any, and the cursor's mark."""
        return 2 if self.table is not None and self.table.color is not None else 1

    def _columns(self) -> list[tuple[Column, int]]:
        width = self.size.width - self._chip - 2  # minus the scroll bar and a cell before it
        if self.table is None:
            return []
        if self._fitted is None or self._fitted[0] != width:
            self._fitted = (width, no_wider(self.table, fit(self.table.columns, width)))
        return self._fitted[1]

    def _blank(self) -> Strip:
        """An empty line; always the same object, so that a repaint does not send it again."""
        return Strip.blank(self.size.width, self.ground)

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if self.table is None:
            return drawing.message(self.waiting, y, width, self.style_of("dim")) or self._blank()
        if y < self.HEADER:
            order = (self.sort, self.descending)
            looks = self.style_of("head"), self.style_of("accent")
            return drawing.header(self._columns(), order, self._chip, width, *looks)
        if not len(self.order):
            nothing = f"no row contains “{self.needle}”" if self.needle else self.table.empty
            return drawing.message(nothing, y - self.HEADER, width, self.style_of("dim")) or self._blank()
        if self._foot and y == self.size.height - 1:
            look, filtered = self.style_of("head"), bool(self.needle)
            return drawing.foot(self.table, self._columns(), self._chip, width, look, filtered)
        at = self.top + y - self.HEADER
        if at >= len(self.order):
            return self._blank()
        place = y - self.HEADER, self.top, self.page, len(self.order)
        bar = drawing.scroll_bar(*place, self.style_of("bar"), self.ground)
        row, here = int(self.order[at]), at == self.cursor
        faint = self.table.dim is not None and self.table.dim(row)
        look = self.style_of("cursor" if here else "dim" if faint else "text")
        return drawing.row(self.table, row, here, self._columns(), self._chip, width, look, bar)
