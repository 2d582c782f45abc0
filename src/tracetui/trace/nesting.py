"""The order of the slices, their rows within a lane (`depth`), and what encloses them (`parent`).

The library made from nesting.c finds depth and parent in one pass with a stack. Where it is not installed,
all lanes are laid end to end on one time axis, so that each step is one operation over all slices:
- the depth of a slice that nests is the number of slices open at its start: those that began before it, less
  those that ended by then, found by one search in the sorted ends;
- its parent is the last slice before it that is one row higher.

Where a slice outlasts the one it starts in, that part of the lane (between two moments when nothing is open)
takes a slower path: each slice goes to the first of several stacks that it nests in.
"""

from __future__ import annotations

import ctypes
import heapq
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from tracetui.core.columns import Array, blocks, looked_up, repeated, unique
from tracetui.core.native import load_library
from tracetui.core.threads import PART, THREADS, map_blocks, run_parallel
from tracetui.trace.model import I32, I64


def _load() -> ctypes.CDLL | None:
    library = load_library(Path(__file__).with_name("nesting.c"))
    if library is not None:
        address, number = ctypes.c_void_p, ctypes.c_int64
        library.nest.argtypes = [address, address, address, number, address, address, address, number]
        library.nest.restype = ctypes.c_int64
        library.positions.argtypes = [address, number, number, address, address]
        library.positions.restype = None
        library.first_places.argtypes = [address, number, number, address]
        library.first_places.restype = None
        library.unite.argtypes = [address, address, number, address, address, address]
        library.unite_slices.argtypes = [address, address, number, address, number, *[address] * 3]
        library.unite_both.argtypes = [address, address, number, address, address, number, *[address] * 3]
        for function in (library.unite, library.unite_slices, library.unite_both):
            function.restype = number
        library.until.argtypes = [*[address] * 3, number, address, number, address]
        library.until.restype = None
        library.by_row.argtypes = [address] * 3 + [number, ctypes.c_int32, number, number] + [address] * 4
        library.by_row.restype = None
        library.are_sound.argtypes = [address, number, number, address, address, number, address]
    return library


LIBRARY = _load()
"""None if it is not installed."""
_LANES = 256
"""The most lanes that are sorted one by one: as many as a byte has values."""
_GROUPS = 24
"""The number of stacks for slices that overlap without nesting. Other slices get a row of their own."""


def sort_slices(lane: I32, start: I64, duration: I64) -> tuple[I32, list[int]]:
    """Sort the slices by (lane, start, longest first, place in the file). Returns their order; and the first
    slice of each lane in that order, followed by the number of slices.

    Arrays of one length; nanoseconds, no duration negative. Takes linear time if the slices of a lane come in
    a few runs that are in order, as the profiler writes them.
    """
    if not len(lane):
        return np.zeros(0, dtype=np.int32), [0]
    order, firsts = _by_lane(lane)
    begin = looked_up(start, order)
    late = np.flatnonzero(begin[1:] < begin[:-1]) + 1
    lanes = np.searchsorted(firsts, late, side="right") - 1
    unsorted = np.flatnonzero(np.bincount(lanes[late != firsts[lanes]]))
    if len(unsorted) > _LANES:
        return np.lexsort((-duration, start, lane)).astype(np.int32), firsts.tolist()

    def by_start(first: int, last: int) -> None:
        place = np.argsort(begin[first:last], kind="stable")
        for column in (begin, order):
            column[first:last] = column[first:last][place]

    run_parallel([partial(by_start, *firsts[n : n + 2].tolist()) for n in unsorted.tolist()], THREADS)
    _settle_ties(order, begin, duration, firsts)
    return order, firsts.tolist()


def _by_lane(lane: I32) -> tuple[I32, I64]:
    """Order by lane, place in the file; the first of each lane in that order, and the number of slices."""
    count = int(lane.max()) + 1
    if count > _LANES:
        order = np.argsort(lane, kind="stable").astype(np.int32)
        return order, np.append(0, np.cumsum(np.bincount(lane)))

    def part(a: int, b: int) -> tuple[I32, I64]:
        narrow = lane[a:b].astype(np.uint8)  # bytes are sorted by counting them
        places = np.argsort(narrow, kind="stable").astype(np.int32)
        return places + np.int32(a), np.bincount(narrow, minlength=count)

    found = run_parallel([partial(part, a, b) for a, b in blocks(0, len(lane), PART)], THREADS)
    sizes = np.array([size for _, size in found])
    firsts = np.append(0, np.cumsum(sizes.sum(axis=0)))
    begins = firsts[:-1] + np.cumsum(sizes, axis=0) - sizes
    order = np.empty(len(lane), dtype=np.int32)
    for (places, size), at in zip(found, begins, strict=True):
        for n, piece in enumerate(np.split(places, np.cumsum(size)[:-1])):
            order[at[n] : at[n] + len(piece)] = piece
    return order, firsts


def _settle_ties(order: I32, begin: I64, duration: I64, firsts: I64) -> None:
    """Put the longest first among slices of a lane with the same start. Changes `order` in place."""
    same = np.zeros(len(begin) + 1, dtype=np.bool_)
    np.equal(begin[1:], begin[:-1], out=same[1:-1])
    same[firsts] = False

    def out_of_order(part: slice) -> bool:
        lengths = duration[order[part.start : part.stop + 1]]
        return bool((same[part.start + 1 : part.stop + 1] & (lengths[1:] > lengths[:-1])).any())

    if not any(map_blocks(len(begin) - 1, out_of_order)):
        return
    at = np.flatnonzero(same[1:] | same[:-1])
    order[at] = order[at][np.lexsort((-duration[order[at]], np.cumsum(~same[at])))]


def nest(start: I64, duration: I64, firsts: Sequence[int]) -> tuple[I32, I32, list[int]]:
    """The depth and parent of every slice, and the number of rows of every lane.

    `start`, `duration`: in the order of `sort_slices`. `firsts`: the first slice of each lane, and the number
    of slices. A parent is the nearest earlier slice that wholly contains this one; -1 for none.
    """
    count = len(start)
    if not count:
        return np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int32), [0] * (len(firsts) - 1)
    depth, parent, stretches = _in_one_pass(start, duration, firsts) or _by_sorting(start, duration, firsts)
    if not stretches:
        return depth, parent, _rows(depth, firsts)
    group = np.zeros(count, dtype=np.int32)
    for first, last in stretches:
        begin = start[first:last]
        mine = _overlapping(begin.tolist(), (begin + duration[first:last]).tolist())
        depth[first:last], group[first:last] = mine[0], mine[1]
        inside = np.array(mine[2], dtype=np.int32)
        parent[first:last] = np.where(inside >= 0, inside + first, -1)
    return depth, parent, _stack_groups(depth, group, firsts, stretches)


def _in_one_pass(
    start: I64, duration: I64, firsts: Sequence[int]
) -> tuple[I32, I32, list[tuple[int, int]]] | None:
    """Depth and parent, and the stretches where they are wrong because slices cross; None without the
    library."""
    if LIBRARY is None:
        return None
    given: list[Array] = [np.ascontiguousarray(a, dtype=np.int64) for a in (start, duration, firsts)]
    depth, parent = np.empty(len(start), dtype=np.int32), np.empty(len(start), dtype=np.int32)
    library, lanes = LIBRARY, len(firsts) - 1
    addresses = [a.ctypes.data for a in [*given, depth, parent]]

    def some(lane: int, count: int) -> list[list[int]]:
        """The wrong stretches of this many lanes."""
        room = 1 << 12
        while True:
            crossing = np.empty((room, 2), dtype=np.int64)
            begin, length, first, *out = addresses
            place = first + lane * given[2].itemsize
            found = library.nest(begin, length, place, count, *out, crossing.ctypes.data, room)
            if found < 0:
                raise MemoryError
            if found <= room:
                return list(crossing[:found].tolist())
            room = found

    each = -(-lanes // THREADS) if len(start) > PART else lanes
    parts = run_parallel([partial(some, at, min(each, lanes - at)) for at in range(0, lanes, each)], THREADS)
    return depth, parent, [(a, b) for part in parts for a, b in part]


def _by_sorting(start: I64, duration: I64, firsts: Sequence[int]) -> tuple[I32, I32, list[tuple[int, int]]]:
    """Like `_in_one_pass`."""
    count = len(start)
    begin, end = _on_one_axis(start, duration, np.unique(firsts)[:-1])
    real = end > begin
    # Empty slices are never open, so they count neither as begun nor as ended.
    depth = np.cumsum(real, dtype=np.int32)
    depth -= real
    closed = end[real] if not real.all() else end.copy()
    del real
    closed.sort()
    for a, b in blocks(0, count):
        depth[a:b] -= np.searchsorted(closed, begin[a:b], side="right").astype(np.int32)
    del closed
    parent = _parents(depth)
    found = [
        np.flatnonzero((parent[a:b] >= 0) & (end[a:b] > end[parent[a:b]])) + a for a, b in blocks(0, count)
    ]
    crossing = np.concatenate(found)
    stretches: list[tuple[int, int]] = []
    if len(crossing):
        roots = np.flatnonzero(depth == 0)
        which = unique(np.searchsorted(roots, crossing, side="right") - 1)
        ends = np.append(roots, count)[which + 1]
        stretches = list(zip(roots[which].tolist(), ends.tolist(), strict=True))
    return depth, parent, stretches


def _on_one_axis(start: I64, duration: I64, first: I64) -> tuple[I64, I64]:
    """Begin and end of the slices on an axis where lanes do not overlap. `first`: the first slice of each
    lane."""
    end = start + duration
    base, top = start[first], np.maximum.reduceat(end, first)
    if (top.astype(np.float64) - base).sum() >= 1 << 60:
        # Impossible times: only their order matters, so number them.
        moments, numbers = np.unique(np.concatenate((start, end)), return_inverse=True)
        start, end = numbers[: len(start)].astype(np.int64), numbers[len(start) :].astype(np.int64)
        base, top = np.zeros_like(base), np.full(len(first), len(moments))
    shift = np.cumsum(top - base + 1) - (top - base + 1) - base
    shift = repeated(shift, np.diff(first, append=len(start)))
    return start + shift, end + shift


def _parents(depth: I32) -> I32:
    """For each slice, the last one before it in the row above; -1 in row 0."""
    count = len(depth)
    deepest = int(depth.max())
    narrow = depth.astype(np.int16) if deepest < 1 << 15 else depth
    by_depth = np.argsort(narrow, kind="stable")
    key = depth[by_depth].astype(np.int64)
    key *= count
    key += by_depth
    skip = int(np.searchsorted(key, count))  # number of slices in row 0
    parent = np.full(count, -1, dtype=np.int32)
    for a, b in blocks(skip, count):
        parent[by_depth[a:b]] = by_depth[np.searchsorted(key, key[a:b] - count) - 1]
    return parent


def _overlapping(begin: list[int], end: list[int]) -> tuple[list[int], list[int], list[int]]:
    """(depth within its group, group, parent) of the slices of one stretch, in order.

    Groups from _GROUPS on are single rows, each taken by one slice at a time.
    """
    depths, groups, parents = [], [], []
    # The enclosing slices of any group: once crossed, a slice cannot enclose a later one.
    around: list[int] = []
    stacks: list[list[int]] = []
    busy: list[tuple[int, int]] = []  # (end, row) of the single rows
    free: list[int] = []
    rows = 0
    for at, (b, e) in enumerate(zip(begin, end, strict=True)):
        while around and (end[around[-1]] <= b or end[around[-1]] < e):
            around.pop()
        parents.append(around[-1] if around else -1)
        around.append(at)
        number = 0
        for stack in stacks:
            while stack and stack[-1] <= b:
                stack.pop()
            if not stack or e <= stack[-1]:
                break
            number += 1
        else:
            if number < _GROUPS:
                stack = []
                stacks.append(stack)
            else:
                while busy and busy[0][0] <= b:
                    heapq.heappush(free, heapq.heappop(busy)[1])
                if free:
                    row = heapq.heappop(free)
                else:
                    row, rows = rows, rows + 1
                heapq.heappush(busy, (max(e, b + 1), row))
                depths.append(0)
                groups.append(_GROUPS + row)
                continue
        depths.append(len(stack))
        groups.append(number)
        stack.append(e)
    return depths, groups, parents


def _stack_groups(
    depth: I32, group: I32, lane_firsts: Sequence[int], stretches: list[tuple[int, int]]
) -> list[int]:
    """Move each group of a lane below the one before it (changes `depth`); returns the number of rows of
    every lane."""
    rows = _rows(depth, lane_firsts)
    bounds = np.asarray(lane_firsts)
    for lane in sorted({int(np.searchsorted(bounds, first, side="right")) - 1 for first, _ in stretches}):
        first, last = int(bounds[lane]), int(bounds[lane + 1])
        groups, depths = group[first:last], depth[first:last]
        height = np.zeros(int(groups.max()) + 1, dtype=np.int32)
        np.maximum.at(height, groups, depths + 1)
        base = np.cumsum(height, dtype=np.int32) - height
        depths += base[groups]
        rows[lane] = int(height.sum())
    return rows


def _rows(depth: I32, lane_firsts: Sequence[int]) -> list[int]:
    firsts = np.asarray(lane_firsts[:-1], dtype=np.int64)
    if not len(firsts):
        return []
    highest: list[int] = (np.maximum.reduceat(depth, firsts) + 1).tolist()
    return highest


def positions(values: I32, size: int) -> tuple[I64, I32]:
    """(first, at): the positions in a column of each value from 0 to `size` - 1; other values are left out.
    The positions of v are `at[first[v]:first[v + 1]]`, ascending."""
    if LIBRARY is not None:
        values = np.ascontiguousarray(values, dtype=np.int32)
        first, at = np.zeros(size + 1, dtype=np.int64), np.empty(len(values), dtype=np.int32)
        LIBRARY.positions(values.ctypes.data, len(values), size, first.ctypes.data, at.ctypes.data)
        return first, at[: int(first[-1])]
    at = np.flatnonzero((values >= 0) & (values < size)).astype(np.int32)
    values = values[at]
    # Sorting 16-bit numbers is one pass over them, so two sorts take linear time.
    order = np.argsort(values.astype(np.uint16), kind="stable")
    high = (values >> 16).astype(np.uint16)
    order = order[np.argsort(high[order], kind="stable")] if high.any() else order
    first = np.zeros(size + 1, dtype=np.int64)
    np.cumsum(np.bincount(values, minlength=size)[:size], out=first[1:])
    return first, at[order]


def first_places(values: I32, size: int) -> I32:
    """The first position of each value from 0 to `size` - 1 in a column, -1 if there is none."""
    first = np.full(size, -1, dtype=np.int32)
    if LIBRARY is not None:
        values = np.ascontiguousarray(values, dtype=np.int32)
        LIBRARY.first_places(values.ctypes.data, len(values), size, first.ctypes.data)
        return first
    at = np.flatnonzero((values >= 0) & (values < size)).astype(np.int32)[::-1]
    first[values[at]] = at  # from the end on: what is written last stays
    return first
