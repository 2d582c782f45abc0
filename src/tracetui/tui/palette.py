"""What the command palette lists: every action of the table of bindings, and the themes."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from textual.app import App, SystemCommand
from textual.screen import Screen

from tracetui.tui.bindings import ACTIONS, key_text


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
