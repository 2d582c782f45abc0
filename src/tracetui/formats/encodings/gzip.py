"""gzip, member by member."""

from __future__ import annotations

import gzip
import struct
import zlib
from typing import IO, Any, cast

from tracetui.formats.encodings.blocks import Codec

try:
    from isal import igzip_lib, isal_zlib
except ImportError:  # a platform without a wheel
    igzip_lib = isal_zlib = None  # type: ignore[assignment]

SUFFIX, RATIO, IN_PLACE = ".gz", 10, False
_MAGIC = b"\x1f\x8b"


def sniff(head: bytes) -> bool:
    return head.startswith(_MAGIC)


def writer(file: IO[bytes]) -> IO[bytes]:
    return cast("IO[bytes]", gzip.open(file, "wb", 6))


def _header(data: bytes) -> int | None:
    if len(data) < 10 or not sniff(data) or data[2] != 8:
        return -1
    flags, at = data[3], 10
    if flags & 4:
        at += 2 + (struct.unpack_from("<H", data, at)[0] if len(data) >= at + 2 else 1 << 16)
    for flag in (8, 16):
        if flags & flag and at <= len(data):
            end = data.find(b"\x00", at)
            at = end + 1 if end >= 0 else len(data) + 1
    at += 2 if flags & 2 else 0
    return at if at <= len(data) else None


class _Member:
    """Raw deflate, with our own checksum: a wrong checksum must not lose the block it comes with.

    `forkable` asks for zlib, whose state can be copied; isal is faster.
    """

    def __init__(self, forkable: bool) -> None:
        self._inflate: Any
        self._zlib = forkable or igzip_lib is None
        if self._zlib:
            self._inflate, self._sum_up = zlib.decompressobj(-15), zlib.crc32
        else:
            self._inflate = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_DEFLATE)
            self._sum_up = isal_zlib.crc32
        self._length = self._checksum = 0

    @property
    def eof(self) -> bool:
        return bool(self._inflate.eof)

    @property
    def needs_input(self) -> bool:
        return not self._inflate.unconsumed_tail if self._zlib else bool(self._inflate.needs_input)

    @property
    def unused_data(self) -> bytes:
        return bytes(self._inflate.unused_data)

    def decompress(self, data: bytes, max_length: int) -> bytes:
        if self._zlib:
            data = self._inflate.unconsumed_tail + data
        text: bytes = self._inflate.decompress(data, max_length)
        self._checksum = self._sum_up(text, self._checksum)
        self._length += len(text)
        return text

    def fork(self) -> _Member:
        clone = _Member(True)
        clone._inflate = self._inflate.copy()
        clone._length, clone._checksum = self._length, self._checksum
        return clone

    def matches(self, trailer: bytes) -> bool:
        return struct.unpack("<II", trailer) == (self._checksum, self._length & 0xFFFFFFFF)


_MEMBERS = Codec("bad_gzip", sniff, _header, _Member, _Member.fork, 8, _Member.matches)
stream, parts = _MEMBERS.stream, _MEMBERS.parts
