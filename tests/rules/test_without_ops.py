"""Rules on traces of the CPU alone: what is outside ops, slow ops, calls of short ops."""

from __future__ import annotations

from pathlib import Path

from tests.kineto import cpu, step, trace_of
from tests.rules.test_rules import found

from tracetui.rules.claims import Time


def python(name: str, start: float, duration: float) -> dict[str, object]:
    return cpu(name, start, duration, "python_function")


def test_what_keeps_the_main_thread_is_named(tmp_path: Path) -> None:
    events = [step(0, 0, 100), python("train.py(7): read", 0, 60), cpu("aten::mm", 60, 40)]
    one = found(trace_of(tmp_path, *events), "outside_ops")
    assert one is not None
    assert (one.severity, one.claims["name"]) == ("high", "train.py(7): read")
    assert one.numbers["outside_ns"] == one.numbers["longest_ns"] == 60_000
    assert "stacks" not in one.advice


def test_without_names_the_advice_is_to_record_stacks(tmp_path: Path) -> None:
    one = found(trace_of(tmp_path, step(0, 0, 100), cpu("aten::mm", 20, 80)), "outside_ops")
    assert one is not None
    assert one.severity == "medium"
    assert "name" not in one.claims
    assert "--with-stack" in one.advice


def test_little_time_outside_ops_is_no_finding(tmp_path: Path) -> None:
    assert found(trace_of(tmp_path, step(0, 0, 100), cpu("aten::mm", 9, 91)), "outside_ops") is None


def test_an_op_that_takes_a_third_by_itself(tmp_path: Path) -> None:
    ops = [cpu("aten::mm", 0, 40), cpu("aten::add", 40, 31), cpu("aten::mul", 71, 29)]
    one = found(trace_of(tmp_path, step(0, 0, 100), *ops), "slow_ops")
    assert one is not None
    assert (one.claims["name"], one.numbers["self_ns"]) == ("aten::mm", 40_000)
    even = [cpu(f"aten::op{n}", 25 * n, 25) for n in range(4)]
    assert found(trace_of(tmp_path, step(0, 0, 100), *even), "slow_ops") is None


def test_many_short_ops_cost_their_calls(tmp_path: Path) -> None:
    short = [cpu("aten::add", 8 * n, 5) for n in range(10)]
    one = found(trace_of(tmp_path, step(0, 0, 100), *short), "short_ops")
    assert one is not None
    assert (one.claims["short_ns"], one.claims["between_ns"]) == (Time(50_000), Time(27_000))
    long = [cpu("aten::add", 20 * n, 12) for n in range(5)]
    assert found(trace_of(tmp_path, step(0, 0, 100), *long), "short_ops") is None


def test_several_callers_are_told_and_none_is_named(tmp_path: Path) -> None:
    """Neither takes half of the time in gaps."""
    third = python("train.py(9): log", 30, 20), python("train.py(7): read", 60, 20)
    ops = [cpu("aten::mm", start, 10) for start in (20, 50, 80)]
    one = found(trace_of(tmp_path, step(0, 0, 100), *third, *ops), "outside_ops")
    assert one is not None
    assert "name" not in one.claims
    assert "train.py(9): log (1, 20.0 µs), train.py(7): read (1, 20.0 µs)" in one.text
    assert "between the ops" in one.advice


def test_a_single_call_that_takes_all(tmp_path: Path) -> None:
    one = found(trace_of(tmp_path, step(0, 0, 100), cpu("aten::sort", 0, 95)), "slow_ops")
    assert one is not None
    assert one.severity == "medium"
    assert one.text.startswith("1 call takes 95.0 µs by itself")
