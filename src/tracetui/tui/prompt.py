"""A line to type into, in place of the footer: for a search, a filter, a time or a label."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from rich.cells import cell_len
from textual import events
from textual.app import App, ComposeResult
from textual.containers import Horizontal
from textual.keys import key_to_character
from textual.message import Message
from textual.widgets import Input, Static

from tracetui.core.cells import clip
from tracetui.core.safe_text import plain
from tracetui.tui.bindings import bind
from tracetui.tui.textual_private import forget_drawn

IN_FLIGHT = 0.3
"""Seconds after the line got the focus during which keys typed earlier may still arrive."""


class _Line(Input):
    BINDINGS = bind("escape leave")

    def on_mount(self) -> None:
        # Without the unsubscribe below, Textual's signal would keep the line alive as long as the screen.
        self._signal = self.screen.text_selection_started_signal

    def on_unmount(self) -> None:
        self._signal.unsubscribe(self)

    def action_leave(self) -> None:
        self.post_message(Prompt.Left())

    def replace(self, text: str, start: int, end: int) -> None:
        """Clean what is typed or pasted in the same way as names, so that a pasted name finds its events."""
        super().replace(plain(text), start, end)


_UNNAMED = {"plus": "+", "minus": "-", "slash": "/", "at": "@", "backslash": "\\", "underscore": "_"}
"""Keys whose character Textual's `key_to_character` does not find."""


def character_of(key: str) -> str | None:
    """The character that a key types; None if it types none."""
    return _UNNAMED.get(key) or key_to_character(key)


def _press(app: App[Any], keys: Iterable[str]) -> None:
    """Called by the app, because an event bubbles up only as far as its sender."""
    for key in keys:
        app.post_message(events.Key(key, character_of(key)))


class Prompt(Horizontal):
    """A label, the line, and a note about the typed text."""

    DEFAULT_CSS = """
    Prompt { height: 1; background: $panel; }
    Prompt > .label { width: auto; color: $accent; text-style: bold; padding: 0 1; }
    Prompt > Input { width: 1fr; height: 1; background: $panel; border: none; padding: 0; }
    Prompt > Input:focus { background-tint: $foreground 0%; }
    Prompt > .note { width: auto; padding: 0 1; text-align: right; }
    Prompt > .note.wrong { color: $error; text-style: bold; }
    Prompt > Input > .input--placeholder, Prompt > Input:focus > .input--placeholder { color: $text-muted; }
    """

    class Typed(Message):
        """The text changed."""

        def __init__(self, value: str) -> None:
            super().__init__()
            self.value = value

    class Entered(Message):
        """Enter was pressed."""

        def __init__(self, value: str) -> None:
            super().__init__()
            self.value = value

    class Left(Message):
        """Esc was pressed."""

    def __init__(
        self, label: str, value: str = "", placeholder: str = "", keys: str = "", afresh: bool = False
    ) -> None:
        """`placeholder` says what can be typed, `keys` what Enter and Esc do.

        With `afresh`, typing replaces the value, unless the cursor is moved first.
        """
        super().__init__()
        self._label, self._keys = label, keys
        self._noted = ("", False)
        self._early: list[str] = []
        self._since: float | None = None
        """When the line got the focus."""
        self._input = _Line(value, placeholder=placeholder, compact=True, select_on_focus=afresh)
        self._input.cursor_blink = False  # a blink is two frames a second, also over SSH
        self._note = Static("", markup=False, classes="note")

    def take_early(self, key: str) -> bool:
        """Take a key that was typed before the line had the focus; False if it is not for the line.

        Over a slow link `/gemm` arrives in one piece: its letters go to the widget that had the focus, and
        bubble up to the app while the line is still being mounted.
        """
        if not self._input.has_focus and self._since is None:
            self._early.append(key)
            return True
        character = character_of(key)
        if (
            character is None
            or not character.isprintable()
            or time.monotonic() - (self._since or 0) > IN_FLIGHT
        ):
            return False
        self.app.call_later(_press, self.app, [key])
        return True

    def on_descendant_focus(self) -> None:
        if self._since is None:
            self._since = time.monotonic()
            self.app.call_later(_press, self.app, self._early)

    def compose(self) -> ComposeResult:
        yield Static(self._label, markup=False, classes="label")
        yield self._input
        yield self._note

    def on_mount(self) -> None:
        self._input.focus()

    def on_unmount(self) -> None:
        forget_drawn()

    def set_value(self, value: str) -> None:
        """Put a text into the line, with the cursor at its end."""
        self._input.value = value
        self._input.cursor_position = len(self._input.value)

    def set_note(self, text: str, wrong: bool = False) -> None:
        """Show a note beside the line (plain, safe text)."""
        self._noted = text, wrong
        self._write()

    def on_resize(self) -> None:
        self._write()

    def _write(self) -> None:
        text, wrong = self._noted
        room = self.size.width // 2
        # The note comes first; the keys are left out if they do not fit whole.
        both = "   ".join(part for part in (text, self._keys) if part)
        if wrong or len(both) > room:
            typed = len(self._label) + cell_len(self._input.value) + 5
            room = max(room, self.size.width - typed - 2)
            both = clip(f"⚠ {text}" if wrong else text, room)
        self._note.update(both)
        self._note.set_class(wrong, "wrong")

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self.post_message(self.Typed(event.value))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.post_message(self.Entered(event.value))
