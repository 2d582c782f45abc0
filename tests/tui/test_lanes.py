"""Lanes in the order, folds and pins that a person left them in."""

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tracetui.session.arranging import load_lanes, save_lanes
from tracetui.session.state import state_file
from tracetui.timeline.arrangement import keys
from tracetui.timeline.scene import TOP
from tracetui.timeline.track_layout import Of
from tracetui.tui.controllers import lanes as arranging
from tracetui.tui.controllers.screen_context import ScreenContext
from tracetui.tui.screens.trace import TraceScreen

from .conftest import DATA, app_of, screen_of, slice_event, until, visit, write_trace
from .test_app import text

MLP = DATA / "mlp_eager.json.gz"
SIZE = (80, 30)


def threads(path: Path, count: int, first: int = 1) -> Path:
    events = [
        slice_event(f"op {tid}", 100 + depth, 1000 - 2 * depth, tid) for tid in range(first, first + count)
        for depth in range(3)
    ]  # fmt: skip
    return write_trace(path, events)


def order(screen: TraceScreen) -> list[str]:
    """The lanes from top to bottom, with their rows and pins."""
    layout = screen.navigator.scene.layout
    return [
        f"{key.split(' ')[2]} {rows}{' pinned' if n in layout.pinned else ''}"
        for n, (key, rows) in enumerate(zip(keys(screen.trace, layout), layout.shown.tolist(), strict=True))
        if layout.of[n] == Of.LANE
    ]


async def test_an_event_that_was_unfolded_leaves_the_lanes_to_the_room_there_is(tmp_path):
    events = [slice_event("op", 100 + d, 1000 - 2 * d, tid) for tid in range(1, 6) for d in range(8)]
    async with visit(write_trace(tmp_path / "deep.json", events), size=SIZE) as (app, pilot, _):
        view = screen_of(app).timeline
        await until(pilot, lambda: view.navigator.scene.layout.height > 0)
        opened = view.navigator.scene.layout.shown.tolist()
        deepest = max(
            range(len(view.navigator.trace)), key=lambda i: (int(view.navigator.trace.depth[i]), -i)
        )
        track = view.navigator.scene.layout.track_of(Of.LANE, int(view.navigator.trace.lane[deepest]))
        assert opened[track] < 8
        view.navigator.select(deepest)
        assert view.navigator.scene.layout.shown[track] == 8
        await pilot.resize_terminal(80, 70)
        await until(pilot, lambda: view.navigator.scene.layout.shown.tolist() == [8] * len(opened))
        await pilot.resize_terminal(*SIZE)
        await until(pilot, lambda: view.size.height < 30)
        await pilot.pause()
        assert view.navigator.scene.layout.shown.tolist() == [*opened[:track], 8, *opened[track + 1 :]]
        lines = view.navigator.scene.lines(view.size.height - TOP)
        assert (track, 7) in [(line.track, line.depth) for line in lines]


async def arrange(path: Path, *acts: str) -> list[str]:
    """The lanes after some acts: a key, with a lane's `tid:` before it to be selected first."""
    async with visit(path, size=SIZE) as (_, pilot, screen):
        for act in acts:
            tid, colon, key = act.rpartition(":")
            if colon:
                lane = next(lane for lane in screen.trace.lanes if lane.tid == tid)
                screen.navigator.select(lane.first, reveal=False)
            await pilot.press(key)
        await pilot.pause()
        return order(screen)


async def test_lanes_move_fold_hide_and_pin_and_stay_so(tmp_path):
    path = threads(tmp_path / "t.json", 4)
    opened = ["1 3", "2 3", "3 3", "4 3"]
    assert await arrange(path) == opened
    left = await arrange(path, "1:J", "J", "z", "2:p", "4:x", "3:J")
    assert left == ["2 3 pinned", "1 1", "3 3", "4 0"]
    assert await arrange(path) == left
    assert await arrange(path, "O") == opened
    assert await arrange(path) == opened


async def test_a_lane_comes_back_up_and_the_ends_are_told(tmp_path):
    async with visit(threads(tmp_path / "t.json", 2), size=SIZE) as (_, pilot, screen):
        await pilot.press("J")
        assert "select an event" in screen.footer.message
        await pilot.press("right", "K")
        assert screen.footer.message == "no lane above to move past"
        await pilot.press("J", "J")
        assert screen.footer.message == "no lane below to move past"
        assert order(screen) == ["2 3", "1 3"]
        await pilot.press("K")
        assert order(screen) == ["1 3", "2 3"]
        await pilot.press("x", "J")
        assert "hidden" in screen.footer.message


async def test_a_moved_lane_stays_on_the_screen(tmp_path):
    async with visit(threads(tmp_path / "t.json", 30), size=SIZE) as (_, pilot, screen):
        await pilot.press("right", *"J" * 29)
        await pilot.pause()
        assert order(screen)[-1].startswith("1 ")
        lane = int(screen.trace.lane[screen.navigator.selected or 0])
        shown = screen.navigator.scene.lines(screen.timeline.size.height - 2)
        assert lane in [line.ref for line in shown]


class Later:
    """A timer whose time comes when the test says so."""

    def __init__(self, call: Callable[[], None]) -> None:
        self.call, self.stopped = call, False

    def stop(self) -> None:
        self.stopped = True


async def test_it_is_written_once_the_lanes_rest_or_at_the_end(tmp_path, monkeypatch):
    path = threads(tmp_path / "t.json", 3)
    written: list[int] = []

    def count(*given: Any) -> bool:
        written.append(threading.get_ident())
        return save_lanes(*given)

    timers: list[Later] = []
    after = ScreenContext.after

    def later(self: ScreenContext, seconds: float, call: Callable[[], None]) -> Any:
        if seconds != arranging.SAVE_DELAY:
            return after(self, seconds, call)
        timers.append(Later(call))
        return timers[-1]

    monkeypatch.setattr(arranging, "save_lanes", count)
    monkeypatch.setattr(arranging, "SAVE_DELAY", 77)
    monkeypatch.setattr(ScreenContext, "after", later)
    async with visit(path, size=SIZE) as (app, pilot, _):
        await pilot.press("right", "J", "J", "K", "z", "z")
        assert len(timers) > 1
        (last,) = (timer for timer in timers if not timer.stopped)
        assert written == []
        last.call()
        await until(pilot, lambda: written != [])
        await app.workers.wait_for_complete()
        assert len(written) == 1
        assert written[0] != threading.get_ident()
        await pilot.press("J")
    assert len(written) == 2
    assert [e["track"] for e in load_lanes(str(path))][-1] == "lane 1 1 thread"


async def test_where_nothing_can_be_written_one_is_told(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("TRACETUI_STATE", str(tmp_path / "file"))
    monkeypatch.setattr(arranging, "SAVE_DELAY", 0.05)
    async with visit(threads(tmp_path / "t.json", 2), size=SIZE) as (app, pilot, _):
        await pilot.press("right", "J")
        await until(pilot, lambda: "the lanes are not saved" in screen_of(app).footer.message)


async def test_looking_alone_writes_nothing(tmp_path, state):
    path = threads(tmp_path / "t.json", 3)
    await arrange(path, "right", "down", "down", "down", "down", "w", "w", "f", "f")
    assert not (state / "lanes").exists()


async def test_counters_that_come_later_find_their_places(tmp_path):
    events = [slice_event("op", 100, 1000), slice_event("op", 100, 1000, 2)]
    for name in ("first", "second"):
        events += [{"ph": "C", "pid": 1, "name": name, "ts": 100 + t, "args": {"v": t}} for t in range(5)]
    path = write_trace(tmp_path / "t.json", events)
    async with visit(path, size=SIZE) as (app, pilot, _):
        timeline = screen_of(app).timeline
        await until(pilot, lambda: len(timeline.navigator.scene.source.series) == 2)
        tracks = timeline.navigator.scene.layout
        counter = tracks.track_of(Of.COUNTER, 1)
        timeline.lanes.toggle_track(counter)  # as a click on its label does
        rows, name = (
            int(timeline.navigator.scene.layout.shown[counter]),
            timeline.navigator.scene.source.series[1].name,
        )
        assert rows != int(tracks.shown[counter])
        timeline.lanes._arrange(timeline.navigator.scene.layout.reorder(counter, -2))
        await pilot.pause()
    again = app_of(path)
    async with again.run_test(size=SIZE) as pilot:
        timeline = screen_of(again).timeline
        await until(pilot, lambda: len(timeline.navigator.scene.source.series) == 2)
        layout = timeline.navigator.scene.layout
        assert [Of(o) for o in layout.of.tolist()] == [Of.LANE, Of.COUNTER, Of.LANE, Of.COUNTER]
        assert timeline.navigator.scene.source.series[int(layout.ref[1])].name == name
        assert int(layout.shown[1]) == rows


async def test_what_was_kept_of_counters_is_not_lost_before_they_come(tmp_path, monkeypatch):
    path = threads(tmp_path / "t.json", 2)
    kept = [
        {"track": "lane 1 2 thread", "rows": None, "pinned": False},
        {"track": "counter memory", "rows": 0, "pinned": False},
        {"track": "lane 7 7 thread", "rows": 0, "pinned": False},
        {"track": "lane 1 1 thread", "rows": None, "pinned": False},
    ]
    save_lanes(str(path), kept)
    await arrange(path, "1:z")
    found = load_lanes(str(path))
    assert [e["track"] for e in found] == ["lane 1 2 thread", "counter memory", "lane 1 1 thread"]
    assert found[1] == kept[1]


async def test_of_another_trace_at_the_path_what_fits_is_taken(tmp_path):
    path = threads(tmp_path / "t.json", 4)
    await arrange(path, "1:J", "z")  # 2, 1 (folded), 3, 4
    threads(path, 3, first=0)  # no 3 and 4 any more, but a 0
    assert await arrange(path) == ["2 3", "1 1", "0 3"]  # which stood below 1


@pytest.mark.parametrize("spoilt", [
    b"\xff", b"{", b"[1]", b'{"lanes": {"track": 1}}',
    b'{"lanes": [7, null, {"track": 5}, {"rows": 0}, {"track": "x", "rows": "y", "pinned": []}]}',
    b'{"lanes": [{"track": "lane 1 1 thread", "rows": -5e999, "pinned": 0}]}',
    b'{"lanes": [{"track": "lane 1 1 thread", "rows": 1' + b"0" * 30 + b"}]}",
    b'{"lanes": ' + b"[" * 5000 + b"]" * 5000 + b"}"
])  # fmt: skip
async def test_a_spoilt_file_is_as_good_as_none(tmp_path, spoilt):
    path = threads(tmp_path / "t.json", 2)
    file = state_file("lanes", str(path))
    file.parent.mkdir(parents=True)
    file.write_bytes(spoilt)
    assert sorted(await arrange(path)) == ["1 3", "2 3"]


async def test_a_hidden_everything_can_be_brought_back(tmp_path):
    path = threads(tmp_path / "t.json", 2)
    save_lanes(str(path), [{"track": f"lane 1 {n} thread", "rows": 0} for n in (1, 2)])
    assert await arrange(path, "X") == ["1 1", "2 1"]


def test_standard_input_and_pipes_keep_nothing(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in ("-", str(pipe)):
        assert state_file("lanes", path, tmp_path) is None
        assert save_lanes(path, [{"track": "lane"}], tmp_path)
        assert load_lanes(path, tmp_path) == []
    assert [p.name for p in tmp_path.iterdir()] == ["pipe"]


def test_a_file_is_there_whole_or_not_at_all(tmp_path, monkeypatch):
    save_lanes("t.json", [{"track": "a"}], tmp_path)
    file = state_file("lanes", "t.json", tmp_path)
    assert json.loads(file.read_text())["lanes"] == [{"track": "a"}]

    def full(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("tracetui.core.writing.move", full)
    assert not save_lanes("t.json", [{"track": "b"}], tmp_path)
    assert load_lanes("t.json", tmp_path) == [{"track": "a"}]
    assert [p.name for p in file.parent.iterdir()] == [file.name]  # nothing half-written lies about


async def test_a_maximized_pane_is_left_before_anything_is_cleared():
    async with visit(MLP, size=SIZE) as (app, pilot, screen):
        await pilot.press("right", "r", "slash", *"mm", "enter", "v")
        picture = screen.query_one("#picture")
        assert not picture.display
        selected = screen.navigator.selected
        await pilot.press("escape")
        assert picture.display
        assert screen.session.search
        assert screen.navigator.range_ns is not None
        assert screen.navigator.selected == selected
        assert "ProfilerStep" in text(app)
