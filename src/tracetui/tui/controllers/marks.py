"""Keys for marks and notes."""

from __future__ import annotations

from tracetui.core.units import instant
from tracetui.session.marks import Mark
from tracetui.tui.controllers.prompts import Prompts, Question
from tracetui.tui.controllers.screen_context import ScreenContext


class MarkKeys:
    """Set, list and visit marks."""

    def __init__(self, context: ScreenContext, prompts: Prompts) -> None:
        self.context, self.prompts, self.marks = context, prompts, context.session.marks

    def restore(self) -> None:
        """Draw the marks that were saved for this trace."""
        if problem := self.marks.restore():
            self.context.say(problem)

    def action_mark(self) -> None:
        mark = self.marks.here()

        def entered(label: str) -> None:
            self._put(mark._replace(label=label.strip()))

        hint = "a label; empty removes the mark"
        label = f"mark {instant(mark.time)}:"
        self.prompts.ask(Question(label, entered, mark.label, hint, "Enter mark  Esc back"))

    def action_note(self) -> None:
        from tracetui.tui.screens.note import NoteScreen

        self.context.screen.app.push_screen(NoteScreen(self.marks.here()), self._put)

    def _put(self, mark: Mark | None) -> None:
        if mark is not None:
            self.context.say(self.marks.put(mark))

    def action_marks(self) -> None:
        from tracetui.tui.screens.marks import MarksScreen

        marks = self.marks
        sheet = MarksScreen(self.context.trace, marks.marks, self.context.navigator, marks.draw, marks.go_to)
        self.context.screen.app.push_screen(sheet, self._go_to)

    def action_next_mark(self) -> None:
        mark = self.marks.next()
        if mark is None:
            self.context.say("no marks yet: m sets one")
        else:
            self._go_to(mark)

    def _go_to(self, mark: Mark | None) -> None:
        if mark is not None:
            said = self.marks.go_to(mark)
            self.context.follow_at_once()
            self.context.say(said)
