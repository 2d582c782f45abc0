"""Views, ticks, labels and series, each with the exact answer."""

import dataclasses

import numpy as np
import pytest
from msgspec.structs import replace

from tracetui.core.units import as_typed
from tracetui.timeline import moves, viewport
from tracetui.timeline.arrangement import arranged, arrangement, opened
from tracetui.timeline.canvas import BOLD, UNDERLINE, Canvas, cut, runs, unpack
from tracetui.timeline.color import contrast, rgb
from tracetui.timeline.frame import paint
from tracetui.timeline.labels import beside, ends, label_width, shortened
from tracetui.timeline.ruler import step_of, ticks
from tracetui.timeline.scene import EDGE, TOP, Idle
from tracetui.timeline.series import BLOCK, brief_of, series, stepped, text_of
from tracetui.timeline.viewport import FAR, Viewport, clamped

VIEW = Viewport(1000.0, 10.0, 20)
"""1,000 to 1,200 ns, ten to a cell."""


def test_cells_and_instants():
    assert (VIEW.cell, VIEW.start_ns, VIEW.end_ns, VIEW.span_ns) == (10, 1000, 1200, 200)
    assert VIEW.borders().tolist() == list(range(1000, 1201, 10))
    assert [VIEW.column(t) for t in (999, 1000, 1009, 1010, 1199, 1200)] == [-1, 0, 0, 1, 19, 20]
    assert [VIEW.time(c) for c in (0, 1, 1.5, 20, -1)] == [1000, 1010, 1015, 1200, 990]
    assert [VIEW.contains(t) for t in (999, 1000, 1199, 1200)] == [False, True, True, False]
    odd = Viewport(0.6, 0.4, 3)
    assert (odd.start_ns, odd.cell, odd.end_ns) == (1, 1, 4)


@pytest.mark.parametrize(("view", "nearest"), [
    (VIEW, VIEW),
    (Viewport(-101.0, 10.0, 20), Viewport(-100.0, 10.0, 20)),  # its middle is at the lower limit
    (Viewport(9999.0, 10.0, 20), Viewport(1900.0, 10.0, 20)),
    (Viewport(1000.0, 0.5, 20), Viewport(1000.0, 1.0, 20)),
    (Viewport(0.0, 200.0, 20), Viewport(900.0, 110.0, 20)),  # 1.1 times the whole at most
    (Viewport(0.0, 110.0, 20), Viewport(0.0, 110.0, 20)),
])  # fmt: skip
def test_limits(view, nearest):
    assert clamped(view, 0, 2000) == nearest


def test_a_view_that_fits():
    assert viewport.fit(100, 300, 20) == Viewport(100.0, 10.0, 20)
    assert viewport.fit(100, 301, 20) == Viewport(100.0, 11.0, 20)
    assert viewport.fit(100, 300, 20, 0.25) == Viewport(50.0, 15.0, 20)
    assert viewport.fit(100, 100, 20) == Viewport(100.0, 1.0, 20)
    assert viewport.fit(100, 300, 0) == Viewport(100.0, 200.0, 1)
    assert viewport.fit(-FAR - 5, FAR + 5, 1) == viewport.fit(-FAR, FAR, 1)


def test_moves():
    assert viewport.zoom(VIEW, 2) == Viewport(1050.0, 5.0, 20)
    assert viewport.zoom(VIEW, 0.5) == Viewport(900.0, 20.0, 20)
    assert viewport.zoom(VIEW, 2, 1000) == Viewport(1000.0, 5.0, 20)
    assert viewport.zoom(VIEW, 2, 1200) == Viewport(1100.0, 5.0, 20)
    assert viewport.zoom(VIEW, 100, 1050) == Viewport(1045.0, 1.0, 20)
    assert viewport.pan(VIEW, 3) == Viewport(1030.0, 10.0, 20)
    assert viewport.pan(VIEW, -3) == Viewport(970.0, 10.0, 20)
    assert viewport.center(VIEW, 500) == Viewport(400.0, 10.0, 20)
    assert viewport.resize(VIEW, 40) == Viewport(1000.0, 5.0, 40)
    assert viewport.resize(VIEW, 0) == Viewport(1000.0, 200.0, 1)
    assert viewport.resize(VIEW, 20) is VIEW


@pytest.mark.parametrize(("start", "end", "first"), [
    (1000, 1200, 1000),
    (1100, 1110, 1000),
    (990, 1000, 970),  # as it is outside by one cell, and two are kept free
    (999, 1001, 970),
    (1200, 1210, 1030),
    (1199, 1201, 1030),
    (1190, 1200, 1000),
    (980, 1160, 960),  # 18 cells leave two
    (1040, 1240, 1040),  # just as wide as the screen: nothing is free
    # Longer than the screen: some part is enough.
    (900, 1500, 1000),
    (700, 1010, 830),
    (700, 1030, 1000),
    (1190, 1500, 1170),
    (1170, 1500, 1000),
])  # fmt: skip
def test_no_further_than_needed(start, end, first):
    assert viewport.reveal(VIEW, start, end) == Viewport(float(first), 10.0, 20)


@pytest.mark.parametrize(("cell", "cells", "step"), [
    (1, 1, 1), (1, 2, 2), (1, 3, 5), (1, 5, 5), (1, 6, 10), (1, 10, 10), (1, 11, 20), (7, 10, 100), (3, 0, 1)
])  # fmt: skip
def test_steps_of_the_ruler(cell, cells, step):
    assert step_of(Viewport(0.0, float(cell), 10), cells) == step


def test_ticks():
    base, found = ticks(Viewport(0.0, 1000.0, 60))
    assert base is None
    assert [tuple(one) for one in found] == [
        (0, 0, "0"), (10, 10_000, "10 µs"), (20, 20_000, "20 µs"),
        (30, 30_000, "30 µs"), (40, 40_000, "40 µs"), (50, 50_000, "50 µs"),
    ]  # fmt: skip
    base, found = ticks(Viewport(-20_500.0, 1000.0, 60))
    assert (base, [one.time_ns for one in found]) == (None, [1000 * t for t in range(-20, 40, 10)])
    assert [one.column for one in found] == [0, 10, 20, 30, 40, 50]
    # Deep in a trace they count from a round instant before the screen.
    base, found = ticks(Viewport(123_456_789.0, 1.0, 60))
    assert base == 123_456_000
    assert [(one.column, one.label) for one in found] == [(11, "+800 ns"), (31, "+820 ns"), (51, "+840 ns")]
    assert as_typed(base) == "123.456 ms"
    assert as_typed(2_000_000_000) == "2 s"


@pytest.mark.parametrize(("width", "cells"), [(10, 16), (80, 16), (89, 16), (90, 17), (180, 26), (300, 26)])
def test_width_of_the_labels(width, cells):
    assert label_width(width) == cells


@pytest.mark.parametrize(("text", "width", "short"), [
    ("thread 426 (python)", 19, "thread 426 (python)"), ("thread 426 (python)", 18, "426 (python)"),
    ("thread 426 (python)", 11, "426 python"), ("thread 426 (python)", 9, "426 py…on"),
    ("thread 426 (python)", 8, "426 pyt…"), ("stream 7 annotations", 16, "s7 annotations"),
    ("stream 7 annotations", 10, "s7 annot."), ("profiler overhead", 16, "overhead"),
    ("pt_autograd_0", 8, "pt_a…d_0"), ("计算计算计算", 7, "计算…算")
])  # fmt: skip
def test_names_that_are_too_long(text, width, short):
    assert shortened(text, width) == short


def test_both_ends_of_a_name():
    assert ends("abcdefgh", 8) == "abcdefgh"
    assert ends("abcdefgh", 7) == "abc…fgh"
    assert ends("abcdefgh", 6) == "abc…gh"
    assert ends("abcdefgh", 5) == "ab…gh"
    assert ends("abcdefgh", 4) == "abc…"


@pytest.mark.parametrize(("width", "shown"), [
    (24, ("GPU 0 allocated", "1.20 GiB")), (23, ("GPU 0 allocated", "1.2G")),
    (20, ("GPU 0 allocated", "1.2G")), (19, ("0 alloc", "1.20 GiB")), (16, ("0 alloc", "1.20 GiB")),
    (15, ("0 alloc", "1.2G")), (12, ("0 alloc", "1.2G")), (11, ("0 all…", "1.2G")), (10, ("0 al…", "1.2G")),
    (9, ("0 alloc", ""))
])  # fmt: skip
def test_a_name_beside_a_value(width, shown):
    assert beside("GPU 0 allocated", ("1.20 GiB", "1.2G"), width) == shown


def test_values_over_time():
    one = series("x", np.array([10, 20, 30, 40]), np.array([1.0, np.nan, 5.0, -2.0]))
    assert (one.low, one.high) == (-2.0, 5.0)
    assert one.start.tolist() == [10, 30, 40]
    values = one.at(np.array([9, 10, 29, 30, 99]))
    assert np.isnan(values[0])
    assert values[1:].tolist() == [1.0, 1.0, 5.0, -2.0]
    holes = stepped("x", np.array([10, 20, 30]), np.array([1.0, np.nan, 5.0]))
    assert np.isnan(holes.at(np.array([20, 29]))).all()
    assert holes.at(np.array([19, 30])).tolist() == [1.0, 5.0]
    assert (holes.low, holes.high) == (0.0, 5.0)
    assert len(stepped("x", np.array([1]), np.array([np.nan])).start) == 0


def test_the_largest_value_of_each_cell():
    one = series("x", np.array([10, 12, 14, 30]), np.array([3.0, 9.0, 1.0, 4.0]))
    assert one.peaks(np.array([0, 10, 11, 13, 20, 30, 40]))[1:].tolist() == [3.0, 9.0, 9.0, 1.0, 4.0]
    assert np.isnan(one.peaks(np.array([0, 5, 10]))).all()
    assert one.peaks(np.array([15, 20, 25])).tolist() == [1.0, 1.0]
    many = series("x", np.arange(100 * BLOCK), np.arange(100 * BLOCK, dtype=np.float64))
    assert many.peaks(np.array([0, 50 * BLOCK, 100 * BLOCK])).tolist() == [50 * BLOCK - 1, 100 * BLOCK - 1]


@pytest.mark.parametrize(("value", "unit", "text", "brief"), [
    (float("nan"), "", "", ""), (12.0, "", "12", "12"), (12345.0, "", "12,345", "12k"),
    (9999.0, "count", "9,999", "9999"), (1.23456, "", "1.235", "1.235"), (2.5e6, "", "2,500,000", "2M"),
    (3e9, "", "3,000,000,000", "3G"), (34_512.0, "ns", "34.5 µs", "35µs"),
    (2.0**30 * 1.2, "bytes", "1.20 GiB", "1.20G")
])  # fmt: skip
def test_values_in_words(value, unit, text, brief):
    assert (text_of(value, unit), brief_of(value, unit)) == (text, brief)


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
    assert [int(opened([make_scene(one).source], 14).shown.sum()) for one in (trace, with_memory)] == [11, 9]


def test_shares_of_what_is_compared(make, make_scene):
    """Instead of a title the overview has each recording's busy share."""
    scene = make_scene(make([(0, 0, 250, "k"), (0, 750, 250, "k")], streams=[0]))
    assert paint(replace(scene, sources=(replace(scene.source, letter="A"),)), 6).text(0).startswith(" A 50%")


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
