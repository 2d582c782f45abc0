"""Compressed text, block by block, as far as it can be read: a cut or damaged file gives all that comes
before the damage.

A compressed file is a row of *pieces*, gzip's members or zstd's frames, each with a header in front of it and
a trailer behind it. What is particular to an encoding stands in its `Codec`.
"""

from __future__ import annotations

import bisect
import copy
import queue
import threading
from collections.abc import Callable
from typing import IO, Any, NamedTuple, Protocol

from tracetui.formats.diagnostics import Diagnostics

_INPUT = 1 << 18
_STEP = 4
"""Bytes of a damaged piece that are decoded at a time: no more than zstd's checksum, so that the last block
comes out before a wrong one is noticed."""
_AHEAD = 4
"""Blocks decoded ahead of the reader."""
_SPACING = 1 << 24
"""Bytes of text between two places from which it can be decoded again."""


class Piece(Protocol):
    """The decompressor of one piece. `decompress` raises any exception over damaged data."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


class Codec(NamedTuple):
    """What `Blocks` has to know of an encoding."""

    damaged: str
    """The notice for data that cannot be decoded."""
    sniff: Callable[[bytes], bool]
    header: Callable[[bytes], int | None]
    """Length of the header that some data begin with; -1 for none, None where more data must be seen."""
    open: Callable[[bool], Any]
    """The `Piece` that follows a header; with True, one that `fork` takes."""
    fork: Callable[[Any], Any] | None = None
    """A copy of a piece in its present state."""
    trailer: int = 0
    matches: Callable[[Any, bytes], bool] = lambda piece, trailer: True
    """Whether a trailer of so many bytes fits what was decoded."""


class Blocks:
    """The text of a compressed file from front to back."""

    def __init__(
        self,
        codec: Codec,
        file: IO[bytes],
        diagnostics: Diagnostics,
        block: int = 1 << 20,
        forkable: bool = False,
    ) -> None:
        self._codec = codec
        self._file = file
        self._diagnostics = diagnostics
        self._block = block
        self._forkable = forkable
        self.consumed = 0
        """Bytes of the file that have been read."""
        self.produced = 0
        """Bytes of text that have been given."""
        self._at = 0
        self._input = b""  # what was read before `_at` and not decoded
        self._piece: Piece | None = None
        self._begin = self._fed = 0  # where in the file the piece begins, and where its last input did
        self._given = self._skipped = 0  # bytes of the piece's text, and how many of them were given before
        self._careful = -1  # from where on a damaged piece is decoded in small steps
        self._first = True
        self._over = False

    def fork(self) -> Blocks | None:
        """Another reader that goes on from here; None where that cannot be."""
        twin = copy.copy(self)
        if self._piece is not None:
            if self._codec.fork is None:
                return None
            twin._piece = self._codec.fork(self._piece)
        return twin

    def next(self) -> bytes:
        """The next block of text, b"" at the end. Raises OSError as reading the file does."""
        made: list[bytes] = []
        size = 0
        while not self._over and (not size or (self._careful >= 0 and size < self._block)):
            if self._piece is None:
                self._open_piece()
            else:
                made.append(self._decode(self._piece))
                size += len(made[-1])
        self.produced += size
        return b"".join(made)

    def _more(self) -> bool:
        size = _INPUT
        if self._careful >= 0:
            size = min(size, self._careful - self._at) if self._at < self._careful else _STEP
        self._file.seek(self._at)
        data = self._file.read(size)
        self._input += data
        self._at += len(data)
        self.consumed = max(self.consumed, self._at)
        return bool(data)

    def _open_piece(self) -> None:
        while len(self._input) < 18 and self._more():
            pass
        if not self._input.strip(b"\x00"):
            self._over = True  # the end, or padding
            return
        while (length := self._codec.header(self._input)) is None:
            if len(self._input) > 1 << 20 or not self._more():
                length = -1
                break
        if length < 0:
            kind = "truncated" if self._first or self._codec.sniff(self._input) else "trailing"
            self._diagnostics.note(kind, self.produced)
            self._over = True
            return
        self._first = False
        self._input = self._input[length:]
        self._begin = self._at - len(self._input)
        self._given = self._skipped = 0
        self._piece = self._codec.open(self._forkable)

    def _decode(self, piece: Piece) -> bytes:
        """The next block of the open piece; b"" where it needs more input, or ends."""
        if piece.eof:
            self._close_piece(piece)
            return b""
        if piece.needs_input:
            if not self._input and not self._more():
                self._cut_off()
                return b""
            self._fed = self._at - len(self._input)
        try:
            text = piece.decompress(self._input, self._block)
        except Exception:  # every library has errors of its own
            if self._careful < 0:
                self._diagnostics.note(self._codec.damaged, self.produced)
                self._decode_again()
            else:
                self._over = True
            return b""
        self._input = b""
        self._given += len(text)
        return text[max(0, len(text) - max(0, self._given - self._skipped)) :]

    def _decode_again(self) -> None:
        """Begin the damaged piece once more: its last input gives more text in small steps."""
        self._careful = self._fed
        self._at, self._input = self._begin, b""
        self._given, self._skipped = 0, self._given
        self._piece = self._codec.open(True)

    def _close_piece(self, piece: Piece) -> None:
        self._piece, self._careful = None, -1
        self._input = piece.unused_data
        while len(self._input) < self._codec.trailer and self._more():
            pass
        if len(self._input) < self._codec.trailer:
            self._cut_off()
            return
        if not self._codec.matches(piece, self._input[: self._codec.trailer]):
            self._diagnostics.note("bad_checksum", self.produced)
        self._input = self._input[self._codec.trailer :]

    def _cut_off(self) -> None:
        self._diagnostics.note("truncated", self.produced, detail="its compressed data are cut off")
        self._over = True


class Ahead:
    """The text of `blocks` from `offset` on, decoded in a thread while the reader works."""

    def __init__(self, blocks: Blocks, offset: int) -> None:
        self._blocks = blocks
        self._offset = offset
        self._queue: queue.Queue[bytes | BaseException | None] = queue.Queue(_AHEAD)
        self._block = memoryview(b"")
        self._over = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="decode", daemon=True)
        self._thread.start()

    def progress(self, offset: int) -> int:
        return self._blocks.consumed

    def size(self) -> int:
        return self._blocks.produced

    def _run(self) -> None:
        last: BaseException | None = None
        skip = self._offset
        try:
            while (block := self._blocks.next()) and not self._stop.is_set():
                if len(block) > skip:
                    self._put(block[skip:])
                skip = max(0, skip - len(block))
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
        self._stop.set()
        self._thread.join()


class Marked:
    """Any part of a compressed text.

    The text is decoded from its beginning for the first question, leaving a fork of the decoder every 16 MB
    where the codec has such; later questions start at the nearest of them.
    """

    def __init__(self, codec: Codec, file: IO[bytes], size: int) -> None:
        self._cursor = Blocks(codec, file, Diagnostics(), 1 << 17, forkable=True)
        self._marks: list[tuple[int, Blocks]] = []
        self._mark()
        self._held = b""  # the cursor's last block
        self._spacing = max(_SPACING, size // 32)

    def _mark(self) -> None:
        mark = self._cursor.fork()
        if mark is not None:
            self._marks.append((self._cursor.produced, mark))

    def read(self, offset: int, length: int) -> bytes:
        held = self._cursor.produced - len(self._held)
        mark = self._marks[bisect.bisect_right(self._marks, offset, key=lambda m: m[0]) - 1]
        if held > offset or mark[0] > self._cursor.produced:
            fork = mark[1].fork()
            assert fork is not None  # what was forked once can be forked again
            self._cursor, self._held = fork, b""
        made = bytearray()
        while len(made) < length:
            begin = self._cursor.produced - len(self._held)
            if begin + len(self._held) > offset + len(made):
                at = offset + len(made) - begin
                made += self._held[at : at + length - len(made)]
                continue
            self._held = self._cursor.next()
            if not self._held:
                break
            if self._cursor.produced >= self._marks[-1][0] + self._spacing:
                self._mark()
        return bytes(made)
