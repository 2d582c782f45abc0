"""Screens that leave once, however many keys and clicks still wait for them."""

from __future__ import annotations

from typing import Any

from textual.await_complete import AwaitComplete

from tracetui.tui.textual_private import forget_drawn


class LeaveOnce:
    """For screens. Textual's `dismiss` takes away the screen on top, whichever it is: here only this one."""

    def dismiss(self: Any, result: Any = None) -> AwaitComplete:
        if self not in self.app.screen_stack:
            return AwaitComplete()
        while self.app.screen is not self:
            self.app.pop_screen()  # what lies over it goes with it
        left: AwaitComplete = super().dismiss(result)  # type: ignore[misc]
        return left

    def on_unmount(self) -> None:
        forget_drawn()
