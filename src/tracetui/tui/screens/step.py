"""A sheet that says why one step of a trace differs from the others."""

from __future__ import annotations

from textual import work
from textual.worker import get_current_worker

from tracetui.analysis.part import Part
from tracetui.compare.model import Comparison
from tracetui.core.units import plural
from tracetui.session.walk import Walk
from tracetui.tui.bindings import bind
from tracetui.tui.screens.explain import LinesSheet
from tracetui.tui.screens.sheet import WalkingSheet
from tracetui.tui.tables.view import TableView
from tracetui.views.compare_overview import compare_overview
from tracetui.views.event import Fact, wrapped

HINTS = (("Esc", "close", "leave"), ("Enter", "go to the event", "choose"), ("↑↓", "read", ""))


def step_lines(comparison: Comparison, width: int) -> list[Fact]:
    """What a step (B) does differently from the others (A), as lines of `width` cells."""
    facts = [Fact("answer", comparison.answer)]
    overview = compare_overview(comparison)
    why = next((block.entries for block in overview.left if block.key == "why"), ())
    for entry, one in zip(why, comparison.explanations, strict=True):
        a, b = one.places[0].tolist() if len(one.places) else (-1, -1)
        facts.append(Fact(entry.name, entry.text, b if b >= 0 else a))
    found = wrapped([*facts, Fact("", "")], width)
    found.append(Fact("", f"{'the others':>10}  {'this step':>10}  {'difference':>11}  {'ratio':>6}"))
    for block in overview.right:
        for entry in block.entries:
            a, b, change, ratio, noise = entry.numbers
            label = f"idle: {entry.name}" if block.key == "idle" else entry.name
            found.append(Fact(label, f"{a:>10}  {b:>10}  {change:>11}  {ratio:>6}  {noise}".rstrip()))
    return found


class StepScreen(LinesSheet, WalkingSheet[int]):
    """Says why a step differs from the median of all others; the result is an event to jump to."""

    BINDINGS = bind("escape,q,equals_sign leave")

    def __init__(self, part: Part, step: int, walk: Walk) -> None:
        """`step`: its place in the trace's step table."""
        from tracetui.analysis.steps.steps import steps_of

        rows = steps_of(part).rows
        others = plural(len(rows) - 1, "other step")
        super().__init__(f"{rows[step].label} beside the median of {others}", HINTS, walk)
        self.whole, self.step = part, step
        self.comparison: Comparison | None = None
        self.list.waiting = "comparing …"

    def on_mount(self) -> None:
        self.fit(3)
        self.read()

    @work(thread=True, exclusive=True, exit_on_error=False, group="step")
    def read(self) -> None:
        """Compare, in a thread."""
        from tracetui.compare.compare import compare_steps

        comparison = compare_steps(self.whole, self.step)
        if not get_current_worker().is_cancelled:
            self.app.call_from_thread(self.show_comparison, comparison)

    def show_comparison(self, comparison: Comparison) -> None:
        self.comparison = comparison
        self.wrap()

    def wrap(self) -> None:
        if self.comparison is None:
            return
        labels = max(len(line.label) for line in step_lines(self.comparison, 200))
        lines = step_lines(self.comparison, self.room(labels + 3))
        self.show_lines(lines, labels, self.list.row, lambda line: line.event >= 0 and bool(line.label))

    def on_table_view_highlighted(self, message: TableView.Highlighted) -> None:
        at = self.lines[message.row].event
        self.visit(None if at < 0 else lambda: self.walk.select(at))
