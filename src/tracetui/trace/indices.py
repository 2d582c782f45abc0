"""Indices from a value of a column to all rows that have it, made once, so that a look-up need not read every
slice.

`prepare` makes the indices, in any thread; until then, and without it, `having` looks through the column.
"""

from __future__ import annotations

import threading

import numpy as np
from msgspec import Struct

from tracetui.core import threads
from tracetui.core.columns import repeated
from tracetui.trace.model import I32, I64, Trace, cached_on_trace
from tracetui.trace.nesting import first_places, positions

COLUMNS = ("name", "launch", "op", "flow_from", "flow_to")
"""The columns with an index: some of slices, some of flows."""
_making = threading.Lock()


class Index(Struct, frozen=True):
    """The positions of each value of a column; values below 0 are left out."""

    value: I32
    """The distinct values, ascending."""
    first: I64
    """Where the positions of each value begin in `at`. One entry more than `value`: the last is the length of
    `at`."""
    at: I32
    """Positions in the column by value, ascending within each."""

    def between(self, low: int, high: int) -> I32:
        """The positions of the values from `low` up to but not including `high`, by value."""
        # In the column's own type: with another one, all values would be converted.
        a, b = self.first[np.searchsorted(self.value, np.array((low, max(low, high)), np.int32))]
        return self.at[a:b]

    def each(self, values: I32 | I64) -> I32:
        """The positions of all of these values, value by value in the given order."""
        if not len(self.value):
            return self.at
        begin, count = self._where(values)
        begin -= np.cumsum(count) - count
        found: I32 = self.at[repeated(begin, count) + np.arange(count.sum())]
        return found

    def count(self, values: I32 | I64) -> int:
        """How many positions these values have in total."""
        return int(self._where(values)[1].sum()) if len(self.value) else 0

    def _where(self, values: I32 | I64) -> tuple[I64, I64]:
        """For each of the values that occurs: where its positions begin in `at`, and how many there are."""
        wanted = values.astype(np.int32)
        place = np.minimum(np.searchsorted(self.value, wanted), len(self.value) - 1)
        place = place[self.value[place] == wanted]
        return self.first[place], self.first[place + 1] - self.first[place]


def index_of(trace: Trace, column: str) -> Index:
    """The index of one of `COLUMNS`, made on the first call."""
    with _making:  # several threads want the index of the names first
        found: Index | None = trace.derived.get(f"by {column}")
        if found is None:
            found = trace.derived[f"by {column}"] = index(getattr(trace, column))
    return found


@cached_on_trace
def first_of_names(trace: Trace) -> I32:
    """The first slice of each name, -1 if there is none."""
    return first_places(trace.name, len(trace.names))


def prepare(trace: Trace) -> None:
    """Make all indices."""
    for column in COLUMNS:
        threads.yield_to_ui()
        index_of(trace, column)
    first = np.cumsum([0, *(lane.rows for lane in trace.lanes)])
    row = first.astype(np.int32)[trace.lane] + trace.depth
    by_name = index_of(trace, "name").at
    order = by_name[positions(row[by_name], int(first[-1]))[1]]
    key = row[order] * np.int64(len(trace.names)) + trace.name[order]
    opens = np.ones(len(key), dtype=np.bool_)
    opens[1:] = key[1:] != key[:-1]
    starts = np.flatnonzero(opens)
    trace.derived["namesakes"] = first, key[starts], np.append(starts, len(key)), order


def namesakes(trace: Trace, lane: int, depth: int, name: int) -> I32 | None:
    """The slices of a name in a row of a lane, in order; None before `prepare`."""
    found: tuple[I64, I64, I64, I32] | None = trace.derived.get("namesakes")
    if found is None:
        return None
    rows, key, first, order = found
    wanted = (int(rows[lane]) + depth) * len(trace.names) + name
    at = int(np.searchsorted(key, wanted))
    return order[first[at] : first[at + 1]] if at < len(key) and key[at] == wanted else order[:0]


def having(trace: Trace, column: str, low: int, high: int | None = None) -> I32 | I64:
    """The positions where a column of `COLUMNS` is `low` or, with `high`, is from `low` up to but not
    including `high`, by value."""
    index: Index | None = trace.derived.get(f"by {column}")
    if index is not None:
        return index.between(low, low + 1 if high is None else high)
    values: I32 = getattr(trace, column)
    if high is None:
        return np.flatnonzero(values == low)
    at = np.flatnonzero((values >= low) & (values < high))
    return at[np.argsort(values[at], kind="stable")]


def index(values: I32) -> Index:
    """The index of any column."""
    first, at = positions(values, int(values.max(initial=-1)) + 1)
    value = np.flatnonzero(first[1:] > first[:-1])
    return Index(value.astype(np.int32), np.append(first[value], len(at)), at)


_FEW = 8
"""Up to this many values, one pass for each is faster than sorting."""


def group_positions(values: I64 | I32, size: int) -> list[tuple[int, I64]]:
    """(each value that occurs, its positions), by value; all values are in [-1, size)."""
    there = np.zeros(size + 1, dtype=np.bool_)
    there[values] = True  # the last entry is for -1
    found = [*([-1] if there[-1] else []), *np.flatnonzero(there[:-1]).tolist()]
    if len(found) <= _FEW:
        return [(value, np.flatnonzero(values == value)) for value in found]
    order = np.argsort(values, kind="stable")
    return list(zip(found, np.split(order, np.searchsorted(values[order], found[1:])), strict=True))
