"""Tables and pictures as files: the kind is told by the name's ending. Pure, but for `write_new`."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.segment import Segment, Segments

from tracetui.report import markdown
from tracetui.session.paths import typed_path
from tracetui.tables.model import I64, Table

TABLE_ENDINGS = (".csv", ".json", ".md")
PICTURE_ENDINGS = (".svg", ".txt")


class ExportError(ValueError):
    """What cannot be exported; the message is one line."""


def cells(table: Table, order: I64) -> tuple[list[str], list[list[Any]]]:
    """(titles, rows) for a program: a table's records where it has some, else its columns, in numbers where
    they sort by numbers."""
    if table.records is not None:
        records = table.records(order)
        return list(records[0]) if records else [], [list(record.values()) for record in records]
    columns = [c for c in table.columns if c.title or c.values is not None]
    raw = [c.values() if c.values is not None else None for c in columns]

    def value(n: int, row: int) -> Any:
        values = raw[n]
        if isinstance(values, np.ndarray):
            return values[row].item()
        return columns[n].text(row).strip()

    return [c.key for c in columns], [[value(n, int(r)) for n in range(len(columns))] for r in order]


def shown(table: Table, order: I64) -> tuple[list[str], list[list[str]]]:
    """(titles, rows) as they stand on the screen; where those are lines of something, what they are of."""
    if table.lines:
        titles, rows = cells(table, order)
        return titles, [["" if value is None else str(value) for value in row] for row in rows]
    return [c.title for c in table.columns], [[c.text(int(r)).strip() for c in table.columns] for r in order]


def row_count(table: Table, order: I64) -> int:
    """How many rows a file gets."""
    return len(cells(table, order)[1]) if table.lines else len(order)


def as_csv(table: Table, order: I64) -> str:
    """Comma-separated values, a line of titles first."""
    titles, rows = cells(table, order)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(titles)
    writer.writerows(rows)
    return out.getvalue()


def as_json(table: Table, order: I64) -> str:
    """A list of objects, one for each row."""
    titles, rows = cells(table, order)
    return json.dumps([dict(zip(titles, row, strict=True)) for row in rows], indent=1) + "\n"


def as_markdown(table: Table, order: I64) -> str:
    """A table to paste into an issue or a chat, as it stands on the screen."""
    titles, rows = shown(table, order)
    sides = [":--"] * len(titles) if table.lines else ["--:" if c.right else ":--" for c in table.columns]

    def words(text: str) -> str:
        return "<br>".join(markdown.cell(part) for part in text.split("\n")) or " "

    def line(texts: list[str]) -> str:
        return "| " + " | ".join(map(words, texts)) + " |"

    return "\n".join([line(titles), "|" + "|".join(sides) + "|", *map(line, rows)]) + "\n"


def table_text(table: Table, order: I64, ending: str) -> str:
    """A table in the format that a file's ending names. Raises ExportError."""
    formats = {".csv": as_csv, ".json": as_json, ".md": as_markdown}
    if ending not in formats:
        raise ExportError(
            f"a table goes into {', '.join(TABLE_ENDINGS)}, the picture into {', '.join(PICTURE_ENDINGS)}"
        )
    if not len(order):
        raise ExportError("the table has no row to export")
    return formats[ending](table, order)


def picture_text(lines: Sequence[Iterable[Segment]], ending: str, title: str) -> str:
    """A screen's lines as SVG (with colours, under a title) or as text, by a file's ending."""
    if ending == ".txt":
        return "".join(f"{''.join(s.text for s in line).rstrip()}\n" for line in lines)
    width = max((Segment.get_line_length(list(line)) for line in lines), default=1)
    console = Console(
        width=width,
        height=len(lines),
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
        record=True,
        legacy_windows=False,
        _environ={},
    )
    console.print(Segments([segment for line in lines for segment in (*line, Segment.line())]), end="")
    return console.export_svg(title=title)


def write_new(path: str, text: str) -> Path:
    """Write a file that was not there before, whole or not at all. Raises ExportError."""
    target = typed_path(path)
    try:
        with open(target, "x", encoding="utf-8") as file:
            try:
                file.write(text)
            except (OSError, ValueError):
                os.unlink(target)
                raise
    except FileExistsError:
        raise ExportError(f"{target} is there already: choose another name") from None
    except (OSError, ValueError) as error:
        told = error.strerror if isinstance(error, OSError) else None
        raise ExportError(f"{target}: {told or 'cannot be written'}") from None
    return target
