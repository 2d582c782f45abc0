"""Which names are told to take longer."""

import json

import numpy as np
import pytest
from tests.compare.conftest import compared
from tests.kineto import cpu, step

from tracetui.compare.model import Metric
from tracetui.compare.timing import drift, general, slower
from tracetui.views.compare import _noise


def test_one_call_that_takes_longer_is_not_all_of_them():
    """Four calls, one of which once takes 900 instead of 40 us; the other names vary a little."""
    random = np.random.default_rng(0)
    name = np.repeat(np.arange(20), 4)
    before = random.integers(38_000, 42_000, 80)
    after = random.integers(38_000, 42_000, 80)
    at = np.arange(80)
    assert slower(name, before, np.where(at == 8, 900_000, after), at, at, 60_000_000) == []
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


def test_a_count_is_never_the_machines():
    """Steps of many sizes on a slower machine: it moves no bytes and launches nothing."""
    slower = Metric(100.0, 120.0, True, machine=20.0)
    for name in ("launches", "kernels", "copied_bytes"):
        assert _noise(name, Metric(10.0, 12.0, True), slower) == "within noise"
    assert _noise("busy_share", Metric(0.4, 0.5, True), slower) == "the machine"


def test_an_op_that_does_its_work_in_another_way(tmp_path):
    """It takes 90 instead of 160 us, and what it calls is other than before."""
    for name, length, within in (("a", 160, "aten::mm"), ("b", 90, "aten::bmm")):
        events = []
        for n in range(3):
            events += [step(n, 1000 * n, 900), cpu("aten::conv", 1000 * n + 10, length + 5)]
            events.append(cpu(within, 1000 * n + 12, 5))
            events += [cpu(f"aten::op{i}", 1000 * n + 200 + 10 * i, 8) for i in range(60)]
        (tmp_path / f"{name}.json").write_text(json.dumps({"traceEvents": events}))
    found = compared(tmp_path / "a.json", tmp_path / "b.json")
    told = [one.text for one in found.explanations if one.kind == "faster"]
    assert told == ["aten::conv takes 90.0 µs instead of 160 µs on the CPU."]


def test_times_that_vary_are_told_in_the_mean(tmp_path):
    """The medians, 90 and 25 us, do not say what it comes to."""
    for name, lengths in (
        ("a", (90, 9000, 90, 9000, 90, 9000, 90)),
        ("b", (25, 2000, 25, 2000, 25, 2000, 25)),
    ):
        events = []
        for n, length in enumerate(lengths):
            events += [step(n, 10000 * n, 9990), cpu("aten::odd", 10000 * n + 1, length)]
            events += [
                cpu(f"aten::op{i}", 10000 * n + 9100 + 10 * i, 8 + (n + i) % 3 / 10) for i in range(60)
            ]
        (tmp_path / f"{name}.json").write_text(json.dumps({"traceEvents": events}))
    (told,) = [
        one for one in compared(tmp_path / "a.json", tmp_path / "b.json").explanations if one.on == "cpu"
    ]
    assert told.text == "aten::odd takes 871 µs instead of 3.91 ms per step on the CPU, on average."


def test_the_same_calls_in_another_step_did_not_become_others(tmp_path):
    """One of seven steps takes another way through an op: not the same one on both sides."""
    for name, odd in (("a", 2), ("b", 4)):
        events = []
        for n in range(7):
            events += [step(n, 1000 * n, 900), cpu("aten::sum", 1000 * n + 50, 60)]
            events += [cpu(f"aten::op{i}", 1000 * n + 200 + 10 * i, 8) for i in range(60)]
            if n == odd:
                events += [cpu("aten::copy_", 1000 * n + 55, 20), cpu("aten::select", 1000 * n + 80, 20)]
        (tmp_path / f"{name}.json").write_text(json.dumps({"traceEvents": events}))
    assert compared(tmp_path / "a.json", tmp_path / "b.json").explanations == ()


def test_many_calls_that_took_a_little_longer_stand_out_of_their_noise():
    """A hundred calls that vary by 1 us take 2 us more each: what is chance in them adds up to far less."""
    random = np.random.default_rng(0)
    name, at = np.repeat(np.arange(20), 100), np.arange(2000)
    before, after = (random.normal(40_000, 1_000, 2000) for _ in range(2))
    after[:100] *= 1.05
    found = slower(name, before, after, at, at, 4_000_000)
    assert [one.name for one in found] == [0]


@pytest.mark.parametrize(("last", "change"), [(400_000, 400_000), (0, None)])
def test_no_more_than_all_of_it_changed(last, change):
    """Five take 300 instead of 100 us, one less than 1,000: together 400 us more, or none."""
    random = np.random.default_rng(0)
    before, after = (random.integers(38_000, 42_000, 86) for _ in range(2))
    before[:6], after[:6] = [100_000] * 5 + [1_000_000], [300_000] * 5 + [last]
    name, at = np.repeat(np.arange(15), 6)[:86], np.arange(86)
    found = [one.change for one in slower(name, before, after, at, at, 60_000_000, much=1.0)]
    assert found == ([] if change is None else [change])
