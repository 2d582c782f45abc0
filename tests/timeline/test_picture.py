"""What the cells of a picture show."""

import warnings
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.cells import cell_len
from tests.analysis.test_not_known import steps
from tests.kineto import trace_of

from tracetui.timeline.canvas import INK, PAPER, WIDE, Canvas, code_points, cut, unpack
from tracetui.timeline.frame import paint
from tracetui.timeline.palette import Palette, color_of_name
from tracetui.timeline.scene import EDGE, TOP, Idle, Scene
from tracetui.timeline.themes import DARK, LIGHT, PLAIN, SIXTEEN
from tracetui.timeline.track_layout import Of
from tracetui.timeline.viewport import Viewport, fit
from tracetui.trace.model import Kind, Trace

Make = Callable[..., Trace]
MakeScene = Callable[..., Scene]


def lane(canvas: Canvas, scene: Scene, line: int = 0) -> str:
    """The characters of a line of the lanes, without its label."""
    return canvas.text(TOP + line)[scene.labels : -EDGE]


def test_bars_borders_and_names(make, make_scene):
    trace = make([(0, 0, 1000, "aten::linear"), (0, 150, 425, "aten::addmm"), (0, 2025, 50, "tiny")])
    scene = make_scene(trace, Viewport(0.0, 100.0, 30))
    canvas = paint(scene, 10)
    top = lane(canvas, scene)
    assert top.startswith("aten::lin…")
    assert top[10:20].strip() == ""
    assert top[20] in "▍▌"  # the tiny event: half a cell, at the side where it lies
    below = lane(canvas, scene, 1)
    assert below[1] == "▌"  # starts in the middle of its first cell
    assert below[2:5] == "at…"
    assert below[5] == "▊"  # and ends at three quarters of its last
    paper = scene.theme.paper
    assert canvas.paper[TOP + 1, scene.labels + 1] != paper  # color on the right, paper's color on the left
    assert canvas.ink[TOP + 1, scene.labels + 1] == paper
    assert canvas.paper[TOP + 1, scene.labels + 5] == paper


def test_a_tiny_event_alone_stays_visible(make, make_scene):
    trace = make(
        [(0, 0, 10, "first"), (0, 500_000, 1, "tiny"), (0, 700_000, 0, "none"), (0, 999_990, 10, "last")]
    )
    scene = make_scene(trace, Viewport(0.0, 10_000.0, 100))
    row = lane(paint(scene, 8), scene)
    assert [i for i, c in enumerate(row) if c != " "] == [0, 50, 70, 99]


def test_a_gap_of_an_eighth_stays_visible(make, make_scene):
    for offset in range(0, 800, 50):
        trace = make([(0, 0, 10_000 + offset, "a"), (0, 10_100 + offset, 10_000, "a")])
        scene = make_scene(trace, Viewport(0.0, 800.0, 24))
        canvas = paint(scene, 8)
        row = lane(canvas, scene)
        full = canvas.paper[TOP, scene.labels :] != scene.theme.paper
        hole = [i for i in range(1, 24) if not (full[i] and row[i] not in "▏▎▍▌▋▊▉▁▂▃▄▅▆▇")]
        assert hole, offset
        assert min(hole) in ((10_000 + offset) // 800, (10_100 + offset) // 800)


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=200), st.integers(1, 200)
)
def test_no_share_is_painted_over(make, make_scene, parts, cell):
    """Read the picture back: the eighths that one sees are the busy time, to one eighth of a cell."""
    slices, at = [], 0
    for gap, length in parts:
        slices.append((0, at + gap, length, "ab"[len(slices) % 2]))
        at += gap + max(1, length)
    scene = make_scene(make(slices), Viewport(0.0, float(cell), 40))
    canvas = paint(scene, 6)
    paper = scene.theme.paper
    seen = 0
    for x in range(scene.labels, canvas.width - EDGE):
        glyph, ink, behind = chr(canvas.glyph[TOP, x]), canvas.ink[TOP, x], canvas.paper[TOP, x]
        share = next((s.index(glyph) for s in (" ▏▎▍▌▋▊▉█", " ▁▂▃▄▅▆▇█") if glyph in s), None)
        if behind == paper:
            seen += share or 0
        elif ink == paper and share:
            seen += 8 - share  # the paper's part is drawn over the bar
        else:
            seen += 8
    assert abs(seen * cell - 8 * sum(max(0, min(s + d, 40 * cell) - s) for _, s, d, _ in slices)) <= cell


def test_a_gap_between_two_bars_stays_empty(make, make_scene):
    # Both bars reach a few nanoseconds into the gap's cell: nothing there is an event of its own.
    scene = make_scene(make([(0, 0, 1003, "a"), (0, 1097, 1000, "b")]), Viewport(0.0, 100.0, 22))
    assert lane(paint(scene, 6), scene)[10] == " "
    assert paint(scene, 6).paper[TOP, scene.labels + 10] == DARK.paper


@pytest.mark.parametrize("lines", [1, 2, 3])
def test_crowded_cells_show_their_share(make, make_scene, lines):
    # 100 kernels of 30 ns every 100 ns: 30 % busy, seen in cells of 2 µs.
    trace = make([(0, 100 * i, 30, f"k{i % 7}") for i in range(200)], streams=[0])
    scene = make_scene(trace, Viewport(0.0, 2000.0, 10))
    scene = replace(scene, layout=scene.layout.with_shown(0, lines))
    rows = [lane(paint(scene, 8), scene, 1 + n) for n in range(lines)]
    assert [set(row) <= set(some) for row, some in zip(reversed(rows), ("▂▃▄▅▆▇", " ", " "), strict=False)]
    assert sum(" ▁▂▃▄▅▆▇█".index(c) for row in rows for c in row) == round(0.3 * 80 * lines)


def stream_with_a_gap(make: Make) -> tuple[Trace, dict[int, Idle]]:
    """Kernels of 1 µs around a gap of 20 µs, and a thread."""
    trace = make([(0, 0, 1000, "k"), (0, 21_000, 1000, "k"), (1, 0, 100, "op")], streams=[0])
    return trace, {0: Idle(np.array([1000]), np.array([21_000]), lambda _: ("host: the data loader", "host"))}


def test_gaps_carry_their_length_and_cause(make, make_scene):
    trace, gaps = stream_with_a_gap(make)
    scene = make_scene(trace, Viewport(0.0, 1000.0, 22)).having(gaps=gaps)
    canvas = paint(scene, 9)
    texts = [lane(canvas, scene, y) for y in (2, 3, 4)]
    assert [text[1:-1].strip() for text in texts] == ["20.0 µs", "host", ""]
    ground = canvas.paper[TOP + 2 : TOP + 5, scene.labels : -EDGE]
    assert (ground[:, 1:21] == DARK.idle).all()
    assert not (ground[:, [0, 21]] == DARK.idle).any()
    assert "host: the data loader" in lane(paint(replace(scene, view=Viewport(0.0, 500.0, 44)), 9), scene, 3)
    chosen = paint(replace(scene, gap=(0, 0, 0)), 9)
    assert (chosen.paper[TOP + 2 : TOP + 5, scene.labels + 1 : -EDGE - 1] == DARK.gap).all()
    folded = paint(replace(scene, layout=scene.layout.with_shown(0, 1)), 9)
    assert "20.0 µs" in lane(folded, scene, 2)
    assert "host" not in "".join(folded.text(y) for y in range(9))


def test_gaps_have_a_texture_where_the_ground_has_no_color(make, make_scene):
    trace, gaps = stream_with_a_gap(make)
    for theme, texture in ((PLAIN, "╱"), (SIXTEEN, "╱"), (replace(PLAIN, ascii=True), "/")):
        scene = make_scene(trace, Viewport(0.0, 1000.0, 22), theme=theme).having(gaps=gaps)
        row = lane(paint(scene, 9), scene, 2)
        assert f"{texture} 20.0 µs {texture}"[:8] in row.replace("us", "µs")
        assert row[0] == row[21] == " " if theme is not SIXTEEN else texture not in row[::21]
        assert set(row[1:5]) == {texture}


def test_idle_time_has_its_texture_at_every_zoom(make, make_scene):
    """Above the bars, as high as the device is idle: where another stream runs, there is none."""
    trace = make([(0, 1000 * i, 100, "k") for i in range(80)] + [(1, 40_000, 39_100, "k")], streams=[0, 1])
    for theme, texture in (PLAIN, "╱"), (SIXTEEN, "╱"), (replace(PLAIN, ascii=True), "/"):
        scene = make_scene(trace, Viewport(0.0, 4000.0, 20), theme=theme)
        tall = replace(scene, layout=scene.layout.with_shown(1, 3))
        first = [lane(paint(tall, 12), tall, y) for y in (2, 3, 4)]
        assert [set(text[:10]) for text in first[:2]] == [{texture}] * 2
        assert texture not in first[2]
        assert not any(texture in text[10:] for text in first)


@pytest.mark.parametrize(("late", "red"), [(0, True), (1500, False)])
def test_idle_time_that_is_not_known_is_not_drawn(tmp_path, make_scene, late, red):
    """Where the clocks of CPU and GPU differ, the GPU may have worked meanwhile."""
    scene = make_scene(trace_of(tmp_path, *steps(late)))
    assert bool(np.isin(paint(scene, 20).paper, (DARK.idle, DARK.idle_lit)).any()) is red


def test_a_gap_is_drawn_only_where_the_whole_device_is_idle(make, make_scene):
    trace = make([(0, 0, 1000, "k"), (1, 1000, 9000, "k"), (0, 20_000, 1000, "k")], streams=[0, 1])
    gaps = {0: Idle(np.array([10_000]), np.array([20_000]))}
    scene = make_scene(trace, Viewport(0.0, 1000.0, 21), height=5).having(gaps=gaps)
    canvas = paint(scene, 10)
    _, busy, first, second = (lane(canvas, scene, i) for i in range(4))
    assert "10.0 µs" in busy  # the device's own line carries the length
    for y in (1, 2, 3):
        red = canvas.paper[TOP + y, scene.labels : -EDGE] == DARK.idle
        assert red.nonzero()[0].tolist() == list(range(10, 20))
    assert first[1:20].strip() == second[10:].strip() == ""
    # A stream with several lines has room for the cause, and carries the length instead.
    tall = replace(scene, layout=scene.layout.with_shown(1, 2))
    _, busy, first, _ = (lane(paint(tall, 10), tall, i) for i in range(4))
    assert "10.0 µs" in first
    assert "10.0 µs" not in busy


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 60), st.integers(0, 1)), min_size=1, max_size=60),
    st.integers(1, 150), st.integers(-50, 500), st.integers(1, 3)
)  # fmt: skip
def test_shares_and_idle_time_read_back_from_any_lines(make, make_scene, kernels, cell, start, lines):
    """The busy time of a stream adds up over its lines, and red is where nothing runs on its device."""
    slices, ends = [], [0, 0]
    for gap, length, stream in kernels:
        slices.append((stream, ends[stream] + gap, length, "ab"[len(slices) % 2]))
        ends[stream] += gap + length
    scene = make_scene(make(slices, streams=[0, 1]), Viewport(float(start), float(cell), 20))
    streams = sorted({stream for _, _, stream in kernels})
    layout = scene.layout
    for stream in streams:
        layout = layout.with_shown(layout.track_of(Of.LANE, stream), lines)
    scene = replace(scene, layout=layout)
    canvas = paint(scene, 20)
    theme = scene.theme
    running = np.zeros(max(ends) + 1, dtype=bool)
    for _, at, length, _ in slices:
        running[at : at + length] = True
    began = min(at for _, at, _, _ in slices)
    for stream in streams:
        where = [
            TOP + y for y, line in enumerate(scene.lines(18)) if line.of is Of.LANE and line.ref == stream
        ]
        own = [(at, at + length) for lane, at, length, _ in slices if lane == stream]
        assert len(where) == lines
        seen = 0
        for x in range(20):
            low, high = start + x * cell, start + (x + 1) * cell
            busy = sum(max(0, min(end, high) - max(at, low)) for at, end in own)
            inside = range(max(low, began), min(high, max(ends)))
            idle = sum(not running[t] for t in inside)
            grounds = set()
            for y in where:
                glyph, ink, behind = (
                    a[y, scene.labels + x] for a in (canvas.glyph, canvas.ink, canvas.paper)
                )
                share = next(
                    (s.index(chr(glyph)) for s in (" ▏▎▍▌▋▊▉█", " ▁▂▃▄▅▆▇█") if chr(glyph) in s), None
                )
                if behind in theme.grounds:
                    grounds.add(int(behind))
                    seen += share or 0
                elif ink in theme.grounds and share:
                    grounds.add(int(ink))
                    seen += 8 - share
                else:
                    seen += 8
            for ground in grounds:
                assert (ground == theme.idle) == (idle > 0 and 16 * (cell - busy - idle) < cell)
        whole = sum(max(0, min(end, start + 20 * cell) - max(at, start)) for at, end in own)
        assert abs(seen * cell - 8 * lines * whole) <= cell


def test_a_long_kernel_says_its_name_and_duration(make, make_scene):
    trace = make([(0, 0, 4150, "gemm"), (0, 5000, 290, "add")], streams=[0])
    scene = make_scene(trace, Viewport(0.0, 100.0, 60))
    canvas = paint(scene, 8)
    assert [lane(canvas, scene, y)[:42].strip(" ▌▋▍") for y in (1, 2, 3)] == ["gemm", "4.15 µs", ""]
    assert "290" not in lane(canvas, scene, 2)  # it would take more cells


def test_names_are_cut_by_cells():
    assert cut("aten::linear", 5) == "aten…"
    assert cut("aten", 4) == "aten"
    assert cell_len(cut("漢字漢字", 5)) <= 5
    assert cut("漢字漢字", 5).endswith("…")
    assert cut("elementwise back…ward", 18) == "elementwise back…"
    assert code_points("a漢b").tolist() == [ord("a"), ord("漢"), WIDE, ord("b")]


@given(st.text(max_size=30), st.integers(-5, 30))
def test_any_text_keeps_the_width(text, column):
    from tracetui.core.safe_text import plain

    canvas = Canvas.blank(20, 1, 7, 0)
    canvas.put(0, column, plain(text))
    assert cell_len(canvas.text(0)) == 20
    assert sum(cell_len(t) for t, _ in canvas.runs(0)) == 20


def test_markup_in_a_name_is_text(make, make_scene):
    scene = make_scene(make([(0, 0, 1000, "[bold red]x[/]")]), Viewport(0.0, 20.0, 50))
    assert lane(paint(scene, 6), scene).startswith("[bold red]x[/]")


def test_selection_name_and_matches_have_colors_of_their_own(make, make_scene):
    scene = make_scene(make([(0, 1000 * i, 900, "ab"[i % 2]) for i in range(4)]), Viewport(0.0, 100.0, 40))
    mask = np.array([False, True, False, False])
    papers = paint(replace(scene, selected=0).having(same=0, matches=mask), 6).paper[TOP, scene.labels :]
    assert papers[3] == DARK.selected
    assert papers[13] == DARK.match
    assert papers[23] == DARK.same
    assert papers[33] not in (DARK.selected, DARK.match, DARK.same, DARK.paper)


def test_what_is_lit_shows_in_crowded_cells(make, make_scene):
    trace = make([*[(0, 10 * i, 8, f"op{i % 5}") for i in range(100)], (0, 748, 1, "rare")])
    scene = make_scene(trace, Viewport(0.0, 100.0, 12))
    lit = paint(scene.having(same=list(trace.names).index("rare")), 6)
    assert (lit.ink[TOP, scene.labels :] == DARK.hint).nonzero()[0].tolist() == [7]
    mask = np.zeros(len(trace), bool)
    mask[55] = True
    found = paint(scene.having(matches=mask), 6)
    assert (found.ink[TOP, scene.labels :] == DARK.match).nonzero()[0].tolist() == [5]
    chosen = paint(replace(scene, selected=42), 6)
    assert (chosen.ink[TOP, scene.labels :] == DARK.selected).nonzero()[0].tolist() == [4]


def test_the_overview_points_to_matches_and_the_selection(make, make_scene):
    trace = make([(0, 0, 100, "k"), (0, 5000, 100, "k"), (0, 9900, 100, "k")], streams=[0])
    scene = make_scene(trace, Viewport(0.0, 1.0, 40))
    mask = np.array([False, True, False])
    canvas = paint(replace(scene, selected=2).having(matches=mask), 6)
    line = canvas.ink[0, scene.labels : -EDGE]
    assert (line == DARK.match).nonzero()[0].tolist() == [20]
    assert (line == DARK.selected).nonzero()[0].tolist() == [39]
    assert canvas.paper[0, scene.labels] == DARK.idle_lit
    assert canvas.paper[0, scene.labels + 5] == DARK.idle
    canvas = paint(make_scene(make([(0, 0, 100, "k"), (0, 9900, 100, "k")]), Viewport(0.0, 1.0, 40)), 6)
    assert canvas.paper[0, scene.labels] == DARK.window
    assert canvas.paper[0, scene.labels + 5] == DARK.frame


def test_range_and_marks(make, make_scene):
    scene = make_scene(make([(0, 0, 100, "a"), (0, 3900, 100, "a")]), Viewport(0.0, 100.0, 40))
    canvas = paint(replace(scene, band=(1000, 2000), marks=((3000, "here"),)), 6)
    assert (canvas.paper[TOP, scene.labels :] == DARK.band).nonzero()[0].tolist() == list(range(10, 20))
    assert lane(canvas, scene)[30] == "┊"
    assert " 1.00 µs " in canvas.text(1)
    assert "here" in canvas.text(1)


def test_one_name_one_color(make):
    trace = make([(0, 0, 10, "aten::mm"), (1, 0, 10, "kernel")], streams=[1])
    for theme in (DARK, LIGHT):
        palette = Palette(trace, theme)
        for name, text in enumerate(trace.names):
            kind = Kind.KERNEL if text == "kernel" else Kind.CPU_OP
            assert palette.color_of(name) == color_of_name(text, kind, theme)
            assert palette.of(np.array([name], dtype=np.int32))[0] == palette.color_of(name)


def test_without_colors(make, make_scene):
    trace = make([(0, 0, 900, "a"), (0, 900, 1000, "b"), (1, 0, 1000, "k"), (1, 3000, 100, "k")], streams=[1])
    gaps = {0: Idle(np.array([1000]), np.array([3000]))}
    scene = make_scene(trace, Viewport(0.0, 100.0, 40), theme=PLAIN)
    canvas = paint(scene.having(gaps=gaps), 10)
    for y in range(canvas.height):
        for _, style in canvas.runs(y):
            ink, paper, _ = unpack(style)
            assert ink in (INK, PAPER)
            assert paper in (INK, PAPER)
    assert "┊" in lane(canvas, scene)  # where two bars touch
    assert "╱" in lane(canvas, scene, 2)
    chosen = paint(replace(scene, selected=0), 10)
    assert canvas.paper[TOP, scene.labels + 2] == INK
    assert chosen.paper[TOP, scene.labels + 2] == PAPER  # the one bar that is not reversed


def test_ascii_draws_with_ascii_alone(make, make_scene):
    slices = [
        (0, 0, 1050, "a long name"), (0, 1130, 500, "another"), *[(1, 30 * i, 20, "k") for i in range(99)],
        (1, 5000, 5, "k")
    ]  # fmt: skip
    trace = make(slices, streams=[1], counters=[("mem", 0, 1.0), ("mem", 2000, 3.0)])
    gaps = {0: Idle(np.array([2990]), np.array([5000]))}
    scene = make_scene(trace, Viewport(0.0, 100.0, 60), theme=replace(DARK, ascii=True))
    canvas = paint(replace(scene, flows=((0, 101),), marks=((100, "m"),)).having(gaps=gaps), 12)
    assert "".join(canvas.text(y) for y in range(canvas.height)).isascii()


def test_the_edge_tells_where_one_is(make, make_scene):
    scene = make_scene(make([(lane, 0, 100, "a") for lane in range(40)]), height=10)
    marks = []
    for top in (0, 15, 30):
        canvas = paint(replace(scene, top=top), 12)
        marks.append([y - TOP for y in range(12) if canvas.text(y)[-1] == "▐"])
    assert marks == [[0, 1], [4, 5], [8, 9]]
    assert "▐" not in "".join(paint(scene, 60).text(y) for y in range(60))


@pytest.mark.parametrize("size", [(1, 1), (5, 1), (8, 2), (9, 3), (14, 4), (200, 60)])
def test_any_size(make, make_scene, size):
    trace = make([(0, 0, 1000, "漢字" * 10), (1, 0, 1000, "k")], streams=[1], counters=[("m", 0, 1.0)])
    width, height = size
    scene = make_scene(trace, fit(0, 1000, width), height=height)
    canvas = paint(replace(scene, selected=0, band=(10, 400), marks=((5, "x"),), labels=8), height)
    assert canvas.height == height
    for y in range(height):
        assert cell_len(canvas.text(y)) == canvas.width


def test_an_empty_trace(make, make_scene):
    assert paint(make_scene(make([]), fit(0, 1, 20)), 5).height == 5


def test_without_colors_what_is_lit_has_textures(make, make_scene):
    trace = make(
        [(0, 0, 1000, "two words"), (0, 1000, 1000, "b"), (0, 2000, 1000, "b"), (0, 3500, 2, "b")],
        streams=[1],
    )
    scene = make_scene(trace, Viewport(0.0, 100.0, 40), theme=PLAIN)
    plain_names = canvas_attributes(scene)
    assert not plain_names[:9].any()  # no line runs through the words of a name
    assert plain_names[9]
    mask = np.array([False, True, False, True])
    lit = replace(scene, selected=2, band=(3600, 3900)).having(matches=mask, same=1)
    canvas = paint(lit, 6)
    row = lane(canvas, lit)
    assert set(row[12:20]) == {"▒"}
    assert set(row[22:30]) == {"═"}
    assert row[35] == "║"
    assert row[36:39] == "···"
    assert (canvas.paper[TOP, scene.labels + 12 : scene.labels + 30] == PAPER).all()
    overview = slice(scene.labels, scene.labels + 40)
    assert (canvas.paper[0, overview] == INK).nonzero()[0].tolist() == [11, 22, 39]
    assert canvas.text(0)[overview][22] == "▼"
    assert set(lane(paint(lit.having(matches=None), 6), lit)[12:20]) == {"░"}
    plain_ascii = lit.having(palette=Palette(trace, replace(PLAIN, ascii=True)))
    assert "".join(paint(plain_ascii, 6).text(y) for y in range(6)).isascii()


def canvas_attributes(scene: Scene) -> np.ndarray:
    return paint(scene, 6).attributes[TOP, scene.labels :]


def test_lengths_of_gaps_can_be_read_on_any_background(make, make_scene):
    scene = make_scene(make([(0, 0, 100, "k"), (0, 3000, 100, "k")], streams=[0]), Viewport(0.0, 100.0, 40))
    scene = replace(scene, band=(0, 4000)).having(gaps={0: Idle(np.array([100]), np.array([3000]))})
    canvas = paint(scene, 6)
    at = lane(canvas, scene, 1).index("2.90 µs") + scene.labels
    assert (canvas.ink[TOP + 1, at], canvas.paper[TOP + 1, at]) == (DARK.text, DARK.idle_lit)
    chosen = paint(replace(scene, gap=(0, 0, 0)), 6)
    assert (chosen.ink[TOP + 1, at], chosen.paper[TOP + 1, at]) == (DARK.paper, DARK.gap)


def test_names_in_other_scripts_keep_their_cells_in_ascii(make, make_scene):
    trace = make([(0, 0, 2000, "層norm"), (0, 2000, 2000, "層norm")])
    scene = make_scene(trace, Viewport(0.0, 100.0, 40), theme=replace(DARK, ascii=True))
    row = lane(paint(scene, 4), scene)
    assert row.startswith("??norm")
    assert row[20] == "|"  # where two bars of one color touch
    assert row.isascii()
    assert len(row) == 40


def test_gaps_at_the_ends_of_time(make, make_scene):
    far = 2**62
    scene = make_scene(make([(0, 0, 100, "k")], streams=[0]), Viewport(-float(far), far / 30, 40))
    gaps = {0: Idle(np.array([-far - far // 2]), np.array([far + far // 2]))}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        row = lane(paint(scene.having(gaps=gaps), 4), scene, 1)
    assert " 13,835,058,055 s " in row


def test_the_busy_share_in_the_corner_is_never_cut_nor_rounded_to_all_or_nothing(make, make_scene):
    shares = ((5_000, "50% overall"), (4, "GPU <0.1%"), (9_999, "GPU 99.9%"), (10_000, "100% overall"))
    for busy, told in shares:
        scene = make_scene(make([(0, 0, busy, "k"), (0, 10_000, 0, "k")], streams=[0]))
        assert paint(scene, 10).text(0)[: scene.labels].strip() == told


def test_a_narrow_view_stands_between_its_brackets(make, make_scene):
    trace = make([(0, 0, 100, "k"), (0, 99_900, 100, "k")], streams=[0])
    near = replace(make_scene(trace, Viewport(50_000.0, 1.0, 40), theme=PLAIN), selected=1)
    assert "[▁]" in paint(near, 4).text(0) or "[ ]" in paint(near, 4).text(0)
    wider = replace(near, view=Viewport(50_000.0, 180.0, 40))  # 7,200 of 100,000 ns, in parts of three cells
    assert paint(wider, 4).text(0)[near.labels :].count("[ ]") == 1
    whole = replace(near, view=Viewport(0.0, 2500.0, 40))
    assert paint(whole, 4).text(0)[near.labels] == "["
    assert paint(whole, 4).text(0)[near.labels + 39] == "]"
