"""No encoding: the text is the file's own bytes."""

from __future__ import annotations

import os
from typing import IO

from tracetui.formats.diagnostics import Diagnostics

SUFFIX, RATIO, IN_PLACE = "", 1, True


def sniff(head: bytes) -> bool:
    return True


class Range:
    """The bytes from `begin` to `end` of a file. With preadv, the file position does not move."""

    def __init__(self, descriptor: int, begin: int, end: int) -> None:
        self._descriptor = descriptor
        self._at = begin
        self._end = end

    def readinto(self, view: memoryview) -> int:
        if self._at >= self._end:
            return 0
        view = view[: self._end - self._at]
        if hasattr(os, "preadv"):
            count = os.preadv(self._descriptor, [view], self._at)
        else:
            os.lseek(self._descriptor, self._at, os.SEEK_SET)
            part = os.read(self._descriptor, len(view))
            count = len(part)
            view[:count] = part
        self._at += count
        return count

    def progress(self, offset: int) -> int:
        return offset

    def size(self) -> int:
        return self._end

    def close(self) -> None:
        pass


class _Parts:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def read(self, offset: int, length: int) -> bytes:
        made, part = bytearray(length), Range(self._descriptor, offset, offset + length)
        done = 0
        with memoryview(made) as view:
            while count := part.readinto(view[done:]):
                done += count
        return bytes(made[:done])


def stream(file: IO[bytes], size: int, diagnostics: Diagnostics) -> Range:
    return Range(file.fileno(), 0, size)


def parts(file: IO[bytes], size: int) -> _Parts:
    return _Parts(file.fileno())


def writer(file: IO[bytes]) -> IO[bytes]:
    return file
