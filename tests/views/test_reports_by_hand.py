"""What the reports show of small traces: shares, and how many rows by default."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.kineto import cpu, run, step, trace_of

from tracetui.analysis.part import Part
from tracetui.views.device_facts import device_facts
from tracetui.views.gap_words import gap_facts
from tracetui.views.gaps_text import gaps_answer
from tracetui.views.parts import evidence
from tracetui.views.steps import steps_answer
from tracetui.views.summary import summary_answer


def test_shares_of_the_ops_of_a_trace_without_a_device(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, cpu("aten::mm", 0, 30), cpu("aten::add", 40, 10))
    text = summary_answer(Part(trace)).markdown()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    shares = {row[0].strip("`"): row[2] for row in rows if row and "aten" in row[0]}
    assert shares == {"aten::mm": "75%", "aten::add": "25%"}


def test_twenty_gaps_are_listed(tmp_path: Path) -> None:
    events = [event for n in range(26) for event in run(10 + 20 * n, 5, n + 1)]
    results = Part(trace_of(tmp_path, *events))
    assert gaps_answer(results).markdown() == gaps_answer(results, 0, 20).markdown()
    lines = [len(gaps_answer(results, 0, limit).markdown().splitlines()) for limit in (10, 20, 25, 0)]
    # Two lines say how many more there are.
    assert lines == [lines[0], lines[0] + 10, lines[0] + 13, lines[0] + 13]


@pytest.mark.parametrize(
    ("speed", "said"), [(3, True), (999_999_999, True), (1e9, False), (0, False), (True, False), ("3", False)]
)
def test_a_rate_that_can_be(speed: object, said: bool) -> None:
    facts, shown = device_facts({"bytes": 5000, "memory bandwidth (GB/s)": speed}, {})
    (moves,) = [text for name, text in facts if name == "moves"]
    assert (moves != "5,000 bytes") is said
    assert "bytes" in shown


def test_a_gap_names_the_step_that_it_is_in(tmp_path: Path) -> None:
    events = [step(1, 0, 100), step(2, 100, 100)]
    events += [*run(110, 10, 1, "first"), *run(150, 20, 2, "second")]
    results = Part(trace_of(tmp_path, *events))
    told = [(fact.label, fact.value) for fact in gap_facts(results, 0)]
    assert ("idle", "GPU 0 ran nothing for 30.000 µs, starting at 120.000 µs") in told
    assert told[told.index(("before it", "first")) :] == [
        ("before it", "first"),
        ("ended by", "second"),
        ("launched by", "cudaLaunchKernel"),
        ("in step", "ProfilerStep#2"),
    ]
    outside = Part(trace_of(tmp_path, *events[2:]))
    assert "in step" not in {fact.label for fact in gap_facts(outside, 0)}


def test_the_longest_op_is_one_of_the_steps(tmp_path: Path) -> None:
    """What took longer lies before and after them."""
    steps = [step(n, 100 + 100 * n, 100) for n in (1, 2, 3)]
    ops = [cpu(f"in {n}", 110 + 100 * n, 60 + n) for n in (1, 2, 3)]
    trace = trace_of(tmp_path, cpu("before", 0, 150), *steps, *ops, cpu("after", 600, 150))
    event = evidence(Part(trace), "ops").event
    assert event is not None
    assert trace.name_of(event) == "in 3"


def test_a_trace_without_steps_says_so(tmp_path: Path) -> None:
    text = steps_answer(Part(trace_of(tmp_path, cpu("a", 0, 10)))).text(80)
    assert "The trace has no ProfilerStep annotations." in text
