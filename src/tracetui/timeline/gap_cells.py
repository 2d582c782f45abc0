"""Drawing the gaps of a device on its lanes: a texture, with the length if it fits."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from tracetui.timeline.canvas import BOLD, code_points
from tracetui.timeline.layout import Line, Of
from tracetui.timeline.paint import Cells
from tracetui.timeline.scene import Idle, Local
from tracetui.trace.model import I64, Trace
from tracetui.units import duration

TEXTURE = ord("╱")
ASCII_TEXTURE = ord("/")


def gap_columns(idle: Idle, borders: I64) -> I64:
    """Index of the gap that covers each cell completely, -1 if none does. Shape (len(borders) - 1,)."""
    if not len(idle.start):
        return np.full(len(borders) - 1, -1, dtype=np.int64)
    at = np.searchsorted(idle.start, borders[:-1], side="right") - 1
    covered = (at >= 0) & (idle.end[np.maximum(at, 0)] >= borders[1:])
    return np.where(covered, at, -1)


def device_of(trace: Trace, line: Line) -> int:
    """The device whose gaps a line shows, or -1."""
    if line.of is Of.DEVICE:
        return line.ref
    if line.of is Of.LANE and line.depth == 0:
        lane = trace.lanes[line.ref]
        return lane.device if lane.kind == "stream" else -1
    return -1


def gap_at(local: Local, line: Line, column: int) -> tuple[int, int] | None:
    """The gap in a cell of a source's line, as (device, index); None if there is none."""
    device = device_of(local.source.trace, line)
    idle = local.source.gaps.get(device)
    if idle is None:
        return None
    start = local.view.time(column)
    at = int(gap_columns(idle, np.array([start, start + local.view.cell], dtype=np.int64))[0])
    return (device, at) if at >= 0 else None


def paint_gaps(
    local: Local,
    lines: list[Line],
    cells: Cells,
    empty: npt.NDArray[np.bool_],
    headed: frozenset[int] = frozenset(),
) -> None:
    """Fill the empty cells of devices' lines while the device is idle. `empty`: shape (lines, width).

    The first line of a device shows the lengths, except for devices in `headed`: their own line does.
    """
    theme = local.theme
    borders = local.view.borders()
    columns: dict[int, I64] = {}
    for y, line in enumerate(lines):
        device = device_of(local.source.trace, line)
        idle = local.source.gaps.get(device) if device >= 0 else None
        if idle is None:
            continue
        named = device not in columns and device not in headed
        gap = columns.get(device)
        if gap is None:
            gap = columns[device] = gap_columns(idle, borders)
        here = empty[y] & (gap >= 0)
        cells.glyph[y][here] = ASCII_TEXTURE if theme.ascii else TEXTURE
        cells.ink[y][here] = theme.gap
        if local.gap is not None and local.gap[0] == device:
            chosen = here & (gap == local.gap[1])
            cells.ink[y][chosen] = theme.paper
            cells.paper[y][chosen] = theme.gap
            cells.attributes[y][chosen] |= BOLD
        if named:
            chosen_gap = local.gap[1] if local.gap is not None and local.gap[0] == device else -1
            _write_lengths(idle, np.where(here, gap, -1), cells, y, theme.text, chosen_gap)


def _write_lengths(idle: Idle, gap: I64, cells: Cells, y: int, ink: int, chosen: int) -> None:
    """`gap`: the gap of each cell, -1 for none. The chosen gap keeps its colours."""
    cuts = np.flatnonzero(np.diff(gap, prepend=-2, append=-2))
    for begin, end in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
        which = int(gap[begin])
        if which < 0 or end - begin < 5:
            continue
        text = _length(int(idle.end[which]) - int(idle.start[which]))
        if len(text) <= end - begin:
            at = begin + (end - begin - len(text)) // 2
            cells.glyph[y, at : at + len(text)] = code_points(text)
            if which != chosen:
                cells.ink[y, at : at + len(text)] = ink


@lru_cache(maxsize=4096)
def _length(ns: int) -> str:
    return f" {duration(ns)} "
