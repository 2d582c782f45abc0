"""Cuts the text of a plain file into segments for several threads, and says how many are worthwhile."""

from __future__ import annotations

import os
from collections.abc import Iterator

from msgspec import Struct

from tracetui.core.threads import usable_cores
from tracetui.formats.chrome_json.scan import Separator

BLOCK = 1 << 24
"""Bytes of a segment."""
_WORTH = 3 << 25
"""From this size on (100 MB) a second thread pays off."""
_MOST = 10
"""More than these wait for each other."""


def worth(size: int) -> int:
    """How many threads, this one included, should read a plain file of `size` bytes. One where they would
    have to share the position in it."""
    if size < _WORTH or not hasattr(os, "preadv"):
        return 1
    return max(1, min(usable_cores(), 1 + size // (_WORTH // 2), _MOST))


class Segment(Struct, frozen=True):
    """Part of the text, from the start of an event to the start of the next segment."""

    number: int
    begin: int
    end: int
    final: bool


def cut(separator: Separator, begin: int, end: int, block: int, descriptor: int) -> Iterator[Segment]:
    """Consecutive segments of a plain file, cut at the separator about every `block` bytes. Raises
    OSError."""
    number, target = 0, begin + block
    while target + block // 2 < end:
        at = os.pread(descriptor, 1 << 20, target).find(separator.text)
        if at >= 0:
            border = target + at + separator.brace
            yield Segment(number, begin, border, False)
            number, begin, target = number + 1, border, border
        target += block
    yield Segment(number, begin, end, True)
