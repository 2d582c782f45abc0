"""The search of a trace screen: what was typed, what matches, where one stands in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from textual.timer import Timer

from tracetui.session.match_walk import by_time, next_match
from tracetui.session.query import QueryError, matches
from tracetui.trace.model import I64
from tracetui.units import plural

if TYPE_CHECKING:
    from tracetui.tui.controllers.prompts import Asking

PAUSE = 0.06
"""Seconds after the last character before the trace is searched."""


class Search:
    """Searches a screen's trace as the user types, and walks the matches."""

    def __init__(self, screen: Asking) -> None:
        self.screen = screen
        self.query = ""
        self.found: I64 = np.zeros(0, dtype=np.int64)
        """The matches by time."""
        self._timer: Timer | None = None
        self._shorts: list[str] = []
        self._pending: str | None = None
        self._problem = ""
        """What is wrong with the query that was searched for last."""

    def ask(self) -> None:
        """Let the user type."""
        self.screen.ask(
            "/",
            self.entered,
            self.query,
            "name, /regex/, cat:kernel, dur>100us, -word",
            keys="Enter go  Esc clear",
            typed=self.typed,
            left=self.clear,
            wrong=self._wrong,
        )
        if self.query:
            self._note()

    def typed(self, query: str) -> None:
        """The line changed: search once the typing pauses."""
        self._pending = query
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.screen.set_timer(PAUSE, self._run)

    def _run(self) -> None:
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        query, self._pending = self._pending, None
        if query is None:
            return
        self._problem = ""
        try:
            mask = matches(self.screen.trace, query, self._short_names())
        except QueryError as error:
            self._problem = str(error)
            if self.screen.prompt is not None:
                self.screen.prompt.set_note(self._problem, wrong=True)
            return
        self.query = query
        self.found = by_time(self.screen.trace, mask)
        self.screen.timeline.set_matches(mask if query.strip() else None)
        self._note()

    def _short_names(self) -> list[str]:
        """The names as the timeline writes them, made when first asked for."""
        if not self._shorts:
            from tracetui.analysis.kernel_names import short_name

            trace = self.screen.trace
            first = np.zeros(len(trace.names), dtype=np.int64)
            first[trace.name[::-1]] = trace.category[::-1]
            self._shorts = [
                short_name(name, trace.categories[c]) for name, c in zip(trace.names, first, strict=True)
            ]
        return self._shorts

    def _note(self) -> None:
        if self.screen.prompt is not None:
            self.screen.prompt.set_note(plural(len(self.found), "match") if self.query.strip() else "")

    def _wrong(self, query: str) -> str:
        """What is wrong with a query that was entered, perhaps before it was searched for."""
        if self._pending is not None:
            self._run()
        return self._problem

    def entered(self, query: str) -> None:
        """The query stands: go to its first match from here on."""
        if not query.strip():
            self.clear()
        elif query == self.query:
            self.step(1)

    def step(self, step: int) -> None:
        """To the next (1) or previous (-1) match by time."""
        screen = self.screen
        if not self.query.strip():
            screen.say("nothing is searched for yet: press /")
            return
        place = next_match(
            screen.trace, self.found, screen.timeline.selected, screen.timeline.viewport.start_ns, step
        )
        if place is None:
            screen.say(f"nothing matches “{self.query}”")
            return
        screen.jump(int(self.found[place]), f"match {place + 1:,} of {len(self.found):,} for “{self.query}”")

    def clear(self) -> None:
        """Forget the search."""
        self._pending = None
        self._problem = ""
        self.query = ""
        self.found = self.found[:0]
        self.screen.timeline.set_matches(None)
