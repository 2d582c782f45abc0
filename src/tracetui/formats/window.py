"""A sliding window over text that is read sequentially."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

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
                count = self._read(view[self.size + 1 : size + 1])
                if not count:
                    self.ended = True
                    return
                self.size += count

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
