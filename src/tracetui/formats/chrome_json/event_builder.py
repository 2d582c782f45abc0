"""Sorts the rows of each chunk into the store: slices, points, or events that must be decoded whole."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from tracetui.core.columns import I32, NO_ID, NO_TIME
from tracetui.formats.chrome_json.recover_text import lenient
from tracetui.formats.chrome_json.rows import Rows
from tracetui.formats.chrome_json.scan import Separator
from tracetui.formats.chrome_json.scanner import LIBRARY, Scanned, Scanner, Whole
from tracetui.formats.chrome_json.times import exact
from tracetui.formats.store import (
    GRAPH_FLOWS,
    LAUNCH_FLOWS,
    OTHER_IDS,
    SLICE_COLUMNS,
    TRANSFERS,
    AsyncEvent,
    Store,
)
from tracetui.formats.transfers import BARE, full_name

SOURCE_BITS = 28
"""`source` = number of the chunk << SOURCE_BITS | number of the event in the chunk."""
_METADATA = ("process_name", "process_labels", "process_sort_index", "thread_name", "thread_sort_index")

OTHERS = "others"

SLICE, POINT, WHOLE, COUNTED, LAUNCH = range(5)
"""What an event becomes: a slice, a point, decoded whole, or only counted; `LAUNCH`: a point between the
nodes of a graph, otherwise only counted."""
_CLASSES = dict.fromkeys("BEiIRstf", POINT) | dict.fromkeys("MCbneSTF", WHOLE) | {"X": SLICE}


def _is_sample(value: Any) -> bool:
    """Whether a counter can have this value."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300


class Chunk(Struct, frozen=True):
    """Location of a chunk of events in the text."""

    offset: int
    length: int
    apart: str = ""
    """"" if the chunk decodes to events, `OTHERS` if not to events alone; otherwise it was recovered, with
    this `end` (see `recover_text`)."""


class EventBuilder(Struct):
    """The store of a text or of a segment of it, and the locations of its chunks."""

    begin: int = 0
    extent: int = 0
    """Offset and length of the text; a length of 0 if unknown."""
    store: Store = field(default_factory=Store)
    chunks: list[Chunk] = field(default_factory=list)
    _scanner: Scanner | None = None
    _classified: int = 0
    _class_table: npt.NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, dtype=np.uint8))

    def add(
        self,
        chunk: Chunk,
        rows: Rows,
        texts: Callable[[], Sequence[bytes | msgspec.Raw]],
        offset_of: Callable[[int], int],
    ) -> None:
        """Add the rows of a chunk. `texts` returns its events' texts, in case some must be decoded whole;
        `offset_of` the place of an event, by its number, in case something is wrong with it."""
        store, share = self.store, self._share(chunk.offset + chunk.length)
        source = len(self.chunks) << SOURCE_BITS
        self.chunks.append(chunk)
        self._classify()
        store.count(rows.head)
        if len(rows.wrong):
            store.diagnostics.note("wrong_type", offset_of(rows.wrong[0]), len(rows.wrong))
        classes = self._class_table[rows.head]
        launches = np.flatnonzero(classes == LAUNCH)
        if len(launches):
            ids, _ = rows.pick_flow(launches)
            between_nodes = [type(i) is int and GRAPH_FLOWS <= i < OTHER_IDS for i in ids]
            classes[launches] = np.where(between_nodes, POINT, COUNTED)
        missing = rows.duration == NO_TIME
        bare = np.isin(rows.name, self._bare()) & (classes == SLICE)
        whole = np.flatnonzero((classes == WHOLE) | (missing & (classes == SLICE)) | bare)
        if len(whole):
            all_texts = texts()
            events = [
                (
                    Whole(source + at, int(rows.head[at]), int(rows.name[at]), int(rows.start[at])),
                    all_texts[at],
                )
                for at in whole.tolist()
            ]
            for at in np.flatnonzero(bare).tolist():
                self._name_transfer(rows.name, at, all_texts[at])
            odd = [one for one in events if not bare[at := one[0].source - source] or missing[at]]
            for event, duration in self._add_whole(odd, lambda event: offset_of(event.source - source)):
                rows.duration[event.source - source] = duration
        timeless = np.flatnonzero((rows.start == NO_TIME) & (classes <= POINT))
        if len(timeless):
            store.diagnostics.note("no_time", offset_of(int(timeless[0])), len(timeless))
            classes[timeless] = COUNTED
        lacking = np.flatnonzero((rows.correlation != NO_ID) & (rows.external == NO_ID))
        if len(lacking):
            rows.external[lacking] = rows.pick_lower(lacking)
        columns = {name: getattr(rows, name) for name in SLICE_COLUMNS if name != "source"}
        columns["source"] = np.arange(source, source + len(classes), dtype=np.int64)
        store.slices.add(share, np.flatnonzero(classes == SLICE), **columns)
        points = np.flatnonzero(classes == POINT)
        if len(points):
            ids, encloses = rows.pick_flow(points)
            columns = {name: column[points] for name, column in columns.items()}
            flow = store.tables.flow_ids(ids)
            store.points.add(share, **columns, flow=flow, encloses=np.array(encloses, dtype=np.bool_))

    def scan(self, chunk: Chunk, text: bytes | memoryview) -> bool:
        """Add the events in `text`, a JSON list in UTF-8; False if that is left to `add`."""
        scanner = self._the_scanner()
        found = scanner.scan(text, len(self.chunks)) if scanner else None
        if found is None:
            return False
        self._add_scanned(found, text, chunk.offset - 1)
        return True

    def scan_ahead(self, text: memoryview, offset: int, length: int, separator: Separator) -> int:
        """Add the events of as many chunks as possible, see `Scanner.scan_ahead`; the bytes that they take.
        `text` begins at `offset`."""
        scanner = self._the_scanner()
        found = scanner.scan_ahead(text, len(self.chunks), length, separator) if scanner else None
        if found is None:
            return 0
        self._add_scanned(found, text, offset)
        return found.end

    def _the_scanner(self) -> Scanner | None:
        if self._scanner is None and LIBRARY is not None:
            self._scanner = Scanner(self.store.tables)
        return self._scanner

    def _add_scanned(self, found: Scanned, text: bytes | memoryview, offset: int) -> None:
        store = self.store
        for begin, length, timeless, first in found.chunks:
            self.chunks.append(Chunk(offset + begin, length))
            store.diagnostics.note("no_time", offset + first, timeless)
        share = self._share(self.chunks[-1].offset + self.chunks[-1].length)
        store.count(found.heads)
        if found.whole:
            odd, name, duration_of = [], found.slices["name"], found.slices["duration"]
            bare = self._bare()
            for whole in found.whole:
                is_bare = whole.slice >= 0 and int(name[whole.slice]) in bare
                if is_bare:
                    self._name_transfer(name, whole.slice, text[whole.begin : whole.end])
                if not is_bare or duration_of[whole.slice] == NO_TIME:
                    odd.append(whole)
            events = ((whole, text[whole.begin : whole.end]) for whole in odd)
            for event, duration in self._add_whole(events, lambda event: offset + event.begin):
                if event.slice >= 0:
                    duration_of[event.slice] = duration
        store.slices.add(share, **found.slices)
        if found.points:
            store.points.add(share, **found.points)

    def _classify(self) -> None:
        """Extend the class table to new heads."""
        heads = self.store.tables.heads
        known, total = self._classified, len(heads)
        if known == total:
            return
        if total > len(self._class_table):
            self._class_table = np.append(self._class_table, np.zeros(total + 64, dtype=np.uint8))
        # The new heads are the last ones of the dict.
        fresh = list(itertools.islice(reversed(heads), total - known))
        for number, (phase, category, _, _) in zip(range(total - 1, known - 1, -1), fresh, strict=True):
            kind = _CLASSES.get(phase, COUNTED)
            if phase in ("s", "t", "f") and category in LAUNCH_FLOWS:
                kind = LAUNCH
            self._class_table[number] = kind
        self._classified = total

    def _bare(self) -> list[int]:
        """The numbers of the names that say of a copy or a memset only that it is one."""
        names = self.store.tables.names
        return [names[name] for name in BARE if name in names]

    def _name_transfer(self, names: I32, at: int, text: bytes | msgspec.Raw | memoryview) -> None:
        """Give the copy or memset in this row its full name, if its text says what it is."""
        tables = self.store.tables
        bare = next(name for name in BARE if tables.names.get(name) == names[at])
        if (full := full_name(bare, lenient(text).get("args"))) != bare:
            names[at] = TRANSFERS + tables.transfers[full]

    def _add_whole(
        self,
        events: Iterable[tuple[Whole, bytes | msgspec.Raw | memoryview]],
        offset_of: Callable[[Whole], int],
    ) -> Iterator[tuple[Whole, int]]:
        """Add events that must be decoded whole, given with their texts; gives the durations of slices."""
        store, heads = self.store, list(self.store.tables.heads)
        odd: dict[str, list[Whole]] = {}
        samples: list[tuple[int, int, float]] = []
        for whole, text in events:
            event = lenient(text)
            phase, category, pid, tid = heads[whole.head]
            start = whole.start
            args = event.get("args")
            if phase == "X":
                # Old tools wrote only the duration in thread time.
                other = event.get("tdur")
                if other is None and start != NO_TIME:
                    odd.setdefault("no_duration", []).append(whole)
                yield whole, max(0, exact(str(other))) if other is not None else 0
            elif phase == "M":
                name = event.get("name")
                if name in _METADATA and isinstance(args, dict) and args:
                    store.metadata.append((name, str(pid), str(tid), next(iter(args.values()))))
            elif start == NO_TIME:
                odd.setdefault("no_time", []).append(whole)
            elif phase == "C":
                values = args if isinstance(args, dict) else {}
                sound = {key: float(value) for key, value in values.items() if _is_sample(value)}
                if len(sound) < len(values):
                    odd.setdefault("wrong_type", []).append(whole)
                for key, value in sound.items():
                    name = f"{event.get('name', '')}" + (f" {event['id']}" if "id" in event else "")
                    series = store.series.setdefault((name, str(key), str(pid)), len(store.series))
                    samples.append((series, start, value))
            else:
                key = repr(event.get("id", event.get("id2")))
                key += f" {event['scope']}" if "scope" in event else ""
                store.asyncs.append(
                    AsyncEvent(phase, category, key, whole.name, str(pid), start, whole.source)
                )
        for kind, found in odd.items():
            store.diagnostics.note(kind, offset_of(found[0]), len(found))
        if samples:
            columns = zip(store.counters.kinds.items(), zip(*samples, strict=True), strict=True)
            store.counters.add(
                0.0, **{name: np.array(values, dtype=kind) for (name, kind), values in columns}
            )

    def absorb(self, chunks: list[Chunk], store: Store, end: int) -> None:
        """Append what was read of the next segment of the text, which ends at `end`. Empties its columns."""
        base = len(self.chunks) << SOURCE_BITS
        self.chunks += chunks
        self.store.absorb(store, self._share(end), base)

    def _share(self, end: int) -> float:
        """The fraction of the text that lies before `end`; 0 if unknown."""
        return (end - self.begin) / self.extent if self.extent else 0.0
