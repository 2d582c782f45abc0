"""A sheet about one line of a comparison."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from textual.widget import Widget

from tracetui.report.facts import Fact
from tracetui.tables.model import Column, Table
from tracetui.tui.bindings import bind
from tracetui.tui.screens.explain import Line, fact_lines
from tracetui.tui.screens.sheet import Rows, Sheet
from tracetui.tui.tables.view import TableView

HINTS = (("Esc", "close", "leave"), ("Enter", "go to the place", "choose"), ("↑↓", "read", ""))


class DifferenceScreen(Sheet[int]):
    """Says what a line means and rests on; the result is which of its places to go to."""

    BINDINGS = bind("escape,q,e leave")

    def __init__(self, title: str, facts: Sequence[Fact]) -> None:
        """`facts`: `event` says which place a line is about, -1 for none."""
        super().__init__(title, HINTS)
        self.facts = facts
        self.lines: list[Line] = []
        self.list = Rows()

    def body(self) -> Iterator[Widget]:
        yield self.list

    def on_mount(self) -> None:
        self.list.focus()
        self._wrap()

    def on_resize(self) -> None:
        self._wrap()

    def _wrap(self) -> None:
        label = max(len(fact.label) for fact in self.facts)
        lines = self.lines = fact_lines(self.facts, max(20, min(110, self.size.width - label - 6)))
        columns = (
            Column("label", "", lambda r: lines[r].label, None, label, False),
            Column("text", "", lambda r: lines[r].text, None, 0, False),
        )
        self.list.set_table(Table(columns, len(lines)), row=self.list.row)
        self.fit(len(lines))

    def on_table_view_chosen(self, message: TableView.Chosen) -> None:
        if (place := self.lines[message.row].event) >= 0:
            self.dismiss(place)

    def action_choose(self) -> None:
        self.list.action_choose()
