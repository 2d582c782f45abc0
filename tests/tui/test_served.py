"""The app while a browser shows it: it opens nothing else, captures nothing and writes nothing."""

from typing import Any

import pytest
from textual.app import App

from tracetui.session.recent import remember
from tracetui.session.state import forget_state, read_state, set_aside, write_state
from tracetui.tui.command_palette import commands
from tracetui.tui.export import ExportError, write_new
from tracetui.tui.requests import OpenTrace

from .conftest import DATA, screen_of, until, visit
from .test_dialogs import lines

LLAMA = DATA / "llama_train.json.gz"


@pytest.fixture(autouse=True)
def served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACETUI_SERVED", "1")
    # Here, the limit would stay, for all the tests after these.
    monkeypatch.setattr("tracetui.core.threads.limit_memory", lambda slices: None)


async def test_nothing_else_is_opened_or_captured():
    async with visit(LLAMA) as (app, pilot, _):
        shown = screen_of(app)
        await pilot.press("c")
        assert "off in a browser" in lines(app)[-1]
        for action in ("capture", "screen.capture", "app.open", "open_file"):
            await shown.run_action(action)
            assert app.screen_stack[-1] is shown, action
        app.post_message(OpenTrace(LLAMA))
        app.action_capture()
        await pilot.pause()
        assert app.screen_stack[-1] is shown
        choices = [command.choice for command in commands(app, shown, app.actions)]
        names = [one.text for one in choices if one.about not in ("Finding", "What it means")]
        assert len(names) > 40
        assert not [name for name in names if "apture" in name or "Open" in name]


async def test_an_export_is_a_download(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    sent: list[tuple[str, Any]] = []
    monkeypatch.setattr(
        App, "deliver_text", lambda self, text, save_filename: sent.append((save_filename, text.read()))
    )
    async with visit(LLAMA) as (app, pilot, _):
        await until(pilot, lambda: (pane := screen_of(app).area.open) is not None and not pane.busy)
        await pilot.press("E", *["backspace"] * 40, *"../../x.csv", "enter")
        assert "downloading x.csv" in lines(app)[-1]
    ((name, text),) = sent
    assert name == "x.csv"
    assert "aten::mm" in text
    assert not list(tmp_path.rglob("*.csv"))


async def test_the_list_of_marks_is_a_download_too(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    sent: list[str] = []
    monkeypatch.setattr(App, "deliver_text", lambda self, text, save_filename: sent.append(save_filename))
    async with visit(LLAMA) as (_, pilot, _):
        await pilot.press("down", "m", "x", "enter", "l", "E", "enter")
        await until(pilot, lambda: sent == ["llama_train-marks.md"])
    assert not list(tmp_path.iterdir())
    with pytest.raises(ExportError):
        write_new(str(tmp_path / "x.txt"), "text")


async def test_marks_are_not_saved(state):
    async with visit(LLAMA) as (app, pilot, _):
        await pilot.press("down", "m", "x", "enter")
        await until(pilot, lambda: "not saved: a viewer in a browser saves nothing" in lines(app)[-1])
        assert len(screen_of(app).session.marks.marks.all) == 1
    assert [path.name for path in state.iterdir()] == ["hint-seen"]


def test_the_state_is_read_and_not_written(tmp_path, monkeypatch):
    file = tmp_path / "a.json"
    file.write_text('{"a": 1}')
    assert not write_state(file, {})
    forget_state(file)
    assert set_aside(file) is None
    remember(tmp_path / "trace.json")
    assert read_state(file) == {"a": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
