"""What is said of one line of a comparison."""

import dataclasses

import numpy as np
import pytest
from tests.compare.test_pairs import of

from tracetui.compare.model import METRICS, Explanation
from tracetui.views import difference
from tracetui.views.compare import numbers
from tracetui.views.compare_text import _change
from tracetui.views.difference import explanation_facts, number_facts

PAIRS = [
    ("train_base", "train_base_again"), ("train_base", "train_fused_adamw"), ("decode_eager", "decode_graph"),
    ("mlp_eager", "mlp_compile"), ("pageable", "pinned")
]  # fmt: skip


@pytest.mark.parametrize(
    "kind", ["loading", "communication", "compiling", "overlap", "initialisation", "queued"]
)
def test_kinds_that_no_pair_has_have_a_meaning_too(kind):
    one = Explanation(kind, "It takes longer.", 1_000_000, "cpu")
    assert [fact.label for fact in explanation_facts(of(*PAIRS[0]), one)][:2] == ["what", "meaning"]


@pytest.mark.parametrize("pair", PAIRS)
def test_every_line_is_explained(pair):
    found = of(*pair)
    for one in found.explanations:
        facts = explanation_facts(found, one)
        assert facts[0].value == one.text
        assert facts[1].value == difference.MEANS[one.kind]
        places = [fact.event for fact in facts if fact.event >= 0]
        assert places == list(range(min(len(one.places), difference.PLACES)))
        assert len(places) > 0 or one.kind in ("machine", "initialisation", "host", "steps")
    for row in numbers(found):
        facts = number_facts(row)
        assert facts[0].value
        assert any(fact.label == "noise" for fact in facts) == (row.noise in ("within noise", "the machine"))


def test_the_events_behind_it():
    """From the raw JSON: 40 foreach kernels per step became 5 of Adam, and one that counts."""
    found = of("train_base", "train_fused_adamw")
    (fused,) = [one for one in found.explanations if one.kind == "fused"]
    told = {fact.label or fact.value: fact.value for fact in explanation_facts(found, fused)}
    assert told["measured"] == (
        "The durations on the GPU of these events, and what the calls took that launched them, with the ops "
        f"that launch nothing else: the median of {len(found.rounds)} pairs of steps."
    )
    assert told["in A"] == "foreach mul bf16: 10 times, 258 µs"
    assert told["in B"] == "fused adam bf16: 5 times, 481 µs"
    assert "foreach add fp32: 1 time, 1.49 µs" in told
    assert told["places"].startswith("A step 2: foreach mul bf16, ")
    assert "; B step 2: fused adam bf16, 112 µs" in told["places"]


def test_where_only_one_side_has_something():
    """Also where that is the first slice of all."""
    found = of("train_base", "train_fused_adamw")
    (fused,) = [one for one in found.explanations if one.kind == "fused"]
    fused = dataclasses.replace(fused, places=np.array([[0, -1], [-1, 0]]))
    told = [fact.value for fact in explanation_facts(found, fused) if fact.event >= 0]
    assert [(text[:2], "; B" in text) for text in told] == [("A ", False), ("B ", False)]


@pytest.mark.parametrize(
    ("on", "cpu", "said"), [("device", 5, True), ("device", 0, False), ("cpu", 5, False)]
)
def test_the_calls_of_kernels_are_named_where_they_changed(on, cpu, said):
    found = of("train_base", "train_fused_adamw")
    (fused,) = [one for one in found.explanations if one.kind == "fused"]
    facts = explanation_facts(found, dataclasses.replace(fused, on=on, cpu_change_ns=cpu))
    (measured,) = [fact.value for fact in facts if fact.label == "measured"]
    assert measured.startswith("The durations on the GPU" if on == "device" else "The self times on the CPU")
    assert ("what the calls took that launched them" in measured) is said


@pytest.mark.parametrize(("change", "said"), [(1, ("+1 ns CPU", "warn")), (-1, ("-1 ns CPU", "good"))])
def test_what_takes_longer_is_a_warning(change, said):
    assert _change(of(*PAIRS[0]), Explanation("slower", "It takes longer.", change, "cpu")) == said


def test_every_metric_has_words():
    assert set(difference.METRICS) == set(METRICS)
