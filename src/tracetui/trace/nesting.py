"""The order of the slices, their rows within a lane (`depth`), and what encloses them (`parent`).

All lanes are laid end to end on one time axis, so that each step is one operation over all slices:
- the depth of a slice that nests is the number of slices open at its start: those that began before it, less
  those that ended by then, found by one search in the sorted ends;
- its parent is the last slice before it that is one row higher.

The library made from nesting.c finds the same in one pass with a stack, where it is installed.

Where a slice outlasts the one it starts in, that part of the lane (between two moments when nothing is open)
takes a slower path: each slice goes to the first of several stacks that it nests in.
"""

from __future__ import annotations

import ctypes
import heapq
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tracetui.formats.native import load_library
from tracetui.trace.model import I32, I64


def _load() -> ctypes.CDLL | None:
    library = load_library(Path(__file__).with_name("nesting.c"))
    if library is not None:
        address, number = ctypes.c_void_p, ctypes.c_int64
        library.nest.argtypes = [address, address, number, address, address, address, number]
        library.nest.restype = ctypes.c_int64
        library.positions.argtypes = [address, number, number, address, address]
        library.positions.restype = None
    return library


LIBRARY = _load()
"""None where it is not installed."""
_BLOCK = 1 << 17
_GROUPS = 24
"""Stacks for slices that overlap without nesting. Others get a row of their own."""


def sort_slices(lane: I32, start: I64, duration: I64) -> tuple[I64, I64, I64]:
    """Order of the slices by (lane, start, longest first, place in the file), and positions on one axis.

    Arrays of one length, nanoseconds; negative durations count as zero. Returns (order, begin, end): `begin`
    and `end` are in that order, and lanes do not overlap on their axis.
    """
    count = len(lane)
    if not count:
        return (np.zeros(0, dtype=np.int64),) * 3
    length = np.maximum(duration, 0)
    zero = int(start.min())
    bits = (int((start + length).max()) - zero + 1).bit_length()
    if bits + int(lane.max()).bit_length() <= 62:
        begin = lane.astype(np.int64)
        begin <<= bits
        begin += start
        begin -= zero
        order = np.argsort(begin, kind="stable")
        begin = begin[order]
        _settle_ties(order, begin, length)
        end = length[order]
        end += begin
        return order, begin, end
    order = np.lexsort((-length, start, lane))
    begin, end, place = start[order], (start + length)[order], lane[order]
    first = np.flatnonzero(np.diff(place, prepend=-1))
    top = np.maximum.reduceat(end, first)
    widths = top.astype(object) - begin[first].astype(object) + 1
    if sum(widths) >= 1 << 62:
        # Impossible times: only their order matters, so number them.
        moments, numbers = np.unique(np.concatenate((begin, end)), return_inverse=True)
        begin, end = numbers[:count].astype(np.int64), numbers[count:].astype(np.int64)
        stride = np.full(len(first), len(moments) + 1, dtype=np.int64)
        base = np.zeros(len(first), dtype=np.int64)
    else:
        stride, base = widths.astype(np.int64), begin[first]
    shift = np.cumsum(stride) - stride - base
    shift = np.repeat(shift, np.diff(first, append=count))
    return order, begin + shift, end + shift


def _settle_ties(order: I64, begin: I64, length: I64) -> None:
    """Put the longest first among slices with the same start. Changes `order` in place."""
    same = begin[1:] == begin[:-1]
    if not same.any():
        return
    tied = np.zeros(len(begin), dtype=np.bool_)
    tied[1:] = same
    tied[:-1] |= same
    at = np.flatnonzero(tied)
    members = order[at]
    order[at] = members[np.lexsort((-length[members], begin[at]))]


def nest(begin: I64, end: I64, lane_firsts: Sequence[int]) -> tuple[I32, I32, list[int]]:
    """Depth and parent of every slice, and the number of rows of every lane.

    `begin`, `end`: as `sort_slices` gives them. `lane_firsts`: the first slice of each lane, and the number
    of slices. Parent is -1 for none; it is the nearest slice before that contains this one wholly.
    """
    count = len(begin)
    if not count:
        return np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int32), [0] * (len(lane_firsts) - 1)
    depth, parent, stretches = _in_one_pass(begin, end) or _by_sorting(begin, end)
    if not stretches:
        return depth, parent, _rows(depth, lane_firsts)
    group = np.zeros(count, dtype=np.int32)
    for first, last in stretches:
        mine = _overlapping(begin[first:last].tolist(), end[first:last].tolist())
        depth[first:last], group[first:last] = mine[0], mine[1]
        inside = np.array(mine[2], dtype=np.int32)
        parent[first:last] = np.where(inside >= 0, inside + first, -1)
    return depth, parent, _stack_groups(depth, group, lane_firsts, stretches)


def _in_one_pass(begin: I64, end: I64) -> tuple[I32, I32, list[tuple[int, int]]] | None:
    """Depth and parent, and the stretches in which they are not right because slices cross; None without the
    library."""
    if LIBRARY is None:
        return None
    count = len(begin)
    begin, end = np.ascontiguousarray(begin), np.ascontiguousarray(end)
    depth, parent = np.empty(count, dtype=np.int32), np.empty(count, dtype=np.int32)
    room = 1 << 12
    while True:
        crossing = np.empty((room, 2), dtype=np.int64)
        arrays = (a.ctypes.data for a in (depth, parent, crossing))
        found = LIBRARY.nest(begin.ctypes.data, end.ctypes.data, count, *arrays, room)
        if found < 0:
            raise MemoryError
        if found <= room:
            return depth, parent, [(a, b) for a, b in crossing[:found].tolist()]
        room = found


def _by_sorting(begin: I64, end: I64) -> tuple[I32, I32, list[tuple[int, int]]]:
    """As `_in_one_pass`."""
    count = len(begin)
    real = end > begin
    # Empty slices are never open, so they count neither as begun nor as ended.
    depth = np.cumsum(real, dtype=np.int32)
    depth -= real
    closed = end[real] if not real.all() else end.copy()
    del real
    closed.sort()
    for a, b in _blocks(0, count):
        depth[a:b] -= np.searchsorted(closed, begin[a:b], side="right").astype(np.int32)
    del closed
    parent = _parents(depth)
    found = [
        np.flatnonzero((parent[a:b] >= 0) & (end[a:b] > end[parent[a:b]])) + a for a, b in _blocks(0, count)
    ]
    crossing = np.concatenate(found)
    stretches: list[tuple[int, int]] = []
    if len(crossing):
        roots = np.flatnonzero(depth == 0)
        which = np.unique(np.searchsorted(roots, crossing, side="right") - 1)
        ends = np.append(roots, count)[which + 1]
        stretches = list(zip(roots[which].tolist(), ends.tolist(), strict=True))
    return depth, parent, stretches


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
    for a, b in _blocks(skip, count):
        parent[by_depth[a:b]] = by_depth[np.searchsorted(key, key[a:b] - count) - 1]
    return parent


def _blocks(first: int, last: int) -> list[tuple[int, int]]:
    """Split a range into parts, to keep temporary arrays small."""
    return [(a, min(a + _BLOCK, last)) for a in range(first, last, _BLOCK)]


def _overlapping(begin: list[int], end: list[int]) -> tuple[list[int], list[int], list[int]]:
    """Depth within its group, group, and parent of the slices of one stretch, in order.

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
    """Move each group of a lane below the one before it (changes `depth`); the rows of every lane."""
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
    """(first, at): the positions of each value from 0 to `size` - 1 in a column, without other values. Those
    of v are `at[first[v]:first[v + 1]]`, ascending."""
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
