"""The start screen: the traces in the current folder come first, and the one under the cursor is told of."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tracetui.session.folder import traces_in
from tracetui.session.recent import remember
from tracetui.session.samples import samples
from tracetui.session.trace_list import choices
from tracetui.tui.app import TracetuiApp
from tracetui.tui.screens.start import StartScreen
from tracetui.views import preview as previews
from tracetui.views.preview import LATER, preview

from .conftest import slice_event, until, write_trace
from .test_app import text


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: a trace of the CPU in it, a sample two levels below it, and one too deep."""
    monkeypatch.chdir(tmp_path)
    for name in ("logs/run1", "a/b/c"):
        (tmp_path / name).mkdir(parents=True)
    write_trace(tmp_path / "mine.json", [slice_event("aten::mm", 0, 10)])
    for name in ("logs/run1/decode.json.gz", "a/b/c/deep.json.gz"):
        shutil.copy2(samples()["llm_decode"], tmp_path / name)
    return tmp_path


def start_of(app: TracetuiApp) -> StartScreen:
    assert isinstance(app.screen, StartScreen)
    return app.screen


async def test_the_traces_here_come_first(folder: Path) -> None:
    remember(folder / "mine.json")
    app = TracetuiApp()
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "logs/run1/decode.json.gz" in text(app))
        found = start_of(app).traces.choices
        assert [one.kind for one in found[:3]] == ["trace", "trace", "capture"]
        assert {one.name for one in found[:2]} == {"mine.json", "logs/run1/decode.json.gz"}
        assert not any(one.kind == "recent" for one in found), "it is listed once"
        assert start_of(app).list.row == 0


async def test_the_verdict_of_the_one_under_the_cursor_is_told(folder: Path) -> None:
    app = TracetuiApp()
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "logs/run1/decode.json.gz" in text(app))
        screen = start_of(app)
        row = next(n for n, one in enumerate(screen.traces.choices) if one.name.endswith("decode.json.gz"))
        await pilot.press(
            *["down" if row > (screen.list.row or 0) else "up"] * abs(row - (screen.list.row or 0))
        )
        await until(pilot, lambda: "OVERHEAD-BOUND  The GPU is busy" in text(app))
        capture = next(n for n, one in enumerate(screen.traces.choices) if one.kind == "capture")
        await pilot.press(*["down"] * (capture - row))
        await until(pilot, lambda: "OVERHEAD-BOUND" not in text(app))


async def test_a_low_screen_has_no_preview(folder: Path) -> None:
    app = TracetuiApp()
    async with app.run_test(size=(80, 12)) as pilot:
        await until(pilot, lambda: "mine.json" in text(app))
        assert not start_of(app).preview.display


async def test_without_traces_the_training_step_is_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    app = TracetuiApp()
    async with app.run_test(size=(80, 30)) as pilot:
        await until(pilot, lambda: start_of(app).list.row is not None)
        chosen = start_of(app).traces.choice
        assert chosen is not None
        assert (chosen.kind, chosen.name) == ("sample", "train")


def test_a_preview_says_what_is_wrong_with_a_file(tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text("{")
    (word, _), reason = preview(str(tmp_path / "broken.json"))
    assert word == ""
    assert reason
    assert preview(str(tmp_path / "gone.json"))[0][0] == ""


def test_a_large_file_that_was_never_opened_is_not_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(previews, "is_worth", lambda source: True)
    assert preview(str(folder / "mine.json")) == LATER


def test_of_many_traces_a_few_are_listed_until_words_are_typed(folder: Path) -> None:
    for n in range(9):
        write_trace(folder / f"t{n}.json", [slice_event("aten::mm", 0, 10)])
    found = traces_in(folder)
    few = choices("", [], {}, traces=found, few_traces=6)
    assert [one.kind for one in few] == ["trace"] * 6 + ["more"]
    assert few[-1].name == "5 more traces"
    typed = choices("t8", [], {}, traces=found, few_traces=6)
    assert [one.name for one in typed if one.kind == "trace"] == ["t8.json"]


def test_a_scan_stops_after_so_many_names(folder: Path) -> None:
    assert traces_in(folder, scanned=0) == []
    assert len(traces_in(folder, most=1)) == 1
