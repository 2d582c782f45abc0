"""Reads a file of packets: decodes them, and brings what was decoded into the columns of all formats."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tracetui.core.columns import I64, NO_ID, NO_TIME, Array, Columns, blocks
from tracetui.core.errors import Report, TraceError
from tracetui.core.threads import memory_for_events
from tracetui.formats.diagnostics import Diagnostics
from tracetui.formats.parsed_file import ParsedFile, SoFar
from tracetui.formats.pftrace import schema as s
from tracetui.formats.pftrace.clocks import Clocks, clocks_of, convert
from tracetui.formats.pftrace.decoder import decoder, pair
from tracetui.formats.pftrace.event_reader import ELSEWHERE, FARTHEST, SHORT_BITS, About, FileReader, More
from tracetui.formats.pftrace.resolve import Described, Place, Resolver, describe, devices, distributed
from tracetui.formats.pftrace.schema import Key, Numbers
from tracetui.formats.pftrace.sniff import packets_at
from tracetui.formats.source import Source
from tracetui.formats.store import OTHER_IDS, Store
from tracetui.formats.window import Window

CHUNK = 1 << 22
"""Bytes of text that are decoded at a time."""
_HEADER = 11
"""Bytes before a packet at most."""
_SEARCHED = 1 << 26
"""Bytes in which the next packet is looked for, all in all, where the file is damaged."""
_FIELD, _EACH = 16, 1 << 12
"""How many of them each field counts for that is looked at, and each search."""
_LOOK = 1 << 16
_KINDS = {"broken_event", "no_time", "wrong_type", "dropped"}
_MOST_NAMED = 4


def read(
    source: Source,
    report: Report,
    workers: int | None = None,
    so_far: SoFar | None = None,
    size: int = CHUNK,
) -> ParsedFile:
    """All events of a source: see `registry.Format`."""
    damage = Diagnostics()
    stream = source.stream(damage)
    builder = EventBuilder(source)
    room = memory_for_events()

    def advance(offset: int) -> None:
        if builder.memory > room:
            raise TraceError(f"has more events than fit in memory: one trace may use {room / 1e9:.3g} GB")
        done = min(source.size, stream.progress(offset))
        if not source.encoding.IN_PLACE:
            builder.extent = offset * source.size // max(1, done)
        report(done, source.size)

    try:
        builder.read(Window(stream.readinto, 0), advance, size)
    finally:
        stream.close()
    builder.store.diagnostics.absorb(damage)
    report(source.size, source.size)
    return builder.contents(source, stream.size())


def read_beginning(source: Source, report: Report, length: int) -> ParsedFile:
    """The events of the packets within the first `length` bytes of a text: see `registry.Format`."""
    stream = source.stream(Diagnostics())
    left = length

    def readinto(view: memoryview) -> int:
        nonlocal left
        count = stream.readinto(view[:left]) if left else 0
        left -= count
        return count

    builder = EventBuilder(source)
    try:
        builder.read(Window(readinto, 0), lambda _: report(0, source.size), min(CHUNK, max(length, 1)))
    finally:
        stream.close()
    return builder.contents(source, length, part=True)


class EventBuilder:
    """What has been read of a file."""

    def __init__(self, source: Source) -> None:
        self.store = Store()
        self.known = Numbers()
        self.described = Described()
        self._columns = s.tables() | {"slices": self.store.slices, "points": self.store.points}
        self.decoder = decoder(self._columns)
        self._snapshots: list[tuple[int, int, int]] = []
        self._searched = self._lost = 0
        self.extent = source.size if source.encoding.IN_PLACE else 0
        """About how long the text is, 0 if that is not known."""

    @property
    def memory(self) -> int:
        """About how many bytes the trace of what was read will take at most while it is built."""
        rows, numbers = sum(map(len, self._columns.values())), self.decoder.numbered() + len(self._snapshots)
        return 112 * rows + 256 * numbers + self.described.held

    # -- decoding

    def read(self, window: Window, advance: Callable[[int], object], size: int) -> None:
        """Decode all that a window gives, `size` bytes at a time."""
        wanted, found = size, self.store.diagnostics
        while True:
            window.fill(wanted)
            with memoryview(window.buffer) as view:
                done, state = self._decode(view[1 : window.size + 1], window.offset)
            window.skip(done)
            advance(window.offset)
            wanted = size
            if state in ("lost", "long"):
                self._lose(window.offset, window.size)
                window.skip(window.size)
            elif window.ended:
                # The last packet is not whole, or its length is wrong, and others lie within.
                with memoryview(window.buffer) as view:
                    at = self._search(view[1 : window.size + 1], 1) if window.size else -1
                if at < 0:
                    if window.size:
                        found.note("truncated", window.offset)
                    return
                self._lose(window.offset, at)
                window.skip(at)
            elif not done:
                wanted = min(max(2 * window.size, size), s.LONGEST + _HEADER)
            if window.offset > FARTHEST:
                raise TraceError(f"is longer than {FARTHEST >> 30} GB")

    def _decode(self, text: memoryview, offset: int) -> tuple[int, str]:
        """(bytes that were decoded, why no more were)."""
        at = 0
        while True:
            # How many rows there will be: a guess from little text could be far too large.
            share = (offset + at) / self.extent if self.extent and offset + at > _LOOK else 0.0
            decoded = self.decoder.decode(text[at:], offset + at, share)
            for special in decoded.specials:
                data = bytes(text[special.begin - offset : special.end - offset])
                moved = s.Special(special.number, special.epoch, special.sequence, 0, len(data))
                describe(self.described, data, moved)
            self._snapshots += decoded.snapshots
            at += decoded.consumed
            lost = decoded.state in ("lost", "long")
            if decoded.state == "long":
                self.store.diagnostics.note("too_long", offset + at)
            if lost and (found := self._search(text, at + 1)) >= 0:
                self._lose(offset + at, found - at)
                at = found
            elif decoded.state != "room":
                return at, decoded.state

    def _search(self, text: memoryview, begin: int) -> int:
        """Where packets begin again from `begin` on, -1 if that is nowhere in the text."""
        self._searched += _EACH
        for first in range(begin, len(text), _LOOK):
            part = bytes(text[first : first + 2 * _LOOK])  # a packet may begin at the end of the first half
            at = part.find(b"\n", 0, _LOOK)
            while at >= 0:
                if self._searched > _SEARCHED:
                    return -1
                found, looked = packets_at(part, at)
                self._searched += _FIELD * (looked + 1)
                if found:
                    return first + at
                at = part.find(b"\n", at + 1, _LOOK)
        return -1

    def _lose(self, offset: int, size: int) -> None:
        """Count a stretch of the text that is no packet."""
        self._lost += size
        detail = f"{self._lost:,} bytes are no packets"
        self.store.diagnostics.note("broken_event", offset)
        self.store.diagnostics.details["broken_event"] = detail

    # -- what it becomes

    def contents(self, source: Source, size: int, part: bool = False) -> ParsedFile:
        """The columns of all formats."""
        known = self.known = self.decoder.known()
        del self.decoder  # frees its memory
        store, resolver = self.store, Resolver(self.described)
        self._diagnose()
        texts = resolver.texts(known)
        tracks, keys = list(known.tracks), list(known.heads)
        clocks = clocks_of(list(known.clocks), self._snapshots)
        main, base, real = self._to_one_clock(keys, clocks)
        more = self._pair(keys, clocks, part)
        self._wait(keys)
        names = [*texts, ""]  # the last one for those without
        name_of = np.array([store.tables.names[name] for name in names], dtype=np.int32)
        places = [resolver.place(track) for track in tracks]
        refs = list(known.refs)
        heads = [resolver.head(one, refs, texts, places) for one in known.heads]
        head_of = np.array([store.tables.heads[head] for head in heads], dtype=np.int32)
        for columns in (store.slices, store.points):
            for a, b in blocks(0, len(columns)):
                for name, table in (("name", name_of), ("head", head_of)):
                    part_of = columns.arrays[name][a:b]
                    part_of[:] = table[part_of]
                store.count(columns.arrays["head"][a:b])
        self._number_flows()
        self._add_counters(resolver, tracks, places)
        store.metadata += resolver.metadata(list(store.tables.heads), tracks)
        store.diagnostics.note("undescribed", count=resolver.unresolved)
        if store.is_empty and not len(store.counters):
            raise TraceError("is a Perfetto trace without events that can be shown" + self._unread())
        about = About(self.described, list(known.epochs), clocks, main, base, [])
        reader = FileReader(source, about, more)
        return ParsedFile(store, reader, size, real, devices(self.described), distributed(self.described), {})

    def _rows(self, name: str) -> dict[str, Array]:
        """The columns of one kind of rows; what is written to them is kept."""
        columns = self._columns[name]
        return {column: array[: len(columns)] for column, array in columns.arrays.items()}

    def _diagnose(self) -> None:
        diagnostics, known = self.store.diagnostics, self.known
        for kind, (count, offset) in known.found.items():
            diagnostics.note(kind, offset, count)
        diagnostics.note("broken_event", count=self.described.broken)
        diagnostics.note("defined_twice", count=self.described.twice)
        bad = sum(not _is_text(one) for one in known.strings)
        diagnostics.note("bad_utf8", count=self.described.bad_texts + bad)
        if known.skipped:
            count = sum(count for count, _ in known.skipped.values())
            first = min(offset for _, offset in known.skipped.values())
            diagnostics.note("not_read", first, count, detail=self._skipped())

    def _skipped(self) -> str:
        """What was not read, the most frequent first."""
        skipped = sorted(self.known.skipped.items(), key=lambda one: -one[1][0])
        names = {
            **s.PACKETS,
            s.OTHER_FIELD: "unknown fields",
            s.OTHER_EVENT: "track events of other types",
            s.OTHER_NUMBERS: f"events with more than {s.MOST_NUMBERS} flows or the like",
        }
        said = [f"{count:,} {names.get(n, f'field {n}')}" for n, (count, _) in skipped[:_MOST_NAMED]]
        return ", ".join(said) + (", ..." if len(skipped) > _MOST_NAMED else "")

    def _unread(self) -> str:
        return f" (not read: {self._skipped()})" if self.known.skipped else ""

    def _to_one_clock(self, keys: list[Key], clocks: Clocks) -> tuple[int, int, int | None]:
        """Bring all times to one clock: (which one, what was subtracted, what to add for clock time)."""
        of_head = np.array([one[3] for one in keys], dtype=np.int32)
        series = self.known.series
        of_series = np.array([one[5] if one[0] == s.OF_GPU else one[2] for one in series], dtype=np.int32)
        used = sorted({*of_head.tolist(), *of_series.tolist()})
        main = clocks.main(used)
        tables = [(self._rows(name), of_head, "head") for name in ("slices", "ends", "points")]
        tables.append((self._rows("counters"), of_series, "series"))
        lost = 0
        for clock in used:
            way = clocks.path(clock, main)
            if clock == main or way == [clock]:
                continue
            for rows, of, by in tables:
                at = np.flatnonzero(of[rows[by]] == clock) if len(of) else np.zeros(0, np.int64)
                if way is None:
                    lost += len(at)
                elif len(at):
                    rows["start"][at] = convert(rows["start"][at], clocks.steps(way))
        self.store.diagnostics.note("other_clock", count=lost)
        first = next((int(rows["start"][0]) for rows, *_ in tables if len(rows["start"])), 0)
        real = clocks.real(main, first) if self._snapshots else None
        if real is None:
            return main, 0, None
        base = first - first % 1_000_000_000
        for rows, *_ in tables:
            rows["start"] -= base
        return main, base, real + base

    def _pair(self, keys: list[Key], clocks: Clocks, part: bool) -> More:
        """Give the begins their durations, and all slices and points their `source`."""
        slices, ends, points = (self._rows(name) for name in ("slices", "ends", "points"))
        diagnostics, filled = self.store.diagnostics, self._rows("filled")
        track_of = np.array([one[2] for one in keys], dtype=np.int32)
        unopened = pair(slices, ends, track_of, len(self.known.tracks))
        of_end = ends["row"][filled["end"]]
        paired = of_end >= 0
        of_end, place_of_end = of_end[paired], filled["place"][paired]
        for name in ("ends", "filled"):
            self._columns[name] = Columns(s.COLUMNS[name])
        relative = np.array([clocks.ids[one[3]] in s.OF_A_SEQUENCE for one in keys], dtype=np.bool_)
        more: list[tuple[I64, I64, I64, I64]] = []
        unclosed = 0
        ended = np.zeros(len(slices["head"]) if len(of_end) else 0, dtype=np.bool_)
        ended[of_end] = True
        for a, b in blocks(0, len(slices["head"])):
            place, start, duration = (slices[name][a:b] for name in ("source", "start", "duration"))
            long = (duration < 0) | (duration >= ELSEWHERE) | relative[slices["head"][a:b]]
            unclosed += int(np.count_nonzero(duration == NO_TIME))
            if len(of_end):
                long |= ended[a:b]
            at = np.flatnonzero(long)
            more.append((place[at], start[at], duration[at], np.full(len(at), -1)))
            place[:] = place << SHORT_BITS | np.where(long, ELSEWHERE, duration)
        if part:
            self._drop_open(slices)
        else:
            diagnostics.note("unclosed", count=unclosed)
            diagnostics.note("unopened", count=unopened)
        at = np.flatnonzero(relative[points["head"]]) if len(points["head"]) else np.zeros(0, np.int64)
        none = np.full(len(at), NO_TIME)
        more.append((points["source"][at], points["start"][at], none, np.full(len(at), -1)))
        points["source"] <<= SHORT_BITS
        columns = [np.concatenate(column) for column in zip(*more, strict=True)]
        order = np.argsort(columns[0], kind="stable")
        found = More(*(column[order] for column in columns))
        if len(of_end) and not part:
            found.end[np.searchsorted(found.place, slices["source"][of_end] >> SHORT_BITS)] = place_of_end
        return found

    def _drop_open(self, slices: dict[str, Array]) -> None:
        """Leave out the slices whose ends are further on."""
        keep = np.flatnonzero(slices["duration"] != NO_TIME)
        self.store.slices.count = 0
        self.store.slices.add(1.0, **{name: column[keep] for name, column in slices.items()})
        self._columns["waits"] = Columns(s.COLUMNS["waits"])  # their rows have moved

    def _wait(self, keys: list[Key]) -> None:
        """Add a flow for each wait of GPU work for other GPU work."""
        waits, stages, slices = (self._rows(name) for name in ("waits", "stages", "slices"))
        if not len(waits["row"]) or not len(stages["row"]):
            return
        events, first = np.unique(stages["event"], return_index=True)
        at = np.minimum(np.searchsorted(events, waits["event"]), len(events) - 1)
        there = np.flatnonzero(events[at] == waits["event"])
        rows = {"s": stages["row"][first[at[there]]], "f": waits["row"][there]}
        heads = self.known.heads
        for phase, row in rows.items():
            head = np.zeros(len(row), dtype=np.int32)
            which, mine = np.unique(slices["head"][row], return_inverse=True)
            for number, one in enumerate(which.tolist()):
                _, _, track, clock, *_ = keys[one]
                head[mine == number] = heads[s.key(ord(phase), s.DEPENDENCY, track, clock)]
            nothing = np.full(len(row), NO_ID)
            self.store.points.add(
                0.0, head=head, name=nothing, start=slices["start"][row], duration=np.full(len(row), NO_TIME),
                correlation=nothing, external=nothing, source=slices["source"][row], flow=np.arange(len(row)),
                encloses=np.ones(len(row), dtype=np.bool_),
            )  # fmt: skip

    def _number_flows(self) -> None:
        """Ids that are larger than those of other formats get numbers."""
        flow = self._rows("points")["flow"]
        large = np.flatnonzero((flow != NO_TIME) & ((flow <= -OTHER_IDS) | (flow >= OTHER_IDS)))
        if len(large):
            values, which = np.unique(flow[large], return_inverse=True)
            ids = self.store.tables.ids
            flow[large] = np.array([OTHER_IDS + ids[value] for value in values.tolist()])[which]

    def _add_counters(self, resolver: Resolver, tracks: list[Key], places: list[Place]) -> None:
        store, rows = self.store, self._rows("counters")
        if not len(rows["series"]):
            return
        series, value = rows["series"], rows["value"]
        number = np.zeros(len(self.known.series), dtype=np.int32)
        for which, key in enumerate(self.known.series):
            name, multiplier, incremental = resolver.counter(key, tracks, places)
            number[which] = store.series.setdefault(name, len(store.series))
            if multiplier != 1 or incremental:
                at = np.flatnonzero(series == which)
                value[at] = (np.cumsum(value[at]) if incremental else value[at]) * multiplier
        sound = np.flatnonzero(np.abs(value) < 1e300)
        store.diagnostics.note("wrong_type", count=len(value) - len(sound))
        store.counters.add(1.0, series=number[series[sound]], start=rows["start"][sound], value=value[sound])
        head = store.tables.heads["C", "", "", ""]
        store.count(np.full(len(value), head, dtype=np.int32))


def _is_text(data: bytes) -> bool:
    try:
        return data.isascii() or bool(data.decode())
    except UnicodeDecodeError:
        return False
