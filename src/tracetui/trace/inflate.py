"""gzip, member by member, as far as it can be read: a cut or damaged file gives all that comes before the
damage."""

from __future__ import annotations

import copy
import queue
import struct
import threading
import zlib
from typing import IO, Any

from tracetui.trace.diagnostics import Diagnostics

try:
    from isal import igzip_lib, isal_zlib
except ImportError:  # a platform without a wheel
    igzip_lib = isal_zlib = None  # type: ignore[assignment]

GZIP_MAGIC = b"\x1f\x8b"
_INPUT = 1 << 18
_AHEAD = 4
"""Blocks inflated ahead of the reader."""


class Members:
    """The inflated text of a gzip file, block by block.

    `steps` asks for zlib, whose state can be copied: see `fork`.
    """

    def __init__(
        self, file: IO[bytes], diagnostics: Diagnostics, block: int = 1 << 20, steps: bool = False
    ) -> None:
        self._file = file
        self._trouble = diagnostics
        self._block = block
        self._steps = steps or igzip_lib is None
        self.consumed = 0
        """Bytes of the file that have been read."""
        self.produced = 0
        """Bytes of text that have been given."""
        self._input = b""
        self._inflate: Any = None  # None between two members
        self._first = True
        self._begin = self._length = self._checksum = 0
        self._saved: list[bytes] = []  # what came out of a damaged member at last
        self._over = False

    def fork(self) -> Members:
        """Another reader that goes on from here. Only with `steps`."""
        twin = copy.copy(self)
        twin._inflate = self._inflate.fork() if self._inflate is not None else None
        twin._saved = list(self._saved)
        return twin

    def next(self) -> bytes:
        """The next block of text, b"" at the end. Raises OSError as reading the file does."""
        text = b""
        while not text and not (self._over and not self._saved):
            if self._saved:
                text = self._saved.pop(0)
            elif self._inflate is None:
                self._open_member()
            else:
                text = self._member()
        self.produced += len(text)
        return text

    def _more(self) -> bool:
        self._file.seek(self.consumed)
        block = self._file.read(_INPUT)
        self._input += block
        self.consumed += len(block)
        return bool(block)

    def _open_member(self) -> None:
        while len(self._input) < 18 and self._more():
            pass
        if not self._input.strip(b"\x00"):
            self._over = True  # the end, or padding
            return
        header = self._header()
        if header < 0:
            kind = "truncated" if self._first or self._input[:2] == GZIP_MAGIC else "trailing"
            self._trouble.note(kind, self.produced)
            self._over = True
            return
        self._first = False
        self._input = self._input[header:]
        self._begin = self.consumed - len(self._input)
        self._length = self._checksum = 0
        # Raw deflate with a checksum of our own: a wrong one must not cost the block that it comes with.
        self._inflate = _Zlib() if self._steps else igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_DEFLATE)

    def _header(self) -> int:
        """Length of the member's header, -1 where there is none."""
        while True:
            data = self._input
            if len(data) < 10 or data[:2] != GZIP_MAGIC or data[2] != 8:
                return -1
            flags, at = data[3], 10
            if flags & 4:
                at += 2 + (struct.unpack_from("<H", data, at)[0] if len(data) >= at + 2 else 1 << 16)
            for flag in (8, 16):
                if flags & flag and at <= len(data):
                    end = data.find(b"\x00", at)
                    at = end + 1 if end >= 0 else len(data) + 1
            at += 2 if flags & 2 else 0
            if at <= len(data):
                return at
            if len(data) > 1 << 20 or not self._more():
                return -1

    def _member(self) -> bytes:
        """The next block of the member that is open; b"" where it needs more input, or ends."""
        inflate = self._inflate
        if inflate.eof:
            self._close_member()
            return b""
        if inflate.needs_input and not self._input and not self._more():
            self._give_up("truncated", "its compressed data are cut off")
            return b""
        try:
            text: bytes = inflate.decompress(self._input if inflate.needs_input else b"", self._block)
        except Exception:  # isal and zlib have errors of their own
            self._saved = self._salvage()
            self._give_up("bad_gzip")
            return b""
        if inflate.eof or not inflate.needs_input or self._input:
            self._input = b""
        sum_up = zlib.crc32 if self._steps else isal_zlib.crc32
        self._checksum = sum_up(text, self._checksum)
        self._length += len(text)
        return text

    def _close_member(self) -> None:
        self._input = self._inflate.unused_data
        self._inflate = None
        while len(self._input) < 8 and self._more():
            pass
        if len(self._input) < 8:
            self._give_up("truncated", "its compressed data are cut off")
            return
        if struct.unpack_from("<II", self._input) != (self._checksum, self._length & 0xFFFFFFFF):
            self._trouble.note("bad_checksum", self.produced)
        self._input = self._input[8:]

    def _give_up(self, kind: str, detail: str = "") -> None:
        self._trouble.note(kind, self.produced, detail=detail)
        self._inflate, self._input, self._over = None, b"", True

    def _salvage(self) -> list[bytes]:
        """What else of a damaged member can be inflated: from its start once more, the last of it in small
        steps."""
        self._file.seek(self._begin)
        inflate = zlib.decompressobj(-15)
        given, done = self._length, 0
        saved = []
        try:
            while data := self._file.read(1 << 12):
                for at in range(0, len(data), 64):
                    text = inflate.decompress(data[at : at + 64])
                    done += len(text)
                    if done > given:
                        saved.append(text[max(0, len(text) - (done - given)) :])
                        given = done
                if inflate.eof:
                    break
        except zlib.error:
            pass
        return saved


class _Zlib:
    """zlib with the interface of igzip_lib.IgzipDecompressor."""

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(-15)

    @property
    def eof(self) -> bool:
        return self._inflate.eof

    @property
    def needs_input(self) -> bool:
        return not self._inflate.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._inflate.unused_data

    def fork(self) -> _Zlib:
        twin = _Zlib()
        twin._inflate = self._inflate.copy()
        return twin

    def decompress(self, data: bytes, limit: int) -> bytes:
        return self._inflate.decompress(self._inflate.unconsumed_tail + data, limit)


class Inflater:
    """The text of a gzip file for a `Window`, inflated in a thread while the reader decodes."""

    def __init__(self, file: IO[bytes], diagnostics: Diagnostics) -> None:
        self._members = Members(file, diagnostics)
        self._queue: queue.Queue[bytes | BaseException | None] = queue.Queue(_AHEAD)
        self._block = memoryview(b"")
        self._over = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="inflate", daemon=True)
        self._thread.start()

    @property
    def consumed(self) -> int:
        """Bytes of the file that have been read."""
        return self._members.consumed

    @property
    def produced(self) -> int:
        """Bytes of text so far."""
        return self._members.produced

    def _run(self) -> None:
        last: BaseException | None = None
        try:
            while (block := self._members.next()) and not self._stop.is_set():
                self._put(block)
        except BaseException as error:
            last = error
        self._put(last)

    def _put(self, item: bytes | BaseException | None) -> None:
        while not self._stop.is_set():
            try:
                self._queue.put(item, timeout=0.1)
            except queue.Full:
                continue
            return

    def readinto(self, view: memoryview) -> int:
        """Fill `view` with the next bytes of the text; 0 at its end. Raises OSError as the file does."""
        if not self._block and not self._over:
            item = self._queue.get()
            if isinstance(item, bytes):
                self._block = memoryview(item)
            else:
                self._over = True
                if item is not None:
                    raise item
        count = min(len(view), len(self._block))
        view[:count] = self._block[:count]
        self._block = self._block[count:]
        return count

    def close(self) -> None:
        """Stop the thread, whether or not the end was reached."""
        self._stop.set()
        self._thread.join()
