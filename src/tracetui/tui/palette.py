"""The command palette: every action of the table of bindings, and the themes."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import Any

from textual import events
from textual.app import App, ComposeResult, SystemCommand
from textual.command import CommandList, CommandPalette
from textual.screen import Screen

from tracetui.tui.bindings import ACTIONS, key_text
from tracetui.tui.screens.once import LeaveOnce


class SteadyList(CommandList):
    """Textual's list of commands, without what fails while the list is being filled or has no room."""

    def action_page_down(self) -> None:
        with suppress(KeyError):  # before its lines are laid out
            super().action_page_down()  # type: ignore[no-untyped-call]

    def action_page_up(self) -> None:
        with suppress(KeyError):
            super().action_page_up()  # type: ignore[no-untyped-call]

    def on_click(self, event: events.Click) -> None:
        """A click on an option that was there when the picture was drawn, and is no more."""
        if event.style.meta.get("option", 0) >= self.option_count:
            event.prevent_default()


class Palette(LeaveOnce, CommandPalette):
    """Textual's palette with the steady list."""

    def compose(self) -> ComposeResult:
        for child in super().compose():
            yield SteadyList() if type(child) is CommandList else child


def commands(app: App[Any], screen: Screen[Any]) -> Iterable[SystemCommand]:
    """The commands that make sense on a screen."""
    from tracetui.tui.screens.trace import TraceScreen

    if isinstance(screen, TraceScreen):
        for action in ACTIONS:
            if action.palette:
                keys = " or ".join(key_text(k) for k in action.keys)
                run = partial(screen.run_action, action.action)
                yield SystemCommand(sentence(action.text), f"{action.group}, key {keys}", run)
    yield SystemCommand("Theme", "Choose other colours", app.action_change_theme)
    yield SystemCommand("Quit", "Leave tracetui", app.action_quit)


def sentence(text: str) -> str:
    """The text with a capital first letter."""
    return text[:1].upper() + text[1:]
