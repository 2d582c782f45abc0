"""Moves of the viewport."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tracetui.timeline import viewport
from tracetui.timeline.viewport import Viewport, clamped

views = st.builds(
    Viewport, st.integers(-(10**12), 10**12).map(float), st.floats(1.0, 1e9), st.integers(1, 400)
)


@given(views, st.floats(1.05, 8), st.floats(0, 1))
def test_zoom_in_then_out_is_where_you_were(view, factor, at):
    assume(abs(view.scale % 1 - 0.5) > 1e-6)  # a cell there rounds to either side
    about = view.start + at * view.span_ns
    there = viewport.zoom(view, factor, about)
    if there.scale <= viewport.MIN_SCALE:
        return  # the deepest zoom was reached: some of it was not done
    back = viewport.zoom(there, 1 / factor, about)
    assert back.cell == view.cell or abs(back.scale - view.scale) < 1e-6 * view.scale
    assert abs(back.start - view.start) <= 1e-6 * view.span_ns + 1e-3


@given(views, st.floats(0.2, 5), st.floats(0.01, 0.99))
def test_zoom_keeps_the_instant_in_its_cell(view, factor, at):
    about = round(view.start + at * view.span_ns)
    assert abs(viewport.zoom(view, factor, about).column(about) - view.column(about)) <= 1


@given(views, st.integers(-50, 50))
def test_pan_moves_the_grid_by_whole_cells(view, cells):
    there = viewport.pan(view, cells)
    assert there.start_ns == view.start_ns + cells * view.cell
    if 0 <= cells <= view.width:
        assert np.array_equal(there.borders()[: view.width + 1 - cells], view.borders()[cells:])


@given(st.integers(0, 10**12), st.integers(1, 10**12), st.integers(1, 300), st.sampled_from([0.0, 0.02, 0.5]))
def test_fit_holds_the_stretch(start, length, width, margin):
    view = viewport.fit(start, start + length, width, margin)
    assert view.start_ns <= start
    assert start + length <= view.end_ns
    spare = view.span_ns - length * (1 + 2 * margin)
    assert spare <= 2 * width + 2  # no more than rounding up to whole nanoseconds takes


@given(views, st.integers(0, 10**12), st.integers(1, 10**9))
def test_reveal_shows_what_fits(view, start, length):
    there = viewport.reveal(view, start, start + length)
    assert there.scale == view.scale
    if length <= view.span_ns // 2 and view.width > 4:
        assert there.start_ns <= start
        assert start + length <= there.end_ns
    else:
        assert start < there.end_ns
        assert start + length > there.start_ns


def test_reveal_does_not_move_for_what_is_in_view():
    view = Viewport(1000.0, 10.0, 100)
    assert viewport.reveal(view, 1005, 1995) == view
    assert viewport.reveal(view, 1000, 1010) == view
    assert viewport.reveal(view, 1000, 2010) == view  # a cell more than there are


@given(views)
def test_limits_keep_the_centre_inside(view):
    held = clamped(view, 100, 5000)
    assert 100 - 1 <= held.start + held.span_ns / 2 <= 5000 + 1
    assert clamped(held, 100, 5000) == held


def test_columns_and_times():
    view = Viewport(1000.0, 10.0, 100)
    assert view.end_ns == 2000
    assert view.column(1000) == 0
    assert view.column(1999) == 99
    assert view.column(999) == -1
    assert view.time(5) == 1050
    assert view.contains(1000)
    assert not view.contains(2000)


@pytest.mark.parametrize(("old", "new"), [(100, 50), (80, 200)])
def test_resize_keeps_the_stretch(old, new):
    view = viewport.fit(0, 10**6, old)
    assert viewport.resize(view, new).span_ns == pytest.approx(view.span_ns, rel=1e-3)
