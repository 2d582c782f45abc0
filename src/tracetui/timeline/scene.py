"""Everything that a picture is made from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tracetui.timeline.layout import Layout, Line
from tracetui.timeline.palette import Palette
from tracetui.timeline.rows import Rows
from tracetui.timeline.series import Series
from tracetui.timeline.themes import Theme
from tracetui.timeline.viewport import Viewport
from tracetui.trace.intervals import Union
from tracetui.trace.model import I64, Bool, Trace
from tracetui.units import as_typed

TOP = 2
"""Lines above the lanes: overview and ruler."""
EDGE = 1
"""Cells on the right: where the lanes are scrolled to."""


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
    devices: Mapping[int, Union]
    """When each device was busy; key -1: the CPU threads, where there is no device."""

    busy: float
    """Busy share of the devices (of the threads): their busy time over first start to last end, 0..1."""
    kept: dict[object, Any] = field(default_factory=dict)
    """What a frame may keep for the next one (the overview's shares)."""

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
    """Labelled instants by time, nanoseconds."""
    instant: int | None = None
    """The instant that was gone to, nanoseconds: drawn like a mark until something else is selected."""
    series: tuple[Series, ...] = ()
    """What the tracks of counters show."""
    flows: tuple[tuple[int, int], ...] = ()
    """Links to draw, as (from slice, to slice)."""

    @property
    def flags(self) -> tuple[tuple[int, str], ...]:
        """The marks, and the instant that was gone to, by time."""
        if self.instant is None:
            return self.marks
        return tuple(sorted((*self.marks, (self.instant, as_typed(self.instant)))))

    def lines(self, height: int) -> list[Line]:
        """The lines on a screen whose lanes take `height` lines."""
        return self.layout.lines(self.top, height)
