"""The glossary: terms, which of them a text uses, and an example of each in a trace."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from tracetui.views.examples import Example
from tracetui.views.glossary_terms import TERMS, Term

_WORD = re.compile(r"[\w→]+(?:['./:-]+\w+)*")
MOST_WORDS = 6
"""No spelling of a term has more words."""

if TYPE_CHECKING:
    from tracetui.analysis.part import Part
    from tracetui.views.explain import Explanation


def term(name: str) -> Term:
    """The term of this name. Raises KeyError."""
    return _by_name()[name]


def terms_in(*texts: str) -> tuple[Term, ...]:
    """The terms that the texts use, in the order of their first use. A text may be the name of a term."""
    found = dict[str, None]()
    for text in texts:
        if text in _by_name():
            found[text] = None
            continue
        words, at = _WORD.findall(text.replace("'s ", " ")), 0
        while at < len(words):
            name, count = _longest(words[at : at + MOST_WORDS])
            if name:
                found[name] = None
            at += count
    return tuple(map(term, found))


def _longest(words: list[str]) -> tuple[str, int]:
    """The term with the longest spelling that the words begin with, and its number of words; ("", 1) for
    none."""
    spelled, starts, prefixes = _spellings()
    begun = words[0].lower() in starts or words[0].lower().removesuffix("s") in starts
    for count in range(len(words) if begun else 0, 0, -1):
        text = " ".join(words[:count])
        one = text.removesuffix("s")
        for way in (text, text.lower(), one, one.lower()):
            if way in spelled:
                return spelled[way], count
    return next((name for start, name in prefixes if words[0].startswith(start)), ""), 1


def terms_of(explanation: Explanation) -> tuple[Term, ...]:
    """The terms that an explanation uses."""
    facts = (f"{label}: {value}" for label, value in explanation.facts)
    return terms_in(explanation.title, *explanation.what, *explanation.why, *facts)


def example(part: Part, term: Term) -> Example | None:
    """An example of a term in the whole trace, usually the longest; None if there is none.

    This may take as long as computing the gaps and their causes, so do not call it in the event loop.
    """
    return term.find(part.whole) if term.find is not None and len(part.trace) else None


@cache
def _by_name() -> dict[str, Term]:
    return {one.name: one for one in TERMS}


@cache
def _spellings() -> tuple[dict[str, str], set[str], tuple[tuple[str, str], ...]]:
    """{spelling: term}, the first words of the spellings, and (beginning, term) pairs."""
    ways = [(way.replace("'s ", " "), one.name) for one in TERMS for way in one.spelled]
    spelled = {way: name for way, name in ways if not way.endswith("*")}
    starts = {way.split()[0].lower() for way in spelled}
    return spelled, starts, tuple((way[:-1], name) for way, name in ways if way.endswith("*"))
