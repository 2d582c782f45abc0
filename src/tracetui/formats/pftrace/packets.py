"""Decodes packets in Python: the reference for `decoder.c`, and what is used where that is missing."""

from __future__ import annotations

import re
import struct
from collections.abc import Sized
from typing import Any

import numpy as np
from msgspec import Struct, field

from tracetui.core.columns import NO_ID, NO_TIME, TIME_LIMIT
from tracetui.formats.pftrace import schema as s
from tracetui.formats.pftrace.schema import Decoded, Key, Numbers, Special, key
from tracetui.formats.pftrace.wire import (
    BYTES,
    FIXED64,
    VARINT,
    Malformed,
    fields,
    numbers,
    signed,
    varint,
)

ROOM = 1 << 16
_INTEGER = re.compile(rb"-?[0-9]{1,18}")
_IDS = {b"correlation": "correlation", b"External id": "external", b"external id": "external"}
_EXTRAS = {**_IDS, b"device id": "device", b"stream id": "stream"}
_SYNC = b"cuda_sync_kind"
_GROUP = b"Process Group Name"
_NOTED = frozenset({*_IDS, _SYNC, _GROUP})
_PARTS = frozenset({s.TRACK_EVENT, s.GPU_STAGE, s.GPU_COUNTERS, s.CLOCKS})
_LEGACY = {ord("B"): s.BEGIN, ord("X"): s.BEGIN, ord("E"): s.END, ord("i"): s.INSTANT, ord("I"): s.INSTANT}
"""The types of events that have only a phase, as Chrome's older ones."""


def _int32(value: int) -> int:
    return ((value & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000


class _Sequence(Struct):
    """What a writer of packets has said that holds for its next ones."""

    epoch: int
    track: int | None = None
    clock: int | None = None


class _Clock(Struct):
    multiplier: int = 1
    last: int | None = None
    """Of an incremental clock."""


class _Event(Struct):
    """The fields of a TrackEvent."""

    type: int = 0
    name: tuple[int, int] | None = None
    name_iid: int | None = None
    categories: list[int] = field(default_factory=list)
    texts: list[tuple[int, int]] = field(default_factory=list)
    track: int | None = None
    correlation: int = NO_ID
    external: int = NO_ID
    sync: bool = False
    group: bool = False
    filled: bool = False
    flows: list[tuple[int, bool]] = field(default_factory=list)
    value: float | None = None
    phase: int = 0
    duration: int | None = None


class _Stage(Struct):
    """The fields of a GpuRenderStageEvent."""

    event: int | None = None
    duration: int = 0
    name: tuple[int, int] | None = None
    name_iid: int | None = None
    kind: int | None = None
    legacy_kind: int | None = None
    queue: int | None = None
    legacy_queue: int | None = None
    gpu: int = 0
    device: int | None = None
    stream: int | None = None
    correlation: int = NO_ID
    external: int = NO_ID
    words: dict[bytes, bytes] = field(default_factory=dict)
    waits: list[int] = field(default_factory=list)
    described: bool = False


class _Counters(Struct):
    """The fields of a GpuCounterEvent."""

    gpu: int = 0
    descriptor: int | None = None
    samples: list[tuple[int, float]] = field(default_factory=list)
    described: bool = False


class Decoder:
    """Decodes packets one after the other."""

    def __init__(self, table: s.Table) -> None:
        self._table = table
        self._known = Numbers()
        self._sequences: dict[int, _Sequence] = {}
        self._clocks: dict[int, _Clock] = {}
        self._annotations: dict[tuple[int, int], bytes] = {}
        """(epoch, iid) of the names of annotations that matter here."""
        self._snapshots = self._slices = self._ends = self._groups = 0
        self._rows: dict[str, list[tuple[Any, ...]]] = {}
        self._specials: list[Special] = []
        self._times: list[tuple[int, int, int]] = []
        self._data = b""
        self._offset = 0
        """Of the text, in the file."""

    def decode(self, data: bytes | memoryview, offset: int, share: float = 0.0) -> Decoded:
        """Decode a text that begins at `offset`, and add its rows. `share`: see `Columns.add`."""
        self._data = data = bytes(data)
        self._offset, at, size, state = offset, 0, len(data), "end"
        self._rows = {name: [] for name in s.COLUMNS}
        self._specials, self._times = [], []
        while at < size:
            if any(len(rows) >= ROOM for rows in self._rows.values()):
                state = "room"
                break
            try:
                number, begin = varint(data, at, size)
                if number != 0x0A:
                    state = "lost"
                    break
                length, begin = varint(data, begin, size)
            except Malformed:
                state = "end" if size - at < 20 else "lost"
                break
            if length > s.LONGEST:
                state = "long"
                break
            if begin + length > size:
                break
            try:
                self._packet(at, begin, begin + length)
            except Malformed:
                self._note("broken_event", at)
            at = begin + length
        for name, rows in self._rows.items():
            if rows:
                kinds = s.COLUMNS[name].items()
                columns = zip(kinds, zip(*rows, strict=True), strict=True)
                self._table[name].add(share, **{n: np.array(c, dtype=kind) for (n, kind), c in columns})
        return Decoded(at, state, self._specials, self._times)

    def numbered(self) -> int:
        """How many things have a number."""
        known = self._known
        tables = (known.refs, known.tracks, known.heads, known.series, known.clocks, known.epochs)
        return len(known.strings) + sum(map(len, tables))

    def known(self) -> Numbers:
        """What the events refer to."""
        return self._known

    def _note(self, kind: str, at: int, count: int = 1) -> None:
        entry = self._known.found.setdefault(kind, [0, self._offset + at])
        entry[0] += count

    def _skip(self, number: int, at: int) -> None:
        entry = self._known.skipped.setdefault(number, [0, self._offset + at])
        entry[0] += 1

    # -- packets

    def _packet(self, at: int, begin: int, end: int) -> None:
        data = self._data
        time = clock = None
        sequence = flags = dropped = 0
        parts: dict[int, tuple[int, int]] = {}
        skipped = []
        for number, kind, value in fields(data, begin, end):
            if kind == BYTES and isinstance(value, tuple):
                if number in s.SPECIAL or number in _PARTS:
                    parts[number] = value
                elif number not in s.SILENT:
                    skipped.append(number)
            elif kind == VARINT and isinstance(value, int):
                if number == s.TIME:
                    time = value
                elif number == s.CLOCK:
                    clock = value & 0xFFFFFFFF
                elif number == s.SEQUENCE:
                    sequence = value & 0xFFFFFFFF
                elif number == s.FLAGS:
                    flags |= value & 1
                elif number == s.CLEARED:
                    flags |= value != 0
                elif number == s.DROPPED:
                    dropped = value
                elif number not in s.SILENT:
                    skipped.append(number)
            else:
                skipped.append(number)
        known = self._sequences.get(sequence)
        fresh = known is None or flags != 0
        epoch = len(self._known.epochs) if known is None or flags else known.epoch
        if s.INTERNED in parts:
            self._names(epoch, *parts[s.INTERNED])
        event = self._event(epoch, *parts[s.TRACK_EVENT]) if s.TRACK_EVENT in parts else None
        stage = self._stage(*parts[s.GPU_STAGE]) if s.GPU_STAGE in parts else None
        counters = self._counters(*parts[s.GPU_COUNTERS]) if s.GPU_COUNTERS in parts else None
        defaults = self._defaults(*parts[s.DEFAULTS]) if s.DEFAULTS in parts else None
        clocks = self._snapshot(*parts[s.CLOCKS]) if s.CLOCKS in parts else None
        # The packet is sound: from here on it is taken.
        for number in skipped[: s.MOST_SKIPPED]:
            self._skip(min(number, s.OTHER_FIELD), at)
        for _ in skipped[s.MOST_SKIPPED :]:
            self._skip(s.OTHER_FIELD, at)
        lists: list[Sized] = []
        if event is not None:
            lists += [event.flows, event.categories, event.texts]
        if stage is not None:
            lists.append(stage.waits)
        if counters is not None:
            lists.append(counters.samples)
        if any(len(some) > s.MOST_NUMBERS for some in lists):
            self._skip(s.OTHER_NUMBERS, at)
        if known is not None and dropped:
            self._note("dropped", at)
        if known is None or fresh:
            known = self._sequences[sequence] = _Sequence(
                self._known.epochs[key(sequence, self._offset + at)]
            )
        if defaults is not None:
            known.track, known.clock = defaults
        for found in (clocks or ())[: s.MOST_NUMBERS]:
            self._set_clock(sequence, *found)
        if clocks is not None:
            self._snapshots += 1
        described = set(s.SPECIAL)
        if counters is not None and counters.described:
            described.add(s.GPU_COUNTERS)
        if stage is not None and stage.described:
            described.add(s.GPU_STAGE)
        for number, span in sorted(parts.items()):
            if number in described:
                self._describe(number, known.epoch, sequence, span)
        if event is not None and event.group and self._groups < s.MOST_GROUPS:
            self._groups += 1
            self._describe(s.TRACK_EVENT, known.epoch, sequence, parts[s.TRACK_EVENT])
        if clock is None:
            clock = s.BOOTTIME if known.clock is None else known.clock
        which = -1
        if time is not None:
            which = self._known.clocks[self._clock_key(clock, sequence)]
            time = self._time(which, time)
        if event is not None:
            self._add_event(at, event, sequence, known, which, time)
        tracks = len(self._known.tracks)
        if stage is not None:
            self._add_stage(at, stage, known, which, time)
            if len(self._known.tracks) > tracks:
                self._describe(s.GPU_STAGE, known.epoch, sequence, parts[s.GPU_STAGE])
        if counters is not None:
            self._add_counters(at, counters, known, which, time)

    def _describe(self, number: int, epoch: int, sequence: int, span: tuple[int, int]) -> None:
        first, last = span
        self._specials.append(Special(number, epoch, sequence, self._offset + first, self._offset + last))

    # -- clocks

    def _clock_key(self, clock: int, sequence: int) -> Key:
        return key(clock, sequence if clock in s.OF_A_SEQUENCE else 0)

    def _time(self, which: int, value: int) -> int:
        clock = self._clocks.get(which)
        if clock is None:
            return min(value, TIME_LIMIT)
        if clock.last is not None:
            clock.last = value = min(clock.last + value, TIME_LIMIT)
        return min(value * clock.multiplier, TIME_LIMIT)

    def _snapshot(self, begin: int, end: int) -> list[tuple[int, int, bool, int]]:
        snapshot = []
        for number, kind, value in fields(self._data, begin, end):
            if number != 1 or kind != BYTES or not isinstance(value, tuple):
                continue
            clock = time = None
            incremental, multiplier = False, 1
            for part, form, what in fields(self._data, *value):
                if form != VARINT or not isinstance(what, int):
                    continue
                if part == 1:
                    clock = what & 0xFFFFFFFF
                elif part == 2:
                    time = what
                elif part == 3:
                    incremental = what != 0
                elif part == 4:
                    multiplier = what
            if clock is not None and time is not None:
                snapshot.append(
                    (clock, min(time, TIME_LIMIT), incremental, min(max(multiplier, 1), TIME_LIMIT))
                )
        return snapshot

    def _set_clock(self, sequence: int, clock: int, time: int, incremental: bool, multiplier: int) -> None:
        which = self._known.clocks[self._clock_key(clock, sequence)]
        if clock in s.OF_A_SEQUENCE:
            self._clocks[which] = _Clock(multiplier, time if incremental else None)
        else:
            multiplier = 1
        self._times.append((self._snapshots, which, min(time * multiplier, TIME_LIMIT)))

    def _defaults(self, begin: int, end: int) -> tuple[int | None, int | None]:
        track = clock = None
        for number, kind, value in fields(self._data, begin, end):
            if number == s.CLOCK and kind == VARINT and isinstance(value, int):
                clock = value & 0xFFFFFFFF
            elif number == s.TRACK_EVENT and isinstance(value, tuple):
                for part, form, what in fields(self._data, *value):
                    if part == 11 and form == VARINT and isinstance(what, int):
                        track = what
        return track, clock

    # -- names

    def _names(self, epoch: int, begin: int, end: int) -> None:
        """Remember the names of annotations that matter here."""
        for number, _, value in fields(self._data, begin, end):
            if number != 3 or not isinstance(value, tuple):
                continue
            iid, name = 0, b""
            for part, form, what in fields(self._data, *value):
                if part == 1 and form == VARINT and isinstance(what, int):
                    iid = what
                elif part == 2 and isinstance(what, tuple):
                    name = self._data[what[0] : what[1]]
            if name in _NOTED:
                self._annotations[epoch, iid] = name

    def _string(self, span: tuple[int, int]) -> int:
        refs, strings = self._known.refs, self._known.strings
        return refs[key(s.NAMED, strings[self._data[span[0] : span[1]]])]

    def _interned(self, epoch: int, number: int, iid: int) -> int:
        return self._known.refs[key(s.INTERNED_NAME, epoch, number, signed(iid))]

    # -- track events

    def _event(self, epoch: int, begin: int, end: int) -> _Event:
        event = _Event()
        data = self._data
        for number, kind, value in fields(data, begin, end):
            if kind == VARINT and isinstance(value, int):
                if number == 9:
                    event.type = value
                elif number == 10:
                    event.name_iid = value
                elif number == 11:
                    event.track = value
                elif number == 3:
                    event.categories.append(value)
                elif number == 30:
                    event.value = float(signed(value))
                elif number in (36, 42):
                    event.flows.append((signed(value), number == 42))
            elif kind == FIXED64 and isinstance(value, int):
                if number in (47, 48):
                    event.flows.append((signed(value), number == 48))
                elif number == 44:
                    (event.value,) = struct.unpack("<d", value.to_bytes(8, "little"))
            elif isinstance(value, tuple):
                if number == 4:
                    event.filled = True
                    self._annotation(event, epoch, *value)
                elif number == 23:
                    event.name = value
                elif number == 22:
                    event.texts.append(value)
                elif number == 3:
                    event.categories += numbers(data, kind, value)
                elif number in (36, 42):
                    event.flows += [(signed(one), number == 42) for one in numbers(data, kind, value)]
                elif number in (47, 48):
                    event.flows += [(signed(one), number == 48) for one in numbers(data, kind, value, True)]
                elif number == 6:
                    self._legacy(event, *value)
        return event

    def _annotation(self, event: _Event, epoch: int, begin: int, end: int) -> None:
        name: bytes | None = None
        number: int | None = None
        for part, kind, value in fields(self._data, begin, end):
            if part == 10 and isinstance(value, tuple):
                name = self._data[value[0] : value[1]]
                if name not in _NOTED:
                    return  # most are of no matter here, and some are long
            elif part == 1 and kind == VARINT and isinstance(value, int):
                name = self._annotations.get((epoch, value))
                if name is None:
                    return
            elif part in (3, 4) and kind == VARINT and isinstance(value, int):
                number = signed(value)
        if name == _SYNC:
            event.sync = True
        elif name == _GROUP:
            event.group = True
        elif name in _IDS and number is not None:
            setattr(event, _IDS[name], number)

    def _legacy(self, event: _Event, begin: int, end: int) -> None:
        for number, kind, value in fields(self._data, begin, end):
            if kind == VARINT and isinstance(value, int):
                if number == 1:
                    event.name_iid = value
                elif number == 2:
                    event.phase = value & 0xFF
                elif number == 3:
                    event.duration = signed(value)

    def _add_event(
        self, at: int, event: _Event, sequence: int, known: _Sequence, clock: int, time: int | None
    ) -> None:
        type_ = event.type or _LEGACY.get(event.phase, 0)
        whole = event.type == 0 and event.phase == ord("X")
        if not (s.BEGIN <= type_ <= s.COUNTER):
            self._skip(s.OTHER_EVENT, at)
            return
        if time is None:
            self._note("no_time", at)
            return
        numbers_ = self._known
        uuid = event.track if event.track is not None else known.track
        if uuid is None:
            track = numbers_.tracks[key(s.DEFAULT, sequence)]
        else:
            track = numbers_.tracks[key(s.UUID, signed(uuid))]
        place = self._offset + at
        if type_ == s.COUNTER:
            if event.value is None:
                self._note("wrong_type", at)
                return
            series = numbers_.series[key(s.OF_TRACK, track, clock)]
            self._rows["counters"].append((series, time, event.value))
            return
        if type_ == s.END:
            head = numbers_.heads[key(ord("E"), s.NO_REF, track, clock)]
            self._rows["ends"].append((head, self._slices, time))
            if event.filled:
                self._rows["filled"].append((self._ends, place))
            self._ends += 1
            self._add_flows(event, track, clock, time, place)
            return
        name = s.NO_REF
        if event.name is not None:
            name = self._string(event.name)
        elif event.name_iid is not None:
            name = self._interned(known.epoch, s.EVENT_NAMES, event.name_iid)
        category = s.NO_REF
        for one in event.categories[: s.MOST_NUMBERS]:
            category = self._both(category, self._interned(known.epoch, s.CATEGORIES, one))
        for span in event.texts[: s.MOST_NUMBERS]:
            category = self._both(category, self._string(span))
        if category == s.NO_REF and event.sync:
            category = numbers_.refs[key(s.SYNC)]
        phase = "i" if type_ == s.INSTANT else "X"
        head = numbers_.heads[key(ord(phase), category, track, clock)]
        ids = event.correlation, event.external, place
        if phase == "i":
            self._rows["points"].append((head, name, time, NO_TIME, *ids, NO_TIME, True))
        else:
            duration = NO_TIME
            if whole:
                duration = min(max(0, event.duration or 0), TIME_LIMIT // 1000) * 1000
            self._rows["slices"].append((head, name, time, duration, *ids))
            self._slices += 1
        self._add_flows(event, track, clock, time, place)

    def _both(self, one: int, other: int) -> int:
        return other if one == s.NO_REF else self._known.refs[key(s.BOTH, one, other)]

    def _add_flows(self, event: _Event, track: int, clock: int, time: int, place: int) -> None:
        for flow, last in event.flows[: s.MOST_NUMBERS]:
            head = self._known.heads[key(ord("f" if last else "t"), s.NO_REF, track, clock)]
            self._rows["points"].append((head, s.NO_REF, time, NO_TIME, NO_ID, NO_ID, place, flow, True))

    # -- the GPU

    def _stage(self, begin: int, end: int) -> _Stage:
        stage = _Stage()
        data = self._data
        for number, kind, value in fields(data, begin, end):
            if kind == VARINT and isinstance(value, int):
                if number == 1:
                    stage.event = signed(value)
                elif number == 2:
                    stage.duration = min(value, TIME_LIMIT)
                elif number == 3:
                    stage.legacy_queue = _int32(value)
                elif number == 4:
                    stage.legacy_kind = _int32(value)
                elif number == 11:
                    stage.gpu = _int32(value)
                elif number == 13:
                    stage.queue = signed(value)
                elif number == 14:
                    stage.kind = signed(value)
                elif number == 18:
                    stage.waits.append(signed(value))
                elif number == 20:
                    stage.name_iid = value
            elif isinstance(value, tuple):
                if number == 6:
                    self._extra(stage, *value)
                elif number == 7:
                    stage.described = True
                elif number == 17:
                    stage.name = value
                elif number == 18:
                    stage.waits += [signed(one) for one in numbers(data, kind, value)]
        return stage

    def _extra(self, stage: _Stage, begin: int, end: int) -> None:
        name = value = b""
        for number, _, what in fields(self._data, begin, end):
            if isinstance(what, tuple):
                if number == 1:
                    name = self._data[what[0] : what[1]]
                elif number == 2:
                    value = self._data[what[0] : what[1]]
        if name in s.WORDS:
            if len(value) <= s.LONGEST_WORD:
                stage.words[name] = value
        elif name in _EXTRAS and _INTEGER.fullmatch(value):
            setattr(stage, _EXTRAS[name], int(value))

    def _add_stage(self, at: int, stage: _Stage, known: _Sequence, clock: int, time: int | None) -> None:
        if time is None:
            self._note("no_time", at)
            return
        numbers_ = self._known
        if stage.kind is not None:
            of_stage = known.epoch, stage.kind, 1
        else:
            of_stage = 0, stage.legacy_kind or 0, 0
        if stage.name is not None:
            name = self._string(stage.name)
        elif stage.name_iid is not None:
            name = self._interned(known.epoch, s.EVENT_NAMES, stage.name_iid)
        else:
            name = numbers_.refs[key(s.STAGE_NAME, *of_stage)]
        if stage.words:
            strings = numbers_.strings
            said = (strings[stage.words[word]] if word in stage.words else s.NO_REF for word in s.WORDS)
            name = numbers_.refs[key(s.TRANSFER, name, *said)]
        category = numbers_.refs[key(s.OF_STAGE, *of_stage)]
        gpu = stage.gpu if stage.device is None else stage.device
        if stage.stream is not None:
            track = numbers_.tracks[key(s.STREAM, gpu, stage.stream)]
        elif stage.queue is not None:
            track = numbers_.tracks[key(s.QUEUE, gpu, known.epoch, stage.queue, 1)]
        else:
            track = numbers_.tracks[key(s.QUEUE, gpu, 0, stage.legacy_queue or 0, 0)]
        head = numbers_.heads[key(ord("X"), category, track, clock)]
        ids = stage.correlation, stage.external, self._offset + at
        self._rows["slices"].append((head, name, time, stage.duration, *ids))
        if stage.event is not None:
            self._rows["stages"].append((stage.event, self._slices))
        self._rows["waits"] += [(one, self._slices) for one in stage.waits[: s.MOST_NUMBERS]]
        self._slices += 1

    def _counters(self, begin: int, end: int) -> _Counters:
        counters = _Counters()
        for number, kind, value in fields(self._data, begin, end):
            if kind == VARINT and isinstance(value, int):
                if number == 3:
                    counters.gpu = _int32(value)
                elif number == 4:
                    counters.descriptor = signed(value)
            elif isinstance(value, tuple):
                if number == 1:
                    counters.described = True
                elif number == 2:
                    self._sample(counters, *value)
        return counters

    def _sample(self, counters: _Counters, begin: int, end: int) -> None:
        counter, sample = 0, 0.0
        for number, kind, value in fields(self._data, begin, end):
            if not isinstance(value, int):
                continue
            if number == 1 and kind == VARINT:
                counter = value & 0xFFFFFFFF
            elif number == 2 and kind == VARINT:
                sample = float(signed(value))
            elif number == 3 and kind == FIXED64:
                (sample,) = struct.unpack("<d", value.to_bytes(8, "little"))
        counters.samples.append((counter, sample))

    def _add_counters(
        self, at: int, counters: _Counters, known: _Sequence, clock: int, time: int | None
    ) -> None:
        if time is None:
            self._note("no_time", at)
            return
        of = (0, 0) if counters.descriptor is None else (known.epoch, counters.descriptor)
        for counter, sample in counters.samples[: s.MOST_NUMBERS]:
            series = self._known.series[key(s.OF_GPU, *of, counters.gpu, counter, clock)]
            self._rows["counters"].append((series, time, sample))
