"""Events on demand: the part of the file that an event lies in is read and decoded again when somebody asks.

Nothing is kept per event but its `source`, the number of a chunk and a place in it. A plain file is read
where the chunk lies (a quarter of a megabyte: about a millisecond). The text of a compressed file is inflated
again: from its beginning for the first question (about 0.3 s for 100 MB of text, up to the chunk asked for),
leaving on the way a copy of the inflating state for every 16 MB (45 kB each), from the nearest of which later
questions start (at most 50 ms). Standard input was copied to a temporary file without a name. The chunks used
last stay decoded, so that stepping from one event to its neighbours costs nothing.

The file stays open as long as the trace: it may be renamed or deleted. Where it was overwritten, events are
{}.
"""

from __future__ import annotations

import bisect
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tracetui.trace.chunks import reread
from tracetui.trace.diagnostics import Diagnostics
from tracetui.trace.files import Source
from tracetui.trace.inflate import Members
from tracetui.trace.recover_text import lenient
from tracetui.trace.store import SOURCE_BITS, Chunk

_KEPT = 12
_SPACING = 1 << 24


class FileReader:
    """Reads the events behind `source` values. Safe to use from several threads."""

    def __init__(
        self, source: Source, chunks: Sequence[Chunk], bare: bool, top: Mapping[str, Any] | None = None
    ) -> None:
        self.top: Mapping[str, Any] = top or {}
        """The file's top-level keys other than its events."""
        self._source = source
        self._chunks = chunks
        self._bare = bare
        self._kept: OrderedDict[int, list[bytes]] = OrderedDict()
        self._lock = threading.Lock()
        self._inflated = InflatedText(source) if source.compressed else None

    def read(self, sources: Sequence[int]) -> list[dict[str, Any]]:
        """The events' JSON objects, in the order asked for; {} for one that cannot be read any more."""
        found: list[dict[str, Any]] = [{}] * len(sources)
        with self._lock:
            # In the order of the file: each chunk is decoded once, and inflating only goes forward.
            for at in sorted(range(len(sources)), key=sources.__getitem__):
                number, place = sources[at] >> SOURCE_BITS, sources[at] & ((1 << SOURCE_BITS) - 1)
                texts = self._texts(number)
                if 0 <= place < len(texts):
                    found[at] = lenient(texts[place])
        return found

    def chunks(self) -> Iterator[list[bytes]]:
        """The texts of all events, chunk by chunk, in the order of the file; [] for a chunk that cannot be
        read."""
        for number in range(len(self._chunks)):
            with self._lock:
                yield self._texts(number)

    def _texts(self, number: int) -> list[bytes]:
        texts = self._kept.get(number)
        if texts is not None:
            self._kept.move_to_end(number)
            return texts
        texts = []
        if 0 <= number < len(self._chunks):
            chunk = self._chunks[number]
            try:
                text = self._read(chunk.offset, chunk.length)
                texts = reread(text, chunk, self._bare) if len(text) == chunk.length else []
            except (OSError, ValueError, RecursionError, msgspec.DecodeError):
                texts = []
        self._kept[number] = texts
        if len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return texts

    def _read(self, offset: int, length: int) -> bytes:
        status = os.fstat(self._source.file.fileno())
        if (status.st_size, status.st_mtime_ns) != self._source.stamp:
            return b""
        if self._inflated is not None:
            return self._inflated.read(offset, length)
        self._source.file.seek(offset)
        return _read_all(self._source, length)


def _read_all(source: Source, length: int) -> bytes:
    made = bytearray()
    while len(made) < length and (block := source.file.read(length - len(made))):
        made += block
    return bytes(made)


class InflatedText:
    """Any part of the text of a compressed file."""

    def __init__(self, source: Source) -> None:
        start = Members(source.file, Diagnostics(), steps=True)
        self._marks: list[tuple[int, Members]] = [(0, start)]
        self._cursor = start.fork()
        self._held = b""  # the cursor's last block
        self._spacing = max(_SPACING, source.size // 32)

    def read(self, offset: int, length: int) -> bytes:
        """`length` bytes of the text from `offset` on; fewer at its end."""
        held = self._cursor.produced - len(self._held)
        mark = self._marks[bisect.bisect_right(self._marks, offset, key=lambda m: m[0]) - 1]
        if not held <= offset or mark[0] > self._cursor.produced:
            self._cursor, self._held = mark[1].fork(), b""
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
                self._marks.append((self._cursor.produced, self._cursor.fork()))
        return bytes(made)
