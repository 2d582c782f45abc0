"""Order, depth and parent against slow and simple oracles."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.kineto import named, rows_of

from tracetui.trace import Trace, nesting
from tracetui.trace.nesting import _LANES, nest, sort_slices

Slice = tuple[int, int, int]
"""(lane, start, duration)"""

anything = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 60), st.integers(0, 25)), max_size=60)


@st.composite
def nested(draw: st.DrawFn) -> list[Slice]:
    """Slices that nest: each lies in the one drawn before it, or beside it."""
    made: list[Slice] = []

    def fill(lane: int, begin: int, end: int, level: int) -> None:
        while begin < end and draw(st.booleans()):
            first = draw(st.integers(begin, end))
            last = draw(st.integers(first, end))
            made.append((lane, first, last - first))
            if level < 4:
                fill(lane, first, last, level + 1)
            begin = max(last, first + 1)

    for lane in range(draw(st.integers(1, 3))):
        fill(lane, 0, 100, 0)
    return draw(st.permutations(made))


def run(slices: list[Slice]) -> tuple[list[Slice], list[int], list[int], list[int], list[int]]:
    """(slices in order, depth, parent, rows of each lane, first of each lane)"""
    lane, start, duration = (np.array([s[i] for s in slices], dtype=np.int64) for i in range(3))
    lane = np.unique(lane, return_inverse=True)[1]
    order, firsts = sort_slices(lane.astype(np.int32), start, duration)
    assert lane[order].tolist() == np.repeat(np.arange(len(firsts) - 1), np.diff(firsts)).tolist()
    depth, parent, rows = nest(start[order], duration[order], firsts)
    return [slices[i] for i in order], depth.tolist(), parent.tolist(), rows, firsts


def slow_parents(ordered: list[Slice]) -> list[int]:
    """The nearest slice before each that starts before its end and contains it wholly."""
    found = []
    for i, (lane, start, duration) in enumerate(ordered):
        inside = [
            j
            for j, (other, first, length) in enumerate(ordered[:i])
            if other == lane and start < first + length and start + duration <= first + length
        ]
        found.append(max(inside, default=-1))
    return found


def slow_depths(ordered: list[Slice], firsts: list[int]) -> list[int]:
    """A stack per overflow group; each group of a lane lies below the one before it."""
    depths = [0] * len(ordered)
    for first, last in pairwise(firsts):
        groups: list[list[tuple[int, int]]] = []  # open (end, index)
        members: list[list[int]] = []
        for i in range(first, last):
            _, start, duration = ordered[i]
            for number, stack in enumerate(groups):  # noqa: B007 (needed behind the loop)
                while stack and stack[-1][0] <= start:
                    stack.pop()
                if not stack or start + duration <= stack[-1][0]:
                    break
            else:
                number, stack = len(groups), []
                groups.append(stack)
                members.append([])
            depths[i] = len(stack)
            stack.append((start + duration, i))
            members[number].append(i)
        base = 0
        for mine in members:
            height = max(depths[i] for i in mine) + 1
            for i in mine:
                depths[i] += base
            base += height
    return depths


@settings(max_examples=150)
@given(st.one_of(anything, nested()))
@example([(0, 0, 10), (0, 5, 10), (0, 10, 10)])
@example([(0, 0, 0), (0, 0, 0), (0, 0, 5), (0, 5, 0)])
def test_depth_and_parent_agree_with_the_oracles(slices):
    ordered, depth, parent, rows, firsts = run(slices)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nesting, "LIBRARY", None)
        assert run(slices) == (ordered, depth, parent, rows, firsts)
    assert ordered == sorted(slices, key=lambda s: (s[0], s[1], -s[2]))
    assert parent == slow_parents(ordered)
    assert depth == slow_depths(ordered, firsts)
    assert rows == [max(depth[a:b]) + 1 for a, b in pairwise(firsts)]


@given(anything)
def test_no_row_holds_two_slices_at_once(slices):
    ordered, depth, _, _, _ = run(slices)
    last: dict[tuple[int, int], int] = {}
    for (lane, start, duration), row in zip(ordered, depth, strict=True):
        if duration:
            assert start >= last.get((lane, row), 0)
            last[lane, row] = start + duration


@given(anything)
def test_times_that_do_not_fit_one_axis(slices):
    """Far apart, lanes take another way to the same answer."""
    far = [(lane, start << 55, duration << 55) for lane, start, duration in slices if start + duration < 60]
    near = [(lane, start, duration) for lane, start, duration in slices if start + duration < 60]
    assert run(far)[1:] == run(near)[1:]


def test_many_slices_are_nested_a_few_lanes_at_a_time(monkeypatch):
    slices = [(lane, 10 * i, length) for lane in range(7) for i in range(4) for length in (8 + lane, 5)]
    expected = run(slices)
    monkeypatch.setattr(nesting, "PART", len(slices) - 1)
    monkeypatch.setattr(nesting, "THREADS", 3)
    assert run(slices) == expected


def test_a_staircase_takes_two_rows():
    _, depth, parent, rows, _ = run([(0, 10 * i, 15) for i in range(1000)])
    assert depth == [i % 2 for i in range(1000)]
    assert set(parent) == {-1}
    assert rows == [2]


def test_more_overlap_than_stacks():
    """Each slice crosses all before it: as many rows as slices, and rows are used again afterwards."""
    crowd = [(0, i, 1000) for i in range(200)]
    _, depth, _, rows, _ = run([*crowd, *((0, 5000 + i, 1000) for i in range(100))])
    assert sorted(depth[:200]) == list(range(200))
    assert len(set(depth[200:])) == 100
    assert rows == [200]


def test_equal_slices_keep_the_order_of_the_file():
    lane = np.zeros(5, dtype=np.int32)
    start = np.array([3, 3, 1, 3, 3])
    assert sort_slices(lane, start, np.array([2, 5, 9, 2, 5]))[0].tolist() == [2, 1, 4, 0, 3]


Event = dict[str, Any]
Make = Callable[..., Event]
Load = Callable[..., Trace]


def test_rows_and_parents(trace_of, event):
    trace = trace_of([
        event(name="first", ts=0, dur=10), event(name="touching", ts=10, dur=10),
        event(name="same start, shorter", ts=10, dur=5), event(name="same end", ts=15, dur=5),
        event(name="empty inside", ts=16, dur=0), event(name="empty at the end", ts=20, dur=0),
        event(name="other thread", ts=1, dur=100, tid=2), event(name="below it", ts=2, dur=50, tid=2),
        event(name="below that", ts=52, dur=0, tid=2)
    ])  # fmt: skip
    assert rows_of(trace) == {
        "first": (0, ""), "touching": (0, ""), "same start, shorter": (1, "touching"),
        "same end": (1, "touching"), "empty inside": (2, "same end"), "empty at the end": (0, ""),
        "other thread": (0, ""), "below it": (1, "other thread"), "below that": (1, "other thread")
    }  # fmt: skip
    assert [(lane.first, lane.last, lane.rows) for lane in trace.lanes] == [(0, 6, 3), (6, 9, 2)]


def test_slices_that_cross_go_below(trace_of, event):
    trace = trace_of([
        event(name="a", ts=0, dur=10), event(name="in a", ts=1, dur=3), event(name="crosses a", ts=5, dur=10),
        event(name="in the crossing", ts=11, dur=2), event(name="crosses both", ts=9, dur=20),
        event(name="after", ts=40, dur=5), event(name="in after", ts=41, dur=1)
    ])  # fmt: skip
    assert rows_of(trace) == {
        "a": (0, ""),
        "in a": (1, "a"),
        "crosses a": (2, ""),
        "in the crossing": (0, "crosses both"),  # row 0 is free again by then
        "crosses both": (3, ""),
        "after": (0, ""),
        "in after": (1, "after"),
    }
    assert trace.lanes[0].rows == 4
    at = named(trace)
    assert [trace.name_of(int(i)) for i in trace.children(at["after"])] == ["in after"]
    assert [trace.name_of(int(i)) for i in trace.children(at["crosses both"])] == ["in the crossing"]


@pytest.mark.parametrize("at", [3, 1 << 17, 140_000])
def test_two_slices_that_cross_far_inside_a_lane(at):
    """One ends within the next; the one after that lies inside the second."""
    count = 150_000
    begin = 10 * np.arange(count, dtype=np.int64)
    length = np.full(count, 5, dtype=np.int64)
    length[at] += 10  # until the middle of the next
    length[at + 1] += 20  # which holds the two after it
    depth, parent, rows = nest(begin, length, [0, count])
    assert parent[at : at + 5].tolist() == [-1, -1, at + 1, at + 1, -1]
    assert (np.delete(parent, [at + 2, at + 3]) == -1).all()
    assert np.flatnonzero(depth).tolist() == [at + 1], "in a row of its own; above it there is room"
    assert (depth[at + 1], rows) == (1, [2])


def test_many_lanes_out_of_order_are_sorted_as_few_are():
    """By start; what begins together, the longest first; what is as long, as in the file."""
    lanes = _LANES + 44
    lane = np.repeat(np.arange(lanes, dtype=np.int32), 4)
    start = np.tile(np.array([5, 1, 1, 1], dtype=np.int64), lanes)
    duration = np.tile(np.array([9, 2, 7, 2], dtype=np.int64), lanes)
    order, firsts = sort_slices(lane, start, duration)
    assert firsts == list(range(0, 4 * lanes + 1, 4))
    assert (
        order.reshape(lanes, 4) - order.reshape(lanes, 4).min(axis=1, keepdims=True) == [2, 1, 3, 0]
    ).all()
    assert sort_slices(lane[:40], start[:40], duration[:40])[0].tolist() == order[:40].tolist()
