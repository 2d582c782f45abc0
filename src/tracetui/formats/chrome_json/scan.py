"""Finds where events begin and end from brackets and quotes alone, without decoding JSON."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

_STEP = np.zeros(256, dtype=np.int8)
_STEP[list(b"{[")] = 1
_STEP[list(b"}]")] = -1
_MARKS = _STEP != 0
_MARKS[ord(",")] = True
_FIRST, _BLOCK = 1 << 13, 1 << 20
"""Bytes to look at first, and at most, at a time: an array may be short."""
_BETWEEN = re.compile(rb"(\n[ \t]*)?\}\s*,\s*\{\s*(\"[^\"\\]{0,40}\")?")
"""The text between two events: indentation, `}`, `,`, `{`, the first key."""


class Outline(NamedTuple):
    """The outermost structure of text that begins inside an array, between two elements."""

    commas: list[int]
    """Positions of the first commas between the array's elements, eight or more if there are so many."""
    last: int
    """Position of the last one, -1 for none."""
    close: int
    """Position of the bracket that closes the array, -1 where it is not in the piece."""


def outline(text: bytes | bytearray | memoryview) -> Outline:
    """The outermost commas of `text`, block by block: the memory does not depend on its length."""
    commas: list[int] = []
    last, depth, inside, run = -1, 0, 0, 0
    begin, size = 0, min(_BLOCK, _FIRST)
    while begin < len(text):
        data = np.frombuffer(text, dtype=np.uint8, offset=begin, count=min(size, len(text) - begin))
        quotes = data == ord('"')
        backslash = data == ord("\\")
        if run or backslash.any():
            # A quote after an odd number of backslashes is part of its string.
            after = np.append(run > 0, backslash[:-1])
            at = np.flatnonzero(quotes & after)
            others = np.flatnonzero(~backslash)
            if len(at):
                before = np.searchsorted(others, at) - 1
                place = np.where(before >= 0, others[np.maximum(before, 0)], -1 - run)
                quotes[at[(at - 1 - place) % 2 == 1]] = False
            run = len(data) - 1 - int(others[-1]) if len(others) else run + len(data)
        within = np.bitwise_xor.accumulate(quotes.view(np.uint8)) ^ inside
        inside = int(within[-1])
        marks = np.flatnonzero(_MARKS[data] & (within == 0))
        kinds = data[marks]
        depths = np.cumsum(_STEP[kinds], dtype=np.int64) + depth
        below = np.flatnonzero(depths < 0)
        end = int(below[0]) if len(below) else len(marks)
        found = marks[:end][(kinds[:end] == ord(",")) & (depths[:end] == 0)]
        if len(found):
            last = begin + int(found[-1])
            if len(commas) < 8:
                commas += (found[:8] + begin).tolist()
        if len(below):
            return Outline(commas, last, begin + int(marks[end]))
        if len(depths):
            depth = int(depths[-1])
        begin, size = begin + size, min(_BLOCK, 2 * size)
    return Outline(commas, last, -1)


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
    for comma in outline(text).commas[:8]:
        for match in _BETWEEN.finditer(text, max(0, comma - 80), comma + 160):
            at = text.index(b",", match.start())
            if at != comma:
                continue
            brace = text.index(b"{", at)
            last = brace + 1 if match.group(1) else match.end()
            return Separator(text[match.start() : last], at - match.start(), brace - match.start())
    return None


ANY = re.compile(rb"\}\s*,\s*\{\s*\"")
"""What may be the border between two events."""


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
        for match in ANY.finditer(text, begin, last):  # noqa: B007
            pass
        if match is not None:
            return text.index(b",", match.start()), text.index(b"{", match.start())
        if begin == first:
            break
    return -1, -1
