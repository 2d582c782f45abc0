"""Array types, the values that mean "missing", and columns that grow."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tracetui.core.threads import map_blocks

Array = npt.NDArray[Any]
I8 = npt.NDArray[np.int8]
I16 = npt.NDArray[np.int16]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

NO_ID = -1
"""The correlation or external id of an event that has none."""
NO_TIME = -(1 << 63)
"""The time or duration of an event that has none."""
TIME_LIMIT = (1 << 62) - 1
"""Times are clamped to this (146 years in nanoseconds, either way), so that sums fit into int64."""


def blocks(first: int, last: int, size: int = 1 << 17) -> list[tuple[int, int]]:
    """A range in parts: what is made for one fits in a core's cache, where it would be large for all."""
    return [(a, min(a + size, last)) for a in range(first, last, size)]


def looked_up(table: Array, index: Array) -> Array:
    """`table[index]`, without a wider copy of the index."""
    out = np.empty(len(index), dtype=table.dtype)
    map_blocks(len(index), lambda part: np.take(table, index[part], out=out[part], mode="clip"))
    return out


# numpy holds the interpreter's lock in `repeat`, `bincount`, `unique` and `ufunc.at`: for millions of values
# no key is answered for a tenth of a second. These do the same in parts, or by sorting.


def repeated(values: Array, counts: Array) -> Array:
    """`np.repeat(values, counts)`."""
    ends = np.cumsum(counts)
    out = np.empty(int(ends[-1]) if len(ends) else 0, dtype=values.dtype)
    for a, b in blocks(0, len(out)):
        low, high = np.searchsorted(ends, (a, b - 1), side="right")
        mine = slice(low, high + 1)
        begin, end = ends[mine] - counts[mine], ends[mine]
        out[a:b] = np.repeat(values[mine], np.minimum(end, b) - np.maximum(begin, a))
    return out


def counted(values: Array, size: int) -> I64:
    """`np.bincount(values, minlength=size)`. Raises IndexError for a value that is not in [0, size)."""
    found = np.zeros(size, dtype=np.int64)
    if len(values) and int(values.min()) < 0:
        raise IndexError
    for a, b in blocks(0, len(values)):
        np.add.at(found, values[a:b], 1)
    return found


def earliest(index: Array, times: I64, size: int) -> I64:
    """The least of the times of each index from 0 to `size` - 1; the largest int64 for none."""
    found = np.full(size, np.iinfo(np.int64).max)
    for a, b in blocks(0, len(index)):
        np.minimum.at(found, index[a:b], times[a:b])
    return found


def summed(index: Array, values: I64, size: int) -> I64:
    """The exact sums of the values of each index from 0 to `size` - 1."""
    found = np.zeros(size, dtype=np.int64)
    for a, b in blocks(0, len(index)):
        np.add.at(found, index[a:b], values[a:b])
    return found


def distinct(at: Array, size: int) -> I64:
    """The distinct values of `at`, in order; all are in [0, size). `np.unique` takes fifty times as long."""
    there = np.zeros(size, dtype=np.bool_)
    there[at] = True
    return np.flatnonzero(there)


def unique(*values: Array) -> Array:
    """The distinct values of some columns of one type, in order."""
    ordered = np.sort(np.concatenate(values))
    found: Array = ordered[np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]]
    return found


def extremes(column: Array) -> tuple[int, int]:
    """The least and the largest of a column of integers that is not empty."""
    found = map_blocks(len(column), lambda part: (int(column[part].min()), int(column[part].max())))
    return min(low for low, _ in found), max(high for _, high in found)


class Columns:
    """Columns of one length that grow together.

    Each is one array with room to spare: untouched memory costs nothing, and chunk-sized pieces would
    fragment the heap when freed instead of going back to the system.
    """

    def __init__(self, kinds: dict[str, Any]) -> None:
        self.kinds = kinds
        self.arrays: dict[str, Array] = {name: np.empty(0, dtype=kind) for name, kind in kinds.items()}
        self.count = self._room = 0

    def __len__(self) -> int:
        return self.count

    def add(self, share: float = 0.0, rows: I64 | None = None, **piece: Array) -> None:
        """Append one array per column, or these rows of them. `share`: the fraction of the file read so far,
        this piece included, from which the final size is estimated; 0 if unknown."""
        total = self.count + len(next(iter(piece.values())) if rows is None else rows)
        self.make_room(total, share)
        for name, array in piece.items():
            place = self.arrays[name][self.count : total]
            if rows is None:
                place[:] = array
            else:
                array.take(rows, out=place, mode="clip")
        self.count = total

    def make_room(self, total: int, share: float = 0.0) -> None:
        """Make room for `total` rows; `share`: see `add`."""
        if total > self._room:
            self._room = max(2 * total, 1024)
            if share > 0:
                self._room = max(int(1.1 * total / share), total + total // 8, 1024)
            for name, column in self.arrays.items():
                larger = np.empty(self._room, dtype=self.kinds[name])
                larger[: self.count] = column[: self.count]
                self.arrays[name] = larger

    def take(self, name: str) -> Array:
        """Remove a column and return it."""
        array = self.arrays[name][: self.count]
        self.arrays[name] = np.empty(0, dtype=self.kinds[name])
        self._room = 0
        return array
