"""Ticks at round times, and short texts for times."""

import re
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tracetui.core.units import as_typed, duration
from tracetui.timeline import moves
from tracetui.timeline.frame import paint
from tracetui.timeline.palette import Palette
from tracetui.timeline.ruler import ROOM, step_of, ticks
from tracetui.timeline.scene import EDGE, TOP, Scene
from tracetui.timeline.themes import DARK, PLAIN
from tracetui.timeline.viewport import Viewport

from .conftest import scene_of, trace_of

views = st.builds(
    Viewport, st.integers(0, 10**13).map(float), st.integers(1, 10**9).map(float), st.integers(20, 250)
)


@given(views)
def test_ticks_are_round_and_do_not_touch(view):
    _, found = ticks(view)
    times = [tick.time_ns for tick in found]
    steps = {b - a for a, b in pairwise(times)}
    assert len(steps) <= 1
    for step in steps:
        assert re.fullmatch("[125]0*", str(step))
    for tick in found:
        assert 0 <= tick.column < view.width
        assert view.time(tick.column) <= tick.time_ns < view.time(tick.column + 1)
    for a, b in pairwise(found):
        assert a.column + 1 + len(a.label) < b.column


def value_of(label: str) -> float:
    number, _, unit = label.lstrip("+").partition(" ")
    return float(number) * {"": 1, "ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9}[unit]


@given(views)
def test_labels_say_the_time(view):
    base, found = ticks(view)
    for tick in found:
        assert value_of(tick.label) + (base or 0) == pytest.approx(tick.time_ns, abs=0.5)
    assert len({tick.label for tick in found}) == len(found)
    if base is not None:
        assert base <= view.start_ns
        assert value_of(as_typed(base)) == pytest.approx(base, abs=0.5)
        assert all(tick.label == "0" or tick.label.startswith("+") for tick in found)


@given(views)
def test_there_are_ticks(view):
    _, found = ticks(view)
    if view.width >= 80:
        assert len(found) >= 2


def test_deep_in_a_long_trace_the_labels_stay_short():
    base, found = ticks(Viewport(12_345_678_901.0, 3.0, 100))
    assert base is not None
    assert all(len(tick.label) <= 9 for tick in found)


def test_step():
    assert [step_of(Viewport(0, scale, 80), 10) for scale in (1.0, 2.0, 3.0, 5.0, 11.0)] == [
        10, 20, 50, 50, 200
    ]  # fmt: skip
    assert ROOM >= 4


WIDTH = 80


def ruler(scene: Scene) -> str:
    return paint(scene, 5).text(1)[scene.labels : -EDGE]


def scene_at(view: Viewport) -> Scene:
    return scene_of(trace_of([(0, 0, 10**9, "op")]), view, width=WIDTH)


def forms(label: str) -> list[str]:
    """How a mark may be written, the longest first."""
    return ["▾" + label, *("▾" + label[:n] + "…" for n in range(len(label), -1, -1)), "▾"]


@settings(max_examples=75, deadline=None)
@given(
    st.integers(0, 10**8), st.integers(1, 10**6), st.tuples(st.floats(0, 1), st.floats(0, 1)),
    st.lists(st.tuples(st.floats(0, 1), st.sampled_from(["a", "the slow step", "forward again", "2 ms"])))
)  # fmt: skip
def test_nothing_on_the_ruler_is_cut_into(start, scale, band, marks):
    view = Viewport(float(start), float(scale), WIDTH)
    low, high = sorted(view.time(WIDTH * share) for share in band)
    placed = tuple(sorted((view.time((WIDTH - 1) * share), label) for share, label in marks))
    line = ruler(replace(scene_at(view), band=(low, high + 1), marks=placed))
    blank = list(line)

    def found(at: int, text: str) -> bool:
        """A whole text, with a space on either side: take it away."""
        end = at + len(text)
        free = text.startswith(" ") or not (line[max(0, at - 1) : at] + line[end : end + 1]).strip()
        if not line.startswith(text, at) or not free:
            return False
        blank[at:end] = " " * len(text)
        return True

    length = f" {duration(high + 1 - low)} "
    first, end = max(0, view.column(low)), min(WIDTH, view.column(high + 1) + 1)
    if len(length) <= end - first:
        assert found(first + (end - first - len(length)) // 2, length)
    shared = [f"{n} marks" for n in range(2, len(placed) + 1)]
    for time, label in placed:
        column = view.column(time)
        # On the right, or on the left of where it is.
        any(
            found(column, form) or found(column + 1 - len(form), form[1:] + form[0])
            for text in (label, *shared) for form in forms(text)
        )  # fmt: skip
    for tick in ticks(view)[1]:
        any(found(tick.column, "╷" + text) for text in (tick.label, ""))
    assert not "".join(blank).strip(), line


def test_a_range_s_length_and_a_mark_take_the_place_of_a_tick_s_label():
    plain = scene_at(Viewport(0.0, 100.0, WIDTH))
    labels = ["╷0", *(f"╷{n} µs" for n in range(1, 8))]
    assert ruler(plain) == "".join(f"{label:10}" for label in labels)
    ranged = ruler(replace(plain, band=(1_000, 2_000)))
    assert ranged[:30] == f"{'╷0':10}╷{' 1.00 µs ':9}{'╷2 µs':10}"  # the label of 1 µs has given way
    marked = ruler(replace(plain, marks=((1_800, "a step"), (4_600, "another, longer one"), (5_500, "b"))))
    first, rest = marked[:40], marked[40:]
    assert first == f"{'╷0':10}{'╷1 µs':8}{'▾a step':12}{'╷3 µs':10}"
    assert rest == f"{'╷4 µs':6}{'▾anothe…':9}{'▾b':5}{'╷6 µs':10}{'╷7 µs':10}"


def test_marks_side_by_side_share_a_label():
    view = Viewport(0.0, 100.0, WIDTH)
    marks = ((1_210, "a"), (1_290, "b"), (1_400, "c"), (2_500, "d"))
    assert ruler(replace(scene_at(view), marks=marks))[10:32] == f"{'╷':2}{'▾3 marks':13}{'▾d':5}╷3"
    near = ((1_210, "a"), (1_500, "b"))
    assert ruler(replace(scene_at(view), marks=near))[10:20] == f"{'╷':2}{'▾':3}{'▾b':5}"


class Walked(tuple[tuple[int, str], ...]):
    """Counts how often all of it is gone through."""

    walks = 0

    def __iter__(self) -> Iterator[tuple[int, str]]:
        type(self).walks += 1
        return super().__iter__()


def test_a_frame_does_not_go_through_every_mark():
    marks = Walked((10 * n, f"m{n}") for n in range(-500, 9_500))
    scene = replace(scene_at(Viewport(0.0, 100.0, WIDTH)), marks=marks)
    line = ruler(scene)
    assert Walked.walks == 1
    assert line == "▾  " * 26 + "▾ "
    field = paint(scene, 6).part(TOP, 6, scene.labels, scene.labels + WIDTH)
    assert (field.glyph == ord("┊")).any(axis=0).all()
    assert ruler(replace(scene, view=Viewport(94_990.0, 100.0, WIDTH))).count("▾") == 1
    assert ruler(replace(scene, view=Viewport(95_000.0, 100.0, WIDTH))).count("▾") == 0
    assert ruler(replace(scene, view=Viewport(94_980.0, 0.5, WIDTH))).startswith("▾m9498 ")
    assert Walked.walks == 1
    gone = replace(scene, marks=((1_000, "a"),), instant=3_000)
    assert ruler(gone).count("▾") == 2
    assert ruler(replace(gone, instant=2_000)).index("▾", 11) == 20
    assert ruler(replace(gone, instant=None)).count("▾") == 1
    far = ((-(10**30), "before"), (50, "here"), (10**30, "after"))
    assert ruler(replace(scene, marks=far)).startswith("▾here")


def test_a_mark_at_the_edge_has_its_label_on_the_left():
    view = Viewport(0.0, 100.0, WIDTH)
    line = ruler(replace(scene_at(view), marks=((7_650, "the last step"),)))
    assert line[60:] == "╷  the last step▾   "
    line = ruler(replace(scene_at(view), marks=((5_000, "a label that is far too long"),)))
    assert line[50:70] == "▾a label that i…    "


def test_the_cursor_is_where_a_zoom_is_about(make, make_scene):
    trace = make([(0, 0, 4000, "a"), (0, 1000, 500, "b")], counters=[("mem", 0, 1.0)])
    scene = make_scene(trace, Viewport(0.0, 100.0, 40))
    for theme in (DARK, PLAIN):
        scene = scene.having(palette=Palette(trace, theme))
        for one in (scene, replace(scene, selected=1), replace(scene, selected=1, instant=3050)):
            canvas = paint(one, 8)
            column = one.view.column(one.cursor)
            assert column == {(-1, None): 20, (1, None): 12, (1, 3050): 30}[one.selected, one.instant]
            assert (canvas.paper[1, one.labels : -EDGE] == theme.text).nonzero()[0].tolist() == [column]
            counter = canvas.ink[TOP + 2, one.labels : -EDGE] == theme.text
            assert theme.plain or counter.nonzero()[0].tolist() == [column]
            assert abs(moves.zoomed(one, 2, None).view.column(one.cursor) - column) <= 1
    away = replace(scene, selected=1, view=Viewport(2000.0, 100.0, 40))  # not in view: the middle
    assert away.view.column(away.cursor) == 20
