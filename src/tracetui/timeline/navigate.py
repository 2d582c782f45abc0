"""From one event to the next: in its row, to parent and children, to other rows; and the hit test."""

from __future__ import annotations

import numpy as np

from tracetui.timeline.layout import Layout, Of
from tracetui.timeline.rows import Row, Rows
from tracetui.timeline.viewport import Viewport
from tracetui.trace.model import Kind, Trace

FARTHEST = 500
"""Rows that are looked through for one with something in view."""
MOST = 16
"""Flows drawn for one event."""


def neighbour(rows: Rows, slice_index: int, step: int) -> int | None:
    """The next (1) or previous (-1) slice of the same row."""
    trace = rows.trace
    row = rows.row(int(trace.lane[slice_index]), int(trace.depth[slice_index]))
    at = int(np.searchsorted(row.index, slice_index)) + step
    return int(row.index[at]) if 0 <= at < len(row) else None


def above(rows: Rows, layout: Layout, view: Viewport, slice_index: int) -> int | None:
    """The parent; without one, the nearest slice of the nearest row above that has any."""
    trace = rows.trace
    parent = int(trace.parent[slice_index])
    return parent if parent >= 0 else _beyond(rows, layout, view, slice_index, -1)


def below(rows: Rows, layout: Layout, view: Viewport, slice_index: int) -> int | None:
    """A child (the first that is in view, if any is); without one, the nearest slice of a row below."""
    trace = rows.trace
    row = rows.row(int(trace.lane[slice_index]), int(trace.depth[slice_index]) + 1)
    if len(row):
        end = int(trace.start[slice_index] + trace.duration[slice_index])
        low = int(np.searchsorted(row.start, int(trace.start[slice_index])))
        high = int(np.searchsorted(row.start, end))
        mine = row.index[low:high]
        mine = mine[trace.parent[mine] == slice_index]
        if len(mine):
            seen = trace.start[mine] + trace.duration[mine] > view.start_ns
            return int(mine[int(np.argmax(seen))])
    return _beyond(rows, layout, view, slice_index, 1)


def _beyond(rows: Rows, layout: Layout, view: Viewport, slice_index: int, step: int) -> int | None:
    """The slice nearest in time on the next shown row above (-1) or below (1).

    Rows with nothing in view are passed over, unless there is nothing but such rows for a long way.
    """
    trace = rows.trace
    lane, depth = int(trace.lane[slice_index]), int(trace.depth[slice_index])
    middle = _anchor(trace, view, slice_index)
    track = layout.track_of(Of.LANE, lane)
    if track < 0:
        return None
    away: int | None = None
    depth = min(depth, int(layout.shown[track]) - 1)
    for _ in range(FARTHEST):
        depth += step
        while not 0 <= depth < int(layout.shown[track]):
            track += step
            while 0 <= track < len(layout) and (layout.of[track] != Of.LANE or not layout.shown[track]):
                track += step
            if not 0 <= track < len(layout):
                return away
            depth = 0 if step > 0 else int(layout.shown[track]) - 1
        row = rows.row(int(layout.ref[track]), depth)
        if not len(row):
            continue
        found = nearest(row, middle)
        start = int(trace.start[found])
        if start < view.end_ns and start + int(trace.duration[found]) >= view.start_ns:
            return found
        away = found if away is None else away
    return away


def _anchor(trace: Trace, view: Viewport, slice_index: int) -> int:
    """The middle of the visible part of a slice (of the whole, where none is)."""
    start = int(trace.start[slice_index])
    end = start + int(trace.duration[slice_index])
    low, high = max(start, view.start_ns), min(end, view.end_ns)
    return (low + high) // 2 if low <= high else (start + end) // 2


def nearest(row: Row, time_ns: int) -> int:
    """The slice of a row that runs at an instant, else the one whose border is nearest."""
    after = int(np.searchsorted(row.start, time_ns, side="right"))
    if after == 0:
        return int(row.index[0])
    if row.reach[after - 1] > time_ns or after == len(row):
        return int(row.index[after - 1])
    closer = time_ns - int(row.reach[after - 1]) <= int(row.start[after]) - time_ns
    return int(row.index[after - 1 if closer else after])


def hit(row: Row, view: Viewport, column: int) -> int | None:
    """The slice under a cell: of all that touch it, the one with the largest part of it."""
    low = view.start_ns + column * view.cell
    high = low + view.cell
    last = int(np.searchsorted(row.start, high))
    first = int(np.searchsorted(row.reach, low, side="right"))
    if first >= last:
        return None
    part = np.minimum(row.reach[first:last], high) - np.maximum(row.start[first:last], low)
    return int(row.index[first + int(np.argmax(part))])


def opening(rows: Rows, layout: Layout, view: Viewport) -> int | None:
    """What the first arrow key selects: on the first row with any in view, the slice nearest its middle."""
    middle = (view.start_ns + view.end_ns) // 2
    for track in range(len(layout)):
        if layout.of[track] != Of.LANE:
            continue
        for depth in range(int(layout.shown[track])):
            row = rows.row(int(layout.ref[track]), depth)
            if len(row):
                found = nearest(row, middle)
                start = int(rows.trace.start[found])
                if start < view.end_ns and start + int(rows.trace.duration[found]) >= view.start_ns:
                    return found
    return None


def linked(trace: Trace, slice_index: int) -> tuple[tuple[int, int], ...]:
    """The flows of a slice as (from, to): launch, what it launched or ran, forward and backward."""
    found: list[tuple[int, int]] = []
    launch = int(trace.launch[slice_index])
    if launch >= 0:
        found.append((launch, slice_index))
    else:
        found += [(slice_index, int(i)) for i in np.flatnonzero(trace.launch == slice_index)[:MOST]]
        if not found and trace.kind[slice_index] == Kind.CPU_OP:
            ran = np.flatnonzero((trace.op == slice_index) & (trace.launch >= 0))[:MOST]
            found += [(slice_index, int(i)) for i in ran]
    found += [(slice_index, int(i)) for i in trace.flow_to[trace.flow_from == slice_index][:MOST]]
    found += [(int(i), slice_index) for i in trace.flow_from[trace.flow_to == slice_index][:MOST]]
    return tuple(found)
