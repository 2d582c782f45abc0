"""Expected outputs in `expected/*.txt`: sections that each begin with a line `$ what makes it`.

After a change that is meant, write them anew, and read the difference:

    WRITE_GOLDEN=1 pytest -n 0 tests/golden && git diff tests/golden
"""

import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tracetui import rules
from tracetui.rules import Finding

EXPECTED = Path(__file__).parent / "expected"
Golden = Callable[[str, str, str], None]


def sections(path: Path) -> dict[str, str]:
    """Title to text."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    parts = re.split(r"^\$ (.*)\n", text, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


@pytest.fixture(autouse=True)
def reading(read_once: None) -> None:
    """Each trace is read once for all that is said of it."""


@pytest.fixture(autouse=True)
def without_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    """Instead of the sentences of a finding stands whose they are: `sentences.txt` has them."""
    find = rules._of_rule

    def find_without(*args: Any) -> list[Finding]:
        what = ("title", "text", "advice")
        return [replace(one, **{of: f"({one.rule}: {of}.)" for of in what}) for one in find(*args)]

    monkeypatch.setattr(rules, "_of_rule", find_without)


@pytest.fixture
def golden() -> Golden:
    """`golden(file, title, text)`: compare with the section of that title."""

    def check(file: str, title: str, text: str) -> None:
        path = EXPECTED / f"{file}.txt"
        known = sections(path)
        text = "".join(line.rstrip() + "\n" for line in text.splitlines())
        if os.environ.get("WRITE_GOLDEN"):
            known[title] = text
            path.parent.mkdir(exist_ok=True)
            path.write_text("".join(f"$ {t}\n{known[t]}" for t in known), encoding="utf-8")
        assert text == known.get(title, "(no such section)")

    return check
