"""The time range on the screen, and the moves that change it."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from tracetui.core.copying import replace
from tracetui.trace.model import I64

FAR = 1 << 60
"""Nanoseconds (36 years): the view never goes further, so that no sum of times overflows."""
MIN_SCALE = 1.0
"""Nanoseconds per cell at the deepest zoom."""


class Viewport(Struct, frozen=True):
    """`width` cells of time from `start`.

    `start` and `scale` are floats so that a zoom can be undone exactly. Drawing uses an integer start and
    whole nanoseconds per cell, so that every border is exact and a pan moves by whole cells.
    """

    start: float
    """Nanoseconds from the trace's zero."""
    scale: float
    """Nanoseconds per cell, before rounding."""
    width: int
    """Cells."""

    @property
    def cell(self) -> int:
        """Nanoseconds per cell, as drawn."""
        return max(1, round(self.scale))

    @property
    def start_ns(self) -> int:
        return round(self.start)

    @property
    def end_ns(self) -> int:
        return self.start_ns + self.cell * self.width

    @property
    def span_ns(self) -> int:
        return self.cell * self.width

    def borders(self) -> I64:
        """The cells' borders in nanoseconds. Shape (width + 1,), int64."""
        return self.start_ns + self.cell * np.arange(self.width + 1, dtype=np.int64)

    def column(self, time_ns: int) -> int:
        """The cell that contains a time; outside 0..width - 1 if it is off the screen."""
        return (time_ns - self.start_ns) // self.cell

    def time(self, column: float) -> int:
        """The time at a cell's left border (or within the cell, for a fraction)."""
        return self.start_ns + round(column * self.cell)

    def contains(self, time_ns: int) -> bool:
        return self.start_ns <= time_ns < self.end_ns


def clamped(view: Viewport, low: int, high: int) -> Viewport:
    """The nearest viewport whose center stays within `low` to `high` (nanoseconds)."""
    low, high = max(low, -FAR), min(high, FAR)
    widest = max(MIN_SCALE, 1.1 * (high - low) / view.width)
    scale = min(max(view.scale, MIN_SCALE), widest)
    if scale != view.scale:
        middle = view.start + view.span_ns / 2
        view = center(replace(view, scale=scale), middle)
    half = view.span_ns / 2
    return replace(view, start=min(max(view.start, low - half), high - half))


def fit(start_ns: int, end_ns: int, width: int, margin: float = 0.0) -> Viewport:
    """The viewport that fits a time range, with `margin` (a share of it) free on both sides."""
    width = max(1, width)
    start_ns, end_ns = max(start_ns, -FAR), min(end_ns, FAR)
    spare = (end_ns - start_ns) * margin
    scale = max(MIN_SCALE, -(-(end_ns - start_ns + 2 * spare) // width))
    view = Viewport(0.0, scale, width)
    return replace(view, start=(start_ns + end_ns - view.span_ns) / 2 if margin else float(start_ns))


def zoom(view: Viewport, factor: float, about: float | None = None) -> Viewport:
    """Zoom in (`factor` > 1) or out; the time `about` (default: the center) stays in place."""
    if about is None:
        about = view.start + view.span_ns / 2
    at = (about - view.start) / view.cell
    scaled = replace(view, scale=max(MIN_SCALE, view.scale / factor))
    return replace(scaled, start=about - at * scaled.cell)


def pan(view: Viewport, cells: int) -> Viewport:
    """Move by whole cells; positive: to later times."""
    return replace(view, start=view.start + cells * view.cell)


def center(view: Viewport, time_ns: float) -> Viewport:
    """Center a time."""
    return replace(view, start=time_ns - view.span_ns / 2)


def resize(view: Viewport, width: int) -> Viewport:
    """The same time range in another number of cells."""
    width = max(1, width)
    return view if width == view.width else replace(view, width=width, scale=view.scale * view.width / width)


def reveal(view: Viewport, start_ns: int, end_ns: int, margin: float = 0.1) -> Viewport:
    """Move as little as possible to show a time range; of one longer than the screen, show some part."""
    first, last = view.column(start_ns), view.column(max(start_ns, end_ns - 1))
    spare = min(int(view.width * margin), max(0, view.width - (last - first + 1)))
    if last - first >= view.width:
        spare = int(view.width * margin)
        if min(last, view.width - 1) - max(first, 0) >= spare:
            return view
        return pan(view, first - spare if first > 0 else last - (view.width - 1 - spare))
    if first < 0:
        return pan(view, first - spare)
    if last >= view.width:
        return pan(view, last - (view.width - 1) + spare)
    return view
