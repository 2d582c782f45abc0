"""Reads events on demand: the packet of an event is read and decoded again.

`source` is where the packet begins, and the duration of the event: the packet that begins a slice does not
say it. What does not fit there (a long duration, an end with arguments of its own, a time that depends on the
packets before) is in a table.
"""

from __future__ import annotations

import base64
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from tracetui.core.columns import I64, NO_TIME, TIME_LIMIT
from tracetui.core.copying import replace
from tracetui.formats.pftrace import schema as s
from tracetui.formats.pftrace.arguments import of_event, of_notes, of_stage
from tracetui.formats.pftrace.clocks import Clocks, Step, convert
from tracetui.formats.pftrace.resolve import Described, Place, Resolver
from tracetui.formats.pftrace.schema import Key, key
from tracetui.formats.pftrace.wire import Malformed, fields, signed, text, varint
from tracetui.formats.source import Source

SHORT_BITS = 24
ELSEWHERE = (1 << SHORT_BITS) - 1
"""In place of a duration: the table says more."""
FARTHEST = 1 << (62 - SHORT_BITS)
"""Text beyond is not read."""
_BLOCK = 1 << 18
_KEPT = 12
_FIRST = 512
"""Bytes of a packet that are read at first: most are shorter."""


class More(Struct, frozen=True):
    """What `source` has no room for; arrays of one length, in order of `place`."""

    place: I64
    start: I64
    duration: I64
    end: I64
    """Where the end with arguments is, -1 for none."""


class About(Struct):
    """What a reader needs to know of a file."""

    described: Described
    epochs: list[Key]
    clocks: Clocks
    main: int
    """The clock of all times."""
    base: int
    """What was subtracted from them."""
    more: list[str]
    """`More` as text."""


_ABOUT = msgspec.json.Decoder(About)


class FileReader:
    """Reads the events behind `source` values. Safe to use from several threads."""

    names_transfers = True
    """Copies and memsets are named by their arguments as they are decoded: `trace/transfers.py` need not."""

    def __init__(self, source: Source, about: About, more: More) -> None:
        self.source = source
        self.path = source.path
        self.top: dict[str, Any] = {}
        self._about, self._more = about, more
        self._resolver = Resolver(about.described)
        self._parts = source.parts()
        self._blocks: OrderedDict[int, bytes] = OrderedDict()
        self._lock = threading.Lock()
        self._steps: dict[int, list[Step]] = {}
        self._places: dict[Key, Place] = {}
        self._of_sequence: dict[int, tuple[list[int], list[int]]] = {}
        for number, (sequence, offset, *_) in enumerate(about.epochs):
            offsets, epochs = self._of_sequence.setdefault(sequence, ([], []))
            offsets.append(offset)
            epochs.append(number)

    def pack(self) -> bytes:
        """JSON from which `unpack` makes the reader again."""
        columns = (self._more.place, self._more.start, self._more.duration, self._more.end)
        more = [base64.b64encode(column.astype("<i8").tobytes()).decode() for column in columns]
        return msgspec.json.encode(replace(self._about, more=more))

    @classmethod
    def unpack(cls, source: Source, packed: bytes | msgspec.Raw, size: int) -> FileReader:
        """The reader of the same file again. Raises ValueError."""
        about = _ABOUT.decode(packed)
        columns = [np.frombuffer(base64.b64decode(column), dtype="<i8") for column in about.more]
        if len(columns) != 4 or len({len(column) for column in columns}) != 1:
            raise ValueError
        about.more = []
        return cls(source, about, More(*columns))

    def read(self, sources: Sequence[int]) -> list[dict[str, Any]]:
        """The events as JSON objects, in the order of `sources`; {} where one can no longer be read."""
        found: list[dict[str, Any]] = [{}] * len(sources)
        with self._lock:
            # In file order: decompression only goes forwards.
            for at in sorted(range(len(sources)), key=sources.__getitem__):
                try:
                    found[at] = self._event(sources[at])
                except (OSError, Malformed, RecursionError):
                    continue
        return found

    def _event(self, source: int) -> dict[str, Any]:
        place, duration = source >> SHORT_BITS, source & ELSEWHERE
        data = self._packet(place)
        if place < 0 or not data:
            return {}
        start: int | None = None
        end = -1
        more = self._more.place
        # What is there has no duration in `source`: most need not be looked for.
        at = int(np.searchsorted(more, place)) if duration in (0, ELSEWHERE) else len(more)
        if at < len(more) and more[at] == place:
            start, duration = int(self._more.start[at]), int(self._more.duration[at])
            end = int(self._more.end[at])
        elif duration == ELSEWHERE:
            return {}
        event = self._decoded(data, place, start)
        if event and event["ph"] == "X":
            if duration != NO_TIME:
                event["dur"] = _microseconds(duration)
            if end >= 0:
                event["args"] |= self._ends(end)
        return event

    # -- packets

    def _packet(self, place: int) -> bytes:
        """The packet at an offset; b"" if it is not there."""
        head = self._read(place, _FIRST)
        if not head or head[0] != 0x0A:
            return b""
        length, at = varint(head, 1, len(head))
        if at + length <= len(head):
            return head[at : at + length]
        data = self._read(place + at, length) if length <= s.LONGEST else b""
        return data if len(data) == length else b""

    def _read(self, offset: int, length: int) -> bytes:
        if length > _BLOCK:
            return b"" if self.source.changed else self._parts.read(offset, length)
        found = b""
        while len(found) < length:
            number, at = divmod(offset + len(found), _BLOCK)
            block = self._blocks.get(number)
            if block is None:
                block = b"" if self.source.changed else self._parts.read(number * _BLOCK, _BLOCK)
                self._blocks[number] = block
                if len(self._blocks) > _KEPT:
                    self._blocks.popitem(last=False)
            else:
                self._blocks.move_to_end(number)
            part = block[at : at + length - len(found)]
            if not part:
                break
            found += part
        return found

    def _decoded(self, data: bytes, place: int, start: int | None) -> dict[str, Any]:
        spans: dict[int, tuple[int, int]] = {}
        values: dict[int, int] = {}
        for number, _, value in fields(data, 0, len(data)):
            if isinstance(value, tuple):
                spans[number] = value
            else:
                values[number] = value
        epoch = self._epoch(values.get(s.SEQUENCE, 0) & 0xFFFFFFFF, place)
        if start is None:
            clock = values.get(s.CLOCK) or self._defaults(epoch)[1] or s.BOOTTIME
            start = self._time(clock, values.get(s.TIME, 0))
        found: dict[str, Any]
        if s.GPU_STAGE in spans:
            found = self._stage(data, spans[s.GPU_STAGE], epoch)
        elif s.TRACK_EVENT in spans:
            found = self._track_event(data, spans[s.TRACK_EVENT], epoch, values.get(s.SEQUENCE, 0))
        else:
            return {}
        args = found.pop("args")
        return found | {"ts": _microseconds(start), "args": args}

    def _epoch(self, sequence: int, place: int) -> int:
        offsets, epochs = self._of_sequence.get(sequence, ([], []))
        at = bisect_right(offsets, place) - 1
        return epochs[at] if at >= 0 else -1

    def _place(self, track: Key) -> Place:
        if (place := self._places.get(track)) is None:
            place = self._places[track] = self._resolver.place(track)
        return place

    def _defaults(self, epoch: int) -> tuple[int | None, int | None]:
        return self._about.described.defaults.get(epoch, (None, None))

    def _time(self, clock: int, value: int) -> int:
        clocks, main = self._about.clocks, self._about.main
        if (steps := self._steps.get(clock)) is None:
            which = clocks.ids.index(clock) if clock in clocks.ids else main
            steps = self._steps[clock] = clocks.steps(clocks.path(which, main) or [which])
        time = min(value, TIME_LIMIT)
        return (int(convert(np.array([time]), steps)[0]) if steps else time) - self._about.base

    def _stage(self, data: bytes, span: tuple[int, int], epoch: int) -> dict[str, Any]:
        resolver = self._resolver
        args = of_stage(data, span, lambda number, iid: resolver.interned(epoch, number, signed(iid)))
        name: str | None = None
        kind, interned = 0, 0
        gpu = queue = queue_iid = None
        for number, _, value in fields(data, *span):
            if isinstance(value, tuple):
                name = text(data, value) if number == 17 else name
            elif number == 20 and name is None:
                name = resolver.interned(epoch, s.EVENT_NAMES, signed(value))
            elif number == 14 or (number == 4 and not interned):
                kind, interned = signed(value), int(number == 14)
            elif number == 11:
                gpu = signed(value)
            elif number == 13:
                queue_iid = signed(value)
            elif number == 3:
                queue = signed(value)
        called, category = resolver.stage(epoch, kind, interned)
        device = args["device"] if isinstance(args.get("device"), int) else gpu or 0
        if isinstance(args.get("stream"), int):
            track = key(s.STREAM, device, args["stream"])
        elif queue_iid is not None:
            track = key(s.QUEUE, device, epoch, queue_iid, 1)
        else:
            track = key(s.QUEUE, device, 0, queue or 0, 0)
        pid, tid = self._place(track)
        name = called if name is None else name
        category_name = resolver.category(called, category)
        return {"ph": "X", "cat": category_name, "name": name, "pid": pid, "tid": tid, "args": args}

    def _track_event(self, data: bytes, span: tuple[int, int], epoch: int, sequence: int) -> dict[str, Any]:
        resolver = self._resolver
        default = self._defaults(epoch)[0]

        def interned(number: int, iid: int) -> str:
            return resolver.interned(epoch, number, signed(iid))

        notes: list[tuple[int, int]] = []
        name, of_iid, track = "", "", key(s.DEFAULT, sequence) if default is None else key(s.UUID, default)
        categories, texts = list[str](), list[str]()
        kind = 0
        for number, _, value in fields(data, *span):
            if isinstance(value, tuple):
                if number == 4:
                    notes.append(value)
                elif number == 23:
                    name = text(data, value)
                elif number == 22:
                    texts.append(text(data, value))
            else:
                if number == 10:
                    of_iid = interned(s.EVENT_NAMES, value)
                elif number == 3:
                    categories.append(interned(s.CATEGORIES, value))
                elif number == 11:
                    track = key(s.UUID, signed(value))
                elif number == 9:
                    kind = value
        args = of_notes(data, notes, interned)
        pid, tid = self._place(track)
        category = ",".join(categories + texts) or ("cuda_sync" if "cuda_sync_kind" in args else "")
        if not category and pid == -1:
            category = "overhead"
        phase = "i" if kind == s.INSTANT else "X"
        return {"ph": phase, "cat": category, "name": name or of_iid, "pid": pid, "tid": tid, "args": args}

    def _ends(self, place: int) -> dict[str, Any]:
        """The arguments of the end of a slice."""
        data = self._packet(place)
        sequence = next((v for n, _, v in fields(data, 0, len(data)) if n == s.SEQUENCE), 0)
        epoch = self._epoch(sequence if isinstance(sequence, int) else 0, place)
        for number, _, value in fields(data, 0, len(data)):
            if number == s.TRACK_EVENT and isinstance(value, tuple):
                return of_event(data, value, lambda n, iid: self._resolver.interned(epoch, n, signed(iid)))
        return {}


def _microseconds(time: int) -> int | float:
    whole, rest = divmod(time, 1000)
    return time / 1000 if rest else whole
