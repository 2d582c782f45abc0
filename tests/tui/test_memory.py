"""What was closed is let go, and nothing that is kept grows without bound."""

import functools
import gc
import importlib
import pkgutil
import sys
import weakref
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual._styles_cache import StylesCache
from textual.geometry import Region
from textual.pilot import Pilot
from textual.widget import Widget
from textual.widgets import Input

import tracetui
from tracetui.analysis.part import Part
from tracetui.core import threads
from tracetui.session.history import LONGEST, History
from tracetui.timeline.viewport import Viewport
from tracetui.tui.requests import EndComparison, OpenTrace
from tracetui.tui.screens.trace import TraceScreen
from tracetui.views.gap_words import find_told, gap_line

from .conftest import DATA, app_of, screen_of, until, visit

LEFT = 1
"""That may still be alive: the last one, in a context that asyncio has yet to drop."""

KEYS = {"question_mark": "?", "slash": "/", "colon": ":"}
Sheet = Callable[[Pilot[Any]], Awaitable[object]]


async def press(pilot: Pilot[Any], key: str) -> None:
    """As Pilot's `press`, without its sleep after every key."""
    pilot.app.post_message(events.Key(key, KEYS.get(key, key if len(key) == 1 else None)))
    await pilot.pause(0)


def open_trace(pilot: Pilot[Any]) -> TraceScreen | None:
    """The trace's screen, where nothing is on top of it and nothing asked."""
    screen = pilot.app.screen
    return screen if isinstance(screen, TraceScreen) and screen.prompts.prompt is None else None


def shown(pilot: Pilot[Any]) -> int:
    """Of how many recordings the screen is, where nothing is on top of it."""
    screen = open_trace(pilot)
    return 0 if screen is None else len(screen.navigator.recordings)


def by_key(key: str) -> Sheet:
    """A sheet that a key opens."""

    async def opened(pilot: Pilot[Any]) -> object:
        await press(pilot, key)
        await until(pilot, lambda: not isinstance(pilot.app.screen, TraceScreen))
        return pilot.app.screen

    return opened


async def prompt(pilot: Pilot[Any]) -> object:
    await press(pilot, "colon")
    await until(pilot, lambda: isinstance(pilot.app.focused, Input))
    return screen_of(pilot.app).prompts.prompt  # type: ignore[arg-type]


async def loading(pilot: Pilot[Any]) -> object:
    pilot.app.post_message(OpenTrace(Path("there-is-none.json")))
    await until(pilot, lambda: not isinstance(pilot.app.screen, TraceScreen))
    return pilot.app.screen


SHEETS: dict[str, Sheet] = {
    "help": by_key("question_mark"), "explain": by_key("e"), "matches": by_key("L"),
    "palette": by_key("ctrl+p"), "capture": by_key("c"), "prompt": prompt, "loading": loading
}  # fmt: skip


@pytest.mark.parametrize("short", [False, True])
async def test_where_memory_is_short_there_are_no_indices(short, monkeypatch):
    monkeypatch.setattr(threads, "NEEDED", 1 << 60 if short else 0)
    async with visit(DATA / "llama_train.json.gz") as (app, pilot, _):
        await until(pilot, lambda: open_trace(pilot) is not None)
        session = screen_of(app).session
        results, trace = session.active.whole, session.active.trace
        await until(pilot, lambda: results.knows(find_told))
        assert ("namesakes" in trace.derived) is not short
        await pilot.press("right", "w", "down", "g")
        await until(pilot, lambda: session.gaps.current is not None)
        assert len(gap_line(results, session.gaps.current, session.gaps.small)) > 2


@pytest.mark.parametrize("name", SHEETS)
async def test_what_is_closed_is_let_go(name):
    app = app_of(DATA / "matmul_add_64_cold_eager.json.gz")
    alive: weakref.WeakSet[Any] = weakref.WeakSet()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("right", "slash", "m", "m", "enter")
        for _ in range(6):
            await until(pilot, lambda: open_trace(pilot) is not None)
            alive.add(await SHEETS[name](pilot))
            await press(pilot, "escape")
        await until(pilot, lambda: open_trace(pilot) is not None)
        await pilot.pause(0.1)
        gc.collect()
        assert len(alive) <= LEFT
        widgets = sum(isinstance(thing, Widget) for thing in gc.get_objects())
        drawn = sum(isinstance(thing, StylesCache) for thing in gc.get_objects())
        assert drawn <= widgets + LEFT, "lines of widgets that are gone"


async def test_a_comparison_that_has_ended_is_let_go(monkeypatch):
    """Even of objects that garbage collections skip."""
    monkeypatch.setattr("tracetui.tui.app.CLOSED", 0.1)
    async with visit(DATA / "pairs" / "train_base.json.gz", size=(80, 24)) as (app, pilot, _):
        await until(pilot, lambda: open_trace(pilot) is not None)
        alone = screen_of(app).session.active
        other = DATA / "pairs" / "train_item.json.gz"
        ended: list[weakref.ref[TraceScreen]] = []
        for _ in range(2 + LEFT):
            app.post_message(OpenTrace(other, beside=alone))
            await until(
                pilot, lambda: (now := open_trace(pilot)) is not None and len(now.navigator.recordings) > 1
            )
            await until(pilot, lambda: all(worker.is_finished for worker in app.workers))
            ended.append(weakref.ref(screen_of(app)))
            gc.freeze()
            app.post_message(EndComparison(screen_of(app), alone))
            await until(
                pilot, lambda: (now := open_trace(pilot)) is not None and len(now.navigator.recordings) < 2
            )
            await until(pilot, lambda: not gc.get_freeze_count())
        gc.collect()
        assert sum(screen() is not None for screen in ended) <= LEFT


async def test_a_trace_that_is_open_is_not_read_again(tmp_path):
    one, other = (DATA / "pairs" / f"train_{name}.json.gz" for name in ("base", "item"))
    path = tmp_path / "t.json.gz"
    path.write_bytes(one.read_bytes())
    async with visit(path, size=(80, 24)) as (app, pilot, _):
        await until(pilot, lambda: open_trace(pilot) is not None)
        first = screen_of(app)
        for beside in (None, first.session.active):
            for _ in range(2):
                app.post_message(OpenTrace(other if beside else path, beside=beside))
                await until(pilot, lambda wanted=2 if beside else 1: shown(pilot) == wanted)
        await until(pilot, lambda: len(app.traces) == 2)
        app.post_message(OpenTrace(path))
        await until(pilot, lambda: app.screen is first)
        path.write_bytes(other.read_bytes())  # another recording of the same name
        app.post_message(OpenTrace(path))
        await until(pilot, lambda: len(app.traces) == 3)


async def test_a_closed_trace_is_let_go_and_the_next_one_shown(monkeypatch):
    """Even its objects that garbage collections skip."""
    monkeypatch.setattr("tracetui.tui.app.CLOSED", 0.1)
    paths = [DATA / "pairs" / f"train_{name}.json.gz" for name in ("base", "item", "fused_adamw")]
    async with visit(paths[0], size=(80, 24)) as (app, pilot, _):
        await until(pilot, lambda: open_trace(pilot) is not None)
        await pilot.press("ctrl+x")
        await until(pilot, lambda: "only open trace" in screen_of(app).footer.message)
        first = screen_of(app)
        closed: list[weakref.ref[Part]] = []
        for path in (2 + LEFT) // 2 * paths[1:]:
            app.post_message(OpenTrace(path))
            await until(pilot, lambda: len(app.traces) == 2 and app.screen is app.traces[1])
            await until(pilot, lambda: all(worker.is_finished for worker in app.workers))
            closed.append(weakref.ref(app.traces[1].session.active.whole))
            gc.freeze()
            await pilot.press("ctrl+x")
            await until(pilot, lambda: app.screen is first and app.traces == [first])
            await until(pilot, lambda: not gc.get_freeze_count())
        gc.collect()
        assert sum(results() is not None for results in closed) <= LEFT


async def test_where_things_were_is_forgotten_with_the_size(small):
    async with visit(small.info.path, size=(80, 24)) as (_, pilot, _):
        await pilot.resize_terminal(81, 24)
        once = Region.intersection.cache_info().currsize
        for width in range(82, 112):
            await pilot.resize_terminal(width, 24)
        assert 0 < Region.intersection.cache_info().currsize <= 3 * once


def caches() -> Iterator[tuple[str, Any]]:
    """Every function of ours that remembers its results."""
    for module in pkgutil.walk_packages(tracetui.__path__, "tracetui."):
        if module.name.startswith("tracetui.capture.") or module.name.endswith("__main__"):
            continue  # another process, with torch
        importlib.import_module(module.name)
    for name, module in [(n, m) for n, m in sys.modules.items() if n.split(".")[0] == "tracetui"]:
        for key, value in vars(module).items():
            if isinstance(value, functools._lru_cache_wrapper) and value.__module__ == name:
                yield f"{name}.{key}", value


def test_what_is_remembered_has_a_bound():
    found = dict(caches())
    assert len(found) > 8
    few = {
        "tracetui.analysis.rates.peaks.known_peaks",
        "tracetui.views.glossary._by_name",
        "tracetui.views.glossary._spellings",
        "tracetui.formats.chrome_json.schema.decoder",
        "tracetui.core.threads._quota",
        "tracetui.core.threads.memory",
        "tracetui.core.threads.share_free_memory",
    }  # one, and six, at most
    for name, cache in found.items():
        most = cache.cache_parameters()["maxsize"]
        assert most is not None or name in few, name
        assert most is None or most <= 4096, name


def test_the_history_of_views_has_an_end():
    history = History()
    views = [Viewport(n, n + 10, 100) for n in range(5 * LONGEST)]
    for view in views:
        history.leave(view)
    count, now = 0, views[-1]
    while (before := history.back(now)) is not None:
        count, now = count + 1, before
    assert count == LONGEST + 1
