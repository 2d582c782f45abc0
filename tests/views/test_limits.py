"""Limits on what a change may cost: what counts, and what is said."""

from dataclasses import replace

import pytest
from tests.conftest import SAMPLES

from tracetui.analysis.part import Part
from tracetui.compare.compare import compare
from tracetui.compare.model import Comparison, Metric
from tracetui.trace import load
from tracetui.views.limits import METRICS, Limit, Outcome, check_limits, failure, limits_rows, wall_time_note


@pytest.fixture(scope="module")
def same() -> Comparison:
    results = Part(load(SAMPLES / "mlp_eager.json.gz"))
    return compare(results, results)


def outcome(same: Comparison, limit: Limit, metric: Metric, strict: bool = False) -> Outcome:
    """Of a limit, if its metric were this one."""
    found = replace(same, metrics={**same.metrics, METRICS[limit.name]: metric})
    (one,) = check_limits(found, [limit], strict)
    return one


def metric(a: float, b: float, noise: bool = False, machine: float = 0.0) -> Metric:
    return Metric(a, b, noise, (a, a), (b, b), machine)


FIVE = Limit("step", 0.05, True)


@pytest.mark.parametrize(("found", "over", "excused", "counted"), [
    (metric(100, 105), False, False, 5), (metric(100, 105.1), True, False, 5.1),
    (metric(100, 90), False, False, -10), (metric(100, 120, noise=True), False, True, 0),
    (metric(100, 120, machine=16), False, True, 4), (metric(100, 120, machine=14), True, False, 6),
    (metric(100, 104, machine=-10), False, False, 4), (metric(100, 106, machine=-10), True, False, 6),
    (metric(100, 134, noise=True, machine=34), False, True, 0)
])  # fmt: skip
def test_what_counts(same, found, over, excused, counted):
    """The change without what a slower machine explains; a faster one makes nothing worse than it is."""
    one = outcome(same, FIVE, found)
    assert (one.over, one.excused) == (over, excused)
    assert one.counted == pytest.approx(counted)
    strict = outcome(same, FIVE, found, strict=True)
    assert strict.counted == found.change
    assert strict.over == (found.change is not None and found.change > 5)
    assert not strict.excused


def test_what_one_side_does_not_have_has_no_change(same):
    for a, b in ((None, 5.0), (5.0, None), (None, None)):
        one = Outcome(FIVE, a, b, 0.0, None, True)
        assert one.change is None
        assert not one.excused


def test_from_nothing(same):
    """A share of 0 is 0: whatever is new is over it."""
    limit = Limit("copies", 0.5, True)
    one = outcome(same, limit, metric(0, 3))
    assert one.over
    assert failure(one) == "copies from 0, over its limit of +50%: 3 ns instead of 0 ns"
    assert not outcome(same, limit, metric(0, 0)).over


def test_absolute_limits(same):
    assert not outcome(same, Limit("launches", 2, False), metric(7, 9)).over
    one = outcome(same, Limit("launches", 2, False), metric(7, 10))
    assert failure(one) == "launches +3, over its limit of +2: 10 instead of 7"
    one = outcome(same, Limit("device", 50_000, False), metric(1e6, 1.2e6, machine=1e5))
    assert failure(one) == (
        "device +100 µs, over its limit of +50.0 µs: 1.20 ms instead of 1.00 ms "
        "(+200 µs with what the machine's speed explains)"
    )


def test_what_is_not_known(same):
    one = outcome(same, FIVE, Metric(None, None, True))
    assert one.over
    assert not one.excused
    assert limits_rows([one]) == [["step", "not known", "limit +5%", ("over", "bad")]]


def test_rows(same):
    rows = limits_rows([
        outcome(same, FIVE, metric(100, 101)), outcome(same, FIVE, metric(100, 120, noise=True)),
        outcome(same, FIVE, metric(100, 120, machine=10)),
        outcome(same, Limit("launches", 0, False), metric(7, 7))
    ])  # fmt: skip
    assert rows == [
        ["step", "+1.0%", "limit +5%", ("within", "good")],
        ["step", "+20.0%", "limit +5%", ("not counted: the machine, noise", "warn")],
        ["step", "+20.0%", "limit +5%", ("over: +10.0% but for the machine", "bad")],
        ["launches", "0", "limit 0", ("within", "good")],
    ]


def test_a_gate_on_wall_time_is_called_one(same):
    steady = outcome(same, Limit("device", 0.01, True), metric(1, 1))
    step, ops = (outcome(same, Limit(name, 0.01, True), metric(1, 1)) for name in ("step", "cpu-op"))
    assert wall_time_note([steady]) == ""
    assert wall_time_note([steady, step, step]).startswith(
        "step is a wall time, which a busy machine changes"
    )
    assert wall_time_note([step, ops]).startswith("step and cpu-op are wall times")


@pytest.mark.parametrize(("a", "b", "relative", "excused"), [
    (0.0, 0.02, True, True),  # any growth from nothing is above a share of it
    (0.0, 0.0, True, False),
    (100.0, 104.0, True, False),
    (100.0, 106.0, True, True),
    (None, 106.0, True, False),
    (0.0, 0.02, False, False),
    (0.0, 0.06, False, True),
])  # fmt: skip
def test_what_only_noise_excuses(a, b, relative, excused):
    assert Outcome(Limit("step", 0.05, relative), a, b, 0.0, 0.0, False).excused is excused
