"""Everything that a picture is made from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

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


class Event(NamedTuple):
    """What names an event where there are several recordings."""

    source: int
    """Index into `Scene.sources`."""
    slice: int
    """Slice of that source's trace."""


@dataclass(frozen=True, slots=True, eq=False)
class Idle:
    """The gaps of one device, sorted by start. Arrays of one length, nanoseconds of the trace."""

    start: I64
    end: I64


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """One recording: what is made once per trace (and theme), and what is lit in it."""

    trace: Trace
    rows: Rows
    palette: Palette
    short: Callable[[int], str]
    """The text of a name in a bar."""
    devices: Mapping[int, Union]
    """When each device was busy; key -1: the CPU threads, where there is no device."""
    offset: int = 0
    """Nanoseconds from a time in the trace to the same on the axis."""
    title: str = ""
    """What its heading says, where there are several sources; safe to show."""
    gaps: Mapping[int, Idle] = field(default_factory=dict)
    """By device."""
    matches: Bool | None = None
    """Mask over the slices."""
    same: int = -1
    """Name whose events light up."""
    series: tuple[Series, ...] = ()
    """What the tracks of counters show."""
    left: Sequence[Mapping[str, Any]] = ()
    """How a person left its lanes; see `arrangement`. Series come later, and find their places in it."""
    kept: dict[object, Any] = field(default_factory=dict)
    """What a frame may keep for the next one (the overview's shares)."""

    def start(self, slice_index: int) -> int:
        """When a slice starts, on the axis."""
        return int(self.trace.start[slice_index]) + self.offset

    @property
    def span(self) -> tuple[int, int]:
        """From its first start to its last end, on the axis; a nanosecond at least. Looks at every slice."""
        low, high = self.on_axis(self.trace.span)
        return low, max(high, low + 1)

    def on_axis(self, stretch: tuple[int, int]) -> tuple[int, int]:
        """A stretch of the trace's time on the axis."""
        return stretch[0] + self.offset, stretch[1] + self.offset


@dataclass(frozen=True, slots=True, eq=False)
class Local:
    """What is seen of one source: everything in its own time and its own slices."""

    source: Source
    view: Viewport
    layout: Layout
    selected: int
    """Slice; -1 where it lies in another source."""
    gap: tuple[int, int] | None
    """The selected gap: device, index."""

    @property
    def theme(self) -> Theme:
        return self.source.palette.theme


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """What to draw: a value, so that two frames can be compared. Times are those of the axis."""

    sources: tuple[Source, ...]
    """One or more, all with the same theme."""
    view: Viewport
    layout: Layout
    top: int = 0
    """First line of the scrolled part."""
    labels: int = 14
    """Cells of the column of lane labels."""
    active: int = 0
    """The source that the selection is in, or was last."""
    selected: int = -1
    """Slice of the active source."""
    flows: tuple[tuple[int, int], ...] = ()
    """Links to draw within the active source, as (from slice, to slice)."""
    gap: tuple[int, int, int] | None = None
    """The selected gap: source, device, index."""
    span: tuple[int, int] = (0, 1)
    """From the first start to the last end of all sources, for the overview, nanoseconds."""
    band: tuple[int, int] | None = None
    """The selected range, nanoseconds."""
    marks: tuple[tuple[int, str], ...] = ()
    """Labelled instants by time, nanoseconds."""
    instant: int | None = None
    """The instant that was gone to, nanoseconds: drawn like a mark until something else is selected."""

    @property
    def source(self) -> Source:
        """The active one."""
        return self.sources[self.active]

    @property
    def theme(self) -> Theme:
        return self.sources[0].palette.theme

    @property
    def first_view(self) -> tuple[int, int]:
        """The stretch of time to show first: all that matters of every source."""
        lows, highs = zip(*(source.on_axis(source.trace.first_view) for source in self.sources), strict=True)
        return min(lows), max(highs)

    @property
    def event(self) -> Event | None:
        """The selection."""
        return Event(self.active, self.selected) if self.selected >= 0 else None

    @property
    def flags(self) -> tuple[tuple[int, str], ...]:
        """The marks, and the instant that was gone to, by time."""
        if self.instant is None:
            return self.marks
        return tuple(sorted((*self.marks, (self.instant, as_typed(self.instant)))))

    def lines(self, height: int) -> list[Line]:
        """The lines on a screen whose lanes take `height` lines."""
        return self.layout.lines(self.top, height)

    def title(self, of: int) -> str:
        """What to call a source, where there are several."""
        return self.sources[of].title or f"recording {of + 1}"

    def having(self, of: int | None = None, **changes: Any) -> Scene:
        """With other fields of one source (None: the active one)."""
        of = self.active if of is None else of
        changed = replace(self.sources[of], **changes)
        return replace(self, sources=(*self.sources[:of], changed, *self.sources[of + 1 :]))

    def local(self, of: int) -> Local:
        """What is seen of a source."""
        source, view = self.sources[of], self.view
        if source.offset:
            view = replace(view, start=float(view.start_ns - source.offset))
        gap = self.gap[1:] if self.gap is not None and self.gap[0] == of else None
        return Local(source, view, self.layout, self.selected if of == self.active else -1, gap)
