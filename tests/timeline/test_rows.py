"""The rows of a lane: made all at once by the compiled library, and one by one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import SAMPLES

from tracetui.timeline import rows
from tracetui.timeline.rows import Row, Rows
from tracetui.trace import Trace, load

from .conftest import trace_of

needs_library = pytest.mark.skipif(
    rows.LIBRARY is None, reason="the library of trace/nesting.c is not installed"
)


def assert_equal(one: Row, other: Row) -> None:
    for name in ("index", "start", "total"):
        made, wanted = getattr(one, name), getattr(other, name)
        assert made.dtype == wanted.dtype
        assert np.array_equal(made, wanted)
    assert (one.lane, one.depth) == (other.lane, other.depth)


def compare(trace: Trace, most: int) -> int:
    """How many rows were made at once, all of them equal to what is made one by one."""
    made, alone = Rows(trace), Rows(trace)
    count = 0
    for lane in range(len(trace.lanes)):
        made.make(lane, most)
        at_once = [depth for of, depth in made._rows if of == lane]
        assert at_once == list(range(max(1, min(most, made.count(lane)))))
        count += len(at_once)
        for depth in range(made.count(lane) + 2):
            assert_equal(made.row(lane, depth), alone.row(lane, depth))
    return count


@needs_library
@pytest.mark.parametrize("most", [1, 2, 8, 100])
@pytest.mark.parametrize("name", ["train", "mlp_eager"])
def test_samples(name, most):
    assert compare(load(SAMPLES / f"{name}.json.gz"), most) > 1


@needs_library
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=30))
def test_any_slices(slices):
    nested = [(lane, start * 10, length, "x") for lane, start, length in slices]
    nested += [(lane, 0, 1000, "around") for lane in range(2)]
    compare(trace_of(nested), 3)


def test_without_the_library(monkeypatch):
    monkeypatch.setattr(rows, "LIBRARY", None)
    assert compare(load(SAMPLES / "train.json.gz"), 8) > 5
