"""CUDA graphs whose kernels are annotated, in the app."""

from tests.analysis.test_graphs import annotated

from tracetui.analysis.calls.graphs import TITLE

from .conftest import until, visit
from .test_app import text


async def test_modules_stand_above_the_streams_and_say_what_they_are(tmp_path):
    annotated(tmp_path)
    async with visit(tmp_path / "t.json", size=(120, 40)) as (app, pilot, screen):
        await until(pilot, lambda: TITLE in text(app))
        lines = text(app).splitlines()
        at = next(n for n, line in enumerate(lines) if TITLE in line)
        assert at < next(n for n, line in enumerate(lines) if "stream 7" in line)
        assert "layers" in lines[at]
        trace = screen.trace
        module = next(i for i in range(len(trace)) if trace.name_of(i) == "layers.0.attention")
        screen.walk.select(module)
        await pilot.press("2")
        await until(pilot, lambda: "made by" in text(app))
        assert "layers.0.attention" in text(app)
        assert screen.walk.move("down")
        await until(pilot, lambda: "layers.0.attention.wq" in text(app))


async def test_averages_by_module(tmp_path):
    annotated(tmp_path)
    async with visit(tmp_path / "t.json", size=(120, 40)) as (app, pilot, _):
        await until(pilot, lambda: "Self GPU" in text(app))
        await pilot.press("4", "b", "b")
        await until(pilot, lambda: "by module" in text(app) and "layers.0.feed_forward" in text(app))
        assert "layers.0.feed_forward (backward)" in text(app)
