"""Several recordings on one axis: each is drawn as it is alone, in its own place and with its own offset."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tracetui.timeline import moves
from tracetui.timeline.arrangement import arranged, arrangement, now, opened, with_series
from tracetui.timeline.canvas import Canvas
from tracetui.timeline.counters import values_at
from tracetui.timeline.frame import paint
from tracetui.timeline.gap_cells import gap_at
from tracetui.timeline.navigate import event_at
from tracetui.timeline.overview import _cells, overview_borders
from tracetui.timeline.scene import EDGE, TOP, Idle, Scene
from tracetui.timeline.series import counters
from tracetui.timeline.themes import DARK, PLAIN, Theme
from tracetui.timeline.track_layout import Line, Of, lay_out
from tracetui.timeline.viewport import Viewport, fit
from tracetui.trace import load
from tracetui.trace.model import Trace

from .conftest import Slice, scene_of, together, trace_of

DATA = Path(__file__).resolve().parent.parent / "data"
Make = Callable[..., Trace]


def gaps_of(trace: Trace) -> dict[int, Idle]:
    return {d: Idle(b.end[:-1], b.start[1:]) for d, b in scene_of(trace).source.devices.items() if d >= 0}


def own(line: Line) -> tuple[int, int, int, int]:
    return int(line.of), line.ref, line.depth, line.part


def same_lines(one: Canvas, two: Canvas, at: int, to: int) -> bool:
    names = ("glyph", "ink", "paper", "attributes")
    return all(np.array_equal(getattr(one, name)[at], getattr(two, name)[to]) for name in names)


def two_samples(theme: Theme) -> tuple[Scene, list[Scene]]:
    """Two real recordings together, the second one 3.3 ms later; and each alone, in its trace's own time."""
    traces = [load(DATA / f"{name}.json.gz") for name in ("mlp_eager", "matmul_add_64_cold_eager")]
    alone = [scene_of(t, height=500, theme=theme).having(gaps=gaps_of(t)) for t in traces]
    offsets = (0, 3_300_007)
    both = together(*zip(alone, offsets, strict=True), height=500)
    views = [Viewport(float(both.view.start_ns - at), both.view.scale, both.view.width) for at in offsets]
    return both, [replace(scene, view=view) for scene, view in zip(alone, views, strict=True)]


def test_two_samples_are_drawn_as_each_is_alone():
    for theme in (DARK, PLAIN):
        both, alone = two_samples(theme)
        selected = int(np.flatnonzero(alone[1].source.trace.launch >= 0)[0])
        matches = np.zeros(len(alone[0].source.trace), dtype=np.bool_)
        matches[::5] = True
        # Without its flow, which crosses the other one's lanes.
        both = replace(moves.chosen(both.having(0, matches=matches), selected, of=1), flows=())
        alone = [
            alone[0].having(matches=matches, same=both.sources[0].same),
            replace(moves.chosen(alone[1], selected), flows=()),
        ]
        height = TOP + both.layout.height + both.layout.dock.height
        picture = paint(both, height)
        seen = 0
        for of, scene in enumerate(alone):
            places = {own(line): y for y, line in enumerate(scene.lines(500), TOP)}
            mine = paint(scene, TOP + len(places))
            for y, line in enumerate(both.lines(500), TOP):
                if line.source == of and line.of is Of.RULE:
                    assert f"run {of + 1} · GPU 0" in picture.text(y)
                    assert "─ GPU 0" in mine.text(places.pop(own(line)))
                elif line.source == of and line.of is not Of.RECORDING:
                    assert same_lines(picture, mine, y, places.pop(own(line)))
                    seen += bool(picture.text(y)[both.labels : -EDGE].strip())
            assert not places
        assert seen > 12
        assert sum(line.of is Of.RECORDING for line in both.lines(500)) == 2
        assert [y for y in range(height) if picture.text(y).startswith(" run ")] == [
            TOP, TOP + 1 + alone[0].layout.height
        ]  # fmt: skip


@st.composite
def rows_of_slices(draw: st.DrawFn) -> list[Slice]:
    slices: list[Slice] = []
    for lane in range(2):
        at = draw(st.integers(0, 50))
        parts = st.tuples(st.integers(0, 40), st.integers(0, 60), st.sampled_from("abcd"))
        for gap, length, name in draw(st.lists(parts, max_size=30)):
            slices.append((lane, at + gap, length, name))
            at += gap + max(length, 1)
    return slices


@given(rows_of_slices(), st.integers(-(2**40), 2**40), st.integers(1, 30), st.integers(0, 20))
def test_a_shifted_recording_is_the_same_picture_elsewhere(slices, offset, cell, cells):
    trace = trace_of(slices, streams=[1])
    view = Viewport(0.0, float(cell), 60)
    bare = scene_of(trace, view, short=lambda _: "")
    bare = replace(bare, layout=bare.layout.with_all(1))  # durations begin at the edge of the screen
    alone = bare.having(gaps=gaps_of(trace))
    # With the view shifted alike nothing changes but the ruler's times.
    low, high = alone.span
    there = replace(alone, view=replace(view, start=float(offset)), span=(low + offset, high + offset))
    picture, shifted = paint(alone, 8), paint(there.having(offset=offset), 8)
    assert all(same_lines(shifted, picture, y, y) for y in (0, *range(TOP, 8)))
    # With the view as it is, it lies so many cells to the right. (At the edges bars are cut.)
    picture, moved = paint(bare, 8), paint(bare.having(offset=cells * cell), 8)
    left, right = slice(bare.labels + 1, -EDGE - cells - 3), slice(bare.labels + 1 + cells, -EDGE - 3)
    for name in ("glyph", "ink", "paper", "attributes"):
        assert np.array_equal(getattr(moved, name)[TOP:, right], getattr(picture, name)[TOP:, left]), name


def pair(*, view: Viewport | None = None, height: int = 40) -> Scene:
    """Two runs of one program: a thread, and a stream with a gap. The second lies 10 µs later, and has a name
    of its own."""
    first = trace_of(
        [(0, 0, 5000, "step"), (0, 500, 1000, "op"), (1, 1000, 1000, "k"), (1, 4000, 1000, "k")], streams=[1],
        launches={2: 1}, counters=[("memory", 0, 1.0), ("memory", 3000, 2.0)]
    )  # fmt: skip
    second = trace_of(
        [(0, 0, 4000, "other"), (0, 500, 1000, "op"), (1, 1000, 500, "k"), (1, 3000, 1000, "k")], streams=[1],
        launches={2: 1}, counters=[("memory", 0, 5.0)]
    )  # fmt: skip
    parts = [scene_of(t, height=height).having(gaps=gaps_of(t)) for t in (first, second)]
    return together((parts[0], 0), (parts[1], 10_000), view=view or Viewport(0.0, 250.0, 60), height=height)


def place(scene: Scene, source: int, of: Of, ref: int, depth: int = 0) -> int:
    """The line of the picture."""
    key = (source, of, ref, depth)
    return TOP + [(one.source, one.of, one.ref, one.depth) for one in scene.lines(99)].index(key)


def lit(scene: Scene, y: int, color: int) -> list[int]:
    """The columns of a line that have a color."""
    canvas = paint(scene, TOP + scene.layout.height + scene.layout.dock.height)
    part = slice(scene.labels, -EDGE)
    return np.flatnonzero((canvas.paper[y, part] == color) | (canvas.ink[y, part] == color)).tolist()


def test_namesakes_light_up_in_every_recording():
    scene = pair()
    assert scene.sources[0].trace.names != scene.sources[1].trace.names
    chosen = moves.chosen(scene, 1, of=1)
    assert (chosen.active, chosen.event) == (1, (1, 1))
    assert lit(chosen, place(scene, 1, Of.LANE, 0, 1), DARK.selected) == [42, 43, 44, 45]
    assert lit(chosen, place(scene, 0, Of.LANE, 0, 1), DARK.same) == [2, 3, 4, 5]
    assert lit(chosen, 0, DARK.selected) == [(10_500 * 60) // 14_000]
    nowhere_else = moves.chosen(chosen, 0, of=1)
    assert [source.same for source in nowhere_else.sources] == [-1, 0]
    assert [source.same for source in moves.chosen(chosen, -1).sources] == [-1, -1]


def test_matches_are_those_of_each_recording():
    scene = pair().having(1, matches=np.array([False, True, False, False]))
    assert lit(scene, place(scene, 1, Of.LANE, 0, 1), DARK.match) == [42, 43, 44, 45]
    assert lit(scene, place(scene, 0, Of.LANE, 0, 1), DARK.match) == []
    assert lit(scene, 0, DARK.match) == [(10_500 * 60) // 14_000]


def test_the_overview_shows_the_mean_over_all_devices():
    scene = pair()
    line = paint(scene, 20).text(0)
    assert "50% overall" in line  # 2 of 4 µs, and 1.5 of 3
    # Of 14 µs the second device's events lie in 11.0 to 14: what is drawn there is half of two devices.
    assert line[scene.labels + 6] == "▄"
    assert line[scene.labels + 10] == " "
    assert line[scene.labels + (11_200 * 60) // 14_000] == "▄"


def test_a_gap_is_one_of_its_recording():
    scene = pair()
    shown = moves.gap_shown(replace(scene, gap=(1, 0, 0)), 1, 0, 0, 20)
    assert shown.view.contains(11_500)
    assert shown.view.contains(12_999)
    assert lit(replace(scene, gap=(1, 0, 0)), place(scene, 1, Of.LANE, 1), DARK.paper)
    assert lit(replace(scene, gap=(0, 0, 0)), place(scene, 0, Of.LANE, 1), DARK.gap) == [*range(8, 16)]
    lines = scene.lines(99)
    for of, column in ((0, 10), (1, 48)):
        line = lines[place(scene, of, Of.LANE, 1) - TOP]
        assert gap_at(scene.local(of), line, column) == (0, 0)
        assert gap_at(scene.local(of), line, 58 - column) is None
        assert event_at(scene.local(of), line, column) is None


def test_the_hit_test_finds_what_is_drawn():
    scene = pair()
    for line in scene.lines(99):
        row = [event_at(scene.local(line.source), line, column) for column in range(60)]
        if line.of is not Of.LANE:
            assert set(row) == {None}
            continue
        trace, offset = scene.sources[line.source].trace, (0, 10_000)[line.source]
        for i in np.flatnonzero((trace.lane == line.ref) & (trace.depth == line.depth)).tolist():
            start = (int(trace.start[i]) + offset) // 250
            end = (int(trace.start[i] + trace.duration[i]) + offset) // 250
            assert [column for column, found in enumerate(row) if found == i] == list(range(start, end))


def test_arrows_lead_from_one_recording_to_the_next():
    scene = moves.chosen(pair(), 3, of=0)  # the last kernel of the first run
    found = moves.stepped(scene, "down")
    assert found == (1, 2)  # in the dock their streams stand together
    scene = moves.chosen(scene, found[1], of=found[0])
    assert moves.stepped(scene, "up") == (0, 3)  # the nearest on the axis
    assert moves.stepped(moves.chosen(scene, 1, of=0), "down") == (1, 0)
    assert moves.stepped(moves.chosen(scene, 0, of=1), "up") == (0, 1)
    assert moves.stepped(moves.chosen(scene, 1, of=1), "down") == (0, 3)  # the first of the dock
    assert moves.stepped(moves.chosen(scene, 3, of=0), "up") == (1, 1)
    assert moves.stepped(moves.chosen(scene, 2, of=1), "next") == (1, 3)
    assert moves.stepped(moves.chosen(scene, 3, of=1), "next") is None
    assert moves.stepped(moves.chosen(scene, 2, of=1), "previous") is None
    assert moves.stepped(moves.chosen(scene, 3, of=1), "down") is None
    assert moves.stepped(replace(scene, selected=-1, view=Viewport(9_000.0, 100.0, 60)), "next") == (1, 0)


def test_moves_go_by_the_axis():
    far = pair(view=Viewport(0.0, 10.0, 60))
    assert moves.revealed(far, 1, 20, closer=True, of=1).view.contains(10_500)
    chosen = moves.chosen(far, 1, of=1)
    assert moves.centered(chosen).view.contains(11_000)
    assert moves.look(chosen, Viewport(12_000.0, 10.0, 60)).view.contains(12_000)
    seen = replace(chosen, view=Viewport(10_000.0, 100.0, 60))
    assert moves.zoomed(seen, 2, None).view.column(11_000) == seen.view.column(11_000)


def test_a_flow_is_drawn_in_its_own_recording():
    scene = moves.chosen(pair(), 2, of=1)
    assert scene.flows == ((1, 2),)
    canvas = paint(scene, 20)
    kernel = place(scene, 1, Of.LANE, 1)
    assert "▼" in "".join(canvas.text(y) for y in range(kernel - 1, kernel + 1))
    assert "▼" not in "".join(canvas.text(y) for y in range(TOP, place(scene, 1, Of.RECORDING, 1)))


def test_each_has_its_heading_and_its_counters():
    scene = pair()
    assert [Of(of) for of in scene.layout.of.tolist()] == [Of.RECORDING, Of.LANE, Of.LANE, Of.COUNTER] * 2
    assert scene.layout.source.tolist() == [0] * 4 + [1] * 4
    assert values_at(scene.sources[1], 0, 9_999) == ("most 5", "most 5", "")
    assert values_at(scene.sources[1], 0, 10_000)[2] == "5"
    chosen = moves.chosen(scene, 3, of=0)
    assert (chosen.cursor, values_at(scene.sources[0], 0, chosen.cursor)[0]) == (4500, "2 of 2")
    assert paint(scene, 30).text(place(scene, 1, Of.COUNTER, 0))[scene.labels :][:40].strip() == ""
    pinned = replace(scene, layout=scene.layout.toggle_pin(6))
    assert "run 2" in paint(replace(pinned, labels=26), 30).text(TOP)


def test_threads_of_all_recordings_show_equally_many_rows():
    deep = trace_of([(0, i, 1000 - 2 * i, f"d{i}") for i in range(20)])
    flat = trace_of([(lane, i, 1000 - 2 * i, f"d{i}") for lane in range(2) for i in range(4)])
    assert lay_out([deep, flat], 16).shown.tolist() == [1, 6, 1, 4, 4]
    assert lay_out([flat, deep], 14).shown.tolist() == [1, 4, 4, 1, 4]


def test_a_deep_row_among_several_recordings_is_unfolded_only_as_far_as_needed():
    """Alone it shows all of its thread."""
    alone = scene_of(trace_of([(0, i, 1000 - 2 * i, f"d{i}") for i in range(20)]), height=5)
    for scene, rows in ((alone, 20), (together((alone, 0), (alone, 0), height=12), 11)):
        track = scene.layout.track_of(Of.LANE, 0, 0)
        assert scene.layout.shown[track] < 11
        assert moves.brought_up(scene, 0, 0, 10, 40).layout.shown[track] == rows


def test_lanes_are_arranged_within_their_recording():
    scene = pair()
    layout = scene.layout
    assert layout.moved(4, 1) is None  # the heading
    assert layout.moved(5, -1) is None  # above it is its heading
    assert layout.moved(3, 1) is None  # below it the other recording begins
    down = layout.moved(5, 1)
    assert down.ref.tolist() == [0, 0, 1, 0, 1, 1, 0, 0]
    mine = down.with_shown(1, 1).toggle_pin(5)
    first, second = (arrangement(s.trace, mine, s.series, of) for of, s in enumerate(scene.sources))
    assert [one["rows"] for one in first] == [1, None, None]
    assert [one["track"].partition(" ")[0] for one in second] == ["lane", "counter", "lane"]
    assert [one["pinned"] for one in second] == [True, False, False]
    again = arranged(scene.sources[1].trace, layout, second, scene.sources[1].series, 1)
    assert again.ref.tolist() == down.ref.tolist()
    assert again.shown.tolist()[:4] == layout.shown.tolist()[:4]
    assert again.pinned == mine.pinned
    left = tuple(replace(s, left=kept) for s, kept in zip(scene.sources, (first, second), strict=True))
    restored = opened(left, 40)
    assert restored.ref.tolist() == mine.ref.tolist()
    assert restored.shown.tolist() == mine.shown.tolist()
    assert restored.pinned == mine.pinned
    assert now(replace(scene, layout=mine), 1) == second


def test_series_that_come_later_stand_below_their_own_recording():
    scene = pair()
    bare = tuple(replace(source, series=()) for source in scene.sources)
    scene = replace(scene, sources=bare, layout=opened(bare, 40))
    layout = with_series(scene, 0, counters(scene.sources[0].trace))
    assert [Of(of) for of in layout.of.tolist()].index(Of.COUNTER) == 3
    assert layout.source.tolist() == [0, 0, 0, 0, 1, 1, 1]


def test_one_recording_is_drawn_without_any_detour(make):
    scene = scene_of(make([(0, 0, 10, "a")]), fit(0, 10, 20))
    assert scene.local(0).view is scene.view
    assert Of.RECORDING not in scene.layout.of


def test_idle_ground_beside_a_recording_without_a_device():
    """The overview shows when the GPU stood idle, also where another recording has only threads."""
    gpu = scene_of(trace_of([(0, 0, 1000, "op"), (1, 0, 10, "k"), (1, 90, 10, "k")], streams=[1]))
    threads = scene_of(trace_of([(0, 0, 100, "op")]))
    for scene, idle in (
        (together((gpu, 0), (threads, 0)), True),
        (together((threads, 0), (threads, 0)), False),
    ):
        eighths, idling = _cells(scene, overview_borders(scene, 40))
        assert bool(idling.any()) is idle
        if idle:  # the threads have no part in how busy the GPU was
            assert eighths.tolist() == _cells(gpu, overview_borders(gpu, 40))[0].tolist()
