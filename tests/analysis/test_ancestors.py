"""Ancestors of slices that are nested thousands of levels deep, by a plain loop."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kineto import cpu, trace_of
from tests.recorded import load

from tracetui.analysis.calls import ancestors
from tracetui.analysis.calls.ancestors import children_of, covering, deepest_at, first_marked, first_up
from tracetui.analysis.calls.calls import _totals
from tracetui.analysis.calls.nesting import UNKNOWN, order_by_time, parents, top_of
from tracetui.trace import Trace

DEEP = 1500


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    """A tower, beside it smaller ones, and one that stands on a part of it."""
    events = [(i, 10 * DEEP - 2 * i) for i in range(DEEP)]
    events += [(2 * DEEP + 3 * i, 2 - i % 2) for i in range(200)]
    path = tmp_path / "t.json"
    path.write_text(
        json.dumps([{"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": t, "dur": d} for t, d in events])
    )
    return load(path)


def chain(trace: Trace, at: int) -> list[int]:
    found = []
    while at >= 0:
        found.append(at)
        at = int(trace.parent[at])
    return found


def test_the_first_that_is_marked(trace):
    rng = np.random.default_rng(1)
    for share in (0.0, 0.001, 0.1, 1.0):
        marked = rng.random(len(trace)) < share
        at = rng.integers(-1, len(trace), 300)
        expected = [next((i for i in chain(trace, int(a)) if marked[i]), -1) for a in at]
        assert first_marked(trace, at, marked).tolist() == expected
        tops = top_of(trace.parent.astype(np.int64), ~marked)
        assert tops[np.maximum(at, 0)].tolist() == [
            next((i for i in chain(trace, max(0, int(a))) if marked[i]), -1) for a in at
        ]


def test_the_first_that_is_long_enough(trace, monkeypatch):
    rng = np.random.default_rng(2)
    at = rng.integers(-1, len(trace), 300)
    least = rng.integers(0, 12_000_000, 300)
    expected = []
    for a, shortest in zip(at.tolist(), least.tolist(), strict=True):
        expected.append(next((i for i in chain(trace, a) if trace.duration[i] >= shortest), -1))
    for levels in (0, 1, 64, 10_000):
        monkeypatch.setattr(ancestors, "_LEVELS", levels)
        found = first_up(trace, at, lambda up, of: trace.duration[up] >= least[of], steady=True)
        assert found.tolist() == expected


def test_the_deepest_at_a_time(trace):
    end = trace.start + trace.duration
    times = np.arange(0, int(end.max()) + 2000, 7_001)
    found = deepest_at(trace, np.zeros(len(times), dtype=np.int64), times)
    for time, at in zip(times.tolist(), found.tolist(), strict=True):
        around = np.flatnonzero((trace.start <= time) & (time < end))
        assert at == (around[-1] if len(around) else -1)


def test_totals_of_a_tower(trace):
    rng = np.random.default_rng(3)
    own = rng.integers(0, 5, len(trace)) * (rng.random(len(trace)) < 0.1)
    expected = own.copy()
    for at in np.flatnonzero(own).tolist():
        for above in chain(trace, at)[1:]:
            expected[above] += own[at]
    assert _totals(trace.parent.astype(np.int64), own).tolist() == expected.tolist()


def test_children_of_some(trace):
    for at in ([0], [0, 1, 5, DEEP - 1], list(range(0, len(trace), 7)), []):
        expected = [i for i in range(len(trace)) if trace.parent[i] in at]
        assert children_of(trace, np.array(at, dtype=np.int64)).tolist() == expected


def test_the_slice_that_covers_half(tmp_path):
    trace = trace_of(tmp_path, cpu("outer", 0, 100), cpu("half", 20, 31), cpu("inner", 30, 2))
    lane = np.zeros(5, dtype=np.int64)
    start = np.array([20, 20, 10, 200, 20]) * 1000
    found = covering(trace, lane, start, np.array([80, 83, 51, 300, 20]) * 1000)
    assert [trace.name_of(int(i)) if i >= 0 else "-" for i in found] == ["half", "outer", "half", "-", "-"]
    exactly = covering(trace, lane[:2], np.array([-11_000, -11_002]), np.array([51_000, 51_000]))
    assert [trace.name_of(int(i)) for i in exactly] == ["half", "outer"]
    times = np.array([0, 20, 30, 31, 32, 50, 99, 100, -1]) * 1000
    deepest = deepest_at(trace, np.zeros(9, dtype=np.int64), times)
    names = [trace.name_of(int(i)) if i >= 0 else "-" for i in deepest]
    assert names == ["outer", "half", "inner", "inner", "half", "half", "outer", "-", "-"]
    assert deepest_at(trace, np.array([-1]), np.array([5])).tolist() == [-1]


interval = st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(0, 12))


def by_stack(group: list[int], start: list[int], end: list[int]) -> list[int]:
    """torch.autograd.profiler_util.EventList._populate_cpu_children, on indices."""
    found, stack, last = [], [], None
    for i, (g, s, e) in enumerate(zip(group, start, end, strict=True)):
        if g != last:
            stack, last = [], g
        while stack and (s >= end[stack[-1]] or e > end[stack[-1]]):
            stack.pop()
        found.append(stack[-1] if stack else -1)
        stack.append(i)
    return found


@given(st.lists(interval, max_size=60))
def test_parents_are_those_of_the_stack(intervals):
    group = np.array([g for g, _, _ in intervals], dtype=np.int32)
    start = np.array([s for _, s, _ in intervals], dtype=np.int64)
    end = np.array([s + d for _, s, d in intervals], dtype=np.int64)
    order = order_by_time(group, start, end)
    group, start, end = group[order], start[order], end[order]
    keys = list(zip(group.tolist(), start.tolist(), (-end).tolist(), strict=True))
    assert keys == sorted(keys)
    found = parents(group, start, end)
    assert found.tolist() == by_stack(group.tolist(), start.tolist(), end.tolist())
    for part in range(4):  # what is known already is not looked for again
        known = np.where(np.arange(len(found)) % 4 <= part, found, UNKNOWN)
        assert parents(group, start, end, known).tolist() == found.tolist()


def test_order_is_stable():
    group = np.array([1, 0, 1, 0, 1], dtype=np.int32)
    start = np.array([5, 3, 5, 3, 5], dtype=np.int64)
    assert order_by_time(group, start, np.array([9, 4, 10, 4, 9], dtype=np.int64)).tolist() == [1, 3, 2, 0, 4]


def test_long_chain_of_siblings_takes_few_rounds():
    """A parent of 200,000 children that end one by one: each jump skips twice as many as the last."""
    n = 200_000
    start = np.concatenate([[0], np.arange(n) * 2])
    end = np.concatenate([[2 * n], np.arange(n) * 2 + 1])
    found = parents(np.zeros(n + 1, dtype=np.int32), start, end)
    assert found[0] == -1
    assert (found[1:] == 0).all()


def test_top_of_a_chain():
    parent = np.array([-1, 0, 1, 2, 0])
    assert top_of(parent, np.array([False, True, True, False, False])).tolist() == [0, 0, 0, 3, 4]


def test_an_interval_of_no_length_lies_in_what_ends_after_it():
    def found(*intervals: tuple[int, int]) -> list[int]:
        start, end = (np.array(times, dtype=np.int64) for times in zip(*intervals, strict=True))
        return [int(i) for i in parents(np.zeros(len(start), dtype=np.int32), start, end)]

    assert found((0, 10), (10, 10)) == [-1, -1]
    assert found((0, 10), (9, 9)) == [-1, 0]
    assert found((0, 10), (10, 12), (10, 10)) == [-1, -1, 1]
    assert found((0, 20), (2, 10), (10, 10), (10, 10)) == [-1, 0, 0, 0]
