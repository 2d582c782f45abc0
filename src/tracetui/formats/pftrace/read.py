"""Reads a file of packets: decodes them, and brings what was decoded into the columns of all formats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracetui.core.columns import I64, NO_ID, NO_TIME, Array, Columns
from tracetui.core.errors import Report, TraceError
from tracetui.core.threads import memory_for_events
from tracetui.formats.contents import Contents, SoFar
from tracetui.formats.diagnostics import Diagnostics
from tracetui.formats.pftrace import schema as s
from tracetui.formats.pftrace.clocks import Clocks, clocks_of
from tracetui.formats.pftrace.decoder import decoder
from tracetui.formats.pftrace.event_reader import ELSEWHERE, FARTHEST, SHORT_BITS, About, FileReader, More
from tracetui.formats.pftrace.pairing import pair
from tracetui.formats.pftrace.resolve import Described, Resolver, describe
from tracetui.formats.pftrace.schema import Key, Numbers
from tracetui.formats.pftrace.sniff import packets_at
from tracetui.formats.pftrace.wire import varint
from tracetui.formats.source import Source
from tracetui.formats.store import OTHER_IDS, SLICE_COLUMNS, Store
from tracetui.formats.window import Window

CHUNK = 1 << 22
"""Bytes of text that are decoded at a time."""
_HEADER = 11
"""Bytes before a packet at most."""
_SEARCHED = 1 << 26
"""Bytes in which the next packet is looked for, all in all, where the file is damaged."""
_LOOK = 1 << 16
_KINDS = {"broken_event", "no_time", "wrong_type", "dropped"}
_MOST_NAMED = 4


def read(
    source: Source,
    report: Report,
    workers: int | None = None,
    so_far: SoFar | None = None,
    size: int = CHUNK,
) -> Contents:
    """All events of a source: see `registry.Format`."""
    damage = Diagnostics()
    stream = source.stream(damage)
    intake = Intake(source)
    room = memory_for_events()

    def advance(offset: int) -> None:
        if intake.memory > room:
            raise TraceError(f"has more events than fit in memory: one trace may use {room / 1e9:.3g} GB")
        report(min(source.size, stream.progress(offset)), source.size)

    try:
        intake.read(Window(stream.readinto, 0), advance, size)
    finally:
        stream.close()
    intake.store.diagnostics.absorb(damage)
    report(source.size, source.size)
    return intake.contents(source, stream.size())


def read_beginning(source: Source, report: Report, length: int) -> Contents:
    """The events of the packets within the first `length` bytes of a text: see `registry.Format`."""
    stream = source.stream(Diagnostics())
    left = length

    def readinto(view: memoryview) -> int:
        nonlocal left
        count = stream.readinto(view[:left]) if left else 0
        left -= count
        return count

    intake = Intake(source)
    try:
        intake.read(Window(readinto, 0), lambda _: report(0, source.size), min(CHUNK, max(length, 1)))
    finally:
        stream.close()
    return intake.contents(source, length, part=True)


class Intake:
    """What has been read of a file."""

    def __init__(self, source: Source) -> None:
        self.store = Store()
        self.decoder = decoder()
        self.known = Numbers()
        self.described = Described()
        self._columns = {name: Columns(kinds) for name, kinds in s.COLUMNS.items()}
        self._snapshots: list[tuple[int, int, int]] = []
        self._searched = 0
        self._size = source.size if source.encoding.IN_PLACE else 0

    @property
    def memory(self) -> int:
        """About how many bytes the trace of what was read will take at most while it is built."""
        return 112 * sum(map(len, self._columns.values())) + 256 * self.decoder.numbered()

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
            if state == "lost":
                self._find_packet(window)
            elif state == "long":
                found.note("too_long", window.offset)
                self._pass_over(window)
            elif window.ended:
                if window.size:
                    found.note("truncated", window.offset)
                return
            elif not done:
                wanted = min(max(2 * window.size, size), s.LONGEST + _HEADER)
            if window.offset > FARTHEST:
                raise TraceError(f"is longer than {FARTHEST >> 30} GB")

    def _decode(self, text: memoryview, offset: int) -> tuple[int, str]:
        """(bytes that were decoded, why no more were)."""
        at = 0
        while True:
            decoded = self.decoder.decode(text[at:], offset + at)
            for special in decoded.specials:
                data = bytes(text[special.begin - offset : special.end - offset])
                moved = s.Special(special.number, special.epoch, special.sequence, 0, len(data))
                describe(self.described, data, moved)
            self._snapshots += decoded.snapshots
            at += decoded.consumed
            # How many rows there will be: a guess from little text could be far too large.
            share = (offset + at) / self._size if self._size and offset + at > _LOOK else 0.0
            for name, columns in decoded.columns.items():
                if len(next(iter(columns.values()))):
                    self._columns[name].add(share, **columns)
            if decoded.state != "room":
                return at, decoded.state

    def _find_packet(self, window: Window) -> None:
        """Skip to the next place where packets begin, and count what lies before it as lost."""
        first, step = window.offset, 1
        while self._searched < _SEARCHED:
            window.fill(_LOOK)
            text = window.text()
            at = text.find(b"\n", step)
            while at >= 0 and not packets_at(text[at : at + _LOOK], 0):
                self._searched += 64
                at = text.find(b"\n", at + 1)
            self._searched += len(text)
            if at >= 0 or (window.ended and not len(text)):
                window.skip(max(at, 0))
                break
            window.skip(len(text))
            step = 0
        else:
            while window.size or not window.ended:
                window.skip(window.size)
                window.fill(_LOOK)
        count = window.offset - first
        self.store.diagnostics.note("broken_event", first, detail=f"{count:,} bytes are no packets")

    @staticmethod
    def _pass_over(window: Window) -> None:
        """Skip a packet that is too long."""
        window.fill(_HEADER)
        with memoryview(window.buffer) as view:
            length, at = varint(bytes(view[1 : window.size + 1]), 1, window.size)
        left = at + length
        while left > 0:
            window.fill(min(left, CHUNK))
            if not window.size:
                return
            count = min(left, window.size)
            window.skip(count)
            left -= count

    # -- what it becomes

    def contents(self, source: Source, size: int, part: bool = False) -> Contents:
        """The columns of all formats."""
        self.known = self.decoder.known()
        store, known = self.store, self.known
        columns = {name: {c: cols.take(c) for c in cols.kinds} for name, cols in self._columns.items()}
        resolver = Resolver(self.described)
        self._diagnose()
        texts = resolver.texts(known)
        tracks = list(known.tracks)
        keys = list(known.heads)
        clocks = clocks_of(list(known.clocks), self._snapshots)
        main, base, real = self._to_one_clock(columns, keys, clocks)
        slices, points = columns["slices"], columns["points"]
        more = self._pair(columns, keys, clocks, part)
        self._wait(columns, keys, points)
        heads = [resolver.head(one, texts, tracks) for one in known.heads]
        names = [*texts, ""]  # the last one for those without
        name_of = np.array([store.tables.names[name] for name in names], dtype=np.int32)
        head_of = np.array([store.tables.heads[head] for head in heads], dtype=np.int32)
        for some in (slices, points):
            if len(some["head"]):
                some["name"] = name_of[some["name"]]
                some["head"] = head_of[some["head"]]
            store.count(some["head"])
        points["flow"] = self._flow_ids(points["flow"])
        store.slices.add(1.0, **{name: slices[name] for name in SLICE_COLUMNS})
        store.points.add(1.0, **points)
        self._add_counters(columns["counters"], resolver, tracks)
        store.metadata += resolver.metadata(list(store.tables.heads))
        store.diagnostics.note("undescribed", count=resolver.unresolved)
        if store.is_empty and not len(store.counters):
            raise TraceError("is a Perfetto trace without events that can be shown" + self._unread())
        about = About(self.described, list(known.epochs), clocks, main, base, [])
        reader = FileReader(source, about, more)
        devices, distributed = about_devices(self.described), None
        return Contents(store, reader, size, real, devices, distributed, {})

    def _diagnose(self) -> None:
        diagnostics, known = self.store.diagnostics, self.known
        for kind, (count, offset) in known.found.items():
            diagnostics.note(kind, offset, count)
        diagnostics.note("broken_event", count=self.described.broken)
        diagnostics.note("defined_twice", count=self.described.twice)
        if known.skipped:
            count = sum(count for count, _ in known.skipped.values())
            first = min(offset for _, offset in known.skipped.values())
            diagnostics.note("not_read", first, count, detail=self._skipped())

    def _skipped(self) -> str:
        """What was not read, the most frequent first."""
        skipped = sorted(self.known.skipped.items(), key=lambda one: -one[1][0])
        names = {s.OTHER_EVENT: "track events of other types", s.OTHER_FIELD: "unknown fields"} | s.PACKETS
        said = [f"{count:,} {names.get(n, f'field {n}')}" for n, (count, _) in skipped[:_MOST_NAMED]]
        return ", ".join(said) + (", ..." if len(skipped) > _MOST_NAMED else "")

    def _unread(self) -> str:
        return f" (not read: {self._skipped()})" if self.known.skipped else ""

    def _to_one_clock(
        self, columns: dict[str, dict[str, Array]], keys: list[Key], clocks: Clocks
    ) -> tuple[int, int, int | None]:
        """Bring all times to one clock: (which one, what was subtracted, what to add for clock time)."""
        of_head = np.array([one[3] for one in keys], dtype=np.int32)
        of_series = np.array(
            [one[5] if one[0] == s.OF_GPU else one[2] for one in self.known.series], np.int32
        )
        used = sorted({*of_head.tolist(), *of_series.tolist()})
        main = clocks.main(used)
        tables = [(columns[n], of_head, "head") for n in ("slices", "ends", "points")]
        tables.append((columns["counters"], of_series, "series"))
        lost = 0
        for clock in used:
            way = clocks.path(clock, main)
            if clock == main:
                continue
            for some, of, by in tables:
                at = np.flatnonzero(of[some[by]] == clock) if len(some[by]) else np.zeros(0, np.int64)
                if way is None:
                    lost += len(at)
                elif len(at):
                    some["start"][at] = clocks.convert(some["start"][at], way)
        self.store.diagnostics.note("other_clock", count=lost)
        first = next((int(some["start"][0]) for some, *_ in tables if len(some["start"])), 0)
        real = clocks.real(main, first) if self._snapshots else None
        if real is None:
            return main, 0, None
        base = first - first % 1_000_000_000
        for some, *_ in tables:
            some["start"] -= base
        return main, base, real + base

    def _pair(
        self, columns: dict[str, dict[str, Array]], keys: list[Key], clocks: Clocks, part: bool
    ) -> More:
        """Give the begins their durations, and all slices and points their `source`."""
        slices, ends, points = columns["slices"], columns["ends"], columns["points"]
        diagnostics = self.store.diagnostics
        place = slices["source"]
        end_place = np.full(len(place), -1, dtype=np.int64)
        begins = np.flatnonzero(slices["duration"] == NO_TIME)
        track_of = np.array([one[2] for one in keys], dtype=np.int32)
        if len(begins) or len(ends["head"]):
            track = np.concatenate((track_of[slices["head"][begins]], track_of[ends["head"]]))
            start = np.concatenate((slices["start"][begins], ends["start"]))
            where = np.concatenate((place[begins], ends["source"]))
            is_end = np.repeat([False, True], [len(begins), len(ends["head"])])
            partner, unopened = pair(track, start, where, is_end, len(self.known.tracks))
            mine = partner[: len(begins)]
            paired = np.flatnonzero(mine >= 0)
            at = mine[paired]
            slices["duration"][begins[paired]] = start[at] - start[paired]
            filled = np.flatnonzero(ends["filled"][at - len(begins)])
            end_place[begins[paired[filled]]] = where[at[filled]]
            if not part:
                diagnostics.note("unclosed", count=len(begins) - len(paired))
                diagnostics.note("unopened", count=unopened)
        if part:
            keep = np.flatnonzero(slices["duration"] != NO_TIME)
            for name in slices:
                slices[name] = slices[name][keep]
            place, end_place = place[keep], end_place[keep]
        relative = np.array(
            [clocks.ids[one[3]] in s.OF_A_SEQUENCE if one[3] >= 0 else True for one in keys] or [False]
        )
        duration = slices["duration"]
        long = (duration < 0) | (duration >= ELSEWHERE) | (end_place >= 0)
        long |= relative[slices["head"]] if len(keys) else False
        slices["source"] = place << SHORT_BITS | np.where(long, ELSEWHERE, duration)
        more = np.flatnonzero(long)
        also = np.flatnonzero(relative[points["head"]]) if len(points["head"]) else np.zeros(0, np.int64)
        columns_of_more = [
            np.concatenate((place[more], points["source"][also])),
            np.concatenate((slices["start"][more], points["start"][also])),
            np.concatenate((duration[more], np.full(len(also), NO_TIME))),
            np.concatenate((end_place[more], np.full(len(also), -1))),
        ]
        points["source"] = points["source"] << SHORT_BITS
        order = np.argsort(columns_of_more[0], kind="stable")
        return More(*(column[order] for column in columns_of_more))

    def _wait(self, columns: dict[str, dict[str, Array]], keys: list[Key], points: dict[str, Array]) -> None:
        """Add a flow for each wait of GPU work for other GPU work."""
        waits, stages, slices = columns["waits"], columns["stages"], columns["slices"]
        if not len(waits["row"]) or not len(stages["row"]):
            return
        events, first = np.unique(stages["event"], return_index=True)
        at = np.minimum(np.searchsorted(events, waits["event"]), len(events) - 1)
        there = np.flatnonzero(events[at] == waits["event"])
        rows = {"s": stages["row"][first[at[there]]], "f": waits["row"][there]}
        heads = self.known.heads
        for phase, row in rows.items():
            mine = slices["head"][row]
            head = np.zeros(len(row), dtype=np.int32)
            for one in np.unique(mine).tolist():
                _, _, track, clock, *_ = keys[one]
                head[mine == one] = heads[s.key(ord(phase), s.DEPENDENCY, track, clock)]
            added: dict[str, Any] = {
                "head": head, "name": np.full(len(row), s.NO_REF), "start": slices["start"][row],
                "duration": np.full(len(row), NO_TIME), "correlation": np.full(len(row), NO_ID),
                "external": np.full(len(row), NO_ID), "source": slices["source"][row],
                "flow": np.arange(len(row)), "encloses": np.ones(len(row), dtype=np.bool_),
            }  # fmt: skip
            for name, column in added.items():
                points[name] = np.concatenate((points[name], column.astype(points[name].dtype)))

    def _flow_ids(self, flow: I64) -> I64:
        """Ids that are larger than those of other formats get numbers."""
        large = np.flatnonzero((flow != NO_TIME) & ((flow <= -OTHER_IDS) | (flow >= OTHER_IDS)))
        if len(large):
            values, which = np.unique(flow[large], return_inverse=True)
            ids = self.store.tables.ids
            flow[large] = np.array([OTHER_IDS + ids[value] for value in values.tolist()])[which]
        return flow

    def _add_counters(self, rows: dict[str, Array], resolver: Resolver, tracks: list[Key]) -> None:
        store = self.store
        if not len(rows["series"]):
            return
        series, value = rows["series"], rows["value"]
        number = np.zeros(len(self.known.series), dtype=np.int32)
        for which, key in enumerate(self.known.series):
            name, multiplier, incremental = resolver.counter(key, tracks)
            number[which] = store.series.setdefault(name, len(store.series))
            if multiplier != 1 or incremental:
                at = np.flatnonzero(series == which)
                value[at] = (np.cumsum(value[at]) if incremental else value[at]) * multiplier
        sound = np.flatnonzero(np.abs(value) < 1e300)
        store.diagnostics.note("wrong_type", count=len(value) - len(sound))
        store.counters.add(1.0, series=number[series[sound]], start=rows["start"][sound], value=value[sound])
        head = store.tables.heads["C", "", "", ""]
        store.count(np.full(len(value), head, dtype=np.int32))


def about_devices(described: Described) -> tuple[dict[str, Any], ...]:
    return tuple(described.gpus)
