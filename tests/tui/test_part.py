"""The beginning of a large file is drawn and grows while the rest is read; then the whole takes its place."""

import gc
import gzip
import importlib
import json
import threading
import time
import weakref
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tracetui.core.copying import replace
from tracetui.core.units import size
from tracetui.session.recording import Recording
from tracetui.session.session import Session
from tracetui.trace import Trace, load
from tracetui.trace.build import build
from tracetui.tui.app import TracetuiApp
from tracetui.tui.loading import LoadTask
from tracetui.tui.screens.explain import ExplainScreen
from tracetui.tui.screens.loading import LoadingScreen
from tracetui.tui.screens.part import LATER, PartScreen
from tracetui.tui.screens.trace import TraceScreen

from .conftest import screen_of, sheet_lines, slice_event, until, write_trace
from .test_app import LLAMA, text

loading = importlib.import_module("tracetui.trace.load")  # `tracetui.trace.load` is also the function
chunks = importlib.import_module("tracetui.formats.chrome_json.chunks")
LENGTH = 3_000_000
"""Bytes of the beginning, in these tests: about a fifth of the text."""


@pytest.fixture(autouse=True)
def all_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "LARGE", 0)
    monkeypatch.setattr(loading, "BEGINNING", LENGTH)
    monkeypatch.setenv("TRACETUI_NO_CACHE", "1")


class HeldTask(LoadTask):
    """Reads on behind the beginning only when it may."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, draws=True)
        self.may = threading.Event()

    def _progress(self, done: int, total: int) -> bool:
        if self.beginning.done() and not self.cancelled:
            assert self.may.wait(30)
        return super()._progress(done, total)


class GrowingTask(HeldTask):
    """Reads on behind each beginning only when it may."""

    holds = True

    def _show(self, part: Trace) -> None:
        if self.holds:
            self.may.clear()
        super()._show(part)


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Only what nothing refers to is freed, as while a trace is read."""
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def grows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer beginnings up to the end of the file, each of which is made before more is read."""

    class Waits(loading._Longer):  # type: ignore[misc, name-defined]
        def __call__(self, *given: object) -> None:
            super().__call__(*given)
            if self._making is not None:
                self._making.join()

    monkeypatch.setattr(loading, "MOST", 1)
    monkeypatch.setattr(loading, "LONGER", 1.2)
    monkeypatch.setattr(chunks, "AHEAD", 1 << 20)
    monkeypatch.setattr(loading, "_Longer", Waits)


def slices(trace: Trace) -> Counter[tuple[object, ...]]:
    """Every slice as the file has it: what, where and when."""
    zero, lanes = trace.info.zero_ns - (trace.info.base_ns or 0), trace.lanes
    where = [(trace.processes[lane.process].pid, lane.tid, lane.kind) for lane in lanes]
    columns = (trace.name, trace.lane, trace.start, trace.duration)
    return Counter(
        (trace.names[name], where[lane], start + zero, duration)
        for name, lane, start, duration in zip(*(column.tolist() for column in columns), strict=True)
    )


def both(path: Path) -> tuple[Trace, Trace]:
    """The part that is shown, and the whole."""
    shown: list[Trace] = []
    whole = load(path, show=shown.append)
    assert len(shown) == 1
    return shown[0], whole


def plain(folder: Path) -> Path:
    path = folder / "llama.json"
    path.write_bytes(gzip.decompress(LLAMA.read_bytes()))
    return path


@pytest.mark.parametrize("compressed", [False, True])
def test_the_part_holds_slices_of_the_whole_and_says_nothing_else(tmp_path, compressed):
    part, whole = both(LLAMA if compressed else plain(tmp_path))
    assert 1000 < len(part) < len(whole) / 2
    assert not slices(part) - slices(whole)
    assert part.notices == ()
    assert not len(part.counters.start)
    assert not len(part.instants.start)
    event = len(part) // 2
    assert part.event(event)["name"] == part.name_of(event)


def test_slices_that_need_a_second_event_are_not_in_the_part(tmp_path):
    """The end of one may come later, and then another end would be taken for its own."""
    pairs = [
        {"ph": ph, "name": "pair", "pid": 1, "tid": 1, "ts": 10 * n, "cat": "cpu_op"} for n in range(20_000)
        for ph in "BE"
    ]  # fmt: skip
    whole_ones = [slice_event("one", 10 * n, 5, tid=2) for n in range(20_000)]
    events = [event for three in zip(pairs[::2], pairs[1::2], whole_ones, strict=True) for event in three]
    part, whole = both(write_trace(tmp_path / "pairs.json", events))
    assert set(whole.names) == {"pair", "one"}
    assert {name for name, *_ in slices(part)} == {"one"}


def test_a_small_file_has_no_part(monkeypatch):
    monkeypatch.setattr(loading, "LARGE", 1 << 40)
    shown: list[Trace] = []
    load(LLAMA, show=shown.append)
    assert not shown


def test_what_is_kept_in_the_cache_has_no_part(monkeypatch):
    whole = load(LLAMA)
    monkeypatch.setattr(loading, "find", lambda source, there: whole)
    shown: list[Trace] = []
    assert load(LLAMA, show=shown.append) is whole
    assert not shown


@pytest.mark.parametrize("first", [5000.0, -7.0])
def test_view_range_and_selection_stay_where_they_were(tmp_path, first):
    """Also where the earliest event comes last in the file, so that the two have other zeros."""
    events = [slice_event(f"op{n % 7}", 10 * n, 8, tid=n % 3) for n in range(60_000)]
    part, whole = both(write_trace(tmp_path / "t.json", [*events, slice_event("last", first, 1, tid=9)]))
    before, after = Session([Recording(part, part=True)]), Session([Recording(whole)])
    before.lanes.resize(100, 30)
    event = len(part) // 2
    before.navigator.select(event)
    before.navigator.zoom(50)
    before.navigator.set_range(1000, 2000)
    after.go_on_from(before)
    shift = part.info.zero_ns - whole.info.zero_ns
    assert shift == (7000 if first < 0 else 0)
    assert after.navigator.view.start_ns == before.navigator.view.start_ns + shift
    assert after.navigator.view.span_ns == before.navigator.view.span_ns
    assert after.navigator.range_ns == (1000 + shift, 2000 + shift)
    found = after.navigator.selected
    assert found is not None
    assert whole.event(found) == part.event(event)


def test_what_was_folded_in_the_part_is_folded_in_the_whole(tmp_path):
    """The order of the lanes, their pins and the other folds stay those of the whole."""
    events = [
        slice_event(f"op{d}", 20 * n + d, 10 - 2 * d, tid=1 + n % 4) for n in range(30_000) for d in (0, 1)
    ]
    names = [
        {"ph": "M", "name": "thread_sort_index", "pid": 1, "tid": t, "args": {"sort_index": -t}}
        for t in (1, 2, 3, 4)
    ]
    part, whole = both(write_trace(tmp_path / "t.json", [*events, *names]))
    before, after, new = (Session([Recording(one, part=one is part)]) for one in (part, whole, whole))
    for session in (before, after, new):
        session.lanes.resize(100, 40)
    before.lanes.toggle_fold({lane.tid: n for n, lane in enumerate(part.lanes)}["2"])
    after.lanes.pin(next(n for n, lane in enumerate(whole.lanes) if lane.tid == "4"))
    new.lanes.pin(next(n for n, lane in enumerate(whole.lanes) if lane.tid == "4"))
    wanted = [
        {**one, "rows": 1} if one["track"] == "lane 1 2 thread" else one for one in new.lanes.arrangement()
    ]
    assert wanted != new.lanes.arrangement()
    after.go_on_from(before)
    assert after.lanes.arrangement() == wanted


def test_one_who_has_not_moved_sees_the_whole(tmp_path):
    part, whole = both(plain(tmp_path))
    after, new = Session([Recording(whole)]), Session([Recording(whole)])
    before = Session([Recording(part, part=True)])
    after.go_on_from(before)
    new.lanes.resize(before.navigator.view.width + before.navigator.scene.labels + 1, before.navigator.height)
    assert after.navigator.view == new.navigator.view
    assert after.navigator.selected is None


@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
async def test_the_part_is_drawn_keys_move_in_it_and_the_whole_replaces_it(size):
    task = HeldTask(LLAMA)
    app = TracetuiApp(task)
    async with app.run_test(size=size) as pilot:
        task.start()
        await until(pilot, lambda: isinstance(app.screen, PartScreen))
        part = app.screen
        assert isinstance(part, PartScreen)
        await until(pilot, lambda: "Events may be missing anywhere." in text(app))
        lines = text(app)
        assert "Drawn: its first 3.00 MB of text." in lines
        assert "stream 7" in lines or "CPU" in lines or "thread" in lines
        for claim in ("BOUND", "busy", "overall", "idle", "CPU main", "events", "steps,"):
            assert claim not in lines
        before, height = part.session.navigator.view, part.timeline.size.height
        await pilot.press("w", "w", "down", "right", "right")
        assert part.session.navigator.view != before
        event = part.session.navigator.selected
        assert event is not None
        trace = part.session.active.trace
        name = trace.name_of(event)
        await pilot.press("slash")
        assert LATER in text(app)
        await pilot.press("e")
        await until(pilot, lambda: "whole file is read" in "".join(sheet_lines(app)))
        old = part.session.navigator.view
        task.may.set()
        await until(pilot, task.ended.done)
        assert isinstance(app.screen, ExplainScreen)
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, TraceScreen))
        navigator = screen_of(app).navigator
        await until(pilot, lambda: "CPU main" in text(app))
        assert trace.info.base_ns is None, "it comes after the events"
        shift = trace.info.zero_ns - (navigator.trace.info.zero_ns - (navigator.trace.info.base_ns or 0))
        assert navigator.selected is not None
        assert navigator.trace.name_of(navigator.selected) == name
        assert navigator.trace.event(navigator.selected) == trace.event(event)
        assert abs(navigator.view.start_ns - old.start_ns - shift) <= 1, "half a ns is rounded to even"
        assert navigator.view.span_ns == old.span_ns
        assert screen_of(app).timeline.size.height == height
        assert len(app.traces) == 1


def test_longer_beginnings_hold_slices_of_the_whole(tmp_path, grows):
    path = plain(tmp_path)
    shown: list[Trace] = []
    whole = load(path, show=shown.append)
    assert len(shown) >= 3
    for part, longer in pairwise(shown):
        assert longer.info.text_size >= 1.2 * part.info.text_size
        assert not slices(part) - slices(longer)
    assert not slices(shown[-1]) - slices(whole)
    assert len(shown[-1]) < len(whole)
    for part in shown:
        assert part.notices == ()
        assert not len(part.counters.start)
        assert (part.launch < 0).all()
        event = len(part) - 1
        assert part.event(event)["name"] == part.name_of(event)
    alone = load(path)
    for column in ("start", "duration", "name", "lane", "depth", "parent", "launch", "op", "source"):
        assert np.array_equal(getattr(whole, column), getattr(alone, column))
    assert whole.notices == alone.notices
    assert whole.names == alone.names


def test_no_beginning_is_longer_than_a_share_of_the_file(tmp_path, grows, monkeypatch):
    monkeypatch.setattr(loading, "MOST", 0.25)
    monkeypatch.setattr(loading, "BEGINNING", 1_000_000)
    path = plain(tmp_path)
    shown: list[Trace] = []
    load(path, show=shown.append)
    assert len(shown) >= 2
    assert all(part.info.text_size <= path.stat().st_size / 4 for part in shown)


@pytest.mark.parametrize("first", [5000.0, -7.0])
def test_what_is_on_the_screen_stays_where_the_part_grows(tmp_path, grows, first):
    """Also where an earlier event and more lanes come: `first` lies before the second of two beginnings."""
    events = [slice_event(f"op{n % 7}", 10 * n, 8, tid=10 + n % 30) for n in range(60_000)]
    later = [slice_event("new", first, 1, tid=1), slice_event("new", 100, 1, tid=15)]
    others = [slice_event("more", 10 * n + 600_000, 8, tid=10 + n % 30) for n in range(90_000)]
    path = write_trace(tmp_path / "t.json", [*events, *later, *others])
    shown: list[Trace] = []
    load(path, show=shown.append)
    part, longer = shown[0], shown[-1]
    assert len(longer.lanes) == len(part.lanes) + 1
    session = Session([Recording(part, part=True)])
    navigator = session.navigator
    session.lanes.resize(100, 20)
    event = next(i for i in range(len(part) // 2, len(part)) if part.lanes[part.lane[i]].tid == "25")
    navigator.select(event)
    navigator.zoom(50)
    navigator.set_range(1000, 2000)
    navigator.scroll_lanes(3)
    assert navigator.back()
    earlier = navigator.view
    assert navigator.forward()
    view, scene = navigator.view, navigator.scene
    line = scene.lines(18)[0]
    session.grow(Recording(longer, part=True))
    shift = part.info.zero_ns - longer.info.zero_ns
    assert shift == (7000 if first < 0 else 0)
    assert session.active.trace is longer
    assert (navigator.view.start_ns, navigator.view.scale) == (view.start_ns + shift, view.scale)
    assert navigator.range_ns == (1000 + shift, 2000 + shift)
    assert navigator.selected is not None
    assert longer.event(navigator.selected) == part.event(event)
    top = navigator.scene.lines(18)[0]
    assert scene.top > 0
    assert longer.lanes[top.ref].tid == part.lanes[line.ref].tid
    assert top.depth == line.depth
    assert navigator.back()
    assert navigator.view == replace(earlier, start=earlier.start + shift)


def test_nothing_is_done_for_every_lane_where_the_part_grows(tmp_path, grows, monkeypatch):
    """It was done before, in another thread: there may be very many."""
    events = [slice_event(f"op{n % 7}", 10 * n, 8, tid=n // 40) for n in range(100_000)]
    shown: list[Trace] = []
    load(write_trace(tmp_path / "t.json", events), show=shown.append)
    assert len(shown[-1].lanes) > 2 * len(shown[0].lanes)
    session, longer = Session([Recording(shown[0], part=True)]), Recording(shown[-1], part=True)
    session.lanes.resize(100, 20)
    longer.prepare_part()
    monkeypatch.delattr("tracetui.timeline.rows.spanning_frames")
    session.grow(longer)
    assert session.active is longer


def test_one_who_has_not_moved_sees_all_of_the_longer_part(tmp_path, grows):
    shown: list[Trace] = []
    load(plain(tmp_path), show=shown.append)
    session, new = (Session([Recording(part, part=True)]) for part in (shown[0], shown[-1]))
    session.grow(Recording(shown[-1], part=True))
    assert session.navigator.view == new.navigator.view
    assert session.navigator.scene.span == new.navigator.scene.span
    assert session.navigator.selected is None


async def test_the_part_grows_on_the_screen(tmp_path, grows):
    task = GrowingTask(plain(tmp_path))
    app = TracetuiApp(task)
    async with app.run_test(size=(100, 30)) as pilot:
        task.start()
        await until(pilot, lambda: isinstance(app.screen, PartScreen))
        part = app.screen
        assert isinstance(part, PartScreen)
        await pilot.press("w", "w", "down", "right")
        first = weakref.ref(part.session.active)
        navigator = part.session.navigator
        name, view = navigator.trace.name_of(navigator.selected or 0), navigator.view
        task.may.set()
        await until(pilot, lambda: part.session.active is not first())
        assert navigator.trace.name_of(navigator.selected or 0) == name
        assert navigator.view.scale == view.scale
        await until(pilot, lambda: f"its first {size(navigator.trace.info.text_size)} of text" in text(app))
        gc.collect()
        assert first() is None
        await pilot.press("e")
        assert isinstance(app.screen, ExplainScreen)
        shown = part.session.active
        task.may.set()
        await until(pilot, lambda: task.part is not shown)
        await pilot.pause(0.3)
        assert part.session.active is shown, "the sheet is about an event of it"
        await pilot.press("escape", "right")
        await until(pilot, lambda: part.session.active is task.part)
        before = navigator.view.span_ns
        task.holds = False
        task.may.set()
        await until(pilot, lambda: isinstance(app.screen, TraceScreen))
        assert task.part is None
        assert screen_of(app).navigator.view.span_ns == before
        assert not part.session.navigator.recordings, "nothing of the part is kept"


async def test_a_sheet_over_the_part_leaves_an_open_trace_below_alone(tmp_path):
    """Closed, it took the place of the part in its trace for one in the other trace."""
    app = TracetuiApp(LoadTask(write_trace(tmp_path / "first.json", [slice_event("a", 0, 1)])).start())
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, TraceScreen))
        navigator = screen_of(app).navigator
        before = navigator.view
        task = HeldTask(LLAMA)
        await app.push_screen(LoadingScreen(task.start()))
        await until(pilot, lambda: isinstance(app.screen, PartScreen))
        await pilot.press("down", "e")
        await until(pilot, lambda: isinstance(app.screen, ExplainScreen))
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, PartScreen))
        assert navigator.selected is None
        assert navigator.view == before
        await pilot.press("q")
        task.may.set()


@pytest.mark.parametrize("ends", ["whole", "stopped", "broken"])
async def test_no_part_is_kept_by_the_screens_that_showed_it(tmp_path, grows, uncollected, monkeypatch, ends):
    """Not even where these are never collected: they are frozen once the whole is read."""
    path = plain(tmp_path)
    app = TracetuiApp(LoadTask(write_trace(tmp_path / "first.json", [slice_event("a", 0, 1)])).start())
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, TraceScreen))
        task = GrowingTask(path)
        await app.push_screen(LoadingScreen(task.start()))
        await until(pilot, lambda: isinstance(app.screen, PartScreen))
        part = app.screen
        assert isinstance(part, PartScreen)
        readers = [weakref.ref(part.session.active.trace.reader)]
        await pilot.press("down", "e")
        await until(pilot, lambda: "whole file is read" in "".join(sheet_lines(app)))
        await pilot.press("escape")
        task.may.set()
        await until(pilot, lambda: part.session.active.trace.reader is not readers[0]())
        readers.append(weakref.ref(part.session.active.trace.reader))
        await pilot.press("e")
        await until(pilot, lambda: "whole file is read" in "".join(sheet_lines(app)))
        await pilot.press("escape")
        task.holds = False
        if ends == "stopped":
            await pilot.press("q")
        elif ends == "broken":
            monkeypatch.setattr(task, "_progress", fail)
        task.may.set()
        await until(pilot, lambda: app.screen is not part and task.ended.done())
        await until(pilot, lambda: [reader() for reader in readers] == [None, None])


def fail(*_: object) -> bool:
    raise loading.TraceError("broken.json: has more events than fit")


async def test_a_file_that_turns_out_to_be_broken_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(loading, "read", fail)
    task = HeldTask(plain(tmp_path))
    app = TracetuiApp(task)
    async with app.run_test(size=(80, 24)) as pilot:
        task.start()
        await until(pilot, lambda: "has more events than fit" in text(app))
        assert type(app.screen) is LoadingScreen
        await pilot.press("escape")
    assert app.return_code == 1


async def test_reading_is_stopped_from_the_part():
    task = HeldTask(LLAMA)
    app = TracetuiApp(task)
    async with app.run_test(size=(80, 24)) as pilot:
        task.start()
        await until(pilot, lambda: isinstance(app.screen, PartScreen))
        await pilot.press("escape")
        assert not task.cancelled
        assert "q stops reading" in text(app)
        await pilot.press("q")
        assert task.cancelled
        task.may.set()
    assert app.return_code == 0
    task.ended.result(30)
    assert task.trace is None


@pytest.mark.parametrize("late", ["built", "prepared"])
def test_what_is_cancelled_once_all_is_read_is_not_kept(monkeypatch, uncollected, late):
    """That takes seconds in a large trace, and the screens that are left go on to hold the task."""
    task, traces = LoadTask(LLAMA), []
    prepare = Recording.prepare

    def built(*given: Any) -> Trace:
        trace = build(*given)
        traces.append(weakref.ref(trace.reader))
        if late == "built":
            task.cancel()
        return trace

    def prepared(trace: Trace) -> None:
        assert late == "prepared"
        prepare(trace)
        task.cancel()

    monkeypatch.setattr(loading, "build", built)
    monkeypatch.setattr(Recording, "prepare", prepared)
    task.start().ended.result(30)
    assert task.error is None
    assert task.trace is None
    end = time.monotonic() + 10
    while traces[0]() is not None:  # the thread is about to end
        assert time.monotonic() < end
        if late == "prepared":
            gc.collect()  # what is prepared refers to its trace, so it must not be frozen
        time.sleep(0.001)


async def test_stopped_beside_an_open_trace_one_is_back_there(monkeypatch):
    first = LoadTask(LLAMA).start()
    first.ended.result(30)
    app = TracetuiApp(first)
    async with app.run_test(size=(80, 24)) as pilot:
        shown = screen_of(app)
        task = HeldTask(LLAMA)
        await app.push_screen(LoadingScreen(task.start()))
        await until(pilot, lambda: isinstance(app.screen, PartScreen))
        await pilot.press("q")
        await until(pilot, lambda: app.screen is shown)
        task.may.set()
        again = HeldTask(LLAMA)
        await app.push_screen(LoadingScreen(again.start()))
        await until(pilot, lambda: isinstance(app.screen, PartScreen))
        again.may.set()
        await until(pilot, lambda: len(app.traces) == 2 and app.screen is app.traces[1])
        await pilot.press("t")
        await until(pilot, lambda: app.screen is shown)


def test_no_part_of_what_cannot_be_opened_twice(tmp_path):
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": [slice_event("a", n, 1) for n in range(20_000)]}))
    source = loading.open_source(path)
    path.unlink()
    with pytest.raises(loading.TraceError):
        loading.load_beginning(source, lambda done, total: None, LENGTH)
    source.file.close()
