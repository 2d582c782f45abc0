"""Decompresses text block by block. A cut or damaged file yields everything before the damage.

A compressed file is a series of *pieces* (gzip members, zstd frames), each with a header and a trailer. What
is specific to an encoding is in its `Codec`.
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
_STEP, _FORKED_STEP = 4, 1 << 10
"""Bytes of a damaged piece to decode at a time: no more than zstd's checksum, so that the last block comes
out before a wrong checksum is noticed. Where the decoder can be copied, the step that fails is taken again
byte by byte."""
_AHEAD = 4
"""Blocks to decode ahead of the reader."""
_SPACING = 1 << 24
"""Bytes of text between two restart points."""


class Piece(Protocol):
    """The decompressor of one piece. `decompress` may raise anything on damaged data."""

    eof: bool
    needs_input: bool
    unused_data: bytes

    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


class Codec(NamedTuple):
    """What `Blocks` needs to know about an encoding."""

    damaged: str
    """Kind of notice for data that cannot be decoded."""
    sniff: Callable[[bytes], bool]
    header: Callable[[bytes], int | None]
    """Length of the header that data begins with; -1 if there is none, None if more data is needed."""
    open: Callable[[bool], Any]
    """A new `Piece`; with True, one that `fork` can copy."""
    fork: Callable[[Any], Any] | None = None
    """A copy of a piece in its current state."""
    trailer: int = 0
    matches: Callable[[Any, bytes], bool] = lambda piece, trailer: True
    """Whether a trailer of `trailer` bytes fits what was decoded."""

    def stream(self, file: IO[bytes], size: int, diagnostics: Diagnostics) -> Ahead:
        """See `Encoding.stream`."""
        return Ahead(Blocks(self, file, diagnostics))

    def parts(self, file: IO[bytes], size: int) -> Marked:
        """See `Encoding.parts`."""
        return Marked(self, file, size)


class Blocks:
    """Reads the text of a compressed file sequentially."""

    def __init__(
        self,
        codec: Codec,
        file: IO[bytes],
        diagnostics: Diagnostics,
        block: int = 1 << 20,
        forkable: bool = False,
    ) -> None:
        self._codec, self._file, self._diagnostics = codec, file, diagnostics
        self._block, self._forkable = block, forkable
        self.consumed = 0
        """Bytes of the file read so far."""
        self.produced = 0
        """Bytes of text returned so far."""
        self._at = 0
        self._input = b""  # read before `_at` but not decoded yet
        self._piece: Piece | None = None
        self._begin = self._fed = 0  # file offsets of the piece and of its last input
        self._given = self._skipped = 0  # bytes of the piece's text; how many of them were already returned
        self._careful = -1  # file offset from which a damaged piece is decoded in small steps
        self._step = _STEP
        self._kept: tuple[Any, int] | None = None  # the piece before its last step, and what it had given
        self._first = True
        self._over = False

    def fork(self) -> Blocks | None:
        """A copy that continues from here; None if the codec cannot fork."""
        clone = copy.copy(self)
        if self._piece is not None:
            if self._codec.fork is None:
                return None
            clone._piece = self._codec.fork(self._piece)
        return clone

    def next(self) -> bytes:
        """The next block of text, b"" at the end. Raises OSError."""
        blocks: list[bytes] = []
        size = 0
        while not self._over and (not size or (self._careful >= 0 and size < self._block)):
            if self._piece is None:
                self._open_piece()
            else:
                blocks.append(self._decode(self._piece))
                size += len(blocks[-1])
        self.produced += size
        return b"".join(blocks)

    def _more(self) -> bool:
        size = _INPUT
        if self._careful >= 0:
            size = min(size, self._careful - self._at) if self._at < self._careful else self._step
        self._file.seek(self._at)
        data = self._file.read(size)
        self._input += data
        self._at += len(data)
        self.consumed = max(self.consumed, self._at)
        return bool(data)

    def _open_piece(self) -> None:
        self._input = self._input.lstrip(b"\x00")  # padding, as on tapes
        while len(self._input) < 18 and self._more():
            self._input = self._input.lstrip(b"\x00")
        if not self._input:
            self._over = True
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
        """The next block of the open piece; b"" if it ended or needs more input."""
        if piece.eof:
            self._close_piece(piece)
            return b""
        if piece.needs_input:
            if not self._input and not self._more():
                self._cut_off()
                return b""
            self._fed = self._at - len(self._input)
            if self._codec.fork is not None and 0 <= self._careful <= self._fed and self._step > 1:
                self._kept = self._codec.fork(piece), self._given
        try:
            text = piece.decompress(self._input, self._block)
        except Exception:  # every library has its own errors
            if self._careful < 0:
                self._diagnostics.note(self._codec.damaged, self.produced)
                self._decode_again()
            elif self._kept is not None:
                self._skipped = max(self._skipped, self._given)
                self._piece, self._given = self._kept
                self._at, self._input, self._step, self._kept = self._fed, b"", 1, None
            else:
                self._over = True
            return b""
        self._input = b""
        self._given += len(text)
        return text[max(0, len(text) - max(0, self._given - self._skipped)) :]

    def _decode_again(self) -> None:
        """Restart the damaged piece: fed in small steps, its last input yields more text."""
        self._careful, self._kept = self._fed, None
        self._step = _STEP if self._codec.fork is None else _FORKED_STEP
        self._at, self._input = self._begin, b""
        self._given, self._skipped = 0, self._given
        self._piece = self._codec.open(True)

    def _close_piece(self, piece: Piece) -> None:
        self._piece, self._careful, self._kept = None, -1, None
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
        self._diagnostics.note("truncated", self.produced, detail="its compressed data is cut off")
        self._over = True


class Ahead:
    """The text of `blocks`, decoded in a thread while the reader works."""

    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks
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
        try:
            while (block := self._blocks.next()) and not self._stop.is_set():
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
    """Random access to compressed text.

    The first read decodes from the beginning and, if the codec can fork, keeps a copy of the decoder every
    16 MB or so; later reads start from the nearest copy.
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
            assert fork is not None  # a fork can be forked again
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
