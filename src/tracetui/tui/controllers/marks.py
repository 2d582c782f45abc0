"""Keys for marks and notes."""

from __future__ import annotations

from tracetui.core.units import instant
from tracetui.session.marks import Mark
from tracetui.tui.controllers.prompts import Prompts, Question
from tracetui.tui.controllers.screen_context import Host


class MarkKeys:
    """Set, list and visit marks."""

    def __init__(self, host: Host, prompts: Prompts) -> None:
        self.host, self.prompts, self.marks = host, prompts, host.session.marks

    def restore(self) -> None:
        """Draw the marks that were saved for this trace."""
        if problem := self.marks.restore():
            self.host.say(problem)

    def action_mark(self) -> None:
        mark = self.marks.here()

        def entered(label: str) -> None:
            self._put(mark._replace(label=label.strip()))

        hint = "a label; empty removes the mark"
        label = f"mark {instant(mark.time)}:"
        self.prompts.ask(Question(label, entered, mark.label, hint, "Enter mark  Esc back"))

    def action_note(self) -> None:
        from tracetui.tui.screens.note import NoteScreen

        self.host.screen.app.push_screen(NoteScreen(self.marks.here()), self._put)

    def _put(self, mark: Mark | None) -> None:
        if mark is not None:
            self.host.say(self.marks.put(mark))

    def action_marks(self) -> None:
        from tracetui.tui.screens.marks import MarksScreen

        marks = self.marks
        sheet = MarksScreen(self.host.trace, marks.marks, self.host.navigator, marks.draw, marks.go_to)
        self.host.screen.app.push_screen(sheet, self._go_to)

    def action_next_mark(self) -> None:
        mark = self.marks.next()
        if mark is None:
            self.host.say("no marks yet: m sets one")
        else:
            self._go_to(mark)

    def _go_to(self, mark: Mark | None) -> None:
        if mark is not None:
            said = self.marks.go_to(mark)
            self.host.follow_at_once()
            self.host.say(said)
