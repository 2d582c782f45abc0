"""What numpy does under the interpreter's lock, done in parts."""

import random
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracetui.core import columns
from tracetui.core.columns import Columns, blocks, counted, earliest, repeated, unique

INDEX = st.lists(st.integers(0, 9), max_size=40)


@pytest.fixture(autouse=True, scope="module")
def in_parts() -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "blocks", partial(blocks, size=3))
        yield


@given(st.lists(st.tuples(st.integers(-99, 99), st.integers(0, 8)), max_size=20))
def test_repeated(pairs):
    values, counts = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    for kind in (np.int32, np.int64):
        found = repeated(values.astype(kind), counts)
        assert found.dtype == kind
        assert found.tolist() == np.repeat(values, counts).tolist()


@given(INDEX)
def test_counted(index):
    values = np.array(index, dtype=np.int32)
    assert counted(values, 10).tolist() == np.bincount(values, minlength=10).tolist()


@pytest.mark.parametrize("wrong", [-1, 10])
def test_nothing_is_counted_elsewhere(wrong):
    with pytest.raises(IndexError):
        counted(np.array([1, 2, 3, wrong]), 10)


@given(INDEX, st.data())
def test_earliest(index, data):
    times = data.draw(st.lists(st.integers(-9, 9), min_size=len(index), max_size=len(index)))
    found = earliest(np.array(index, dtype=np.int32), np.array(times, dtype=np.int64), 10).tolist()
    none = np.iinfo(np.int64).max
    assert found == [
        min((t for i, t in zip(index, times, strict=True) if i == one), default=none) for one in range(10)
    ]


@given(INDEX, INDEX)
def test_unique(one, other):
    a, b = (np.array(some, dtype=np.int64) for some in (one, other))
    assert unique(a).tolist() == np.unique(a).tolist()
    assert unique(a, b).tolist() == np.union1d(a, b).tolist()


def test_columns_grow_with_what_is_added():
    rng = random.Random(1)
    for share in (0.0, 0.01, 0.5, 1.0):
        columns, expected = Columns({"a": np.int64, "b": np.int8}), list[int]()
        for _ in range(40):
            piece = [rng.randrange(100) for _ in range(rng.randrange(300))]
            columns.add(share, a=np.array(piece, np.int64), b=np.array(piece, np.int8))
            expected += piece
            assert len(columns) == len(expected)
            assert all(len(column) >= len(expected) for column in columns.arrays.values())
            # Not copied for every piece, nor without bound.
            assert len(columns.arrays["a"]) <= max(
                1024, 110 * len(expected) if share else 2 * len(expected) + 600
            )
        assert columns.take("a").tolist() == columns.take("b").tolist() == expected
        assert columns.take("a").dtype == np.int64
