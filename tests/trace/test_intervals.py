"""The union of intervals against a set of points."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tracetui.trace.intervals import union

times = st.integers(min_value=0, max_value=60)


@given(st.lists(st.tuples(times, st.integers(min_value=0, max_value=12)), max_size=40), times, times)
def test_union_against_a_set_of_points(intervals: list[tuple[int, int]], low: int, high: int) -> None:
    start = np.array([s for s, _ in intervals], dtype=np.int64)
    end = np.array([s + d for s, d in intervals], dtype=np.int64)
    points = {p for s, d in intervals for p in range(s, s + d)}
    made = union(start, end)
    assert made.total == len(points)
    assert (made.start[1:] > made.end[:-1]).all()
    inside = sum(low <= p < high for p in points)
    assert made.within(np.array([low]), np.array([high])).tolist() == [inside]
    touched = sum(int(b - a) for a, b in zip(made.start, made.end, strict=True) if a < high and b > low)
    assert made.touching(np.array([low]), np.array([high])).tolist() == [touched if high > low else 0]
