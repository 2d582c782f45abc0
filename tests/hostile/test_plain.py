"""What text becomes before it is shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracetui.core.safe_text import plain

from .texts import KINDS, PILE, unsafe

HARD = st.text(
    st.sampled_from("ae \t\n\x1b[]m\x07\x9b\u202e\u200d\ufeff\u0301\u20dd\u0e49計\ud800\U000e0041")
)


@given(st.one_of(st.text(), HARD))
def test_nothing_unsafe_is_left_and_a_second_time_changes_nothing(text):
    shown = plain(text)
    assert not unsafe(shown, allowed="")
    assert plain(shown) == shown


@pytest.mark.parametrize(
    "text", ["aten::mm", "naïve café", "कार्यक्रम", "ភាសាខ្មែរ", "計算", "a\u0323\u0302b", "[bold]x[/]"]
)
def test_words_of_any_script_are_left_alone(text):
    assert plain(text) == text


def test_controls_are_shown_as_their_pictures():
    assert plain("a\x1b[31m\tb\n\x7f") == "a␛[31m␉b␊␡"
    assert plain("\x9b31m\u202e") == "\ufffd31m\ufffd"


def test_a_pile_of_marks_is_cut():
    for mark in ("\u0301", "\u20dd", "\U0001e000"):
        shown = plain("e" + mark * 300 + "x")
        assert len(shown) < PILE
        assert (shown[0], shown[-1]) == ("e", "x")


@pytest.mark.parametrize("limit", [1, 5, 20])
def test_a_limit_holds_for_every_kind(limit):
    for text in KINDS.values():
        assert len(plain(text, limit)) <= limit
