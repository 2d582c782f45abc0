"""Every example of docs/api.md runs, and gives what is written below it."""

import doctest
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_examples(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    page = ROOT / "docs" / "api.md"
    text = re.sub(r"^```.*$", "", page.read_text(encoding="utf-8"), flags=re.M)
    examples = doctest.DocTestParser().get_doctest(text, {}, "api", str(page), 0)
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL
    result = doctest.DocTestRunner(optionflags=flags).run(examples)
    assert result.failed == 0, capsys.readouterr().out
    assert result.attempted >= 25
