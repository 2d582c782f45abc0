"""Parents of any intervals against the stack that defines them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tracetui.analysis.calls.nesting import UNKNOWN, order_by_time, parents, top_of

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
def test_parents_are_those_of_the_stack(intervals: list[tuple[int, int, int]]) -> None:
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


def test_order_is_stable() -> None:
    group = np.array([1, 0, 1, 0, 1], dtype=np.int32)
    start = np.array([5, 3, 5, 3, 5], dtype=np.int64)
    end = np.array([9, 4, 10, 4, 9], dtype=np.int64)
    assert order_by_time(group, start, end).tolist() == [1, 3, 2, 0, 4]


def test_long_chain_of_siblings_takes_few_rounds() -> None:
    """A parent of 200,000 children that end one by one: each jump skips twice as many as the last."""
    n = 200_000
    start = np.concatenate([[0], np.arange(n) * 2])
    end = np.concatenate([[2 * n], np.arange(n) * 2 + 1])
    found = parents(np.zeros(n + 1, dtype=np.int32), start, end)
    assert found[0] == -1
    assert (found[1:] == 0).all()


def test_top_of_a_chain() -> None:
    parent = np.array([-1, 0, 1, 2, 0])
    assert top_of(parent, np.array([False, True, True, False, False])).tolist() == [0, 0, 0, 3, 4]


def test_an_interval_of_no_length_lies_in_what_ends_after_it() -> None:
    def found(*intervals: tuple[int, int]) -> list[int]:
        start, end = (np.array(times, dtype=np.int64) for times in zip(*intervals, strict=True))
        return [int(i) for i in parents(np.zeros(len(start), dtype=np.int32), start, end)]

    assert found((0, 10), (10, 10)) == [-1, -1]
    assert found((0, 10), (9, 9)) == [-1, 0]
    assert found((0, 10), (10, 12), (10, 10)) == [-1, -1, 1]
    assert found((0, 20), (2, 10), (10, 10), (10, 10)) == [-1, 0, 0, 0]
