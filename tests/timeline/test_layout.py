"""Which row lies on which line."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.kineto import Event, cpu, run

from tracetui.session.session import Session
from tracetui.timeline.arrangement import arranged, arrangement, keys, merged
from tracetui.timeline.labels import label_text
from tracetui.timeline.moves import scrolled_by
from tracetui.timeline.scene import TOP, Scene
from tracetui.timeline.track_layout import COUNTER_ROWS, Of, TrackLayout, fitted, lay_out
from tracetui.trace.model import Lane, Trace

Make = Callable[..., Trace]


def layout_of(rows: list[int], docked: list[int] | None = None) -> TrackLayout:
    n = len(rows)
    return TrackLayout(
        np.zeros(n, np.int32), np.zeros(n, np.int32), np.arange(n, dtype=np.int32), np.array(rows, np.int32),
        np.array(rows, np.int32), np.zeros(n, np.int32),
        np.full(n, -1, np.int32) if docked is None else np.array(docked, np.int32)
    )  # fmt: skip


def deep(lane: int, depth: int, at: int = 0) -> list[tuple[int, int, int, str]]:
    return [(lane, at + i, 1000 - 2 * i, f"d{i}") for i in range(depth)]


@given(st.lists(st.integers(1, 5), min_size=1, max_size=12), st.data())
def test_lines_are_those_of_the_whole_list(rows, data):
    layout = layout_of(rows)
    for track in range(len(rows)):
        layout = layout.with_shown(track, data.draw(st.integers(0, rows[track])))
    for track in data.draw(st.sets(st.integers(0, len(rows) - 1))):
        layout = layout.toggle_pin(track)
    pinned = [(t, d) for t in layout.pinned for d in range(int(layout.shown[t]))]
    rest = [(t, d) for t in range(len(rows)) if t not in layout.pinned for d in range(int(layout.shown[t]))]
    top, height = data.draw(st.integers(0, 40)), data.draw(st.integers(0, 30))
    expected = (pinned + rest[top : top + max(0, height - len(pinned))])[:height]
    assert [(line.track, line.depth) for line in layout.lines(top, height)] == expected
    assert layout.height == len(rest)
    assert layout.pinned_height == len(pinned)
    for at, (track, depth) in enumerate(rest):
        assert layout.place(track, depth) == at


def test_what_is_folded_is_counted():
    layout = layout_of([5, 2]).with_shown(0, 3)
    lines = layout.lines(0, 10)
    assert [line.more for line in lines] == [0, 0, 2, 0, 0]
    assert len(layout.with_all(1).lines(0, 10)) == 2
    hidden = layout.with_shown(1, 0)
    assert len(hidden.lines(0, 10)) == 3
    assert [line.track for line in hidden.with_hidden().lines(0, 10)] == [0, 0, 0, 1, 1]


def test_order_and_pins_move_together():
    layout = layout_of([1, 2, 3]).toggle_pin(2)
    moved = layout.reorder(0, 1)
    assert moved.ref.tolist() == [1, 0, 2]
    assert moved.pinned == (2,)
    moved = layout.reorder(2, -5)
    assert moved.ref.tolist() == [2, 0, 1]
    assert moved.pinned == (0,)
    assert moved.rows.tolist() == [3, 1, 2]


def test_a_lane_moves_past_those_that_are_seen_with_it():
    layout = layout_of([1, 1, 1, 1, 1]).with_shown(2, 0).toggle_pin(0).toggle_pin(4)
    down = layout.moved(1, 1)
    assert down.ref.tolist() == [0, 2, 3, 1, 4]  # past 3: 2 is hidden
    back = down.moved(3, -1)
    assert [line.ref for line in back.lines(0, 9)] == [line.ref for line in layout.lines(0, 9)]
    assert layout.moved(1, -1) is None  # above it are pinned ones only
    assert down.moved(3, 1) is None
    assert layout.moved(2, 1) is None  # hidden
    up = layout.moved(4, -1)
    assert up.pinned == (0, 1)
    assert [line.ref for line in up.lines(0, 9)] == [4, 0, 1, 3]


def test_everything_has_a_place_when_it_opens(make):
    trace = make([*deep(0, 30), *deep(1, 4), *deep(2, 2)], streams=[2])
    layout = lay_out([trace], 20)
    assert layout.height <= 20
    assert layout.shown.tolist() == [9, 4, 4]  # the deep thread gives way, and only as far as it must
    counted = layout.with_counters(2, devices=[0, 0])  # for which there is room
    assert sum(counted.parts(20)) == counted.height + counted.dock.height == 20
    assert lay_out([trace], 12).shown.tolist() == [3, 3, 3]  # half of it at most for the device
    assert lay_out([trace], 10).shown.tolist() == [2, 2, 2]
    assert lay_out([trace], 100).shown.tolist() == [30, 4, 4]


def test_devices_stay_on_a_screen_full_of_threads(make):
    slices = [s for lane in range(40) for s in deep(lane, 2)] + [(40, 0, 100, "kernel")]
    layout = lay_out([make(slices, streams=[40])], 20)
    for top in (0, 7):
        shown = layout.lines(top, 20)
        assert [(line.of, line.ref) for line in shown[-4:]] == [(Of.RULE, 0), *[(Of.LANE, 40)] * 3]
        assert [(line.part, line.parts) for line in shown[-3:]] == [(0, 3), (1, 3), (2, 3)]
        assert [line.ref for line in shown[:16]] == list(range(top, top + 16))
        assert len(shown) == 20


def test_streams_of_one_device_get_a_heading(make):
    trace = make([(0, 0, 10, "op"), (1, 0, 10, "k"), (2, 0, 10, "k")], streams=[1, 2])
    assert [Of(o) for o in lay_out([trace], 20).of.tolist()] == [Of.LANE, Of.DEVICE, Of.LANE, Of.LANE]
    alone = make([(0, 0, 10, "op"), (1, 0, 10, "k")], streams=[1])
    assert [Of(o) for o in lay_out([alone], 20).of.tolist()] == [Of.LANE, Of.LANE]


def test_the_span_of_the_recording_comes_last(make):
    trace = make([(0, 0, 10, "op"), (1, 0, 10, "PyTorch Profiler (0)"), (2, 0, 10, "k")], streams=[2])
    lanes = (trace.lanes[0], replace(trace.lanes[1], kind="span"), trace.lanes[2])
    layout = lay_out([dataclasses.replace(trace, lanes=lanes)], 20)
    assert layout.ref.tolist() == [0, 2, 1]
    # It says next to nothing, and is hidden until it is asked for.
    assert layout.shown.tolist() == [1, 3, 0]
    assert fitted(layout, 50).shown.tolist() == [1, 3, 0]
    assert layout.with_hidden().shown.tolist() == [1, 3, 1]
    alone = dataclasses.replace(
        trace, lanes=tuple(replace(lane, kind="span", device=-1) for lane in trace.lanes)
    )
    assert lay_out([alone], 20).shown.tolist() == [1, 1, 1]


def test_what_was_hidden_comes_back_as_it_was(make):
    trace = make([*deep(0, 5), *deep(1, 4), *deep(2, 3)])
    hidden = lay_out([trace], 50).with_shown(1, 2).with_shown(0, 0).with_shown(1, 0).reorder(1, 1)
    assert hidden.shown.tolist() == [0, 3, 0]
    back = hidden.with_hidden()
    assert back.shown.tolist() == [5, 3, 2]
    assert back.chosen == {2}  # the lines of the other still go by the room that there is
    # Kept from an earlier session it is only known to have been hidden.
    again = arranged(trace, lay_out([trace], 50), arrangement(trace, hidden))
    assert again.with_hidden().shown.tolist() == [1, 3, 1]


def test_counters_come_last_with_a_line_each(make):
    layout = lay_out([make(deep(0, 5))], 10).with_counters(3)
    assert layout.shown.tolist() == [5, 1, 1, 1]
    assert layout.rows.tolist() == [5, *[COUNTER_ROWS] * 3]
    assert layout.with_counters(3).shown.tolist() == [5, 1, 1, 1]
    assert layout.with_counters(7).shown.tolist() == [5, *[1] * 7]  # the last are below the screen
    assert layout.with_counters(9).shown.tolist() == [5, 1, 1, 1, *[0] * 6]  # too many
    assert len(layout.with_counters(1)) == 4


@pytest.mark.parametrize("lanes", [100_000])
def test_very_many_lanes(make, lanes):
    trace = make([(0, 0, 10, "a")])
    many = dataclasses.replace(
        trace, lanes=tuple(Lane(0, str(i), "t", "thread", -1, 0, 1, 1) for i in range(lanes))
    )
    layout = lay_out([many], 40)
    assert layout.height == lanes
    assert [line.ref for line in layout.lines(lanes - 3, 40)] == [lanes - 3, lanes - 2, lanes - 1]
    assert layout.place(layout.track_of(Of.LANE, lanes // 2), 0) == lanes // 2


def test_no_lanes(make):
    layout = lay_out([make([])], 10)
    assert layout.lines(0, 10) == []
    assert layout.height == 0
    assert layout.track_of(Of.LANE, 0) == -1


def test_an_arrangement_survives(make):
    import json

    trace = make([*deep(0, 5), *deep(1, 3), (2, 0, 9, "k"), (3, 0, 9, "k")], streams=[2, 3])
    first = lay_out([trace], 50).with_counters(1)
    mine = first.with_shown(0, 2).with_shown(1, 0).with_shown(4, 1).toggle_pin(3).reorder(4, -4)
    kept = json.loads(json.dumps(arrangement(trace, mine)))
    assert [one["rows"] for one in kept] == [1, 2, 0, None, None, None]
    again = arranged(trace, lay_out([trace], 50).with_counters(1), kept)
    for name in ("of", "ref", "rows", "shown"):
        assert getattr(again, name).tolist() == getattr(mine, name).tolist(), name
    assert again.pinned == mine.pinned


def test_what_a_person_did_not_fold_goes_by_the_room_there_is(make):
    trace = make([*deep(0, 30), *deep(1, 30), *deep(2, 8), (3, 0, 9, "k")], streams=[3])
    tall = lay_out([trace], 60).reorder(0, 1).with_shown(2, 3)
    again = fitted(arranged(trace, lay_out([trace], 20), arrangement(trace, tall)), 20)
    assert again.ref.tolist() == [1, 0, 2, 3]
    assert again.shown.tolist() == [5, 5, 3, 3]
    every = tall.with_shown(0, 99)
    again = fitted(arranged(trace, lay_out([trace], 20), arrangement(trace, every)), 20)
    assert again.shown.tolist() == [30, 1, 3, 3]
    # Lines that came by themselves, as by a jump to a deep event, are not a person's wish.
    assert arrangement(trace, tall.with_shown(1, 30, chosen=False)) == arrangement(trace, tall)


def test_what_is_new_stays_below_what_it_was_below(make):
    trace = make([(lane, 0, 9, "op") for lane in range(5)])
    layout = lay_out([trace], 50).with_counters(2)
    names = keys(trace, layout)
    kept = [{"track": names[2]}, {"track": "lane 9 9 thread", "rows": 0}, {"track": names[0]}]
    again = arranged(trace, layout, kept)
    assert [(Of(o), r) for o, r in zip(again.of.tolist(), again.ref.tolist(), strict=True)] == [
        *((Of.LANE, lane) for lane in (2, 3, 4, 0, 1)), *((Of.COUNTER, n) for n in (0, 1))
    ]  # fmt: skip
    assert arranged(trace, layout.toggle_pin(1), kept).pinned == (4,)


def test_no_two_tracks_share_a_key(make):
    trace = make([(lane, 0, 9, "op") for lane in range(3)])
    trace = dataclasses.replace(trace, lanes=tuple(replace(lane, tid="1") for lane in trace.lanes))
    layout = lay_out([trace], 50)
    assert len(set(keys(trace, layout))) == 3
    assert arranged(trace, layout, arrangement(trace, layout.reorder(2, -2))).ref.tolist() == [2, 0, 1]


def test_what_is_not_there_yet_keeps_its_place():
    def kept(*tracks: str) -> list[dict[str, object]]:
        return [{"track": t} for t in tracks]

    x, y, z = "counter x", "counter y", "counter z"
    assert merged(kept("b", "a"), kept(x, "a", "lane gone", y, z, "b")) == kept(x, "b", "a", y, z)
    assert merged(kept("b", x, "a"), kept("a", x)) == kept("b", x, "a")
    assert merged(kept("b", "a"), []) == kept("b", "a")


@pytest.mark.parametrize("kept", [
    [], [{}], [{"track": 5, "rows": "x"}], [{"track": "lane 1 0 thread", "rows": 10**30, "pinned": 1}] * 2
])  # fmt: skip
def test_a_spoilt_arrangement_does_no_harm(make, kept):
    trace = make([*deep(0, 5), *deep(1, 3)])
    layout = arranged(trace, lay_out([trace], 50), kept)
    assert sorted(layout.ref.tolist()) == [0, 1]
    assert (layout.shown <= layout.rows).all()
    assert (layout.shown >= 0).all()


def test_the_dock_stays_below_whatever_scrolls():
    layout = layout_of([9, 3, 4, 1], [-1, 0, 0, 1])
    assert (layout.height, layout.dock.height) == (9, 10)

    def seen(layout: TrackLayout, height: int, top: int = 0, foot: int = 0) -> list[tuple[int, int]]:
        lines = layout.lines(top, height, foot)
        return [(line.track, -1 if line.of is Of.RULE else line.depth) for line in lines]

    dock = [(1, -1), *((1, d) for d in range(3)), *((2, d) for d in range(4)), (3, -1), (3, 0)]
    assert seen(layout, 19) == [*((0, d) for d in range(9)), *dock]
    # At most half of the screen, and then it scrolls by itself.
    assert layout.parts(10) == (0, 5, 5)
    assert seen(layout, 10) == [*((0, d) for d in range(5)), *dock[:5]]
    assert seen(layout, 10, 2, 5) == [*((0, d) for d in range(2, 7)), *dock[5:]]
    # Unless there is room.
    few = layout.with_shown(0, 2)
    assert few.parts(10) == (0, 2, 8)
    assert seen(few, 10) == [(0, 0), (0, 1), *dock[:8]]
    assert few.parts(30) == (0, 20, 10)
    assert seen(few, 30) == [(0, 0), (0, 1), *dock]
    # What is pinned leaves it, what is hidden takes its rule along.
    assert seen(few.toggle_pin(3), 30) == [(3, 0), (0, 0), (0, 1), *dock[:8]]
    assert seen(few.with_shown(3, 0), 30) == [(0, 0), (0, 1), *dock[:8]]
    assert [few.place(2, d) for d in (0, 3)] == [4, 7]
    assert layout_of([3], [-1]).parts(10) == (0, 10, 0)


def test_streams_come_first_in_a_dock_too_small_for_all():
    wide = replace(layout_of([1, 3, 1], [0, 0, 0]), extra=np.array([0, 2, 0], np.int32))
    assert wide.order == [0, 1, 2]
    assert replace(wide, tight=True).order == [1, 0, 2]


def test_what_is_docked_moves_within_its_device():
    layout = layout_of([1, 1, 1, 1, 1], [-1, 0, 1, 0, -1])
    assert layout.order == [0, 4, 1, 3, 2]
    down = layout.moved(1, 1)
    assert [line.ref for line in down.lines(0, 9) if line.of is Of.LANE] == [0, 4, 3, 1, 2]
    assert layout.moved(2, 1) is layout.moved(2, -1) is layout.moved(1, -1) is None
    past = layout.moved(0, 1)
    assert [past.ref[track] for track in past.order] == [4, 0, 1, 3, 2]


@given(st.lists(st.integers(1, 4), min_size=1, max_size=8), st.data())
def test_every_line_is_somewhere_once(rows, data):
    devices = [data.draw(st.integers(-1, 2)) for _ in rows]
    layout = layout_of(rows, devices)
    for track in range(len(rows)):
        layout = layout.with_shown(track, data.draw(st.integers(0, rows[track])))
    height = data.draw(st.integers(0, 40))
    parts = layout.parts(height)
    assert parts.docked <= max(height // 2, height - layout.height)
    found: set[tuple[int, int]] = set()
    for at in range(40):
        lines = layout.lines(at, height, at)
        assert len(lines) <= height
        found |= {(line.track, line.depth) for line in lines if line.of is Of.LANE}
    room = {"scrolled": parts.scrolled > 0, "docked": parts.docked > 0}
    expected = {
        (track, depth) for track in range(len(rows)) for depth in range(int(layout.shown[track]))
        if room["docked" if devices[track] >= 0 else "scrolled"]
    }  # fmt: skip
    assert found == expected


def test_the_lines_of_a_stream(make):
    """Three for its first row where there is room; folded it has one."""
    layout = lay_out([make([*deep(0, 3), *deep(1, 2)], streams=[1])], 40)
    assert (layout.rows.tolist(), layout.shown.tolist()) == ([3, 4], [3, 4])

    def lines(layout: TrackLayout) -> list[tuple[int, int, int, int]]:
        shown = layout.lines(0, 40)
        return [(one.depth, one.part, one.parts, one.more) for one in shown if one.ref == 1]

    assert lines(layout) == [(0, 0, 3, 0), (0, 1, 3, 0), (0, 2, 3, 0), (1, 0, 1, 0)]
    assert lines(layout.with_shown(1, 3)) == [(0, 0, 2, 0), (0, 1, 2, 0), (1, 0, 1, 0)]
    assert lines(layout.with_shown(1, 2)) == [(0, 0, 1, 0), (1, 0, 1, 0)]
    assert lines(layout.with_shown(1, 1)) == [(0, 0, 1, 1)]
    assert [layout.place(1, d) for d in (0, 1)] == [1, 4]
    assert [layout.with_shown(1, n).depths(1) for n in range(5)] == [0, 1, 2, 2, 2]


def test_lines_that_are_left_go_to_the_first_thread_of_each_recording():
    """So that a row that is unfolded later moves no more than the threads below it."""
    one = replace(layout_of([9, 9, 9, 9]), source=np.array([0, 0, 1, 1], np.int32))
    assert fitted(one, 18).shown.tolist() == [5, 4, 5, 4]
    assert fitted(one, 17).shown.tolist() == [4, 4, 4, 4]
    assert fitted(layout_of([9, 9, 9, 9]), 18).shown.tolist() == [4, 4, 4, 4]


@pytest.fixture
def opened(tmp_path: Path, state: Path) -> Callable[..., Session]:
    def make(*events: Event, height: int = 40) -> Session:
        path = tmp_path / "t.json"
        path.write_text(json.dumps({"traceEvents": events}))
        session = Session.open(path)
        session.lanes.resize(100, height)
        return session

    return make


def process(pid: str) -> list[Event]:
    return [cpu("op", 0, 100) | {"pid": pid, "tid": tid} for tid in (1, 2)]


def keys_of(session: Session) -> list[str]:
    scene = session.navigator.scene
    return [key for key in keys(session.active.trace, scene.layout, scene.source.series) if key]


def test_the_keys_of_tracks_stay_where_another_process_comes_before(opened):
    """What a person has arranged is found again by them."""
    two = keys_of(opened(*process("20"), *process("30"), *run(10, 5, 1)))
    three = keys_of(opened(*process("10"), *process("20"), *process("30"), *run(10, 5, 1)))
    assert len(set(two)) == len(two)
    assert len(set(three)) == len(three)
    assert set(two) < set(three)
    assert {"process 20", "process 30", "lane 20 1 thread", "lane 30 2 thread"} <= set(two)
    assert set(three) - set(two) == {"process 10", "lane 10 1 thread", "lane 10 2 thread"}


def labels(scene: Scene, *of: Of) -> set[str]:
    lines = scene.layout.lines(scene.top, 200)
    return {label_text(scene, line) for line in lines if line.of in of}


def test_the_rules_and_headings_of_ranks_are_called_by_them(opened):
    def of_rank(label: str) -> list[Event]:
        events = [*process("20"), *run(10, 5, 1), *run(30, 5, 2)]
        return [event | {"pid": f"{label}{event['pid']}"} for event in events]

    scene = opened(*of_rank("[TP00] "), *of_rank("[TP01] ")).navigator.scene
    assert labels(scene, Of.RULE) == {"[TP00] GPU 0", "[TP01] GPU 1"}
    assert {text[:6] for text in labels(scene, Of.PROCESS)} == {"[TP00]", "[TP01]"}
    alone = opened(*process("20"), *process("30"), *run(10, 5, 1), *run(30, 5, 2)).navigator.scene
    assert labels(alone, Of.RULE) == {"GPU 0"}
    assert not [text for text in labels(alone, Of.PROCESS) if "[" in text]


def test_the_part_that_can_be_scrolled_scrolls(opened):
    """The dock, if it can be, where the pointer is on it or nothing else can be; else the rest."""

    def moved(scene: Scene, height: int, docked: bool) -> tuple[int, int]:
        after = scrolled_by(scene, 1, height, docked=docked)
        return after.top - scene.top, after.foot - scene.foot

    threads = [cpu("op", 0, 100) | {"tid": tid} for tid in range(20)]
    streams = [
        event for n in range(30)
        for event in run(10, 50, n, tid=n, args={"correlation": n, "device": 0, "stream": n})
    ]  # fmt: skip
    for events, above, below in (
        ([*threads, *streams], True, True),
        ([*threads, *run(10, 5, 1)], True, False),
        ([*threads[:1], *streams], False, True),
        ([*threads[:1], *run(10, 5, 1)], False, False),
    ):
        scene, height = opened(*events, height=20).navigator.scene, 20
        _, room, shown = scene.layout.parts(height - TOP)
        assert (scene.layout.height > room, scene.layout.dock.height > shown) == (above, below)
        assert moved(scene, height, False) == ((1, 0) if above else (0, 1) if below else (0, 0))
        assert moved(scene, height, True) == ((0, 1) if below else (1, 0) if above else (0, 0))
