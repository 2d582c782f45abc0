"""Writes a trace of any format as Chrome's JSON, as Kineto would have: for other viewers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from tracetui.formats.chrome_json.clean import write_clean, write_texts
from tracetui.formats.chrome_json.event_reader import FileReader
from tracetui.trace.model import DEVICE_WORK, Trace

_AT_ONCE = 4096
_COUNTERS = "Counters"
"""The process of counters that belong to none."""
Place = dict[str, int | str]
_encode = msgspec.json.encode


def write_json(trace: Trace, out: str | Path) -> int:
    """Write all events of a trace to `out`: how many there are. Raises TraceError: see `write_clean`."""
    if isinstance(trace.reader, FileReader):
        write_clean(trace.reader, trace.events, out)
        return trace.events
    info = trace.info
    top: dict[str, Any] = {"displayTimeUnit": "ms", "deviceProperties": list(info.devices)}
    top |= {} if info.base_ns is None else {"baseTimeNanoseconds": info.base_ns}
    top |= {} if info.distributed is None else {"distributedInfo": info.distributed}
    written = _Writer(trace)
    write_texts(out, top, written.texts(), written.count, info.path)
    return written.count


class _Writer:
    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._zero = trace.info.zero_ns - (trace.info.base_ns or 0)
        firsts = trace.reader.read([int(trace.source[lane.first]) for lane in trace.lanes])
        self._places: list[Place] = [{key: event.get(key, 0) for key in ("pid", "tid")} for event in firsts]
        launched = (trace.launch >= 0) & trace.is_kind(*DEVICE_WORK)
        self._launched = np.flatnonzero(launched)
        self._labels = list(self._metadata())
        flows = 2 * (len(self._launched) + len(trace.flow_from))
        more = len(trace.instants.start) + len(trace.counters.start) + len(self._labels)
        self.count = len(trace) + flows + more

    def texts(self) -> Iterator[list[bytes]]:
        """The texts of all events, some at a time."""
        trace = self._trace
        yield self._labels
        order = np.argsort(trace.source, kind="stable")
        for first in range(0, len(order), _AT_ONCE):
            some = order[first : first + _AT_ONCE].tolist()
            events = trace.reader.read(trace.source[some].tolist())
            if not all(events):
                yield []  # the file has changed: the count says so
                continue
            yield [
                self._event(event, int(trace.start[i]), int(trace.duration[i]))
                for event, i in zip(events, some, strict=True)
            ]
        yield from self._flows()
        for first in range(0, len(trace.instants.start), _AT_ONCE):
            part = slice(first, first + _AT_ONCE)
            events = trace.reader.read(trace.instants.source[part].tolist())
            starts = trace.instants.start[part].tolist()
            yield [self._event({**e, "s": "t"}, start) for e, start in zip(events, starts, strict=True) if e]
        yield [self._sample(i) for i in range(len(trace.counters.start))]

    def _event(self, event: dict[str, Any], start: int, duration: int | None = None) -> bytes:
        made = {**event, "ts": self._time(start + self._zero)}
        if duration is not None:
            made["dur"] = self._time(duration)
        return _encode(made)

    @staticmethod
    def _time(time: int) -> msgspec.Raw:
        """Microseconds, with all digits."""
        sign, (whole, rest) = "-" * (time < 0), divmod(abs(time), 1000)
        return msgspec.Raw(f"{sign}{whole}.{rest:03}".encode())

    def _metadata(self) -> Iterator[bytes]:
        trace = self._trace
        seen: set[int] = set()
        for lane, place in zip(trace.lanes, self._places, strict=True):
            process = trace.processes[lane.process]
            about: dict[str, Any] = {"name": process.name, "labels": process.labels}
            about |= {"sort_index": process.sort_index} if process.sort_index else {}
            for key, value in about.items() if lane.process not in seen else ():
                if value:
                    yield self._label(f"process_{key}", place, key, value)
            seen.add(lane.process)
            if lane.kind in ("thread", "stream"):
                yield self._label("thread_name", place, "name", lane.name)

    @staticmethod
    def _label(name: str, place: Place, key: str, value: Any) -> bytes:
        return _encode({"ph": "M", "name": name, **place, "args": {key: value}})

    def _flows(self) -> Iterator[list[bytes]]:
        trace = self._trace
        for i in self._launched.tolist():
            launch = int(trace.launch[i])
            yield self._flow("ac2g", int(trace.correlation[i]), launch, i)
        flows = zip(
            trace.flow_from.tolist(), trace.flow_to.tolist(), trace.flow_category.tolist(), strict=True
        )
        for number, (one, other, kind) in enumerate(flows):
            yield self._flow(trace.flow_kind[kind], number, one, other)

    def _flow(self, category: str, number: int, one: int, other: int) -> list[bytes]:
        trace = self._trace
        found = []
        for phase, i in (("s", one), ("f", other)):
            place = self._places[int(trace.lane[i])]
            event = {"ph": phase, "id": number, "cat": category, "name": category, **place, "bp": "e"}
            found.append(self._event(event, int(trace.start[i])))
        return found

    def _sample(self, i: int) -> bytes:
        counters = self._trace.counters
        series = int(counters.series[i])
        process = counters.series_process[series]
        pid = self._trace.processes[process].pid if process >= 0 else _COUNTERS
        event = {
            "ph": "C",
            "name": counters.series_names[series],
            "pid": pid,
            "args": {"": float(counters.value[i])},
        }
        return self._event(event, int(counters.start[i]))
