"""What an event is, why it may be slow, and the chain of events that leads to it: a sheet over the trace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from rich.cells import cell_len
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen
from textual.worker import Worker, WorkerState, get_current_worker

from tracetui.analysis.explain import Explanation, explain
from tracetui.cells import middle, same_place, wrap
from tracetui.tables.model import Column, Table
from tracetui.trace.model import Trace
from tracetui.tui.footer import Footer
from tracetui.tui.panes.base import failure
from tracetui.tui.screens.once import LeaveOnce
from tracetui.tui.tables.view import TableView
from tracetui.units import exact

HINTS = (("↑↓", "read", ""), ("Esc", "close", "leave"), ("Enter", "jump to a line of the chain", "choose"))


class Line(NamedTuple):
    """One line of the sheet. `event` is a slice that Enter jumps to, -1 for none."""

    label: str
    text: str
    event: int = -1


def explanation_lines(told: Explanation, width: int) -> list[Line]:
    """The explanation as lines of `width` cells."""
    lines: list[Line] = []
    for label, sentences in (("what it is", told.what), ("why", told.why)):
        for n, sentence in enumerate(sentences):
            for m, text in enumerate(wrap(sentence, width)):
                lines.append(Line(label if n == m == 0 else "", text))
    for label, value in told.facts:
        lines += [Line(label if m == 0 else "", text) for m, text in enumerate(wrap(value, width))]
    links = told.chain.links
    for n, link in enumerate(links):
        branch = "  " * min(link.level, 16) + ("└ " if link.level else "")
        here = "  ◀ this event" if link.slice == told.slice else ""
        took = exact(link.duration)
        after = f", {exact(link.delay)} after its launch" if link.delay is not None else ""
        name = link.name if link.name == link.role else f"{link.role} {link.name}"
        label, facts = "chain" if n == 0 else "", f"{took}{after}{here}"
        if cell_len(f"{branch}{name}  {facts}") <= width:
            lines.append(Line(label, f"{branch}{name}  {facts}", link.slice))
        else:  # the times on a line of their own rather than cut off
            lines.append(Line(label, middle(f"{branch}{name}", width), link.slice))
            indent = " " * max(0, min(len(branch), width - 24))
            lines += [Line("", indent + text, link.slice) for text in wrap(facts, width - len(indent))]
    if told.chain.more:
        lines.append(Line("", f"and {told.chain.more:,} more on the device"))
    return lines


def same_line(before: Sequence[Line], row: int, after: Sequence[Line]) -> int:
    """The line that says what line `row` said, now that the sheet has another width."""
    event = before[row].event
    if event >= 0:  # names in the chain are cut as the width demands: the event says which line it is
        return next((n for n, line in enumerate(after) if line.event == event), 0)
    texts = [["" if line.event >= 0 else line.text for line in lines] for lines in (before, after)]
    return same_place(texts[0], row, texts[1])


class ExplainScreen(LeaveOnce, ModalScreen[int]):
    """Explains one event; its result is an event to jump to, -1 for none."""

    DEFAULT_CSS = """
    ExplainScreen { background: $background; }
    ExplainScreen > TableView { padding: 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,e", "leave", "Close", show=False),
        Binding("ctrl+c", "app.quit", "Quit", show=False),
    ]

    def __init__(self, trace: Trace, event: int) -> None:
        super().__init__()
        self.trace, self.event = trace, event
        self.explanation: Explanation | None = None
        self.lines: list[Line] = []

    def compose(self) -> ComposeResult:
        yield TableView()
        yield Footer(HINTS)

    def on_mount(self) -> None:
        self.query_one(TableView).focus()
        self.read()

    @work(thread=True, exclusive=True, exit_on_error=False, group="explain")
    def read(self) -> None:
        """It reads arguments from the file: not on the thread that draws."""
        told = explain(self.trace, self.event)
        if not get_current_worker().is_cancelled:
            self.app.call_from_thread(self.show_explanation, told)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        event.stop()
        if event.state is WorkerState.ERROR:
            self.query_one(TableView).fail(failure(event.worker.error))

    def show_explanation(self, told: Explanation) -> None:
        self.explanation = told
        self._wrap()

    def on_resize(self) -> None:
        if self.explanation is not None:
            self._wrap()

    def _wrap(self) -> None:
        told = self.explanation
        if told is None:
            return
        labels = max([12, *(min(24, len(label)) for label, _ in told.facts)])
        table, before = self.query_one(TableView), self.lines
        row = table.row
        lines = self.lines = explanation_lines(told, max(20, min(110, self.size.width - labels - 6)))
        table.set_table(
            Table(
                (
                    Column("label", "Explain", lambda r: lines[r].label, None, labels, False),
                    Column("text", told.title, lambda r: lines[r].text, None, 0, False),
                ),
                len(lines),
            ),
            row=None if row is None else same_line(before, row, lines),
        )

    def on_table_view_chosen(self, message: TableView.Chosen) -> None:
        message.stop()
        event = self.lines[message.row].event
        if event >= 0:
            self.dismiss(event)

    def action_choose(self) -> None:
        self.query_one(TableView).action_choose()

    def action_leave(self) -> None:
        self.dismiss(-1)
