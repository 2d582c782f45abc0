"""A sheet about one line of a comparison."""

from __future__ import annotations

from collections.abc import Sequence

from tracetui.report.facts import Fact, wrapped
from tracetui.tui.bindings import bind
from tracetui.tui.screens.explain import LinesSheet

HINTS = (("Esc", "close", "leave"), ("Enter", "go to the place", "choose"), ("↑↓", "read", ""))


class DifferenceScreen(LinesSheet):
    """Says what a line means and rests on; the result is which of its places to go to."""

    BINDINGS = bind("escape,q,e leave")

    def __init__(self, title: str, facts: Sequence[Fact]) -> None:
        """`facts`: `event` says which place a line is about, -1 for none."""
        super().__init__(title, HINTS)
        self.facts = facts

    def on_mount(self) -> None:
        self.wrap()

    def wrap(self) -> None:
        labels = max(len(fact.label) for fact in self.facts)
        self.show_lines(wrapped(self.facts, self.room(labels)), labels, self.list.row)
