"""Add the claims of the tests' findings that `test_sentences.py` has no such sentences of yet:

    python -m tests.golden.sentences [pytest's arguments, such as tests/rules/test_rules.py -k small_grids]

It runs these tests and adds, of the claims of all findings in them, those whose sentences have one that no
other has, whatever its numbers and names. Without arguments it runs all tests of rules, and takes out the
claims that none of them makes any longer.
"""

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest
from tests import conftest

from tracetui.rules import RULES, model
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
        self.lines[line] = sentences(rule, words, claims)
        return words


def sentences(rule: str, words: Words, claims: Mapping[str, Claim]) -> set[str]:
    """The sentences without numbers and names."""
    text = "\n".join(words)
    names = [claim for claim in claims.values() if isinstance(claim, str) and claim]
    names += [one.name for claim in claims.values() if isinstance(claim, Names) for one in claim.each]
    for name in sorted(names, key=len, reverse=True):
        text = text.replace(name, "_")
    parts = re.split(r"(?<=[.;:]) |\n", NUMBER.sub("0", text))
    return {f"{rule}: {re.sub('_(, _)+', '_', part)}" for part in parts}


def main(arguments: list[str]) -> int:
    conftest.COLLECTION = Path("/no/collection")  # what a clone has
    collector = Collector()
    model.say = collector.say  # type: ignore[attr-defined]
    pytest.main(["-n", "0", "-q", "-p", "no:cacheprovider", *(arguments or TESTS)])
    kept, known = [], set[str]()
    for line, (rule, claims) in zip(
        CLAIMS.read_text(encoding="utf-8").splitlines(), read_claims(), strict=True
    ):
        if line in collector.lines or (arguments and rule in RULES):
            known |= sentences(rule, say(rule, claims), claims)
            kept.append(line)
    for line, said in sorted(collector.lines.items(), key=lambda item: (-len(item[1]), item[0])):
        if not said <= known:
            known |= said
            kept.append(line)
    CLAIMS.write_text("".join(f"{line}\n" for line in sorted(kept)), encoding="utf-8")
    print(f"{len(kept)} claims, {len(known)} sentences; {len(collector.lines)} findings in these tests")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
