"""Random keys and mouse events for a few seconds; `benchmarks/monkey.py` does it for two hours' worth."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tracetui.tui.loading import LoadTask
from tracetui.tui.screens.trace import TraceScreen

from .conftest import until

ROOT = Path(__file__).resolve().parents[2]
EVENTS = 300


@pytest.fixture(scope="module")
def monkey() -> Iterator[ModuleType]:
    """The script, as a module, which finds its neighbours as if it had been started."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks")
        yield importlib.import_module("monkey")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the monkey exports or keeps stays in a folder of the test's own."""
    monkeypatch.chdir(tmp_path)
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        ("sample_traces/attention_naive", 5),
        ("sample_traces/mlp_cuda_graph", 8),
        ("tests/data/llama_train", 1),
        ("tests/data/mlp_compile", 2),
        ("tests/data/matmul_add_64_cold_eager", 3),
    ],
)
async def test_after_random_keys_and_clicks_it_can_still_be_used(
    monkey: ModuleType, name: str, seed: int
) -> None:
    task = LoadTask(ROOT / f"{name}.json.gz").start()
    task.ended.result(30)
    app: Any = monkey.Tame(task)
    failures: list[str] = []
    with monkey.failed_workers(failures):
        async with app.run_test(size=(120, 36)) as pilot:
            done, acts = 0, monkey.acts(seed)
            while done < EVENTS:
                act = next(acts)
                await monkey.perform(pilot, act)
                done += act.events
                assert monkey.wrong_picture(app) == "", act
            await pilot.resize_terminal(120, 36)
            await pilot.press(*["escape"] * 8)
            screen = app.screen
            assert isinstance(screen, TraceScreen)
            await pilot.press("0")
            view, (low, high) = screen.walk.view, screen.trace.span
            assert view.start_ns <= low < high <= view.end_ns
            app.tame = False
            await pilot.press("q")
            await until(pilot, lambda: app._exit)
    assert app.return_code == 0
    assert failures == []


async def test_the_monkey_tells_of_what_fails(monkey: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: object) -> None:
        raise ValueError("planted")

    monkeypatch.setattr(TraceScreen, "action_clear", broken)
    told = await monkey.rampage(ROOT / "sample_traces" / "linear.json.gz", 60, 3, (80, 24), warm=False)
    assert told.events >= 60
    assert told.failures
    assert all("planted" in failure for failure in told.failures)


def test_the_same_seed_does_the_same(monkey: ModuleType) -> None:
    def first(seed: int) -> list[str]:
        acts = monkey.acts(seed)
        return [str(next(acts)) for _ in range(300)]

    assert first(4) == first(4)
    assert first(4) != first(5)
    kinds = {act.split()[0] for act in first(4)}
    assert {"keys", "click", "drag", "wheel", "resize", "move"} <= kinds


def test_memory_is_held_only_if_it_does_not_go_on_growing(monkey: ModuleType) -> None:
    def held(*mib: int) -> bool:
        samples = [monkey.Sample(n * 1000, m << 20, 0) for n, m in enumerate(mib)]
        return bool(monkey.growth(samples).held)

    assert held(100, 104, 106, 106, 107)
    assert held(100, 120, 106, 106, 106)  # a screen that came and went
    assert not held(100, 104, 108, 110, 111)
    assert not held(100, 102, 104, 106, 108), "twice as much, and it is over"


def test_all_is_done_once_before_memory_is_measured(monkey: ModuleType) -> None:
    memory = importlib.import_module("monkey_memory")
    done = list(memory.everything())
    sizes = {act.size for act in done if act.kind == "resize"}
    assert sizes == set(memory.SIZES)
    assert {key for act in done for key in act.keys} >= {*memory.KEYS, *memory.MORE_KEYS, *memory.OPENERS}
    random = monkey.acts(1)
    kinds = {next(random).kind for _ in range(500)}
    assert {act.kind for act in done} >= kinds - {"pause"}
