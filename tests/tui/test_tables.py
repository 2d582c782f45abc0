"""Tables: order, filter, the columns that fit, and a widget that makes only the lines on the screen."""

import numpy as np
import pytest
from rich.cells import cell_len
from textual.app import App, ComposeResult

from tracetui.core.cells import cell, clauses, clip, middle, wrap
from tracetui.tui.panes.averages import AveragesPane
from tracetui.tui.tables.view import TableView
from tracetui.views.model import Column, Table, arrange, fit, next_sort, scrolled

from .conftest import DATA, pane_of, until, visit
from .test_app import text

NUMBERS = np.array([3, 1, 2, 3, 0], dtype=np.int64)
WORDS = ["delta", "Alpha", "charlie", "bravo", "echo"]


def small_table() -> Table:
    return Table(
        (
            Column("word", "Word", lambda r: WORDS[r], lambda: WORDS, 0, False, 0, False),
            Column("number", "Number", lambda r: f"{NUMBERS[r]}", lambda: NUMBERS, 8),
            Column("rare", "Rare", lambda r: "x", None, 10, True, 2),
            Column("rarer", "Rarer", lambda r: "y", None, 10, True, 5)
        ),
        len(WORDS), lambda r: WORDS[r]
    )  # fmt: skip


def test_numbers_sort_largest_first_and_equal_ones_keep_their_order():
    assert arrange(small_table(), "number", True).tolist() == [0, 3, 2, 1, 4]
    assert arrange(small_table(), "number", False).tolist() == [4, 1, 2, 0, 3]


def test_words_sort_no_matter_the_case():
    assert arrange(small_table(), "word", False).tolist() == [1, 3, 2, 0, 4]


def test_a_filter_keeps_the_order_and_ignores_case():
    assert arrange(small_table(), "number", True, "L").tolist() == [0, 2, 1]
    assert arrange(small_table(), None, True, "no such").tolist() == []


def test_unknown_and_unsortable_columns_leave_the_order_alone():
    for key in ("nothing", "rare"):
        assert arrange(small_table(), key, True).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("width", "keys"), [
    (60, ["word", "number", "rare", "rarer"]), (45, ["word", "number", "rare"]), (30, ["word", "number"])
])  # fmt: skip
def test_narrow_tables_lose_their_least_columns_first(width, keys):
    columns = fit(small_table().columns, width)
    assert [c.key for c, _ in columns] == keys
    assert sum(size for _, size in columns) + 2 * (len(columns) - 1) == width


def test_a_narrow_column_comes_back_where_a_wide_one_made_room():
    widths = {"on": (3, 3), "memory": (12, 3), "average": (6, 9)}
    columns = [Column("name", "Name", str, None, 0, False)]
    columns += [Column(key, key, str, None, width, drop=drop) for key, (width, drop) in widths.items()]
    shown = {width: [c.key for c, _ in fit(columns, width)] for width in (45, 35, 28, 21, 20)}
    assert shown[45] == ["name", *widths]
    assert shown[35] == ["name", "on", "memory"]
    assert shown[28] == ["name", "on"]
    assert shown[21] == ["name", "on"]
    assert shown[20] == ["name"]


def test_the_sort_moves_on_over_columns_that_cannot_be_sorted():
    columns = small_table().columns
    steps = [next_sort(columns, "word", 1), next_sort(columns, "number", 1), next_sort(columns, "word", -1)]
    assert [c.key for c in steps if c is not None] == ["number", "word", "number"]


def test_scrolling_moves_no_more_than_it_must():
    assert scrolled(10, 12, 5, 100) == 10
    assert scrolled(10, 15, 5, 100) == 11
    assert scrolled(10, 9, 5, 100) == 9
    assert scrolled(10, 99, 5, 100) == 95
    assert scrolled(3, 0, 5, 2) == 0


def test_cells_are_exact_for_wide_and_narrow_text():
    assert cell("abcdef", 4) == "abc…"
    assert cell("ab", 4, right=True) == "  ab"
    assert cell("核核核", 4) == "核… "
    assert clip("abc", 0) == ""
    assert wrap("one two three", 7) == ["one two", "three"]
    assert wrap("abcdefgh", 3) == ["abc", "def", "gh"]
    assert wrap("", 5) == [""]


class Host(App[None]):
    def __init__(self, table: Table) -> None:
        super().__init__()
        self.table, self.told = table, list[tuple[str, int]]()

    def compose(self) -> ComposeResult:
        yield TableView()

    def on_mount(self) -> None:
        view = self.query_one(TableView)
        view.set_table(self.table, "number", True)
        view.focus()

    def on_table_view_chosen(self, message: TableView.Chosen) -> None:
        self.told.append(("chosen", message.row * 10 + message.again))

    def on_table_view_highlighted(self, message: TableView.Highlighted) -> None:
        self.told.append(("at", message.row))


def lines(view: TableView) -> list[str]:
    return [view.render_line(y).text for y in range(view.size.height)]


async def test_keys_move_choose_and_tell():
    app = Host(small_table())
    async with app.run_test(size=(56, 10)) as pilot:
        view = app.query_one(TableView)
        await pilot.press("down", "down", "enter", "enter", "end", "home")
        assert app.told == [("at", 3), ("at", 2), ("chosen", 20), ("chosen", 21), ("at", 4), ("at", 0)]
        shown = lines(view)
        assert shown[0].split() == ["Word", "▼Number", "Rare", "Rarer"]
        assert [line[1:].split()[0] for line in shown[1:6]] == ["delta", "bravo", "charlie", "Alpha", "echo"]
        # Without colors, too, one sees where the cursor stands.
        assert [line[0] for line in shown[1:6]] == ["▸", " ", " ", " ", " "]
        assert {len(line) for line in shown} == {56}


async def test_numbers_stay_near_the_names_on_a_wide_screen():
    """The flexible column is as wide as its longest text, sorted or not, and gives way as before."""
    app = Host(small_table())
    async with app.run_test(size=(150, 10)) as pilot:
        view = app.query_one(TableView)
        before = lines(view)[0].rstrip()
        assert before.split() == ["Word", "▼Number", "Rare", "Rarer"]
        assert before.index("▼Number") + len("▼Number") == 1 + len("charlie") + 2 + 8
        await pilot.click(TableView, offset=(3, 0))
        assert lines(view)[0].split()[:2] == ["Word", "▲"]
        assert lines(view)[0].index("Rare") == before.index("Rare")


async def test_a_click_on_a_title_sorts_and_again_reverses():
    app = Host(small_table())
    async with app.run_test(size=(50, 10)) as pilot:
        view = app.query_one(TableView)
        await pilot.click(TableView, offset=(3, 0))
        assert (view.sort, view.descending) == ("word", False)
        assert view.order.tolist() == [1, 3, 2, 0, 4]
        await pilot.click(TableView, offset=(3, 0))
        assert view.order.tolist() == [4, 0, 2, 3, 1]
        await pilot.click(TableView, offset=(3, 3))
        assert view.row == 2


async def test_the_cursor_stays_with_its_row_in_another_order():
    values = np.arange(1000, dtype=np.int64) * 7 % 1009
    table = Table(
        (
            Column("n", "N", str, lambda: np.arange(1000), 6),
            Column("number", "Number", lambda r: str(values[r]), lambda: values, 12),
        ),
        len(values),
    )
    app = Host(table)
    async with app.run_test(size=(40, 12)) as pilot:
        view = app.query_one(TableView)
        view.reverse()
        assert view.cursor == 0  # at the top it stays there, to show what comes first
        await pilot.press("down", "down")
        row = view.row
        view.reverse()
        assert (view.row, view.cursor) == (row, 997)
        assert f"▸{row:>6}" in lines(view)[1 + view.cursor - view.top]
        view.sort_by("n")
        assert view.row == row
        assert 0 < view.cursor - view.top < view.page - 1
        await pilot.press("home")
        view.reverse()
        assert view.cursor == 0
        # The row of what is selected, too, where it came to the top.
        view.show_row(int(view.order[0]))
        row = view.row
        view.reverse()
        assert view.row == row == view.order[-1]


async def test_a_hundred_thousand_rows_cost_the_lines_on_the_screen():
    asked: list[int] = []
    values = np.arange(100_000, dtype=np.int64) * 7 % 100_003

    def text(row: int) -> str:
        asked.append(row)
        return str(values[row])

    app = Host(Table((Column("number", "Number", text, lambda: values, 12),), len(values)))
    async with app.run_test(size=(40, 12)) as pilot:
        view = app.query_one(TableView)
        assert view.row == int(values.argmax())
        await pilot.press("end")
        assert view.row == int(values.argmin())
        assert int(lines(view)[-1].rstrip("█│").lstrip("▸").split()[0]) == 0
        await pilot.press("pageup", "up")
        assert len(set(asked)) < 60


async def test_markup_and_filters_are_plain_text():
    names = ["[bold red]x[/]", "[/nothing]"]
    app = Host(Table((Column("n", "N", names.__getitem__, None, 0, False),), 2, names.__getitem__))
    async with app.run_test(size=(40, 6)):
        view = app.query_one(TableView)
        assert "[bold red]x[/]" in lines(view)[1]
        view.set_filter("[/no")
        assert "[/nothing]" in lines(view)[1]
        view.set_filter("zzz")
        assert "no row contains “zzz”" in lines(view)[1]


def test_the_middle_of_a_long_name_gives_way():
    assert middle("worker0_step_12.trace.json", 13) == "worker…e.json"
    assert middle("short", 13) == "short"
    assert cell_len(middle("核" * 20, 11)) <= 11


def test_a_filter_asks_once_for_rows_of_the_same_text():
    asked: list[int] = []
    kinds = np.arange(10_000, dtype=np.int64) % 7

    def text(row: int) -> str:
        asked.append(row)
        return f"kind {kinds[row]}"

    table = Table((Column("n", "N", text),), len(kinds), text, same_text=lambda: kinds)
    assert arrange(table, None, True, "KIND 3").tolist() == np.flatnonzero(kinds == 3).tolist()
    assert len(asked) == 7


def test_what_was_cut_before_gets_no_second_ellipsis():
    assert clip("elementwise back…ward", 18) == "elementwise back…"
    assert cell("back…ward", 6) == "back… "
    assert clauses("host 45%…, launch 30%", 12) == "host 45%…"
    assert middle("one two…three four", 10) == "one… four"
    assert middle("abcd…efghijkl", 10) == "abcd…hijkl"
    assert middle("abcdefg…ijkl", 10) == "abcd…ijkl"


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
        event = screen.navigator.selected
        assert event is not None
        assert pane.row == int(pane.averages.row_of[event])
        (line,) = (line for line in text(app).split("\n") if "▸ProfilerStep*" in line)
        assert "CPU" in line
