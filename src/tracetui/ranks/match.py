"""The collectives of a job: the calls of all ranks of a group that are the same, on one clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from tracetui.core.copying import replace
from tracetui.ranks.calls import Key
from tracetui.ranks.clock import Clock, Lines, clocks_of
from tracetui.ranks.order import Line, line_of, places
from tracetui.ranks.summary import RankSummary
from tracetui.trace.model import I64


class Matched(Struct, frozen=True, eq=False):
    """The calls of all matched collectives, by collective and rank. Times in ns on the job's clock.

    Columns of one length, with `first` for where each collective's calls begin (one entry more)."""

    keys: tuple[Key, ...]
    ops: tuple[str, ...]
    """What each collective is. Safe to show."""
    key: I64
    """Of each collective, into `keys`."""
    first: I64
    rank: I64
    place: I64
    """Of each call, in the rank's `Calls`."""
    start: I64
    end: I64
    called: I64
    hidden: I64
    bytes: I64
    """Of each call, NO_NUMBER if not known."""
    unmatched: int
    """Calls that not every rank of their group recorded, and those whose group is not known."""

    def __len__(self) -> int:
        return len(self.first) - 1

    @property
    def of(self) -> I64:
        """The collective of each call."""
        return np.repeat(np.arange(len(self)), np.diff(self.first))

    @property
    def last_start(self) -> I64:
        """When the last rank came to each collective."""
        return _reduced(np.maximum, self.start, self.first)

    @property
    def last(self) -> I64:
        """The call of the rank that came last to each; of several, that of the lowest rank."""
        at = np.flatnonzero(self.start == self.last_start[self.of])
        return at[np.unique(self.of[at], return_index=True)[1]]

    @property
    def wait(self) -> I64:
        """How long each call waited for the last rank."""
        return np.minimum(self.last_start[self.of], self.end) - self.start

    @property
    def transfer(self) -> I64:
        """The shortest duration of each collective over its ranks."""
        return _reduced(np.minimum, self.end - self.start, self.first)


def bus_factor(op: str, many: int) -> float:
    """How many times its bytes a collective of so many ranks sends over each link, as in nccl-tests."""
    name = op.lower().replace("_", "")
    if "allreduce" in name:
        return 2 * (many - 1) / many
    if any(word in name for word in ("allgather", "reducescatter", "alltoall")):
        return (many - 1) / many
    return 1.0


def _reduced(how: np.ufunc, values: I64, first: I64) -> I64:
    found: I64 = how.reduceat(values, first[:-1]) if len(values) else values
    return found


def lines_of(files: Sequence[RankSummary], ranks: Sequence[int]) -> Lines:
    """The calls of each key on each rank that has any, for keys that several ranks share."""
    ops: dict[tuple[str, int], int] = {}
    found: dict[Key, dict[int, Line]] = {}
    for file, rank in zip(files, ranks, strict=True):
        for i, key in enumerate(file.calls.keys):
            found.setdefault(key, {})[rank] = line_of(file.calls, i, ops, rank)
    return {key: by_rank for key, by_rank in found.items() if len(by_rank) > 1}


def match(
    files: Sequence[RankSummary], ranks: Sequence[int], lines: Lines, clocks: Mapping[int, Clock]
) -> Matched:
    """The collectives that every rank of their group has recorded, by the time of their end."""
    by_rank = dict(zip(ranks, files, strict=True))
    rows: list[I64] = []
    for number, (key, of) in enumerate(lines.items()):
        wanted = (
            sorted({*key.ranks} & {*ranks}) if key.ranks else [*ranks] if key.kind == "all" else sorted(of)
        )
        if len(wanted) > 1 and all(rank in of for rank in wanted):
            rows += _same(number, key, {rank: _moved(of[rank], clocks[rank]) for rank in wanted}, by_rank)
    total = sum(len(file.calls) + file.calls.unknown for file in files)
    table = np.concatenate(rows) if rows else np.zeros((0, 4), np.int64)
    columns: dict[str, I64] = {}
    for name in ("start", "end", "called", "hidden", "bytes"):
        columns[name] = np.empty(len(table), np.int64)
        for rank, file in by_rank.items():
            mine = np.flatnonzero(table[:, 2] == rank)
            values = getattr(file.calls, name)[table[mine, 3]]
            columns[name][mine] = values if name in ("hidden", "bytes") else clocks[rank].on(values)
    # By key and number, then by end: the order in which they were done.
    group, first = np.unique(table[:, :2], axis=0, return_index=True) if len(table) else (table, [])
    first = np.append(np.asarray(first, np.int64), len(table)).astype(np.int64)
    ends = _reduced(np.maximum, columns["end"], first)
    order = np.argsort(ends, kind="stable")
    many = np.diff(first)[order]
    rows_of = np.concatenate([np.zeros(0, np.int64), *(np.arange(first[i], first[i + 1]) for i in order)])
    rank_of, place_of = table[rows_of, 2], table[rows_of, 3]
    begins = np.append(0, np.cumsum(many)).astype(np.int64)
    ops = []
    for i in begins[:-1].tolist():
        calls = by_rank[int(rank_of[i])].calls
        ops.append(calls.ops[calls.op[place_of[i]]])
    return Matched(
        tuple(lines),
        tuple(ops),
        group[order, 0] if len(table) else np.zeros(0, np.int64),
        begins,
        rank_of,
        place_of,
        **{name: values[rows_of] for name, values in columns.items()},
        unmatched=total - len(table),
    )


def _moved(line: Line, clock: Clock) -> Line:
    return replace(line, start=clock.on(line.start), end=clock.on(line.end))


def _same(number: int, key: Key, lines: Mapping[int, Line], files: Mapping[int, RankSummary]) -> list[I64]:
    """Rows of (key, number, rank, place in the rank's calls) of the collectives that all of these have."""
    reference, *others = lines
    base = lines[reference]
    at = {reference: np.arange(len(base))}
    for rank in others:
        place = places(base, lines[rank])
        if place is None:
            return []
        at[rank] = place
    count = np.zeros(len(base), np.int64)
    for place in at.values():
        inside = place[(place >= 0) & (place < len(base))]
        count[inside] += 1
    wanted = count == len(lines)
    if key.kind == "all":  # by name and order alone, so that only what ran together is the same
        begun, done = np.full(len(base), np.iinfo(np.int64).min), np.full(len(base), np.iinfo(np.int64).max)
        for rank, place in at.items():
            mine = np.flatnonzero((place >= 0) & (place < len(base)))
            begun[place[mine]] = np.maximum(begun[place[mine]], lines[rank].start[mine])
            done[place[mine]] = np.minimum(done[place[mine]], lines[rank].end[mine])
        wanted &= begun <= done
    rows = []
    for rank, place in at.items():
        mine = np.flatnonzero((place >= 0) & (place < len(base)))
        mine = mine[wanted[place[mine]]]
        calls = files[rank].calls
        own = np.flatnonzero(calls.key == calls.keys.index(key))[mine]
        columns = (np.full(len(mine), number), place[mine], np.full(len(mine), rank), own)
        rows.append(np.stack(columns, axis=1).astype(np.int64))
    table = np.concatenate(rows)
    return [table[np.lexsort((table[:, 2], table[:, 1]))]]


def matched_of(files: Sequence[RankSummary], ranks: Sequence[int]) -> tuple[Matched, dict[int, Clock]]:
    """The collectives of a job and its clocks. `ranks`: of each file, in ascending order."""
    lines = lines_of(files, ranks)
    clocks = clocks_of(files, ranks, lines)
    return match(files, ranks, lines, clocks), clocks
