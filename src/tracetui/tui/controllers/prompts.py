"""Keys that ask for a line of text: search, filter, a time to go to."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from textual.widget import Widget

from tracetui.tui.controllers.base import TracePart
from tracetui.units import as_typed, instant

if TYPE_CHECKING:
    from tracetui.tui.controllers.search import Search
    from tracetui.tui.prompt import Prompt

Told = Callable[[str], None]


class Asking(TracePart):
    """The prompt at the place of the footer, and what is asked there."""

    prompt: Prompt | None = None
    _search: Search | None = None

    def ask(
        self,
        label: str,
        entered: Told,
        value: str = "",
        placeholder: str = "",
        *,
        keys: str = "Enter done  Esc back",
        typed: Told | None = None,
        left: Callable[[], None] | None = None,
        wrong: Callable[[str], str] | None = None,
    ) -> None:
        """Put a line to type into at the place of the footer.

        `entered` is called with the text once it stands, `typed` with each change, `left` on giving up.
        `wrong` tells what is wrong with a text that was entered; as long as it does, the line stays open.
        `keys` says beside the line what Enter and Esc do.
        """
        from tracetui.tui.prompt import Prompt

        self.answered()
        self.prompt = Prompt(label, value, placeholder, keys)
        self._entered, self._typed, self._left = entered, typed, left
        self._wrong = wrong
        self.footer.display = False
        self.mount(self.prompt)

    def take_early(self, key: str) -> bool:
        """Whether a key that has come up was typed for the line that is being put up, which takes it."""
        return self.prompt is not None and self.prompt.take_early(key)

    def answered(self) -> None:
        """Take the line away again."""
        if self.prompt is not None:
            self.prompt.remove()
            self.prompt = None
            self.footer.display = True
            self.timeline.focus()

    def on_prompt_typed(self, message: Prompt.Typed) -> None:
        message.stop()
        if self.prompt is not None and self._typed is not None:
            self._typed(message.value)

    def on_prompt_entered(self, message: Prompt.Entered) -> None:
        message.stop()
        if self.prompt is not None:
            problem = self._wrong(message.value) if self._wrong is not None else ""
            if problem:
                self.prompt.set_note(problem, wrong=True)
                return
            self.answered()
            self._entered(message.value)

    def on_prompt_left(self, message: Prompt.Left) -> None:
        message.stop()
        if self.prompt is not None:
            self.answered()
            if self._left is not None:
                self._left()

    # Search

    @property
    def search(self) -> Search:
        if self._search is None:
            from tracetui.tui.controllers.search import Search

            self._search = Search(self)
        return self._search

    @property
    def searching(self) -> bool:
        """Whether there is a search to walk through or to clear."""
        return self._search is not None and bool(self._search.query)

    def action_search(self) -> None:
        self.search.ask()

    def action_match(self, step: int) -> None:
        self.search.step(step)

    def action_matches(self) -> None:
        from tracetui.tui.screens.matches import MatchesScreen

        if not self.searching:
            self.say("nothing is searched for yet: press /")
            return
        sheet = MatchesScreen(self.trace, self.search.found, self.search.query)
        self.app.push_screen(sheet, self._matched)

    def _matched(self, event: int | None) -> None:
        if event is not None and event >= 0:
            self.jump(event)

    # Filter

    def action_filter(self) -> None:
        pane = self.area.open
        if pane is None or pane.table is None or pane.table.search_text is None:
            self.say("open a table first: 2 averages, 3 gaps")
            return

        def all_rows() -> None:
            pane.set_filter("")
            pane.focus()

        self.ask(
            f"filter {pane.id}:",
            lambda _: focus(pane),
            pane.needle,
            "a part of the name",
            keys="Enter keep  Esc all rows",
            typed=pane.set_filter,
            left=all_rows,
        )

    # Time

    def action_time(self) -> None:
        self.ask(
            "go to:",
            self._go_to_time,
            placeholder="time from the start: 250us, 1.5ms, 2s",
            keys="Enter go  Esc back",
            wrong=self._wrong_time,
        )

    def _wrong_time(self, text: str) -> str:
        from tracetui.session.query import QueryError, parse_time

        try:
            time = parse_time(text)
        except QueryError as error:
            return str(error)
        low, high = self.trace.span
        return "" if low <= time <= high else f"the trace goes from {instant(low)} to {instant(high)}"

    def _go_to_time(self, text: str) -> None:
        from tracetui.session.query import parse_time

        time = round(parse_time(text))
        self.timeline.go_to(time)
        self.say(f"the line is at {as_typed(time)}; Esc takes it away")


def focus(widget: Widget) -> None:
    """Give a widget the keys."""
    widget.focus()
