"""Keys that find: search as you type, the matches, a time."""

from __future__ import annotations

from textual.timer import Timer

from tracetui.core.units import plural
from tracetui.session.query import QueryError
from tracetui.tui.controllers.prompts import Prompts, Question
from tracetui.tui.controllers.screen_context import Escape, ScreenContext

PAUSE = 0.06
"""Seconds from the last typed character until the search starts."""


class SearchKeys:
    """Search as the user types, and go from match to match."""

    def __init__(self, context: ScreenContext, prompts: Prompts) -> None:
        self.context, self.prompts, self.search = context, prompts, context.session.search
        self._timer: Timer | None = None
        self._pending: str | None = None
        self._problem = ""
        """What is wrong with the last query; "" if nothing is."""
        context.escapes += [
            Escape(lambda: self.search, self.clear),
            Escape(lambda: context.navigator.scene.instant is not None, context.navigator.leave_instant),
        ]

    def action_search(self) -> None:
        self.prompts.ask(
            Question(
                "/",
                self._entered,
                self.search.query,
                "name, /regex/, cat:kernel, dur>100us, -word",
                "Enter go  Esc clear",
                self._typed,
                self.clear,
                self._wrong,
                afresh=True,
            )
        )
        if self.search.query:
            self._note()

    def _typed(self, query: str) -> None:
        """The text changed: search after a pause."""
        self._pending = query
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.context.after(PAUSE, self._run)

    def _run(self) -> None:
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        query, self._pending = self._pending, None
        if query is None:
            return
        self._problem = ""
        try:
            self.search.find(query)
        except QueryError as error:
            self._problem = str(error)
            self.prompts.note(self._problem, wrong=True)
        else:
            self._note()

    def _note(self) -> None:
        self.prompts.note(plural(len(self.search), "match") if self.search else "")

    def _wrong(self, query: str) -> str:
        """What is wrong with an entered query; if the pause is not over yet, this searches now."""
        if self._pending is not None:
            self._run()
        return self._problem

    def _entered(self, query: str) -> None:
        """Enter was pressed: go to the first match from here."""
        if not query.strip():
            self.clear()
        elif query == self.search.query:
            self.action_match(1)

    def clear(self) -> None:
        """Forget the search."""
        self._pending, self._problem = None, ""
        self.search.clear()

    def action_match(self, step: int) -> None:
        """Go to the next (1) or previous (-1) match in time."""
        search = self.search
        if not search:
            self.context.say("no search yet: press /")
        elif (place := search.next(step)) is None:
            self.context.say(f"nothing matches “{search.query}”")
        else:
            said = f"match {place + 1:,} of {len(search):,} for “{search.query}”"
            event = search.event(place)
            self.context.jump(event.slice, said, event.source)

    def action_matches(self) -> None:
        from tracetui.tui.screens.matches import MatchesScreen

        if not self.search:
            self.context.say("no search yet: press /")
            return
        found = self.search.slice[self.search.recording == self.context.navigator.active]
        letter = self.context.navigator.scene.source.letter
        query = f"{self.search.query}” in “{letter}" if letter else self.search.query
        sheet = MatchesScreen(self.context.trace, found, query, self.context.navigator)
        self.context.screen.app.push_screen(sheet, self.context.jump_if)

    def action_time(self) -> None:
        session = self.context.session

        def go(text: str) -> None:
            self.context.say(session.go_to_time(text))

        hint = "time from the start: 250us, 1.5ms, 2s"
        question = Question("go to:", go, "", hint, "Enter go  Esc back", wrong=session.wrong_time)
        self.prompts.ask(question)
