"""Every sentence of the findings, made of the claims in `claims.jsonl`; no other test looks at their words.

After a change that is meant: WRITE_GOLDEN=1 pytest -n 0 tests/golden/test_sentences.py. After a new claim or
a new rule first: python -m tests.golden.sentences.
"""

import os
from pathlib import Path

from tests.golden.sentences import read_claims

from tracetui.rules import RULES
from tracetui.rules.claims import say

SENTENCES = Path(__file__).parent / "sentences.txt"


def test_sentences():
    text = ""
    for rule, claims in read_claims():
        title, why, advice = say(rule, claims)
        text += f"{rule}: {title}\n  {why}\n  {advice}\n"
    if os.environ.get("WRITE_GOLDEN"):
        SENTENCES.write_text(text, encoding="utf-8")
    assert text == SENTENCES.read_text(encoding="utf-8")


def test_every_rule_has_sentences():
    assert {rule for rule, _ in read_claims()} == set(RULES)
