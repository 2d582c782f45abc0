"""Nesting of a lane that is longer than what is looked at in one piece."""

from __future__ import annotations

import numpy as np
import pytest

from tracetui.trace.nesting import _LANES, nest, sort_slices


@pytest.mark.parametrize("at", [3, 1 << 17, 140_000])
def test_two_slices_that_cross_far_inside_a_lane(at: int) -> None:
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


def test_many_lanes_out_of_order_are_sorted_as_few_are() -> None:
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
    few = sort_slices(lane[:40], start[:40], duration[:40])[0]
    assert few.tolist() == order[:40].tolist()
