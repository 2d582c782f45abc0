"""Where the arrays of events of a text begin: of one object after the other, or of objects in a list."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from tracetui.core.patterns import pattern
from tracetui.formats.chrome_json.recover_text import value_at
from tracetui.formats.chrome_json.top_level import top_level

KEY = pattern(rb'"traceEvents"\s*:\s*\[')
_ATTEMPTS = 16
"""How many places that look like the beginning of an array are tried."""
_CANDIDATES = 32
"""How many brackets before such a place may close the array before it."""
_REACH = 1 << 16
"""Bytes between the two."""
_OBJECT = b'{"":0'
"""An object whose events have been read."""
_SPACE = pattern(rb"[ \t\r\n]*,?[ \t\r\n]*")
_GAP = pattern(rb"[^\[\]{}]{0,4096}")
"""Between a trace and the next: white space, but also a byte order mark or a comment."""
_ARRAY = pattern(rb"\[[ \t\r\n]*(?=\{)")
_IN_LIST = pattern(rb"[ \t\r\n]*(?:,[ \t\r\n]*(?=\{)|(?=\]))")
"""After an element of a list: another one, or its end."""
_CLOSING = pattern(rb'\][ \t\r\n]*(?:,[ \t\r\n]*["{\[]|[}{\[])')


class Next(Struct, frozen=True):
    """What follows an array of events."""

    kind: str
    """"array" (one of events alone), "object" (an object with events), "element" (another in the same list),
    "list" (the rest of the list that the object is in)."""
    at: int
    """Where its first event begins."""
    keys: Mapping[str, Any]
    """The top-level keys up to there."""
    odd: int = -1
    """Where something begins that is between the two but does not belong there; -1 if nothing does."""


def enter(text: bytes) -> tuple[int, dict[str, Any]] | None:
    """(where the first event begins, the keys before it) of an object with events that begins the text, whole
    or not; None if it is none."""
    # If the key is inside a string or a nested object, the header does not decode.
    for match in itertools.islice(KEY.finditer(text), _ATTEMPTS):
        header = top_level(text[: match.start()] + b'"traceEvents": []}')
        if header:
            del header["traceEvents"]
            return match.end(), header
    return None


def next_array(text: bytes, bare: bool, listed: bool) -> Next | None:
    """What follows the bracket that closes an array of events; None if it is no event.

    `bare`: the array is in no object; `listed`: the object is in a list.
    """
    at, keys = 0, dict[str, Any]()
    if not bare:
        rest = _OBJECT + text
        if found := enter(rest):  # in the same object
            return Next("object", found[0] - len(_OBJECT), _without_mark(found[1]))
        end = value_at(rest, memoryview(rest), 0)[0]
        if end < 0:
            return None
        at, keys = end - len(_OBJECT), _without_mark(top_level(rest[:end]))
    if listed and (match := _IN_LIST.match(text, at)):
        found = enter(text[match.end() :])
        if found and "ph" not in found[1]:
            return Next("element", match.end() + found[0], keys | found[1])
        return Next("list", match.end(), keys)
    gap = _GAP.match(text, at)
    assert gap is not None
    begin = gap.end()
    odd = -1 if _SPACE.fullmatch(text, at, begin) else at
    if text[begin : begin + 1] == b"{" and (found := enter(text[begin:])):
        return Next("object", begin + found[0], keys | found[1], odd)
    match = _ARRAY.match(text, begin)
    return Next("array", match.end(), keys, odd) if match else None


def _without_mark(keys: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in keys.items() if key}


def close_before_next(text: bytes, bare: bool) -> int:
    """Position of a bracket that closes an array before another begins in the text, which may be broken
    before that; -1 if there is none."""
    for key in itertools.islice(KEY.finditer(text), _ATTEMPTS):
        closing = [m.start() for m in _CLOSING.finditer(text, max(0, key.start() - _REACH), key.start())]
        # The first that fits: the keys between the two may have arrays of their own.
        for at in closing[-_CANDIDATES:]:
            found = next_array(text[at + 1 : key.end()], bare, False)
            if found and found.at == key.end() - at - 1:
                return at
    return -1
