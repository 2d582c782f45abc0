"""What all panes have in common: they are tables, they follow the selected event, and they ask the screen to
go somewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.message import Message
from textual.worker import Worker, WorkerState

from tracetui.core.cells import middle
from tracetui.core.safe_text import plain
from tracetui.core.units import plural
from tracetui.session.session import Session
from tracetui.tui.tables.view import TableView

if TYPE_CHECKING:
    from tracetui.views.target import Target

LONGEST_NEEDLE = 16
"""The most cells of a filter's text in a note."""


class Noted(Message):
    """The pane's `note` has changed."""

    def __init__(self, pane: Pane) -> None:
        super().__init__()
        self.pane = pane


class Follow(Message):
    """A pane asks the screen to go to what one of its lines leads to."""

    def __init__(self, target: Target) -> None:
        super().__init__()
        self.target = target


class Pane(TableView):
    """A table about the trace. Heavy work goes through `whole`, in a thread."""

    eager = True
    """Whether `follow` is cheap enough to call for every step of a held key."""

    def __init__(self, session: Session, key: str) -> None:
        self.of = session.navigator.active
        """Index of the recording that the pane is about."""
        super().__init__(id=f"{key}-{self.of}" if self.of else key)
        self.session, self.key = session, key
        self.whole = session.active.whole
        self.note = ""
        """What the table covers, shown beside the tabs: the part of the trace, the filter, the rest."""
        self.needed = ""
        """The beginning of the note without which the rows would be misread."""
        self._note_parts = ("", "", "")

    def set_note(self, note: str, where: str = "", first: str = "") -> None:
        """`where`: the part of the trace that the table covers; `first`: the part of `note` that is just as
        important."""
        self._note_parts = (note, where, first)
        self._update_note()

    @property
    def busy(self) -> bool:
        """Whether more rows are still to come."""
        return False

    def place(self) -> str:
        """The part of the trace that the table covers, as in its note."""
        return self._note_parts[1]

    def whose(self) -> str:
        """Which of two recordings the table is about; "" for the only one."""
        letter = self.session.navigator.scene.sources[self.of].letter
        return f"of {letter}" if letter else ""

    def _update_note(self) -> None:
        text, where, first, whose = self._note_parts[0], self.place(), self._note_parts[2], self.whose()
        of = f"{len(self.order):,} of {plural(self.table.count, 'row')}" if self.table is not None else ""
        filtered = f"filter “{middle(self.needle, LONGEST_NEEDLE)}”: {of}" if self.needle and of else ""

        def joined(text: str) -> str:
            return ": ".join(filter(None, (whose, where, "; ".join(filter(None, (filtered, text))))))

        note = joined(text)
        # If the table covers only a part of the trace, the note matters more than the titles of the other
        # tabs.
        self.needed = note if where else joined(first)
        if note != self.note:
            self.note = note
            self.post_message(Noted(self))

    def _arrange(self, keep: int | None) -> None:
        super()._arrange(keep)
        self._update_note()

    def follow(self, event: int | None) -> None:
        """Another event was selected: show it in this table. Called only while the pane is visible."""

    def target_of(self, row: int, again: int = 0) -> Target | None:
        """Where Enter on a row leads to; `again`: how many times it was pressed before."""
        raise NotImplementedError

    def next_group(self) -> str:
        """Group the rows by the next property, or show the next part of them, and say which; "" if there is
        none."""
        return ""

    @property
    def term(self) -> str:
        """The glossary's name for the first term in the row under the cursor, or else in the titles; "" for
        none, or if the keys are not the pane's."""
        from tracetui.views.glossary import terms_in

        if self.row is None or self.table is None or not self.has_focus:
            return ""
        columns = self.table.columns
        terms = terms_in(*(c.text(self.row) for c in columns), *(c.title for c in columns))
        name = terms[0].name if terms else ""
        return "launch (cause)" if name == "launch" and self.key in ("gaps", "steps") else name

    def about(self) -> Target | None:
        """The event or gap that the row under the cursor is about; None if it is about none."""
        there = self.target_of(self.row) if self.row is not None else None
        return there if there is not None and there.is_single else None

    def on_table_view_chosen(self, message: TableView.Chosen) -> None:
        message.stop()
        if (there := self.target_of(message.row, message.again)) is not None:
            self.post_message(Follow(there))

    def catch_up(self) -> None:
        """The pane is shown again: do what was put off while it was hidden."""

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """A failed analysis shows in its own pane; the app goes on."""
        event.stop()
        if event.state is WorkerState.ERROR:
            self.fail(failure(event.worker.error))


def failure(error: BaseException | None) -> str:
    """An unexpected error as one safe line."""
    return plain(f"this could not be computed ({type(error).__name__}: {error})", 300)
