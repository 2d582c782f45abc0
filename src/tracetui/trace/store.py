"""Where the rows of all chunks gather: columns for slices, and small tables for everything else.

A `Store` is what a worker process sends back, so it holds only arrays and plain data (see `pack` and
`unpack`).
"""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from tracetui.trace.columns import Array, Columns
from tracetui.trace.diagnostics import Diagnostics
from tracetui.trace.model import I64, NO_ID
from tracetui.trace.recover_text import lenient
from tracetui.trace.rows import ODD_IDS, Rows, Tables
from tracetui.trace.times import NO_TIME, exact

SOURCE_BITS = 28
"""`source` = number of the chunk << SOURCE_BITS | number of the event in the chunk."""
LAUNCH_FLOWS = frozenset({"ac2g", "async_cpu_to_gpu", "async_gpu", "async"})
"""Flows from a launch to its device event: `correlation` says the same."""
_METADATA = frozenset(
    {"process_name", "process_labels", "process_sort_index", "thread_name", "thread_sort_index"}
)

SLICE, POINT, WHOLE, COUNTED = range(4)
"""What becomes of an event: a row of the slices, a row of the points, read as a whole, counted and passed
over."""
_CLASSES = dict.fromkeys("BEiIRstf", POINT) | dict.fromkeys("MCbneSTF", WHOLE) | {"X": SLICE}

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


@dataclass(frozen=True, slots=True)
class Chunk:
    """Where a chunk of events lies in the text."""

    offset: int
    length: int
    apart: str = ""
    """"" for one that decodes; else it was taken apart, and this is how it ends (see `repair.take_apart`)."""


@dataclass(frozen=True, slots=True)
class AsyncEvent:
    """`b`, `n`, `e` and their old kin `S`, `T`, `F`."""

    phase: str
    category: str
    key: str
    name: int
    pid: str
    start: int
    source: int


@dataclass(slots=True)
class Store:
    tables: Tables = field(default_factory=Tables.empty)
    slices: Columns = field(default_factory=lambda: Columns(SLICE_COLUMNS))
    points: Columns = field(default_factory=lambda: Columns(POINT_COLUMNS))
    counters: Columns = field(default_factory=lambda: Columns(COUNTER_COLUMNS))
    series: dict[tuple[str, str, str], int] = field(default_factory=dict)
    """(name, key, pid) of a counter to its number."""
    metadata: list[tuple[str, str, str, Any]] = field(default_factory=list)
    """(name, pid, tid, first value of args) in the order of the file."""
    asyncs: list[AsyncEvent] = field(default_factory=list)
    chunks: list[Chunk] = field(default_factory=list)
    diagnostics: Diagnostics = field(default_factory=Diagnostics)
    begin: int = 0
    extent: int = 0
    """Where the text that this store is for begins, and how long it is; 0 where that is not known."""
    _classified: int = 0
    _class_table: npt.NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, dtype=np.uint8))
    _counts: I64 = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def phases(self) -> dict[str, int]:
        """Events by phase."""
        found: dict[str, int] = {}
        for (phase, _, _, _), count in zip(self.tables.heads, self._counts.tolist(), strict=False):
            if count:
                found[phase] = found.get(phase, 0) + count
        return found

    def chunks_hold(self) -> bool:
        """Whether anything stood in the array."""
        return bool(self._counts.any()) or bool(self.diagnostics.found)

    def add(self, chunk: Chunk, rows: Rows, texts: Callable[[], Sequence[bytes | msgspec.Raw]]) -> None:
        """Take in the rows of one chunk; `texts` gives its events' texts, should any be needed whole."""
        share = (chunk.offset + chunk.length - self.begin) / self.extent if self.extent else 0.0
        source = len(self.chunks) << SOURCE_BITS
        self.chunks.append(chunk)
        self._classify()
        if len(rows.head):
            lowest = int(rows.head.min())
            counts = np.bincount(rows.head - lowest)
            self._counts[lowest : lowest + len(counts)] += counts
        if rows.wrong:
            self.diagnostics.note("wrong_type", chunk.offset, rows.wrong)
        classes = self._class_table[rows.head]
        missing = rows.duration == NO_TIME
        whole = np.flatnonzero((classes == WHOLE) | (missing & (classes == SLICE)))
        if len(whole):
            self._add_whole(whole, rows, texts(), source)
        timeless = (rows.start == NO_TIME) & (classes <= POINT)
        if timeless.any():
            self.diagnostics.note("no_time", chunk.offset, int(timeless.sum()))
            classes[timeless] = COUNTED
        lacking = np.flatnonzero((rows.correlation != NO_ID) & (rows.external == NO_ID))
        if len(lacking):
            rows.external[lacking] = rows.pick_lower(lacking)
        slices = np.flatnonzero(classes == SLICE)
        self.slices.add(share, **self._columns(rows, slices, source))
        points = np.flatnonzero(classes == POINT)
        if len(points):
            ids, encloses = rows.pick_flow(points)
            self.points.add(
                share,
                **self._columns(rows, points, source),
                flow=ids,
                encloses=np.array(encloses, dtype=np.bool_),
            )

    @staticmethod
    def _columns(rows: Rows, which: I64, source: int) -> dict[str, Array]:
        return {
            "head": rows.head[which],
            "name": rows.name[which],
            "start": rows.start[which],
            "duration": rows.duration[which],
            "correlation": rows.correlation[which],
            "external": rows.external[which],
            "source": which + source,
        }

    def _classify(self) -> None:
        """Know the class of every head, and have a place to count it in."""
        known, total = self._classified, len(self.tables.heads)
        if known == total:
            return
        if total > len(self._class_table):
            for name in ("_class_table", "_counts"):
                old = getattr(self, name)
                grown = np.zeros(max(2 * total, 64), dtype=old.dtype)
                grown[:known] = old[:known]
                setattr(self, name, grown)
        # Dicts keep their order, but cannot be entered in the middle from the front.
        fresh = list(itertools.islice(reversed(self.tables.heads), total - known))
        for number, (phase, category, _, _) in zip(range(total - 1, known - 1, -1), fresh, strict=True):
            kind = _CLASSES.get(phase, COUNTED)
            if phase in ("s", "t", "f") and category in LAUNCH_FLOWS:
                kind = COUNTED
            self._class_table[number] = kind
        self._classified = total

    def _add_whole(self, which: I64, rows: Rows, texts: Sequence[bytes | msgspec.Raw], source: int) -> None:
        heads = list(self.tables.heads)
        series: list[int] = []
        starts: list[int] = []
        values: list[float] = []
        for at in which.tolist():
            event = lenient(texts[at])
            phase, category, pid, tid = heads[rows.head[at]]
            start = int(rows.start[at])
            args = event.get("args")
            if phase == "X":
                # Old tools wrote the duration in thread time only.
                other = event.get("tdur")
                rows.duration[at] = max(0, exact(str(other))) if other is not None else 0
            elif phase == "M":
                name = event.get("name")
                if name in _METADATA and isinstance(args, dict) and args:
                    self.metadata.append((name, str(pid), str(tid), next(iter(args.values()))))
            elif start == NO_TIME:
                self.diagnostics.note("no_time", self.chunks[-1].offset)
            elif phase == "C":
                for key, value in args.items() if isinstance(args, dict) else ():
                    if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e300:
                        name = f"{event.get('name', '')}" + (f" {event['id']}" if "id" in event else "")
                        series.append(self.series.setdefault((name, str(key), str(pid)), len(self.series)))
                        starts.append(start)
                        values.append(float(value))
            else:
                key = repr(event.get("id", event.get("id2"))) + (
                    f" {event['scope']}" if "scope" in event else ""
                )
                self.asyncs.append(
                    AsyncEvent(phase, category, key, int(rows.name[at]), str(pid), start, source + at)
                )
        if series:
            self.counters.add(
                series=np.array(series, dtype=np.int32),
                start=np.array(starts, dtype=np.int64),
                value=np.array(values, dtype=np.float64),
            )

    def pack(self) -> tuple[bytes, list[Array]]:
        """A small header and the arrays behind it, for a pipe. Empties the columns."""
        arrays: list[Array] = [self._counts[: len(self.tables.heads)]]
        for columns in (self.slices, self.points, self.counters):
            arrays += [columns.take(name) for name in columns.kinds]
        small = (
            list(self.tables.heads),
            list(self.tables.names),
            list(self.tables.ids),
            self.series,
            self.metadata,
            self.asyncs,
            self.chunks,
            self.diagnostics,
        )
        return pickle.dumps(small, protocol=pickle.HIGHEST_PROTOCOL), arrays

    @staticmethod
    def unpack(shapes: Sequence[tuple[str, int]], body: bytes | bytearray) -> list[Array]:
        """The arrays that lie in `body` one after the other, each of a dtype and a length."""
        arrays: list[Array] = []
        at = 0
        for kind, count in shapes:
            array: Array = np.frombuffer(body, dtype=np.dtype(kind), count=count, offset=at)
            at += array.nbytes
            arrays.append(array)
        return arrays

    def absorb(self, header: bytes, arrays: list[Array], share: float) -> None:
        """Take in what `pack` gave of the next stretch of the text, as if it had been read here.

        `share`: how much of the whole text has been read with it.
        """
        heads, names, ids, series, metadata, asyncs, chunks, diagnostics = pickle.loads(header)
        counts, *arrays = arrays
        head_map = np.array([self.tables.heads[h] for h in heads], dtype=np.int32)
        name_map = np.array([self.tables.names[n] for n in names], dtype=np.int32)
        id_map = np.array([ODD_IDS + self.tables.ids[i] for i in ids], dtype=np.int64)
        series_map = np.array([self.series.setdefault(s, len(self.series)) for s in series], dtype=np.int32)
        self._classify()
        np.add.at(self._counts, head_map, counts)
        base = len(self.chunks) << SOURCE_BITS
        self.chunks += chunks
        maps = {"head": head_map, "name": name_map, "series": series_map}
        for columns in (self.slices, self.points, self.counters):
            piece = dict(zip(columns.kinds, arrays, strict=False))
            arrays = arrays[len(piece) :]
            if not len(next(iter(piece.values()))):
                continue
            for name, array in piece.items():
                if name in maps:
                    piece[name] = maps[name][array]
                elif name == "source":
                    piece[name] = array + base
                elif name == "flow" and len(id_map):
                    odd = array >= ODD_IDS
                    piece[name] = moved = array.copy()
                    moved[odd] = id_map[array[odd] - ODD_IDS]
            columns.add(share, **piece)
        self.metadata += metadata
        for e in asyncs:
            moved_event = AsyncEvent(
                e.phase, e.category, e.key, int(name_map[e.name]), e.pid, e.start, e.source + base
            )
            self.asyncs.append(moved_event)
        self.diagnostics.absorb(diagnostics)
