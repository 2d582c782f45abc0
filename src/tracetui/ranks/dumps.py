"""Dumps of PyTorch's flight recorder: which collective of which group is not complete, and who has not come.

Calls are matched by group and number, as numbers of records differ between ranks. `pg_status` lags behind,
and times of discovery are when somebody looked, so that neither is read; the time of a call is right.
"""

from __future__ import annotations

import ast
import os
import pickle
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from io import BytesIO
from typing import Any

import msgspec
from msgspec import Struct

from tracetui.core.errors import TraceError
from tracetui.core.safe_text import plain

LARGEST = 1 << 30
HEAD = 1 << 16
LEVELS = 3
SCANNED = 20_000
_RANK = re.compile(r"rank[_-]?(\d{1,7})")
_MARKS = (b"pg_config", b"pg_status", b"entries", b"nccl_version", b"comm_lib_version")
_LIBRARY = re.compile(r"[\\/](?:site-packages|dist-packages|lib[\\/]python[\d.]*)[\\/]|^<")


class Call(Struct, frozen=True):
    """A collective that a rank has asked for."""

    group: tuple[str, str]
    """Name and description. Safe to show."""
    number: int
    operation: str
    """Safe to show."""
    state: str
    complete: bool
    created: int
    """When the CPU asked for it, ns since the epoch."""
    sizes: str
    place: str
    """The line of the program that asked for it, "" if not recorded. Safe to show."""


class Dump(Struct, frozen=True):
    """What one rank dumped."""

    path: str
    rank: int
    groups: Mapping[tuple[str, str], tuple[int, ...]]
    """The members of each group."""
    calls: tuple[Call, ...]
    """Those of collectives, in the order in which they were asked for."""


class Stuck(Struct, frozen=True):
    """A collective that is not complete."""

    group: tuple[str, str]
    number: int
    operation: str
    came: Mapping[int, Call]
    """Those who have asked for it."""
    absent: Mapping[int, Call | None]
    """Those who have not: the last call of each, whatever its group."""
    unknown: tuple[int, ...]
    """Members without a dump."""
    differs: bool
    """Whether the ranks ask for different things under this number."""

    @property
    def since(self) -> int:
        return min(call.created for call in self.came.values())


def dumps_in(folder: str) -> list[str]:
    """The dumps in a folder and two levels below it."""
    found: list[str] = []
    seen = 0
    top = folder.rstrip(os.sep).count(os.sep)
    for here, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if here.count(os.sep) - top < LEVELS - 1 and name[0] != "."]
        for name in sorted(names):
            seen += 1
            if seen > SCANNED:
                return found
            if _RANK.search(name) and is_dump(path := os.path.join(here, name)):
                found.append(path)
    return _one_form(found)


def is_dump(path: str) -> bool:
    """Whether a file looks like a dump, by its first bytes."""
    with suppress(OSError), open(path, "rb") as file:
        head = file.read(HEAD)
        kind = head[:1] == b"\x80" or head.lstrip()[:1] == b"{"
        return kind and b"traceEvents" not in head and sum(mark in head for mark in _MARKS) >= 2
    return False


def _one_form(paths: Sequence[str]) -> list[str]:
    """Of a dump as a pickle and as JSON, the pickle, which has the lines of the program."""
    by_stem: dict[str, str] = {}
    for path in sorted(paths, key=lambda path: path.endswith(".json")):
        by_stem.setdefault(os.path.splitext(path)[0], path)
    return sorted(by_stem.values())


class _Plain(pickle.Unpickler):
    """Builds lists, dictionaries, texts and numbers: nothing in a file is ever called."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"asks for {plain(module, 40)}.{plain(name, 40)}")

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("asks for something outside of it")


def read_dump(path: str) -> Dump:
    """Raises TraceError."""
    name = plain(path)
    try:
        with open(path, "rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise TraceError(f"{name}: {(error.strerror or 'cannot be read').lower()}") from None
    if len(data) > LARGEST:
        raise TraceError(f"{name}: is too large for a dump of the flight recorder")
    try:
        value = _Plain(BytesIO(data)).load() if data[:1] == b"\x80" else msgspec.json.decode(data)
    except MemoryError:
        raise
    except Exception as error:  # whatever a hostile pickle provokes
        raise TraceError(f"{name}: cannot be read as a dump: {plain(str(error), 100)}") from None
    named = _RANK.search(os.path.basename(path))
    if named is None:
        raise TraceError(f"{name}: its name does not say which rank it is of")
    if not isinstance(value, dict) or not isinstance(value.get("entries"), list):
        raise TraceError(f"{name}: is no dump of the flight recorder: it has no entries")
    calls = sorted(_calls(value["entries"]), key=lambda call: call.created)
    return Dump(path, int(named[1]), _groups(value), tuple(calls))


def _groups(value: Mapping[str, Any]) -> dict[tuple[str, str], tuple[int, ...]]:
    groups = {}
    config = value.get("pg_config")
    for group in config.values() if isinstance(config, dict) else ():
        if isinstance(group, dict):
            ranks = group.get("ranks")
            if isinstance(ranks, str):
                with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
                    ranks = ast.literal_eval(ranks)
            if isinstance(ranks, (list, tuple)) and all(type(rank) is int for rank in ranks):
                groups[plain(str(group.get("name")), 60), plain(str(group.get("desc")), 60)] = tuple(ranks)
    return groups


def _calls(entries: Sequence[Any]) -> Iterator[Call]:
    for entry in entries:
        if not isinstance(entry, dict) or entry.get("is_p2p"):
            continue
        group, number, created = (
            entry.get(key) for key in ("process_group", "collective_seq_id", "time_created_ns")
        )
        if not isinstance(group, (list, tuple)) or len(group) != 2 or type(number) is not int:
            continue
        state = str(entry.get("state"))
        yield Call(
            (plain(str(group[0]), 60), plain(str(group[1]), 60)),
            number,
            plain(str(entry.get("profiling_name")), 60),
            plain(state, 20),
            # gloo's stay "scheduled" after they are done.
            state == "completed" or entry.get("retired") is True,
            created if type(created) is int and 0 <= created < 1 << 62 else 0,
            plain(str(entry.get("input_sizes")), 100),
            _place(entry.get("frames")),
        )


def _place(frames: Any) -> str:
    """The innermost line that is not of a library."""
    for frame in frames if isinstance(frames, list) else ():
        if isinstance(frame, dict):
            file = str(frame.get("filename"))
            if not _LIBRARY.search(file) and file.endswith(".py"):
                return plain(f"{file}:{frame.get('line')} ({frame.get('name')})", 200)
    return ""


def stuck(dumps: Sequence[Dump]) -> list[Stuck]:
    """The collectives that are not complete, those asked for first at first."""
    by_rank = {dump.rank: dump for dump in dumps}
    reached: dict[tuple[int, tuple[str, str]], int] = {}
    asked: dict[tuple[tuple[str, str], int], dict[int, Call]] = {}
    members: dict[tuple[str, str], set[int]] = {}
    for dump in dumps:
        for group, ranks in dump.groups.items():
            if dump.rank in ranks:
                members.setdefault(group, set()).update(ranks)
        for call in dump.calls:
            key = dump.rank, call.group
            reached[key] = max(reached.get(key, 0), call.number)
            asked.setdefault((call.group, call.number), {})[dump.rank] = call
            members.setdefault(call.group, set()).add(dump.rank)
    found = []
    for (group, number), came in asked.items():
        every = members[group]
        absent = [r for r in sorted(every) if r in by_rank and reached.get((r, group), 0) < number]
        if all(call.complete for call in came.values()):
            continue
        last = {rank: by_rank[rank].calls[-1] if by_rank[rank].calls else None for rank in absent}
        kinds = {(call.operation, call.sizes) for call in came.values()}
        first = min(came.values(), key=lambda call: call.created)
        unknown = tuple(sorted(every - set(by_rank)))
        found.append(Stuck(group, number, first.operation, came, last, unknown, len(kinds) > 1))
    return sorted(found, key=lambda one: one.since)
