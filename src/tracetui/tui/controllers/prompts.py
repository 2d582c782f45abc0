"""The prompt in place of the footer, for keys that need a line of text; and the filter of a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from tracetui.tui.controllers.screen_context import ScreenContext

if TYPE_CHECKING:
    from tracetui.tui.prompt import Prompt

Text = Callable[[str], None]


class Question(Struct, frozen=True):
    """A question to the user. `keys`, beside the line, says what Enter and Esc do."""

    label: str
    entered: Text
    """Called with the text after Enter."""
    value: str = ""
    placeholder: str = ""
    keys: str = "Enter done  Esc back"
    typed: Text | None = None
    """Called with the text after each change."""
    left: Callable[[], None] | None = None
    """Called after Esc."""
    wrong: Callable[[str], str] | None = None
    """Called after Enter; returns what is wrong with the text. The line stays open unless that is ""."""
    afresh: bool = False
    """Typing replaces the value, unless the cursor is moved first."""


class Prompts:
    """The line to type into, one at a time, and the filter of a table."""

    def __init__(self, context: ScreenContext) -> None:
        self.context = context
        self.prompt: Prompt | None = None
        self._question: Question | None = None

    def ask(self, question: Question) -> None:
        """Show the line in place of the footer."""
        from tracetui.tui.prompt import Prompt

        self.close()
        self._question = question
        asked = question.label, question.value, question.placeholder, question.keys, question.afresh
        self.prompt = Prompt(*asked)
        self.context.footer.display = False
        self.context.screen.mount(self.prompt)

    def close(self) -> None:
        """Remove the line, if there is one, and show the footer again."""
        if self.prompt is not None:
            self.prompt.remove()
            self.prompt = self._question = None
            self.context.footer.display = True
            self.context.timeline.focus()

    def note(self, text: str, wrong: bool = False) -> None:
        """Show a note beside the line, if it is open."""
        if self.prompt is not None:
            self.prompt.set_note(text, wrong)

    def typed(self, value: str) -> None:
        if self._question is not None and self._question.typed is not None:
            self._question.typed(value)

    def entered(self, value: str) -> None:
        if (question := self._question) is None:
            return
        problem = question.wrong(value) if question.wrong is not None else ""
        if problem:
            self.note(problem, wrong=True)
        else:
            self.close()
            question.entered(value)

    def left(self) -> None:
        if (question := self._question) is not None:
            self.close()
            if question.left is not None:
                question.left()

    def action_filter(self) -> None:
        pane = self.context.area.open
        if pane is None or pane.table is None or pane.table.search_text is None:
            self.context.say("open a table first, with a number key")
            return

        def focus(_: str) -> None:
            pane.focus()

        def all_rows() -> None:
            pane.set_filter("")
            pane.focus()

        self.ask(
            Question(
                f"filter {pane.key}:",
                focus,
                pane.needle,
                "part of the name",
                "Enter keep  Esc all rows",
                typed=pane.set_filter,
                left=all_rows,
                afresh=True,
            )
        )
