"""Assigns events to lanes, and names and orders the lanes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from msgspec import Struct, field

from tracetui.core.safe_text import plain
from tracetui.formats.store import Head
from tracetui.trace.categories import kind_of
from tracetui.trace.model import DEVICE_WORK, I8, I32, Kind, Lane, Process

_DEVICE = r"(?:GPU|MTIA|XPU|HPU|NPU|TPU|MLU|MUSA|DEVICE)"
_DEVICE_LABEL = re.compile(rf"(?:\w+ )?{_DEVICE}(?:\W?(\d{{1,3}})\b.*)?", re.IGNORECASE | re.DOTALL)
"""Matches a whole label: "GPU 0", "Ascend NPU", but not the title of a page about GPUs, as in Chrome's
traces."""
_DEVICE_NAME = re.compile(rf"(?:\d+ )?{_DEVICE} ?(\d{{1,3}})", re.IGNORECASE)
_XLA_DEVICE = re.compile(r"/device:(?!CPU:)\w{1,20}:(\d{1,3})\b")
"""Matches within a name: "/device:TPU:0" of JAX, "/job:localhost/replica:0/task:0/device:GPU:0 Compute"."""
_THREAD_KINDS = (Kind.CPU_OP, Kind.ANNOTATION, Kind.PYTHON, Kind.RUNTIME)
_OWN_LANES: dict[int, str] = {
    **dict.fromkeys(DEVICE_WORK, "stream"),
    Kind.SYNC: "sync",
    Kind.GPU_ANNOTATION: "gpu_annotation",
    Kind.OVERHEAD: "overhead",
    Kind.SPAN: "span",
    **dict.fromkeys(_THREAD_KINDS, "thread"),
}
_DEVICE_LANES = ("gpu_annotation", "stream", "sync")
_ASYNC = ("b", "n")
"""The phases of asynchronous slices and instants: see `pair_async`."""
_PROFILERS = "-1"
"""The pid that Kineto reserves for the profiler's own work; on XPU, threads' waits have it too."""
_NO_STREAM = ("-1", "2147483647")
_NO_STREAM_NAME = "stream -1"
"""Cuspy's waits for no particular stream have this name, and in JSON the tid 1, as if it were a stream."""
_LABEL_LIMIT = 300
_RANK = re.compile(r"\[([^\[\]]{1,60})\]|(rank[ _-]?\d{1,6})(?!\d)", re.IGNORECASE)
"""The prefix that tools which merge the files of several ranks put before the pid (SGLang: "[TP00-DP01] 7")
or before the name of the process ("Rank 3: python")."""


class Labels(Struct):
    """What metadata events say about one process."""

    name: str = ""
    labels: str = ""
    sort_index: int = 0
    threads: dict[str, str] = field(default_factory=dict)
    order: dict[str, int] = field(default_factory=dict)


class Plan(Struct, frozen=True):
    """Lanes without their slices, and tables that map heads to lanes and kinds."""

    processes: tuple[Process, ...]
    lanes: tuple[Lane, ...]
    """In display order; `first`, `last` and `rows` are zero."""
    lane_of_head: I32
    """-1 if there is no such lane."""
    kind_of_head: I8
    rank_of_lane: I32
    """The rank of each lane, in a file of several: ids are unique only within one rank. 0 if there is
    none."""


def _kind(head: Head) -> Kind:
    """The kind of a head. What is asynchronous is in no stream: it keeps no device busy, whatever its
    category."""
    kind = kind_of(head[1], head[2])
    return Kind.OTHER if head[0] in _ASYNC and _OWN_LANES.get(kind) in _DEVICE_LANES else kind


def read_labels(metadata: Iterable[tuple[str, str, str, Any]]) -> dict[str, Labels]:
    """Labels by pid. Later metadata overrides earlier."""
    labels: dict[str, Labels] = {}
    for name, pid, tid, value in metadata:
        entry = labels.get(pid)
        if entry is None:
            entry = labels[pid] = Labels()
        text = value.strip() if isinstance(value, str) else ""
        number = value if isinstance(value, int) and abs(value) < 1 << 62 else 0
        if name == "process_name":
            entry.name = text
        elif name == "process_labels":
            entry.labels = text
        elif name == "process_sort_index":
            entry.sort_index = number
        elif name == "thread_name":
            # Cuspy names the main thread twice: "thread 7 (python)", then "thread 7".
            if not entry.threads.get(tid, "").startswith(f"{text} ("):
                entry.threads[tid] = text
        elif name == "thread_sort_index":
            entry.order[tid] = number
    return labels


def _number(text: str) -> tuple[int, str]:
    """A sort key: numbers by value, before other text."""
    digits = text.removeprefix("stream ").strip()
    return (
        (int(digits), text) if len(digits) < 19 and digits.removeprefix("-").isdecimal() else (1 << 62, text)
    )


def _rank_of(pid: str, entry: Labels) -> tuple[str, str]:
    """(the rank's label, "" for none; the rest of the pid)."""
    if found := _RANK.match(pid):
        return plain(found[1] or found[2], _LABEL_LIMIT).strip(), pid[found.end() :].lstrip(" _:./-")
    found = _RANK.match(entry.name) or _RANK.match(entry.labels)
    return plain(found[1] or found[2], _LABEL_LIMIT).strip() if found else "", pid


def _by_value(text: str) -> list[tuple[int, str]]:
    """A sort key: digits in the text are compared by value."""
    return [(int(n or 0), rest) for n, rest in re.findall(r"(\d{1,18})?(\D+|$)", text)]


def plan_lanes(heads: Sequence[Head], used: Sequence[bool], labels: dict[str, Labels]) -> Plan:
    """Create lanes for the heads that slices use, and map the other heads to them."""
    kinds = np.array([_kind(head) for head in heads], dtype=np.int8)
    places = [(str(head[2]), str(head[3])) for head in heads]
    taken = [i for i, is_used in enumerate(used) if is_used]
    streams, threads, devices = set(), set(), set()
    own_lanes = [_OWN_LANES.get(kind, "") for kind in kinds.tolist()]
    for i in taken:
        own = own_lanes[i]
        if own in _DEVICE_LANES:
            devices.add(places[i][0])
            if own == "stream":
                streams.add(places[i])
        elif own == "thread":
            threads.add(places[i])
    working = set(devices)
    named = {pid: called for pid, entry in labels.items() if (called := _device_named(entry)) is not None}
    devices |= named.keys()

    def lane_kind(i: int) -> str:
        if heads[i][0] in _ASYNC:
            return "async"
        own = own_lanes[i]
        if own:
            return own
        # An unknown category goes to the lane of the known ones of its thread.
        on_device = places[i] in streams or (places[i][0] in devices and places[i] not in threads)
        return "stream" if on_device else "thread"

    wanted = [(*place, lane_kind(i)) for i, place in enumerate(places)]
    keys = dict.fromkeys(wanted[i] for i in taken)
    nothing = Labels()
    ranks = {pid: _rank_of(pid, labels.get(pid, nothing)) for pid, _, _ in keys}
    used_devices = {pid for pid, _, kind in keys if kind in _DEVICE_LANES}
    index = _device_indices(
        {
            pid: ranks[pid] if pid in working else (ranks[pid][0], named[pid] or labels[pid].labels)
            for pid in used_devices
        }
    )

    def rank(key: tuple[str, str, str]) -> tuple[Any, ...]:
        pid, tid, kind = key
        entry = labels.get(pid, nothing)
        if kind in _DEVICE_LANES:
            place = _number("2147483647" if _has_no_stream(tid, kind, entry.threads.get(tid, "")) else tid)
            return (2, index[pid], place, _DEVICE_LANES.index(kind))
        last = kind in ("overhead", "span") or pid == _PROFILERS
        process = (last, pid in devices, entry.sort_index, _number(pid))
        return (*process, kind, tid != pid, entry.order.get(tid, 0), _number(tid))

    ordered = sorted(keys, key=rank)
    processes: dict[tuple[str, bool], int] = {}
    lanes: list[Lane] = []
    for pid, tid, kind in ordered:
        on_device = kind in _DEVICE_LANES
        process = processes.setdefault((pid, on_device), len(processes))
        device = index[pid] if on_device else -1
        given = labels[pid].threads.get(tid, "") if pid in labels else ""
        name = _lane_name(tid, kind, given)
        rank_label = ranks[pid][0]
        name = f"[{rank_label}] {name}" if rank_label else name
        lanes.append(Lane(process, plain(tid, _LABEL_LIMIT), name, kind, device, 0, 0, 0))
    number = {key: i for i, key in enumerate(ordered)}
    lane_of_head = np.full(len(heads), -1, dtype=np.int32)
    for i, (pid, tid, kind) in enumerate(wanted):
        lane_of_head[i] = number.get((pid, tid, kind), -1)
        if lane_of_head[i] < 0:
            lane_of_head[i] = number.get((pid, tid, "thread"), number.get((pid, tid, "stream"), -1))
    made = tuple(
        _process(pid, labels.get(pid, nothing), index[pid] if on_device else -1, ranks[pid][0])
        for pid, on_device in processes
    )
    numbers = {label: n for n, label in enumerate(dict.fromkeys(label for label, _ in ranks.values()))}
    rank_of_lane = np.array([numbers[ranks[pid][0]] for pid, _, _ in ordered], dtype=np.int32)
    return Plan(made, tuple(lanes), lane_of_head, kinds, rank_of_lane)


def _device_named(entry: Labels) -> str | None:
    """The number of the device that a process is named after, "" without a number; None if it is not a
    device."""
    label = _DEVICE_LABEL.fullmatch(entry.labels)
    found = label or _DEVICE_NAME.fullmatch(entry.name) or _XLA_DEVICE.search(entry.name)
    return found and (found[1] or "")


def _device_indices(devices: dict[str, tuple[str, str]]) -> dict[str, int]:
    """The index of each device: its pid (without the rank), or the number in its name. Other devices, and
    those whose index another rank has taken, get the lowest free ones. `devices`: (rank, rest) of each
    pid."""
    index: dict[str, int] = {}
    shared: dict[tuple[str, str], int] = {}
    own = [_number(rest)[0] for _, rest in devices.values()]
    ranked = any(rank for rank, _ in devices.values())
    clash = ranked and len(set(own)) < len(own)
    taken: set[int] = set()
    free = 0
    for pid in sorted(devices, key=lambda pid: (_by_value(devices[pid][0]), _number(devices[pid][1]))):
        value = _number(devices[pid][1])[0]
        if clash or not 0 <= value < 1 << 20:
            while free in taken:  # never lower than before: taken indices stay taken
                free += 1
            value = shared.setdefault(devices[pid], free)
        index[pid] = value
        taken.add(value)
    return index


def _process(pid: str, entry: Labels, device: int, rank: str) -> Process:
    name, labels = (plain(text, _LABEL_LIMIT) for text in (entry.name, entry.labels))
    return Process(plain(pid, _LABEL_LIMIT), name, labels, entry.sort_index, device, rank)


def _has_no_stream(tid: str, kind: str, given: str) -> bool:
    return kind == "sync" and (tid in _NO_STREAM or given.strip() == _NO_STREAM_NAME)


def _lane_name(tid: str, kind: str, given: str) -> str:
    tid, given = plain(tid, _LABEL_LIMIT).strip(), plain(given, _LABEL_LIMIT).strip()
    if kind in ("overhead", "span"):
        return "profiler overhead" if kind == "overhead" else "spans"
    if kind == "async":
        return f"async {tid}".strip()
    if _has_no_stream(tid, kind, given):
        return "sync, no stream"
    word = "thread" if kind == "thread" else "stream"
    given = "" if given == _NO_STREAM_NAME else given
    if given and (tid in given or given.startswith(word)):
        name = given
    elif tid.startswith(word) or (tid and not tid.removeprefix("-").isdecimal()):
        name = tid
    else:
        name = f"{word} {tid} ({given})" if given else f"{word} {tid}".strip()
    if kind == "gpu_annotation":
        return f"{name} annotations"
    return f"{name} sync" if kind == "sync" and "sync" not in name else name
