"""The row under a table's cursor is to be seen, wherever it was put from."""

import pytest

from tracetui.tui.panes.averages import AveragesPane
from tracetui.tui.tables.view import TableView
from tracetui.views.model import Column, Table

from .conftest import DATA, pane_of, until, visit
from .test_app import text
from .test_tables import Host

LLAMA = DATA / "llama_train.json.gz"


def numbers(count: int) -> Table:
    return Table((Column("n", "N", lambda r: f"row {r}", None, 0, False),), count)


async def test_a_row_from_afar_comes_to_the_middle_and_a_step_scrolls_by_one():
    async with Host(numbers(200)).run_test(size=(30, 11)) as pilot:
        view = pilot.app.query_one(TableView)
        assert view.page == 10
        view.show_row(100)
        assert (view.top, view.cursor) == (95, 100)
        for row in (104, 105):
            view.show_row(row)
        assert view.top == 96
        view.show_row(199)
        assert view.top == 190
        view.scroll_rows(-100)
        view.show_row(199)  # where the cursor is already
        assert view.top == 190
        view.show_row(0)
        assert view.top == 0


@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
async def test_the_averages_of_a_step_open_on_the_row_of_the_selected_event(size):
    async with visit(LLAMA, size=size) as (app, pilot, screen):
        await pilot.press("7")
        await until(pilot, lambda: screen.area.open is not None and screen.area.open.table is not None)
        await pilot.press("down", "enter", "r")
        await until(pilot, lambda: screen.session.scopes.scope is not None)
        await pilot.press("5")
        pane = pane_of(screen, AveragesPane)
        await until(pilot, lambda: "range of" in pane.note)
        await pilot.pause()
        assert pane.averages is not None
        event = screen.walk.selected
        assert event is not None
        assert pane.row == int(pane.averages.row_of[event])
        (line,) = (line for line in text(app).split("\n") if "▸ProfilerStep*" in line)
        assert "CPU" in line
