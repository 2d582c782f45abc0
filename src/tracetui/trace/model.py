"""The Trace: a struct of arrays, one row per slice, and the small tables that the columns point into.

Treat every array as read-only: the analyses, the timeline and the app share one Trace.
Times are int64 nanoseconds from the trace's own zero (`TraceInfo.zero_ns` says where that lies on the clock).
Names, categories and lanes are indices into `Trace.names`, `Trace.categories`, `Trace.lanes`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import wraps
from typing import Any, TypeVar

import numpy as np
from msgspec import Struct

from tracetui.core import threads
from tracetui.core.columns import F64 as F64  # the types of the columns, for the folders above
from tracetui.core.columns import I8 as I8
from tracetui.core.columns import I16 as I16
from tracetui.core.columns import I32 as I32
from tracetui.core.columns import I64 as I64
from tracetui.core.columns import NO_ID as NO_ID
from tracetui.core.columns import Bool as Bool
from tracetui.core.patterns import pattern
from tracetui.core.threads import map_blocks
from tracetui.formats.diagnostics import Notice
from tracetui.formats.parsed_file import EventReader


class Kind(IntEnum):
    """What a category means to the analyses; several spellings of a category share a kind."""

    OTHER = 0
    CPU_OP = 1
    ANNOTATION = 2  # user_annotation: record_function, ProfilerStep#N
    PYTHON = 3  # python_function
    RUNTIME = 4  # cuda_runtime, cuda_driver and their HIP, XPU and MTIA counterparts
    OVERHEAD = 5  # the profiler's own time
    KERNEL = 6
    MEMCPY = 7
    MEMSET = 8
    SYNC = 9  # cuda_sync, cuda_event
    GPU_ANNOTATION = 10
    SPAN = 11  # the span of the recording ("Trace", pid "Spans")


DEVICE_WORK = (Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET)
"""The kinds that count as a device being busy."""
_DEVICE_WORD = pattern(r"\b(?:GPU|XPU|MTIA|HPU|NPU|TPU|MLU)\b")
_CUT = frozenset(("truncated", "bad_gzip", "bad_zstd"))
"""Notices of a file whose end is missing."""
SEVERAL_WRITERS = "several_writers"
"""The notice of a file in which the work of several processes is on the same device's lanes."""
GRAPH_DEPENDENCY = "graph dependency"
"""The category of flows from a node of a CUDA graph to one that waits for it."""
AT_ONCE = 64
"""Events whose arguments are decoded in one batch: meanwhile nobody else can read the file."""


class Process(Struct, frozen=True):
    """A process or a device; lanes are grouped by it."""

    pid: str
    """As in the file, integers as decimal text."""
    name: str
    """`process_name`, or "" where the file has none. Safe to show."""
    labels: str
    sort_index: int
    device: int
    """Index of the device, or -1 where this is not a device."""
    rank: str = ""
    """In a file merged from those of several ranks: whose it is, e.g. "TP00-DP01". Safe to show."""


class Lane(Struct, frozen=True):
    """A thread or a stream. Its slices are rows `first` to `last` (exclusive) of the columns."""

    process: int
    """Index into `Trace.processes`."""
    tid: str
    """As in the file, integers as decimal text."""
    name: str
    """Ready to show, e.g. "thread 426 (python)" or "stream 7". Safe to show."""
    kind: str
    """One of "thread", "stream", "gpu_annotation", "sync", "overhead", "span", "async", or "modules"."""
    device: int
    """Index of the device, or -1 for a lane of the CPU."""
    first: int
    last: int
    rows: int
    """Number of rows that its slices take: max depth + 1 (0 where it has no slice)."""


class Instants(Struct, frozen=True):
    """Events without a duration (`i`, `I`, `R`), sorted by time. Arrays of equal length."""

    start: I64
    name: I32
    category: I16
    lane: I32
    """Index into `Trace.lanes`, -1 where the instant belongs to none."""
    source: I64
    """To be passed to `Trace.args_of_sources`."""


class Counters(Struct, frozen=True):
    """Counter samples (`C`), sorted by (series, time). Arrays of equal length."""

    start: I64
    series: I32
    """Index into `series_names`."""
    value: F64
    series_names: tuple[str, ...] = ()
    series_process: tuple[int, ...] = ()
    series_device: tuple[int, ...] = ()
    """The device that each series is about, -1 if its process does not say."""


class TraceInfo(Struct, frozen=True):
    """What the file says about itself, outside its events."""

    path: str
    """As the user gave it ("-" for standard input). NOT safe to show: see `tracetui.core.safe_text.plain`."""
    size: int
    """Size of the file on disk in bytes (compressed, if it is)."""
    text_size: int
    """Size of the JSON text in bytes."""
    zero_ns: int
    """The trace's zero, as nanoseconds on the file's clock: `ts`, plus `baseTimeNanoseconds` where given."""
    base_ns: int | None
    """`baseTimeNanoseconds`."""
    devices: tuple[Mapping[str, Any], ...] = ()
    """`deviceProperties`, as decoded."""
    distributed: Mapping[str, Any] | None = None
    """`distributedInfo`: rank, world_size, ..."""
    properties: Mapping[str, Any] = {}
    """Every other top-level key whose value is small: record_shapes, with_stack, ..."""


T = TypeVar("T")


_NONE: Any = object()
"""Nothing is kept yet (a result may be None)."""


def cached_on_trace(make: Callable[[Trace], T]) -> Callable[[Trace], T]:
    """Decorates a function of a whole trace: the trace keeps the result under the function's name, so later
    calls are free. The result is shared: read-only."""

    @wraps(make)
    def cached(trace: Trace) -> T:
        found: T = trace.derived.get(make.__name__, _NONE)
        if found is _NONE:  # even if another thread drops the result in the meantime, return it
            found = trace.derived[make.__name__] = make(trace)
        return found

    return cached


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Trace:
    """One profile. The columns have one row per slice, sorted by (lane, start, longest first)."""

    info: TraceInfo
    names: Sequence[str]
    """Every distinct name. Already made safe to show (no control characters, no escapes, no bidi marks)."""
    categories: tuple[str, ...]
    """Every distinct category, as spelled in the file. Safe to show."""
    processes: tuple[Process, ...]
    lanes: tuple[Lane, ...]
    """In display order: CPU threads, then each device's lanes; empty lanes are left out."""

    start: I64
    duration: I64
    name: I32
    category: I16
    kind: I8
    """`Kind` of the category."""
    lane: I32
    depth: I32
    """The row within the lane, 0 at the top. Slices of one row never overlap."""
    parent: I32
    """The nearest slice of the lane that contains this one wholly, or -1."""
    correlation: I64
    """`args.correlation`, or NO_ID."""
    external_id: I64
    """`args["External id"]`, or NO_ID."""
    launch: I32
    """For a device event: the runtime slice that launched it (same correlation), or -1. -1 for all others."""
    op: I32
    """For a device or runtime event: the op whose id equals its `External id`, or -1. -1 for all others."""
    source: I64
    """Where the event lies in the file, for `args`."""

    flow_from: I32
    flow_to: I32
    """Flows between slices other than launch -> device event: forward -> backward, from node to node of a
    graph, and unknown kinds."""
    flow_kind: tuple[str, ...]
    """The category of flow i is `flow_kind[flow_category[i]]`, e.g. "fwdbwd", or `GRAPH_DEPENDENCY`."""
    flow_category: I8

    instants: Instants
    counters: Counters
    notices: tuple[Notice, ...]
    implausible: Bool
    """Slices that cannot be as the file says (kept, but left out of `first_view` and averages)."""
    phases: Mapping[str, int]
    """Events read, by phase letter ("X", "M", ...); their sum is the number of events in the file."""
    first_view: tuple[int, int]
    """The time range (start, end) to show first: everything that matters, without stray events."""
    reader: EventReader
    clipped: frozenset[int] = frozenset()
    """Device work whose duration in the file is impossible: cut where the next work in its stream begins."""
    derived: dict[str, Any] = field(default_factory=dict, init=False, repr=False)
    """Results that are needed again and again, by name: see `cached_on_trace`."""

    def __len__(self) -> int:
        return len(self.start)

    @property
    def events(self) -> int:
        """Number of events in the file, of every phase."""
        return sum(self.phases.values())

    @property
    @cached_on_trace
    def span(self) -> tuple[int, int]:
        """First start and last end of all plausible slices; (0, 0) if there are none."""

        def ends(part: slice) -> tuple[int, int] | None:
            start, duration, odd = self.start[part], self.duration[part], self.implausible[part]
            if odd.any():
                start, duration = start[~odd], duration[~odd]
            return (int(start.min()), int((start + duration).max())) if len(start) else None

        found = [one for one in map_blocks(len(self), ends) if one]
        return (min(a for a, _ in found), max(b for _, b in found)) if found else (0, 0)

    @property
    def cut_off(self) -> bool:
        """Whether the end of the file is missing. PyTorch writes launches and device events last, and not in
        the order of time: any of them may be missing."""
        return any(notice.kind in _CUT for notice in self.notices)

    @property
    def of_several_writers(self) -> bool:
        """Whether nobody can tell which process the work of a device belongs to."""
        return any(notice.kind == SEVERAL_WRITERS for notice in self.notices)

    def rank_of(self, device: int) -> str:
        """The rank that the device belongs to, in a file merged from several ranks; "" in others."""
        return self._ranks().get(device, "")

    @cached_on_trace
    def _ranks(self) -> dict[int, str]:
        return {p.device: p.rank for p in reversed(self.processes)}

    def device_called(self, device: int) -> str:
        """The device's name as its process gives it, with its index: "GPU 0", "NPU 1"."""
        return f"{self._device_words().get(device, 'GPU')} {device}"

    @cached_on_trace
    def _device_words(self) -> dict[int, str]:
        device_words: dict[int, str] = {}
        for p in self.processes:
            word = _DEVICE_WORD.search(p.labels) or _DEVICE_WORD.search(p.name)
            device_words.setdefault(p.device, word[0] if word else "GPU")
        return device_words

    def is_kind(self, *kinds: Kind, of: slice = slice(None)) -> Bool:
        """Mask of the slices of any of these kinds, by default of all. `np.isin` takes ten times as long."""
        column = self.kind[of]
        mask = np.zeros(len(column), dtype=np.bool_)
        for kind in kinds:
            mask |= column == int(kind)  # an `int` is compared as an int8, a `Kind` as an int64
        return mask

    def end_of(self, at: I32 | I64 | list[int] | slice) -> I64:
        """The ends of some slices, int64, ns from the trace's zero."""
        end: I64 = self.start[at] + self.duration[at]
        return end

    def name_of(self, i: int) -> str:
        """The name of slice i, safe to show."""
        return self.names[int(self.name[i])]

    def event(self, i: int) -> dict[str, Any]:
        """The whole JSON object of slice i, read again from the file: NOT safe to show as it is."""
        return self.reader.read([int(self.source[i])])[0]

    def args(self, i: int) -> dict[str, Any]:
        """The `args` of slice i ({} where it has none): NOT safe to show as it is."""
        args = self.event(i).get("args")
        return args if isinstance(args, dict) else {}

    def args_of(self, indices: Sequence[int] | I32 | I64) -> list[dict[str, Any]]:
        """The `args` of many slices at once: each chunk of the file is decoded once."""
        return self.args_of_sources([int(s) for s in self.source[np.asarray(indices, dtype=np.int64)]])

    def args_of_sources(self, sources: Sequence[int]) -> list[dict[str, Any]]:
        """Like `args_of`, for `source` values (of slices or of instants)."""
        events = self.reader.read(sources)
        return [a if isinstance(a := e.get("args"), dict) else {} for e in events]

    def args_in_turn(self, indices: I32 | I64) -> Iterator[tuple[int, dict[str, Any]]]:
        """(position in `indices`, `args`) of very many slices, in the order of the file, so that each chunk
        is decoded once, and in small batches: all at once would take memory that is never freed. Keys go
        first."""
        for at, event in self.events_in_turn(indices):
            args = event.get("args")
            yield at, args if isinstance(args, dict) else {}

    def events_in_turn(self, indices: I32 | I64) -> Iterator[tuple[int, dict[str, Any]]]:
        """Like `args_in_turn`, for the whole JSON objects."""
        sources = self.source[indices]
        order = np.argsort(sources, kind="stable")
        for first in range(0, len(order), AT_ONCE):
            threads.yield_to_ui()
            part = order[first : first + AT_ONCE]
            yield from zip(part.tolist(), self.reader.read(sources[part].tolist()), strict=True)

    def children(self, i: int) -> I64:
        """Indices of the slices whose parent is i, in order of time."""
        lane = self.lanes[int(self.lane[i])]
        # Children follow their parent in the column order and start before it ends.
        stop = lane.first + int(
            np.searchsorted(self.start[lane.first : lane.last], self.start[i] + max(1, self.duration[i]))
        )
        return np.flatnonzero(self.parent[i + 1 : stop] == i) + (i + 1)
