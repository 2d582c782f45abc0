"""Assigns events to lanes, and names and orders the lanes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tracetui.formats.store import Head
from tracetui.safe_text import plain
from tracetui.trace.categories import CATEGORY_KINDS
from tracetui.trace.model import DEVICE_WORK, I8, I32, Kind, Lane, Process

_DEVICE_LABEL = re.compile(r"(?:GPU|MTIA|XPU|HPU|NPU|TPU|DEVICE)\b", re.IGNORECASE)
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
_LABEL_LIMIT = 300


@dataclass(slots=True)
class Labels:
    """What metadata events say about one process."""

    name: str = ""
    labels: str = ""
    sort_index: int = 0
    threads: dict[str, str] = field(default_factory=dict)
    order: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plan:
    """Lanes without their slices, and tables that map heads to lanes and kinds."""

    processes: tuple[Process, ...]
    lanes: tuple[Lane, ...]
    """In display order; `first`, `last` and `rows` are zero."""
    lane_of_head: I32
    """-1 where there is no such lane."""
    kind_of_head: I8


def read_labels(metadata: Iterable[tuple[str, str, str, Any]]) -> dict[str, Labels]:
    """Labels by pid. Later metadata overrides earlier."""
    found: dict[str, Labels] = {}
    for name, pid, tid, value in metadata:
        entry = found.setdefault(pid, Labels())
        text = value.strip() if isinstance(value, str) else ""
        number = value if isinstance(value, int) and abs(value) < 1 << 62 else 0
        if name == "process_name":
            entry.name = text
        elif name == "process_labels":
            entry.labels = text
        elif name == "process_sort_index":
            entry.sort_index = number
        elif name == "thread_name":
            entry.threads[tid] = text
        elif name == "thread_sort_index":
            entry.order[tid] = number
    return found


def _number(text: str) -> tuple[int, str]:
    """A sort key: numbers by value, before other text."""
    digits = text.removeprefix("stream ").strip()
    return (int(digits), text) if len(digits) < 19 and digits.lstrip("-").isdecimal() else (1 << 62, text)


def plan_lanes(heads: Sequence[Head], used: Sequence[bool], labels: dict[str, Labels]) -> Plan:
    """Create lanes for the heads that slices use, and map the other heads to them."""
    kinds = np.array([CATEGORY_KINDS.get(head[1].lower(), Kind.OTHER) for head in heads], dtype=np.int8)
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
    devices |= {pid for pid, entry in labels.items() if _DEVICE_LABEL.match(entry.labels)}

    def lane_kind(i: int) -> str:
        if heads[i][0] in ("b", "n"):
            return "async"
        own = own_lanes[i]
        if own:
            return own
        # An unknown category goes with the known ones of its thread.
        on_device = places[i] in streams or (places[i][0] in devices and places[i] not in threads)
        return "stream" if on_device else "thread"

    index = _device_indices(devices)
    wanted = [(*place, lane_kind(i)) for i, place in enumerate(places)]
    keys = dict.fromkeys(wanted[i] for i in taken)
    nothing = Labels()

    def rank(key: tuple[str, str, str]) -> tuple[Any, ...]:
        pid, tid, kind = key
        entry = labels.get(pid, nothing)
        if kind in _DEVICE_LANES:
            return (2, index[pid], _number(tid), _DEVICE_LANES.index(kind))
        process = (kind in ("overhead", "span"), pid in devices, entry.sort_index, _number(pid))
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
        lanes.append(Lane(process, plain(tid, _LABEL_LIMIT), name, kind, device, 0, 0, 0))
    number = {key: i for i, key in enumerate(ordered)}
    lane_of_head = np.full(len(heads), -1, dtype=np.int32)
    for i, (pid, tid, kind) in enumerate(wanted):
        lane_of_head[i] = number.get((pid, tid, kind), -1)
        if lane_of_head[i] < 0:
            lane_of_head[i] = number.get((pid, tid, "thread"), number.get((pid, tid, "stream"), -1))
    made = tuple(
        _process(pid, labels.get(pid, Labels()), index[pid] if on_device else -1)
        for pid, on_device in processes
    )
    return Plan(made, tuple(lanes), lane_of_head, kinds)


def _device_indices(devices: set[str]) -> dict[str, int]:
    """A device's pid is its index; other pids take the lowest free indices."""
    index: dict[str, int] = {}
    for pid in sorted(devices, key=_number):
        value = _number(pid)[0]
        if not 0 <= value < 1 << 20:
            value = next(i for i in range(len(devices) + 1) if i not in index.values())
        index[pid] = value
    return index


def _process(pid: str, entry: Labels, device: int) -> Process:
    name, labels = (plain(text, _LABEL_LIMIT) for text in (entry.name, entry.labels))
    return Process(plain(pid, _LABEL_LIMIT), name, labels, entry.sort_index, device)


def _lane_name(tid: str, kind: str, given: str) -> str:
    tid, given = plain(tid, _LABEL_LIMIT).strip(), plain(given, _LABEL_LIMIT).strip()
    if kind in ("overhead", "span"):
        return "profiler overhead" if kind == "overhead" else "spans"
    if kind == "async":
        return f"async {tid}".strip()
    word = "thread" if kind == "thread" else "stream"
    if given and (tid in given or given.startswith(word)):
        name = given
    elif tid.startswith(word) or (tid and not tid.lstrip("-").isdecimal()):
        name = tid
    else:
        name = f"{word} {tid} ({given})" if given else f"{word} {tid}"
    if kind == "gpu_annotation":
        return f"{name} annotations"
    return f"{name} sync" if kind == "sync" and "sync" not in name else name
