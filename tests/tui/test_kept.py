"""The second opening of a large trace says what the first one did, before anything is analyzed."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.conftest import SAMPLES

from tracetui.analysis.results import Results
from tracetui.trace import saved
from tracetui.tui.panes.overview import OverviewPane

from .conftest import app_of, screen_of, until


async def opened(path: Path) -> tuple[object, ...]:
    """What the first screen says in the end, once that is kept."""
    app = app_of(path, "overview")
    async with app.run_test(size=(120, 40)) as pilot:
        screen, source = screen_of(app), screen_of(app).trace.reader.source
        pane, verdict = screen.area.open, screen.verdict
        assert isinstance(pane, OverviewPane)
        await until(pilot, lambda: {"judged", "overview"} <= saved.answers(source).keys())
        await until(pilot, lambda: verdict.evidence and pane.overview is not None)
        return verdict.line.verdict, verdict.steps, dict(verdict.evidence), pane.overview


async def test_the_first_screen_waits_for_no_analysis(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRACETUI_NO_CACHE", raising=False)
    monkeypatch.setenv("TRACETUI_CACHE", str(tmp_path))
    monkeypatch.setattr(saved, "WORTH", 0)
    monkeypatch.setattr("tracetui.formats.source._SETTLED", -(10**12))
    first = await opened(SAMPLES / "train.json.gz")
    monkeypatch.delattr(Results, "_verdict")  # nobody asks for it again
    assert await opened(SAMPLES / "train.json.gz") == first
