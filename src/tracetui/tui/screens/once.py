"""Screens that leave only once, however many keys and clicks are still queued for them."""

from __future__ import annotations

from textual.await_complete import AwaitComplete
from textual.screen import Screen, ScreenResultType

from tracetui.tui.textual_private import forget_drawn


class LeaveOnce(Screen[ScreenResultType]):
    """Textual's `dismiss` closes the screen on top, whichever it is; this one closes only its own screen."""

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        if self not in self.app.screen_stack:
            return AwaitComplete()
        while self.app.screen is not self:
            self.app.pop_screen()  # screens above it are closed with it
        return super().dismiss(result)

    def on_unmount(self) -> None:
        forget_drawn()

    def action_leave(self) -> None:
        self.dismiss(None)
