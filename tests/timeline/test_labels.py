"""The labels of lanes."""

import dataclasses
from collections.abc import Callable

import pytest
from msgspec.structs import replace
from rich.cells import cell_len

from tracetui.timeline.canvas import BOLD
from tracetui.timeline.frame import paint
from tracetui.timeline.labels import shortened
from tracetui.timeline.scene import TOP, Scene
from tracetui.timeline.track_layout import Of, lay_out
from tracetui.trace.model import Process, Trace

Make = Callable[..., Trace]
MakeScene = Callable[..., Scene]


def labels(scene: Scene) -> list[str]:
    lines = scene.lines(20 - TOP)
    canvas = paint(replace(scene, labels=26), 20)
    return [canvas.text(TOP + y)[2:26].strip(" ─") for y in range(len(lines))]


def test_a_stream_away_from_its_device_says_whose_it_is(make, make_scene):
    trace = make([(lane, 0, 9, "k") for lane in range(5)], streams=[1, 2, 3, 4])
    assert labels(make_scene(trace, height=9))[2:4] == ["busy", "stream 1"]
    lanes = [replace(lane, device=1) if i > 2 else lane for i, lane in enumerate(trace.lanes)]
    scene = make_scene(dataclasses.replace(trace, lanes=tuple(lanes)), height=9)
    assert labels(scene) == [
        "thread 0", *("GPU 0", "busy", "stream 1", "stream 2"), *("GPU 1", "busy", "stream 3", "stream 4")
    ]  # fmt: skip
    up = scene.layout.moved(5, -1)  # above the line of its device, and below its rule
    assert up is not None
    assert labels(replace(scene, layout=up))[5:8] == ["GPU 1", "stream 3", "busy"]
    pinned = scene.layout.toggle_pin(3)
    assert labels(replace(scene, layout=pinned))[0] == "GPU 0 stream 2"
    pinned = scene.layout.toggle_pin(1)
    assert labels(replace(scene, layout=pinned))[0] == "GPU 0 busy"


def test_a_thread_away_from_its_process_says_whose_it_is(make, make_scene):
    trace = make([(lane, 0, 9, "op") for lane in range(3)])
    trace = dataclasses.replace(
        trace, processes=(Process("1", "trainer", "", 0, -1), Process("2", "loader", "", 1, -1)),
        lanes=tuple(replace(lane, process=int(i == 2)) for i, lane in enumerate(trace.lanes))
    )  # fmt: skip
    scene = replace(make_scene(trace), layout=lay_out([trace], 20))
    assert [Of(o) for o in scene.layout.of.tolist()] == [
        *(Of.PROCESS, Of.LANE, Of.LANE), *(Of.PROCESS, Of.LANE)
    ]  # fmt: skip
    assert labels(scene)[4] == "thread 2"
    up = scene.layout.moved(4, -1)
    assert up is not None
    assert labels(replace(scene, layout=up))[3] == "loader thread 2"


def test_the_heading_of_a_process_stands_out(make, make_scene):
    trace = make([(lane, 0, 9, "op") for lane in range(2)])
    trace = dataclasses.replace(
        trace, processes=(Process("1", "trainer", "", 0, -1), Process("2", "loader", "", 1, -1)),
        lanes=tuple(replace(lane, process=i) for i, lane in enumerate(trace.lanes))
    )  # fmt: skip
    scene = replace(make_scene(trace), layout=lay_out([trace], 20))
    drawn = paint(scene, 20)
    (y,) = [y for y in range(20) if "loader" in drawn.text(y)]
    theme = scene.theme
    assert drawn.text(y).startswith(" loader")
    assert set(drawn.paper[y].tolist()) == {theme.frame}
    assert set(drawn.attributes[y, 1:7].tolist()) == {BOLD}


@pytest.mark.parametrize(("name", "width", "shown"), [
    ("thread 1887 (python3)", 30, "thread 1887 (python3)"), ("thread 1887 (python3)", 14, "1887 (python3)"),
    ("thread 1887 (python3)", 12, "1887 python3"),
    ("thread 2919752 (pt_autograd_0)", 17, "2919752 pt_a…ad_0"),
    ("thread 2919752 (pt_autograd_0)", 11, "2919752 pt…"), ("stream 7 annotations", 15, "s7 annotations"),
    ("stream 7 annotations", 13, "s7 annot."), ("profiler overhead", 13, "overhead"),
    ("something(else)", 9, "some…lse)"), ("a lane(x)", 8, "a la…(x)"), ("a lane(x)", 4, "a l…"),
    ("worker number twelve", 13, "worker…twelve"), ("77 データローダー", 13, "77 デー…ダー"),
    ("データローダー其の二", 12, "データ…の二")
])  # fmt: skip
def test_long_names_of_lanes_keep_what_tells_them_apart(name, width, shown):
    assert shortened(name, width) == shown
    assert cell_len(shown) <= width


def test_the_last_line_says_how_many_lie_below_the_screen(make, make_scene):
    scene = replace(make_scene(make([(lane, 0, 100, "op") for lane in range(9)]), height=40), labels=20)
    assert "↓" not in paint(scene, 40).text(TOP + 8)
    assert paint(scene, TOP + 4).text(TOP + 3)[:20].endswith(" ↓5 ")
    assert paint(replace(scene, top=2), TOP + 4).text(TOP + 3)[:20].endswith("↓3 ")
    assert "↓" not in paint(replace(scene, top=5), TOP + 4).text(TOP + 3)
    scene = replace(make_scene(make([(0, n, 100 - 2 * n, "op") for n in range(9)]), height=40), labels=20)
    assert paint(scene, TOP + 4).text(TOP + 3)[:20].endswith("↓5 rows ")
