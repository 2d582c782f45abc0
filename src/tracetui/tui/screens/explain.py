"""Sheets of text: about one event or gap, about a step, about a line of a comparison."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from textual import work
from textual.worker import Worker, WorkerState, get_current_worker

from tracetui.analysis.part import Part
from tracetui.core.cells import same_place
from tracetui.core.units import plural
from tracetui.session.navigator import Navigator
from tracetui.tui.bindings import bind
from tracetui.tui.footer import Hints
from tracetui.tui.panes.base import failure
from tracetui.tui.screens.sheet import Rows, TableSheet, WalkingSheet
from tracetui.tui.tables.view import TableView
from tracetui.views.event import Fact, facts_table
from tracetui.views.glossary_terms import Term
from tracetui.views.sheets import SheetText, event_text, facts_text, step_text

LEAVE = ("Esc", "close", "leave")
READ = ("↑↓", "read", "")
HERE = ("Enter", "go to the event", "choose")


def same_line(before: Sequence[Fact], row: int, after: Sequence[Fact]) -> int:
    """The line that has the same content as line `row` of `before`, at another width of the sheet."""
    event = before[row].event
    if event >= 0:  # names in the chain are cut to fit: find the line by its event
        return next((n for n, line in enumerate(after) if line.event == event), 0)
    texts = [["" if line.event >= 0 else line.value for line in lines] for lines in (before, after)]
    return same_place(texts[0], row, texts[1])


class DocumentSheet(TableSheet[int], WalkingSheet[int]):
    """A text, some of whose lines are about events: the timeline shows the one under the cursor. The result
    is the event that was chosen."""

    BINDINGS = bind("escape,q leave")

    def __init__(self, title: str, hints: Hints, navigator: Navigator, make: Callable[[], SheetText]) -> None:
        """`make` is called in a thread, unless there is a text already."""
        super().__init__(title, hints, navigator)
        self._make = make
        self.text: SheetText | None = None
        """The text, once it is known."""
        self.lines: Sequence[Fact] = ()
        self.list = Rows()
        self._at = -1
        """The event that the timeline shows."""

    def on_mount(self) -> None:
        self.list.focus()
        if self.text is None:
            self.read()
        self.wrap()

    def on_unmount(self) -> None:
        """A closed screen may be there for long, and must not keep the part of a file that it was about."""
        self._place = self.text = None
        del self._make

    @work(thread=True, exclusive=True, exit_on_error=False, group="text")
    def read(self) -> None:
        """Make the text, in a thread."""
        text = self._make()
        if not get_current_worker().is_cancelled:
            self.app.call_from_thread(self._show, text)

    def _show(self, text: SheetText) -> None:
        self.text = text
        self.head.title = text.title or self.head.title
        self.wrap()

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        event.stop()
        if event.state is WorkerState.ERROR:
            self.list.fail(failure(event.worker.error))

    def on_resize(self) -> None:
        self.wrap()

    def wrap(self) -> None:
        """Show the lines, wrapped to this width."""
        text, row = self.text, self.list.row
        if text is None:
            return
        beside = text.labels + (3 if text.leads is not None else 0) + 6
        lines = text.lines(max(20, min(110, self.size.width - beside)))
        row = None if row is None else same_line(self.lines, row, lines)
        self.lines = lines
        self.list.set_table(facts_table(lines, text.labels, leads=text.leads), row=row)
        self.fit(len(lines))

    def on_table_view_highlighted(self, message: TableView.Highlighted) -> None:
        event = self.lines[message.row].event
        if event != self._at:
            self._at = event
            self.point_at(event)

    def point_at(self, event: int) -> None:
        """Show an event in the timeline; -1: the place from before."""
        self.visit(None if event < 0 else lambda: self.navigator.select(event))

    def on_table_view_chosen(self, message: TableView.Chosen) -> None:
        if (event := self.lines[message.row].event) >= 0:
            self.dismiss(event)


class DifferenceScreen(DocumentSheet):
    """Says what a line of a comparison means and what it is based on; the result says which of its places to
    go to."""

    BINDINGS = bind("e leave")

    def __init__(self, title: str, facts: Sequence[Fact], navigator: Navigator) -> None:
        """`facts`: `event` is the number of the place that a line is about, -1 for none."""
        hints = (LEAVE, ("Enter", "go to the place", "choose"), READ)
        super().__init__(title, hints, navigator, partial(facts_text, facts))
        self.text = facts_text(facts)

    def point_at(self, event: int) -> None:
        """Nothing: it is the number of a place."""


class StepScreen(DocumentSheet):
    """Says why a step differs from the median of all others."""

    BINDINGS = bind("equals_sign leave")

    def __init__(self, part: Part, step: int, navigator: Navigator) -> None:
        """`step`: its place in the trace's step table."""
        from tracetui.analysis.steps.steps import steps_of

        rows = steps_of(part).rows
        title = f"{rows[step].label} beside the median of {plural(len(rows) - 1, 'other step')}"
        super().__init__(title, (LEAVE, HERE, READ), navigator, partial(step_text, part, step))
        self.list.waiting = "comparing …"


class ExplainScreen(DocumentSheet):
    """Explains an event, or a gap and the event that ended it."""

    BINDINGS = bind("e leave  I glossary")

    def __init__(
        self,
        part: Part,
        event: int,
        navigator: Navigator,
        glossary: Callable[[Sequence[Term]], object],
        gap: int | None = None,
    ) -> None:
        """`gap`: index of a gap in `all_gaps_of` that ends with the event; `glossary` is called to open the
        glossary on some terms."""
        beginning = navigator.recording.part
        hints = (LEAVE,) if beginning else (LEAVE, HERE, ("I", "glossary", "glossary"), READ)
        super().__init__("Explain", hints, navigator, partial(event_text, part, event, gap, beginning))
        self._glossary = glossary

    def action_glossary(self) -> None:
        self._glossary(self.text.terms if self.text is not None else ())
