"""The ranks of a job on one screen. `test_compare_screen.py` has the pair, all other tests have one trace."""

from pathlib import Path

from tests.session.test_layout import ranks

from tracetui.session.layout import JOB
from tracetui.tui.app import TracetuiApp
from tracetui.tui.layouts import LAYOUTS
from tracetui.tui.loading import LoadTask
from tracetui.tui.panes.overview import OverviewPane
from tracetui.tui.settings import Settings

from .conftest import pane_of, screen_of, until
from .test_app import text


def job(folder: Path, count: int = 3) -> TracetuiApp:
    paths = [recording.path for recording in ranks(folder, *range(count))]
    tasks = [LoadTask(path).start() for path in paths]
    for task in tasks:
        task.ended.result(30)
    return TracetuiApp(tasks[0], Settings(), others=tasks[1:])


async def test_a_job_has_its_own_top_line_and_panes_of_the_rank_with_the_selection(tmp_path):
    app = job(tmp_path)
    async with app.run_test(size=(120, 36)) as pilot:
        screen = screen_of(app)
        assert screen.session.layout is JOB
        assert text(app).splitlines()[0].startswith(" 3 ranks: 0 rank_0   1 rank_1   2 rank_2")
        pane = pane_of(screen, OverviewPane)
        await until(pilot, lambda: pane.overview is not None)
        assert pane.of == 0
        while screen.navigator.active < 2:
            await pilot.press("down")
        await until(pilot, lambda: pane_of(screen, OverviewPane).of == 2)
        await until(pilot, lambda: "of 2" in text(app))


async def test_keys_of_other_layouts_say_so(tmp_path):
    app = job(tmp_path)
    absent = LAYOUTS["job"].absent
    async with app.run_test(size=(120, 36)) as pilot:
        screen = screen_of(app)
        for key in ("right_parenthesis", "left_parenthesis", "ampersand", "equals_sign", "C", "P", "Q"):
            screen.host.say("")
            await pilot.press(key)
            await until(pilot, lambda: screen.footer.message == absent)
        await pilot.press("h")
        await until(pilot, lambda: "parts are of one recording" in screen.footer.message)
        await pilot.press("escape")
        await until(pilot, lambda: screen.footer.message == "nothing to clear")
        await pilot.press("t")
        await until(pilot, lambda: screen.footer.message == LAYOUTS["job"].only)
        assert not any(hint[2] == "compare" for hint in screen.footer.hints)
