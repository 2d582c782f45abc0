"""How fast the machine was: what all calls say, not a few of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.compare.conftest import compared
from tests.kineto import Event, cpu, step


def steps(speed: float = 1, odd: float = 1) -> list[Event]:
    """Four steps of 60 ops of 20 us, 2 us apart; all take `speed` times as long, ten of them `odd` times."""
    found: list[Event] = []
    now = 0.0
    for number in range(4):
        begin = now
        for k in range(60):
            length = 20 * (odd if k < 10 else speed)
            found.append(cpu(f"aten::op{k}", now, length))
            now += length + 2 * speed
        found.append(step(number, begin, now - begin))
    return found


def test_calls_that_changed_by_themselves_are_not_the_machine(tmp_path: Path):
    for name, events in (("a", steps()), ("b", steps(1.25, 3))):
        (tmp_path / f"{name}.json").write_text(json.dumps({"traceEvents": events}))
    found = compared(tmp_path / "a.json", tmp_path / "b.json")
    assert found.machine.cpu_ratio == pytest.approx(1.25)
    told = [one for one in found.explanations if one.kind == "slower"]
    assert len(told) == 10
    (machine,) = [one for one in found.explanations if one.kind == "machine"]
    assert "took 1.25 times as long on the CPU (+275 µs with the time between them)" in machine.text
    assert sum(one.change_ns for one in found.explanations) == pytest.approx(
        found.metrics["step_ns"].change, rel=0.1
    )


@pytest.mark.parametrize("stacks", [0, 1])
def test_what_was_recorded_may_slow_single_calls(tmp_path: Path, stacks: int):
    """A sixth of the calls takes half as long again, the rest as long as before."""
    for name, factor, more in (("a", 1.0, {}), ("b", 1.5, {"with_stack": stacks})):
        events = steps(odd=factor)
        (tmp_path / f"{name}.json").write_text(json.dumps({"traceEvents": events, **more}))
    found = compared(tmp_path / "a.json", tmp_path / "b.json")
    machine = [one.text for one in found.explanations if one.kind == "machine"]
    assert [": the machine or what was recorded, not the program." in text for text in machine] == [
        True
    ] * stacks
