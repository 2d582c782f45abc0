"""A sheet with the marks of a trace and their notes, as a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from tracetui.core.safe_text import plain
from tracetui.core.units import instant, plural
from tracetui.session.marks import Mark, Marks
from tracetui.session.navigator import Navigator
from tracetui.session.paths import trace_stem, typed_path
from tracetui.trace.model import Trace
from tracetui.tui.bindings import bind
from tracetui.tui.export import ExportError, deliver, table_text
from tracetui.tui.prompt import Prompt
from tracetui.tui.screens.sheet import TableSheet, WalkingSheet
from tracetui.tui.tables.view import TableView
from tracetui.views.model import Column, Table
from tracetui.views.writers import TABLE_ENDINGS

HINTS = (
    ("Esc", "back", "leave"),
    ("Enter", "stay there", "choose"),
    ("e", "edit", "edit"),
    ("d", "remove", "remove"),
    ("u", "undo", "undo"),
    ("E", "export", "export"),
    ("< >", "sort", "sort(1)"),
)
LONGEST_NOTE = 6
"""The most lines of a note; the rest is scrolled."""
EARLIER = "an earlier trace"
"""Shown for a mark made before the file was overwritten: its time means nothing in this trace."""


def marks_table(marks: Sequence[Mark], width: int, here: Callable[[Mark], bool]) -> Table:
    """The marks as columns, for a table of `width` cells."""
    times = [instant(m.time) for m in marks]
    first = max([8, *map(len, times)])
    rest = max(30, width - first - 6)
    label, on = min(30, rest * 3 // 10), min(44, rest * 3 // 10)

    def on_text(mark: Mark) -> str:
        return (mark.on or "-") if here(mark) else EARLIER

    def words(key: str, title: str, text: Callable[[Mark], str], width: int, drop: int = 0) -> Column:
        return Column(
            key, title, lambda r: text(marks[r]), lambda: [text(m) for m in marks], width, False, drop, False
        )

    when = np.array([m.time for m in marks], dtype=np.int64)
    return Table(
        (
            Column("time", "Time", times.__getitem__, lambda: when, first, True, 0, False),
            words("label", "Label", lambda m: m.label, label),
            words("on", "On", on_text, on, 1),
            words("note", "Note", rest_of_note, 0),
        ),
        len(marks),
        dim=lambda r: not here(marks[r]),
        empty="no marks yet: m marks the selected event, T writes a note on it",
    )


def rest_of_note(mark: Mark) -> str:
    """A note in one line, without its first line if that is also the label."""
    lines = [line.strip() for line in mark.note.split("\n") if line.strip()]
    return " / ".join(lines[1:] if lines and lines[0] == mark.label else lines) or "-"


def export_table(marks: Sequence[Mark]) -> Table:
    """The marks with all their fields, for export; times in ns."""

    def words(key: str, text: Callable[[Mark], str]) -> Column:
        return Column(key, key.capitalize(), lambda r: text(marks[r]), None, 0, False)

    when = np.array([m.time for m in marks], dtype=np.int64)
    return Table(
        (
            Column("time_ns", "Time", lambda r: instant(marks[r].time), lambda: when),
            words("label", lambda m: m.label),
            words("event", lambda m: m.name),
            words("lane", lambda m: m.lane),
            words("note", lambda m: m.note),
        ),
        len(marks),
    )


class MarksScreen(TableSheet[Mark], WalkingSheet[Mark]):
    """All marks. The one under the cursor is shown in the timeline, with its whole note below; the result is
    a mark to go to."""

    DEFAULT_CSS = """
    MarksScreen .title { height: 1; padding: 0 1; text-style: bold; color: $accent; }
    MarksScreen VerticalScroll { height: 1; padding: 0 1; }
    MarksScreen VerticalScroll > Static { height: auto; color: $foreground; }
    """
    BINDINGS = bind(
        "escape,q,l leave  e,T edit  d,delete remove  u undo  E export"
        "  greater_than_sign sort(1)  less_than_sign sort(-1)  R reverse"
    )

    def __init__(
        self,
        trace: Trace,
        marks: Marks,
        navigator: Navigator,
        changed: Callable[[], None],
        show: Callable[[Mark], object],
    ) -> None:
        """`changed` is called after each change to the marks, `show` with a mark to show in the timeline."""
        super().__init__("Marks", HINTS, navigator)
        self.trace, self.marks, self._changed, self._show = trace, marks, changed, show
        self.rows: list[Mark] = []
        self.removed: list[Mark] = []
        self.prompt: Prompt | None = None
        self.list = TableView()
        self.about = Static(markup=False, classes="title")
        self.note = Static(markup=False)
        self.box = VerticalScroll(self.note)

    def body(self) -> Iterator[Widget]:
        yield self.list
        yield self.about
        yield self.box

    def on_mount(self) -> None:
        self.list.focus()

    def on_resize(self) -> None:
        self.show_marks(self.here)

    # Showing

    @property
    def here(self) -> Mark | None:
        """The mark under the cursor."""
        row = self.list.row
        return self.rows[row] if row is not None and row < len(self.rows) else None

    def show_marks(self, at: Mark | None = None) -> None:
        """Show the current marks, with the cursor on `at`, or where it was."""
        place = self.list.cursor
        self.rows = list(self.marks.all)
        table = marks_table(self.rows, self.size.width - 3, self.marks.is_here)
        self.head.title = plural(len(self.rows), "mark").capitalize() if self.rows else "Marks"
        note = min(LONGEST_NOTE, max((m.note.count("\n") + 2 for m in self.rows), default=1))
        self.box.styles.height = note
        self.fit(max(1, len(self.rows)) + 2 + note)
        self.list.set_table(table, "time", False)
        found = next((r for r, m in enumerate(self.rows) if at is not None and same(m, at)), None)
        if found is None and len(self.list.order):
            found = int(self.list.order[min(place, len(self.list.order) - 1)])
        if found is not None:
            self.list.show_row(found)
        self.show_note()

    def show_note(self) -> None:
        """The note of the mark under the cursor, in full."""
        mark = self.here
        if mark is None:
            self.about.update(Content(""))
            self.note.update(Content(""))
            return
        on = mark.on or "on no event"
        where = "" if self.marks.is_here(mark) else f" of {EARLIER} at this path"
        self.about.update(Content(f"{instant(mark.time)}{where}, {on}"))
        parts = [Content.styled(mark.label, "bold")]
        if mark.note:
            own = mark.note.split("\n")[0].strip() == mark.label
            parts = [Content(mark.note)] if own else [*parts, Content(mark.note)]
        else:
            parts.append(Content.styled("no note yet: e writes one", "$text-muted"))
        self.note.update(Content("\n").join(parts))
        self.box.scroll_home(animate=False)

    def on_table_view_highlighted(self, message: TableView.Highlighted) -> None:
        self.show_note()
        mark = self.rows[message.row]
        self.visit((lambda: self._show(mark)) if self.marks.is_here(mark) else None)

    # Actions

    def on_table_view_chosen(self, message: TableView.Chosen) -> None:
        mark = self.rows[message.row]
        if self.marks.is_here(mark):
            self.dismiss(mark)
        else:
            self.say("this mark is from an earlier trace at this path: its time means nothing here")

    def action_edit(self) -> None:
        from tracetui.tui.screens.note import NoteScreen

        if self.here is not None:
            self.app.push_screen(NoteScreen(self.here), self._edited)

    def _edited(self, mark: Mark | None) -> None:
        if mark is not None:
            self.marks.put(mark)
            self._show_change(mark, self.marks.trouble or "kept")

    def action_remove(self) -> None:
        mark = self.here
        if mark is not None:
            self.marks.drop(mark)
            self.removed.append(mark)
            self._show_change(None, f"removed “{mark.label}”; u undoes it")

    def action_undo(self) -> None:
        if self.removed:
            mark = self.removed.pop()
            self.marks.put(mark)
            self._show_change(mark, f"“{mark.label}” is back")
        else:
            self.say("nothing to undo")

    def _show_change(self, at: Mark | None, message: str) -> None:
        if self.marks.trouble and self.marks.trouble != message:
            message = f"{message}; {self.marks.trouble}"
        self._changed()
        self.show_marks(at)
        self.say(message)

    def action_sort(self, step: int) -> None:
        self.list.sort_next(step)
        self.show_note()

    def action_reverse(self) -> None:
        self.list.reverse()
        self.show_note()

    # Export

    def action_export(self) -> None:
        if self.prompt is None:
            stem = trace_stem(self.trace.info.path) or "trace"
            name = plain(f"{stem}-marks.md", 120)
            self.prompt = Prompt("export to:", name, keys=f"Enter write {' '.join(TABLE_ENDINGS)}  Esc back")
            self.frame.mount(self.prompt)

    def _answered(self) -> None:
        if self.prompt is not None:
            self.prompt.remove()
            self.prompt = None
        self.list.focus()

    def on_prompt_left(self) -> None:
        self._answered()

    def on_prompt_entered(self, message: Prompt.Entered) -> None:
        if self.prompt is None:
            return
        order = np.array([r for r in self.list.order.tolist() if self.marks.is_here(self.rows[r])], int)
        try:
            text = table_text(export_table(self.rows), order, typed_path(message.value).suffix.lower())
            done = deliver(self.app, message.value, text)
        except ExportError as error:
            self.prompt.set_note(plain(str(error)), wrong=True)
            return
        self._answered()
        self.say(done)


def same(a: Mark, b: Mark) -> bool:
    """Whether two marks are the same one, even if their texts differ."""
    return a.time == b.time and a.zero == b.zero
