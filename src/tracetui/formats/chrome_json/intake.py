"""Where the rows of a text's chunks go: each event becomes a row of the store's columns, or is read whole."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np
import numpy.typing as npt

from tracetui.formats.chrome_json.recover_text import lenient
from tracetui.formats.chrome_json.rows import Rows
from tracetui.formats.chrome_json.times import exact
from tracetui.formats.columns import I64, NO_ID, NO_TIME, Array
from tracetui.formats.store import LAUNCH_FLOWS, AsyncEvent, Store

SOURCE_BITS = 28
"""`source` = number of the chunk << SOURCE_BITS | number of the event in the chunk."""
_METADATA = frozenset(
    {"process_name", "process_labels", "process_sort_index", "thread_name", "thread_sort_index"}
)

SLICE, POINT, WHOLE, COUNTED = range(4)
"""What becomes of an event: a row of the slices, a row of the points, read as a whole, counted and passed
over."""
_CLASSES = dict.fromkeys("BEiIRstf", POINT) | dict.fromkeys("MCbneSTF", WHOLE) | {"X": SLICE}


@dataclass(frozen=True, slots=True)
class Chunk:
    """Where a chunk of events lies in the text."""

    offset: int
    length: int
    apart: str = ""
    """"" for one that decodes; else it was taken apart, and this is how it ends (see `recover_text`)."""


@dataclass(slots=True)
class Intake:
    """The store of one text or of a stretch of it, and where its chunks lie."""

    begin: int = 0
    extent: int = 0
    """Where the text begins, and how long it is; 0 where that is not known."""
    store: Store = field(default_factory=Store)
    chunks: list[Chunk] = field(default_factory=list)
    _classified: int = 0
    _class_table: npt.NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, dtype=np.uint8))

    def add(self, chunk: Chunk, rows: Rows, texts: Callable[[], Sequence[bytes | msgspec.Raw]]) -> None:
        """Take in the rows of one chunk; `texts` gives its events' texts, should any be needed whole."""
        store, share = self.store, self._share(chunk.offset + chunk.length)
        source = len(self.chunks) << SOURCE_BITS
        self.chunks.append(chunk)
        self._classify()
        store.count(rows.head)
        if rows.wrong:
            store.diagnostics.note("wrong_type", chunk.offset, rows.wrong)
        classes = self._class_table[rows.head]
        missing = rows.duration == NO_TIME
        whole = np.flatnonzero((classes == WHOLE) | (missing & (classes == SLICE)))
        if len(whole):
            self._add_whole(whole, rows, texts(), source)
        timeless = (rows.start == NO_TIME) & (classes <= POINT)
        if timeless.any():
            store.diagnostics.note("no_time", chunk.offset, int(timeless.sum()))
            classes[timeless] = COUNTED
        lacking = np.flatnonzero((rows.correlation != NO_ID) & (rows.external == NO_ID))
        if len(lacking):
            rows.external[lacking] = rows.pick_lower(lacking)
        slices = np.flatnonzero(classes == SLICE)
        store.slices.add(share, **self._columns(rows, slices, source))
        points = np.flatnonzero(classes == POINT)
        if len(points):
            ids, encloses = rows.pick_flow(points)
            store.points.add(
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
        """Know the class of every head."""
        heads = self.store.tables.heads
        known, total = self._classified, len(heads)
        if known == total:
            return
        if total > len(self._class_table):
            self._class_table = np.append(self._class_table, np.zeros(total + 64, dtype=np.uint8))
        # Dicts keep their order, but cannot be entered in the middle from the front.
        fresh = list(itertools.islice(reversed(heads), total - known))
        for number, (phase, category, _, _) in zip(range(total - 1, known - 1, -1), fresh, strict=True):
            kind = _CLASSES.get(phase, COUNTED)
            if phase in ("s", "t", "f") and category in LAUNCH_FLOWS:
                kind = COUNTED
            self._class_table[number] = kind
        self._classified = total

    def _add_whole(self, which: I64, rows: Rows, texts: Sequence[bytes | msgspec.Raw], source: int) -> None:
        store, heads = self.store, list(self.store.tables.heads)
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
                    store.metadata.append((name, str(pid), str(tid), next(iter(args.values()))))
            elif start == NO_TIME:
                store.diagnostics.note("no_time", self.chunks[-1].offset)
            elif phase == "C":
                for key, value in args.items() if isinstance(args, dict) else ():
                    if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e300:
                        name = f"{event.get('name', '')}" + (f" {event['id']}" if "id" in event else "")
                        series.append(store.series.setdefault((name, str(key), str(pid)), len(store.series)))
                        starts.append(start)
                        values.append(float(value))
            else:
                key = repr(event.get("id", event.get("id2"))) + (
                    f" {event['scope']}" if "scope" in event else ""
                )
                store.asyncs.append(
                    AsyncEvent(phase, category, key, int(rows.name[at]), str(pid), start, source + at)
                )
        if series:
            store.counters.add(
                series=np.array(series, dtype=np.int32),
                start=np.array(starts, dtype=np.int64),
                value=np.array(values, dtype=np.float64),
            )

    def pack(self) -> tuple[bytes, list[Array]]:
        """A small header and the arrays behind it, for a pipe. Empties the store's columns."""
        plain, arrays = self.store.pack()
        return pickle.dumps((self.chunks, plain), protocol=pickle.HIGHEST_PROTOCOL), arrays

    def absorb(self, header: bytes, arrays: list[Array], end: int) -> None:
        """Take in what `pack` gave of the next stretch of the text, which ends at `end`."""
        chunks, plain = pickle.loads(header)
        base = len(self.chunks) << SOURCE_BITS
        self.chunks += chunks
        self.store.absorb(plain, arrays, self._share(end), base)

    def _share(self, end: int) -> float:
        """How much of the whole text has been read when it was read up to `end`; 0 where not known."""
        return (end - self.begin) / self.extent if self.extent else 0.0
