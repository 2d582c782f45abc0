"""Everything that a picture is made from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from tracetui.timeline.layout import Layout, Line
from tracetui.timeline.palette import Palette, Theme
from tracetui.timeline.rows import Rows
from tracetui.timeline.viewport import Viewport
from tracetui.trace.model import I64, Bool, Trace

TOP = 2
"""Lines above the lanes: overview and ruler."""


@dataclass(frozen=True, slots=True, eq=False)
class Idle:
    """The gaps of one device, sorted by start. Arrays of one length, nanoseconds."""

    start: I64
    end: I64


@dataclass(frozen=True, slots=True, eq=False)
class Fixed:
    """What stays the same while one moves about: made once per trace (and theme)."""

    trace: Trace
    rows: Rows
    palette: Palette
    short: Callable[[int], str]
    """The text of a name in a bar."""
    devices: Mapping[int, tuple[I64, I64]]
    """Merged busy intervals (starts, ends) of each device; key -1: of the CPU threads, where there is no device."""

    busy: float
    """Busy share of the devices (of the threads): their busy time over first start to last end, 0..1."""

    @property
    def theme(self) -> Theme:
        return self.palette.theme


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """What to draw: a value, so that two frames can be compared."""

    fixed: Fixed
    view: Viewport
    layout: Layout
    top: int = 0
    """First line of the scrolled part."""
    labels: int = 14
    """Cells of the column of lane labels."""
    selected: int = -1
    """Slice."""
    same: int = -1
    """Name whose events light up."""
    matches: Bool | None = None
    """Mask over the slices."""
    gaps: Mapping[int, Idle] = field(default_factory=dict)
    """By device."""
    gap: tuple[int, int] | None = None
    """The selected gap: device, index."""
    span: tuple[int, int] = (0, 1)
    """The whole trace, for the overview, nanoseconds."""
    band: tuple[int, int] | None = None
    """The selected range, nanoseconds."""
    marks: tuple[tuple[int, str], ...] = ()
    flows: tuple[tuple[int, int], ...] = ()
    """Links to draw, as (from slice, to slice)."""

    def lines(self, height: int) -> list[Line]:
        """The lines on a screen whose lanes take `height` lines."""
        return self.layout.lines(self.top, height)


def merged(start: I64, end: I64) -> tuple[I64, I64]:
    """The union of intervals, as starts and ends of its pieces; empty intervals are left out."""
    real = end > start
    start, end = start[real], end[real]
    order = np.argsort(start, kind="stable")
    start, reach = start[order], np.maximum.accumulate(end[order]) if len(end) else end
    begins = np.ones(len(start), dtype=np.bool_)
    begins[1:] = start[1:] > reach[:-1]
    at = np.flatnonzero(begins)
    return start[at], reach[np.append(at[1:] - 1, len(start) - 1)] if len(at) else reach[:0]


def busy_share(pieces: tuple[I64, I64], borders: I64) -> I64:
    """Busy nanoseconds of each cell, from merged intervals. Shape (len(borders) - 1,)."""
    start, end = pieces
    if not len(start):
        return np.zeros(len(borders) - 1, dtype=np.int64)
    total = np.zeros(len(start) + 1, dtype=np.int64)
    np.cumsum(end - start, out=total[1:])
    begun = np.searchsorted(start, borders)
    ahead = end[np.maximum(begun - 1, 0)] - borders
    return np.diff(total[begun] - np.where(begun > 0, np.maximum(ahead, 0), 0))
