"""All keys, made from the table of bindings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from tracetui.tui.bindings import ACTIONS, Action, groups, key_text
from tracetui.tui.screens.once import LeaveOnce
from tracetui.tui.text import cell

SIZE, KEYS = 56, 17
"""Cells of a column at least, and of the keys in it."""

MOUSE: tuple[tuple[str, str], ...] = (
    ("click", "select an event; a table's title: sort"),
    ("wheel", "scroll the lanes"),
    ("Ctrl+wheel", "zoom at the pointer"),
    ("Shift+wheel", "pan"),
    ("drag", "select a range"),
)
IN_TABLES: tuple[tuple[str, str], ...] = (
    ("↑ ↓ PgUp PgDn", "move the row"),
    ("Enter", "to the event; again: the next longest"),
    ("Esc", "back to the timeline"),
)


def sections(actions: Iterable[Action] = ACTIONS) -> list[tuple[str, list[tuple[str, str]]]]:
    """(group, [(keys, what they do)]) for all keys and for the mouse. Twins share a line."""
    found = []
    for group, members in groups(actions).items():
        lines: dict[str, list[str]] = {}
        for action in members:
            lines.setdefault(action.line or action.text, []).extend(key_text(k) for k in action.keys)
        found.append((group, [(" ".join(keys), text) for text, keys in lines.items()]))
    at = next((i for i, (group, _) in enumerate(found) if group == "Panes"), len(found) - 1)
    found.insert(at + 1, ("In a table", list(IN_TABLES)))
    found.append(("Mouse", list(MOUSE)))
    return found


def help_text(width: int, actions: Iterable[Action] = ACTIONS) -> Content:
    """The keys in as many columns as the width holds, read downwards."""
    blocks: list[list[Content]] = []
    count = max(1, (width + 2) // (SIZE + 2))
    size = min(70, (width - 2 * (count - 1)) // count)
    for group, lines in sections(actions):
        block = [Content.styled(cell(group, size), "bold $accent")]
        for keys, text in lines:
            block.append(Content.assemble((cell(f"  {keys}", KEYS), "bold"), cell(text, size - KEYS)))
        block.append(Content(" " * size))
        blocks.append(block)
    total = sum(len(b) for b in blocks)
    columns: list[list[Content]] = [[]]
    for block in blocks:
        if len(columns) < count and len(columns[-1]) + len(block) / 2 > total / count:
            columns.append([])
        columns[-1] += block
    height = max(len(c) for c in columns)
    rows = []
    for y in range(height):
        cells = [c[y] if y < len(c) else Content(" " * size) for c in columns]
        rows.append(Content("  ").join(cells))
    return Content("\n").join(rows)


class HelpScreen(LeaveOnce, ModalScreen[None]):
    """The keys."""

    DEFAULT_CSS = """
    HelpScreen { align: center middle; background: $background; }
    HelpScreen > VerticalScroll { width: 100%; height: 1fr; padding: 1 2; background: $background; }
    HelpScreen > .foot { height: 1; width: 100%; background: $panel; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,enter", "dismiss", "Close"),
    ]

    def __init__(self, actions: Iterable[Action] = ACTIONS) -> None:
        super().__init__()
        self.actions = tuple(actions)

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Static(markup=False)
        yield Static("Esc close   ↑ ↓ scroll   Ctrl+P everything by name", markup=False, classes="foot")

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).focus()

    def on_resize(self) -> None:
        # A size may come before the text is mounted.
        for text in self.query("VerticalScroll > Static").results(Static):
            text.update(help_text(self.size.width - 5, self.actions))
