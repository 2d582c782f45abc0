"""Which names are told to take longer."""

import numpy as np

from tracetui.compare.timing import slower


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
