"""The decoder in C (`decoder.c`), called through ctypes with the interpreter's lock released.

It does the same as `packets.py`, many times as fast. Where the library is missing, that is used.
"""

from __future__ import annotations

import ctypes
import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tracetui.core.columns import I32, Array
from tracetui.core.native import load_library
from tracetui.core.threads import run_parallel, usable_cores
from tracetui.formats.pftrace import pairing
from tracetui.formats.pftrace import schema as s
from tracetui.formats.pftrace.packets import Decoder
from tracetui.formats.pftrace.schema import Decoded, Numbers, Special
from tracetui.formats.store import Numbered

_ROOM = 1 << 16
_MOST = 4
"""Parts that are decoded at once at most."""
_MOST_COPIED = 1 << 17
"""With more names and the like, copies would take more time than they save."""
_LONGEST_PAUSE = 63
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
    library.decoder_copy.argtypes, library.decoder_copy.restype = [address], address
    library.decoder_next.argtypes, library.decoder_next.restype = [address, number, number], number
    library.decoder_join.argtypes, library.decoder_join.restype = [address] * 3, ctypes.c_int
    library.decoder_keys.argtypes = [address, ctypes.c_int, address, address]
    library.decoder_keys.restype = number
    library.decoder_pair.argtypes = [number, *[address] * 3, number, *[address] * 4, number]
    library.decoder_pair.restype = number
    library.decoder_count.argtypes = [address, ctypes.c_int, ctypes.c_int, address]
    library.decoder_count.restype = number
    return library


LIBRARY = _load()
"""None where it is not installed."""


class _One:
    """A decoder in C, and the columns that it adds rows to."""

    def __init__(self, handle: int | None, table: s.Table) -> None:
        assert LIBRARY is not None
        if handle is None:
            raise MemoryError
        self.handle, self.table = handle, table
        self._free = LIBRARY.decoder_free
        self._specials = np.empty((_ROOM, 5), dtype=np.int64)
        self._snapshots = np.empty((_ROOM, 3), dtype=np.int64)
        specials, snapshots = self._specials.ctypes.data, self._snapshots.ctypes.data
        self.batch = _Batch(room=_ROOM, specials=specials, snapshots=snapshots)

    def __del__(self) -> None:
        if hasattr(self, "_free"):
            self._free(self.handle)

    def decode(self, address: int | None, size: int, offset: int, share: float) -> Decoded:
        assert LIBRARY is not None
        batch, table = self.batch, self.table
        for columns in table.values():
            columns.make_room(len(columns) + _ROOM, share)
        for (name, column), place in _NAMES.items():
            array = table[name].arrays[column]
            setattr(batch, place, array.ctypes.data + len(table[name]) * array.itemsize)
        end = LIBRARY.decoder_decode(self.handle, address, size, offset, ctypes.byref(batch))
        state = _STATES[batch.state]
        if state == "memory":
            raise MemoryError
        for name, columns in table.items():
            columns.count += getattr(batch, f"{name}_count")
        specials = [Special(*row) for row in self._specials[: batch.specials_count].tolist()]
        snapshots = [tuple(row) for row in self._snapshots[: batch.snapshots_count].tolist()]
        return Decoded(end, state, specials, snapshots)

    def join(self, other: _One, share: float) -> bool:
        """Add the rows of a copy that has decoded what comes next; False if that has to be done again."""
        assert LIBRARY is not None
        done = LIBRARY.decoder_join(self.handle, other.handle, ctypes.byref(other.batch))
        if done < 0:
            raise MemoryError
        for name, columns in other.table.items() if done else ():
            if count := len(columns):
                self.table[name].add(share, **{of: array[:count] for of, array in columns.arrays.items()})
                columns.count = 0
        return bool(done)


class NativeDecoder:
    """See `packets.Decoder`."""

    PART = 1 << 19
    """Bytes of text for which a thread of its own is worth it."""

    def __init__(self, table: s.Table) -> None:
        assert LIBRARY is not None
        self._main = _One(LIBRARY.decoder_new(int.from_bytes(os.urandom(8), "little")), table)
        self._others: list[_One] = []
        """Copies, each of which has decoded a part of the texts so far."""
        self._alone = self._pause = 0
        """How often to decode without them, and how often the next time that they are of no use."""

    def decode(self, data: bytes | memoryview, offset: int, share: float = 0.0) -> Decoded:
        """See `packets.Decoder.decode`."""
        assert LIBRARY is not None
        address = np.frombuffer(data, np.uint8).__array_interface__["data"][0] if len(data) else 0
        cuts = self._cuts(address, len(data))
        while len(self._others) < len(cuts) - 2:
            self._others.append(_One(LIBRARY.decoder_copy(self._main.handle), s.tables()))
        parts = list(zip([self._main, *self._others], cuts, cuts[1:], strict=False))
        tasks = [
            partial(one.decode, address + a, b - a, offset + a, share * (one is self._main))
            for one, a, b in parts
        ]
        found, *rest = run_parallel(tasks, gives_way=False)
        for (one, begin, _), more in zip(parts[1:], rest, strict=True):
            whole = found.consumed == begin
            if not whole or not self._main.join(one, share):
                self._others = []  # those that have decoded in vain know too much
                self._pause = self._alone = min(2 * self._pause + 1, _LONGEST_PAUSE)
                found.state = "room" if whole else found.state
                return found
            found.consumed += more.consumed
            found.specials += more.specials
            found.state = more.state
        self._pause = 0 if rest else self._pause
        return found

    def _cuts(self, address: int, size: int) -> list[int]:
        """Where the parts of a text begin that are decoded at once, and its end."""
        assert LIBRARY is not None
        count = min(size // self.PART, usable_cores(), _MOST)
        if self._alone or self.numbered() > _MOST_COPIED:
            self._alone = max(0, self._alone - 1)
            count = 1
        cuts = [0]
        while len(cuts) < count and cuts[-1] < size:
            at = cuts[-1]
            cuts.append(at + LIBRARY.decoder_next(address + at, size - at, size // count))
        return [at for at in cuts if at < size or not at] + [size]

    def numbered(self) -> int:
        """How many things have a number."""
        return sum(self._keys(number)[0] for number in range(len(_TABLES)))

    def known(self) -> Numbers:
        """What the events refer to."""
        assert LIBRARY is not None
        numbers = Numbers()
        for number, name in enumerate(_TABLES):
            setattr(numbers, name, self._table(number))
        first = ctypes.c_int64()
        for number in range(s.OTHER_NUMBERS + 1):
            if count := LIBRARY.decoder_count(self._main.handle, 0, number, ctypes.byref(first)):
                numbers.skipped[number] = [count, first.value]
        for number, kind in enumerate(_WRONG):
            if count := LIBRARY.decoder_count(self._main.handle, 1, number, ctypes.byref(first)):
                numbers.found[kind] = [count, first.value]
        return numbers

    def _keys(self, table: int) -> tuple[int, int | None, int | None]:
        assert LIBRARY is not None
        keys, strings = ctypes.c_void_p(), ctypes.c_void_p()
        count = LIBRARY.decoder_keys(self._main.handle, table, ctypes.byref(keys), ctypes.byref(strings))
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
