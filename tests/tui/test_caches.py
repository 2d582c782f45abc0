"""The second opening of a large trace says what the first one did, before anything is analyzed."""

import importlib
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import SAMPLES

from tracetui.analysis import verdicts
from tracetui.formats.source import Source
from tracetui.session.recording import Recording
from tracetui.trace import Trace, load, result_cache, saved
from tracetui.tui import app as app_module
from tracetui.tui.app import TracetuiApp
from tracetui.tui.loading import LoadTask
from tracetui.tui.panes.overview import OverviewPane
from tracetui.tui.screens.loading import LoadingScreen
from tracetui.tui.screens.trace import TraceScreen

from .conftest import screen_of, until, visit


async def opened(path: Path) -> tuple[object, ...]:
    """What the first screen says in the end, once that is kept."""
    async with visit(path, "overview", size=(120, 40)) as (app, pilot, _):
        screen, source = screen_of(app), screen_of(app).trace.reader.source
        pane, verdict = screen.area.open, screen.verdict
        assert isinstance(pane, OverviewPane)
        await until(pilot, lambda: {"judged", "summary"} <= result_cache.load_results(source).keys())
        await until(pilot, lambda: verdict.evidence and pane.overview is not None)
        return verdict.line.verdict, verdict.steps, dict(verdict.evidence), pane.overview


@pytest.mark.usefixtures("cache")
async def test_the_first_screen_waits_for_no_analysis(monkeypatch):
    monkeypatch.setattr("tracetui.formats.source._SETTLED", -(10**12))
    first = await opened(SAMPLES / "train.json.gz")
    monkeypatch.delattr(verdicts, "_verdict")  # nobody asks for it again
    assert await opened(SAMPLES / "train.json.gz") == first


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("kept", [True, False])
async def test_no_screen_about_reading_comes_before_what_was_kept(kept, monkeypatch):
    monkeypatch.setattr("tracetui.formats.source._SETTLED", -(10**12))
    monkeypatch.setattr(app_module, "NEARLY", 60)
    path, prepare, ready = SAMPLES / "train.json.gz", Recording.prepare, threading.Event()
    if kept:
        assert saved.save(load(path))

    def slowly(source: Source, there: Callable[[], object]) -> Trace | None:
        begun.set()
        assert ready.wait(60)
        return None

    begun = threading.Event()
    if not kept:
        monkeypatch.setattr(importlib.import_module("tracetui.trace.load"), "find", slowly)
    monkeypatch.setattr(Recording, "prepare", lambda trace: (begun.set(), time.sleep(0.3), prepare(trace)))
    task = LoadTask(path).start()
    assert begun.wait(60)
    app = TracetuiApp(task)
    async with app.run_test(size=(120, 40)) as pilot:
        assert isinstance(app.screen_stack[0], TraceScreen if kept else LoadingScreen)
        ready.set()
        await until(pilot, lambda: isinstance(app.screen, TraceScreen))
