"""What reports say of gaps: how many, in which step, in which words."""

import pytest
from tests.kineto import cpu, run, step, trace_of
from tests.recorded import load

from tracetui.analysis.part import Part
from tracetui.views.gap_words import cause_text, gap_facts
from tracetui.views.gaps_text import cause_lines, gap_report, gaps_answer


def test_twenty_gaps_are_listed(tmp_path):
    results = Part(trace_of(tmp_path, *[event for n in range(26) for event in run(10 + 20 * n, 5, n + 1)]))
    assert gaps_answer(results).markdown() == gaps_answer(results, 0, 20).markdown()
    lines = [len(gaps_answer(results, 0, limit).markdown().splitlines()) for limit in (10, 20, 25, 0)]
    # Two lines say how many more there are.
    assert lines == [lines[0], lines[0] + 10, lines[0] + 13, lines[0] + 13]


def test_a_gap_names_the_step_that_it_is_in(tmp_path):
    events = [step(1, 0, 100), step(2, 100, 100)]
    events += [*run(110, 10, 1, "first"), *run(150, 20, 2, "second")]
    results = Part(trace_of(tmp_path, *events))
    told = [(fact.label, fact.value) for fact in gap_facts(results, 0)]
    assert ("idle", "GPU 0 ran nothing for 30.000 µs, starting at 120.000 µs") in told
    assert told[told.index(("before it", "first")) :] == [
        ("before it", "first"), ("ended by", "second"), ("launched by", "cudaLaunchKernel"),
        ("in step", "ProfilerStep#2")
    ]  # fmt: skip
    outside = Part(trace_of(tmp_path, *events[2:]))
    assert "in step" not in {fact.label for fact in gap_facts(outside, 0)}


@pytest.mark.parametrize(("compiling", "said"), [(100, False), (240, False), (260, True), (480, True)])
def test_a_gap_is_called_compiling_from_half_of_its_ops_on(tmp_path, compiling, said):
    """A gap from 50 us to 545: an op of 480 us, and within it some compiling."""
    events = [cpu("aten::mm", 55, 480), cpu("bytecode_tracing (dynamo_timed)", 55, compiling)]
    results = Part(trace_of(tmp_path, *run(20, 30, 1), *run(545, 30, 2), *events))
    assert ("torch.compile" in cause_text(results, 0)) is said


def test_a_cause_is_in_words_where_there_are_twenty_columns_for_it(samples):
    (report,) = gap_report(Part(load(samples / "train.json.gz")))
    seen = set()
    for width in range(40, 100):
        for line in cause_lines(report, width)[:1]:
            room = width - sum(len(text) for text, _ in line[:-1])
            assert bool(line[-1][0].strip()) is (room >= 20)
            seen.add(room)
    assert {19, 20, 21} <= seen
