"""What sheets say, without a screen."""

from pathlib import Path

import pytest
from rich.cells import cell_len

from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.part import Part
from tracetui.trace import load
from tracetui.views.event import Fact
from tracetui.views.sheets import event_text, facts_text, step_text
from tracetui.views.target import Target

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"


@pytest.fixture(scope="module")
def part() -> Part:
    return Part(load(SAMPLES / "matmul_add_64_cold.json.gz"))


def test_a_gap_comes_before_the_event_that_ended_it(part):
    event = int(gaps_of(part).after[0])
    text = event_text(part, event, gap=0)
    lines = text.lines(60)
    labels = [line.label for line in lines]
    assert labels[0] == "idle"
    assert (
        0 < labels.index("then") < labels.index("what it is") < labels.index("chain") < labels.index("words")
    )
    assert lines[labels.index("then")].event == event
    assert text.title.startswith("Explain: idle ")
    assert {line.event for line in event_text(part, event).lines(60)} >= {event, -1}
    for width in (20, 40, 110):
        assert all(cell_len(line.value) <= width for line in text.lines(width))
        assert max(len(line.label) for line in text.lines(width)) <= text.labels


def test_of_a_beginning_nothing_is_said_that_needs_all_of_it(part):
    text = event_text(part, 0, beginning=True)
    assert text.terms == ()
    assert not any(line.label == "words" for line in text.lines(60))


def test_a_step_beside_the_others_has_the_answer_then_the_numbers(part):
    text = step_text(part, 0)
    lines = text.lines(60)
    assert lines[0].label == "answer"
    labels = [line.label for line in lines]
    assert labels.index("") < labels.index("step time")
    assert text.leads is not None
    assert not text.leads(lines[0])
    assert max(map(len, labels)) == text.labels


def test_facts_are_wrapped():
    text = facts_text([Fact("what", "one two three", 4), Fact("measured", "x")])
    assert text.lines(8) == [Fact("what", "one two", 4), Fact("", "three", 4), Fact("measured", "x")]
    assert text.labels == 8


@pytest.mark.parametrize(("target", "single"), [
    (Target(event=0), True), (Target(gap=0), True), (Target(event=3, span=(0, 1)), True),
    (Target(event=-1, span=(0, 1)), False), (Target(span=(0, 1)), False), (Target(difference=(0, 0)), False),
    (Target("steps", said="text"), False)
])  # fmt: skip
def test_what_is_about_a_single_event_or_gap(target, single):
    assert target.is_single is single
