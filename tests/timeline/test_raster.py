"""The exact busy share of cells, against a slow oracle."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tracetui.timeline import navigate
from tracetui.timeline.raster import raster
from tracetui.timeline.rows import Rows
from tracetui.timeline.viewport import Viewport
from tracetui.trace.model import Trace

Make = Callable[..., Trace]


@st.composite
def row_slices(draw: st.DrawFn) -> list[tuple[int, int, int, str]]:
    """Slices of one row, not overlapping: some touch, some take no time."""
    at = draw(st.integers(0, 50))
    found = []
    for gap, length, name in draw(
        st.lists(st.tuples(st.integers(0, 40), st.integers(0, 60), st.sampled_from("abcd")), max_size=60)
    ):
        at += gap
        found.append((0, at, length, name))
        at += max(length, 1)
    return found


views = st.builds(
    Viewport, st.integers(-20, 500).map(float), st.integers(1, 64).map(float), st.integers(1, 60)
)


@given(row_slices(), views)
def test_busy_before_is_exact(make, slices, view):
    trace = make(slices)
    if not len(trace):
        return
    row = Rows(trace).row(0, 0)
    times = view.borders()
    _, busy = row.busy_before(times)
    for time, got in zip(times.tolist(), busy.tolist(), strict=True):
        assert got == sum(max(0, min(s + d, time) - s) for _, s, d, _ in slices)


@given(row_slices(), views)
def test_eighths_add_up_and_tell_holes(make, slices, view):
    trace = make(slices)
    if not len(trace):
        return
    shown = raster([Rows(trace).row(0, 0)], view)
    eighths = shown.eighths[0]
    borders = view.borders().tolist()
    busy = [sum(max(0, min(s + d, b) - max(s, a)) for _, s, d, _ in slices) for a, b in pairwise(borders)]
    # Any stretch of cells: within one eighth of a cell.
    for low in range(0, view.width, 7):
        for high in range(low + 1, view.width + 1, 5):
            assert abs(int(eighths[low:high].sum()) * view.cell - 8 * sum(busy[low:high])) <= view.cell
    for i, (a, b) in enumerate(pairwise(borders)):
        touching = [s for s in slices if s[1] < b and max(s[1] + s[2], s[1] + 1) > a]
        assert shown.count[0, i] == len(touching)
        assert 0 <= eighths[i] <= 8
        if busy[i] == view.cell:
            assert eighths[i] == 8
        if 8 * busy[i] <= 7 * view.cell:
            assert eighths[i] < 8  # an idle eighth is a hole that one sees
        if touching:
            assert trace.start[shown.first[0, i]] == touching[0][1]
            assert trace.start[shown.last[0, i]] == touching[-1][1]
        else:
            assert eighths[i] == 0
            assert shown.first[0, i] == -1


@given(row_slices(), views, st.integers(0, 30))
def test_a_cell_looks_the_same_wherever_it_is(make, slices, view, cells):
    trace = make(slices)
    if not len(trace) or cells >= view.width:
        return
    rows = [Rows(trace).row(0, 0)]
    here = raster(rows, view)
    there = raster(rows, Viewport(view.start + cells * view.cell, view.scale, view.width))
    for name in ("eighths", "count", "first", "last", "prevailing"):
        a, b = getattr(here, name), getattr(there, name)
        assert np.array_equal(a[:, cells:], b[:, : view.width - cells]), name


@given(row_slices(), views)
def test_hit_agrees_with_the_raster(make, slices, view):
    trace = make(slices)
    if not len(trace):
        return
    row = Rows(trace).row(0, 0)
    shown = raster([row], view)
    for column in range(view.width):
        found = navigate.hit(row, view, column)
        if shown.count[0, column] == 0:
            assert found is None
        else:
            assert found is not None
            assert shown.first[0, column] <= found <= shown.last[0, column]
            if shown.count[0, column] == 1:
                assert found == shown.first[0, column]


def test_the_name_that_prevails(make):
    # 30 slices in one cell: "long" runs for 94 % of the busy time, though "short" is more frequent.
    slices, at = [], 0
    for i in range(30):
        length = 90 if i % 3 == 0 else 3
        slices.append((0, at, length, "long" if i % 3 == 0 else "short"))
        at += length
    trace = make(slices)
    shown = raster([Rows(trace).row(0, 0)], Viewport(0.0, float(at), 1))
    assert trace.names[shown.prevailing[0, 0]] == "long"
    even = make([(0, 10 * i, 10, "abcdefgh"[i % 8]) for i in range(64)])
    shown = raster([Rows(even).row(0, 0)], Viewport(0.0, 640.0, 1))
    assert shown.prevailing[0, 0] == -1


def test_rows_without_anything_in_view(make):
    rows = Rows(make([(0, 1000, 10, "a"), (1, 0, 5000, "b")]))
    shown = raster([rows.row(0, 0), rows.row(1, 0), rows.row(1, 7)], Viewport(2000.0, 10.0, 20))
    assert shown.count.tolist() == [[0] * 20, [1] * 20, [0] * 20]
    assert shown.eighths[1].tolist() == [8] * 20
    assert shown.prevailing.tolist() == [[-1] * 20] * 3  # there are not several in a cell


def test_row_arrays_hold_every_slice_once(make):
    rows = Rows(make([(0, 0, 100, "p"), (0, 10, 20, "c"), (0, 12, 5, "d"), (0, 40, 20, "c"), (1, 3, 4, "x")]))
    seen = [rows.row(lane, depth).index.tolist() for lane, depth in ((0, 0), (0, 1), (0, 2), (1, 0))]
    assert seen == [[0], [1, 3], [2], [4]]
    assert len(rows.row(0, 3)) == 0
    assert rows.row(0, 1) is rows.row(0, 1)
