"""A and B in turn in one recording: which steps are whose, and what the differences of the rounds show."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.compare.conftest import Events

from tracetui.analysis.part import Part
from tracetui.cli.main import main
from tracetui.compare.compare import compare_in_turn
from tracetui.trace import load

pytestmark = pytest.mark.usefixtures("state")

ROUNDS = [(1000, 800), (1400, 1300), (900, 680), (1100, 900), (2000, 1790)]
"""Microseconds of A and of B: the differences are -200, -100, -220, -200, -210."""
Write = Callable[..., str]


def event(name: str, start: float, length: float, cat: str = "user_annotation") -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": start, "dur": length}


def in_turn(rounds: Sequence[tuple[float, float]], names: str = "AB", last: float = 0.0) -> Events:
    """Steps of these lengths one after another, each with an op in most of it. `last`: an A without a B."""
    at, found = 0.0, []
    for lengths in rounds:
        for name, length in zip(names, lengths, strict=True):
            found += [event(name, at, length), event("aten::mm", at + 1, length - 2, "cpu_op")]
            at += length
    return [*found, *([event(names[0], at, last)] if last else [])]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def make(events: Events) -> str:
        path = tmp_path / "trace.json"
        path.write_text(json.dumps({"traceEvents": events}))
        return str(path)

    return make


def run(*args: str) -> Result:
    return CliRunner().invoke(main, ["compare", *args])


def test_the_differences_of_the_rounds(write: Write) -> None:
    found = compare_in_turn(Part(load(write(in_turn(ROUNDS)))))
    assert found.a.steps.tolist() == [0, 2, 4, 6, 8]
    assert found.b.steps.tolist() == [1, 3, 5, 7, 9]
    rounds = found.paired
    assert rounds is not None
    assert rounds.rounds == rounds.b_shorter == 5
    assert rounds.median == -200_000
    assert rounds.quartiles == (-210e3, -200e3)
    assert rounds.range == (-220e3, -100e3)  # of 5, all: leaving one out holds the median in 62%
    assert rounds.clear
    assert not found.metrics["step_ns"].within_noise  # though the steps of a side differ far more
    assert "200 µs less a step than A (-18%)" in found.answer
    assert "the median of 5 rounds, in 5 of which it takes less" in found.answer


def test_rounds_that_differ_both_ways_show_nothing(write: Write) -> None:
    path = write(in_turn([(1000, 800), (800, 1000), (900, 910), (900, 880), (900, 890)]))
    found = compare_in_turn(Part(load(path)))
    assert found.paired is not None
    assert not found.paired.clear
    assert found.metrics["step_ns"].within_noise
    assert found.answer.startswith("5 rounds of A and B show no clear difference: -10.0 µs (-1.1%)")


def test_of_twelve_rounds_two_may_be_off(write: Write) -> None:
    path = write(in_turn([(1000, 900)] * 10 + [(1000, 5000)] * 2))
    rounds = compare_in_turn(Part(load(path))).paired
    assert rounds is not None
    assert rounds.range == (-100e3, -100e3)
    assert rounds.b_shorter == 10


def test_they_are_the_steps_though_the_profiler_has_its_own(write: Write) -> None:
    steps = [event(f"ProfilerStep#{i}", 2400 * i, 2400) for i in range(2)]
    found = compare_in_turn(Part(load(write([*steps, *in_turn([(1000, 1400), (1000, 1400)])]))))
    assert len(found.rounds) == 2
    assert found.paired is not None
    assert found.paired.median == 400_000


def test_an_a_without_its_b_is_left_out(write: Write) -> None:
    found = compare_in_turn(Part(load(write(in_turn(ROUNDS, last=700)))))
    assert found.paired is not None
    assert found.paired.rounds == 5


@pytest.mark.parametrize(
    "events",
    [
        [*in_turn(ROUNDS, "BA")[2:-2], event("A", 90_000, 5), event("A", 90_010, 5)],
        in_turn(ROUNDS, "XY"),
        in_turn(ROUNDS[:1]),
        [event("A", 0, 1000), event("B", 500, 1000), event("A", 2000, 100), event("B", 2100, 100)],
        [one | {"tid": ord(one["name"][0])} for one in in_turn(ROUNDS)],
    ],
    ids=["not in turn", "other names", "one round", "overlapping", "two threads"],
)
def test_no_rounds(write: Write, events: Events) -> None:
    path = write(events)
    result = run(path)
    assert result.exit_code == 2
    assert "no annotations A and B in turn" in result.stderr
    with pytest.raises(LookupError):
        compare_in_turn(Part(load(path)))


def test_json_and_limits(write: Write) -> None:
    path = write(in_turn(ROUNDS))
    found = json.loads(run(path, "--json").stdout)
    assert found["paired"] == {
        "rounds": 5, "median_ns": -200_000, "quartiles_ns": [-210_000, -200_000],
        "range_ns": [-220_000, -100_000], "b_shorter": 5, "clear": True,
        "predicted_ns": None,
    }  # fmt: skip
    assert found["a"]["name"] == "trace.json, A"
    assert found["b"]["steps"] == [1, 3, 5, 7, 9]
    assert run(path, "--fail-over", "step=1%").exit_code == 0
    slower = write(in_turn([(b, a) for a, b in ROUNDS]))
    result = run(slower, "--fail-over", "step=10%")
    assert result.exit_code == 3
    assert "step +22.2%, over its limit of +10%: 1.10 ms instead of 900 µs" in result.stderr
    assert run(slower, "--fail-over", "step=25%").exit_code == 0


def test_two_recordings_have_no_rounds(write: Write) -> None:
    path = write(in_turn(ROUNDS))
    assert json.loads(run(path, path, "--json").stdout)["paired"] is None
    assert json.loads(run(path, "--step", "3", "--against", "2", "--json").stdout)["paired"] is None
