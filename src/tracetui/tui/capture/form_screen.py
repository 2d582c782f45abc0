"""The form: what to capture and how, one option per line, and the equivalent command."""

from __future__ import annotations

from rich.segment import Segment
from textual import events
from textual.app import ComposeResult
from textual.strip import Strip

from tracetui.capture.catalog import WORKLOADS
from tracetui.capture.options import CaptureOptions
from tracetui.core.cells import cell, fits, middle, wrap
from tracetui.core.option import Option
from tracetui.core.safe_text import plain
from tracetui.tui.bindings import bind
from tracetui.tui.capture.form import (
    ARGUMENTS,
    asked,
    draft,
    form_fields,
    problem,
    rubbed,
    stepped,
    text_of,
    typed,
)
from tracetui.tui.footer import Footer
from tracetui.tui.line_widget import LineWidget
from tracetui.tui.screens.once import LeaveOnce
from tracetui.tui.tables.drawing import scroll_bar
from tracetui.views.model import scrolled

LABEL, VALUE = 14, 30
WIDE = 110
"""From this many cells on, every option has its help beside it; below, only the one at the cursor."""


class Form(LineWidget, can_focus=True):
    """The options, one per line."""

    DEFAULT_CSS = """
    Form { height: 1fr; }
    Form > .drawn--accent { background: $panel; }
    """

    def __init__(self, options: CaptureOptions, at: str = "") -> None:
        """`at`: the name of the option that the cursor is on."""
        super().__init__()
        self.options: CaptureOptions = draft(options)
        self.cursor = next((n for n, field in enumerate(self.fields) if field.name == at), 0)
        self.top = 0
        self.fresh = True

    @property
    def fields(self) -> list[Option]:
        return form_fields(self.options)

    @property
    def field(self) -> Option:
        return self.fields[min(self.cursor, len(self.fields) - 1)]

    def move(self, step: int) -> None:
        """Move the cursor."""
        self.cursor = max(0, min(self.cursor + step, len(self.fields) - 1))
        self.fresh = True
        self.refresh()

    def set_options(self, options: CaptureOptions, fresh: bool) -> None:
        self.options, self.fresh = draft(options), fresh
        self.refresh()

    def on_key(self, event: events.Key) -> None:
        moves = {"up": -1, "down": 1, "shift+tab": -1, "tab": 1, "pageup": -10, "pagedown": 10}
        if event.key in moves:
            self.move(moves[event.key])
        elif event.key in ("left", "right"):
            self.set_options(stepped(self.options, self.field, 1 if event.key == "right" else -1), True)
        elif event.key == "backspace":
            self.set_options(rubbed(self.options, self.field), False)
        elif event.is_printable and event.character and plain(event.character) == event.character:
            self.set_options(typed(self.options, self.field, event.character, self.fresh), False)
        else:
            return
        event.stop()
        event.prevent_default()

    def on_paste(self, event: events.Paste) -> None:
        event.stop()
        lines = event.text.splitlines()
        if self.field is ARGUMENTS:  # a command may go over several lines
            text = " ".join(line.removesuffix("\\") for line in lines).replace("\t", " ")
        else:
            text = lines[0].strip() if lines else ""
        if self.field.kind == "text" and text:
            self.set_options(typed(self.options, self.field, plain(text), self.fresh), False)

    def on_click(self, event: events.Click) -> None:
        at = self.top + event.y - 2
        if 0 <= at < len(self.fields) and event.y >= 2:
            if at == self.cursor:
                self.set_options(stepped(self.options, self.field, 1), True)
            self.move(at - self.cursor)

    def command(self) -> list[str]:
        """The equivalent command, as up to three lines."""
        return wrap(plain(asked(self.options).command()), max(20, self.size.width - 4), 3)

    def render_line(self, y: int) -> Strip:
        width, height = self.size
        wrong = problem(self.options)
        below = wrap(wrong, max(20, width - 4), 3) if wrong else self.command()
        if width < WIDE:
            below = [self.field.help, *below]
        room = height - 2 - len(below) - 1
        self.top = scrolled(self.top, self.cursor, room, len(self.fields))
        if y == 0:
            workload = WORKLOADS.get(self.options.target)
            about = workload.text if workload else "your own code: its steps are profiled"
            return Strip([Segment(cell(f" Capture: {about}", width), self.style_of("accent"))])
        if y >= height - len(below):
            line = y - height + len(below)
            look = "dim" if line == 0 and width < WIDE else "bad" if wrong else "text"
            return Strip([Segment(cell("  " + below[line], width), self.style_of(look))])
        at = self.top + y - 2
        if y < 2 or y - 2 >= room or at >= len(self.fields):
            return Strip.blank(width, self.rich_style)
        bar = scroll_bar(y - 2, self.top, room, len(self.fields), self.style_of("bar"), self.rich_style)
        return Strip([*self._field(self.fields[at], at == self.cursor, width - 1), bar], width)

    def _field(self, field: Option, here: bool, width: int) -> Strip:
        shown = plain(text_of(self.options, field))
        if here and field.kind == "text":
            shown += "▏"
        arrows = ("◂ ", " ▸") if here and (field.choices or field.kind != "text") else ("  ", "  ")
        size = width - LABEL - 1 if here and not fits(shown, VALUE - 4) else VALUE
        value = cell(f"{arrows[0]}{middle(shown, size - 4)}{arrows[1]}", size)
        label = cell(f" {field.label or field.name.replace('_', ' ')}", LABEL)
        style = self.style_of("cursor" if here else "text")
        faint = self.style_of("dim")
        text_beside = field.help if width >= WIDE else ""
        help = cell(f"  {text_beside}", max(0, width - LABEL - size - 1))
        strip = Strip([Segment(" ", faint), Segment(label + value, style), Segment(help, faint)])
        return strip.adjust_cell_length(width)


class FormScreen(LeaveOnce[CaptureOptions]):
    """Fills in the form; the result is what to capture, or None if the user left."""

    BINDINGS = bind("enter capture  escape leave", priority=True)

    def __init__(self, options: CaptureOptions, at: str = "") -> None:
        super().__init__()
        self.form = Form(options, at)
        self.footer = Footer(
            (
                ("Enter", "capture", "capture"),
                ("Esc", "back", "leave"),
                ("↑↓", "option", ""),
                ("←→", "change", ""),
                ("0-9 a-z", "type", ""),
            )
        )

    def compose(self) -> ComposeResult:
        yield self.form
        yield self.footer

    def on_mount(self) -> None:
        self.form.focus()

    def action_capture(self) -> None:
        wrong = problem(self.form.options)
        if wrong:
            self.footer.say(wrong)
        else:
            self.dismiss(asked(self.form.options))
