"""Search queries. A query is words separated by spaces; an event matches when every word does.

- a plain word: part of the name, of its short form or of the category, ignoring case
- `/pattern/`: a regular expression (RE2's: linear in the text, without lookaround) that the name matches
- `cat:kernel`, `name:gelu`, `lane:stream`: part of that field
- `dur>100us`, `dur<=2ms`, `at>1s`: duration or start, with ns, us (the default), ms or s
- `-word`: not that
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tracetui.core import units
from tracetui.core.safe_text import plain
from tracetui.trace.model import I64, Bool, Trace

_COMPARED = re.compile(r"(dur|at)(<=|>=|<|>|=)(.*)")
_QUERY_LIMIT, _REGEX_LIMIT = 2000, 200
"""The most characters in a query, and in a regular expression in it."""
_SIGNS = {">": np.greater, ">=": np.greater_equal, "<": np.less, "<=": np.less_equal, "=": np.equal}


class QueryError(ValueError):
    """An invalid query; the message is one line, safe to show."""


def parse_time(text: str) -> float:
    """A length of time such as `1.5ms` or `200us` in ns; a bare number is µs. Raises QueryError."""
    try:
        return float(units.parse_time(text))
    except ValueError:
        raise QueryError("a time looks like 250us, 1.5ms or 2s") from None


def matches(trace: Trace, query: str, shorts: Sequence[str] = ()) -> Bool:
    """Mask of the slices that match; none for an empty query. Shape (len(trace),). Raises QueryError.

    `shorts`: the short forms of the trace's names, as shown on the screen.
    """
    words = split(query)
    found = np.ones(len(trace), dtype=np.bool_) if words else np.zeros(len(trace), dtype=np.bool_)
    for word in words:
        negated = word.startswith("-") and len(word) > 1
        mask = _word(trace, word[1:] if negated else word, shorts)
        found &= ~mask if negated else mask
    return found


def split(query: str) -> list[str]:
    """The words of a query. A /regular expression/ may hold spaces, and so may text in double quotes.
    Raises QueryError."""
    if len(query) > _QUERY_LIMIT:
        raise QueryError("this query is too long")
    words, rest = [], query.strip()
    while rest:
        taken = re.match(r'-?(?:\w+:)?(/(?:[^/\\]|\\.)*(?:/|$)|"[^"]*(?:"|$)|\S+)', rest)
        assert taken is not None
        words.append(taken[0].replace('"', "") if '"' in taken[0] else taken[0])
        rest = rest[taken.end() :].lstrip()
    return words


def _word(trace: Trace, word: str, shorts: Sequence[str]) -> Bool:
    timed = _COMPARED.fullmatch(word.casefold())
    if timed is not None:
        return _compare(trace.duration if timed[1] == "dur" else trace.start, timed[2], timed[3])
    field, colon, value = word.partition(":")
    # `aten::mm` holds colons and is a name, not a field.
    if colon and field in ("cat", "name", "lane") and not value.startswith(":"):
        if field == "cat":
            return _of(trace.category, _texts(trace.categories, value))
        if field == "lane":
            return _of(trace.lane, _texts([lane.name for lane in trace.lanes], value))
        return _of(trace.name, _names(trace, value, shorts))
    if colon and field in ("dur", "at"):
        raise QueryError(f"write {field}>100us")
    names = _names(trace, word, shorts)
    if word.startswith("/"):
        return _of(trace.name, names)
    return _of(trace.name, names) | _of(trace.category, _texts(trace.categories, word))


def _names(trace: Trace, part: str, shorts: Sequence[str]) -> Bool:
    """Which names, or their short forms, contain a part."""
    texts = _texts(trace.names, part)
    return texts | _texts(shorts, part) if shorts else texts


def _texts(texts: Sequence[str], part: str) -> Bool:
    """Which of the texts contain a part, or match a /regular expression/."""
    if part.startswith("/") and len(part) > 1:
        pattern = part[1:-1] if part.endswith("/") and len(part) > 2 else part[1:]
        if len(pattern) > _REGEX_LIMIT:
            raise QueryError("this regular expression is too long")
        search = _compiled(pattern)
        return np.fromiter((search(t) is not None for t in texts), np.bool_, len(texts))
    folded = part.casefold()
    return np.fromiter((folded in t.casefold() for t in texts), np.bool_, len(texts))


def _compiled(pattern: str) -> Callable[[str], object]:
    """A compiled regular expression, in an engine that no pattern can hang. Raises QueryError."""
    try:
        import re2
    except ImportError:  # Python's own engine is no substitute: a pattern can hang it
        raise QueryError("regular expressions need an extra: pip install 'tracetui[regex]'") from None
    options = re2.Options()
    options.case_sensitive = options.log_errors = False
    try:
        search: Callable[[str], object] = re2.compile(pattern, options).search
    except UnicodeEncodeError:
        raise QueryError("not a regular expression: not UTF-8") from None
    except re2.error as error:
        said = error.args[0].decode("utf-8", "replace").partition(":")[0]
        raise QueryError(f"not a regular expression: {plain(said)}") from None
    return search


def _of(column: npt.NDArray[Any], wanted: Bool) -> Bool:
    if not len(wanted):
        return np.zeros(len(column), dtype=np.bool_)
    return np.asarray(wanted[column], dtype=np.bool_)


def _compare(values: I64, sign: str, time: str) -> Bool:
    try:
        limit = float(units.parse_time(time))
    except ValueError:
        raise QueryError("a time looks like dur>100us or at<1.5ms") from None
    return np.asarray(_SIGNS[sign](values, limit), dtype=np.bool_)
