"""The help: the keys of what has the focus, and all keys, from the table of bindings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import takewhile

from textual.widget import Widget

from tracetui.core.cells import cell, wrap
from tracetui.tui.bindings import ACTIONS, PANES, Action, bind, groups, key_text
from tracetui.tui.line_widget import Run, ScrolledLines
from tracetui.tui.screens.sheet import Sheet

WIDE, NARROW, KEYS, GAP = 56, 34, 17, 3
"""In cells: the width of a column whose lines need not be wrapped, the width of the narrowest column, that of
the keys in a column, and the space between two columns."""

MOUSE: tuple[tuple[str, str], ...] = (
    ("click", "select; a title: sort"),
    ("wheel", "scroll the lanes"),
    ("Ctrl+wheel", "zoom at the pointer"),
    ("Shift+wheel", "pan"),
    ("drag", "select a range"),
)
TABLE = "In a table"
IN_TABLES: tuple[tuple[str, str], ...] = (
    ("↑ ↓", "move; PgUp, PgDn: by pages"),
    ("Enter", "its event; again: the next"),
    ("Esc", "back to the timeline"),
)
OF_TIMELINE, OF_TABLE = ("Moving", "Selecting", "Finding"), (TABLE, PANES)
"""The groups that come first: of the timeline, and of a table."""
HINTS = (
    ("Esc", "close", "leave"),
    ("↑↓ PgUp PgDn", "scroll", "page"),
    ("I", "glossary", "glossary"),
    ("^p", "find a command", "app.command_palette"),
)


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
        found.append((group, [(keys_text(keys), text) for text, keys in lines.items()]))
    at = next((i for i, (group, _) in enumerate(found) if group == PANES), len(found) - 1)
    found.insert(at + 1, (TABLE, list(IN_TABLES)))
    found.append(("Mouse", list(MOUSE)))
    return sorted(found, key=lambda s: s[0] not in (TABLE, PANES)) if in_table else found


def of_focus(
    actions: Iterable[Action] = ACTIONS, in_table: bool = False
) -> list[tuple[str, list[tuple[str, str]]]]:
    """Those of `sections` that are about what has the focus."""
    wanted = OF_TABLE if in_table else OF_TIMELINE
    return [section for section in sections(actions, in_table) if section[0] in wanted]


def keys_text(keys: list[str]) -> str:
    """Keys in few cells: `w s`, and `1-5` for neighboring digits, which come first."""
    digits = "".join(takewhile(str.isdigit, keys))
    if len(digits) > 2 and digits in "123456789":
        keys = [f"{digits[0]}-{digits[-1]}", *keys[len(digits) :]]
    return " ".join(keys)


def help_lines(
    width: int,
    height: int = 0,
    actions: Iterable[Action] = ACTIONS,
    in_table: bool = False,
    every: bool = True,
) -> list[list[Run]]:
    """The keys in columns, to be read downwards; no line has more than `width` cells. The columns are narrow
    only if `height` lines have no room for wider ones. `every`: not only those of what has the focus."""
    groups = (sections if every else of_focus)(actions, in_table)
    found: list[list[Run]] = []
    widest, narrowest = (max(1, (width + GAP) // (least + GAP)) for least in (WIDE, NARROW))
    for count in range(widest, narrowest + 1):
        size = min(70, (width - GAP * (count - 1)) // count)
        found = _in_columns([_block(group, lines, size) for group, lines in groups], count, size)
        if len(found) <= height:
            break
    return found


def _block(group: str, lines: list[tuple[str, str]], size: int) -> list[list[Run]]:
    """A group of keys as lines of `size` cells, followed by an empty one."""
    wide = min(KEYS, max(len(keys) for keys, _ in lines) + 4) if size < WIDE else KEYS
    block: list[list[Run]] = [[(cell(group, size), "accent")]]
    for keys, text in lines:
        for n, part in enumerate(wrap(text, size - wide)):
            head = cell(f"  {keys}" if n == 0 else "", wide)
            block.append([(head, "head"), (cell(part, size - wide), "text")])
    return [*block, [(" " * size, "text")]]


def _in_columns(blocks: list[list[list[Run]]], count: int, size: int) -> list[list[Run]]:
    columns = _columns(blocks, count)
    found = []
    for y in range(max(len(c) for c in columns) - 1):
        line: list[Run] = []
        for n, column in enumerate(columns):
            line += [(" " * GAP, "text")] if n else []
            line += column[y] if y < len(column) else [(" " * size, "text")]
        found.append(line)
    return found


def _columns(blocks: list[list[list[Run]]], count: int) -> list[list[list[Run]]]:
    """The blocks in at most `count` columns, in order, such that the longest column is as short as
    possible."""
    sizes = [len(b) for b in blocks]
    for height in range(max(sizes), sum(sizes) + 1):
        columns: list[list[list[Run]]] = [[]]
        for block in blocks:
            if columns[-1] and len(columns[-1]) + len(block) > height:
                columns.append([])
            columns[-1] = columns[-1] + block
        if len(columns) <= count:
            break
    return columns


class HelpView(ScrolledLines, can_focus=True):
    """The lines of the help, scrolled."""

    BINDINGS = bind(
        "up,k scroll_lines(-1)  down,j scroll_lines(1)  pageup,b page(-1)  pagedown,space page(1)"
        "  home scroll_lines(-1000)  end scroll_lines(1000)"
    )

    def __init__(self, actions: Iterable[Action], in_table: bool, every: bool) -> None:
        super().__init__()
        self.actions, self.in_table, self.every = tuple(actions), in_table, every

    def lay_out(self, width: int, height: int) -> int:
        """Arrange the keys for a view of this size. Returns the number of lines."""
        self.lines = help_lines(width - 4, height, self.actions, self.in_table, self.every)
        return len(self.lines)

    def on_resize(self) -> None:
        self.scroll_rows(0)

    def action_scroll_lines(self, lines: int) -> None:
        self.scroll_rows(lines)

    def action_page(self, pages: int) -> None:
        self.scroll_rows(pages * max(1, self.size.height - 1))


class HelpScreen(Sheet[None]):
    """The keys of what has the focus; after another `?`, all keys."""

    BINDINGS = bind("escape,q,enter leave  question_mark more  I glossary")

    def __init__(
        self, actions: Iterable[Action] = ACTIONS, in_table: bool = False, every: bool = True
    ) -> None:
        title = "Keys" if every else "Keys in a table" if in_table else "Keys in the timeline"
        super().__init__(title, HINTS if every else (HINTS[0], ("?", "all keys", "more"), *HINTS[1:]))
        self.view = HelpView(actions, in_table, every)

    def action_more(self) -> None:
        """Show all keys, or close them."""
        view, app = self.view, self.app
        self.dismiss()
        if not view.every:
            app.push_screen(HelpScreen(view.actions, view.in_table))

    def body(self) -> Iterator[Widget]:
        yield self.view

    @property
    def most(self) -> int:
        return self.size.height - 3

    def on_mount(self) -> None:
        self.view.focus()
        self.on_resize()

    def on_resize(self) -> None:
        self.fit(self.view.lay_out(self.size.width, self.most - 1))

    def action_page(self) -> None:
        self.view.action_page(1)

    async def action_glossary(self) -> None:
        below = self._below
        self.dismiss()
        if below is not None:
            await below.run_action("glossary")
