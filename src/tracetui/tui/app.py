"""The app: it composes screens and hands them what they need. No logic lives here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from textual.app import App, SystemCommand
from textual.binding import BindingType
from textual.screen import Screen

from tracetui.tui.loading import LoadTask
from tracetui.tui.screens.loading import LoadingScreen


class TracetuiApp(App[None]):
    """tracetui."""

    TITLE = "tracetui"
    BINDINGS: ClassVar[list[BindingType]] = []
    CSS = "* { scrollbar-size-vertical: 1; }"
    ENABLE_COMMAND_PALETTE = True

    def __init__(self, task: LoadTask) -> None:
        super().__init__()
        self.load_task = task
        self.animation_level = "none"

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        from tracetui.tui.palette import commands

        yield from commands(self, screen)

    def get_default_screen(self) -> Screen[None]:
        return self._screen_of(self.load_task)

    def _screen_of(self, task: LoadTask) -> Screen[None]:
        """The trace where it is there already, else its progress."""
        if task.trace is None:
            return LoadingScreen(task)
        from tracetui.tui.screens.trace import TraceScreen

        return TraceScreen(task.trace)

    async def on_loading_screen_ended(self, message: LoadingScreen.Ended) -> None:
        task = message.load_task
        if task.trace is not None:
            await self.push_screen(self._screen_of(task))
        elif task.error is not None and isinstance(self.screen, LoadingScreen):
            self.screen.failed()
