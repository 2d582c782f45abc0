"""Cuts text into segments for several threads or processes, and says how many are worthwhile."""

from __future__ import annotations

import os
import sys

from msgspec import Struct

from tracetui.core.threads import usable_cores
from tracetui.formats.chrome_json.scan import Separator
from tracetui.formats.window import Window

BLOCK = 1 << 24
"""Bytes of a segment of a plain file."""
_WORTH = 3 << 25
"""From this size on (100 MB) a second process pays off."""
_MOST = 16
MOST_THREADS = 10
"""More than these wait for each other."""


def possible() -> bool:
    """Whether this system can read with several processes."""
    return os.name == "posix" and hasattr(os, "preadv") and bool(sys.executable)


def worth(size: int) -> int:
    """How many processes, this one included, should read a text of `size` bytes."""
    if size < _WORTH:
        return 1
    return max(1, min(usable_cores(), 1 + size // (_WORTH // 2), _MOST))


class Segment(Struct, frozen=True):
    """Part of the text, from the start of an event to the start of the next segment."""

    number: int
    begin: int
    end: int
    final: bool
    text: bytes | None = None
    """The text itself, if it cannot be read from the file."""


class SegmentQueue:
    """Hands out consecutive segments, cut at the separator. Not thread-safe.

    A plain file is cut about every `block` bytes; text that can only be read in sequence comes from `window`.
    """

    def __init__(
        self,
        separator: Separator,
        begin: int,
        end: int,
        block: int,
        descriptor: int,
        window: Window | None = None,
    ) -> None:
        self.descriptor = -1 if window is not None else descriptor
        self._file, self._window = descriptor, window
        self._separator, self._block = separator, block
        self._at, self._end = begin, end
        self._number = 0
        self._over = False

    def next(self) -> Segment | None:
        """The next segment, None after the last. Raises OSError."""
        if self._over:
            return None
        segment = self._cut() if self._window is None else self._send(self._window)
        self._number += 1
        self._at, self._over = segment.end, segment.final
        return segment

    def _cut(self) -> Segment:
        target = self._at + self._block
        while target + self._block // 2 < self._end:
            text = os.pread(self._file, 1 << 20, target)
            at = text.find(self._separator.text)
            if at >= 0:
                return Segment(self._number, self._at, target + at + self._separator.brace, False)
            target += self._block
        return Segment(self._number, self._at, self._end, True)

    def _send(self, window: Window) -> Segment:
        want = self._block
        while True:
            window.fill(want)
            at = window.buffer.rfind(self._separator.text, 1, window.size + 1) - 1
            if at < 0 and not window.ended and window.size < 1 << 26:
                want = window.size * 2
                continue
            # All of it for the last segment, and for text without a border, which is read in one piece.
            size = window.size if window.ended or at < 0 else at + self._separator.brace
            begin, text = window.offset, window.text(size)
            window.skip(size)
            return Segment(self._number, begin, begin + size, window.ended, text)
