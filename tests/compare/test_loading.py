"""Calls that load data are told with the loading, and only there."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.compare.conftest import comparison
from tests.kineto import Event, cpu, kernel, launch, step

NEXT = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
STEP = 3_000


def steps(load: float, calls: int) -> list[Event]:
    """Four steps of 3 ms: the data is loaded by so many calls, then 20 ops launch a kernel each."""
    events: list[Event] = []
    for number in range(4):
        now = number * STEP
        events += [step(number, now, STEP), cpu(NEXT, now, load, "user_annotation")]
        events += [cpu("aten::roll", now + k * load / calls, load / calls / 2) for k in range(calls)]
        for k in range(20):
            at, number_ = now + load + 30 * k, 20 * number + k + 1
            events += [cpu(f"aten::op{k}", at, 20), launch(at + 1, number_), kernel(at + 15, 1, number_)]
    return events


def test_loading_and_what_it_calls_are_one_difference(tmp_path: Path):
    found = comparison(tmp_path, steps(1_500, 40), steps(200, 2))
    (one,) = [e for e in found.explanations if e.kind in ("loading", "calls")]
    assert one.kind == "loading"
    assert one.change_ns == pytest.approx(-1_300_000, rel=0.01)
    assert one.text == (
        "Data loading takes 200 µs per step instead of 1.50 ms; 38 calls per step (aten::roll) are gone."
    )
    assert not found.same_program, "it calls less, wherever that is"
    assert not found.answer.startswith("The same")


def test_calls_of_loading_that_takes_as_long_are_told_as_calls(tmp_path: Path):
    found = comparison(tmp_path, steps(1_500, 40), steps(1_500, 20))
    (one,) = [e for e in found.explanations if e.kind in ("loading", "calls")]
    assert one.kind == "calls"
    assert one.text.startswith("On the CPU, 20 fewer calls per step (aten::roll): ")
