"""What a view says of a part of a trace, in every form."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tracetui.views.document import Document
from tracetui.views.lines import Line, plain_text
from tracetui.views.model import Table
from tracetui.views.target import Target
from tracetui.views.writers import Record

if TYPE_CHECKING:
    from tracetui.analysis.part import Scope

SHOWN = 20
"""Rows in a notebook; `to_pandas` has all."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A view on the screen: the table of its pane."""

    table: Table
    """Its `color` may be that of a severity."""
    target_of: Callable[[int, int], Target | None] = lambda row, again: None
    """Where Enter on a row leads to; the number says how many times it was pressed before."""
    note: str | None = None
    """What the table covers, beside the tabs; None: not known yet."""
    needed: str = ""
    """The beginning of the note without which the rows would be misread."""
    sort: str | None = None
    """The column to sort by at first."""
    descending: bool = True
    item: Callable[[int], Any] = lambda row: None
    """What a row is about: the cursor stays with that in the table of another part."""
    row_of: Callable[[Any], int | None] = lambda item: None
    """The first row about an item."""
    row_at: Callable[[int], int | None] = lambda event: None
    """The row that an event, which was selected, belongs to."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a view says of a part of a trace. Each form is made when it is asked for."""

    name: str
    """Of the view."""
    data: Callable[[], Any]
    """What the command prints with `--json`: fields are added, never renamed. Those that end in `_ns`, `_us`
    and `_bytes` are in that unit; shares are from 0 to 1."""
    markdown: Callable[[], str]
    """To paste into an issue."""
    lines: Callable[[int], str | list[Line]]
    """Lines of at most so many cells, with their styles; or a text."""
    choose: Callable[[Any], list[Record]] = lambda data: data if isinstance(data, list) else [data]
    """The rows in `data`."""
    notes: tuple[str, ...] = ()
    """What to say beside a text."""
    shown: Callable[[int], Iterable[Shown]] | None = None
    """The table of its pane, which has so many cells: first what is known soonest, in the end all of it.
    None: the pane has the text."""
    documents: Callable[[], Iterable[Document]] | None = None
    """What its pane has, if the view declares that this is a document; likewise."""

    @property
    def rows(self) -> list[Record]:
        """One record per row, with the fields of `data`."""
        return self.choose(self.data())

    def text(self, width: int = 100) -> str:
        """What the command prints, in lines of `width` cells."""
        lines = self.lines(width)
        return lines if isinstance(lines, str) else plain_text(lines)

    def to_pandas(self) -> Any:
        """The rows as a `pandas.DataFrame`."""
        import pandas as pd

        return pd.DataFrame(self.rows)

    def to_arrow(self) -> Any:
        """The rows as a `pyarrow.Table`."""
        import pyarrow as pa

        return pa.Table.from_pylist(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        rows = len(self)
        return f"<{self.name}: {rows:,} {'row' if rows == 1 else 'rows'}>"

    def _repr_html_(self) -> str:
        import html

        rows = self.rows
        fields = list(dict.fromkeys(name for row in rows[:SHOWN] for name in row))

        def line(tag: str, cells: list[str]) -> str:
            return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

        body = "".join(line("td", [_cell(row.get(name)) for name in fields]) for row in rows[:SHOWN])
        more = f"<p>and {len(rows) - SHOWN:,} more rows</p>" if len(rows) > SHOWN else ""
        return f"<table><thead>{line('th', fields)}</thead><tbody>{body}</tbody></table>{more}"


def within(scope: Scope) -> str:
    """A scope as a place: `in view`, `in the range`, `in step 3`; "" for the whole trace."""
    if scope.kind == "whole":
        return ""
    return {"viewport": "in view", "step": f"in {scope.label}"}.get(scope.kind, f"in the {scope.kind}")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, (list, dict)):
        return f"({len(value)})"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return f"{value:,.6g}" if isinstance(value, float) else f"{value:,}"
    return str(value)
