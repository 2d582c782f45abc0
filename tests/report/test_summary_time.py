"""What the summary says the time of the verdict went to."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.kineto import cpu, kernel, launch, run, step, trace_of

from tracetui.analysis.results import Results
from tracetui.report.summary import summarize, summary_lines, summary_markdown
from tracetui.tables.lines import plain_text
from tracetui.tables.steps import steps_lines


def test_a_single_step_with_an_empty_front(tmp_path: Path) -> None:
    """Idle time before the first device event is no gap, but the step's all the same."""
    trace = trace_of(tmp_path, step(0, 0, 1000), *run(900, 50, 1))
    summary = summarize(Results(trace))
    text = plain_text(summary_lines(summary, 80))
    title, *rows = text[text.index("Where the time goes") :].splitlines()[:3]
    assert title == "Where the time goes: 1.00 ms of the steps"
    assert rows[0].split()[:4] == ["compute", "50.0", "µs", "5.0%"]
    assert rows[1].split()[0] == "host"
    assert float(rows[1].split()[3].rstrip("%")) > 90
    assert "before its first event 9" in text
    assert "| host |" in summary_markdown(summary)


def test_what_does_not_count_stands_below(tmp_path: Path) -> None:
    late = [step(0, 0, 1000), cpu("aten::mm", 880, 30), *run(900, 50, 1)]
    trace = trace_of(tmp_path, *late, *(event for n in (1, 2) for event in (step(n, 1000 * n, 1000),
                     *run(1000 * n + 10, 980, n + 1))))  # fmt: skip
    text = plain_text(summary_lines(summarize(Results(trace)), 80))
    assert "of the steps that count" in text
    assert [line.split()[0] for line in text.splitlines() if line.endswith("not counted")] == ["lead-in"]
    first = next(line for line in text.splitlines() if line.startswith("  step 0"))
    assert "%*" in first
    assert "* without lead-in" in text


@pytest.mark.parametrize("width", [60, 80])
def test_numbers_wrap(tmp_path: Path, width: int) -> None:
    long = [launch(500, 90, 600_000), kernel(600_510, 5, 90, name="new")]
    trace = trace_of(tmp_path, *run(0, 5, 1), *run(100, 5, 2), *run(200, 5, 3), *run(300, 5, 4), *long)
    lines = plain_text(summary_lines(summarize(Results(trace)), width)).splitlines()
    said = " ".join(" ".join(lines).split())
    assert "(median)" in said
    assert max(map(len, lines)) <= width


def test_a_star_has_its_footnote(tmp_path: Path) -> None:
    """Only outside of the steps something does not count: work from before the recording."""
    events = [cpu("aten::mm", 0, 10), kernel(50, 50, 9), step(0, 200, 800), *run(210, 780, 1)]
    text = plain_text(steps_lines(Results(trace_of(tmp_path, *events)).steps(), 80))
    assert "step 0  " in text
    assert "%*" in text.split("outside")[1].splitlines()[0]
    assert "* without lead-in" in text
