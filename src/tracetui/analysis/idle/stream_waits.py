"""What a stream was told to wait for: CUPTI's marks of `cudaStreamWaitEvent`.

A trace recorded with synchronization events (Kineto's default for captures on demand) has a mark
`Stream Wait Event` per call: the stream that waits, the call that recorded the event, and the stream it was
recorded in. Later work in the waiting stream cannot start before the work that had been launched into the
other stream by the time of that record has ended.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from tracetui.analysis.select import name_mask, plausible
from tracetui.trace import DEVICE_WORK, Kind, Trace
from tracetui.trace.model import I64

MARKS = 8
"""At most this many waits before one launch are looked at, starting from the last."""
READ = 20_000
"""The arguments of at most this many marks are read."""
_MARK = "Stream Wait Event"


def waits_of(trace: Trace, events: I64) -> list[I64]:
    """For each device event, what its stream was told to wait for since the work before it: for each of the
    recorded events, the last work launched into the other stream before it (slices). Empty if no mark shows
    it."""
    none = np.zeros(0, np.int64)
    marks = plausible(trace, Kind.SYNC)
    marks = marks[name_mask(trace, _MARK.__eq__)[trace.name[marks]] & (trace.launch[marks] >= 0)]
    if not len(marks) or not len(events):
        return [none] * len(events)
    marks = marks[np.argsort(trace.start[trace.launch[marks]], kind="stable")]
    called = trace.start[trace.launch[marks]]
    wanted: list[range] = []
    for event in events.tolist():
        launch = int(trace.launch[event])
        before = _launched_before(trace, event) if launch >= 0 else -1
        high = int(np.searchsorted(called, trace.start[launch])) if launch >= 0 else 0
        low = int(np.searchsorted(called, trace.start[before])) if before >= 0 else 0
        wanted.append(range(max(low, high - MARKS), high))
    read = sorted({i for some in wanted for i in some})[:READ]
    args = dict(zip(read, trace.args_of(marks[read]), strict=True))
    records, streams = _records(trace), _Streams(trace)
    waits = []
    for event, some in zip(events.tolist(), wanted, strict=True):
        mine = [args[i] for i in some if i in args and _stream(args[i].get("stream")) == streams.of(event)]
        sources = [
            streams.last_before(event, a.get("wait_on_stream"), _record(trace, records, a)) for a in mine
        ]
        waits.append(np.array([i for i in sources if i >= 0], dtype=np.int64))
    return waits


def _launched_before(trace: Trace, event: int) -> int:
    """The launch of the work before `event` in its stream, -1 for none."""
    at = event - 1
    while at >= trace.lanes[int(trace.lane[event])].first:
        if trace.kind[at] in DEVICE_WORK and trace.launch[at] >= 0:
            return int(trace.launch[at])
        at -= 1
    return -1


def _records(trace: Trace) -> tuple[I64, I64]:
    """(correlations, slices) of the calls that record an event, by correlation."""
    at = plausible(trace, Kind.RUNTIME)
    at = at[name_mask(trace, lambda name: "EventRecord" in name)[trace.name[at]]]
    at = at[np.argsort(trace.correlation[at], kind="stable")]
    return trace.correlation[at], at


def _record(trace: Trace, records: tuple[I64, I64], args: dict[str, Any]) -> int:
    """When the event of a mark was recorded on the CPU, ns; -1 if the trace does not have the call."""
    wanted, (correlation, at) = args.get("wait_on_cuda_event_record_corr_id"), records
    if not isinstance(wanted, int) or not 0 < wanted < 1 << 62:
        return -1
    i = int(np.searchsorted(correlation, wanted))
    return int(trace.start[at[i]]) if i < len(at) and correlation[i] == wanted else -1


def _stream(value: object) -> int:
    """A stream's number from `7`, `"7"` or `"stream 7"`; -1 for anything else."""
    digits = re.search(r"(?<![-\d])\d{1,9}$", str(value)[:40])  # -1 is no stream
    return int(digits[0]) if digits else -1


class _Streams:
    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._lanes = {
            (lane.device, _stream(lane.tid)): i for i, lane in enumerate(trace.lanes) if lane.kind == "stream"
        }
        self._kept: dict[int, tuple[I64, I64]] = {}

    def of(self, event: int) -> int:
        """The stream number of an event."""
        return _stream(self._trace.lanes[int(self._trace.lane[event])].tid)

    def last_before(self, event: int, stream: object, recorded: int) -> int:
        """The last work launched before `recorded` (ns) into a stream of the event's device, -1 for none."""
        device = self._trace.lanes[int(self._trace.lane[event])].device
        lane = self._lanes.get((device, _stream(stream)), -1)
        if lane < 0 or recorded < 0:
            return -1
        work, launched = self._work(lane)
        i = int(np.searchsorted(launched, recorded)) - 1
        return int(work[i]) if i >= 0 else -1

    def _work(self, lane: int) -> tuple[I64, I64]:
        """(the work of a lane that has a launch, in the order of its stream; when each was launched)."""
        if lane not in self._kept:
            trace, this = self._trace, self._trace.lanes[lane]
            at = np.arange(this.first, this.last)
            at = at[np.isin(trace.kind[at], DEVICE_WORK) & (trace.launch[at] >= 0) & ~trace.implausible[at]]
            self._kept[lane] = at, np.maximum.accumulate(trace.start[trace.launch[at]])
        return self._kept[lane]
