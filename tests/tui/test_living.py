"""Ranges, marks, export, copy, panes, themes and settings: what makes the app a tool to live in."""

from __future__ import annotations

import csv
import html
import json
import random
import re
from pathlib import Path

import numpy as np
import pytest

from tracetui.analysis.averages import averages
from tracetui.analysis.scope import range_scope
from tracetui.tables.model import Column, Table
from tracetui.tables.writers import as_csv, as_json, as_markdown
from tracetui.trace import Trace
from tracetui.tui.app import TracetuiApp
from tracetui.tui.ascii_filter import to_ascii
from tracetui.tui.export import ExportError, table_text, write_new
from tracetui.tui.hint import LINES
from tracetui.tui.loading import LoadTask
from tracetui.tui.panes.averages import AveragesPane
from tracetui.tui.panes.gaps import GapsPane
from tracetui.tui.screens.matches import MatchesScreen
from tracetui.tui.settings import Settings, SettingsError, load_settings, parse
from tracetui.tui.themes import THEMES, default_theme

from .conftest import DATA, app_of, screen_of, until
from .test_app import text

LLAMA = DATA / "llama_train.json.gz"
MLP = DATA / "mlp_eager.json.gz"
SIZE = (120, 36)


async def test_a_range_narrows_averages_and_gaps_and_escape_widens_them_again(llama: Trace) -> None:
    step = llama.names.index("ProfilerStep#3")
    event = int(np.flatnonzero(llama.name == step)[0])
    start, end = int(llama.start[event]), int(llama.start[event] + llama.duration[event])
    app = app_of(LLAMA)
    async with app.run_test(size=SIZE) as pilot:
        screen = screen_of(app)
        pane = screen.area.open
        assert isinstance(pane, AveragesPane)
        await until(pilot, lambda: pane.averages is not None)
        whole = pane.averages
        screen.timeline.select(event)
        await pilot.press("r")
        await until(pilot, lambda: pane.averages is not whole)
        expected = averages(llama, range_scope(start, end))
        assert pane.averages is not None
        assert pane.averages.names == expected.names
        assert pane.averages.self_device.tolist() == expected.self_device.tolist()
        await until(pilot, lambda: "range of 64." in pane.note and "GPU busy" in pane.note)
        await pilot.press("3")
        gaps = screen.area.open
        assert isinstance(gaps, GapsPane)
        await until(pilot, lambda: "in the range: idle" in gaps.note)
        assert gaps.gaps is not None
        assert int(gaps.gaps.start.min()) >= start
        await pilot.press("enter")
        await until(pilot, lambda: screen.gap is not None)
        await pilot.press("escape", "escape")
        await until(pilot, lambda: gaps.gaps is not None and len(gaps.gaps) == len(screen.results.gaps()))


async def test_averages_group_by_what_one_wants() -> None:
    app = app_of(MLP)
    async with app.run_test(size=SIZE) as pilot:
        pane = screen_of(app).area.open
        assert isinstance(pane, AveragesPane)
        await until(pilot, lambda: pane.averages is not None)
        await pilot.press("b")
        await until(pilot, lambda: pane.averages is not None and pane.averages.grouped_by == "shape")
        assert "by shape" in pane.note


VALUES = np.array([1500, 2], dtype=np.int64)
NAMES = ["a|b", 'c,"d"']
TABLE = Table(
    (
        Column("name", "Name", NAMES.__getitem__, lambda: NAMES, 0, False),
        Column("self", "Self", lambda r: f"{VALUES[r] / 1e3:.3f} µs", lambda: VALUES, 12),
    ),
    2,
)
ORDER = np.array([1, 0])


def test_tables_export_whole_numbers_and_escape_what_needs_it() -> None:
    rows = list(csv.reader(as_csv(TABLE, ORDER).splitlines()))
    assert rows == [["name", "self"], ['c,"d"', "2"], ["a|b", "1500"]]
    assert json.loads(as_json(TABLE, ORDER)) == [{"name": 'c,"d"', "self": 2}, {"name": "a|b", "self": 1500}]
    assert as_markdown(TABLE, ORDER).splitlines()[3] == "| a\\|b | 1.500 µs |"
    with pytest.raises(ExportError):
        table_text(TABLE, ORDER, ".xls")


def test_a_file_that_is_there_is_never_overwritten(tmp_path: Path) -> None:
    target = tmp_path / "t.csv"
    assert write_new(str(target), "x") == target
    with pytest.raises(ExportError, match="there already"):
        write_new(str(target), "y")
    assert target.read_text() == "x"
    with pytest.raises(ExportError):
        write_new(str(tmp_path / "no" / "t.csv"), "x")


async def test_export_and_copy_by_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    app = app_of(MLP)
    async with app.run_test(size=SIZE) as pilot:
        screen = screen_of(app)
        await until(pilot, lambda: screen.area.open is not None and screen.area.open.table is not None)
        await pilot.press("E", "enter")
        written = tmp_path / "mlp_eager-averages.csv"
        await until(pilot, written.exists)
        table = list(csv.DictReader(written.read_text().splitlines()))
        assert any(row["name"] == "aten::mm" for row in table)
        await pilot.press("E", "enter")
        await until(pilot, lambda: "mlp_eager-averages.csv is there already" in text(app))
        await pilot.press("escape")
        before = text(app)
        for name in ("picture.svg", "picture.txt"):
            await pilot.press("E", "ctrl+u", *name, "enter")
            await until(pilot, (tmp_path / name).exists)
        # The picture is that of before the question.
        lines = (tmp_path / "picture.txt").read_text().splitlines()
        assert [line for line in lines if "export to:" in line] == []
        assert "ProfilerStep#2" in "\n".join(lines)
        assert len(lines) == len(before.rstrip("\n").split("\n"))
        drawn = html.unescape((tmp_path / "picture.svg").read_text()).replace("\xa0", " ")
        assert "<svg" in drawn
        assert "export to:" not in drawn
        assert "Self GPU" in drawn
        await pilot.press("right", "y")
        assert app.clipboard.startswith("name: ")
        await pilot.press("Y")
        assert app.clipboard.startswith("| Name |")


async def test_panes_grow_move_aside_and_fill_the_screen() -> None:
    app = app_of(MLP)
    async with app.run_test(size=(160, 40)) as pilot:
        screen = screen_of(app)
        height = screen.area.size.height
        await pilot.press("plus")
        await pilot.pause()
        assert screen.area.size.height == height + 3
        await pilot.press("minus", "minus")
        await pilot.pause()
        assert screen.area.size.height == height - 3
        await pilot.press("V")
        await pilot.pause()
        assert screen.area.region.x > 80
        assert screen.area.size.height == screen.timeline.size.height + screen.bar.size.height
        await pilot.press("v")
        await pilot.pause()
        assert screen.area.size.width == 160
        await pilot.press("v", "V")
        await pilot.pause()
        assert screen.area.region.x == 0
        assert screen.timeline.size.width == 160


async def test_a_pane_beside_the_timeline_goes_below_where_it_gets_narrow() -> None:
    app = app_of(MLP)
    async with app.run_test(size=(120, 36)) as pilot:
        screen = screen_of(app)
        await pilot.press("V", "plus")
        await until(pilot, lambda: screen.area.region.x > 60)
        await pilot.resize_terminal(100, 30)
        await until(pilot, lambda: screen.area.region.x == 0 and screen.area.size.width == 100)
        assert screen.timeline.size.width == 100
        assert screen.area.size.height < screen.timeline.size.height
        await pilot.resize_terminal(120, 36)  # and back, as it was asked for
        await until(pilot, lambda: screen.area.region.x > 60)


async def test_a_time_to_go_to() -> None:
    app = app_of(LLAMA)
    async with app.run_test(size=SIZE) as pilot:
        screen = screen_of(app)
        await pilot.press("w", "w", "w", "w", "colon", *"100ms", "enter")
        await until(pilot, lambda: screen.timeline.viewport.contains(100_000_000))
        await pilot.press("colon", *"soon", "enter")
        await until(pilot, lambda: "a time looks like" in text(app))


# Themes, ASCII, settings


def test_the_terminal_s_background_chooses_the_theme() -> None:
    assert default_theme({}) == "dark"
    assert default_theme({"COLORFGBG": "0;15"}) == "light"
    assert default_theme({"COLORFGBG": "15;0"}) == "dark"


async def test_themes_can_be_changed_while_it_runs() -> None:
    app = app_of(MLP)
    async with app.run_test(size=SIZE) as pilot:
        screen = screen_of(app)
        for name in THEMES:
            app.theme = name
            await pilot.pause()
            assert screen.timeline.scene.fixed.palette.theme.name == app.palette.name
        assert set(app.available_themes) == set(THEMES)


def test_ascii_keeps_every_cell() -> None:
    assert to_ascii("a … ▼ µs ⚠ →") == "a ~ v us ! >"
    assert to_ascii("核x") == "??x"


async def test_ascii_reaches_the_panes_and_the_footer() -> None:
    task = LoadTask(MLP).start()
    assert task.finished.wait(30)
    app = TracetuiApp(task, Settings(ascii=True))
    async with app.run_test(size=SIZE) as pilot:
        screen = screen_of(app)
        pane = screen.area.open
        assert pane is not None
        await until(pilot, lambda: pane.table is not None)
        await pilot.pause()
        for widget in (pane, screen.footer, screen.area.tabs):
            lines = widget.render_lines(widget.size.region)
            assert all(strip.text.isascii() for strip in lines), widget


def test_settings_are_all_optional_and_a_wrong_one_is_named(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    assert load_settings(file) == Settings()
    file.write_text('theme = "light"\nminimum_gap = "5us"\npane = "none"\nframes_per_second = 12\n')
    with file.open("a") as more:
        more.write('[keys]\nzoom_in = "i"\n')
    assert load_settings(file) == Settings("light", False, "none", 5000, 12, {"zoom_in": "i"})
    for wrong, word in (
        ({"colour": 1}, "colour"),
        ({"theme": "pink"}, "pink"),
        ({"ascii": "yes"}, "ascii"),
        ({"minimum_gap": "long"}, "minimum_gap"),
        ({"frames_per_second": "fast"}, "frames_per_second"),
        ({"frames_per_second": -1}, "frames_per_second"),
        ({"keys": {"nothing": "i"}}, "nothing"),
        ({"keys": {"zoom_in": "s"}}, "zoom_out"),
        ({"keys": 3}, "keys"),
    ):
        with pytest.raises(SettingsError, match=re.escape(word)):
            parse(wrong)
    file.write_text("theme = ")
    with pytest.raises(SettingsError, match=r"config\.toml"):
        load_settings(file)


async def test_keys_from_the_settings_work_and_are_in_the_help() -> None:
    task = LoadTask(MLP).start()
    assert task.finished.wait(30)
    app = TracetuiApp(task, Settings(keys={"zoom_in": "i"}, pane="none", minimum_gap=60_000))
    async with app.run_test(size=SIZE) as pilot:
        screen = screen_of(app)
        assert screen.area.open is None
        span = screen.timeline.viewport.span_ns
        await pilot.press("i")
        assert screen.timeline.viewport.span_ns < span
        await pilot.press("w")
        assert screen.timeline.viewport.span_ns < span
        await pilot.press("g")
        assert "gap 1 of 2," in screen.footer.message
        await pilot.press("question_mark")
        await until(pilot, lambda: re.search(r"\bi s +zoom in, out", text(app)) is not None)


# Whatever is pressed

KEYS = [
    *"wsadWSAD0BgGonN12345ermMTlRFbvVzZxXpKJOtyYhi7",
    *("left", "right", "up", "down", "home", "end", "pageup", "pagedown", "tab", "enter", "escape", "escape"),
    *(
        "backspace",
        "comma",
        "full_stop",
        "slash",
        "colon",
        "plus",
        "minus",
        "space",
        "question_mark",
        "ctrl+p",
    ),
    *("right_square_bracket", "left_square_bracket", "right_curly_bracket", "greater_than_sign"),
]


@pytest.mark.parametrize("name", ["llama_train", "mlp_compile", "matmul_add_64_cold_eager"])
async def test_random_keys_never_break_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    random_keys = random.Random(f"keys {name}")
    app = app_of(DATA / f"{name}.json.gz")
    async with app.run_test(size=(100, 30)) as pilot:
        monkeypatch.setattr(app, "exit", lambda *_, **__: None)  # the palette may come upon "Quit"
        for n in range(250):
            await pilot.press(random_keys.choice(KEYS))
            if n % 50 == 49:
                await pilot.resize_terminal(random_keys.randint(40, 200), random_keys.randint(10, 60))
            if n % 10 == 9:
                await pilot.click(offset=(random_keys.randrange(40), random_keys.randrange(10)))
            assert app.is_running


async def test_the_first_opening_says_how_to_move_and_never_again(state: Path) -> None:
    (state / "hint-seen").unlink()
    for first in (True, False):
        app = app_of(MLP)
        async with app.run_test(size=(80, 24)) as pilot:
            assert ("New here?" in text(app)) is first
            assert all(len(line) <= 80 for line in LINES)
            await pilot.press("escape")
            await pilot.pause()
            assert "New here?" not in text(app)


async def test_the_matches_as_a_list_that_jumps(llama: Trace) -> None:
    app = app_of(LLAMA)
    async with app.run_test(size=SIZE) as pilot:
        screen = screen_of(app)
        await pilot.press("L")
        assert "press /" in screen.footer.message
        await pilot.press("slash", *"silu", "enter", "L")
        await until(pilot, lambda: isinstance(app.screen, MatchesScreen))
        await until(pilot, lambda: "matches for “silu”" in text(app))
        sheet = app.screen
        assert isinstance(sheet, MatchesScreen)
        await pilot.press("greater_than_sign")
        assert sheet.list.sort == "duration"
        await pilot.press("greater_than_sign")
        names = [sheet.table.columns[2].text(int(r)).casefold() for r in sheet.list.order]
        assert names == sorted(names)
        await pilot.press("less_than_sign")
        longest = int(sheet.found[int(np.argmax(llama.duration[sheet.found]))])
        await pilot.press("enter")
        await until(pilot, lambda: screen.timeline.selected == longest)
