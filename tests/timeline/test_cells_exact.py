"""Single cells of the canvas, the areas of series, arrangements: each with the exact answer."""

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
from msgspec.structs import replace

from tracetui.timeline import moves
from tracetui.timeline.arrangement import arranged, arrangement, opened
from tracetui.timeline.canvas import BOLD, UNDERLINE, Canvas, cut, runs, unpack
from tracetui.timeline.color import contrast, rgb
from tracetui.timeline.frame import paint
from tracetui.timeline.scene import EDGE, TOP, Idle, Scene
from tracetui.timeline.series import series
from tracetui.timeline.viewport import Viewport
from tracetui.trace.model import Trace

Make = Callable[..., Trace]
MakeScene = Callable[..., Scene]


def put(column: int, text: str, width: int = 6) -> str:
    canvas = Canvas.blank(width, 1, 7, 0)
    canvas.put(0, column, text)
    return canvas.text(0)


def test_text_is_cut_at_the_edges():
    assert put(0, "abcdef") == "abcdef"
    assert put(2, "abcdef") == "  abcd"
    assert put(5, "abcdef") == "     a"
    assert put(6, "abcdef") == put(9, "abcdef") == "      "
    assert put(-2, "abcdef") == "cdef  "
    assert put(-6, "abcdef") == "      "
    assert put(1, "计算") == " 计算 "
    assert put(3, "计算") == "   计 "
    assert put(-1, "计算") == " 算   "
    canvas = Canvas.blank(3, 2, 7, 0)
    for line in (-1, 2):
        canvas.put(line, 0, "x")
    assert canvas.text(0) == canvas.text(1) == "   "


def test_colors_that_are_not_given_stay():
    canvas = Canvas.blank(3, 1, 7, 0)
    canvas.put(0, 0, "ab", ink=1, paper=2, attributes=BOLD)
    canvas.put(0, 1, "c")
    assert canvas.ink[0].tolist() == [1, 1, 7]
    assert canvas.paper[0].tolist() == [2, 2, 0]
    assert canvas.attributes[0].tolist() == [BOLD, BOLD, 0]
    assert unpack(int(canvas.styles()[0, 0])) == (1, 2, BOLD)


def test_runs_of_one_style():
    canvas = Canvas.blank(6, 1, 7, 0)
    canvas.put(0, 0, "ab", ink=1)
    canvas.put(0, 3, "c", ink=2)
    assert [(text, unpack(style)[:2]) for text, style in canvas.runs(0)] == [("ab ", (1, 0)), ("c  ", (2, 0))]
    canvas.put(0, 2, " ", paper=5)
    assert [text for text, _ in canvas.runs(0)] == ["ab", " ", "c  "]
    black = Canvas.blank(3, 1, 0, 0)
    black.put(0, 0, "a ", ink=0)
    black.put(0, 1, "  ", ink=5)
    assert [(text, unpack(style)[:2]) for text, style in black.runs(0)] == [("a  ", (0, 0))]
    lines = Canvas.blank(4, 1, 7, 0)
    lines.put(0, 1, "  ", attributes=UNDERLINE)
    assert [text for text, _ in lines.runs(0)] == [" ", "  ", " "]
    assert runs(np.zeros(0, dtype=np.int64)) == []


def test_cut():
    assert [cut("abcdef", n) for n in (-1, 0, 1, 5, 6, 7)] == ["", "", "…", "abcd…", "abcdef", "abcdef"]
    assert [cut("计算计", n) for n in (1, 2, 3, 4, 5, 6)] == ["…", "…", "计…", "计…", "计算…", "计算计"]


def test_the_height_of_an_area(make, make_scene):
    """From the least value (zero at most) to the largest, in eighths of a line."""
    trace = make([(0, 0, 100, "op")])
    samples = series("x", np.array([0, 10, 20, 30, 40]), np.array([-4.0, -3.0, 0.0, 4.0, 1.0]))
    scene = make_scene(trace, Viewport(0.0, 10.0, 5))
    layout = scene.layout.with_counters(1)
    scene = replace(scene.having(series=(samples,)), layout=layout.with_shown(1, 1))
    assert paint(scene, 6).text(TOP + 1)[scene.labels : -EDGE] == " ▁▄█▅"
    tall = paint(replace(scene, layout=layout.with_shown(1, 2)), 6)
    assert [tall.text(TOP + y)[scene.labels : -EDGE] for y in (1, 2)] == ["   █▂", " ▂███"]
    # A series that is still being worked out has a line already.
    assert paint(scene.having(series=()), 6).text(TOP + 1).strip() == "▸"


def test_an_arrangement_comes_back(make, make_scene):
    trace = make([(0, 0, 100 - d, f"d{d}") for d in range(4)] + [(1, 0, 5, "b"), (2, 0, 5, "c")])
    layout = make_scene(trace).layout
    kept = arrangement(trace, layout.with_shown(0, 2).with_shown(1, 0).toggle_pin(2).reorder(2, -2))
    assert [(one["rows"], one["pinned"]) for one in kept] == [(None, True), (2, False), (0, False)]
    back = arranged(trace, layout, kept)
    assert (back.ref.tolist(), back.shown.tolist(), back.pinned) == ([2, 0, 1], [1, 2, 0], (0,))
    assert back.chosen == {1, 2}
    assert [one["rows"] for one in arrangement(trace, layout.with_shown(0, 4))] == ["all", None, None]
    some = arranged(trace, layout, [{"track": kept[0]["track"]}, {"track": "gone", "rows": 3}])
    assert some.ref.tolist() == [0, 1, 2]
    assert arranged(trace, layout, [{"track": kept[1]["track"], "rows": 99}]).shown.tolist() == [4, 1, 1]
    assert arranged(trace, layout, [{"track": kept[1]["track"], "rows": -9}]).shown.tolist() == [0, 1, 1]


def test_two_lines_stay_free_for_series(make, make_scene):
    """Of a device's; recordings that are compared have none."""
    deep = [(0, 0, 1000 - d, f"d{d}") for d in range(30)]
    source = make_scene(make([*deep, (1, 0, 10, "k")], streams=[1])).source
    compared = replace(source, letter="A")
    shown = [
        [int(opened([one], height).shown.sum()) for height in (10, 12, 14)] for one in (source, compared)
    ]
    assert shown == [[7, 9, 11], [9, 11, 13]]


def test_more_lines_stay_free_where_memory_was_recorded(make, make_scene):
    """For what is allocated and what is reserved, too."""
    trace = make([*[(0, 0, 1000 - d, f"d{d}") for d in range(30)], (1, 0, 10, "k")], streams=[1])
    with_memory = dataclasses.replace(trace, names=[*trace.names, "[memory]"])
    shown = [int(opened([make_scene(one).source], 14).shown.sum()) for one in (trace, with_memory)]
    assert shown == [11, 9]


def test_shares_of_what_is_compared(make, make_scene):
    """Instead of a title the overview has each recording's busy share."""
    scene = make_scene(make([(0, 0, 250, "k"), (0, 750, 250, "k")], streams=[0]))
    text = paint(replace(scene, sources=(replace(scene.source, letter="A"),)), 6).text(0)
    assert text.startswith(" A 50%")


def test_of_two_devices_it_is_the_gap_s_own(make, make_scene):
    trace = make([(0, 0, 90, "k"), *((1, 10 * n, 5, "k") for n in range(9))], streams=[0, 1])
    trace = dataclasses.replace(trace, lanes=(trace.lanes[0], replace(trace.lanes[1], device=1)))
    scene = make_scene(trace, Viewport(0.0, 50.0, 20), height=99).having(
        gaps={1: Idle(np.array([5]), np.array([10]))}
    )
    brought = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(moves, "brought_up", lambda scene, of, lane, *rest: brought.append(lane))
        moves.gap_shown(scene, 0, 1, 0, TOP + 4)
    assert brought == [1]


def test_the_lane_of_a_gap_comes_up(make, make_scene):
    deep = [(0, 0, 1000 - d, f"d{d}") for d in range(9)]
    trace = make([*deep, (1, 0, 10, "k"), (1, 500, 10, "k")], streams=[1])
    scene = make_scene(trace, Viewport(0.0, 50.0, 20), height=99)
    device = trace.lanes[1].device
    scene = scene.having(gaps={device: Idle(np.array([10]), np.array([500]))})
    shown = moves.gap_shown(scene, 0, device, 0, TOP + 4)
    assert (shown.top, shown.foot) == (
        0,
        0,
    )  # the dock is always there: the rule, and the stream's first line
    folded = replace(
        scene, layout=scene.layout.toggle_pin(1).toggle_pin(1).with_counters(1, devices=[device])
    )
    below = moves.scrolled(folded, 0, TOP + 4, foot=9)
    assert below.foot == folded.layout.dock.height - 2
    assert moves.gap_shown(below, 0, device, 0, TOP + 4).foot == 0


def test_the_palette_of_xterm():
    names = """
        000000 cd0000 00cd00 cdcd00 0000ee cd00cd 00cdcd e5e5e5 7f7f7f ff0000 00ff00 ffff00 5c5cff ff00ff
        00ffff ffffff
    """
    assert [bytes(rgb(i)).hex() for i in range(16)] == names.split()
    told = {16: "000000", 21: "0000ff", 52: "5f0000", 59: "5f5f5f", 110: "87afd7", 231: "ffffff"}
    told |= {232: "080808", 233: "121212", 255: "eeeeee"}
    assert {i: bytes(rgb(i)).hex() for i in told} == told
    assert contrast(16, 231) == contrast(231, 16) == 21
    assert contrast(196, 231) == pytest.approx(3.998, abs=1e-3)  # pure red on white
    assert contrast(21, 231) == pytest.approx(8.592, abs=1e-3)
    assert contrast(46, 16) == pytest.approx(15.304, abs=1e-3)
    assert contrast(232, 16) == pytest.approx(1.0486, abs=1e-3)  # nearly black
