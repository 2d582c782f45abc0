"""From one event to the next, and the moves of a scene."""

import dataclasses
from collections.abc import Callable

import numpy as np
from msgspec.structs import replace

from tracetui.timeline import moves, navigate
from tracetui.timeline.frame import paint
from tracetui.timeline.rows import Rows
from tracetui.timeline.scene import TOP, Event, Idle, Scene
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
    trace = make(slices, streams=[2], launches={3: 1})
    scene = moves.chosen(make_scene(trace, Viewport(0.0, 100.0, 40)), 3)
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
    trace = make(slices, streams=[0], launches={0: 3})
    scene = moves.chosen(make_scene(trace, Viewport(0.0, 100.0, 40)), 0)
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
