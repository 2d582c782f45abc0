"""Tables and pictures as files; the ending of the name decides the format."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.segment import Segment, Segments

from tracetui.core.safe_text import plain
from tracetui.core.writing import written
from tracetui.session.paths import typed_path
from tracetui.session.state import served
from tracetui.views.model import I64, Table

if TYPE_CHECKING:
    from textual.app import App

PICTURE_ENDINGS = (".svg", ".txt")


class ExportError(ValueError):
    """Something cannot be exported; the message says why in one line."""


def table_text(table: Table, order: I64, ending: str) -> str:
    """A table in the format for a file's ending. Raises ExportError."""
    from tracetui.views import writers

    if ending not in writers.TABLE_ENDINGS:
        tables, pictures = (", ".join(endings) for endings in (writers.TABLE_ENDINGS, PICTURE_ENDINGS))
        raise ExportError(f"a table needs {tables}, the picture {pictures}")
    if not len(order):
        raise ExportError("the table has no rows to export")
    return writers.table_text(table, order, ending)


def picture_text(lines: Sequence[Iterable[Segment]], ending: str, title: str) -> str:
    """A screen's lines as SVG (with colors, under a title) or as text, by a file's ending."""
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


def deliver(app: App[Any], path: str, text: str) -> str:
    """Write a new file, or send it to the browser that shows the app. Returns what was done, in safe words.

    Raises ExportError.
    """
    if served():
        name = typed_path(path).name
        app.deliver_text(io.StringIO(text), save_filename=name)
        return f"downloading {plain(name)}"
    return f"wrote {plain(str(write_new(path, text)))}"


def write_new(path: str, text: str) -> Path:
    """Write a new file (see `written`). Raises ExportError, also if the file exists."""
    if served():
        raise ExportError("off in a browser")
    target = typed_path(path)
    try:
        data = text.encode()
        with written(target, new=True, wait=False) as file:
            file.write(data)
    except FileExistsError:
        raise ExportError(f"{target} already exists: choose another name") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise ExportError(f"{target}: {reason or 'cannot be written'}") from None
    return target
