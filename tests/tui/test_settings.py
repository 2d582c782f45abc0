"""Themes, ASCII, the settings file, and the hint of the first opening."""

import re

import pytest

from tracetui.tui.app import TracetuiApp
from tracetui.tui.filters import to_ascii
from tracetui.tui.hint import LINES
from tracetui.tui.loading import LoadTask
from tracetui.tui.settings import Settings, SettingsError, load_settings, parse
from tracetui.tui.themes import THEMES, default_theme

from .conftest import DATA, screen_of, until, visit
from .test_app import text

MLP = DATA / "mlp_eager.json.gz"
SIZE = (120, 36)


def test_the_terminal_s_background_chooses_the_theme():
    assert default_theme({}) == "dark"
    assert default_theme({"COLORFGBG": "0;15"}) == "light"
    assert default_theme({"COLORFGBG": "15;0"}) == "dark"


async def test_themes_can_be_changed_while_it_runs():
    async with visit(MLP, size=SIZE) as (app, pilot, screen):
        for name in THEMES:
            app.theme = name
            await pilot.pause()
            assert screen.navigator.scene.source.palette.theme.name == app.palette.name
        assert set(app.available_themes) == set(THEMES)


def test_ascii_keeps_every_cell():
    assert to_ascii("a … ▼ µs ⚠ →") == "a ~ v us ! >"
    assert to_ascii("核x") == "??x"


async def test_ascii_reaches_the_panes_and_the_footer():
    task = LoadTask(MLP).start()
    task.ended.result(30)
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


def test_settings_are_all_optional_and_a_wrong_one_is_named(tmp_path):
    file = tmp_path / "config.toml"
    assert load_settings(file) == Settings()
    file.write_text('theme = "light"\nminimum_gap = "5us"\npane = "none"\nframes_per_second = 12\n')
    with file.open("a") as more:
        more.write('[keys]\nzoom_in = "k"\n')
    assert load_settings(file) == Settings("light", False, "none", 5000, 12, {"zoom_in": "k"})
    assert {parse({"theme": name}).theme for name in ("color-blind", "colour-blind")} == {"color-blind"}
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


async def test_keys_from_the_settings_work_and_are_in_the_help():
    task = LoadTask(MLP).start()
    task.ended.result(30)
    app = TracetuiApp(task, Settings(keys={"zoom_in": "k"}, pane="none", minimum_gap=60_000))
    async with app.run_test(size=SIZE) as pilot:
        screen = screen_of(app)
        assert screen.area.open is None
        span = screen.navigator.view.span_ns
        await pilot.press("k")
        assert screen.navigator.view.span_ns < span
        await pilot.press("w")
        assert screen.navigator.view.span_ns < span
        await pilot.press("g")
        assert "gap 1 of 2," in screen.footer.message
        await pilot.press("question_mark")
        await until(pilot, lambda: re.search(r"\bk s +zoom in, out", text(app)) is not None)


async def test_the_first_opening_says_how_to_move_and_never_again(state):
    (state / "hint-seen").unlink()
    for first in (True, False):
        async with visit(MLP, size=(80, 24)) as (app, pilot, _):
            assert ("New here?" in text(app)) is first
            assert all(len(line) <= 80 for line in LINES)
            await pilot.press("escape")
            await pilot.pause()
            assert "New here?" not in text(app)


def test_keys_by_the_names_that_actions_had_before():
    assert parse({"keys": {"centre": "f9", "pane_maximise": "f10"}}) == parse(
        {"keys": {"center": "f9", "pane_maximize": "f10"}}
    )
