"""Where the CPU of a rank spent each step: in which annotation, and whether in ops, in calls, waiting for the
device, in code of its own, or outside of all that was recorded."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from msgspec import Struct

from tracetui.analysis.calls.sums import sum_into
from tracetui.analysis.idle.cpu_time import is_synchronizing
from tracetui.analysis.select import name_mask
from tracetui.core.patterns import pattern
from tracetui.ranks.calls import RECORD
from tracetui.trace import Kind, Trace
from tracetui.trace.model import I8, I64, Bool

WAYS = ("op", "call", "sync", "own", "outside")
"""An op; a runtime call; a call that waits for the device; an annotation's or a Python function's own code;
nothing that was recorded."""
OP, CALL, SYNC, OWN, OUTSIDE = range(len(WAYS))
_PRIORITY = np.array([3, 3, 2, 1, 0])
"""Of two threads, the one that works counts, not one that waits for it."""
THREADS = 4
MOST_PLACES = 48
_COLLECTIVE = pattern(r"(?:nccl|rccl|gloo|mpi|ucc|xccl|hccl):")
_KINDS = (Kind.CPU_OP, Kind.ANNOTATION, Kind.PYTHON, Kind.RUNTIME, Kind.OVERHEAD)


class CpuSteps(Struct, frozen=True, eq=False):
    """The CPU's time by step, place and way. Within a step it adds up to the step's length."""

    places: tuple[str, ...]
    """Annotations and Python functions; the first, "", is for none, the second for all that take little. Safe
    to show."""
    spent: I64
    """Shape (steps, places, ways), ns."""
    ops: I64
    """How many ops began in each step."""


def cpu_steps(trace: Trace, low: I64, high: I64) -> CpuSteps:
    """The CPU's time in the windows [low, high), which do not overlap."""
    lanes = _threads(trace)
    tag, way = np.full(len(trace), -1, np.int64), np.full(len(trace), OUTSIDE, np.int8)
    _places(trace, lanes, tag, way)
    leaves = [_leaves(trace, lane) for lane in lanes]
    parts = [low, high, *(time for time, _ in leaves)]
    times = np.concatenate(parts)
    order = np.argsort(times, kind="stable")  # of parts that are in order: they are merged
    times, first = times[order], np.cumsum([0, *map(len, parts)])
    best, place = np.full(len(times), OUTSIDE, np.int8), np.full(len(times), -1, np.int64)
    for (_, slice_), begin, end in zip(leaves, first[2:-1].tolist(), first[3:].tolist(), strict=True):
        at = np.maximum.accumulate(np.where((order >= begin) & (order < end), order - begin, -1))
        leaf = np.append(slice_, -1)[at]
        mine = np.append(way, np.int8(OUTSIDE))[leaf]
        better = _PRIORITY[mine] > _PRIORITY[best]
        best[better], place[better] = mine[better], tag[leaf[better]]
    length = np.diff(times, append=times[-1:])
    step = np.searchsorted(low, times, side="right") - 1
    inside = (step >= 0) & (times < high[step]) if len(low) else np.zeros(len(times), np.bool_)
    names, where = _largest(trace, place, length, inside)
    shape = (len(low), len(names), len(WAYS))
    row = (step * shape[1] + where) * shape[2] + best
    spent = sum_into(row[inside], length[inside], int(np.prod(shape))).reshape(shape)
    begun = np.sort(trace.start[np.flatnonzero(trace.kind == Kind.CPU_OP)])
    return CpuSteps(names, spent, np.searchsorted(begun, high) - np.searchsorted(begun, low))


def _threads(trace: Trace) -> list[int]:
    """The threads with the most ops and annotations."""
    many = {
        i: int(trace.is_kind(Kind.CPU_OP, Kind.ANNOTATION, of=slice(lane.first, lane.last)).sum())
        for i, lane in enumerate(trace.lanes)
        if lane.kind == "thread"
    }
    most = max(many.values(), default=0)
    chosen = sorted((i for i, n in many.items() if n > most / 100), key=lambda i: -many[i])
    return chosen[:THREADS]


def _places(trace: Trace, lanes: list[int], tag: I64, way: I8) -> None:
    """Fill in the place (a name) and the way of each slice of these lanes."""
    syncs, record = name_mask(trace, is_synchronizing, Kind.RUNTIME), name_mask(trace, RECORD.__eq__)
    python = np.full(len(trace), -1, np.int64)
    step = name_mask(trace, lambda name: name.startswith("ProfilerStep#"), Kind.ANNOTATION)
    built_in = name_mask(trace, lambda name: name.startswith("<built-in"), Kind.PYTHON)
    parent_of_record = trace.parent[np.flatnonzero(record[trace.name])]
    # Those that PyTorch puts around a collective: what the CPU does in them belongs to who asked for it.
    collective = name_mask(trace, _COLLECTIVE.match, Kind.ANNOTATION)
    collective[trace.name[parent_of_record[parent_of_record >= 0]]] = True
    for i in lanes:
        lane = trace.lanes[i]
        depth = trace.depth[lane.first : lane.last]
        order = np.argsort(depth, kind="stable")
        borders = np.searchsorted(depth[order], np.arange(lane.rows + 1))
        for a, b in pairwise(borders):
            at = order[a:b] + lane.first
            kind, name, parent = trace.kind[at], trace.name[at].astype(np.int64), trace.parent[at]
            has = parent >= 0
            above, over = np.where(has, tag[parent], -1), np.where(has, python[parent], -1)
            is_annotation, is_python = kind == Kind.ANNOTATION, kind == Kind.PYTHON
            own = is_annotation & ~step[name] & ~collective[name]
            tag[at] = np.where(own, name, above)
            python[at] = np.where(is_python & ~(built_in[name] & (over >= 0)), name, over)
            way[at] = np.where(has, np.where(way[parent] == OWN, OWN, OUTSIDE), OUTSIDE)
            way[at[own | is_python]] = OWN
            way[at[kind == Kind.CPU_OP]] = OP
            way[at[(kind == Kind.RUNTIME) | (kind == Kind.OVERHEAD)]] = CALL
            way[at[(kind == Kind.RUNTIME) & syncs[name]]] = SYNC
    mine = (way == OWN) & (tag < 0)
    tag[mine] = python[mine]


def _leaves(trace: Trace, lane: int) -> tuple[I64, I64]:
    """(times, the innermost slice of a lane from each time on, -1 for none)."""
    this = trace.lanes[lane]
    at = np.arange(this.first, this.last)
    at = at[
        trace.is_kind(*_KINDS, of=slice(this.first, this.last))
        & (trace.duration[at] > 0)
        & ~trace.implausible[at]
    ]
    start, depth = trace.start[at], trace.depth[at].astype(np.int64)
    time = np.concatenate([start, start + trace.duration[at]])
    # At one time, ends come before starts, and the inner ones first: the last of them tells what runs then.
    rank = np.concatenate([this.rows + depth, this.rows - 1 - depth])
    apart = int(np.abs(time).max(initial=0)) < (1 << 62) // (2 * max(this.rows, 1))
    order = np.argsort(time * (2 * this.rows) + rank, kind="stable") if apart else np.lexsort((rank, time))
    slice_ = np.concatenate([at, trace.parent[at].astype(np.int64)])[order]
    return time[order], slice_


def _largest(trace: Trace, place: I64, length: I64, inside: Bool) -> tuple[tuple[str, ...], I64]:
    """(the names of the places with the most time, the index of each)."""
    counts = inside & (place >= 0)
    total = sum_into(place[counts], length[counts], len(trace.names))
    most = np.argsort(-total, kind="stable")[:MOST_PLACES]
    most = most[total[most] > 0]
    index = np.full(len(trace.names) + 1, 1, np.int64)
    index[most], index[-1] = np.arange(2, len(most) + 2), 0
    return ("", "others", *(trace.names[i] for i in most.tolist())), index[place]
