"""The union of intervals against a set of points."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracetui.trace import intervals
from tracetui.trace.intervals import union

times = st.integers(min_value=0, max_value=60)


@given(st.lists(st.tuples(times, st.integers(min_value=0, max_value=12)), max_size=40), times, times)
def test_union_against_a_set_of_points(some: list[tuple[int, int]], low: int, high: int) -> None:
    start = np.array([s for s, _ in some], dtype=np.int64)
    end = np.array([s + d for s, d in some], dtype=np.int64)
    points = {p for s, d in some for p in range(s, s + d)}
    made = union(start, end)
    assert made.total == len(points)
    assert (made.start[1:] > made.end[:-1]).all()
    inside = sum(low <= p < high for p in points)
    assert made.within(np.array([low]), np.array([high])).tolist() == [inside]
    touched = sum(int(b - a) for a, b in zip(made.start, made.end, strict=True) if a < high and b > low)
    assert made.touching(np.array([low]), np.array([high])).tolist() == [touched if high > low else 0]


@pytest.mark.skipif(intervals.LIBRARY is None, reason="the library of trace/nesting.c is not installed")
@given(
    st.lists(
        st.tuples(st.integers(-(1 << 62), 1 << 62) | times, st.integers(0, 1 << 62) | times), max_size=30
    ),
    st.booleans(),
)
def test_the_library_equals_numpy(some: list[tuple[int, int]], in_order: bool) -> None:
    start = np.array([s for s, _ in (sorted(some) if in_order else some)], dtype=np.int64)
    end = start + np.array([d for _, d in (sorted(some) if in_order else some)], dtype=np.int64)
    by_library = union(start, end)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(intervals, "LIBRARY", None)
        by_numpy = union(start, end)
    for name in ("start", "end", "before"):
        assert getattr(by_library, name).tolist() == getattr(by_numpy, name).tolist(), name


@pytest.mark.parametrize("runs", [1, 2, 5, 64, 192])
def test_of_several_lanes_one_after_the_other(runs: int) -> None:
    """Each lane's in order, as slices are: as if all were sorted."""
    random = np.random.default_rng(runs)
    for _ in range(50):
        lanes = [np.sort(random.integers(0, 200, random.integers(1, 12))) for _ in range(runs)]
        start = np.concatenate(lanes).astype(np.int64)
        end = start + random.integers(0, 9, len(start))
        one, other = intervals.union(start, end), intervals._by_numpy(start, end)
        assert [one.start.tolist(), one.end.tolist(), one.before.tolist()] == [
            other.start.tolist(),
            other.end.tolist(),
            other.before.tolist(),
        ]
