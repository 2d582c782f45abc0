"""The numbers of Perfetto's fields, and the tables and columns that both decoders fill.

What an event refers to (a name, a track, a clock) may be described later in the file. So the
decoders number what is referred to, by keys of six integers, and `resolve.py` says in the end what each one
means.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct, field

from tracetui.core.columns import Columns
from tracetui.formats.store import COUNTER_COLUMNS, POINT_COLUMNS, SLICE_COLUMNS, Numbered

Key = tuple[int, int, int, int, int, int]

LONGEST = 1 << 26
"""Bytes of a packet at most."""
MOST_NUMBERS = 256
"""How many flows, waits or samples of one event are read."""
MOST_SKIPPED = 64
"""How many fields of a packet that are not read are told apart."""
LONGEST_WORD = 20
"""Bytes of what a copy or a memset is named by at most."""

# -- fields of TracePacket
PROCESS_TREE, CLOCKS, TIME, SEQUENCE, TRACK_EVENT, INTERNED, FLAGS = 2, 6, 8, 10, 11, 12, 13
CLEARED, DROPPED, PROCESS, THREAD, DEFLATED, GPU_COUNTERS, GPU_STAGE = 41, 42, 43, 44, 50, 52, 53
CLOCK, DEFAULTS, TRACK, GPU_INFO, ZSTD = 58, 59, 60, 128, 133
SPECIAL = frozenset({PROCESS_TREE, INTERNED, PROCESS, THREAD, DEFAULTS, TRACK, GPU_INFO})
"""Packets that describe something: `resolve.py` reads them. So it does the first GPU work of each track and
the first collectives: they name the device and the rank."""
SILENT = frozenset({
    3, 33, 34, 35, 36, 45, 46, 47, 48, 51, 67, 69, 72, 78, 79, 87, 89, 90, 98, 107, 109, 113, 123, 124, 126,
    138,
})  # fmt: skip
"""About the recording itself: no events."""
PACKETS = {
    1: "ftrace_events", 5: "chrome_events", 7: "sys_stats", 9: "process_stats", 37: "profile_packet",
    38: "battery", 39: "android_log", 40: "power_rails", 50: "compressed_packets", 61: "module_symbols",
    62: "vulkan_memory_event", 63: "gpu_log", 65: "vulkan_api_event", 66: "perf_sample", 68: "smaps_packet",
    70: "initial_display_state", 71: "gpu_mem_total_event", 73: "memory_tracker_snapshot",
    74: "streaming_allocation", 75: "streaming_free", 95: "etw_events", 133: "zstd_compressed_packets",
    135: "stack_sample",
}  # fmt: skip
"""What kinds of packets that are not read are called."""
MOST_GROUPS = 64
"""How many collectives are looked at for the rank."""
OTHER_FIELD = 1024
"""Stands for all larger numbers of fields."""
OTHER_EVENT = 1025
"""Stands for a track event of a type that is not read."""
OTHER_NUMBERS = 1026
"""Stands for what one event has beyond `MOST_NUMBERS`."""

# -- kinds of keys, each the first number of one
NAMED, INTERNED_NAME, BOTH, STAGE_NAME, OF_STAGE, SYNC, TRANSFER = range(7)
"""Of names and categories: (string), (epoch, field of InternedData, iid), (one, other), (epoch, iid or legacy
number, whether interned): name or category of a kind of GPU work, what has a `cuda_sync_kind`, and (name, the
strings of `WORDS`): a copy or a memset."""
WORDS = b"memory kind", b"copy kind", b"src kind", b"dst kind"
"""What copies and memsets are named by."""
UUID, STREAM, QUEUE, DEFAULT = range(4)
"""Of tracks: (uuid), (device, stream), (device, epoch, iid or legacy number, whether interned),
(sequence)."""
OF_TRACK, OF_GPU = range(2)
"""Of counters: (track, clock), (epoch, iid of the descriptor, device, counter, clock)."""
CATEGORIES, EVENT_NAMES, ANNOTATIONS, CONTEXTS, SPECIFICATIONS, STRING_VALUES = 1, 2, 3, 23, 24, 29
DESCRIPTORS, KERNELS, ARGUMENTS = 47, 1000, 1001
"""Fields of InternedData."""
NO_REF = -1
DEPENDENCY = -2
"""The category of flows between GPU work."""
BOOTTIME = 6
OF_A_SEQUENCE = range(64, 128)
"""Numbers of clocks that mean something in one sequence only."""

BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4
STAGE_COLUMNS = {"event": np.int64, "row": np.int64}
WAIT_COLUMNS = {"event": np.int64, "row": np.int64}
END_COLUMNS = {"head": np.int32, "row": np.int32, "start": np.int64}
FILLED_COLUMNS = {"end": np.int64, "place": np.int64}
COLUMNS: dict[str, dict[str, Any]] = {
    "slices": SLICE_COLUMNS,
    "ends": END_COLUMNS,
    "filled": FILLED_COLUMNS,
    "points": POINT_COLUMNS,
    "counters": COUNTER_COLUMNS,
    "stages": STAGE_COLUMNS,
    "waits": WAIT_COLUMNS,
}
"""`source` is the offset of the packet. Of a begin, the duration is NO_TIME. `ends` are those of slices, with
how many slices came before them; `filled` those with arguments, and where they are; `stages` and `waits` have
the numbers of GPU events, and rows among the slices."""


Table = dict[str, Columns]


def tables() -> Table:
    """Empty columns of every kind, by the names in `COLUMNS`."""
    return {name: Columns(kinds) for name, kinds in COLUMNS.items()}


class Special(Struct, frozen=True):
    """A field of a packet that describes something."""

    number: int
    epoch: int
    sequence: int
    begin: int
    end: int


class Decoded(Struct):
    """What was decoded of some text."""

    consumed: int
    """Bytes of whole packets."""
    state: str
    """Why there are no more: "room" (call again), "end" (of the text: the last packet is not whole, or there
    is none), "lost" (no packet begins here), "long" (the packet is larger than `LONGEST`)."""
    specials: list[Special]
    snapshots: list[tuple[int, int, int]]
    """(number of the snapshot, clock, its time in ns)."""


class Numbers(Struct):
    """What the events refer to, numbered in order of first use."""

    strings: Numbered[bytes] = field(default_factory=Numbered)
    refs: Numbered[Key] = field(default_factory=Numbered)
    tracks: Numbered[Key] = field(default_factory=Numbered)
    heads: Numbered[Key] = field(default_factory=Numbered)
    """(phase, category, track, clock)."""
    series: Numbered[Key] = field(default_factory=Numbered)
    clocks: Numbered[Key] = field(default_factory=Numbered)
    """(number, sequence or 0)."""
    epochs: Numbered[Key] = field(default_factory=Numbered)
    """(sequence, offset): what a sequence has interned is known until its next epoch."""
    skipped: dict[int, list[int]] = field(default_factory=dict)
    """Number of a field that is not read to (how often, where first)."""
    found: dict[str, list[int]] = field(default_factory=dict)
    """What is wrong, by kind of notice: (how often, where first)."""


def key(*parts: int) -> Key:
    """A key from fewer numbers."""
    return (*parts, *(0,) * (6 - len(parts)))  # type: ignore[return-value]
