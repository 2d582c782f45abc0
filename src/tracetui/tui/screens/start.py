"""The first screen of a bare `tracetui`: recent traces, capturing, and samples."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from rich.segment import Segment
from textual.app import ComposeResult
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget

from tracetui import __version__
from tracetui.cells import cell, middle
from tracetui.safe_text import plain
from tracetui.session.folder import Found, traces_in
from tracetui.session.paths import typed_path
from tracetui.session.recent import Recent, ago, recent_traces
from tracetui.session.samples import ABOUT, samples
from tracetui.tables.model import Column, Table
from tracetui.tui.bindings import bind
from tracetui.tui.footer import Footer
from tracetui.tui.requests import OpenTrace, WantCapture
from tracetui.tui.tables.view import TableView
from tracetui.units import size

if TYPE_CHECKING:
    from tracetui.tui.prompt import Prompt

HINTS = (
    ("↑↓", "choose", ""),
    ("Enter", "open", "choose"),
    ("o", "open a file", "open_file"),
    ("c", "capture", "capture"),
    ("q", "quit", "app.quit"),
)
NAME = 25
"""Cells of a name."""


class Choice(NamedTuple):
    """A line: something to open, or capturing (`path` None)."""

    kind: str
    name: str
    about: str
    path: Path | None


def choices(recent: Sequence[Recent], bundled: dict[str, Path], now: float) -> list[Choice]:
    """Capturing, then the recent traces, then the samples."""
    found = [Choice("capture", "a workload, or your code", "under torch.profiler", None)]
    for r in recent:
        where = plain(str(r.path.parent), 200)
        found.append(Choice("recent", plain(r.path.name, 100), f"{ago(now - r.opened)}  {where}", r.path))
    for name, path in bundled.items():
        about = ABOUT.get(name) or size(path.stat().st_size)
        found.append(Choice("sample", plain(name, 100), about, path))
    return found


def folder_choices(found: Sequence[Found], now: float) -> list[Choice]:
    """The traces of a folder, by their names below it."""
    top = os.path.commonpath([f.path.parent for f in found])
    return [
        Choice(
            "trace",
            plain(os.path.relpath(f.path, top), 100),
            f"{size(f.bytes)}  {ago(now - f.changed)}  {plain(str(f.path.parent), 200)}",
            f.path,
        )
        for f in found
    ]


class Welcome(Widget):
    """Two lines above the choices."""

    DEFAULT_CSS = """
    Welcome { height: 3; }
    Welcome > .welcome--title { color: $accent; text-style: bold; }
    Welcome > .welcome--text { color: $text-muted; }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"welcome--title", "welcome--text"}

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if y == 0:
            title = f" tracetui {__version__}"
            return Strip([Segment(cell(title, width), self.get_component_rich_style("welcome--title"))])
        text = " Open a trace that torch.profiler wrote, or capture one here." if y == 1 else ""
        return Strip([Segment(cell(text, width), self.get_component_rich_style("welcome--text"))])


class StartScreen(Screen[None]):
    """The choice of what to look at."""

    BINDINGS = bind("o open_file  c capture  q,ctrl+c app.quit")

    def __init__(self, folder: str = "") -> None:
        """`folder`: list what is in it, not recent traces and samples."""
        super().__init__()
        now = time.time()
        found = traces_in(folder) if folder else []
        self.choices = folder_choices(found, now) if found else choices(recent_traces(), samples(), now)
        self.list = TableView()
        self.footer = Footer(HINTS)

    def compose(self) -> ComposeResult:
        yield Welcome()
        yield self.list
        yield self.footer

    def on_mount(self) -> None:
        found = self.choices
        self.list.set_table(
            Table(
                (
                    Column("kind", "What", lambda r: found[r].kind, None, 8, False, 1),
                    Column("name", "Name", lambda r: middle(found[r].name, NAME), None, NAME, False),
                    Column("about", "About", lambda r: found[r].about, None, 0, False, 2),
                ),
                len(found),
            )
        )
        if len(found) > 1 and found[0].path is None:
            self.list.show_row(1)
        self.list.focus()

    def on_table_view_chosen(self, message: TableView.Chosen) -> None:
        path = self.choices[message.row].path
        if path is None:
            self.action_capture()
        else:
            self.post_message(OpenTrace(path))

    def action_choose(self) -> None:
        self.list.action_choose()

    def action_open_file(self) -> None:
        """Ask for a path, in place of the footer."""
        from tracetui.tui.prompt import Prompt

        if not self.query(Prompt):
            self.footer.display = False
            self.mount(Prompt("open:", placeholder="a trace: .json or .json.gz", keys="Enter open  Esc back"))

    def _close_prompt(self) -> None:
        self.query("Prompt").remove()
        self.footer.display = True
        self.list.focus()

    def on_prompt_left(self, message: Prompt.Left) -> None:
        self._close_prompt()

    def on_prompt_entered(self, message: Prompt.Entered) -> None:
        from tracetui.tui.prompt import Prompt

        path = typed_path(message.value)
        if message.value.strip() and not os.path.isfile(path):
            self.query_one(Prompt).set_note("no such file", wrong=True)
            return
        self._close_prompt()
        if message.value.strip():
            self.post_message(OpenTrace(path))

    def action_capture(self) -> None:
        self.post_message(WantCapture())
