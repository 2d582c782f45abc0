"""A sliding window over text that is read sequentially."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

ReadInto = Callable[[memoryview], int]
"""Fills a buffer with the next bytes of text and returns how many; 0 at the end."""


class Window:
    """`size` bytes of text starting at `offset`, in one buffer that is reused.

    Byte i of the window is `buffer[i + 1]`: the spare first byte holds a bracket, so that a part can be
    decoded in place.
    """

    def __init__(self, read: ReadInto, offset: int) -> None:
        self._read = read
        self.buffer = bytearray(1 << 12)
        self.buffer[0] = ord("[")
        self.offset = offset
        self.size = 0
        self.ended = False
        self._ahead = np.empty(0, dtype=np.uint8)
        """What was read and is not in the window yet is between `_first` and `_last`."""
        self._first = self._last = 0

    def fill(self, size: int) -> None:
        """Read on until the window holds `size` bytes, or the text ends."""
        if self.size >= size or self.ended:
            return
        if len(self.buffer) < size + 2:
            larger = bytearray(size + 2)
            larger[: self.size + 1] = memoryview(self.buffer)[: self.size + 1]
            self.buffer = larger
        with memoryview(self.buffer) as view:
            while self.size < size:
                count = self._take(view[self.size + 1 : size + 1])
                if not count:
                    self.ended = True
                    return
                self.size += count

    def _take(self, view: memoryview) -> int:
        count = min(len(view), self._last - self._first)
        if not count:
            return self._read(view)
        view[:count] = self._ahead[self._first : self._first + count].data
        self._first += count
        return count

    def peek(self, size: int, least: int) -> memoryview:
        """The next bytes of the text, at most `size`; fewer than `least` only where it ends. They are still
        to be read, unless `pass_over` is called. Empties the window."""
        own, rest = self.size, self._last - self._first
        if own > self._first or own + rest < least:
            larger = max(size, own + rest)
            ahead = np.empty(larger, dtype=np.uint8) if len(self._ahead) < larger else self._ahead
            ahead[own : own + rest] = self._ahead[self._first : self._last]
            self._ahead, self._first, self._last = ahead, own, own + rest
        with memoryview(self.buffer) as view:
            self._ahead[self._first - own : self._first] = view[1 : own + 1]
        self._first -= own
        self.size, self.ended = 0, False
        text = self._ahead.data
        if self._last - self._first < least:
            while self._last < size and (count := self._read(text[self._last : size])):
                self._last += count
        return text[self._first : self._last]

    def pass_over(self, count: int) -> None:
        """Take the first `count` bytes that `peek` gave."""
        self._first += count
        self.offset += count

    def skip(self, count: int) -> None:
        """Drop the first `count` bytes."""
        rest = self.size - count
        if rest > 0:
            with memoryview(self.buffer) as view:
                view[1 : rest + 1] = view[count + 1 : self.size + 1]
        self.offset += count
        self.size = max(0, rest)

    def text(self, end: int | None = None) -> bytes:
        """A copy of the first `end` bytes."""
        with memoryview(self.buffer) as view:
            return bytes(view[1 : 1 + (self.size if end is None else min(end, self.size))])

    @contextmanager
    def as_list(self, end: int) -> Iterator[memoryview]:
        """The first `end` bytes between brackets, in place."""
        kept = self.buffer[end + 1]
        self.buffer[end + 1] = ord("]")
        try:
            with memoryview(self.buffer) as view, view[: end + 2] as text:
                yield text
        finally:
            self.buffer[end + 1] = kept

    def is_ascii(self) -> bool:
        """Whether the whole buffer is ASCII, and so the window (stale bytes after it count as well)."""
        return self.buffer.isascii()
