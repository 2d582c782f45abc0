"""Tables as columns, each with its form on the screen, in text, in Markdown and in files.

Texts and values are computed only for the rows that are shown or reported.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from tracetui.core.copying import replace
from tracetui.views.lines import Span

I64 = npt.NDArray[np.int64]
Values = npt.NDArray[Any] | Sequence[Any]
Fields = dict[str, Callable[[I64], Sequence[Any]]]
"""Field names in JSON and CSV, including the unit, and functions from rows to their values."""


def nothing(row: int) -> str:
    """The text of a column in a form that does not have it."""
    return ""


class Column(Struct, frozen=True):
    """One column. Functions take a row's index in the data, not its place in the sorted table.

    Each table's module lists the columns of each form by their keys.
    """

    key: str

    # On the screen
    title: str = ""
    text: Callable[[int], str] = nothing
    """The cell's text: safe, plain, one line."""
    values: Callable[[], Values] | None = None
    """One value per row, to sort by. None: cannot be sorted."""
    width: int = 0
    """In cells. 0: takes the remaining width; only one column of a table may."""
    right: bool = True
    """Numbers are right-aligned, words left. In text and Markdown, too."""
    drop: int = 0
    """In a narrow table, the column with the largest `drop` goes first. 0: stays."""
    descending: bool = True
    """The direction of the first click: numbers largest first, words from A."""
    clauses: bool = False
    """Long text is cut by dropping whole clauses from its end."""
    ends: bool = False
    """Long text is cut in the middle: names differ at either end."""
    after: int = 2
    """Cells between it and the next column."""

    # In text and Markdown: see `with_text`
    heading: str = ""
    cell: Callable[[int], str | Span] = nothing
    markdown_heading: str | None = None
    markdown: Callable[[int], str] | None = None

    # In JSON and CSV: see `with_fields`
    fields: Fields = field(default_factory=dict)

    def with_text(
        self,
        heading: str,
        cell: Callable[[int], str | Span] = nothing,
        markdown: Callable[[int], str] | None = None,
        markdown_heading: str | None = None,
    ) -> Column:
        """This column with its text form, and its Markdown form if that is more than the capitalised heading
        and the unstyled cell. `markdown` returns cells that are already escaped."""
        return replace(self, heading=heading, cell=cell, markdown=markdown, markdown_heading=markdown_heading)

    def with_fields(self, **fields: Callable[[I64], Sequence[Any]]) -> Column:
        """This column with its fields in JSON and CSV."""
        return replace(self, fields=fields)

    def any(self) -> bool:
        """Whether any row has more than 0."""
        return self.values is not None and bool(np.any(self.values()))


Columns = Mapping[str, Column]
"""The columns of a table by their keys."""


def each(value: Callable[[int], Any]) -> Callable[[I64], list[Any]]:
    """A field's values in some rows, from its value in one."""
    return lambda rows: [value(row) for row in rows.tolist()]


def by_key(*columns: Column) -> Columns:
    return {column.key: column for column in columns}


def select_columns(columns: Columns, keys: str, without: Collection[str] = ()) -> tuple[Column, ...]:
    """The table's columns with these keys (separated by spaces), in the order of the keys."""
    return tuple(columns[key] for key in keys.split() if key in columns and key not in without)


class Table(Struct, frozen=True):
    """What a table holds. Rows are numbers from 0 to `rows` - 1."""

    columns: tuple[Column, ...]
    rows: int
    search_text: Callable[[int], str] | None = None
    """The text that the filter searches. None: cannot be filtered."""
    color: Callable[[int], str | None] | None = None
    """The color of the row's chip, as "#rrggbb"; the same as in the timeline. None: no chip."""
    dim: Callable[[int], bool] | None = None
    """Whether a row is less important."""
    empty: str = "nothing here"
    """The message for an empty table."""
    same_text: Callable[[], I64] | None = None
    """A number per row, equal for equal `search_text`, so that the filter asks for each text once."""

    only: I64 | None = None
    """The rows to show; None: all of them."""
    foot: Mapping[str, str] = field(default_factory=dict)
    """Texts of a last line that is always in view, by the keys of columns: totals."""
    records: Callable[[I64], list[dict[str, Any]]] | None = None
    """Rows as flat records with the same fields, for files. None: the columns' values."""
    lines: bool = False
    """Whether rows are only lines of the objects that `records` returns."""

    @property
    def count(self) -> int:
        """How many rows can be shown."""
        return self.rows if self.only is None else len(self.only)

    def column(self, key: str) -> Column | None:
        return next((c for c in self.columns if c.key == key), None)


def arrange(table: Table, sort: str | None, descending: bool, needle: str = "") -> I64:
    """The rows in display order: filtered by `needle` (ignoring case), then sorted.

    Equal rows, or without `sort` all rows, stay in the order of the data.
    """
    rows = np.arange(table.rows, dtype=np.int64)
    held = np.ones(table.rows, dtype=np.bool_)
    if needle and table.search_text is not None:
        held = _holding(table, table.search_text, needle.casefold())
    rows = rows[held] if table.only is None else table.only[held[table.only]]
    column = table.column(sort) if sort else None
    if column is None or column.values is None or not len(rows):
        return rows
    values = column.values()
    if isinstance(values, np.ndarray) and values.dtype.kind in "iufb":
        keys = values[rows]
        if descending:
            keys = -keys.astype(np.float64 if keys.dtype.kind == "f" else np.int64)
        return rows[np.argsort(keys, kind="stable")]
    texts = [str(v).casefold() for v in values]
    ordered = sorted(rows.tolist(), key=texts.__getitem__, reverse=descending)
    return np.array(ordered, dtype=np.int64)


def _holding(table: Table, text: Callable[[int], str], folded: str) -> npt.NDArray[np.bool_]:
    """Which rows contain a case-folded text."""
    if table.same_text is None or not table.rows:
        return np.fromiter((folded in text(r).casefold() for r in range(table.rows)), np.bool_, table.rows)
    _, first, number = np.unique(table.same_text(), return_index=True, return_inverse=True)
    found = np.fromiter((folded in text(int(r)).casefold() for r in first), np.bool_, len(first))
    return np.asarray(found[number], dtype=np.bool_)


PLENTY = 48
"""Cells of a flexible column that needs no more."""
LEAST_TEXT = 20
"""The width of a column whose texts may be longer."""
LEAST_SENTENCE = 22
"""Cells of a flexible column whose text can do without its last clauses."""


def fit(columns: Sequence[Column], width: int, minimum: int = 0) -> list[tuple[Column, int]]:
    """The columns that fit into `width` cells, with the width of each.

    The flexible column gets the remaining width, at least `minimum` (0: a third, less for a sentence).
    Columns are dropped to allow that, and narrow ones come back if dropping a wider one made room. Where it
    has plenty, columns of texts share the rest, each up to twice its width.
    """
    sentence = any(column.clauses for column in columns if not column.width)
    minimum = minimum or (LEAST_SENTENCE if sentence else max(16, width * 3 // 10))
    left_out: list[Column] = []

    def without(some: Sequence[Column]) -> list[Column]:
        return [c for c in columns if c not in some]

    def too_wide(shown: Sequence[Column]) -> bool:
        return sum((c.width or minimum) + c.after for c in shown) - shown[-1].after > width

    for column in sorted((c for c in columns if c.drop), key=lambda c: -c.drop):
        if not too_wide(without(left_out)):
            break
        left_out.append(column)
    for column in reversed(left_out[:]):
        back = [c for c in left_out if c is not column]
        if not too_wide(without(back)):
            left_out = back
    shown = without(left_out)
    spare = width - sum(c.width + c.after for c in shown) + sum(c.after for c in shown[-1:])
    texts = {c.key for c in shown if c.width >= LEAST_TEXT and not c.right}
    more = max(0, spare - PLENTY) // len(texts) if texts and not all(c.width for c in shown) else 0
    found = [(c, c.width + min(more, c.width) * (c.key in texts)) for c in shown]
    spare -= sum(size - c.width for c, size in found)
    return [(c, size or max(1, spare)) for c, size in found]


def next_sort(columns: Sequence[Column], current: str | None, step: int) -> Column | None:
    """The sortable column `step` columns from the current one, wrapping around."""
    sortable = [c for c in columns if c.values is not None]
    if not sortable:
        return None
    at = next((i for i, c in enumerate(sortable) if c.key == current), -1 if step > 0 else 0)
    return sortable[(at + step) % len(sortable)]


def scrolled(top: int, cursor: int, height: int, rows: int) -> int:
    """The first visible row such that `cursor` is in view, scrolling as little as possible."""
    if height <= 0:
        return 0
    if cursor < top:
        top = cursor
    elif cursor >= top + height:
        top = cursor - height + 1
    return max(0, min(top, rows - height))
