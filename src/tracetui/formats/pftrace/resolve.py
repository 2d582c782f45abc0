"""What the numbers of events refer to: names, categories, tracks and counters, as the file describes them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct, field

from tracetui.formats.pftrace import schema as s
from tracetui.formats.pftrace.arguments import of_event, of_stage
from tracetui.formats.pftrace.schema import Key, Numbers, Special
from tracetui.formats.pftrace.wire import Malformed, Value, fields, flat, parts, signed, text
from tracetui.formats.store import Head
from tracetui.formats.transfers import BARE, full_name

OVERHEAD = 2147483647
"""The process that Cuspy gives to the profiler's own work, and the thread of what waits on no stream."""
ALONE = "Tracks"
"""The process of the tracks that belong to none."""
_NONE = -1
_MOST_CATEGORIES = 16
_DEEPEST = 64
_EACH = 512
_OF_KINETO = {
    "Kernel": "kernel", "Memcpy": "gpu_memcpy", "Memset": "gpu_memset", "Annotation": "gpu_user_annotation",
    "EventRecord": "graph_event_node", "HostNode": "graph_host_node",
}  # fmt: skip
"""Cuspy's kinds of GPU work, and the categories that it writes in JSON."""
_OF_CPU = frozenset({"cpu_op", "user_annotation", "cuda_runtime", "cuda_driver"})
_COMPUTE = 2
_ARCHITECTURE = re.compile(r"sm_(\d{1,2})(\d)[a-z]?")
_UNITS = {1: "ns", 2: "count", 3: "bytes"}
_SORTED_LAST = 5_000_000
"""Kineto's `process_sort_index` of device 0."""
_NAME_FIELD = {
    s.CATEGORIES: 2,
    s.EVENT_NAMES: 2,
    s.ANNOTATIONS: 2,
    s.STRING_VALUES: 2,
    s.KERNELS: 3,
    s.ARGUMENTS: 2,
}
"""Which field has the name, by the field of InternedData."""


Place = tuple[int | str, int | str]
"""(pid, tid)."""


class Track(Struct):
    """A TrackDescriptor."""

    parent: int | None = None
    name: str = ""
    pid: int | None = None
    tid: int | None = None
    thread_name: str = ""
    counter: bool = False
    unit: str = ""
    multiplier: int = 1
    incremental: bool = False


class Described(Struct):
    """All that the file describes."""

    interned: dict[int, dict[int, dict[int, str]]] = field(default_factory=dict)
    """By epoch, field of InternedData and iid."""
    stages: dict[int, dict[int, tuple[str, int]]] = field(default_factory=dict)
    """(name, category) of kinds of GPU work and of queues, by epoch (-1: those without one) and iid."""
    queues: dict[int, str] = field(default_factory=dict)
    """Names of the queues that have no iid."""
    counters: dict[str, dict[int, str]] = field(default_factory=dict)
    """Names of counters, by epoch and iid of their descriptor, or device."""
    tracks: dict[int, Track] = field(default_factory=dict)
    processes: dict[int, str] = field(default_factory=dict)
    labels: dict[int, str] = field(default_factory=dict)
    sequences: dict[int, Track] = field(default_factory=dict)
    """The threads of sequences."""
    defaults: dict[int, tuple[int | None, int | None]] = field(default_factory=dict)
    """The track and the clock of what names none, by epoch."""
    gpus: list[dict[str, Any]] = field(default_factory=list)
    architectures: dict[int, str] = field(default_factory=dict)
    """Of devices: "sm_90"."""
    groups: list[dict[str, Any]] = field(default_factory=list)
    """The arguments of the first collectives."""
    threads: dict[str, str] = field(default_factory=dict)
    """Names of threads, by process and thread."""
    held: int = 0
    """About how many bytes all this takes."""
    bad_texts: int = 0
    """Texts that are not UTF-8."""
    twice: int = 0
    """Numbers that were given to a second text."""
    broken: int = 0


def _number(value: Value | None, default: int = 0) -> int:
    return signed(value) if isinstance(value, int) else default


def _int32(value: Value | None) -> int:
    return ((_number(value) & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000


def describe(found: Described, data: bytes, special: Special) -> None:
    """Add what a special field of a packet describes; `data` has its bytes between `begin` and `end`."""
    span = special.begin, special.end
    found.held += _EACH + 4 * (special.end - special.begin)
    try:
        if special.number == s.INTERNED:
            _interned(found, data, span, special.epoch)
        elif special.number == s.TRACK:
            _track(found, data, span)
        elif special.number == s.DEFAULTS:
            about = flat(data, span)
            events = flat(data, about.get(s.TRACK_EVENT, 0))
            track, clock = events.get(11), about.get(s.CLOCK)
            found.defaults[special.epoch] = (
                signed(track) if isinstance(track, int) else None,
                clock if isinstance(clock, int) else None,
            )
        elif special.number == s.PROCESS_TREE:
            _process_tree(found, data, span)
        elif special.number in (s.THREAD, s.PROCESS):
            of = found.sequences.setdefault(special.sequence, Track())
            (_thread if special.number == s.THREAD else _process)(found, of, data, span)
        elif special.number == s.GPU_COUNTERS:
            about = flat(data, span)
            if 4 not in about:
                _descriptor(found, data, about.get(1, 0), f"gpu {_int32(about.get(3))}")
        elif special.number == s.GPU_STAGE:
            for one in parts(data, span, 7):
                _legacy_specifications(found, data, one)
            args = of_stage(data, span, lambda number, iid: "")
            gpu = args.get("device", _int32(flat(data, span).get(11)))
            if isinstance(gpu, int) and args.get("arch"):
                found.architectures.setdefault(gpu, str(args["arch"]))
        elif special.number == s.TRACK_EVENT:
            names = found.interned.get(special.epoch, {})
            found.groups.append(of_event(data, span, lambda number, iid: names.get(number, {}).get(iid, "")))
        elif special.number == s.GPU_INFO:
            for one in parts(data, span, 1):
                about = flat(data, one)
                name = text(data, about.get(3, 0)) or text(data, about.get(1, 0))
                found.gpus.append({"id": len(found.gpus), **({"name": name} if name else {})})
    except Malformed:
        found.broken += 1


def _interned(found: Described, data: bytes, span: tuple[int, int], epoch: int) -> None:
    tables = found.interned.setdefault(epoch, {})
    for number, _, value in fields(data, *span):
        if not isinstance(value, tuple):
            continue
        about = (
            flat(data, value)
            if number in _NAME_FIELD or number in (s.SPECIFICATIONS, s.CONTEXTS, s.DESCRIPTORS)
            else {}
        )
        iid = _number(about.get(1))
        if number in _NAME_FIELD:
            name = text(data, about.get(_NAME_FIELD[number], 0))
            found.bad_texts += "\ufffd" in name
            if tables.setdefault(number, {}).setdefault(iid, name) != name:
                found.twice += 1
        elif number == s.SPECIFICATIONS:
            stage = text(data, about.get(2, 0)), _number(about.get(4))
            if found.stages.setdefault(epoch, {}).setdefault(iid, stage) != stage:
                found.twice += 1
        elif number == s.CONTEXTS:
            tables.setdefault(number, {}).setdefault(iid, str(_int32(about.get(2))))
        elif number == s.DESCRIPTORS:
            _descriptor(found, data, about.get(2, 0), f"{epoch} {iid}")


def _descriptor(found: Described, data: bytes, span: Value, of: str) -> None:
    names = found.counters.setdefault(of, {})
    for one in parts(data, span, 1):
        about = flat(data, one)
        names.setdefault(_number(about.get(1)) & 0xFFFFFFFF, text(data, about.get(2, 0)))


def _legacy_specifications(found: Described, data: bytes, span: tuple[int, int]) -> None:
    """Kinds and queues that are numbered in the order in which they are listed."""
    stages = found.stages.setdefault(_NONE, {})
    for one in parts(data, span, 3):
        stages.setdefault(len(stages), (text(data, flat(data, one).get(1, 0)), 0))
    for one in parts(data, span, 2):
        found.queues.setdefault(len(found.queues), text(data, flat(data, one).get(1, 0)))


def _thread(found: Described, track: Track, data: bytes, span: Value) -> None:
    about = flat(data, span)
    track.pid, track.tid = _int32(about.get(1)), _number(about.get(2))
    track.thread_name = text(data, about.get(5, 0))
    if track.thread_name:
        found.threads.setdefault(f"{track.pid} {track.tid}", track.thread_name)


def _process(found: Described, track: Track, data: bytes, span: Value) -> None:
    if not isinstance(span, tuple):
        return
    about = flat(data, span)
    pid = _int32(about.get(1))
    if track.pid is None:
        track.pid = pid
    name = text(data, about.get(6, 0)) or text(data, next(parts_of(data, span, 2), 0)).rpartition("/")[2]
    if name:
        found.processes.setdefault(pid, name)
    labels = ", ".join(text(data, one) for one in parts_of(data, span, 8))
    if labels:
        found.labels.setdefault(pid, labels)


def parts_of(data: bytes, span: Value, number: int) -> Iterator[Value]:
    """Like `parts`, for texts."""
    yield from parts(data, span, number)


def _track(found: Described, data: bytes, span: tuple[int, int]) -> None:
    about = flat(data, span)
    track = found.tracks.setdefault(_number(about.get(1)), Track())
    if 5 in about:
        track.parent = _number(about[5])
    for number in (13, 10, 2):
        track.name = text(data, about.get(number, 0)) or track.name
    if 3 in about:
        _process(found, track, data, about[3])
    if 4 in about:
        _thread(found, track, data, about[4])
    if 8 in about:
        counter = flat(data, about[8])
        track.counter = True
        track.unit = text(data, counter.get(6, 0)) or _UNITS.get(_number(counter.get(3)), "")
        track.multiplier = _number(counter.get(4), 1) or 1
        track.incremental = bool(counter.get(5))


def _process_tree(found: Described, data: bytes, span: tuple[int, int]) -> None:
    for one in parts(data, span, 1):
        about = flat(data, one)
        name = text(data, next(parts_of(data, one, 3), 0)).rpartition("/")[2]
        if name:
            found.processes.setdefault(_int32(about.get(1)), name)
    for one in parts(data, span, 2):
        about = flat(data, one)
        name = text(data, about.get(2, 0))
        if name:
            found.threads.setdefault(f"{_int32(about.get(3))} {_int32(about.get(1))}", name)


class Resolver:
    """Says what keys mean."""

    def __init__(self, described: Described) -> None:
        self.described = described
        self.unresolved = 0
        """Names and tracks that the file does not describe."""

    def interned(self, epoch: int, number: int, iid: int) -> str:
        """What was interned; "" if nothing was."""
        found = self.described.interned.get(epoch, {}).get(number, {}).get(iid)
        if found is None:
            self.unresolved += 1
        return found or ""

    def texts(self, known: Numbers) -> list[str]:
        """The texts of all names and categories."""
        strings = list(known.strings)
        found: list[str] = []
        for kind, one, two, three, *rest in known.refs:
            if kind == s.NAMED:
                found.append(strings[one].decode("utf-8", "replace"))
            elif kind == s.INTERNED_NAME:
                found.append(self.interned(one, two, three))
            elif kind == s.BOTH:
                found.append("")  # see `category_of`
            elif kind == s.SYNC:
                found.append("cuda_sync")
            elif kind == s.TRANSFER:
                said = zip(s.WORDS, (two, three, *rest), strict=True)
                args = {word.decode(): strings[at].decode("utf-8", "replace") for word, at in said if at >= 0}
                found.append(full_name(found[one], args) if found[one] in BARE else found[one])
            else:
                name, category = self.stage(one, two, three)
                found.append(name if kind == s.STAGE_NAME else self.category(name, category))
        return found

    def stage(self, epoch: int, iid: int, interned: int) -> tuple[str, int]:
        found = self.described.stages.get(epoch if interned else _NONE, {}).get(iid)
        if found is None:
            self.unresolved += 1
        return found or (f"stage {iid}", 0)

    @staticmethod
    def category(name: str, category: int) -> str:
        """The category of a kind of GPU work."""
        return _OF_KINETO.get(name) or ("kernel" if category == _COMPUTE else name)

    def place(self, track: Key) -> Place:
        """Where a track is."""
        kind, *of = track
        if kind == s.STREAM:
            return of[0], of[1]
        if kind == s.QUEUE:
            gpu, epoch, queue, interned = of[:4]
            specifications = self.described.stages.get(epoch, {}) if interned else {}
            name = specifications[queue][0] if queue in specifications else self.described.queues.get(queue)
            return f"GPU {gpu}", name or f"queue {queue}"
        if kind == s.DEFAULT:
            thread = self.described.sequences.get(of[0], Track())
            return self._own(thread) or (ALONE, f"sequence {of[0]}")
        return self._of_uuid(of[0])

    @staticmethod
    def _own(track: Track) -> Place | None:
        if track.tid is not None and track.pid is not None:
            pid = -1 if track.pid == OVERHEAD else track.pid
            return pid, -1 if track.tid == OVERHEAD else track.tid
        return None if track.pid is None else (track.pid, track.name or "process")

    def _of_uuid(self, uuid: int) -> Place:
        path: list[str] = []
        at: int | None = uuid
        for _ in range(_DEEPEST):
            track = self.described.tracks.get(at) if at is not None else None
            if track is None:
                if not path:
                    self.unresolved += 1
                    path = [f"track {uuid & (1 << 64) - 1}"]
                break
            own = self._own(track)
            if own is not None:
                if not path:
                    return own
                if track.tid is not None:
                    path.append(f"thread {track.tid}")
                return own[0], " / ".join(reversed(path))
            path.append(track.name or f"track {(at or 0) & (1 << 64) - 1}")
            at = track.parent
        return ALONE, " / ".join(reversed(path))

    @staticmethod
    def category_of(ref: int, refs: list[Key], texts: list[str]) -> str:
        """The text of a category, or of several."""
        parts: list[str] = []
        while ref >= 0 and refs[ref][0] == s.BOTH and len(parts) < _MOST_CATEGORIES:
            _, ref, other, *_ = refs[ref]
            parts.append(texts[other])
        return ",".join([texts[ref] if ref >= 0 else "", *reversed(parts)])

    @classmethod
    def head(cls, key: Key, refs: list[Key], texts: list[str], places: list[Place]) -> Head:
        """The head of events: see `Numbers.heads`."""
        phase, category, track, *_ = key
        pid, tid = places[track]
        name = cls.category_of(category, refs, texts)
        if chr(phase) in "stf":
            name = "graph dependency" if category == s.DEPENDENCY else "flow"
        elif not name and pid == -1:
            name = "overhead"
        return chr(phase), name, pid, tid

    def counter(
        self, key: Key, tracks: list[Key], places: list[Place]
    ) -> tuple[tuple[str, str, str], int, bool]:
        """((name, "", pid) of a counter, what to multiply its values with, whether they are differences)."""
        if key[0] == s.OF_GPU:
            _, epoch, descriptor, gpu, counter, _ = key
            of = f"{epoch} {descriptor}" if epoch or descriptor else f"gpu {gpu}"
            name = self.described.counters.get(of, {}).get(counter) or f"counter {counter}"
            return (name, "", f"GPU {gpu} Counters"), 1, False
        kind, uuid, *_ = tracks[key[1]]
        track = self.described.tracks.get(uuid) if kind == s.UUID else None
        pid, tid = places[key[1]]
        if track is None:
            return (str(tid), "", str(pid)), 1, False
        name = str(tid) if track.pid is None else track.name or "counter"
        unit = f" ({track.unit})" if track.unit else ""
        return (name + unit, "", str(pid)), track.multiplier, track.incremental

    def metadata(self, heads: list[Head], tracks: list[Key]) -> list[tuple[str, str, str, Any]]:
        """What processes and threads are called, as Kineto writes it."""
        described, found = self.described, list[tuple[str, str, str, Any]]()
        pids = {pid for _, _, pid, _ in heads}
        kinds = {category for _, category, _, _ in heads}
        gpus = {of[0] for kind, *of in tracks if kind == s.STREAM}
        programs = [pid for pid in described.processes if pid in pids and pid not in gpus and pid != OVERHEAD]
        for gpu in gpus if len(programs) == 1 else ():
            found.append(("process_name", str(gpu), "0", described.processes[programs[0]]))
        for pid, name in described.processes.items():
            if pid in gpus and len(programs) == 1:
                continue  # as in JSON, it is called as the program that uses the device
            shown = -1 if pid == OVERHEAD else pid
            if shown in pids:
                found.append(("process_name", str(shown), "0", name))
        for pid, label in described.labels.items():
            found.append(("process_labels", str(pid), "0", label))
        for place, name in described.threads.items():
            pid, tid = map(int, place.split())
            own = self._own(Track(pid=pid, tid=tid))
            if own is not None:
                found.append(("thread_name", str(own[0]), str(own[1]), name))
        others = {f"GPU {of[0]}" for kind, *of in tracks if kind == s.QUEUE}
        found += [("process_labels", gpu, "0", gpu) for gpu in sorted(others)]
        for gpu in gpus:
            found.append(("process_labels", str(gpu), "0", f"GPU {gpu}"))
            found.append(("process_sort_index", str(gpu), "0", _SORTED_LAST + gpu))
        if gpus and not _OF_CPU.isdisjoint(kinds):
            for pid in programs:
                found.append(("process_labels", str(pid), "0", "CPU"))
                found.append(("process_sort_index", str(pid), "0", pid))
        return found


def devices(described: Described) -> tuple[dict[str, Any], ...]:
    """The properties of devices as Kineto names them, as far as the file says them."""
    found: dict[int, dict[str, Any]] = {}
    for gpu, arch in sorted(described.architectures.items()):
        found[gpu] = {"id": gpu, "name": arch}
        if number := _ARCHITECTURE.fullmatch(arch):
            found[gpu] |= {"computeMajor": int(number[1]), "computeMinor": int(number[2])}
    for one in described.gpus:
        found.setdefault(one["id"], {}).update(one)
    return tuple(found.values())


def distributed(described: Described) -> dict[str, Any] | None:
    """The rank that collectives name, and of how many, as Kineto names them."""
    found: dict[str, Any] = {}
    for args in described.groups:
        rank, size, ranks = (args.get(key) for key in ("Rank", "Group size", "Process Group Ranks"))
        if not isinstance(rank, int) or not isinstance(ranks, str):
            continue
        if ranks == "[]":  # the group of all
            return {"rank": rank, **({"world_size": size} if isinstance(size, int) else {})}
        numbers = re.findall(r"\d{1,9}", ranks)
        if 0 <= rank < len(numbers):
            found = {"rank": int(numbers[rank])}
    return found or None
