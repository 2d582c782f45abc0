"""The gaps of a device on its lanes: which is chosen, and length and cause where they fit."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import numpy as np
from rich.cells import cell_len

from tracetui.core.units import duration
from tracetui.timeline.canvas import BOLD, Canvas, code_points
from tracetui.timeline.ground import Ground, device_of
from tracetui.timeline.scene import Idle, Local
from tracetui.timeline.track_layout import Line, Of
from tracetui.trace.model import I64, Trace

TEXTURE = ord("╱")
ASCII_TEXTURE = ord("/")


def shown_of(trace: Trace, line: Line) -> int:
    """Whose gaps a line shows: a device's, or those of a thread, which stand under `~lane`."""
    device = device_of(trace, line)
    return ~line.ref if device < 0 and line.of is Of.LANE else device


def gap_columns(idle: Idle, borders: I64) -> I64:
    """Index of the gap that covers each cell completely, -1 if none does. Shape (len(borders) - 1,)."""
    if not len(idle.start):
        return np.full(len(borders) - 1, -1, dtype=np.int64)
    at = np.searchsorted(idle.start, borders[:-1], side="right") - 1
    covered = (at >= 0) & (idle.end[np.maximum(at, 0)] >= borders[1:])
    return np.where(covered, at, -1)


def gap_at(local: Local, line: Line, column: int) -> tuple[int, int] | None:
    """The gap in a cell of a source's line, as (device, index); None if there is none."""
    device = shown_of(local.source.trace, line)
    idle = local.source.gaps.get(device)
    if idle is None:
        return None
    start = local.view.time(column)
    at = int(gap_columns(idle, np.array([start, start + local.view.cell], dtype=np.int64))[0])
    return (device, at) if at >= 0 else None


def tellers(trace: Trace, lines: Iterable[Line]) -> frozenset[int]:
    """The tracks that show the lengths of gaps, one for each device: a stream with several lines, which has
    room for the causes, else the device's own line, else its first stream."""
    found: dict[int, tuple[int, int]] = {}
    for line in lines:
        device = device_of(trace, line)
        if device >= 0:
            rank = 0 if line.parts > 1 else 1 if line.of is Of.DEVICE else 2
            found[device] = min(found.get(device, (rank, line.track)), (rank, line.track))
    return frozenset(track for _, track in found.values())


def paint_gaps(
    local: Local, lines: list[Line], cells: Canvas, ground: Ground, busy: I64, telling: frozenset[int]
) -> None:
    """Mark the cells of devices' lines while the device is idle: the chosen gap, lengths and causes; where
    the ground cannot have a color, a texture. `busy`: of each line in each cell, ns, shape (lines, width).
    `telling`: see `tellers`."""
    theme = local.theme
    borders = local.view.borders()
    columns: dict[int, I64] = {}
    for y, line in enumerate(lines):
        device = shown_of(local.source.trace, line)
        if device < 0 and device not in local.source.gaps:
            continue
        blank = cells.glyph[y] == ord(" ")
        if not theme.grounded:
            bare = blank & np.isin(cells.paper[y], theme.grounds) & ground.is_red(line, busy[y])
            cells.glyph[y][bare] = ASCII_TEXTURE if theme.ascii else TEXTURE
            cells.ink[y][bare] = theme.gap
        idle = local.source.gaps.get(device)
        if idle is None:
            continue
        gap = columns.get(device)
        if gap is None:
            gap = columns[device] = gap_columns(idle, borders)
        here = blank & (busy[y] == 0) & (gap >= 0)
        chosen_gap = local.gap[1] if local.gap is not None and local.gap[0] == device else -1
        if chosen_gap >= 0:
            chosen = here & (gap == chosen_gap)
            cells.ink[y][chosen] = theme.paper
            cells.paper[y][chosen] = theme.gap
            cells.attributes[y][chosen] |= BOLD
        if line.track in telling and line.part < 2:
            _write(idle, np.where(here, gap, -1), cells, y, line.part, theme.text, chosen_gap)


def _write(idle: Idle, gap: I64, cells: Canvas, y: int, part: int, ink: int, chosen: int) -> None:
    """Lengths on the first line of a row, causes on the second. `gap`: the gap of each cell, -1 for none. The
    chosen gap keeps its colors."""
    cuts = np.flatnonzero(np.diff(gap, prepend=-2, append=-2))
    for begin, end in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
        which = int(gap[begin])
        if which < 0 or end - begin < 5:
            continue
        texts = idle.causes(which) if part else [_length(int(idle.end[which]) - int(idle.start[which]))]
        text = next((text for text in texts if cell_len(text) + 2 <= end - begin), "")
        if text:
            codes = code_points(f" {text} ")
            at = begin + (end - begin - len(codes)) // 2
            cells.glyph[y, at : at + len(codes)] = codes
            if which != chosen:
                cells.ink[y, at : at + len(codes)] = ink


@lru_cache(maxsize=4096)
def _length(ns: int) -> str:
    return duration(ns)
