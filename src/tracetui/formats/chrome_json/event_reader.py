"""Reads events on demand: the chunk of the file that contains an event is read and decoded again.

Only `source` is kept per event: the number of its chunk and its index there. In a plain file the chunk is
read directly (a quarter of a megabyte, about a millisecond); a compressed file is decoded again up to it,
from the beginning or from the nearest copy of the decoder (gzip: 45 kB for every 16 MB, at most 50 ms).
The most recent chunks stay decoded, so stepping from an event to its neighbors is free.

The file stays open as long as the trace, so it may be renamed or deleted. Once overwritten, events are {}.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tracetui.formats.chrome_json.chunks import reread
from tracetui.formats.chrome_json.event_builder import SOURCE_BITS, Chunk
from tracetui.formats.chrome_json.recover_text import lenient
from tracetui.formats.source import Source

_KEPT = 12
Text = bytes | msgspec.Raw


class _Packed(msgspec.Struct):
    """A reader without its file."""

    chunks: list[Chunk]
    top: dict[str, Any]


_PACKED = msgspec.json.Decoder(_Packed)


class FileReader:
    """Reads the events behind `source` values. Safe to use from several threads."""

    def __init__(self, source: Source, chunks: Sequence[Chunk], top: Mapping[str, Any]) -> None:
        self.top = top
        """The file's top-level keys except its events."""
        self.path = source.path
        self.source = source
        self._chunks = chunks
        self._kept: OrderedDict[int, Sequence[Text]] = OrderedDict()
        self._lock = threading.Lock()
        self._parts = source.parts()

    def pack(self) -> bytes:
        """JSON from which `unpack` makes the reader again. Raises ValueError if there is none."""
        packed = _Packed(list(self._chunks), dict(self.top))
        text = msgspec.json.encode(packed)
        if _PACKED.decode(text) != packed:  # infinity
            raise ValueError
        return text

    @classmethod
    def unpack(cls, source: Source, text: bytes | msgspec.Raw, size: int) -> FileReader:
        """The reader of the same file again, whose text has `size` bytes. Raises ValueError."""
        packed = _PACKED.decode(text)
        if any(min(c.offset, c.length) < 0 or c.offset + c.length > size for c in packed.chunks):
            raise ValueError
        return cls(source, packed.chunks, packed.top)

    def read(self, sources: Sequence[int]) -> list[dict[str, Any]]:
        """The events as JSON objects, in the order of `sources`; {} where one can no longer be read."""
        found: list[dict[str, Any]] = [{}] * len(sources)
        with self._lock:
            # In file order: each chunk is decoded once, and decompression only goes forwards.
            for at in sorted(range(len(sources)), key=sources.__getitem__):
                number, place = sources[at] >> SOURCE_BITS, sources[at] & ((1 << SOURCE_BITS) - 1)
                texts = self._texts(number)
                if 0 <= place < len(texts):
                    found[at] = lenient(texts[place])
        return found

    def chunks(self) -> Iterator[Sequence[Text]]:
        """The texts of all events, chunk by chunk, in file order; [] for an unreadable chunk."""
        for number in range(len(self._chunks)):
            with self._lock:
                yield self._texts(number)

    def _texts(self, number: int) -> Sequence[Text]:
        texts = self._kept.get(number)
        if texts is not None:
            self._kept.move_to_end(number)
            return texts
        texts = []
        if 0 <= number < len(self._chunks):
            chunk = self._chunks[number]
            try:
                text = self._read(chunk.offset, chunk.length)
                texts = reread(text, chunk) if len(text) == chunk.length else []
            except (OSError, ValueError, RecursionError, msgspec.DecodeError):
                texts = []
        self._kept[number] = texts
        if len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return texts

    def _read(self, offset: int, length: int) -> bytes:
        return b"" if self.source.changed else self._parts.read(offset, length)
