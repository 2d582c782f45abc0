"""From one event to the next, and the moves of a scene."""

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
from msgspec.structs import replace

from tracetui.timeline import moves, navigate
from tracetui.timeline.frame import paint
from tracetui.timeline.navigate import MOST, hit, linked, nearest
from tracetui.timeline.rows import Rows
from tracetui.timeline.scene import TOP, Event, Idle, Scene
from tracetui.timeline.track_layout import Of
from tracetui.timeline.viewport import Viewport
from tracetui.trace.model import Trace

Make = Callable[..., Trace]
MakeScene = Callable[..., Scene]
SLICES = [
    (0, 0, 1000, "step"), (0, 100, 300, "a"), (0, 150, 50, "a1"), (0, 250, 50, "a2"), (0, 500, 300, "b"),
    (1, 600, 100, "other"), (2, 700, 200, "kernel")
]  # fmt: skip


def named(trace: Trace, event: Event | int | None) -> str | None:
    i = event[1] if isinstance(event, tuple) else event
    return None if i is None else trace.name_of(i)


def test_rows_and_nesting(make, make_scene):
    trace = make(SLICES, streams=[2])
    rows = Rows(trace)
    scene = make_scene(trace)
    at = {trace.name_of(i): i for i in range(len(trace))}
    assert named(trace, navigate.neighbor(rows, at["a"], 1)) == "b"
    assert named(trace, navigate.neighbor(rows, at["b"], -1)) == "a"
    assert navigate.neighbor(rows, at["b"], 1) is None
    assert named(trace, navigate.below(scene, at["step"])) == "a"
    assert named(trace, navigate.below(scene, at["a"])) == "a1"
    assert named(trace, navigate.above(scene, at["a2"])) == "a"
    assert navigate.above(scene, at["step"]) is None
    # Without a child: the nearest in the row below, then the next lane.
    assert named(trace, navigate.below(scene, at["b"])) == "a2"
    assert named(trace, navigate.below(scene, at["a2"])) == "other"
    assert named(trace, navigate.below(scene, at["other"])) == "kernel"
    assert named(trace, navigate.above(scene, at["other"])) == "a2"
    assert navigate.below(scene, at["kernel"]) is None


def test_down_prefers_a_child_in_view(make, make_scene):
    trace = make(SLICES, streams=[2])
    scene = make_scene(trace, Viewport(450.0, 10.0, 40))
    step = next(i for i in range(len(trace)) if trace.name_of(i) == "step")
    assert named(trace, navigate.below(scene, step)) == "b"


def test_rows_with_nothing_in_view_are_passed_over(make, make_scene):
    trace = make([(0, 0, 100, "here"), (1, 9000, 10, "far"), (2, 50, 10, "near"), (3, 8000, 10, "away")])
    scene = make_scene(trace, Viewport(0.0, 10.0, 20))
    assert named(trace, navigate.below(scene, 0)) == "near"
    near = next(i for i in range(len(trace)) if trace.name_of(i) == "near")
    assert named(trace, navigate.below(scene, near)) == "away"  # there is no other
    assert named(trace, navigate.above(scene, near)) == "here"


def test_folded_and_hidden_rows_are_passed_over(make, make_scene):
    trace = make(SLICES, streams=[2])
    scene = make_scene(trace)
    scene = replace(scene, layout=scene.layout.with_shown(0, 1).with_shown(1, 0))
    step = next(i for i in range(len(trace)) if trace.name_of(i) == "step")
    kernel = next(i for i in range(len(trace)) if trace.name_of(i) == "kernel")
    assert named(trace, navigate.above(scene, kernel)) == "step"
    assert named(trace, navigate.below(scene, step)) == "a"  # a child is never hidden


def test_opening_is_in_view(make, make_scene):
    trace = make(SLICES, streams=[2])
    assert named(trace, navigate.opening(make_scene(trace, Viewport(610.0, 1.0, 50)))) == "step"
    assert navigate.opening(make_scene(make([]))) is None


def test_links(make):
    trace = make([(0, 0, 10, "launch"), (0, 20, 10, "other"), (1, 50, 10, "k")], streams=[1], launches={2: 0})
    assert navigate.linked(trace, 2) == ((0, 2),)
    assert navigate.linked(trace, 0) == ((0, 2),)
    assert navigate.linked(trace, 1) == ()
    # The op of a kernel leads to it, if the launch is there, be it the first event of all.
    op = dataclasses.replace(trace, op=np.array([-1, -1, 1], np.int32))
    assert navigate.linked(op, 1) == ((1, 2),)
    assert navigate.linked(dataclasses.replace(op, launch=np.full(3, -1, np.int32)), 1) == ()
    flows = dataclasses.replace(trace, flow_from=np.array([0], np.int32), flow_to=np.array([1], np.int32))
    assert navigate.linked(flows, 1) == ((0, 1),)


def test_a_flow_is_drawn_from_row_to_row(make, make_scene):
    slices = [(0, 0, 4000, "op"), (0, 1000, 100, "launch"), (1, 0, 50, "t"), (2, 3000, 500, "k")]
    scene = moves.chosen(make_scene(make(slices, streams=[2], launches={3: 1}), Viewport(0.0, 100.0, 40)), 3)
    canvas = paint(scene, 10)
    text = [canvas.text(y)[scene.labels :] for y in range(TOP, 10)]
    assert text[1][10] == "█" or canvas.paper[TOP + 1, scene.labels + 10] != scene.theme.paper
    assert text[2][10] == "│"
    assert text[3][10] == "└"  # along the rule of the device
    assert set(text[3][11:30]) == {"─"}
    assert set(canvas.ink[TOP + 3, scene.labels + 10 : scene.labels + 31]) == {scene.theme.flow}
    assert text[3][30] == "▼"
    away = paint(replace(scene, view=Viewport(2000.0, 100.0, 40)), 10)
    assert "▼" not in "".join(away.text(y) for y in range(10))


def test_flows_reach_upwards_and_sidewards(make, make_scene):
    slices = [(0, 3000, 500, "k"), (1, 0, 10, "x"), (2, 0, 10, "x"), (3, 1000, 100, "launch")]
    scene = moves.chosen(make_scene(make(slices, streams=[0], launches={0: 3}), Viewport(0.0, 100.0, 40)), 0)
    scene = replace(scene, layout=scene.layout.with_shown(0, 1).toggle_pin(0))  # above the threads
    text = [paint(scene, 10).text(y)[scene.labels :] for y in range(TOP, 6)]
    assert text[1][30] == "▲"
    assert text[1][10] == "┌"
    assert text[2][10] == "│"


def test_revealing_unfolds_scrolls_and_zooms(make, make_scene):
    slices = [s for lane in range(30) for s in ((lane, 0, 100_000, "outer"), (lane, 50_000, 10, "inner"))]
    trace = make(slices)
    scene = make_scene(trace, Viewport(0.0, 1000.0, 100), height=10)
    assert scene.layout.height == 30
    last = len(trace) - 1
    there = moves.revealed(scene, last, 12, closer=True)
    assert there.layout.height == 31
    assert there.view.cell < 10
    lines = there.lines(10)
    assert (lines[-1].ref, lines[-1].depth) == (29, 1)
    assert moves.revealed(scene, last, 12, closer=False).view == scene.view
    again = moves.revealed(there, last, 12, closer=True)
    assert again.top == there.top
    assert again.view == there.view


def test_gaps_are_shown_at_a_size_that_can_be_read(make, make_scene):
    trace = make([(0, 0, 1000, "k"), (0, 1005, 1000, "k"), (0, 900_000, 1000, "k")], streams=[0])
    gaps = {0: Idle(np.array([1000, 2005]), np.array([1005, 900_000]))}
    scene = make_scene(trace, width=80).having(gaps=gaps)
    small = moves.gap_shown(scene, 0, 0, 0, 20)
    assert 4 * small.view.cell <= 5
    assert small.view.contains(1000)
    large = moves.gap_shown(small, 0, 0, 1, 20)
    assert large.view.start_ns <= 2005
    assert large.view.end_ns >= 900_000
    assert moves.gap_shown(large, 0, 0, 1, 20).view == large.view
    assert moves.gap_shown(large, 0, 3, 0, 20) is large
    # A gap near an end of the trace: no blank beyond that end.
    early = scene.having(gaps={0: Idle(np.array([2005]), np.array([100_000]))})
    shown = moves.gap_shown(replace(early, view=Viewport(0.0, 100.0, 80)), 0, 0, 0, 20).view
    assert shown.start_ns >= scene.span[0]
    assert shown.end_ns >= 100_000


def test_what_counts_as_a_jump():
    view = Viewport(0.0, 10.0, 100)
    assert not moves.is_jump(view, Viewport(200.0, 10.0, 100))
    assert moves.is_jump(view, Viewport(900.0, 10.0, 100))
    assert moves.is_jump(view, Viewport(0.0, 9.0, 100))


def test_without_a_range_no_columns_are_selected(make, make_scene):
    scene = make_scene(make(SLICES, streams=[2]))
    assert scene.band_columns == slice(0, 0)
    view = scene.view
    assert replace(scene, band=(view.start_ns, view.start_ns + 1)).band_columns == slice(0, 1)


def test_from_a_hidden_lane_one_comes_to_its_neighbors(make, make_scene):
    trace = make(SLICES, streams=[2])
    other = [trace.name_of(i) for i in range(len(trace))].index("other")
    scene = make_scene(trace)
    scene = replace(scene, layout=scene.layout.with_shown(1, 0))
    assert [named(trace, navigate._beyond(scene, other, step)) for step in (-1, 1)] == ["a2", "kernel"]


EXACT = [
    *((0, 0, 1000 - d, f"deep {d}") for d in range(6)), (1, 600, 100, "other"), (2, 700, 20, "kernel"),
    (2, 900, 50, "last")
]  # fmt: skip


@pytest.fixture
def scene(make: Make, make_scene: MakeScene) -> Scene:
    """Ten nanoseconds a cell, 20 cells, on a screen of twelve lines: ten of lanes. The stream has one."""
    made = make_scene(make(EXACT, streams=[2]), Viewport(400.0, 10.0, 20), height=14)
    return replace(made, layout=made.layout.with_shown(2, 1, chosen=False))


@pytest.fixture
def threads(make: Make, make_scene: MakeScene) -> Scene:
    """The same without a device."""
    return make_scene(make(EXACT), Viewport(400.0, 10.0, 20), height=10)


def at(scene: Scene, name: str) -> int:
    trace = scene.source.trace
    return next(i for i in range(len(trace)) if trace.name_of(i) == name)


def seen(scene: Scene) -> tuple[float, float]:
    return scene.view.start, scene.view.scale


def test_a_look_stays_within_the_trace(scene):
    assert seen(moves.look(scene, Viewport(-500.0, 10.0, 20))) == (-100.0, 10.0)
    assert seen(moves.look(scene, Viewport(2000.0, 10.0, 20))) == (900.0, 10.0)


@pytest.mark.parametrize(("time", "start"), [
    (500, 400), (750, 650), (100, 0), (99, 0), (0, 0), (900, 800), (901, 800), (1000, 800)
])  # fmt: skip
def test_an_instant_in_the_middle_and_no_blank(scene, time, start):
    gone = moves.gone_to(scene, time)
    assert (gone.instant, seen(gone)) == (time, (float(start), 10.0))


def test_an_instant_in_a_view_wider_than_the_trace(scene):
    assert seen(moves.gone_to(replace(scene, view=Viewport(0.0, 52.0, 20)), 10)) == (-20.0, 52.0)


def test_what_a_zoom_keeps_in_its_place(scene):
    assert seen(moves.zoomed(scene, 2, None)) == (450.0, 5.0)
    assert seen(moves.zoomed(scene, 2, 400)) == (400.0, 5.0)
    assert seen(moves.zoomed(replace(scene, instant=440), 2, None)) == (420.0, 5.0)
    assert seen(moves.zoomed(replace(scene, instant=640), 2, None)) == (450.0, 5.0)
    chosen = replace(scene, selected=at(scene, "deep 0"))
    assert seen(moves.zoomed(replace(chosen, view=Viewport(450.0, 10.0, 20)), 2, None)) == (475.0, 5.0)
    assert seen(moves.zoomed(replace(scene, selected=at(scene, "kernel")), 2, None)) == (450.0, 5.0)
    assert seen(moves.zoomed(replace(chosen, instant=440), 2, None)) == (420.0, 5.0)


def test_a_slice_comes_into_view(scene):
    assert seen(moves.revealed(scene, at(scene, "last"), 12, closer=False)) == (770.0, 10.0)
    assert moves.revealed(scene, at(scene, "deep 0"), 12, closer=True).view is scene.view
    # Too small to be seen: it takes a sixth of the screen.
    far = replace(scene, view=Viewport(0.0, 41.0, 20))
    assert seen(moves.revealed(far, at(scene, "kernel"), 12, closer=True)) == (650.0, 6.0)
    near = replace(scene, view=Viewport(0.0, 40.0, 20))
    assert seen(moves.revealed(near, at(scene, "kernel"), 12, closer=True)) == (0.0, 40.0)
    assert seen(moves.revealed(far, at(scene, "kernel"), 12, closer=False)) == (0.0, 41.0)


def test_the_selection_in_the_middle_then_as_wide_as_the_screen(scene):
    chosen = moves.centered(replace(scene, selected=at(scene, "other")))
    assert seen(chosen) == (550.0, 10.0)
    assert seen(moves.centered(chosen)) == (590.0, 6.0)
    assert moves.centered(scene) is scene
    almost = replace(chosen, view=Viewport(540.0, 10.0, 20))
    assert seen(moves.centered(almost)) == (550.0, 10.0)  # off by a cell: to the middle first
    assert seen(moves.centered(replace(chosen, view=Viewport(541.0, 10.0, 20)))) == (590.0, 6.0)


def test_a_gap_comes_into_view(scene):
    idle = Idle(np.array([450, 720, 990]), np.array([490, 900, 993]))
    device = scene.source.trace.lanes[2].device
    scene = scene.having(gaps={device: idle})
    assert moves.gap_shown(scene, 0, device, 0, 12).view is scene.view  # four cells: large enough
    assert seen(moves.gap_shown(scene, 0, device, 1, 12)) == (720.0, 10.0)
    assert seen(moves.gap_shown(scene, 0, device, 2, 12)) == (980.0, 1.0)  # no blank beyond the end
    assert moves.gap_shown(scene, 0, device, 3, 12) is scene
    assert moves.gap_shown(scene, 0, device, -1, 12) is scene
    assert moves.gap_shown(scene, 0, 77, 0, 12) is scene


def test_how_far_a_jump_leads():
    view = Viewport(0.0, 10.0, 20)
    assert not moves.is_jump(view, view)
    assert not moves.is_jump(view, Viewport(100.0, 10.0, 20))
    assert not moves.is_jump(view, Viewport(-100.0, 10.0, 20))
    assert moves.is_jump(view, Viewport(101.0, 10.0, 20))
    assert moves.is_jump(view, Viewport(-101.0, 10.0, 20))
    assert moves.is_jump(view, Viewport(0.0, 10.5, 20))


def shown(scene: Scene) -> list[int]:
    return scene.layout.shown.tolist()


def test_which_lines_are_on_the_screen(scene):
    layout = scene.layout
    assert shown(scene) == [6, 1, 1]
    assert (layout.height, layout.dock.height) == (7, 2)
    foot = [(2, 0), (2, 0)]  # the rule and the stream
    assert [(line.track, line.depth) for line in layout.lines(4, 5)] == [(0, 4), (0, 5), (1, 0), *foot]
    assert [(line.track, line.depth) for line in layout.lines(6, 9)] == [(1, 0), *foot]
    assert [layout.place(0, d) for d in (0, 3, 5, 9)] == [0, 3, 5, 5]
    assert (layout.place(1, 0), layout.place(2, 0)) == (6, 1)
    assert (layout.track_of(Of.LANE, 2), layout.track_of(Of.LANE, 3)) == (2, -1)
    pinned = replace(layout, pinned=(2,))
    assert (pinned.height, pinned.pinned_height, pinned.place(2, 0)) == (7, 1, -1)
    assert [(line.track, line.depth, line.pinned) for line in pinned.lines(5, 3)] == [
        (2, 0, True), (0, 5, False), (1, 0, False)
    ]  # fmt: skip


def test_folding_hiding_and_back(threads):
    scene = threads
    folded = scene.layout.with_shown(0, 2)
    assert folded.shown.tolist() == [2, 1, 1]
    assert [line.more for line in folded.lines(0, 9)] == [0, 4, 0, 0]
    assert folded.chosen == {0}
    assert scene.layout.with_shown(0, 2, chosen=False).chosen == frozenset()
    assert scene.layout.with_shown(0, 99).shown.tolist() == [6, 1, 1]
    hidden = folded.with_shown(0, -3).with_shown(1, 0, chosen=False)
    assert (hidden.shown.tolist(), hidden.height, hidden.place(0, 0)) == ([0, 0, 1], 1, -1)
    assert hidden.was == ((0, 2, True), (1, 1, False))
    back = hidden.with_hidden()
    assert (back.shown.tolist(), back.chosen, back.was) == ([2, 1, 1], {0}, ())
    assert hidden.with_all(3).shown.tolist() == [0, 0, 1]
    assert folded.with_all(3).shown.tolist() == [3, 1, 1]
    assert folded.with_all(0).shown.tolist() == [1, 1, 1]
    assert folded.with_all(9).chosen == {0, 1, 2}


def test_other_orders(threads):
    layout = threads.layout.with_shown(0, 2).with_shown(1, 0)
    down = layout.moved(0, 1)
    assert down is not None  # past the hidden one, to the next that is on the screen
    assert (down.ref.tolist(), down.shown.tolist()) == ([1, 2, 0], [0, 1, 2])
    assert (down.chosen, down.was) == ({0, 2}, ((0, 1, False),))
    assert layout.moved(0, -1) is None
    assert layout.moved(2, 1) is None
    assert layout.moved(1, 1) is None
    assert layout.reorder(0, 99).ref.tolist() == [1, 2, 0]
    assert layout.reorder(2, -99).ref.tolist() == [2, 0, 1]
    pinned = layout.toggle_pin(2)
    assert pinned.pinned == (2,)
    assert pinned.toggle_pin(2).pinned == ()
    assert pinned.toggle_pin(0).pinned == (0, 2)
    assert pinned.moved(2, -1) is None  # among the pinned ones it is alone
    assert pinned.reorder(0, 2).pinned == (1,)


def test_scrolling(threads):
    scene = threads
    assert [moves.scrolled(scene, top, 6).top for top in (-1, 0, 3, 4, 5)] == [0, 0, 3, 4, 4]
    assert moves.scrolled(scene, 5, 12).top == 0
    assert moves.scrolled(scene, 0, 6, foot=-3).foot == 0
    brought = moves.brought_up(scene, 0, 1, 0, 6)  # four lines of lanes: line 6 is the last of them
    assert brought.top == 3
    assert moves.brought_up(replace(scene, top=4), 0, 0, 2, 6).top == 2
    assert moves.brought_up(replace(scene, top=2), 0, 0, 4, 6).top == 2
    assert moves.brought_up(scene, 0, 9, 0, 6) is scene
    folded = replace(scene, layout=scene.layout.with_shown(0, 1))
    assert shown(moves.brought_up(folded, 0, 0, 3, 12)) == [6, 1, 1]
    assert shown(moves.brought_up(folded, 0, 0, 0, 12)) == [1, 1, 1]
    assert moves.track_in_view(scene, 2, 6).top == 4
    assert moves.track_in_view(replace(scene, top=3), 0, 6).top == 0
    assert moves.track_in_view(replace(scene, layout=scene.layout.with_shown(1, 0)), 1, 6).top == 0


def test_the_nearest_slice(make):
    trace = make([(0, 100, 10, "a"), (0, 120, 10, "b"), (0, 200, 0, "c")])
    row = Rows(trace).row(0, 0)
    names = [trace.name_of(nearest(row, t)) for t in (0, 100, 109, 110, 115, 116, 120, 130, 165, 166, 500)]
    assert names == ["a", "a", "a", "a", "a", "b", "b", "b", "b", "c", "c"]
    view = Viewport(90.0, 10.0, 20)
    found = [hit(row, view, column) for column in (0, 1, 2, 3, 4, 10, 11, 12)]
    assert [trace.name_of(i) if i is not None else "" for i in found] == ["", "a", "", "b", "", "", "c", ""]
    crowded = make([(0, 0, 3, "a"), (0, 3, 4, "b"), (0, 7, 3, "c")])
    wide = hit(Rows(crowded).row(0, 0), Viewport(0.0, 10.0, 1), 0)
    assert wide is not None
    assert crowded.name_of(wide) == "b"


def test_the_links_of_a_slice(make):
    slices = [(0, 0, 100, "op"), *((0, 1 + 2 * i, 1, "call") for i in range(2))]
    kernels = [(1, 200 + i, 1, "k") for i in range(20)]
    launches = {3 + i: 1 for i in range(MOST + 2)} | {3 + MOST + 2: 2}
    trace = make([*slices, *kernels], streams=[1], launches=launches)
    assert linked(trace, 3) == ((1, 3),)
    assert linked(trace, 1) == tuple((1, 3 + i) for i in range(MOST))
    assert linked(trace, 2) == ((2, 5 + MOST),)
    assert linked(trace, 0) == ()
    of_op = dataclasses.replace(trace, op=np.where(trace.launch == 2, 0, -1).astype(np.int32))
    assert linked(of_op, 0) == ((0, 5 + MOST),)


def test_the_selection_stays_on_the_screen_that_shrinks(threads):
    scene = threads
    chosen = replace(scene, selected=at(scene, "deep 5"))
    folded = scene.layout.with_shown(0, 2)
    kept = moves.refitted(chosen, folded, 12, 6)
    assert (shown(kept), kept.top) == ([6, 1, 1], 2)  # it was on the screen: unfolded again, and scrolled to
    gone = moves.refitted(replace(chosen, layout=scene.layout.with_shown(0, 3)), folded, 12, 6)
    assert (shown(gone), gone.top) == ([2, 1, 1], 0)
    assert shown(moves.refitted(scene, folded, 12, 6)) == [2, 1, 1]


def test_the_nearest_of_a_row(make):
    row = Rows(make([(0, 100, 50, "a"), (0, 200, 10, "b")])).row(0, 0)
    at = {time: nearest(row, time) for time in (0, 100, 149, 150, 175, 176, 200, 209, 999)}
    assert at == {0: 0, 100: 0, 149: 0, 150: 0, 175: 0, 176: 1, 200: 1, 209: 1, 999: 1}


def test_the_first_event_can_be_centered_too(scene):
    assert at(scene, "deep 0") == 0
    assert seen(moves.centered(replace(scene, selected=0))) != seen(scene)
