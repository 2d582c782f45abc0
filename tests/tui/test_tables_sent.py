"""A table sends little, and the terminal shows what the table means it to show."""

import random

import numpy as np
import pytest
from rich.color import Color
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual._compositor import CompositorUpdate
from textual.app import ComposeResult
from textual.widgets import Static

from tracetui.timeline.canvas import BOLD, INK, PAPER, unpack
from tracetui.tui.tables.delta_table import number_of, packed
from tracetui.tui.tables.view import TableView
from tracetui.tui.textual_private import SentLines
from tracetui.tui.timeline.delta_strips import Board, DeltaStrip
from tracetui.views.model import Column, Table
from tracetui.views.times import time_column

from .conftest import until
from .terminal import OnTerminal, Terminal
from .test_timeline_view import Over, quiet

ROWS = 200
VALUES = np.random.default_rng(3).integers(0, 10**9, ROWS)
SIZE = (90, 20)


def table(offset: int = 0) -> Table:
    columns = (
        Column("name", "Name", lambda r: f"kernel {(r + offset) * 37 % 101}", None, 0, False),
        time_column("time", "Self GPU", VALUES),
        Column("calls", "Calls", lambda r: str(r % 7), lambda: VALUES % 7, 7),
    )
    return Table(columns, ROWS, lambda r: f"{r}", lambda r: f"color({70 + r % 9})", lambda r: r % 5 == 0)


class Watched(OnTerminal):
    CSS = """
    Screen { layers: below over; }
    #float { layer: over; position: absolute; offset: 12 6; width: 20; height: 4; background: blue; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.terminal = Terminal(*SIZE)
        self.sent = SentLines()

    def compose(self) -> ComposeResult:
        yield TableView()
        yield Static("floats over the rows", id="float")

    def on_mount(self) -> None:
        self.query_one(TableView).set_table(table(), "time")

    def fresh(self, view: TableView) -> Terminal:
        """A terminal that is drawn anew, in full."""
        terminal = Terminal(*SIZE)
        assert view._board is not None
        known, made = list(view._board.lines), view._drawn
        view._drawn = None  # the lines are made anew, too: what is kept of them may be stale
        update = self.screen._compositor.render_update(full=True, screen_stack=self._background_screens)
        assert isinstance(update, CompositorUpdate)
        terminal.feed(update.render_segments(self.ansi))
        view._board.lines, view._drawn = known, made
        return terminal


@pytest.mark.parametrize("seed", range(2))
async def test_the_terminal_shows_the_table(seed, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    rng = random.Random(seed)
    app = Watched()
    app.console._color_system = Console(color_system="truecolor", force_terminal=True)._color_system
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        view, floating = app.query_one(TableView), app.query_one("#float", Static)
        steps = [
            lambda: view.action_move(rng.choice([-1, 1])), lambda: view.action_move(rng.choice([-1, 1])),
            lambda: view.action_page(rng.choice([-1, 1])), lambda: view.show_row(rng.randrange(ROWS)),
            lambda: view.show_row(rng.randrange(ROWS)), lambda: view.scroll_rows(rng.choice([-3, 3])),
            lambda: view.sort_by(rng.choice(["time", "calls"])),
            lambda: view.set_filter(rng.choice(["", "1", "no such row"])),
            lambda: view.set_table(table(rng.randrange(9))),
            lambda: view.set_table(table(rng.randrange(9)), row=rng.randrange(ROWS)),
            lambda: view.focus() if not view.has_focus else app.screen.set_focus(None),
            lambda: setattr(floating, "display", not floating.display),
            lambda: app.push_screen(Over()) if len(app.screen_stack) < 2 else app.pop_screen(),
            lambda: app.refresh()
        ]  # fmt: skip
        for _ in range(80):
            for step in rng.choices(steps, k=rng.choice([1, 1, 2, 4])):
                step()
            await pilot.pause()
            if rng.random() < 0.4:
                while len(app.screen_stack) > 1:
                    app.pop_screen()
                await quiet(pilot, app.terminal)
                fresh = app.fresh(view).cells
                for y, (seen, want) in enumerate(zip(app.terminal.cells, fresh, strict=True)):
                    assert seen == want, f"line {y}"


async def test_another_table_with_the_cursor_where_it_was_is_drawn_so():
    app = Watched()
    app.console._color_system = Console(color_system="truecolor", force_terminal=True)._color_system
    async with app.run_test(size=SIZE) as pilot:
        view = app.query_one(TableView)
        view.show_row(int(view.order[50]))
        view.scroll_rows(3)
        high = view.cursor - view.top
        view.set_table(table(1), row=int(view.order[90]))
        assert (view.cursor, view.top) == (90, 90 - high)
        await quiet(pilot, app.terminal)
        assert app.terminal.cells == app.fresh(view).cells
        view.set_filter("1")
        view.set_table(table(2), row=2)
        assert view.row in (1, 10)  # the nearest that the filter leaves
        await quiet(pilot, app.terminal)
        assert app.terminal.cells == app.fresh(view).cells


async def test_a_step_of_the_cursor_sends_two_lines_and_a_jump_little_more_than_the_letters():
    app = Watched()
    app.console._color_system = Console(color_system="truecolor", force_terminal=True)._color_system
    async with app.run_test(size=SIZE) as pilot:
        view = app.query_one(TableView)
        app.query_one("#float").display = False
        before = await quiet(pilot, app.terminal)
        view.action_move(1)
        await until(pilot, lambda: app.terminal.bytes > before)
        moved = await quiet(pilot, app.terminal)
        assert moved - before < 2 * 160
        view.show_row(int(view.order[120]))
        await until(pilot, lambda: app.terminal.bytes > moved)
        assert await quiet(pilot, app.terminal) - moved < view.page * 110


def test_segments_become_cells():
    style = Style(color="#d0d0d0", bgcolor="#121212", bold=True)
    assert unpack(number_of(style)) == (252, 233, BOLD)
    assert unpack(number_of(Style(color=Color.from_ansi(75)))) == (75, PAPER, 0)
    assert unpack(number_of(Style(color="#d1d0d0")))[0] in range(16, 256)
    cells = packed([Segment("a層", style), Segment("b")], 6)
    assert [chr(int(c) >> 24) for c in cells] == ["a", "層", chr(0xFFFF), "b", " ", " "]
    assert unpack(int(cells[5]) & 0xFFFFFF) == (INK, PAPER, 0)


def test_a_wide_character_is_sent_whole():
    board = Board(1)
    terminal = Terminal(20, 1)
    for text in ("a層bcdefghijklm層z", "a中bcdefghijklmnoz", "axxbcdefghijklm中y"):
        strip = DeltaStrip(packed([Segment(text)], 20), 0, board)
        terminal.x = 0
        terminal.feed(strip.patch())
        seen = [c for c, _ in terminal.cells[0]]
        assert seen[3:15] == list("bcdefghijklm")
        assert seen[15] == text.replace("層", "層 ").replace("中", "中 ")[15]
        assert seen[17] == text[-1]
