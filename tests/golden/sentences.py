"""Write anew which claims of the tests' findings `test_sentences.py` makes sentences of:

    python -m tests.golden.sentences

It runs the tests of rules and keeps, of the claims of all findings in them, those whose sentences have one
that no other has, whatever its numbers and names.
"""

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest
from tests import conftest

from tracetui.rules import model
from tracetui.rules.claims import Claim, Names, Words, claims_json, say

CLAIMS = Path(__file__).parent / "claims.jsonl"
TESTS = ("tests/rules", "tests/analysis", "tests/golden/test_commands.py")
NUMBER = re.compile(r"<?\d[\d.,]*(?: ?(?:ns|µs|ms|s|%|[kMGT]?B(?:/s)?)\b)?")


def read_claims() -> list[tuple[str, dict[str, Claim]]]:
    """(rule, claims) of each line of the file."""
    lines = map(json.loads, CLAIMS.read_text(encoding="utf-8").splitlines())
    return [(rule, msgspec.convert(claims, dict[str, Claim])) for rule, claims in lines]


class Collector:
    """Has the claims of every finding that the tests make."""

    def __init__(self) -> None:
        self.lines: dict[str, set[str]] = {}

    def say(self, rule: str, claims: Mapping[str, Claim]) -> Words:
        words = say(rule, claims)
        line = json.dumps([rule, claims_json(claims)], ensure_ascii=False)
        self.lines[line] = self._sentences(rule, words, claims)
        return words

    def _sentences(self, rule: str, words: Words, claims: Mapping[str, Claim]) -> set[str]:
        text = "\n".join(words)
        names = [claim for claim in claims.values() if isinstance(claim, str) and claim]
        names += [one.name for claim in claims.values() if isinstance(claim, Names) for one in claim.each]
        for name in sorted(names, key=len, reverse=True):
            text = text.replace(name, "_")
        parts = re.split(r"(?<=[.;:]) |\n", NUMBER.sub("0", text))
        return {f"{rule}: {re.sub('_(, _)+', '_', part)}" for part in parts}


def main() -> int:
    conftest.COLLECTION = Path("/no/collection")  # what a clone has
    collector = Collector()
    model.say = collector.say  # type: ignore[attr-defined]
    pytest.main(["-n", "0", "-q", "-p", "no:cacheprovider", *TESTS])
    kept, known = [], set[str]()
    for line, sentences in sorted(collector.lines.items(), key=lambda item: (-len(item[1]), item[0])):
        if not sentences <= known:
            known |= sentences
            kept.append(line)
    CLAIMS.write_text("".join(f"{line}\n" for line in sorted(kept)), encoding="utf-8")
    print(f"{len(kept)} of {len(collector.lines)} findings: {len(known)} sentences")
    return 0


if __name__ == "__main__":
    sys.exit(main())
