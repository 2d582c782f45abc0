"""The decoder in C (`decoder.c`), called through ctypes with the interpreter's lock released.

It does the same as `packets.py`, many times as fast. Where the library is missing, that is used.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

import numpy as np

from tracetui.core.columns import I32, Array
from tracetui.core.native import load_library
from tracetui.formats.pftrace import pairing
from tracetui.formats.pftrace import schema as s
from tracetui.formats.pftrace.packets import Decoder
from tracetui.formats.pftrace.schema import Decoded, Numbers, Special
from tracetui.formats.store import Numbered

_ROOM = 1 << 16
_NAMES = {
    **{("slices", name): name for name in s.COLUMNS["slices"]},
    **{("ends", name): f"end_{name}" for name in s.COLUMNS["ends"]},
    **{("filled", name): f"filled_{name}" for name in s.COLUMNS["filled"]},
    **{("points", name): f"point_{name}" for name in s.COLUMNS["points"]},
    ("counters", "series"): "series",
    ("counters", "start"): "counter_start",
    ("counters", "value"): "value",
    **{("stages", name): f"stage_{name}" for name in s.COLUMNS["stages"]},
    **{("waits", name): f"wait_{name}" for name in s.COLUMNS["waits"]},
}
"""The columns, in the order of `Batch` in decoder.c."""
_STATES = ("end", "room", "lost", "long", "memory")
_WRONG = ("broken_event", "no_time", "wrong_type", "dropped")
_TABLES = ("strings", "refs", "tracks", "heads", "series", "clocks", "epochs")


class _Batch(ctypes.Structure):
    """`Batch` in decoder.c."""

    _fields_ = (
        ("room", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in _NAMES.values()),
        ("specials", ctypes.c_void_p),
        ("snapshots", ctypes.c_void_p),
        *((f"{name}_count", ctypes.c_int64) for name in (*s.COLUMNS, "specials", "snapshots")),
        ("state", ctypes.c_int64),
    )


def _load() -> ctypes.CDLL | None:
    library = load_library(Path(__file__).with_name("decoder.c"))
    if library is None:
        return None
    address, number = ctypes.c_void_p, ctypes.c_int64
    library.decoder_new.argtypes, library.decoder_new.restype = [ctypes.c_uint64], address
    library.decoder_free.argtypes, library.decoder_free.restype = [address], None
    library.decoder_decode.argtypes = [address, address, number, number, address]
    library.decoder_decode.restype = number
    library.decoder_keys.argtypes = [address, ctypes.c_int, address, address]
    library.decoder_keys.restype = number
    library.decoder_pair.argtypes = [number, *[address] * 3, number, *[address] * 4, number]
    library.decoder_pair.restype = number
    library.decoder_count.argtypes = [address, ctypes.c_int, ctypes.c_int, address]
    library.decoder_count.restype = number
    return library


LIBRARY = _load()
"""None where it is not installed."""


class NativeDecoder:
    """See `packets.Decoder`."""

    def __init__(self, table: s.Table) -> None:
        assert LIBRARY is not None
        self._columns = table
        self._specials = np.empty((_ROOM, 5), dtype=np.int64)
        self._snapshots = np.empty((_ROOM, 3), dtype=np.int64)
        specials, snapshots = self._specials.ctypes.data, self._snapshots.ctypes.data
        self._batch = _Batch(room=_ROOM, specials=specials, snapshots=snapshots)
        self._free = LIBRARY.decoder_free
        self._handle: int | None = LIBRARY.decoder_new(int.from_bytes(os.urandom(8), "little"))
        if self._handle is None:
            raise MemoryError

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self._free(self._handle)

    def decode(self, data: bytes | memoryview, offset: int, share: float = 0.0) -> Decoded:
        """See `packets.Decoder.decode`."""
        assert LIBRARY is not None
        batch, table = self._batch, self._columns
        for columns in table.values():
            columns.make_room(len(columns) + _ROOM, share)
        for (name, column), place in _NAMES.items():
            array = table[name].arrays[column]
            setattr(batch, place, array.ctypes.data + len(table[name]) * array.itemsize)
        address = np.frombuffer(data, np.uint8).__array_interface__["data"][0] if len(data) else None
        end = LIBRARY.decoder_decode(self._handle, address, len(data), offset, ctypes.byref(batch))
        state = _STATES[batch.state]
        if state == "memory":
            raise MemoryError
        for name, columns in table.items():
            columns.count += getattr(batch, f"{name}_count")
        specials = [Special(*row) for row in self._specials[: batch.specials_count].tolist()]
        snapshots = [tuple(row) for row in self._snapshots[: batch.snapshots_count].tolist()]
        return Decoded(end, state, specials, snapshots)

    def numbered(self) -> int:
        """How many things have a number."""
        return sum(self._keys(number)[0] for number in range(len(_TABLES)))

    def known(self) -> Numbers:
        """What the events refer to."""
        assert LIBRARY is not None
        found = Numbers()
        for number, name in enumerate(_TABLES):
            setattr(found, name, self._table(number))
        first = ctypes.c_int64()
        for number in range(s.OTHER_NUMBERS + 1):
            if count := LIBRARY.decoder_count(self._handle, 0, number, ctypes.byref(first)):
                found.skipped[number] = [count, first.value]
        for number, kind in enumerate(_WRONG):
            if count := LIBRARY.decoder_count(self._handle, 1, number, ctypes.byref(first)):
                found.found[kind] = [count, first.value]
        return found

    def _keys(self, table: int) -> tuple[int, int | None, int | None]:
        assert LIBRARY is not None
        keys, strings = ctypes.c_void_p(), ctypes.c_void_p()
        count = LIBRARY.decoder_keys(self._handle, table, ctypes.byref(keys), ctypes.byref(strings))
        return count, keys.value, strings.value

    def _table(self, table: int) -> Numbered[Any]:
        count, keys, strings = self._keys(table)
        found: Numbered[Any] = Numbered()
        if not count or keys is None:
            return found
        text = ctypes.string_at(keys, 48 * count)
        rows = np.frombuffer(text, np.int64).reshape(-1, 6)
        for number, row in enumerate(map(tuple, rows.tolist())):
            one: Any = ctypes.string_at((strings or 0) + row[0], row[1]) if table == 0 else row
            found[one] = number
        return found


def pair(slices: dict[str, Array], ends: dict[str, Array], track_of: I32, tracks: int) -> int:
    """See `pairing.pair`."""
    if LIBRARY is None:
        return pairing.pair(slices, ends, track_of, tracks)
    columns = [slices["head"], slices["start"], slices["duration"], ends["head"], ends["start"], ends["row"]]
    addresses = [column.ctypes.data for column in columns]
    track_of = np.ascontiguousarray(track_of, dtype=np.int32)
    unopened = LIBRARY.decoder_pair(
        len(slices["head"]), *addresses[:3], len(ends["head"]), *addresses[3:], track_of.ctypes.data, tracks
    )
    if unopened < 0:
        raise MemoryError
    return int(unopened)


def decoder(table: s.Table) -> Decoder | NativeDecoder:
    """The fastest decoder there is; it adds rows to `table`."""
    return Decoder(table) if LIBRARY is None else NativeDecoder(table)
