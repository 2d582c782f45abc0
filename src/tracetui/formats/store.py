"""The columns that every format fills (slices, points and counter samples), and small tables for the rest.

Events follow Chrome's trace format: the phase is one letter ("X" a slice, "B" and "E" its
begin and end, "i" an instant, "s", "t", "f" the ends of a flow, ...). The phase, the category, the process
and the thread together are its *head*, a number in `Tables.heads`. Times are int64 nanoseconds on the file's
clock.
"""

from __future__ import annotations

from collections.abc import Hashable, Sized
from typing import Any, TypeVar

import numpy as np
from msgspec import Struct, field

from tracetui.core.columns import I32, I64, NO_TIME, Columns
from tracetui.core.copying import replace
from tracetui.formats.diagnostics import Diagnostics

Head = tuple[str, str, "int | str", "int | str"]
"""(ph, cat, pid, tid)"""
OTHER_IDS = 1 << 62
"""Flow ids that are not 62-bit integers are numbered from here."""
LAUNCH_FLOWS = frozenset({"ac2g", "async_cpu_to_gpu", "async_gpu", "async"})
"""Flows from a launch to its device event, redundant with `correlation`, but for those between the nodes of
a CUDA graph."""
GRAPH_FLOWS = 1 << 40
"""The ids of flows from a node of a CUDA graph to one that waits for it begin here: no correlation is as
large."""

TRANSFERS = 1 << 30
"""The names of slices that are numbers in `Tables.transfers` begin here."""

SLICE_COLUMNS = {
    "head": np.int32,
    "name": np.int32,
    "start": np.int64,
    "duration": np.int64,
    "correlation": np.int64,
    "external": np.int64,
    "source": np.int64,
}
POINT_COLUMNS = {**SLICE_COLUMNS, "flow": np.int64, "encloses": np.bool_}
COUNTER_COLUMNS = {"series": np.int32, "start": np.int64, "value": np.float64}

K = TypeVar("K", bound=Hashable)


class Numbered(dict[K, int]):
    """Numbers keys in order of first use: `table[key]` never fails."""

    def __missing__(self, key: K) -> int:
        number = self[key] = len(self)
        return number


class Tables(Struct):
    """The heads, names and ids behind the numbers in the columns."""

    heads: Numbered[Head] = field(default_factory=Numbered)
    names: Numbered[str] = field(default_factory=Numbered)
    ids: Numbered[Any] = field(default_factory=Numbered)
    transfers: Numbered[str] = field(default_factory=Numbered)
    """The names of copies and memsets whose own name does not say what they copy or set."""

    def flow_ids(self, values: list[Any]) -> I64:
        """Ids of any type as int64; NO_TIME for none."""
        if set(map(type, values)) == {int} and min(values) > -OTHER_IDS and max(values) < OTHER_IDS:
            return np.array(values, dtype=np.int64)
        return np.array([self._flow_id(v) for v in values], dtype=np.int64)

    def _flow_id(self, value: Any) -> int:
        if type(value) is int and -OTHER_IDS < value < OTHER_IDS:
            return value
        if value is None:
            return NO_TIME
        return OTHER_IDS + self.ids[value if isinstance(value, (str, int)) else repr(value)]


class AsyncEvent(Struct, frozen=True):
    """`b`, `n`, `e`, or the older `S`, `T`, `F`."""

    phase: str
    category: str
    key: str
    name: int
    pid: str
    start: int
    source: int


class Store(Struct):
    """What a format reads from a file. Slices and points are rows of columns; `head` and `name` index into
    `tables`, and the format can find the whole event again by its `source`."""

    tables: Tables = field(default_factory=Tables)
    slices: Columns = field(default_factory=lambda: Columns(SLICE_COLUMNS))
    points: Columns = field(default_factory=lambda: Columns(POINT_COLUMNS))
    """`B`, `E`, instants and the ends of flows."""
    counters: Columns = field(default_factory=lambda: Columns(COUNTER_COLUMNS))
    series: dict[tuple[str, str, str], int] = field(default_factory=dict)
    """(name, key, pid) of a counter to its number."""
    metadata: list[tuple[str, str, str, Any]] = field(default_factory=list)
    """(name, pid, tid, value) of `process_name`, `thread_name`, ..., in file order."""
    asyncs: list[AsyncEvent] = field(default_factory=list)
    diagnostics: Diagnostics = field(default_factory=Diagnostics)
    _counts: I64 = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def count(self, heads: I32) -> None:
        """Count events by head. Shape (events,)."""
        if len(heads):
            lowest = int(heads.min())
            counts = np.bincount(heads - lowest)
            self._make_room(lowest + len(counts))
            self._counts[lowest : lowest + len(counts)] += counts

    def _make_room(self, heads: int) -> None:
        if heads > len(self._counts):
            self._counts = np.append(self._counts, np.zeros(heads + 64, dtype=np.int64))

    @property
    def total(self) -> int:
        """Events that were read, of any phase."""
        return int(self._counts.sum())

    @property
    def memory(self) -> int:
        """About how many bytes the trace of what was read will take at most while it is built."""
        tables = self.tables
        objects: list[Sized] = [tables.heads, tables.names, tables.ids]
        objects += [self.series, self.metadata, self.asyncs]
        rows = len(self.slices) + len(self.points) + len(self.counters)
        return 112 * rows + 256 * sum(map(len, objects))

    @property
    def is_empty(self) -> bool:
        """Whether nothing at all was read, not even something broken."""
        return not self._counts.any() and not self.diagnostics.found

    def phases(self) -> dict[str, int]:
        """Events by phase."""
        found: dict[str, int] = {}
        for (phase, _, _, _), count in zip(self.tables.heads, self._counts.tolist(), strict=False):
            if count:
                found[phase] = found.get(phase, 0) + count
        return found

    def slices_so_far(self) -> Store:
        """A copy of the slices that were read, of their heads and names, and of what the lanes are called."""
        slices = self.slices
        copy = Columns(SLICE_COLUMNS)
        copy.add(1.0, **{name: array[: len(slices)] for name, array in slices.arrays.items()})
        of = self.tables
        tables = Tables(Numbered(of.heads), Numbered(of.names), transfers=Numbered(of.transfers))
        return Store(tables, copy, metadata=self.metadata[:], _counts=self._counts.copy())

    def absorb(self, other: Store, share: float, base: int) -> None:
        """Append what was read of the next stretch of a text, as if it had been read here. Empties the
        columns of `other`.

        `share`: the fraction of the text read so far, this included. `base` is added to each `source`.
        """
        tables, of = self.tables, other.tables
        name_map = np.array([tables.names[n] for n in of.names], dtype=np.int32)
        transfer_map = np.array([TRANSFERS + tables.transfers[n] for n in of.transfers], dtype=np.int32)
        id_map = np.array([OTHER_IDS + tables.ids[i] for i in of.ids], dtype=np.int64)
        maps = {
            "name": name_map,
            "head": np.array([tables.heads[h] for h in of.heads], dtype=np.int32),
            "series": np.array(
                [self.series.setdefault(s, len(self.series)) for s in other.series], dtype=np.int32
            ),
        }
        self._make_room(len(tables.heads))
        counts = other._counts[: len(of.heads)]
        np.add.at(self._counts, maps["head"][: len(counts)], counts)
        for mine, more in zip(self._columns(), other._columns(), strict=True):
            if not len(more):
                continue
            piece = {name: more.take(name) for name in more.kinds}
            for name, array in piece.items():
                if name == "name" and len(transfer_map):
                    piece[name] = moved = name_map[np.where(array < TRANSFERS, array, 0)]
                    large = array >= TRANSFERS
                    moved[large] = transfer_map[array[large] - TRANSFERS]
                elif name in maps:
                    piece[name] = maps[name][array]
                elif name == "source":
                    piece[name] = array + base
                elif name == "flow" and len(id_map):
                    large = array >= OTHER_IDS
                    piece[name] = moved = array.copy()
                    moved[large] = id_map[array[large] - OTHER_IDS]
            mine.add(share, **piece)
        self.metadata += other.metadata
        self.asyncs += [replace(e, name=int(name_map[e.name]), source=e.source + base) for e in other.asyncs]
        self.diagnostics.absorb(other.diagnostics)

    def _columns(self) -> tuple[Columns, ...]:
        return self.slices, self.points, self.counters
