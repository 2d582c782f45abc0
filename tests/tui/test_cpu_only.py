"""A trace of the CPU alone: its gaps are those of its main thread, and `c` offers to record stacks."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path

import pytest

from tracetui.capture.events import CaptureResult
from tracetui.capture.options import CaptureOptions
from tracetui.core.copying import replace
from tracetui.tui.capture.form_screen import FormScreen
from tracetui.tui.screens.explain import ExplainScreen

from .conftest import app_of, screen_of, sheet_lines, slice_event, until, write_trace
from .test_app import text


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A step of 100 us: ops of 50 us in two pieces, 40 us apart."""
    step = slice_event("ProfilerStep#0", 0, 100) | {"cat": "user_annotation"}
    ops = slice_event("aten::mm", 0, 30), slice_event("aten::add", 70, 20)
    return write_trace(tmp_path / "t.json", [step, *ops])


@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
async def test_g_and_h_go_to_the_longest_stretch_without_an_op(path: Path, size: tuple[int, int]) -> None:
    app = app_of(path, "overview")
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: "Try: Record it again with stacks" in text(app))
        await pilot.press("g")
        await until(pilot, lambda: "in no op 40.0 µs" in text(app))
        assert "gap 1 of 2, longest first" in text(app)
        navigator = screen_of(app).session.navigator
        assert navigator.trace.name_of(navigator.scene.selected) == "aten::add"
        await pilot.press("g")  # the end of the step: nothing follows, so what comes before is selected
        await until(pilot, lambda: "in no op 10.0 µs" in text(app))
        assert "then the end" in text(app) or size[0] == 80
        assert navigator.trace.name_of(navigator.scene.selected) == "aten::add"
        await pilot.press("escape", "h", "h")
        await until(pilot, lambda: "outside ops 50% (50.0 µs): Python, waiting" in text(app))
        assert "in no op 40.0 µs" in text(app)


async def test_e_explains_a_gap_and_the_pane_lists_them(path: Path) -> None:
    app = app_of(path, "gaps")
    async with app.run_test(size=(120, 36)) as pilot:
        await until(pilot, lambda: "nothing recorded" in text(app))
        await pilot.press("g")
        await until(pilot, lambda: "in no op 40.0 µs" in text(app))
        await pilot.press("e")
        await until(pilot, lambda: isinstance(app.screen, ExplainScreen))
        await until(pilot, lambda: "Record it again with stacks" in " ".join(sheet_lines(app)))
        said = " ".join(sheet_lines(app))
        assert "was in no op outside of data loading and collectives for 40.000 µs" in said


async def test_c_offers_stacks(path: Path) -> None:
    options = CaptureOptions("mlp")
    path.with_suffix(".meta.json").write_text(json.dumps({"options": asdict(options)}))
    app = app_of(path, "overview")
    async with app.run_test(size=(120, 36)) as pilot:
        await until(pilot, lambda: "No op runs for 50%" in text(app))
        await pilot.press("c")
        await until(pilot, lambda: isinstance(app.screen, FormScreen))
        assert isinstance(app.screen, FormScreen)
        form = app.screen.form
        assert (form.options.with_stack, form.field.name) == (True, "with_stack")


async def test_a_capture_with_stacks_is_not_compared_with_one_without(path: Path, tmp_path: Path) -> None:
    def captured(name: str, options: CaptureOptions) -> CaptureResult:
        trace = tmp_path / f"{name}.json"
        shutil.copy2(path, trace)
        trace.with_suffix(".meta.json").write_text(json.dumps({"options": asdict(options)}))
        return CaptureResult(trace, trace, trace, None, {})

    mlp = CaptureOptions("mlp")
    app = app_of(captured("first", mlp).trace, "overview")
    async with app.run_test(size=(120, 36)) as pilot:
        await until(pilot, lambda: "CPU-ONLY" in text(app))
        app.recorder.captured(captured("stacked", replace(mlp, with_stack=True)))
        await until(pilot, lambda: "stacked.json" in text(app))
        assert len(screen_of(app).navigator.recordings) == 1
        app.recorder.captured(captured("again", replace(mlp, with_stack=True)))
        await until(pilot, lambda: len(screen_of(app).navigator.recordings) == 2)
