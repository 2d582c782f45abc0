"""A sheet about one line of a comparison."""

from __future__ import annotations

from collections.abc import Sequence

from tracetui.report.facts import Fact
from tracetui.tables.model import Column, Table
from tracetui.tui.bindings import bind
from tracetui.tui.screens.explain import LinesSheet, fact_lines

HINTS = (("Esc", "close", "leave"), ("Enter", "go to the place", "choose"), ("↑↓", "read", ""))


class DifferenceScreen(LinesSheet):
    """Says what a line means and rests on; the result is which of its places to go to."""

    BINDINGS = bind("escape,q,e leave")

    def __init__(self, title: str, facts: Sequence[Fact]) -> None:
        """`facts`: `event` says which place a line is about, -1 for none."""
        super().__init__(title, HINTS)
        self.facts = facts

    def on_mount(self) -> None:
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
