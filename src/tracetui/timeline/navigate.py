"""Going from event to event: along a row, to parents and children, to other rows; and the hit test."""

from __future__ import annotations

import numpy as np

from tracetui.timeline.rows import Row, Rows
from tracetui.timeline.scene import Event, Local, Scene
from tracetui.timeline.track_layout import Line, Of
from tracetui.timeline.viewport import Viewport
from tracetui.trace.indices import having
from tracetui.trace.model import Kind, Trace

FARTHEST = 500
"""Most rows searched for one with something in view."""
MOST = 16
"""Most flows of each kind drawn for an event."""


def neighbor(rows: Rows, slice_index: int, step: int) -> int | None:
    """The next (1) or previous (-1) slice of the same row."""
    trace = rows.trace
    row = rows.row(int(trace.lane[slice_index]), rows.depth(slice_index))
    at = int(np.searchsorted(row.index, rows.drawn(slice_index))) + step
    return int(row.index[at]) if 0 <= at < len(row) else None


def above(scene: Scene, slice_index: int) -> Event | None:
    """The parent of a slice of the active source; without one, the nearest event of the next row above that
    has any, even in another source."""
    parent = int(scene.source.trace.parent[slice_index])
    return Event(scene.active, parent) if parent >= 0 else _beyond(scene, slice_index, -1)


def below(scene: Scene, slice_index: int) -> Event | None:
    """A child of a slice of the active source (the first one in view, if any); without one, the nearest slice
    of a row below."""
    trace, rows, view = scene.source.trace, scene.source.rows, scene.local(scene.active).view
    frames = rows.frames(int(trace.lane[slice_index]))
    if slice_index in frames[:-1]:
        return Event(scene.active, int(frames[np.searchsorted(frames, slice_index) + 1]))
    row = rows.row(int(trace.lane[slice_index]), rows.depth(slice_index) + 1)
    if len(row):
        end = int(trace.start[slice_index] + trace.duration[slice_index])
        low = int(np.searchsorted(row.start, int(trace.start[slice_index])))
        high = int(np.searchsorted(row.start, end))
        mine = row.index[low:high]
        mine = mine[trace.parent[mine] == slice_index]
        if len(mine):
            seen = trace.start[mine] + trace.duration[mine] > view.start_ns
            return Event(scene.active, int(mine[int(np.argmax(seen))]))
    return _beyond(scene, slice_index, 1)


def _beyond(scene: Scene, slice_index: int, step: int) -> Event | None:
    """The slice nearest in time on the next visible row above (-1) or below (1).

    Rows with nothing in view are skipped, unless there are only such rows for a long way.
    """
    trace, layout = scene.source.trace, scene.layout
    middle = _anchor(scene, slice_index)
    track = layout.track_of(Of.LANE, int(trace.lane[slice_index]), scene.active)
    seen = layout if layout.shown[track] else layout.with_shown(track, 1)
    order = [one for one in seen.order if layout.of[one] == Of.LANE]
    at = order.index(track)
    away: Event | None = None
    depth = min(scene.source.rows.depth(slice_index), layout.depths(track) - 1)
    for _ in range(FARTHEST):
        depth += step
        if not 0 <= depth < layout.depths(order[at]):
            at += step
            if not 0 <= at < len(order):
                return away
            depth = 0 if step > 0 else layout.depths(order[at]) - 1
        found = _on_row(scene, order[at], depth, middle)
        if found is not None and _in_view(scene, found):
            return found
        away = found if away is None else away
    return away


def _on_row(scene: Scene, track: int, depth: int, time_ns: int) -> Event | None:
    """The event of a lane's row that is nearest to an axis time."""
    of = int(scene.layout.source[track])
    source = scene.sources[of]
    row = source.rows.row(int(scene.layout.ref[track]), depth)
    return Event(of, nearest(row, time_ns - source.offset)) if len(row) else None


def _in_view(scene: Scene, event: Event) -> bool:
    of, slice_index = event
    start = scene.sources[of].start(slice_index)
    length = int(scene.sources[of].trace.duration[slice_index])
    return start < scene.view.end_ns and start + length >= scene.view.start_ns


def _anchor(scene: Scene, slice_index: int) -> int:
    """The middle of the visible part of a slice (if none: of all of it), on the axis."""
    start = scene.source.start(slice_index)
    end = start + int(scene.source.trace.duration[slice_index])
    low, high = max(start, scene.view.start_ns), min(end, scene.view.end_ns)
    return (low + high) // 2 if low <= high else (start + end) // 2


def nearest(row: Row, time_ns: int) -> int:
    """The slice of a row that runs at a time, else the one with the nearest border."""
    after = int(np.searchsorted(row.start, time_ns, side="right"))
    if after == 0:
        return int(row.index[0])
    if after == len(row):
        return int(row.index[after - 1])
    closer = time_ns - int(row.reach(after - 1)) <= int(row.start[after]) - time_ns
    return int(row.index[after - 1 if closer else after])


def event_at(local: Local, line: Line, column: int) -> int | None:
    """The slice under a cell of a source's line."""
    if line.of is not Of.LANE:
        return None
    return hit(local.source.rows.row(line.ref, line.depth), local.view, column)


def hit(row: Row, view: Viewport, column: int) -> int | None:
    """The slice under a cell: the one that covers most of it."""
    low = view.start_ns + column * view.cell
    high = low + view.cell
    first, last = np.searchsorted(row.start, (low, high)).tolist()
    # Slices do not overlap: of those begun before, only the last may reach into the cell.
    if first and row.reach(first - 1) > low:
        first -= 1
    if first >= last:
        return None
    at = np.arange(first, last)
    part = np.minimum(row.reach(at), high) - np.maximum(row.start[at], low)
    return int(row.index[first + int(np.argmax(part))])


def opening(scene: Scene) -> Event | None:
    """What the first arrow key selects: on the first row with events in view, the one nearest the middle."""
    layout, middle = scene.layout, (scene.view.start_ns + scene.view.end_ns) // 2
    for track in layout.order:
        for depth in range(layout.depths(track) if layout.of[track] == Of.LANE else 0):
            found = _on_row(scene, track, depth, middle)
            if found is not None and _in_view(scene, found):
                return found
    return None


def linked(trace: Trace, slice_index: int) -> tuple[tuple[int, int], ...]:
    """The flows of a slice as (from, to): its launch, what it launched or ran, forward and backward."""
    found: list[tuple[int, int]] = []
    launch = int(trace.launch[slice_index])
    if launch >= 0:
        found.append((launch, slice_index))
    else:
        found += [(slice_index, int(i)) for i in having(trace, "launch", slice_index)[:MOST]]
        if not found and trace.kind[slice_index] == Kind.CPU_OP:
            ran = having(trace, "op", slice_index)
            found += [(slice_index, int(i)) for i in ran[trace.launch[ran] >= 0][:MOST]]
    after, before = (having(trace, end, slice_index)[:MOST] for end in ("flow_from", "flow_to"))
    found += [(slice_index, int(i)) for i in trace.flow_to[after]]
    found += [(int(i), slice_index) for i in trace.flow_from[before]]
    return tuple(found)
