"""The arrays that events become: their types, what stands for a missing value, and columns that grow."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
I8 = npt.NDArray[np.int8]
I16 = npt.NDArray[np.int16]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

NO_ID = -1
"""Stands for a correlation or an external id that an event does not carry."""
NO_TIME = -(1 << 63)
"""Stands for a time or a duration that an event does not have."""
TIME_LIMIT = (1 << 62) - 1
"""Times beyond this (146 years in nanoseconds on either side) are held at it, so that sums stay within int64.
"""


class Columns:
    """Columns of one length that grow together.

    Each is one array with room to spare: memory that was never written to is not used, and pieces of the size
    of a chunk would, once freed, lie scattered over the heap instead of going back to the system.
    """

    def __init__(self, kinds: dict[str, Any]) -> None:
        self.kinds = kinds
        self.arrays: dict[str, Array] = {name: np.empty(0, dtype=kind) for name, kind in kinds.items()}
        self.count = 0

    def __len__(self) -> int:
        return self.count

    def add(self, share: float = 0.0, **piece: Array) -> None:
        """Append one array per column. `share`: how much of the whole this and all before are, for the room
        taken."""
        size = len(next(iter(piece.values())))
        total = self.count + size
        for name, array in piece.items():
            column = self.arrays[name]
            if total > len(column):
                room = max(2 * total, 1024)
                if share > 0:
                    room = max(int(1.1 * total / share), total + total // 8, 1024)
                grown = np.empty(room, dtype=self.kinds[name])
                grown[: self.count] = column[: self.count]
                self.arrays[name] = column = grown
            column[self.count : total] = array
        self.count = total

    def take(self, name: str) -> Array:
        """The whole column; it is gone from here afterwards."""
        array = self.arrays[name][: self.count]
        self.arrays[name] = np.empty(0, dtype=self.kinds[name])
        return array
