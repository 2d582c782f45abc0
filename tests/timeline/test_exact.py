"""Views, ticks, labels and series, each with the exact answer."""

import numpy as np
import pytest

from tracetui.core.units import as_typed
from tracetui.timeline import viewport
from tracetui.timeline.labels import beside, ends, label_width, shortened
from tracetui.timeline.ruler import step_of, ticks
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
    borders = np.array([0, 50 * BLOCK, 100 * BLOCK])
    assert many.peaks(borders).tolist() == [50 * BLOCK - 1, 100 * BLOCK - 1]


@pytest.mark.parametrize(("value", "unit", "text", "brief"), [
    (float("nan"), "", "", ""), (12.0, "", "12", "12"), (12345.0, "", "12,345", "12k"),
    (9999.0, "count", "9,999", "9999"), (1.23456, "", "1.235", "1.235"), (2.5e6, "", "2,500,000", "2M"),
    (3e9, "", "3,000,000,000", "3G"), (34_512.0, "ns", "34.5 µs", "35µs"),
    (2.0**30 * 1.2, "bytes", "1.20 GiB", "1.20G")
])  # fmt: skip
def test_values_in_words(value, unit, text, brief):
    assert (text_of(value, unit), brief_of(value, unit)) == (text, brief)
