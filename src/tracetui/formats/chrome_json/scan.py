"""Finds where events begin and end from brackets and quotes alone, without decoding JSON."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from tracetui.formats.columns import I64

_STEP = np.zeros(256, dtype=np.int8)
_STEP[list(b"{[")] = 1
_STEP[list(b"}]")] = -1
_MARKS = _STEP != 0
_MARKS[ord(",")] = True
_BETWEEN = re.compile(rb"(\n[ \t]*)?\}\s*,\s*\{\s*(\"[^\"\\]{0,40}\")?")
"""The text between two events: indentation, `}`, `,`, `{`, the first key."""


class Outline(NamedTuple):
    """The outermost structure of text that begins inside an array, between two elements."""

    commas: I64
    """Positions of the commas between the array's elements."""
    close: int
    """Position of the bracket that closes the array, -1 where it is not in the piece."""


def outline(text: bytes | bytearray | memoryview) -> Outline:
    """The outermost commas of `text`. Needs about 20 bytes per byte of text, so not for whole files."""
    data = np.frombuffer(text, dtype=np.uint8)
    quotes = data == ord('"')
    backslash = data == ord("\\")
    if backslash.any():
        # A quote after an odd number of backslashes is part of its string.
        at = np.flatnonzero(quotes[1:] & backslash[:-1]) + 1
        if len(at):
            others = np.flatnonzero(~backslash)
            before = np.searchsorted(others, at) - 1
            last = np.where(before >= 0, others[np.maximum(before, 0)], -1)
            quotes[at[(at - 1 - last) % 2 == 1]] = False
    inside = np.bitwise_xor.accumulate(quotes.view(np.uint8)) if len(data) else quotes.view(np.uint8)
    marks = np.flatnonzero(_MARKS[data] & (inside == 0))
    kinds = data[marks]
    depth = np.cumsum(_STEP[kinds], dtype=np.int64)
    below = np.flatnonzero(depth < 0)
    end = int(below[0]) if len(below) else len(marks)
    commas = marks[:end][(kinds[:end] == ord(",")) & (depth[:end] == 0)]
    return Outline(commas, int(marks[end]) if len(below) else -1)


class Separator(NamedTuple):
    """The bytes between two events in this file."""

    text: bytes
    comma: int
    """Offset of the comma in `text`."""
    brace: int
    """Offset of the brace that opens the next event."""


def learn_separator(text: bytes) -> Separator | None:
    """The separator between the first events of `text`, which begins with an event; None if not found.

    If the file has lines, the indentation tells events from nested objects. If it is all on one line, the
    separator includes the next event's first key.
    """
    for comma in outline(text).commas[:8].tolist():
        for match in _BETWEEN.finditer(text, max(0, comma - 80), comma + 160):
            at = text.index(b",", match.start())
            if at != comma:
                continue
            brace = text.index(b"{", at)
            last = brace + 1 if match.group(1) else match.end()
            return Separator(text[match.start() : last], at - match.start(), brace - match.start())
    return None


_ANY = re.compile(rb"\}\s*,\s*\{\s*\"")


def last_boundary(
    text: bytes | bytearray, first: int, last: int, separator: Separator | None
) -> tuple[int, int]:
    """(comma, opening brace): positions of the last boundary in text[first:last]; (-1, -1) if there is none.

    A guess: the same bytes may occur in a string or a nested list.
    """
    if separator is not None:
        at = text.rfind(separator.text, first, last)
        if at >= 0:
            return at + separator.comma, at + separator.brace
    for reach in (1 << 14, 1 << 17):
        begin = max(first, last - reach)
        match = None
        for match in _ANY.finditer(text, begin, last):  # noqa: B007
            pass
        if match is not None:
            return text.index(b",", match.start()), text.index(b"{", match.start())
        if begin == first:
            break
    return -1, -1
