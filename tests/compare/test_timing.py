"""Which names are told to take longer."""

import numpy as np
import pytest

from tracetui.compare.timing import drift, general, slower


def test_one_call_that_takes_longer_is_not_all_of_them():
    """Four calls, one of which once takes 900 instead of 40 us; the other names vary a little."""
    random = np.random.default_rng(0)
    name = np.repeat(np.arange(20), 4)
    before = random.integers(38_000, 42_000, 80)
    after = random.integers(38_000, 42_000, 80)
    at = np.arange(80)
    late = np.where(at == 8, 900_000, after)
    assert slower(name, before, late, at, at, 60_000_000) == []
    (told,) = slower(name, before, np.where(name == 2, 300_000, after), at, at, 60_000_000)
    assert (told.name, len(told.a), told.of) == (2, 4, 4)


def test_calls_that_wait_do_not_say_how_fast_the_rest_is():
    """Twenty launches that the device's full queue held up on one side only; the ops took as long."""
    random = np.random.default_rng(0)
    name = np.repeat(np.arange(20), 4)
    before = random.integers(38_000, 42_000, 80)
    held, after = np.where(name < 5, 1_000_000, before), random.integers(38_000, 42_000, 80)
    at = np.arange(80)
    told = slower(name, held, after, at, at, 60_000_000, 0.7, 1.0)
    assert {one.name for one in told} == set(range(5))
    assert all(one.change < -3_000_000 for one in told)


def test_what_once_took_long_is_not_how_fast_the_machine_was():
    """Most of A's time is one call's; all others took 0.9 times as long."""
    before = np.array([100, 100, 100, 100, 9_000])
    after = np.array([90, 90, 90, 90, 100])
    assert drift(before, after) == pytest.approx(0.9)
    assert drift(after, before) == pytest.approx(1 / 0.9)


def test_a_name_takes_longer_by_what_most_of_its_calls_do():
    """Two of ten calls took much longer, by less than is told of a single one; the others less long."""
    random = np.random.default_rng(0)
    name = np.repeat(np.arange(20), 10)
    before = random.integers(38_000, 42_000, 200)
    after = random.integers(38_000, 42_000, 200)
    after[:10] = before[:10] - 2_000
    after[:2] += 1_000_000
    at = np.arange(200)
    assert slower(name, before, after, at, at, 60_000_000) == []


def test_single_calls_of_either_side_are_apart():
    random = np.random.default_rng(0)
    name = np.repeat(np.arange(20), 10)
    before, after = (random.integers(38_000, 42_000, 200) for _ in range(2))
    before[3], after[[5, 6]] = 4_000_000, 9_000_000
    at = np.arange(200)
    longer, shorter = slower(name, before, after, at, at, 60_000_000)
    assert (longer.a.tolist(), shorter.a.tolist()) == ([5, 6], [3])
    assert longer.change > 0 > shorter.change


def test_a_call_that_took_as_long_is_not_told():
    """All others took half as long again: it did less than could be expected, but the same as before."""
    name = np.arange(40)
    before = np.full(40, 40_000)
    after = (before * np.random.default_rng(0).uniform(1.4, 1.6, 40)).astype(np.int64)
    before[0], after[0] = 10_000_000, 10_030_000
    at = np.arange(40)
    assert slower(name, before, after, at, at, 11_000_000) == []


def test_in_general_is_what_most_names_say_too():
    name = np.repeat(np.arange(5), 4)
    before = np.where(name == 0, 10_000, 100)
    assert general(name, before, np.where(name == 0, 13_000, 100)) == 1
    assert general(name, before, (before * 1.2).astype(int)) == pytest.approx(1.2)
    assert general(name, before, np.where(name == 0, 13_000, 110)) == pytest.approx(1.1)
    assert general(name[:0], before[:0], before[:0]) == 1
