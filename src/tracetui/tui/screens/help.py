"""The help: all keys, from the table of bindings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.app import ComposeResult
from textual.strip import Strip
from textual.widget import Widget

from tracetui.cells import cell, wrap
from tracetui.tui.bindings import ACTIONS, PANES, Action, bind, groups, key_text
from tracetui.tui.footer import Footer
from tracetui.tui.screens.once import Sheet
from tracetui.tui.tables.drawing import scroll_mark

SIZE, KEYS = 56, 17
"""Least cells of a column, and cells of the keys in it."""

MOUSE: tuple[tuple[str, str], ...] = (
    ("click", "select an event; a table's title: sort"),
    ("wheel", "scroll the lanes"),
    ("Ctrl+wheel", "zoom at the pointer"),
    ("Shift+wheel", "pan"),
    ("drag", "select a range"),
)
TABLE = "In a table"
IN_TABLES: tuple[tuple[str, str], ...] = (
    ("↑ ↓ PgUp PgDn", "move the row"),
    ("Enter", "to the event; again: the next longest"),
    ("Esc", "back to the timeline"),
)
HINTS = (
    ("↑↓ PgUp PgDn", "scroll", "page"),
    ("Esc", "close", "leave"),
    ("^p", "everything by name", "palette"),
)

Run = tuple[str, str]
"""A text and its role: "group", "key" or "text"."""


def sections(
    actions: Iterable[Action] = ACTIONS, in_table: bool = False
) -> list[tuple[str, list[tuple[str, str]]]]:
    """(group, [(keys, what they do)]) for all keys and the mouse. Actions with the same text share a line.

    `in_table`: a table has the focus, so its keys come first.
    """
    found = []
    for group, members in groups(actions).items():
        lines: dict[str, list[str]] = {}
        for action in members:
            lines.setdefault(action.line or action.text, []).extend(key_text(k) for k in action.keys)
        found.append((group, [(" ".join(keys), text) for text, keys in lines.items()]))
    at = next((i for i, (group, _) in enumerate(found) if group == PANES), len(found) - 1)
    found.insert(at + 1, (TABLE, list(IN_TABLES)))
    found.append(("Mouse", list(MOUSE)))
    return sorted(found, key=lambda s: s[0] not in (TABLE, PANES)) if in_table else found


def help_lines(width: int, actions: Iterable[Action] = ACTIONS, in_table: bool = False) -> list[list[Run]]:
    """The keys in as many columns as fit, to be read downwards; no line has more than `width` cells."""
    count = max(1, (width + 2) // (SIZE + 2))
    size = min(70, (width - 2 * (count - 1)) // count)
    blocks: list[list[list[Run]]] = []
    for group, lines in sections(actions, in_table):
        block = [[(cell(group, size), "group")]]
        for keys, text in lines:
            for n, part in enumerate(wrap(text, size - KEYS)):
                head = cell(f"  {keys}" if n == 0 else "", KEYS)
                block.append([(head, "key"), (cell(part, size - KEYS), "text")])
        blocks.append([*block, [(" " * size, "text")]])
    columns = _columns(blocks, count)
    found = []
    for y in range(max(len(c) for c in columns) - 1):
        line: list[Run] = []
        for n, column in enumerate(columns):
            line += [("  ", "text")] if n else []
            line += column[y] if y < len(column) else [(" " * size, "text")]
        found.append(line)
    return found


def _columns(blocks: list[list[list[Run]]], count: int) -> list[list[list[Run]]]:
    """The blocks in at most `count` columns of similar height."""
    total = sum(len(b) for b in blocks)
    columns: list[list[list[Run]]] = [[]]
    for block in blocks:
        if len(columns) < count and len(columns[-1]) + len(block) / 2 > total / count:
            columns.append([])
        columns[-1] += block
    return columns


class HelpView(Widget, can_focus=True):
    """The lines of the help, scrolled."""

    DEFAULT_CSS = """
    HelpView { height: 1fr; }
    HelpView > .help--group { color: $accent; text-style: bold; }
    HelpView > .help--key { color: $foreground; text-style: bold; }
    HelpView > .help--text { color: $foreground; }
    HelpView > .help--bar { color: $scrollbar; background: $scrollbar-background; }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {f"help--{role}" for role in ("group", "key", "text", "bar")}
    BINDINGS = bind(
        "up,k scroll_lines(-1)  down,j scroll_lines(1)  pageup,b page(-1)  pagedown,space page(1)"
        "  home scroll_lines(-1000)  end scroll_lines(1000)"
    )

    def __init__(self, actions: Iterable[Action], in_table: bool) -> None:
        super().__init__()
        self.actions, self.in_table = tuple(actions), in_table
        self.top = 0
        self._cached: tuple[int, list[list[Run]]] = (0, [])

    @property
    def lines(self) -> list[list[Run]]:
        width = self.size.width - 4
        if self._cached[0] != width:
            self._cached = width, help_lines(width, self.actions, self.in_table)
        return self._cached[1]

    def on_resize(self) -> None:
        self.action_scroll_lines(0)

    def action_scroll_lines(self, lines: int) -> None:
        top = max(0, min(self.top + lines, len(self.lines) - self.size.height))
        if top != self.top:
            self.top = top
            self.refresh()

    def action_page(self, pages: int) -> None:
        self.action_scroll_lines(pages * max(1, self.size.height - 1))

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.action_scroll_lines(3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.action_scroll_lines(-3)

    def render_line(self, y: int) -> Strip:
        width, height = self.size
        style = self.get_component_rich_style
        mark = scroll_mark(y, self.top, height, len(self.lines))
        if self.top + y >= len(self.lines):
            return Strip.blank(width, self.rich_style)
        segments = [Segment(text, style(f"help--{role}")) for text, role in self.lines[self.top + y]]
        line = Strip([Segment("  ", self.rich_style), *segments])
        bar = Segment(mark, style("help--bar") if mark != " " else self.rich_style)
        return Strip([*line.adjust_cell_length(width - 1, self.rich_style), bar], width)


class HelpScreen(Sheet[None]):
    """All keys."""

    BINDINGS = bind("escape,q,question_mark,enter leave")

    def __init__(self, actions: Iterable[Action] = ACTIONS, in_table: bool = False) -> None:
        super().__init__()
        self.view = HelpView(actions, in_table)

    def compose(self) -> ComposeResult:
        yield self.view
        yield Footer(HINTS)

    def on_mount(self) -> None:
        self.view.focus()

    def action_page(self) -> None:
        self.view.action_page(1)
