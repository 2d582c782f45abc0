"""The union of intervals against a set of points."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracetui.trace import intervals
from tracetui.trace.intervals import EMPTY, all_of, sum_of, union, union_of

times = st.integers(min_value=0, max_value=60)


@given(st.lists(st.tuples(times, st.integers(min_value=0, max_value=12)), max_size=40), times, times)
def test_union_against_a_set_of_points(some, low, high):
    start = np.array([s for s, _ in some], dtype=np.int64)
    end = np.array([s + d for s, d in some], dtype=np.int64)
    points = {p for s, d in some for p in range(s, s + d)}
    made = union(start, end)
    assert made.total == len(points)
    assert (made.start[1:] > made.end[:-1]).all()
    inside = sum(low <= p < high for p in points)
    assert made.overlap(np.array([low]), np.array([high])).tolist() == [inside]
    assert made.holds(np.array([low, high])).tolist() == [low in points, high in points]


@pytest.mark.skipif(intervals.LIBRARY is None, reason="the library of trace/nesting.c is not installed")
@given(
    st.lists(
        st.tuples(st.integers(-(1 << 62), 1 << 62) | times, st.integers(0, 1 << 62) | times), max_size=30
    ),
    st.booleans(),
)
def test_the_library_equals_numpy(some, in_order):
    start = np.array([s for s, _ in (sorted(some) if in_order else some)], dtype=np.int64)
    end = start + np.array([d for _, d in (sorted(some) if in_order else some)], dtype=np.int64)
    by_library = union(start, end)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(intervals, "LIBRARY", None)
        by_numpy = union(start, end)
    for name in ("start", "end", "before"):
        assert getattr(by_library, name).tolist() == getattr(by_numpy, name).tolist(), name


@pytest.mark.parametrize("runs", [1, 2, 5, 64, 192])
def test_of_several_lanes_one_after_the_other(runs):
    """Each lane's in order, as slices are: as if all were sorted."""
    random = np.random.default_rng(runs)
    for _ in range(50):
        lanes = [np.sort(random.integers(0, 200, random.integers(1, 12))) for _ in range(runs)]
        start = np.concatenate(lanes).astype(np.int64)
        end = start + random.integers(0, 9, len(start))
        one, other = intervals.union(start, end), intervals._by_numpy(start, end)
        assert [one.start.tolist(), one.end.tolist(), one.before.tolist()] == [
            other.start.tolist(), other.end.tolist(), other.before.tolist()
        ]  # fmt: skip


@given(
    st.lists(st.tuples(times, st.integers(0, 12)), max_size=40),
    st.lists(st.integers(-5, 80), min_size=intervals._FEW + 1, max_size=60), st.booleans()
)  # fmt: skip
def test_time_before_moments_in_any_order(some, moments, in_order):
    """The library searches on from the last one."""
    start = np.array([s for s, _ in some], dtype=np.int64)
    made = union(start, start + np.array([d for _, d in some], dtype=np.int64))
    points = {p for s, d in some for p in range(s, s + d)}
    time = np.array(sorted(moments) if in_order else moments, dtype=np.int64)
    expected = [sum(p < t for p in points) for t in time.tolist()]
    assert made.until(time).tolist() == expected
    assert made.until(time[::-1]).tolist() == expected[::-1]
    assert made.until(np.stack([time, time])).tolist() == [expected, expected]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(intervals, "LIBRARY", None)
        assert made.until(time).tolist() == expected


def test_time_before_moments_in_a_long_union():
    random = np.random.default_rng(3)
    start = np.cumsum(random.integers(2, 9, 5000))
    made, time = union(start, start + 1), random.integers(-10, int(start[-1]) + 10, 20_000)
    expected = np.searchsorted(start, time, side="left")  # each is one long
    assert np.array_equal(made.until(time), expected)
    assert np.array_equal(made.until(np.sort(time)), np.sort(expected))


@given(st.lists(st.tuples(times, st.integers(0, 12)), min_size=1, max_size=40), st.data())
def test_of_some_positions_of_two_columns(some, data):
    start, duration = np.array(some, dtype=np.int64).T
    at = np.array(data.draw(st.lists(st.integers(0, len(some) - 1), max_size=30)), dtype=np.int64)
    expected = union(start[at], start[at] + duration[at])
    for columns in ((start, duration), (start.copy(), duration.copy())):  # one is a part of a table
        found = union_of(*columns, at)
        for name in ("start", "end", "before"):
            assert getattr(found, name).tolist() == getattr(expected, name).tolist()
    with pytest.raises(IndexError):
        union_of(start.copy(), duration.copy(), np.array([len(some)]))


def test_of_all_unions():
    one, other = union(np.array([0, 20]), np.array([10, 30])), union(np.array([5, 40]), np.array([20, 41]))
    found = all_of([one, EMPTY, other])
    assert list(zip(found.start.tolist(), found.end.tolist(), strict=True)) == [(0, 30), (40, 41)]
    assert all_of([EMPTY, one]) is one
    assert all_of([]) is EMPTY


@given(st.lists(st.lists(st.tuples(times, st.integers(0, 12)), max_size=9), max_size=6))
def test_of_all_unions_as_of_all_intervals(sets):
    every = [np.array(some, dtype=np.int64).reshape(-1, 2).T for some in sets]
    start, duration = np.concatenate([np.zeros((2, 0), np.int64), *every], axis=1)
    expected, found = union(start, start + duration), all_of([union(at, at + of) for at, of in every])
    for name in ("start", "end", "before"):
        assert getattr(found, name).tolist() == getattr(expected, name).tolist()


@given(
    st.lists(st.tuples(times | st.integers(1 << 60, 1 << 61), st.integers(0, 1 << 61) | times), max_size=40),
    st.lists(st.integers(-9, 80) | st.integers(0, 1 << 62), max_size=9),
)
def test_a_sum_of_sets(some, at):
    """What is in several counts as often; its sums overflow, and what is asked for does not."""
    start = np.array([s for s, _ in some], dtype=np.int64)
    end = start + np.array([min(d, (1 << 62) // max(1, len(some))) for _, d in some], dtype=np.int64)
    low, high = np.array(at, dtype=np.int64), np.array(at[::-1], dtype=np.int64)
    found = sum_of([(start[:7], end[:7]), (start[7:], end[7:])]).overlap(low, high)
    inside = [
        sum(max(0, min(int(b), z) - max(int(a), y)) for a, b in zip(start, end, strict=True))
        for y, z in zip(low.tolist(), high.tolist(), strict=True)
    ]
    assert found.tolist() == inside


def test_a_union_and_its_parts():
    one = union(np.array([30, 0, 10, 40]), np.array([35, 10, 20, 40]))
    assert (one.start.tolist(), one.end.tolist(), one.total) == ([0, 30, 40], [20, 35, 40], 25)
    assert one.until(np.array([-1, 0, 1, 20, 25, 31, 35, 99])).tolist() == [0, 0, 1, 20, 20, 21, 25, 25]
    low, high = np.array([0, 19, 20, 34, 35, 9]), np.array([5, 31, 30, 36, 99, 3])
    assert one.overlap(low, high).tolist() == [5, 2, 0, 1, 0, 0]
    held = [False, True, True, False, True, True, False, False]  # an empty interval, at 40, holds nothing
    assert one.holds(np.array([-1, 0, 19, 20, 30, 34, 35, 40])).tolist() == held
