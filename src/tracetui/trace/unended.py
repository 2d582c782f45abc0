"""Slices that the profiler ended itself, because they had not ended when it stopped.

PyTorch gives them the stop as their end. An annotation or an op that ends on another thread says so
(`"finished": false`): it is asynchronous, and nobody knows when it ended. A Python frame of a C call that
never returned outlasts its caller, which cannot be: newer versions of PyTorch cut it there on writing, older
files are cut here.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from tracetui.core.columns import Array
from tracetui.core.threads import map_blocks
from tracetui.formats.parsed_file import EventReader
from tracetui.trace.model import I8, I64, Bool, Kind, Trace, cached_on_trace

SPANS = 64
"""So many ends of a recording are looked at: profiles that were joined have several."""
MOST, SOME = 1024, 64
"""The most slices, and frames, whose arguments are read."""


def find_unfinished(
    kind: I8, start: I64, duration: I64, implausible: Bool, source: I64, reader: EventReader
) -> I64:
    """The ops and annotations that had not ended when the profiler stopped. Slices."""
    span = np.flatnonzero(kind == int(Kind.SPAN))[:SPANS]
    stops = np.unique(start[span] + duration[span]).tolist()
    if not stops:
        return np.zeros(0, np.int64)

    def look(part: slice) -> I64:
        ours = (kind[part] == int(Kind.CPU_OP)) | (kind[part] == int(Kind.ANNOTATION))
        at = part.start + np.flatnonzero(ours & ~implausible[part])
        begin, end = start[at], start[at] + duration[at]
        crossing = np.zeros(len(at), dtype=np.bool_)
        for stop in stops:
            crossing |= (begin < stop) & (end >= stop)
        found: I64 = at[crossing]
        return found

    at = np.concatenate([np.zeros(0, np.int64), *map_blocks(len(kind), look)])[:MOST]
    args = [_args(event) for event in reader.read(source[at].tolist())]
    found: I64 = at[[one.get("finished") in (False, "false") for one in args]]
    return found


@cached_on_trace
def unfinished(trace: Trace) -> frozenset[int]:
    """The ops and annotations whose end is not known: see `find_unfinished`."""
    columns = trace.kind, trace.start, trace.duration, trace.implausible, trace.source
    return frozenset(find_unfinished(*columns, trace.reader).tolist())


def adopt(parent: Array, unended: I64) -> None:
    """Give what begins while an unfinished slice is open to what is around that. Changes `parent`."""
    inside = np.flatnonzero(np.isin(parent, unended)) if len(unended) else unended
    while len(inside):
        parent[inside] = parent[parent[inside]]
        inside = inside[np.isin(parent[inside], unended)]


def _args(event: dict[str, Any]) -> dict[str, Any]:
    args = event.get("args")
    return args if isinstance(args, dict) else {}


def cut_frames(columns: dict[str, Array], firsts: Sequence[int], reader: EventReader) -> int:
    """Cut the frames of Python that end with the recording, but were called by one that ended before, where
    that one ends. Changes the columns, which are in the order of `sort_slices`; returns how many."""
    start, duration = columns["start"], columns["duration"]
    python = columns["kind"] == int(Kind.PYTHON)
    cut, caller = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for first, last in itertools.pairwise(firsts if python.any() else ()):
        at = first + np.flatnonzero(python[first:last])
        if len(at):
            of = _outlasting(start[at], start[at] + duration[at])
            cut.append(at[of[0]])
            caller.append(at[of[1]])
    late, by = np.concatenate(cut), np.concatenate(caller)
    if not len(late) or not _are_calls(columns["source"], late, by, reader):
        return 0
    duration[late] = start[by] + duration[by] - start[late]
    ends = np.asarray(firsts)
    for i in late.tolist():  # the longest first, where several begin at once
        lane = slice(i, int(ends[np.searchsorted(ends, i, side="right")]))
        count = int(np.searchsorted(start[lane], start[i], side="right"))
        if count > 1:
            order = i + np.argsort(-duration[i : i + count], kind="stable")
            for column in columns.values():
                column[i : i + count] = column[order]
    return len(late)


def _outlasting(start: I64, end: I64) -> tuple[I64, I64]:
    """(the frames that end last of all, but begin in one that ends before; that one), of a lane's frames."""
    last = int(end.max())
    others = np.flatnonzero(end < last)
    late = np.flatnonzero(end == last)
    if not len(others):
        return others, others
    reach = np.maximum.accumulate(end[others])
    before = np.searchsorted(others, late) - 1
    inside = (before >= 0) & (reach[before] > start[late])
    late, before = late[inside], before[inside]
    found = []
    for i, at in zip(late.tolist(), before.tolist(), strict=True):
        while end[others[at]] <= start[i]:
            at -= 1
        found.append(int(others[at]))
    return late, np.array(found, dtype=np.int64)


def _are_calls(source: I64, late: I64, by: I64, reader: EventReader) -> bool:
    """Whether the frames were called by those that they began in, or by another of them, as their ids say."""
    step = -(-len(late) // SOME)
    some, theirs = ([_args(one) for one in reader.read(source[at[::step]].tolist())] for at in (late, by))
    own = {one.get("Python id") for one in some}
    known = [
        one.get("Python parent id") is not None
        and (step > 1 or one["Python parent id"] == other.get("Python id") or one["Python parent id"] in own)
        for one, other in zip(some, theirs, strict=True)
    ]
    return 2 * known.count(True) > len(known)
