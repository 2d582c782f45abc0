"""Indices give what a look through the column gives."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.recorded import ROOT, load

from tracetui.trace import Trace, nesting
from tracetui.trace.indices import COLUMNS, group_positions, having, index_of, namesakes, prepare


@pytest.fixture(scope="module")
def train() -> Trace:
    return load(ROOT / "sample_traces" / "train.json.gz")


@pytest.mark.parametrize("column", COLUMNS)
def test_the_index_finds_what_the_column_shows(train, column):
    fresh = replace(train)
    values = getattr(fresh, column)
    top = int(values.max())
    asked = [*range(0, top, max(1, top // 50)), top, top + 1]
    ranges = [(0, top + 1), (top // 3, top // 2), (5, 5), (9, 2)]
    without = [having(fresh, column, i).tolist() for i in asked]
    within = [having(fresh, column, *one).tolist() for one in ranges]
    prepare(fresh)
    assert without == [having(fresh, column, i).tolist() for i in asked]
    assert within == [having(fresh, column, *one).tolist() for one in ranges]
    assert without == [np.flatnonzero(values == i).tolist() for i in asked]
    assert any(without)


def test_values_of_more_than_16_bits_and_none_at_all(train):
    values = np.random.default_rng(1).integers(-1, 300_000, len(train)).astype(np.int32)
    index = index_of(replace(train, launch=values), "launch")
    assert index.value.tolist() == sorted({*values.tolist()} - {-1})
    assert index.at.tolist() == [
        i for _, i in sorted((v, i) for i, v in enumerate(values.tolist()) if v >= 0)
    ]
    empty = replace(train, flow_to=values[:0], launch=np.full(len(train), -1, np.int32))
    prepare(empty)
    assert having(empty, "flow_to", 3).tolist() == having(empty, "launch", 0, 10**6).tolist() == []


def test_the_namesakes_of_a_row(train):
    fresh = replace(train)
    assert namesakes(fresh, 0, 0, 0) is None
    prepare(fresh)
    for i in range(0, len(fresh), 97):
        lane, depth, name = int(fresh.lane[i]), int(fresh.depth[i]), int(fresh.name[i])
        alike = (fresh.lane == lane) & (fresh.depth == depth) & (fresh.name == name)
        assert namesakes(fresh, lane, depth, name).tolist() == np.flatnonzero(alike).tolist()
    none = namesakes(fresh, 0, fresh.lanes[0].rows - 1, int(fresh.name[fresh.lanes[-1].first]))
    assert none is not None
    assert not len(none)


@given(st.lists(st.one_of(st.integers(-3, 9), st.integers(-(2**31), 2**31 - 1), st.integers(65_530, 65_540))))
@pytest.mark.parametrize("size", [0, 1, 7, 66_000])
def test_positions_of_values_with_the_library_and_without(size, values):
    column = np.array(values, dtype=np.int32)
    expected = [(v, i) for v, i in sorted((v, i) for i, v in enumerate(values)) if 0 <= v < size]
    with pytest.MonkeyPatch.context() as patch:
        for library in (nesting.LIBRARY, None):
            patch.setattr(nesting, "LIBRARY", library)
            first, at = nesting.positions(column, size)
            assert [(values[i], i) for i in at.tolist()] == expected
            assert np.diff(first).tolist() == np.bincount([v for v, _ in expected], minlength=size).tolist()
            assert first[0] == 0


@pytest.mark.parametrize("without", [False, True])
@given(values=st.lists(st.integers(-2, 8), max_size=40))
def test_the_first_place_of_each_value(without, values):
    with pytest.MonkeyPatch.context() as patch:
        if without:
            patch.setattr(nesting, "LIBRARY", None)
        first_places = nesting.first_places(np.array(values, dtype=np.int32), 6)
    assert first_places.tolist() == [values.index(v) if v in values else -1 for v in range(6)]


@pytest.mark.parametrize("most", [1, 5, 9, 400])
def test_places_of_values(most):
    """By a pass for each where they are few, by sorting where they are many."""
    random = np.random.default_rng(most)
    for count in (0, 1, 3000):
        values = random.integers(-1, most, count).astype(np.int32)
        found = group_positions(values, most)
        assert [value for value, _ in found] == sorted(set(values.tolist()))
        for value, at in found:
            assert at.tolist() == np.flatnonzero(values == value).tolist()
