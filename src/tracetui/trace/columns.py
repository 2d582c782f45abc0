"""Columns that grow as the chunks of a file come in."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Array", "Columns"]

Array = npt.NDArray[Any]


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
