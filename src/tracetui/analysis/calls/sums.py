"""Sums by row over many slices.

The library made from calls.c makes them in one pass, where it is installed.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np

from tracetui.core.columns import earliest
from tracetui.core.native import load_library
from tracetui.trace.model import I32, I64


def _load() -> ctypes.CDLL | None:
    library = load_library(Path(__file__).with_name("calls.c"))
    if library is not None:
        address, number = ctypes.c_void_p, ctypes.c_int64
        library.sum_into.argtypes = [address, address, number, address, number]
        library.sum_by.argtypes = [address, number, address, number, address, address, number]
        library.busy_blocks.argtypes = [address, number, *[address] * 7]
        library.busy_blocks.restype = number
        library.tally.argtypes = [address, number, address, number, ctypes.c_int, *[address] * 6, number]
        library.parents.argtypes = [*[address] * 5, number, address]
        library.merge.argtypes = [*[address] * 5, number, *[address] * 5]
        library.without_children.argtypes = [address, address, number, address]
        library.parents.restype = library.merge.restype = library.without_children.restype = None
    return library


LIBRARY = _load()
"""None where it is not installed."""


def sum_into(index: I64 | I32, values: I64, size: int) -> I64:
    """Exact int64 sums of `values` by `index` (0 to size - 1). Shape (size,). Raises IndexError or
    ValueError for another index."""
    total = np.zeros(size, dtype=np.int64)
    if not len(values):
        return total
    if LIBRARY is not None:
        index = np.ascontiguousarray(index, dtype=np.int64)
        values = np.ascontiguousarray(values, dtype=np.int64)
        if not LIBRARY.sum_into(index.ctypes.data, values.ctypes.data, len(values), total.ctypes.data, size):
            raise IndexError
        return total
    # bincount adds in float64, which is exact, and much faster, while no sum can pass 2**53.
    most = max(int(values.max()), -int(values.min())) * len(values)
    if most < 2**53 or float(np.abs(values).sum(dtype=np.float64)) < 2**52:
        sums = np.bincount(index, weights=values, minlength=size).astype(np.int64)
        if len(sums) > size:
            raise IndexError
        return sums
    np.add.at(total, index, values)
    return total


def sum_by(row_of: I32, at: I64, values: I64, size: int) -> I64:
    """The sum of the values of each row (0 to size - 1). `row_of`: the row of each slice, -1 for none; `at`:
    the slices of the values. Shape (size,). Raises IndexError for another row or slice."""
    if LIBRARY is None or not len(at):
        row = row_of[at].astype(np.int64)
        return sum_into(row[row >= 0], values[row >= 0], size)
    total = np.zeros(size, dtype=np.int64)
    row_of = np.ascontiguousarray(row_of, dtype=np.int32)
    at, values = (np.ascontiguousarray(column, dtype=np.int64) for column in (at, values))
    addresses = (column.ctypes.data for column in (row_of, at, values, total))
    of_rows, of_at, of_values, of_total = addresses
    if not LIBRARY.sum_by(of_rows, len(row_of), of_at, len(at), of_values, of_total, size):
        raise IndexError
    return total


def tally(
    row_of: I32, at: I64, times: tuple[I64, I64], source: I64, size: int, of_slices: bool = False
) -> tuple[I64, I64, I64]:
    """(number, position in `at` of the first, sum of durations) of what is in each row: see `sum_by`.

    The first is the earliest, then the longest, then the first in the file; -1 for none. `times`: starts and
    durations, as long as `at`, or `of_slices`: columns of all slices, as `source` is. Raises IndexError for a
    row or slice that there is not.
    """
    count, total = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    first = np.full(size, -1, dtype=np.int64)
    if LIBRARY is not None and len(at):
        row_of = np.ascontiguousarray(row_of, dtype=np.int32)
        of_start, of_duration, of_source, of_at = (
            np.ascontiguousarray(column, dtype=np.int64) for column in (*times, source, at)
        )
        columns = of_start, of_duration, of_source
        if not LIBRARY.tally(
            row_of.ctypes.data, len(row_of), of_at.ctypes.data, len(at), of_slices,
            *(column.ctypes.data for column in (*columns, count, first, total)), size,
        ):  # fmt: skip
            raise IndexError
        return count, first, total
    row = row_of[at]
    mine = np.flatnonzero(row >= 0)
    row, slices = row[mine], at[mine]
    start, duration = (column[slices if of_slices else mine] for column in times)
    count += np.bincount(row, minlength=size)
    total += sum_into(row, duration, size)
    early = np.flatnonzero(start == earliest(row, start, size)[row])
    early = early[np.lexsort((source[slices[early]], -duration[early], row[early]))]
    found, leading = np.unique(row[early], return_index=True)
    first[found] = mine[early[leading]]
    return count, first, total


def without_children(parent: I32, duration: I64) -> I64:
    """Each duration minus those of what has it as its parent (-1 for none). Shape (n,)."""
    if LIBRARY is None:
        inner = np.flatnonzero(parent >= 0)
        return duration - sum_into(parent[inner].astype(np.int64), duration[inner], len(duration))
    own = np.empty(len(duration), dtype=np.int64)
    columns = np.ascontiguousarray(parent), np.ascontiguousarray(duration)
    LIBRARY.without_children(*(column.ctypes.data for column in columns), len(own), own.ctypes.data)
    return own
