"""Writers of tables: aligned text, Markdown, JSON, CSV. (The screen's is `tracetui.tui.tables`.)"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tracetui.views import markdown
from tracetui.views.lines import Line, Span, columns
from tracetui.views.model import I64, Column, Table

Record = dict[str, Any]

TABLE_ENDINGS = (".csv", ".json", ".md")


def cells(shown: Sequence[Column], rows: Iterable[int]) -> list[list[Span]]:
    """The cells of rows in text, with their styles."""
    return [[_span(column.cell(row)) for column in shown] for row in rows]


def _span(cell: str | Span) -> Span:
    return cell if isinstance(cell, tuple) else (cell, "")


def aligned(shown: Sequence[Column], body: Sequence[Sequence[Span]]) -> list[Line]:
    """The headings and the `cells`, which may already be cut, in aligned columns."""
    head = [(column.heading, "dim") for column in shown]
    return columns([head, *body], "".join(">" if column.right else "<" for column in shown))


def markdown_table(shown: Sequence[Column], rows: Iterable[int]) -> str:
    """The rows under their headings."""

    def cell(column: Column, row: int) -> str:
        return column.markdown(row) if column.markdown else markdown.cell(_span(column.cell(row))[0])

    def heading(column: Column) -> str:
        first, rest = column.heading[:1], column.heading[1:]
        return first.upper() + rest if column.markdown_heading is None else column.markdown_heading

    body = [[cell(column, row) for column in shown] for row in rows]
    align = "".join(">" if column.right else "<" for column in shown)
    return markdown.table([heading(column) for column in shown], body, align)


def records(shown: Sequence[Column], rows: I64) -> list[Record]:
    """One object per row, with the fields of the columns in their order."""
    fields = {name: values(rows) for column in shown for name, values in column.fields.items()}
    return [dict(zip(fields, row, strict=True)) for row in zip(*fields.values(), strict=True)]


# Exporting a table from the screen


def table_text(table: Table, order: I64, ending: str) -> str:
    """A table in the format of a file ending, one of `TABLE_ENDINGS`."""
    return {".csv": as_csv, ".json": as_json, ".md": as_markdown}[ending](table, order)


def row_count(table: Table, order: I64) -> int:
    """The number of rows in the exported file."""
    return len(_values(table, order)[1]) if table.lines else len(order)


def as_csv(table: Table, order: I64) -> str:
    """Comma-separated values, a line of titles first. A text that a spreadsheet would run as a formula
    begins with an apostrophe."""
    titles, rows = _values(table, order)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(titles)
    writer.writerows([[_no_formula(value) for value in row] for row in rows])
    return out.getvalue()


def _no_formula(value: Any) -> Any:
    formula = isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r"))
    return f"'{value}" if formula else value


def as_json(table: Table, order: I64) -> str:
    """A list of objects, one for each row."""
    titles, rows = _values(table, order)
    return json.dumps([dict(zip(titles, row, strict=True)) for row in rows], indent=1) + "\n"


def as_markdown(table: Table, order: I64) -> str:
    """A table for an issue or a chat, as shown on the screen."""
    titles, rows = _texts(table, order)
    sides = [":--"] * len(titles) if table.lines else ["--:" if c.right else ":--" for c in table.columns]

    def words(text: str) -> str:
        return "<br>".join(markdown.cell(part) for part in text.split("\n")) or " "

    def line(texts: list[str]) -> str:
        return "| " + " | ".join(map(words, texts)) + " |"

    return "\n".join([line(titles), "|" + "|".join(sides) + "|", *map(line, rows)]) + "\n"


def _values(table: Table, order: I64) -> tuple[list[str], list[list[Any]]]:
    """(titles, rows) for programs: the table's records if it has any, else its columns, as numbers if they
    sort by number."""
    if table.records is not None:
        found = table.records(order)
        return list(found[0]) if found else [], [list(record.values()) for record in found]
    shown = [c for c in table.columns if c.title or c.values is not None]
    raw = [c.values() if c.values is not None else None for c in shown]

    def value(n: int, row: int) -> Any:
        values = raw[n]
        return values[row].item() if isinstance(values, np.ndarray) else shown[n].text(row).strip()

    return [c.key for c in shown], [[value(n, int(r)) for n in range(len(shown))] for r in order]


def _texts(table: Table, order: I64) -> tuple[list[str], list[list[str]]]:
    """(titles, rows) as on the screen; if rows are only lines of objects, the objects."""
    if table.lines:
        titles, rows = _values(table, order)
        return titles, [["" if value is None else str(value) for value in row] for row in rows]
    return [c.title for c in table.columns], [[c.text(int(r)).strip() for c in table.columns] for r in order]
