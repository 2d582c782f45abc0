"""One line to type into, at the place of the footer: a search, a filter, a time, a label."""

from __future__ import annotations

from typing import ClassVar

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Input, Static

from tracetui.trace.text import plain
from tracetui.tui.drawn import let_go
from tracetui.tui.text import clip


class _Line(Input):
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Leave", show=False)]

    def on_mount(self) -> None:
        # Textual's signal would hold the line, and all that it holds, for as long as the screen lives.
        self._signal = self.screen.text_selection_started_signal

    def on_unmount(self) -> None:
        self._signal.unsubscribe(self)

    def action_leave(self) -> None:
        self.post_message(Prompt.Left())

    def replace(self, text: str, start: int, end: int) -> None:
        """What is typed or pasted reads as names do: it is harmless, and a pasted name finds its events."""
        super().replace(plain(text), start, end)


class Prompt(Horizontal):
    """A label, the line, and what came of it so far."""

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
        """The text stands."""

        def __init__(self, value: str) -> None:
            super().__init__()
            self.value = value

    class Left(Message):
        """The user gave up."""

    def __init__(self, label: str, value: str = "", placeholder: str = "", keys: str = "") -> None:
        """`placeholder` tells what may be typed, `keys` what Enter and Esc do."""
        super().__init__()
        self._label, self._keys, self._said = label, keys, ("", False)
        self._input = _Line(value, placeholder=placeholder, compact=True, select_on_focus=False)
        self._input.cursor_blink = False  # a blink is a frame, twice a second, over SSH as well
        self._note = Static("", markup=False, classes="note")

    def compose(self) -> ComposeResult:
        yield Static(self._label, markup=False, classes="label")
        yield self._input
        yield self._note

    def on_mount(self) -> None:
        self._input.focus()

    def on_unmount(self) -> None:
        let_go()

    def set_note(self, text: str, wrong: bool = False) -> None:
        """Tell beside the line what came of it (safe, plain text)."""
        self._said = text, wrong
        self._write()

    def on_resize(self) -> None:
        self._write()

    def _write(self) -> None:
        text, wrong = self._said
        room = self.size.width // 2
        # What came of it goes first; the keys are left out where a word of them would be cut off.
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
