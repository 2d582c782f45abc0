"""Keys for stretches of time and labelled instants: the range that the tables speak of, and marks."""

from __future__ import annotations

from tracetui.tui.marks import Mark, load_marks, next_mark, save_marks, with_mark
from tracetui.tui.screens.parts.asking import Asking
from tracetui.tui.screens.parts.scoping import Scoping
from tracetui.tui.timeline import Mark as Flag
from tracetui.tui.timeline import RangeChanged
from tracetui.units import instant


class Ranges(Asking, Scoping):
    """The range and the marks."""

    marks: list[Mark]

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
        self.range_settles()

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
