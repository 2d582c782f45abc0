"""Keys for marks and their notes."""

from __future__ import annotations

from tracetui.session.marks import Mark, Marks, event_of, mark_on, next_mark, told
from tracetui.tui.controllers.prompts import Asking
from tracetui.tui.timeline import Flag
from tracetui.units import instant, plural


class Marking(Asking):
    """The marks."""

    marks: Marks
    _visited: Mark | None = None

    def show_marks(self) -> None:
        """The marks that were kept for this trace."""
        self.marks = Marks(self.trace.info.path, self.trace.info.zero_ns)
        here = self.marks.here
        if here:
            self.draw_marks()
        earlier = len(self.marks.all) - len(here)
        if not self.marks.whole:
            self.say("not all marks of this trace can be read; their file will be put aside")
        elif earlier:
            self.say(f"{plural(earlier, 'mark')} of an earlier trace at this path: l lists them")

    def draw_marks(self) -> None:
        """Draw the marks as they are now."""
        self.timeline.set_marks([Flag(m.time, m.label) for m in self.marks.here])

    def mark_here(self) -> Mark:
        """The mark at the selected event's start (without one: in the middle of the screen); or a new one."""
        view, event = self.timeline.viewport, self.timeline.selected
        made = mark_on(self.trace, event, (view.start_ns + view.end_ns) // 2)
        there = self.marks.at(made.time)
        if there is None:
            return made
        return there if there.name else made._replace(label=there.label, note=there.note)

    def _put(self, mark: Mark) -> None:
        self.marks.put(mark)
        self.draw_marks()
        there = self.marks.at(mark.time)
        done = "marked" if there is not None else "no mark"
        if there is not None and not mark.label:
            done = "its note keeps the mark; l, then d removes it:"
        trouble = f"; {self.marks.trouble}" if self.marks.trouble else ""
        self.say(f"{done} at {instant(mark.time)}{trouble}")

    def action_mark(self) -> None:
        mark = self.mark_here()
        self.ask(
            f"mark {instant(mark.time)}:",
            lambda label: self._put(mark._replace(label=label.strip())),
            mark.label,
            "a label; none takes the mark away",
            keys="Enter mark  Esc back",
        )

    def action_note(self) -> None:
        from tracetui.tui.screens.note import NoteScreen

        self.app.push_screen(NoteScreen(self.mark_here()), self._noted)

    def _noted(self, mark: Mark | None) -> None:
        if mark is not None:
            self._put(mark)

    def action_marks(self) -> None:
        from tracetui.tui.screens.marks import MarksScreen

        self.app.push_screen(MarksScreen(self.trace, self.marks, self.draw_marks), self._chosen)

    def _chosen(self, mark: Mark | None) -> None:
        if mark is not None:
            self.go_to_mark(mark)

    def action_next_mark(self) -> None:
        view = self.timeline.viewport
        low, high = self.timeline.scene.span
        seen = [m for m in self.marks.here if low <= m.time <= high]
        time = (view.start_ns + view.end_ns) / 2
        if self._visited is not None and abs(time - self._visited.time) <= view.cell:
            time = self._visited.time  # the last one is still in the middle: the next may share its cell
        found = next_mark(seen, time)
        if found is None:
            self.say("no marks yet: m sets one")
        else:
            self.go_to_mark(found)

    def go_to_mark(self, mark: Mark) -> None:
        """Put a mark into the middle, select the event that it is on, and read it out."""
        self._visited = mark
        self.timeline.centre_on(mark.time)
        event = event_of(self.trace, mark)
        if event is not None:
            self.timeline.select(event, reveal=False)
            self.timeline.reveal(event, closer=False)
            self.follow_at_once()
        self.say(told(mark))
