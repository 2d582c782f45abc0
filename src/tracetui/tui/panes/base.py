"""What all panes share: they are tables, they hear of the selected event, and they ask the screen to jump."""

from __future__ import annotations

from textual.message import Message

from tracetui.tui.results import Results
from tracetui.tui.tables.view import TableView


class Jump(Message):
    """A pane asks the screen to show an event. `said` tells the user which one it is."""

    def __init__(self, event: int, said: str = "") -> None:
        super().__init__()
        self.event, self.said = event, said


class JumpToGap(Message):
    """A pane asks the screen to show a gap, by its place among all gaps (`Results.gaps`)."""

    def __init__(self, gap: int) -> None:
        super().__init__()
        self.gap = gap


class Pane(TableView):
    """A table about the trace.

    Heavy work goes through `results`, off the thread that draws.
    """

    def __init__(self, results: Results, id: str) -> None:
        super().__init__(id=id)
        self.results = results

    def follow(self, event: int | None) -> None:
        """The selected event is another one: show it in this table. Called only while the pane is visible."""
