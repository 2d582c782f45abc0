"""`--quiz`: the verdict is covered until `h` is pressed."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from tracetui.cli.main import main
from tracetui.tui.app import TracetuiApp
from tracetui.tui.loading import LoadTask
from tracetui.tui.settings import Settings

from .conftest import DATA, until
from .test_app import text

ANSWERS = "OVERHEAD-BOUND", "GPU busy", "dispatch"


@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
async def test_the_verdict_is_covered_until_h(size: tuple[int, int]) -> None:
    task = LoadTask(DATA / "llama_train.json.gz").start()
    task.ended.result(30)
    app = TracetuiApp(task, Settings(pane="none", quiz=True))
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: "Quiz: where does the time go" in text(app))
        await until(pilot, lambda: "steps" in text(app).split("\n")[0] or "mean" in text(app).split("\n")[0])
        assert not [word for word in ANSWERS if word in text(app)]
        await pilot.press("w", "g")  # looking around tells no verdict
        assert "OVERHEAD-BOUND" not in text(app)
        await pilot.press("0", "h")
        await until(pilot, lambda: "OVERHEAD-BOUND" in text(app).split("\n")[1])
        assert "Quiz" not in text(app)
        await pilot.press("h")  # now it walks the parts
        await until(pilot, lambda: "here the longest" in text(app))


def test_a_quiz_is_about_one_trace() -> None:
    path = str(DATA / "mlp_eager.json.gz")
    found = CliRunner().invoke(main, ["open", "--quiz", path, path])
    assert found.exit_code == 2
    assert "--quiz takes one trace" in found.output
