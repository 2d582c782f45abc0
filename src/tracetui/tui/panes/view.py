"""The pane of a view: its table or, if it has none, its text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, ClassVar

from tracetui.analysis.idle.thread_gaps import all_gaps_of
from tracetui.core.cells import same_place
from tracetui.core.copying import replace
from tracetui.rules import SEVERITIES
from tracetui.session.session import Session
from tracetui.tui.panes.scoped import ScopedPane
from tracetui.views.answer import Answer, Shown, within
from tracetui.views.model import Column, Table
from tracetui.views.registry import VIEWS
from tracetui.views.target import Target


class ViewPane(ScopedPane):
    """What a view says of the scope."""

    DEFAULT_CSS = """
    ViewPane > .severity--high { color: $error; }
    ViewPane > .severity--medium { color: $warning; }
    ViewPane > .severity--low { color: $primary; }
    ViewPane > .severity--info { color: $text-muted; }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {f"severity--{severity}" for severity in SEVERITIES}

    def __init__(self, session: Session, key: str) -> None:
        super().__init__(session, key)
        self.shown: Shown | None = None
        self.waiting = "working it out …"
        self._texts: list[str] = []
        """Of the rows, where these are lines of a text."""
        self._event: int | None = None
        self._wanted: Any = None
        """What to put the cursor on once the table has it: of the gaps, the one that was shown last."""
        if key == "gaps" and (gap := session.gaps.at) is not None:
            gaps = all_gaps_of(self.whole)
            self._wanted = int(gaps.device[gap]), int(gaps.index[gap])

    def compute(self) -> Iterator[Callable[[], None]]:
        part, width = self.whole.in_scope(self.scope), self.size.width
        answer = VIEWS[self.key].make(part)
        for shown in answer.shown(width) if answer.shown is not None else [text_shown(answer, width)]:
            yield partial(self.show_view, shown, within(part.scope))

    def show_view(self, shown: Shown, where: str) -> None:
        """`where`: the part of the trace that it is about."""
        before, row, item = self._texts, self.row if self.cursor else None, self._wanted
        if item is None and row is not None and self.shown is not None:
            item = self.shown.item(row)
        table, text = shown.table, shown.table.search_text
        texts = self._texts = [text(r) for r in range(table.rows)] if table.lines and text is not None else []
        self.shown = shown
        if not texts or texts != before:  # if nothing has changed, Enter still goes to the next event
            wrapped = bool(texts) and "".join(texts).replace(" ", "") == "".join(before).replace(" ", "")
            at = same_place(before, row, texts) if wrapped and row is not None else None
            color = partial(self._color, table) if table.color is not None else None
            self.set_table(replace(table, color=color), shown.sort, shown.descending, at)
            if at is None:
                self.show_item(item)
        if shown.note is not None:
            self.set_note(shown.note, where, shown.needed)
        self.follow(self._event)

    def _color(self, table: Table, row: int) -> str | None:
        severity = table.color(row) if table.color is not None else None
        if severity in (None, "info"):
            return None
        return self.get_component_styles(f"severity--{severity}").color.hex6

    @property
    def item(self) -> Any:
        """What the row under the cursor is about."""
        return self.shown.item(self.row) if self.shown is not None and self.row is not None else None

    def show_item(self, item: Any) -> None:
        """Put the cursor on an item, now or once the table has it."""
        self._wanted = item
        if item is not None and self.shown is not None:
            row = self.shown.row_of(item)
            if row is not None and self.show_row(row):
                self._wanted = None

    def on_table_view_highlighted(self, message: ScopedPane.Highlighted) -> None:
        self._wanted = None

    def follow(self, event: int | None) -> None:
        self._event = event
        row = self.shown.row_at(event) if event is not None and self.shown is not None else None
        if row is not None:
            self.show_row(row)

    def on_resize(self) -> None:
        if self._texts:
            self.load()  # it is wrapped again

    def target_of(self, row: int, again: int = 0) -> Target | None:
        return self.shown.target_of(row, again) if self.shown is not None else None


def text_shown(answer: Answer, width: int) -> Shown:
    """The text of a view as a table of lines. A file gets its rows."""
    lines = answer.text(max(20, width - 2)).splitlines()
    table = Table(
        (Column("text", "", lambda r: lines[r], right=False),),
        len(lines),
        lambda r: lines[r],
        records=lambda order: answer.rows,
        lines=True,
    )
    return Shown(table, note="")
