"""Ticks at round times, and short texts for times."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracetui.core.units import as_typed
from tracetui.timeline.ruler import ROOM, step_of, ticks
from tracetui.timeline.viewport import Viewport

views = st.builds(
    Viewport, st.integers(0, 10**13).map(float), st.integers(1, 10**9).map(float), st.integers(20, 250)
)


@given(views)
def test_ticks_are_round_and_do_not_touch(view: Viewport) -> None:
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
def test_labels_say_the_time(view: Viewport) -> None:
    base, found = ticks(view)
    for tick in found:
        assert value_of(tick.label) + (base or 0) == pytest.approx(tick.time_ns, abs=0.5)
    assert len({tick.label for tick in found}) == len(found)
    if base is not None:
        assert base <= view.start_ns
        assert value_of(as_typed(base)) == pytest.approx(base, abs=0.5)
        assert all(tick.label == "0" or tick.label.startswith("+") for tick in found)


@given(views)
def test_there_are_ticks(view: Viewport) -> None:
    _, found = ticks(view)
    if view.width >= 80:
        assert len(found) >= 2


def test_deep_in_a_long_trace_the_labels_stay_short() -> None:
    base, found = ticks(Viewport(12_345_678_901.0, 3.0, 100))
    assert base is not None
    assert all(len(tick.label) <= 9 for tick in found)


def test_step() -> None:
    assert [step_of(Viewport(0, scale, 80), 10) for scale in (1.0, 2.0, 3.0, 5.0, 11.0)] == [
        10,
        20,
        50,
        50,
        200,
    ]
    assert ROOM >= 4
