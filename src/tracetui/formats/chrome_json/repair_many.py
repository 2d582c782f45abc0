"""Repairs many events in one pass over their text, as `repair_event` does one by one.

For text in which every event is broken in the same way: what is common to all is done once.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct, field

from tracetui.core.columns import I64
from tracetui.formats.chrome_json.repair_event import (
    AFTER_VALUE,
    BARE,
    CONTROL,
    ESCAPE,
    LETTER,
    STRING,
    TRAILING,
    WORD,
)

_STEP = np.zeros(256, dtype=np.int8)
_STEP[list(b"{[")] = 1
_STEP[list(b"}]")] = -1
_COMMAS = (",}", ",]", "{,", "[,", ",,")
"""What `TRAILING` finds, without spaces."""
_TEXT, _BORDER = "\0", "\1"
"""What stands for a text, and for the border of two events, where only the rest is looked at."""


class Events(Struct):
    """Objects one after the other, at the beginning of a text."""

    pieces: list[bytes]
    """Each object, repaired where that was possible. Whether it decodes is not known."""
    places: list[tuple[int, int]]
    notes: dict[int, list[str]] = field(default_factory=dict)
    """Kinds of notices, by object."""

    def note(self, objects: I64, kind: str) -> None:
        for i in np.unique(objects).tolist():
            self.notes.setdefault(i, []).append(kind)


def repair_many(text: bytes) -> Events | None:
    """The objects at the beginning of `text`, with one comma between each two, up to what is neither; None
    if what is outside of texts has characters that JSON does not have there."""
    parts = STRING.split(text.decode("latin-1"))  # outside, a string, outside, ...: a character per byte
    outside = _TEXT.join(parts[::2])
    strings = parts[1::2]
    if _BORDER in outside or outside.count(_TEXT) != len(strings) or not outside.isascii():
        return None
    begin, end = _objects(outside)
    count = next(
        (i for i in range(1, len(begin)) if not _is_comma(outside[end[i - 1] : begin[i]])), len(begin)
    )
    if not count or outside[: begin[0]].strip():
        return None
    begin, end = begin[:count], end[:count]
    ends = np.flatnonzero(np.frombuffer(outside.encode(), np.uint8) == 0)  # of `strings`, in `outside`
    longer = np.append(0, np.cumsum([len(string) - 1 for string in strings], dtype=np.int64))
    low, high = (at + longer[np.searchsorted(ends, at)] for at in (begin, end))
    events = Events([], list(zip(low.tolist(), high.tolist(), strict=True)))
    strings = strings[: int(np.searchsorted(ends, end[-1]))]
    whose = np.searchsorted(begin, ends[: len(strings)], side="right") - 1
    pairs = zip(begin.tolist(), end.tolist(), strict=True)
    outside = _mend_outside(_BORDER.join([outside[b:e] for b, e in pairs]), events)
    _mend_strings(strings, whose, events, text)
    parts = [""] * (2 * len(strings) + 1)
    parts[::2] = outside.split(_TEXT)
    parts[1::2] = strings
    # No string has a control character any more.
    events.pieces = [piece.encode("latin-1") for piece in "".join(parts).split(_BORDER)]
    return events


def _objects(outside: str) -> tuple[I64, I64]:
    """(begins, ends) of the outermost objects, up to a bracket that closes too much."""
    codes = np.frombuffer(outside.encode(), np.uint8)
    steps = _STEP[codes]
    marks = np.flatnonzero(steps)
    step = steps[marks].astype(np.int64)
    depth = np.cumsum(step)
    wrong = np.flatnonzero((depth < 0) | ((depth == step) & (codes[marks] != ord("{"))))
    if len(wrong):
        marks, step, depth = marks[: wrong[0]], step[: wrong[0]], depth[: wrong[0]]
    end = marks[depth == 0] + 1
    begin = marks[depth == step][: len(end)]
    return begin, end


def _is_comma(between: str) -> bool:
    return between == "," or between.strip(" \t\r\n") == ","


def _mend_outside(outside: str, found: Events) -> str:
    """See `repair_event`. No expression reaches from one object into the next."""

    def exchange(kind: str, matches: list[re.Match[str]], put: Callable[[re.Match[str]], str]) -> None:
        nonlocal outside
        if matches:
            borders = np.flatnonzero(np.frombuffer(outside.encode(), np.uint8) == ord(_BORDER))
            found.note(np.searchsorted(borders, [match.start() for match in matches]), kind)
            ends = [0, *(match.end() for match in matches)]
            kept = (
                outside[end : match.start()] + put(match) for end, match in zip(ends, matches, strict=False)
            )
            outside = "".join([*kept, outside[ends[-1] :]])

    lettered = LETTER.search(outside) is not None
    if lettered and any(word in outside.lower() for word in ("inf", "nan", "n/a")):
        exchange("bare_value", list(BARE.finditer(outside)), lambda match: "null")
    close = "".join(outside.split())
    if any(pair in close for pair in _COMMAS):
        exchange("comma", list(TRAILING.finditer(outside)), lambda match: match[1] or "")
    if lettered:
        words = [m for m in WORD.finditer(outside) if AFTER_VALUE.match(outside, m.end())]
        exchange("unquoted", words, lambda match: f'{match[1]}"{match[2].rstrip()}"')
    return outside


def _mend_strings(strings: list[str], whose: I64, found: Events, text: bytes) -> None:
    """See `repair_event`; in place."""
    kinds: dict[str, list[int]] = {"bad_utf8": [], "bad_escape": [], "control_characters": []}
    at = 0

    def escape(match: re.Match[str]) -> str:
        if match[1]:
            return match[1]
        kinds["bad_escape"].append(at)
        return "\\ufffd" if match[2] else "\\\\"

    def control(match: re.Match[str]) -> str:
        kinds["control_characters"].append(at)
        return f"\\u{ord(match.group()):04x}"

    if not _is_utf8(text):
        for at, string in enumerate(strings):
            if not string.isascii() and not _is_utf8(raw := string.encode("latin-1")):
                kinds["bad_utf8"].append(at)
                strings[at] = raw.decode("utf-8", "replace").encode().decode("latin-1")
    if b"\\" in text:
        for at, string in enumerate(strings):
            if "\\" in string:
                strings[at] = ESCAPE.sub(escape, string)
    if CONTROL.search("".join(strings)):
        for at, string in enumerate(strings):
            if not string.isprintable():
                strings[at] = CONTROL.sub(control, string)
    for kind, which in kinds.items():
        found.note(whose[np.array(which, dtype=np.int64)], kind)


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def all_decode(pieces: list[bytes], decoder: msgspec.json.Decoder[list[Any]]) -> list[Any] | None:
    """The decoded pieces; None unless all decode."""
    text = b"[" + b",".join(pieces) + b"]"
    try:
        made = decoder.decode(text)
    except (ValueError, msgspec.DecodeError, RecursionError):
        return None
    return made if len(made) == len(pieces) and _is_utf8(text) else None
