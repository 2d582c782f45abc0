"""A thread that waits for Python's interpreter lock stands still for 5 ms, or 10, or 15, anywhere."""

import pytest
from tests.kineto import Event, cpu, kernel, launch, trace_of
from tests.rules.test_rules import found


def loop(*pauses: float, names: int = 11, times: int = 40) -> list[Event]:
    """Ops of 20 us, each of which launches a kernel, with these pauses in ms after every other one."""
    events: list[Event] = []
    now = 0.0
    for n in range(times):
        events += [cpu(f"aten::op{n % names}", now, 20), launch(now + 5, n + 1), kernel(now + 30, 5, n + 1)]
        now += 21 if n % 2 else 20 + 1000 * pauses[n // 2 % len(pauses)]
    return events


@pytest.mark.parametrize(("pauses", "names", "times", "fires"), [
    ((5.05, 10.2, 15.4), 11, 40, True),
    ((5.05,), 11, 40, True),  # 20 of them
    ((5.05,), 11, 38, False),
    ((5.05,), 11, 400, True),
    ((5.05,), 2, 40, False),  # always in one place: it sleeps
    ((4.8,), 11, 40, False),
    ((5.5,), 11, 40, False),
    ((25.2,), 11, 40, False),
    ((5.05, 10.2, 15.4, 7.5), 11, 80, False),  # a quarter of them is something else
    ((5.05, 10.2, 15.4, 5.1, 5.2, 7.5), 11, 80, True),
])  # fmt: skip
def test_turns_of_the_lock(tmp_path, pauses, names, times, fires):
    finding = found(trace_of(tmp_path, *loop(*pauses, names=names, times=times)), "interpreter_lock")
    assert bool(finding) is fires
    if finding:
        assert finding.severity == "high"
        mine = [pauses[n % len(pauses)] for n in range(times // 2)]
        assert finding.numbers["stretches"] == len(mine) - mine.count(7.5)


def test_few_turns_of_a_long_recording_are_no_matter(tmp_path):
    events = loop(5.05)
    late = [cpu("aten::sort", events[-1]["ts"] + 100, 2_000_000)]
    assert found(trace_of(tmp_path, *events, *late), "interpreter_lock") is None


def test_the_thread_that_waits_most_is_told(tmp_path):
    other = [cpu(f"node{n}", 30.0 * n, 20) | {"tid": 10} for n in range(500)]
    assert found(trace_of(tmp_path, *loop(5.05), *other), "interpreter_lock").numbers["stretches"] == 20
