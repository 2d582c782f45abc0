"""A form at the bottom of the screen to write a mark's label and note."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static, TextArea
from textual.widgets.text_area import Edit, EditResult

from tracetui.cells import clip
from tracetui.safe_text import plain
from tracetui.session.marks import LABEL_LIMIT, NOTE_LIMIT, Mark, cleaned, safe_lines
from tracetui.tui.bindings import bind
from tracetui.tui.footer import Footer
from tracetui.tui.screens.once import LeaveOnce
from tracetui.units import instant

HINTS = (("Ctrl+S", "keep", ""), ("Tab", "label, note", ""), ("Esc", "leave", ""))


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


class NoteScreen(ModalScreen[Mark], LeaveOnce[Mark]):
    """Edits a mark; the result is the new mark, or None for no change."""

    DEFAULT_CSS = """
    NoteScreen { align: left bottom; background: $background 0%; }
    NoteScreen > Vertical { height: 11; max-height: 100%; background: $panel; }
    NoteScreen Static { height: 1; width: 1fr; padding: 0 1; color: $foreground; }
    NoteScreen .title { text-style: bold; color: $accent; }
    NoteScreen Horizontal { height: 1; }
    NoteScreen Horizontal.text { height: 1fr; min-height: 1; }
    NoteScreen .word { width: 8; color: $text-muted; }
    NoteScreen Input, NoteScreen Input.-textual-compact {
        width: 1fr; height: 1; border: none; padding: 0 1; background: $surface; color: $foreground;
    }
    NoteScreen TextArea {
        width: 1fr; height: 1fr; border: none; padding: 0 1; background: $surface; color: $foreground;
    }
    NoteScreen Input:focus, NoteScreen TextArea:focus { border: none; background: $surface-lighten-1; }
    NoteScreen TextArea .text-area--cursor-line { background: $surface-lighten-1; }
    """
    BINDINGS = bind("ctrl+s keep", priority=True) + bind("escape leave")

    def __init__(self, mark: Mark) -> None:
        super().__init__()
        self.mark = mark
        self.label = Label(
            mark.label,
            "without one, the note's first line",
            max_length=LABEL_LIMIT,
            compact=True,
            select_on_focus=False,
        )
        self.note = Note(mark.note, tab_behavior="focus", compact=True, soft_wrap=True)
        self.label.cursor_blink = self.note.cursor_blink = False  # send nothing while nobody types
        self.footer = Footer(HINTS)
        self._warned = ""

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(markup=False, classes="title")
            with Horizontal():
                yield Static("Label", markup=False, classes="word")
                yield self.label
            with Horizontal(classes="text"):
                yield Static("Note", markup=False, classes="word")
                yield self.note
            yield self.footer

    def on_mount(self) -> None:
        self.note.focus()
        self.note.move_cursor(self.note.document.end)

    def on_resize(self) -> None:
        on = f" on {self.mark.on}" if self.mark.on else ""
        title = clip(f"Mark at {instant(self.mark.time)}{on}", self.size.width - 2)
        self.query_one(".title", Static).update(title)

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
        """Leave; if there are changes, only at the second Esc."""
        typed = f"{self.label.value}\n{self.note.text}"
        if self.written == cleaned(self.mark) or typed == self._warned:
            self.dismiss(None)
        else:
            self._warned = typed
            self.footer.say("not kept yet: Ctrl+S keeps it, Esc again drops it")
