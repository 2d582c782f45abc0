"""What all panes share: they are tables, they hear of the selected event, and they ask the screen to jump."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.message import Message
from textual.worker import Worker, WorkerState

from tracetui.cells import middle
from tracetui.safe_text import plain
from tracetui.session.session import Session
from tracetui.tui.tables.view import TableView
from tracetui.units import plural

if TYPE_CHECKING:
    from tracetui.analysis.scope import Scope


LONGEST_NEEDLE = 16
"""Cells of a filter in a note."""


class Jump(Message):
    """A pane asks the screen to select an event. `said` tells the user which one it is.

    `show`: a stretch of time to show with it; without one the event is only brought into view.
    """

    def __init__(self, event: int, said: str = "", show: tuple[int, int] | None = None) -> None:
        super().__init__()
        self.event, self.said, self.show = event, said, show


class ShowSpan(Message):
    """A pane asks the screen to show a stretch of time, in ns."""

    def __init__(self, start: int, end: int, said: str = "") -> None:
        super().__init__()
        self.start, self.end, self.said = start, end, said


class Noted(Message):
    """What the pane speaks of has changed: its `note`."""

    def __init__(self, pane: Pane) -> None:
        super().__init__()
        self.pane = pane


class JumpToGap(Message):
    """A pane asks the screen to show a gap, by its place among all gaps (`Results.gaps`)."""

    def __init__(self, gap: int) -> None:
        super().__init__()
        self.gap = gap


class Pane(TableView):
    """A table about the trace.

    Heavy work goes through `results`, off the thread that draws.
    """

    eager = True
    """Whether `follow` costs so little that it may be called for every step of a held key."""

    def __init__(self, session: Session, key: str) -> None:
        super().__init__(id=key)
        self.session = session
        self.results = session.active.results
        self.note = ""
        """What the table speaks of, in a few words: shown beside the tabs. Its part of the trace comes first,
        then its filter."""
        self.needed = ""
        """The beginning of the note that matters most: without it the rows would be mistaken for others."""
        self._said = ("", "", "")

    def set_note(self, note: str, where: str = "", first: str = "") -> None:
        """`where`: the part of the trace that the table speaks of; `first`: the beginning of the note that is
        needed as much."""
        self._said = (note, where, first)
        self._tell()

    def place(self) -> str:
        """The part of the trace that the table speaks of, as its note says it."""
        return self._said[1]

    def _tell(self) -> None:
        said, where = self._said[0], self.place()
        of = f"{len(self.order):,} of {plural(self.table.rows, 'row')}" if self.table is not None else ""
        filtered = f"filter “{middle(self.needle, LONGEST_NEEDLE)}”: {of}" if self.needle and of else ""

        def of_place(text: str) -> str:
            return ": ".join(filter(None, (where, "; ".join(filter(None, (filtered, text))))))

        note, self.needed = of_place(said), of_place(self._said[2])
        if note != self.note:
            self.note = note
            self.post_message(Noted(self))

    def _arrange(self, keep: int | None) -> None:
        super()._arrange(keep)
        self._tell()

    def follow(self, event: int | None) -> None:
        """The selected event is another one: show it in this table. Called only while the pane is visible."""

    def set_scope(self, scope: Scope | None) -> None:
        """Speak of a part of the trace (None: of all of it), where the table can."""

    def catch_up(self) -> None:
        """The pane is shown again: do what could wait as long as nobody saw it."""

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """A failed analysis costs its own pane, not the app."""
        event.stop()
        if event.state is WorkerState.ERROR:
            self.fail(failure(event.worker.error))


def failure(error: BaseException | None) -> str:
    """One safe line on an error that nobody foresaw."""
    return plain(f"this could not be worked out ({type(error).__name__}: {error})", 300)
