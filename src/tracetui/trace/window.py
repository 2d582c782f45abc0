"""A moving window over a text that is read from front to back."""

from __future__ import annotations

from collections.abc import Callable

ReadInto = Callable[[memoryview], int]
"""Fills a buffer with the next bytes of the text, and says how many; 0 at the end."""


class Window:
    """`size` bytes of text from `offset` on, in the first bytes of `buffer`, which is used again and again."""

    def __init__(self, read: ReadInto, offset: int) -> None:
        self._read = read
        self.buffer = bytearray(1 << 12)
        self.offset = offset
        self.size = 0
        self.ended = False

    def fill(self, size: int) -> None:
        """Read on until the window holds `size` bytes, or the text ends."""
        if self.size >= size or self.ended:
            return
        if len(self.buffer) < size:
            grown = bytearray(size)
            grown[: self.size] = memoryview(self.buffer)[: self.size]
            self.buffer = grown
        with memoryview(self.buffer) as view:
            while self.size < size:
                count = self._read(view[self.size : size])
                if not count:
                    self.ended = True
                    return
                self.size += count

    def skip(self, count: int) -> None:
        """Let go of the first `count` bytes."""
        rest = self.size - count
        if rest > 0:
            with memoryview(self.buffer) as view:
                view[:rest] = view[count : self.size]
        self.offset += count
        self.size = max(0, rest)

    def text(self, end: int | None = None) -> bytes:
        """A copy of the first `end` bytes."""
        return bytes(memoryview(self.buffer)[: self.size if end is None else min(end, self.size)])
