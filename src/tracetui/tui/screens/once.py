"""Screens that leave once, however many keys and clicks still wait for them."""

from __future__ import annotations

from textual.await_complete import AwaitComplete
from textual.screen import Screen, ScreenResultType


class LeaveOnce(Screen[ScreenResultType]):
    """Textual's `dismiss` takes away the screen on top, whichever it is: here only this one."""

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        if self not in self.app.screen_stack:
            return AwaitComplete()
        self.pop_until_active()  # what lies over it goes with it
        return super().dismiss(result)
