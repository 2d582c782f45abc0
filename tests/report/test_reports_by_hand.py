"""What the reports show of small traces: shares, and how many rows by default."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.kineto import cpu, run, step, trace_of

from tracetui.analysis.results import Results
from tracetui.report import compare
from tracetui.report.device_facts import device_facts
from tracetui.report.gaps import gap_facts, gaps_markdown
from tracetui.report.summary import summarize, summary_markdown


def test_shares_of_the_ops_of_a_trace_without_a_device(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, cpu("aten::mm", 0, 30), cpu("aten::add", 40, 10))
    text = summary_markdown(summarize(Results(trace)))
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    shares = {row[3].strip("`"): row[0] for row in rows if len(row) == 4 and "aten" in row[3]}
    assert shares == {"aten::mm": "75%", "aten::add": "25%"}


def test_twenty_gaps_are_listed(tmp_path: Path) -> None:
    events = [event for n in range(26) for event in run(10 + 20 * n, 5, n + 1)]
    results = Results(trace_of(tmp_path, *events))
    assert gaps_markdown(results) == gaps_markdown(results, 0, 20)
    lines = [len(gaps_markdown(results, 0, limit).splitlines()) for limit in (10, 20, 25, 0)]
    assert lines == [lines[0], lines[0] + 10, lines[0] + 15, lines[0] + 15]


@pytest.mark.parametrize(
    ("speed", "said"), [(3, True), (999_999_999, True), (1e9, False), (0, False), (True, False), ("3", False)]
)
def test_a_rate_that_can_be(speed: object, said: bool) -> None:
    facts, shown = device_facts({"bytes": 5000, "memory bandwidth (GB/s)": speed}, {})
    (moves,) = [text for name, text in facts if name == "moves"]
    assert (moves != "5,000 bytes") is said
    assert "bytes" in shown


def test_what_the_other_explanations_come_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of ten, eight are told; each is only its change, and where."""

    def said(*left: tuple[int, str]) -> str:
        monkeypatch.setattr(compare, "_told", lambda found: ((0, "GPU"),) * compare.SHOWN + left)
        monkeypatch.setattr(compare, "main_change", lambda found, one: one)
        return compare._shown(SimpleNamespace(comparison=SimpleNamespace(strange=False), every=False))[1]  # type: ignore[arg-type]

    assert said() == ""
    assert said((2000, "GPU"), (1000, "GPU")) == "and 2 more: +3.00 µs GPU in all (--all lists them)"
    assert said((2000, "GPU"), (-1000, "CPU")).startswith("and 2 more: +2.00 µs GPU, -1.00 µs CPU in all")
    assert said((2000, "CPU"), (-2000, "CPU")).startswith("and 2 more: no time in all")


def test_only_a_gap_in_a_step_says_in_which(tmp_path: Path) -> None:
    events = [*run(10, 5, 1), *run(50, 5, 2), *run(250, 5, 3), *run(280, 5, 4), *run(320, 5, 5)]
    steps = [step(0, 0, 100), step(1, 100, 100)]
    results = Results(trace_of(tmp_path, *steps, *events))
    told = [[fact.value for fact in gap_facts(results, gap) if fact.label == "in step"] for gap in (0, 2)]
    assert told == [["ProfilerStep#0"], []]
