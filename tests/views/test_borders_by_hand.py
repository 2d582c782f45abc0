"""What reports say at the borders of what they tell apart."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.kineto import Event, cpu, run, step, trace_of
from tests.recorded import ROOT, load

from tracetui.analysis.part import Part
from tracetui.analysis.rates.efficiency import efficiency_of
from tracetui.compare.compare import compare
from tracetui.views.compare_text import Report, compare_blocks
from tracetui.views.document_text import report_lines
from tracetui.views.event import trace_facts
from tracetui.views.gap_words import cause_text
from tracetui.views.gaps_text import cause_lines, gap_report
from tracetui.views.limits import Limit, Outcome
from tracetui.views.lines import plain_text
from tracetui.views.overview import overviews


def test_recordings_without_steps_are_compared_as_a_whole(tmp_path: Path) -> None:
    def text(*events: Event) -> str:
        results = Part(trace_of(tmp_path, *run(10, 20, 1), *run(60, 20, 2), *events))
        report = Report(compare(results, results), ("a", "b"))
        return plain_text(report_lines(compare_blocks(report), 100))

    assert "as a whole" in text()
    assert "0 steps" not in text()
    stepped = text(step(1, 0, 50), step(2, 50, 50))
    assert "as a whole" not in stepped
    assert "2 steps" in stepped


def test_properties_of_a_file_keep_their_names(tmp_path: Path) -> None:
    """Up to 40 characters of them."""
    names = {"k" * 39: 1, "K" * 40: 2, "long" * 20: 3}
    facts = {fact.label: fact.value for fact in trace_facts(trace_of(tmp_path, cpu("a", 0, 1), **names))}
    assert facts["k" * 39] == "1"
    assert facts["K" * 40] == "2"
    (cut,) = (label for label, value in facts.items() if value == "3")
    assert cut.startswith("longlong")
    assert len(cut) <= 40


@pytest.mark.parametrize(("compiling", "said"), [(100, False), (240, False), (260, True), (480, True)])
def test_a_gap_is_called_compiling_from_half_of_its_ops_on(
    tmp_path: Path, compiling: float, said: bool
) -> None:
    """A gap from 50 us to 545: an op of 480 us, and within it some compiling."""
    events = [cpu("aten::mm", 55, 480), cpu("bytecode_tracing (dynamo_timed)", 55, compiling)]
    results = Part(trace_of(tmp_path, *run(20, 30, 1), *run(545, 30, 2), *events))
    assert ("torch.compile" in cause_text(results, 0)) is said


@pytest.mark.parametrize(
    ("a", "b", "relative", "excused"),
    [
        (0.0, 0.02, True, True),  # any growth from nothing is above a share of it
        (0.0, 0.0, True, False),
        (100.0, 104.0, True, False),
        (100.0, 106.0, True, True),
        (None, 106.0, True, False),
        (0.0, 0.02, False, False),
        (0.0, 0.06, False, True),
    ],
)
def test_what_only_noise_excuses(a: float | None, b: float, relative: bool, excused: bool) -> None:
    outcome = Outcome(Limit("step", 0.05, relative), a, b, 0.0, 0.0, False)
    assert outcome.excused is excused


def test_steps_of_no_length_have_no_part_of_the_longest(tmp_path: Path) -> None:
    """Two marks at one time: then there is no longest."""
    *_, found = overviews(Part(trace_of(tmp_path, step(1, 5, 0), step(2, 5, 0), cpu("a", 5, 0))))
    (steps,) = (block for block in (*found.left, *found.right) if block.key == "steps")
    assert [(entry.name, entry.numbers[0], entry.part) for entry in steps.entries] == [
        ("step 1", "0 ns", 0.0), ("step 2", "0 ns", 0.0),
    ]  # fmt: skip


def test_kernels_of_the_overview_tell_what_they_reach_of_the_peak() -> None:
    results = Part(load(ROOT / "sample_traces" / "mlp_eager.json.gz"))
    *_, found = overviews(results)
    (kernels,) = (b for b in found.more if b.key == "kernels")
    reached = {row.name: row for row in efficiency_of(results).kernels}
    told = 0
    for entry in kernels.entries:
        event = entry.target.event
        row = None if event is None else reached.get(results.trace.name_of(event))
        known = [] if row is None else [row.compute_share, row.memory_share]
        told += entry.text.endswith(" peak")
        assert entry.text.endswith(" peak") == any(part is not None and part <= 1 for part in known)
    assert told


def test_a_cause_is_in_words_where_there_are_twenty_columns_for_it(samples: Path) -> None:
    (report,) = gap_report(Part(load(samples / "train.json.gz")))
    seen = set()
    for width in range(40, 100):
        for line in cause_lines(report, width)[:1]:
            room = width - sum(len(text) for text, _ in line[:-1])
            assert bool(line[-1][0].strip()) is (room >= 20)
            seen.add(room)
    assert {19, 20, 21} <= seen
