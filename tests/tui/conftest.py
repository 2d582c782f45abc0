"""Traces loaded once, and the app running on them."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
from tests.capture.conftest import warm_start
from tests.driver import drive, until
from textual.pilot import Pilot

from tracetui.rules import Finding
from tracetui.trace import Trace, load
from tracetui.tui.app import TracetuiApp
from tracetui.tui.loading import LoadTask
from tracetui.tui.panes.view import ViewPane
from tracetui.tui.screens.sheet import Sheet
from tracetui.tui.screens.trace import TraceScreen
from tracetui.tui.settings import Settings
from tracetui.views.findings import finding_lines

__all__ = ["until", "warm_start"]
DATA = Path(__file__).resolve().parent.parent / "data"
P = TypeVar("P")


@lru_cache
def loaded(name: str) -> Trace:
    return load(DATA / f"{name}.json.gz")


@pytest.fixture(autouse=True)
def driven(monkeypatch: pytest.MonkeyPatch, read_once: None) -> None:
    """Pilot does not sleep, and frames are drawn at once, wherever the tests are run from."""
    drive(monkeypatch)
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in ("SSH_CONNECTION", "SSH_TTY", "COLORTERM", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the app remembers goes to a folder of the test's own."""
    folder = tmp_path_factory.mktemp("state")
    monkeypatch.setenv("TRACETUI_STATE", str(folder))
    (folder / "hint-seen").touch()
    return folder


@pytest.fixture
def llama() -> Trace:
    """A training step: 35,000 events."""
    return loaded("llama_train")


@pytest.fixture
def small() -> Trace:
    """matmul + add, cold."""
    return loaded("matmul_add_64_cold_eager")


def app_of(path: Path | str, pane: str = "ops") -> TracetuiApp:
    """The app on a trace that is loaded already, with a pane open."""
    task = LoadTask(path).start()
    task.ended.result(30)
    return TracetuiApp(task, Settings(pane=pane))


def screen_of(app: TracetuiApp) -> TraceScreen:
    assert isinstance(app.screen, TraceScreen)
    return app.screen


@asynccontextmanager
async def visit(
    path: Path | str, pane: str = "ops", size: tuple[int, int] = (120, 36)
) -> AsyncIterator[tuple[TracetuiApp, Pilot[Any], TraceScreen]]:
    """That app while it runs."""
    app = app_of(path, pane)
    async with app.run_test(size=size) as pilot:
        yield app, pilot, screen_of(app)


def pane_of(screen: TraceScreen, kind: type[P]) -> P:
    """The open pane, which is one of this kind."""
    pane = screen.area.open
    assert isinstance(pane, kind)
    return pane


def gaps_shown(pane: ViewPane) -> list[int]:
    """The lengths of the gaps in their pane, by time."""
    column = pane.table.column("duration") if pane.table is not None else None
    return [] if column is None or column.values is None else np.asarray(column.values()).tolist()


def shows_findings(pane: ViewPane, findings: tuple[Finding, ...]) -> bool:
    """Whether the pane has these findings."""
    lines = finding_lines(findings, max(20, pane.size.width - 14))
    return pane.shown is not None and pane._texts == [line.text for line in lines]


def sheet_lines(app: TracetuiApp) -> list[str]:
    """The lines of the sheet that is open, its head first."""
    assert isinstance(app.screen, Sheet)
    strips = app.screen._compositor.render_strips()
    return [strip.text for strip in strips[app.screen.head.region.y :]]


def write_trace(path: Path, events: Sequence[dict[str, Any]], **top: Any) -> Path:
    path.write_text(json.dumps({"traceEvents": list(events), **top}))
    return path


def slice_event(name: str, ts: float, dur: float, tid: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur, "args": {},
        **more
    }  # fmt: skip
