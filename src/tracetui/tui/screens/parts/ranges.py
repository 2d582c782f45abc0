"""Keys for stretches of time and labelled instants: the range that the tables speak of, and marks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.timer import Timer

from tracetui.tui.marks import Mark, load_marks, next_mark, save_marks, with_mark
from tracetui.tui.screens.parts.asking import Asking
from tracetui.tui.timeline import Mark as Flag
from tracetui.tui.timeline import RangeChanged
from tracetui.tui.units import duration, instant

if TYPE_CHECKING:
    from tracetui.analysis.scope import Scope

SETTLED = 0.15
"""Seconds that a range must rest before the tables follow: a drag changes it many times."""


class Ranges(Asking):
    """The range and the marks."""

    scope: Scope | None = None
    """What averages and gaps speak of; None: the whole trace."""
    marks: list[Mark]
    _settle: Timer | None = None

    # The range

    def action_range(self) -> None:
        event = self.timeline.selected
        if event is None:
            self.say("select an event first, or drag with the mouse")
            return
        start = int(self.trace.start[event])
        self.timeline.set_range(start, start + max(1, int(self.trace.duration[event])))

    def on_range_changed(self, message: RangeChanged) -> None:
        message.stop()
        if self._settle is not None:
            self._settle.stop()
        self._settle = self.set_timer(SETTLED, self._scope_follows)

    def _scope_follows(self) -> None:
        from tracetui.analysis.scope import range_scope

        band = self.timeline.range_ns
        self.scope = range_scope(*band) if band is not None and band[1] > band[0] else None
        for pane in self.area.panes.values():
            pane.set_scope(self.scope)
        if band is not None:
            length = duration(band[1] - band[0]).strip()
            self.say(f"range of {length}: averages and gaps speak of it; Esc clears it")

    # Marks

    def show_marks(self) -> None:
        """The marks that were kept for this trace."""
        self.marks = load_marks(self.trace.info.path)
        if self.marks:
            self.timeline.set_marks([Flag(m.time, m.label) for m in self.marks])

    def action_mark(self) -> None:
        event = self.timeline.selected
        view = self.timeline.viewport
        time = int(self.trace.start[event]) if event is not None else (view.start_ns + view.end_ns) // 2
        there = next((m.label for m in self.marks if m.time == time), "")

        def entered(label: str) -> None:
            self.marks = with_mark(self.marks, time, label)
            self.timeline.set_marks([Flag(m.time, m.label) for m in self.marks])
            kept = save_marks(self.trace.info.path, self.marks)
            self.say(
                f"{'marked' if label.strip() else 'no mark'} at {instant(time)}"
                + ("" if kept else ", not kept")
            )

        self.ask(f"mark {instant(time)}:", entered, there, "a label; none takes the mark away")

    def action_next_mark(self) -> None:
        view = self.timeline.viewport
        found = next_mark(self.marks, (view.start_ns + view.end_ns) / 2 + view.cell)
        if found is None:
            self.say("no marks yet: m sets one")
            return
        half = view.span_ns // 2
        self.timeline.show(found.time - half, found.time + half)
        self.say(f"{found.label}, at {instant(found.time)}")
