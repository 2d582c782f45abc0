"""The steps pane: a row for each step, one for everything outside the steps, and one for the whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from tracetui.analysis.steps.steps import StepRow, Steps, steps_of
from tracetui.core.units import plural
from tracetui.session.session import Session
from tracetui.tui.panes.scoped import ScopedPane, within
from tracetui.views.steps import steps_table, steps_within, table_rows
from tracetui.views.target import Target

UNUSUAL = "! differs: = says why"


def steps_text(steps: Steps, where: str, count: int) -> str:
    """The pane's note. `where`: "" for the whole trace; `count`: the number of steps in the whole trace."""
    if not count:
        return "no steps in this trace: showing all of it"
    of = f"{len(steps.rows):,} of " if where else ""
    counted = f"{of}{plural(count, 'step')}"
    source = steps.table.source
    counted += (
        "" if source == "ProfilerStep" else ", what repeats" if source == "repeats" else f" from {source}"
    )
    return f"{counted}; {UNUSUAL}" if any(r.unusual for r in steps.rows) else counted


class StepsPane(ScopedPane):
    """Steps in order of time. Enter shows the step in the timeline."""

    def __init__(self, session: Session, key: str) -> None:
        super().__init__(session, key)
        self.steps: Steps | None = None
        self.waiting = "looking at the steps …"
        self._event: int | None = None

    def work_out(self) -> Iterator[Callable[[], None]]:
        part, where = self.whole.within(self.scope), within(self.scope)
        steps = steps_of(part)
        piece = steps_within(steps, part.scope)
        yield partial(self.show_steps, piece, steps_text(piece, where, len(steps.rows)), where)

    def show_steps(self, steps: Steps, note: str, where: str) -> None:
        row = self.row if self.cursor else None
        before = self._rows[row].label if row is not None else None
        self.steps = steps
        self.set_table(steps_table(steps), "label", False)
        for n, shown in enumerate(self._rows):
            if shown.label == before:
                self.show_row(n)
                break
        self.set_note(note, where, note if UNUSUAL in note else "")
        self.follow(self._event)

    @property
    def _rows(self) -> tuple[StepRow, ...]:
        return table_rows(self.steps) if self.steps is not None else ()

    def step(self) -> int | None:
        """The step under the cursor, by its place in the trace's step table; None on a line that is not a
        step."""
        row = self.row
        if self.steps is None or row is None or row >= len(self.steps.rows):
            return None
        every = [one.event for one in steps_of(self.whole).rows]
        return every.index(self.steps.rows[row].event)

    def follow(self, event: int | None) -> None:
        """Go to the step in which the event, or its launch, begins."""
        self._event = event
        if event is None or self.steps is None:
            return
        trace = self.whole.trace
        time = int(trace.start[trace.launch[event] if trace.launch[event] >= 0 else event])
        for n, row in enumerate(self.steps.rows):
            if row.start <= time < row.start + row.duration:
                self.show_row(n)
                return

    def leads_to(self, row: int, again: int = 0) -> Target | None:
        if self.steps is None:
            return None
        if row < len(self.steps.rows):
            step = self.steps.rows[row]
            return Target(event=step.event, span=step.window, said=step.verdict.reason)
        return Target(span=self.whole.trace.span, said=self.steps.whole.verdict.reason)
