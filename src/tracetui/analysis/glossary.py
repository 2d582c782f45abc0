"""The glossary: terms, which of them a text uses, and an example of each in a trace."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from tracetui.analysis.examples import Example
from tracetui.analysis.meanings.terms import TERMS, Term

if TYPE_CHECKING:
    from tracetui.analysis.explain import Explanation
    from tracetui.analysis.results import Results


def terms() -> tuple[Term, ...]:
    """All terms, group by group."""
    return TERMS


def term(name: str) -> Term:
    """The term of this name. Raises KeyError."""
    return _by_name()[name]


def terms_in(*texts: str) -> tuple[Term, ...]:
    """The terms that the texts use, in the order of their first use. A text may be the name of a term."""
    pattern, found = _spellings(), dict[str, None]()
    for text in texts:
        if text in _by_name():
            found[text] = None
            continue
        for match in pattern.finditer(text):
            found[TERMS[int((match.lastgroup or "t0")[1:])].name] = None
    return tuple(map(term, found))


def terms_of(explanation: Explanation) -> tuple[Term, ...]:
    """The terms that an explanation uses."""
    facts = (f"{label}: {value}" for label, value in explanation.facts)
    return terms_in(explanation.title, *explanation.what, *explanation.why, *facts)


def example(results: Results, term: Term) -> Example | None:
    """An example of a term in the whole trace, the longest as a rule; None where there is none.

    It may take as long as the gaps and their causes take to compute, so not in the event loop.
    """
    return term.find(results.whole) if term.find is not None and len(results.trace) else None


@cache
def _by_name() -> dict[str, Term]:
    return {one.name: one for one in TERMS}


@cache
def _spellings() -> re.Pattern[str]:
    """One group per term; of two that begin at the same place the longer name first."""
    order = sorted(range(len(TERMS)), key=lambda n: -len(TERMS[n].name))
    ways = (f"(?P<t{n}>{TERMS[n].spelled or re.escape(TERMS[n].name)})" for n in order)
    return re.compile(rf"(?<![\w.])(?:{'|'.join(ways)})(?!\w)", re.IGNORECASE)
