"""The details pane: everything about the selected event, or about the file if none is selected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from textual import work
from textual.worker import get_current_worker

from tracetui.analysis.calls.averages import memory_of
from tracetui.analysis.calls.calls import self_time_of
from tracetui.core.cells import same_place
from tracetui.session.session import Session
from tracetui.trace.model import Trace
from tracetui.tui.panes.base import Pane
from tracetui.views.event import Fact, event_facts, facts_table, trace_facts, wrapped
from tracetui.views.target import Target

LABEL = 12


def args_of(trace: Trace, event: int) -> Mapping[str, Any]:
    """The arguments of a slice, read from the file again; if that fails, one argument that says so."""
    if trace.source[event] < 0:
        return {"made by": "tracetui, from annotations of the kernels below it; the file has no such event"}
    read = trace.reader.read([int(trace.source[event])])[0]
    if not read:  # even an event without arguments has a name
        return {"arguments": "no longer readable: the file changed after it was opened"}
    args = read.get("args")
    return args if isinstance(args, dict) else {}


class DetailsPane(Pane):
    """Facts about the selected event; Enter on a line that names another event (marked ↵) jumps there."""

    eager = False

    def __init__(self, session: Session, key: str) -> None:
        super().__init__(session, key)
        self.facts: list[Fact] = []
        self.lines: list[Fact] = []
        self._wrapped: list[Fact] | None = None
        """The facts from which the lines were made."""
        self.event: int | None = None

    def on_mount(self) -> None:
        self.read(self.event)

    def follow(self, event: int | None) -> None:
        if event != self.event or not self.facts:
            self.event = event
            self.read(event)

    @work(thread=True, exclusive=True, exit_on_error=False, group="details")
    def read(self, event: int | None) -> None:
        """Collect the facts, in a thread: the arguments are read from the file again."""
        trace, worker = self.whole.trace, get_current_worker()
        if event is None:
            facts = trace_facts(trace)
        else:
            part = self.whole
            facts = event_facts(trace, event, args_of(trace, event), memory_of(part), self_time_of(part))
        if not worker.is_cancelled:
            self.app.call_from_thread(self.show_facts, facts)

    def show_facts(self, facts: list[Fact]) -> None:
        self.facts = facts
        self._wrap()

    def on_resize(self) -> None:
        if self.facts:
            self._wrap()

    def _wrap(self) -> None:
        width = self.size.width - LABEL - 7
        if width < 8:
            return
        # If only the width has changed, the cursor stays on the same text.
        before, row = self.lines, self.row if self._wrapped is self.facts else None
        self._wrapped = self.facts
        lines = self.lines = wrapped(self.facts, width)
        width_label = max([LABEL, *(min(26, len(f.label)) for f in lines)])
        if width_label > LABEL:
            lines = self.lines = wrapped(self.facts, max(8, width - (width_label - LABEL)))
        if row is not None:
            row = same_place([line.value for line in before], row, [line.value for line in lines])
        titles = "Details", "of this trace" if self.event is None else "of the selected event"
        self.set_table(facts_table(lines, width_label, titles, lambda line: line.event >= 0), row=row)

    def target_of(self, row: int, again: int = 0) -> Target | None:
        target = self.lines[row].event
        return Target(event=target) if target >= 0 else Target(said="this line has no event")
