"""The last line: the most useful keys, or for a few seconds a message about the last key."""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment
from textual import events, messages
from textual.reactive import reactive
from textual.strip import Strip
from textual.timer import Timer

from tracetui.core.cells import cell, clauses
from tracetui.session.state import served
from tracetui.tui.bindings import HINTS, NOT_SERVED, find, footer
from tracetui.tui.line_widget import LineWidget

MESSAGE_SECONDS = 4.0

Hints = Sequence[tuple[str, str, str]]
"""(keys, text, action) for each hint. The action is the id of one in the table of bindings, or the screen's
own; "" for none."""


class Footer(LineWidget):
    """One line of key hints, made from the table of bindings."""

    DEFAULT_CSS = "Footer { height: 1; width: 1fr; background: $panel; }"

    hints: reactive[Hints] = reactive(HINTS)
    message = reactive("")

    def __init__(self, hints: Hints = HINTS) -> None:
        super().__init__()
        self.hints = hints
        self._timer: Timer | None = None
        self._old = False

    def say(self, message: str) -> None:
        """Show a message for a few seconds: one line of plain, safe text."""
        self._old = False
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        if message:
            self._timer = self.set_timer(MESSAGE_SECONDS, self._expire)
        self.message = message

    def _expire(self) -> None:
        self._timer = None
        self.message = ""

    def grow_old(self) -> bool:
        """Mark the current message as old when a new key comes in: `drop_old` then removes it, unless the key
        shows another message. False if there is no message."""
        self._old = bool(self.message)
        return self._old

    def drop_old(self) -> None:
        """Remove the message if it is old."""
        if self._old and self.is_attached:  # the key may have closed the screen
            self.say("")
            # In this frame, because a key counts as answered only when its last line has been sent.
            self.screen.post_message(messages.Update(self))

    @property
    def room(self) -> int:
        """Number of cells for the hints."""
        return self.size.width

    @property
    def left(self) -> int:
        """The first cell of the hints."""
        return 1

    @property
    def shown(self) -> list[tuple[str, str, str]]:
        """The hints that fit."""
        hints = [one for one in self.hints if one[2] not in NOT_SERVED] if served() else self.hints
        return footer(hints, self.room)

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if self.message:
            text = cell(" " + clauses(self.message, width - 1), width)
            return Strip([Segment(text, self.style_of("head"))], width)
        word, key = self.style_of("text"), self.style_of("accent")
        segments = [Segment(" ", word)]
        for keys, text, _ in self.shown:
            segments += [Segment(keys, key), Segment(f" {text}  ", word)]
        return Strip(segments).adjust_cell_length(width, word)

    async def on_click(self, event: events.Click) -> None:
        left = self.left
        for keys, text, action in self.shown:
            right = left + len(keys) + 1 + len(text)
            if left <= event.x < right and action and not self.message:
                await self.run_hint(action)
                return
            left = right + 2

    async def run_hint(self, id: str) -> None:
        """Run a hint's action: one from the table of bindings, or the screen's own."""
        action = find(id)
        await self.screen.run_action(action.action if action is not None else id)
