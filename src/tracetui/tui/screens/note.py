"""A sheet to write a mark's label and note."""

from __future__ import annotations

from collections.abc import Iterator

from textual.containers import Horizontal
from textual.widget import Widget
from textual.widgets import Input, Static, TextArea
from textual.widgets.text_area import Edit, EditResult

from tracetui.core.safe_text import plain
from tracetui.core.units import instant
from tracetui.session.marks import LABEL_LIMIT, NOTE_LIMIT, Mark, cleaned, safe_lines
from tracetui.tui.bindings import bind
from tracetui.tui.screens.sheet import Sheet

HINTS = (("Ctrl+S", "save", "keep"), ("Esc", "discard", "leave"), ("Tab", "label, note", ""))
LINES = 9
"""One row for the label, the others for the note."""


class Label(Input):
    """The line for the label. What is typed or pasted is cleaned as names are."""

    def replace(self, text: str, start: int, end: int) -> None:
        super().replace(plain(text), start, end)


class Note(TextArea):
    """The lines for the note."""

    def edit(self, edit: Edit) -> EditResult:
        room = max(0, NOTE_LIMIT - len(self.text))
        ends = "\n" if edit.text.endswith(("\n", "\r")) else ""
        edit.text = ("\n".join(safe_lines(edit.text)) + ends)[:room]
        return super().edit(edit)


class NoteScreen(Sheet[Mark]):
    """Edits a mark; the result is the new mark, or None for no change."""

    DEFAULT_CSS = """
    NoteScreen Static { height: 1; width: 1fr; padding: 0 1; color: $foreground; }
    NoteScreen Horizontal { height: 1; }
    NoteScreen Horizontal.text { height: 1fr; min-height: 1; }
    NoteScreen .word { width: 8; color: $text-muted; }
    NoteScreen Input, NoteScreen Input.-textual-compact {
        width: 1fr; height: 1; border: none; padding: 0 1; background: $panel; color: $foreground;
    }
    NoteScreen TextArea {
        width: 1fr; height: 1fr; border: none; padding: 0 1; background: $panel; color: $foreground;
    }
    NoteScreen Input:focus, NoteScreen TextArea:focus { border: none; background: $surface-lighten-1; }
    NoteScreen TextArea .text-area--cursor-line { background: $surface-lighten-1; }
    """
    BINDINGS = bind("ctrl+s keep", priority=True) + bind("escape leave")

    def __init__(self, mark: Mark) -> None:
        super().__init__("", HINTS)
        self.mark = mark
        self.label = Label(
            mark.label,
            "optional; by default the note's first line",
            max_length=LABEL_LIMIT,
            compact=True,
            select_on_focus=False,
        )
        self.note = Note(mark.note, tab_behavior="focus", compact=True, soft_wrap=True)
        self.label.cursor_blink = self.note.cursor_blink = False  # send nothing while nobody types
        self._warned = ""
        on = f" on {mark.on.removesuffix(f', {mark.lane}')}" if mark.on else ""
        self.head.title = f"Note{on} at {instant(mark.time)}"

    def body(self) -> Iterator[Widget]:
        with Horizontal():
            yield Static("Label", markup=False, classes="word")
            yield self.label
        with Horizontal(classes="text"):
            yield Static("Note", markup=False, classes="word")
            yield self.note

    def on_mount(self) -> None:
        self.fit(LINES)
        self.note.focus()
        self.note.move_cursor(self.note.document.end)

    @property
    def written(self) -> Mark:
        """The mark with the typed label and note."""
        return cleaned(self.mark._replace(label=self.label.value, note=self.note.text))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.action_keep()

    def action_keep(self) -> None:
        self.dismiss(self.written)

    def action_leave(self) -> None:
        """Leave; if there are changes, only on the second Esc."""
        typed = f"{self.label.value}\n{self.note.text}"
        if self.written == cleaned(self.mark) or typed == self._warned:
            self.dismiss(None)
        else:
            self._warned = typed
            self.say("not saved: Ctrl+S saves, Esc again discards")
