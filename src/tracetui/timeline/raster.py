"""The exact busy share of every cell of many rows at once.

The cost depends on the screen: one binary search per cell border, however many events there are.

Cells show whole eighths, rounded on the running sum from the row's beginning: the eighths of any range add up
to its busy time (to within one eighth of a cell), and a cell looks the same wherever it is on the screen. So
a cell with an idle eighth is never full, and a full one never shows a hole. If the busy time rounds to zero,
the count tells the cell from an empty one, and it is drawn as a hairline.

A row of several lines shows as many times eight levels: crowded cells are one column over all of its lines,
from below; in the others each line has its eighths, and the lowest ones the odd levels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from tracetui.timeline.rows import Row
from tracetui.timeline.viewport import Viewport
from tracetui.trace.model import I32, I64, Bool


class Raster(Struct, frozen=True, eq=False):
    """Cells of lines. All arrays of shape (lines, width)."""

    eighths: I64
    """0..8: how much of the cell is shown as busy."""
    levels: I64
    """0..8 times the lines of its row: the same of the whole row."""
    full: Bool
    """Whether that is all of it."""
    count: I64
    """Slices that touch the cell."""
    first: I32
    """The first slice that touches the cell, -1 if none does."""
    last: I32
    """The last one."""
    prevailing: I32
    """The name that takes most of a crowded cell (three slices or more), else -1."""
    busy: I64
    """Busy nanoseconds of the cell."""


def raster(rows: Sequence[Row], view: Viewport, parts: Sequence[tuple[int, int]] = ()) -> Raster:
    """The cells of lines with these rows under a viewport. `parts`: which line of its row each is, and how
    many that has; such lines follow each other. Without, each row has one."""
    shape = (len(rows), view.width)
    borders = view.borders()
    busy = np.zeros((len(rows), view.width + 1), dtype=np.int64)
    count = np.zeros(shape, dtype=np.int64)
    first = np.full(shape, -1, dtype=np.int32)
    last = np.full(shape, -1, dtype=np.int32)
    prevailing = np.full(shape, -1, dtype=np.int32)
    for i, row in enumerate(rows):
        if not len(row) or row.start[0] >= borders[-1] or row.reach(len(row) - 1) <= borders[0]:
            continue
        if i and row is rows[i - 1]:
            for column in (busy, count, first, last, prevailing):
                column[i] = column[i - 1]
            continue
        begun, busy[i] = row.busy_before(borders)
        # Slices do not overlap: of those begun before a border, only the last may reach beyond it.
        before = begun[:-1]
        running = (before > 0) & (row.reach(np.maximum(before - 1, 0)) > borders[:-1])
        lowest = before - running
        highest = begun[1:]
        count[i] = highest - lowest
        some = count[i] > 0
        first[i][some] = row.index[lowest[some]]
        last[i][some] = row.index[highest[some] - 1]
        crowded = np.flatnonzero(count[i] > 2)
        if len(crowded):
            prevailing[i][crowded] = _prevailing(row, busy[i], crowded)
    part, many = np.array(parts or [(0, 1)], dtype=np.int64).T[:, :, np.newaxis]
    steps = (8 * many * busy + view.cell // 2) // view.cell
    # Only hostile files have times that overflow int64 here: any level will do for those.
    levels = np.clip(np.diff(steps, axis=1), 0, 8 * many)
    eighths = levels
    if parts:
        column = np.clip(levels - 8 * (many - 1 - part), 0, 8)
        eighths = np.where(count > 2, column, (levels + part) // many)
    full = levels == 8 * many
    return Raster(eighths, levels, full, count, first, last, prevailing, np.diff(busy, axis=1))


def _prevailing(row: Row, busy: I64, cells: I64) -> I32:
    """The name that runs at three moments of a cell's busy time (1/6, 1/2, 5/6), else -1."""
    low = busy[cells]
    share = busy[cells + 1] - low
    early, late = _names_at(row, np.stack([low + share // 6, low + 5 * share // 6], axis=1)).T
    found: I32 = np.full(len(cells), -1, dtype=np.int32)
    alike = np.flatnonzero(early == late)  # rare among many names: saves the third search
    middle = _names_at(row, (low + share // 2)[alike])
    same = alike[middle == early[alike]]
    found[same] = early[same]
    return found


def _names_at(row: Row, moments: I64) -> I32:
    """The names that run at moments of a row's own busy time, nanoseconds."""
    at = np.searchsorted(row.total, moments.ravel(), side="right") - 1
    return row.names[row.index[np.minimum(at, len(row) - 1)]].reshape(moments.shape)
