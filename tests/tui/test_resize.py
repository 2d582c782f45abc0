"""The terminal changes its size: afterwards it shows what the app means it to show."""

from typing import Any

import numpy as np
import pytest
from textual import events
from textual.geometry import Region, Size
from textual.pilot import Pilot

from tracetui.core.cells import same_place, wrap
from tracetui.rules import find_findings
from tracetui.tui.app import TracetuiApp
from tracetui.tui.loading import LoadTask
from tracetui.tui.panes.details import DetailsPane
from tracetui.tui.panes.view import ViewPane
from tracetui.tui.screens.explain import ExplainScreen
from tracetui.tui.tables.view import TableView

from .conftest import DATA, pane_of, screen_of, shows_findings, until, visit
from .terminal import OnTerminal, Terminal

WIDE, NARROW = Size(120, 36), Size(80, 24)


class Watched(OnTerminal, TracetuiApp):
    """The app on a terminal that changes its size."""

    def __init__(self, task: LoadTask) -> None:
        super().__init__(task)
        self.terminal = Terminal(*WIDE)
        self.console._color_system = self.ansi._color_system

    def change_terminal(self, *sizes: Size) -> None:
        """The terminal takes one size after another: what it shows is shuffled, and it tells of each."""
        self.terminal.cells = [[("x", "")] * sizes[-1].width for _ in range(sizes[-1].height)]
        self.terminal.width, self.terminal.height = sizes[-1]
        for size in sizes:
            self.post_message(events.Resize(size, size))

    def meant(self) -> list[str]:
        """The lines of the screen."""
        return [strip.text for strip in self.screen._compositor.render_strips()]

    def seen(self) -> list[str]:
        """The lines of the terminal; of a wide character the first cell says all."""
        return ["".join(c for c, _ in line) for line in self.terminal.cells]


@pytest.mark.parametrize("sizes", [
    (NARROW,),
    (NARROW, WIDE),
    (WIDE,),  # there and back before the app looked: one signal, of the size that it knows
    (WIDE, WIDE),  # the signal and the terminal's own report
    (NARROW, Size(120, 24), WIDE),
])  # fmt: skip
@pytest.mark.parametrize("dialog", [False, True])
async def test_a_terminal_that_changes_its_size_shows_all_of_the_screen(sizes, dialog, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    task = LoadTask(DATA / "mlp_eager.json.gz").start()
    task.ended.result(30)
    app = Watched(task)
    async with app.run_test(size=(WIDE.width, WIDE.height)) as pilot:
        screen = screen_of(app)
        await pilot.press("right", "right")
        await until(pilot, lambda: screen.area.open is not None and screen.navigator.selected is not None)
        if dialog:
            await pilot.press("question_mark")
        await until(pilot, lambda: app.seen() == app.meant())
        app.change_terminal(*sizes)
        await pilot.press("right")
        await until(pilot, lambda: app.screen.size == sizes[-1] and app.seen() == app.meant())


async def test_the_app_may_close_right_after():
    app = TracetuiApp()
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.sent.width > 0)
        app.post_message(events.Resize(NARROW, NARROW))
        await pilot.pause()
        assert app._settling is not None
        while app.screen_stack:
            app._screen_stack.pop()
        app.action_redraw()
        app.exit()


@pytest.mark.parametrize("opened", ["question_mark", None])
async def test_a_screen_that_missed_a_new_size_is_laid_out_for_it(opened):
    async with visit(DATA / "mlp_eager.json.gz", size=(WIDE.width, WIDE.height)) as (app, pilot, _):
        if opened:
            await pilot.press(opened)
        for screen in app.screen_stack:
            screen._refresh_layout(NARROW)
        app.action_redraw()  # as after each change
        await until(pilot, lambda: all(screen._compositor.size == WIDE for screen in app.screen_stack))


def test_the_same_place_in_a_text_that_is_broken_anew():
    texts = ["one two three four", "", "five six seven"]
    wide, narrow = ([line for text in texts for line in wrap(text, width)] for width in (30, 8))
    assert narrow == ["one two", "three", "four", "", "five six", "seven"]
    assert [same_place(narrow, row, wide) for row in range(6)] == [0, 0, 0, 2, 2, 2]
    assert [same_place(wide, row, narrow) for row in range(3)] == [0, 4, 4]
    assert same_place(wide, 0, []) == 0


def drawn_at(view: TableView) -> list[str]:
    """The lines that are drawn as the cursor's."""
    lines = [strip.text for strip in view.render_lines(Region(0, 0, *view.size))]
    return [line for line in lines if "▸" in line[:2]]


async def resized(pilot: Pilot[Any], width: int, height: int) -> None:
    await pilot.resize_terminal(width, height)
    await until(pilot, lambda: pilot.app.screen.size == (width, height))
    await pilot.pause()


async def test_the_cursor_stays_with_its_text_at_another_width():
    async with visit(DATA / "matmul_add_64_cold_eager.json.gz", size=(160, 36)) as (_, pilot, screen):
        await pilot.press("8")
        await until(pilot, lambda: isinstance(screen.area.open, ViewPane))
        pane = pane_of(screen, ViewPane)
        await until(pilot, lambda: len(pane._texts) > 6)
        assert pane.table is not None
        label = pane.table.columns[0].text
        pane.show_row(next(n for n in range(pane.table.rows) if label(n) == "try"))
        text = pane._texts[pane.row or 0]
        for width in (159, 70, 160):
            await resized(pilot, width, 36)
            await until(pilot, lambda: shows_findings(pane, find_findings(screen.session.active.whole)))
            line = pane._texts[pane.row or 0]
            assert pane.table.columns[0].text(pane.row or 0) == "try"
            assert text.startswith(line[:20])
            assert len(drawn_at(pane)) == 1
            assert line[:20] in drawn_at(pane)[0]
        pane.set_filter("GPU")
        row = pane.row
        await resized(pilot, 140, 36)
        assert "GPU" in pane._texts[pane.row or 0]
        assert row is not None


async def test_the_sheet_and_the_details_keep_their_line_at_another_width():
    async with visit(DATA / "mlp_eager.json.gz", size=(100, 30)) as (app, pilot, screen):
        screen.navigator.select(int(np.flatnonzero(screen.trace.launch >= 0)[0]))
        await pilot.press("2")
        await until(pilot, lambda: isinstance(screen.area.open, DetailsPane))
        pane = pane_of(screen, DetailsPane)
        await until(pilot, lambda: pane.event == screen.navigator.selected and len(pane.lines) > 8)
        await until(pilot, lambda: any(line.label == "category" for line in pane.lines))
        pane.show_row(6)
        told = pane.lines[6]
        await resized(pilot, 101, 30)
        await until(pilot, lambda: pane.row is not None and pane.lines[pane.row] == told)
        await pilot.press("e")
        await until(pilot, lambda: isinstance(app.screen, ExplainScreen))
        sheet = app.screen
        assert isinstance(sheet, ExplainScreen)
        await until(pilot, lambda: len(sheet.lines) > 6)
        table = sheet.query_one(TableView)
        links = [n for n, line in enumerate(sheet.lines) if line.event >= 0]
        for row in (1, links[0], links[-1]):
            table.show_row(row)
            line = sheet.lines[row]
            for width in (60, 101):
                await resized(pilot, width, 30)
                assert sheet.lines[table.row or 0].event == line.event
            assert sheet.lines[table.row or 0].value.strip() == line.value.strip()
            assert len(drawn_at(table)) == 1
