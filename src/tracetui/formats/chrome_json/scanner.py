"""The scanner in C (`scanner.c`), called through ctypes with the interpreter's lock released.

It reads most chunks several times as fast as `rows.py`, which stays the reference: a chunk in which anything
is unusual is declined and left to it. Where the library is missing, all chunks are.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec import Struct

from tracetui.core.columns import I32, I64, Array
from tracetui.core.native import load_library
from tracetui.formats.chrome_json.scan import Separator
from tracetui.formats.store import POINT_COLUMNS, SLICE_COLUMNS, Numbered, Tables

AHEAD = 1 << 22
"""Bytes to scan at once: the interpreter's lock is free meanwhile, so other threads seldom wait for it."""
_ROOM = 1 << 16
_NEW = 1 << 13
_CHUNKS = 256
_POINTS = {f"point_{name}": kind for name, kind in SLICE_COLUMNS.items()}
_ARRAYS: dict[str, tuple[Any, Any]] = {
    "heads": (np.int32, _ROOM),
    **{("row_source" if name == "source" else name): (kind, _ROOM) for name, kind in SLICE_COLUMNS.items()},
    **{name: (kind, _ROOM) for name, kind in _POINTS.items()},
    "flow": (np.int64, _ROOM),
    "encloses": (np.bool_, _ROOM),
    "flow_at": (np.int64, (_ROOM, 2)),
    "whole": (np.int64, (_ROOM, 7)),
    "new_names": (np.int64, (_NEW, 2)),
    "new_heads": (np.int64, (_NEW, 4, 2)),
    "new_name_entries": (np.int32, _NEW),
    "new_head_entries": (np.int32, _NEW),
    "chunks": (np.int64, (_CHUNKS, 4)),
}
"""Kind and shape of the arrays that the library fills, in the order of `Chunks` in scanner.c."""
_COUNTS = (
    "events",
    "slices",
    "points",
    "wholes",
    "names",
    "heads_found",
    "timeless",
    "first_timeless",
    "strings",
    "done",
)


class _Chunks(ctypes.Structure):
    """`Chunks` in scanner.c."""

    _fields_ = (
        ("chunk", ctypes.c_int64),
        ("room", ctypes.c_int64),
        ("new_room", ctypes.c_int64),
        ("chunk_room", ctypes.c_int64),
        ("next_name", ctypes.c_int32),
        ("next_head", ctypes.c_int32),
        *((name, ctypes.c_void_p) for name in _ARRAYS),
        *((name, ctypes.c_int64) for name in _COUNTS),
    )


def _load() -> ctypes.CDLL | None:
    library = load_library(Path(__file__).with_name("scanner.c"))
    if library is None:
        return None
    address, number = ctypes.c_void_p, ctypes.c_int64
    library.scanner_new.argtypes, library.scanner_new.restype = [ctypes.c_uint64], address
    library.scanner_free.argtypes, library.scanner_free.restype = [address], None
    library.scanner_chunk.argtypes = [address, address, number, number, address]
    library.scanner_chunks.argtypes = [address, address, *[number] * 2, address, *[number] * 3, address]
    library.scanner_chunks.restype = number
    library.scanner_number.argtypes = [address, ctypes.c_int, address, address, number]
    library.scanner_number.restype = None
    return library


LIBRARY = _load()
"""None where it is not installed."""


class Whole(NamedTuple):
    """An event that must be decoded whole."""

    source: int
    head: int
    name: int
    start: int
    begin: int = 0
    end: int = 0
    """Where it is in the text."""
    slice: int = -1
    """Its row among the slices, -1 if it is none."""


class Scanned(Struct, frozen=True):
    """The events of one or more chunks. The arrays are overwritten by the next `scan`."""

    chunks: list[tuple[int, int, int, int]]
    """Begin and length in the text, how many slices and points have no time, and are left out, and where the
    first of those begins."""
    heads: I32
    """Of every event."""
    slices: dict[str, Array]
    points: dict[str, Array]
    whole: list[Whole]
    end: int
    """Where the text begins that was not read."""


class Scanner:
    """Reads chunks; names and heads are numbered in `tables`."""

    def __init__(self, tables: Tables) -> None:
        assert LIBRARY is not None
        self._tables = tables
        self._arrays: dict[str, Array] = {n: np.empty(shape, kind) for n, (kind, shape) in _ARRAYS.items()}
        addresses = {name: array.ctypes.data for name, array in self._arrays.items()}
        self._chunk = _Chunks(room=_ROOM, new_room=_NEW, chunk_room=_CHUNKS, **addresses)
        self._free = LIBRARY.scanner_free
        self._handle: int | None = LIBRARY.scanner_new(int.from_bytes(os.urandom(8), "little"))
        if self._handle is None:
            raise MemoryError

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self._free(self._handle)

    def scan(self, text: bytes | memoryview, number: int) -> Scanned | None:
        """The events of chunk `number`: `text`, a JSON list in UTF-8; None if it is declined."""
        size = len(text) - 2
        if text[:1] != b"[" or text[-1:] != b"]":
            return None
        address = self._prepare(text, number)
        assert LIBRARY is not None
        if LIBRARY.scanner_chunk(self._handle, address, 1, size, ctypes.byref(self._chunk)):
            return None
        return self._found(text, len(text))

    def scan_ahead(self, text: memoryview, number: int, length: int, separator: Separator) -> Scanned | None:
        """The events of as many chunks of `text` as there are, each of them at most `length` bytes long and
        cut at the last separator in it; None if there are none. `number` is that of the first."""
        address = self._prepare(text, number)
        border, comma, brace = separator
        assert LIBRARY is not None
        end = LIBRARY.scanner_chunks(
            self._handle,
            address,
            len(text),
            length,
            border,
            len(border),
            comma,
            brace,
            ctypes.byref(self._chunk),
        )
        return self._found(text, end) if self._chunk.done else None

    def _prepare(self, text: bytes | memoryview, number: int) -> int:
        """The address of `text`."""
        chunk, tables = self._chunk, self._tables
        chunk.chunk, chunk.next_name, chunk.next_head = number, len(tables.names), len(tables.heads)
        return int(np.frombuffer(text, np.uint8).__array_interface__["data"][0])

    def _found(self, text: bytes | memoryview, end: int) -> Scanned:
        chunk, arrays = self._chunk, self._arrays
        if chunk.names or chunk.heads_found:
            self._number(text)
        slices = {
            name: arrays["row_source" if name == "source" else name][: chunk.slices] for name in SLICE_COLUMNS
        }
        points: dict[str, Array] = {}
        if chunk.points:
            points = {name: arrays[f"point_{name}"][: chunk.points] for name in SLICE_COLUMNS}
            points |= {name: arrays[name][: chunk.points] for name in POINT_COLUMNS if name not in points}
            if chunk.strings:
                self._number_flows(text)
        whole = [Whole._make(row) for row in arrays["whole"][: chunk.wholes].tolist()]
        chunks = [tuple(row) for row in arrays["chunks"][: chunk.done].tolist()]
        return Scanned(chunks, arrays["heads"][: chunk.events], slices, points, whole, end)

    def _number(self, text: bytes | memoryview) -> None:
        """Number the new names and heads of a chunk: the library only knows them by how they are written."""
        chunk, arrays = self._chunk, self._arrays
        names = [_decoded(text, *at) for at in arrays["new_names"][: chunk.names].tolist()]
        heads = [
            tuple(_decoded(text, *at) for at in four)
            for four in arrays["new_heads"][: chunk.heads_found].tolist()
        ]
        rows = {"name": ("name", "point_name"), "head": ("heads", "head", "point_head")}
        self._settle(0, self._tables.names, names, rows["name"], chunk.next_name, "new_name_entries", 2)
        self._settle(1, self._tables.heads, heads, rows["head"], chunk.next_head, "new_head_entries", 1)

    def _settle(
        self,
        which: int,
        table: Numbered[Any],
        keys: Sequence[Any],
        columns: Sequence[str],
        first: int,
        entries: str,
        whole: int,
    ) -> None:
        """Put the numbers of `table` in place of the library's, which counts up from `first`."""
        numbers = np.array([table[key] for key in keys], dtype=np.int32)
        if (numbers == np.arange(first, first + len(numbers), dtype=np.int32)).all():
            return
        assert LIBRARY is not None
        LIBRARY.scanner_number(
            self._handle, which, self._arrays[entries].ctypes.data, numbers.ctypes.data, len(numbers)
        )
        counts = {"heads": self._chunk.events, "head": self._chunk.slices, "name": self._chunk.slices}
        for name in columns:
            column = self._arrays[name][: counts.get(name, self._chunk.points)]
            _renumber(column, first, numbers)
        _renumber(self._arrays["whole"][: self._chunk.wholes, whole], first, numbers)

    def _number_flows(self, text: bytes | memoryview) -> None:
        """Number the ids of flows that are strings."""
        flow = self._arrays["flow"][: self._chunk.points]
        at = self._arrays["flow_at"][: self._chunk.points]
        which = np.flatnonzero(at[:, 0] >= 0)
        flow[which] = self._tables.flow_ids([_decoded(text, *two) for two in at[which].tolist()])


def _renumber(column: I32 | I64, first: int, numbers: I32) -> None:
    """Change `column` in place."""
    fresh = np.flatnonzero(column >= first)
    column[fresh] = numbers[column[fresh] - first]


def _decoded(text: bytes | memoryview, begin: int, end: int) -> Any:
    """A string or a whole number in the text; "" if it is missing (-1)."""
    return "" if begin < 0 else msgspec.json.decode(text[begin:end])
