"""Everything that goes into a picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct, field

from tracetui.core.copying import replace
from tracetui.core.units import as_typed
from tracetui.timeline.links import Links
from tracetui.timeline.palette import Palette
from tracetui.timeline.rows import Rows
from tracetui.timeline.series import Series
from tracetui.timeline.themes import Theme
from tracetui.timeline.track_layout import Line, TrackLayout
from tracetui.timeline.viewport import Viewport
from tracetui.trace.intervals import Intervals
from tracetui.trace.model import I64, Bool, Trace

TOP = 2
"""Lines above the lanes: overview and ruler."""
EDGE = 1
"""Cells on the right: where the lanes are scrolled to."""


class Event(NamedTuple):
    """An event of one of several recordings."""

    source: int
    """Index into `Scene.sources`."""
    slice: int
    """Slice of that source's trace."""


class Idle(Struct, frozen=True, eq=False):
    """The gaps of one device, sorted by start. Arrays of one length, nanoseconds of the trace."""

    start: I64
    end: I64
    causes: Callable[[int], Sequence[str]] = lambda _: ()
    """Why a gap is there, from the longest text to the shortest; nothing while that is not known."""


class Source(Struct, frozen=True, eq=False):
    """One recording: what is built once per trace (and theme), and what is highlighted in it."""

    trace: Trace
    rows: Rows
    palette: Palette
    short: Callable[[int], str]
    """The short form of a name (by index), for bars."""
    devices: Mapping[int, Intervals]
    """When each device was busy; without devices, as `busy_of` says. Nothing while the file is being read."""
    offset: int = 0
    """Axis time minus trace time, ns."""
    title: str = ""
    """The heading, if there are several sources; safe to show."""
    letter: str = ""
    """What it is called in short: "A", "B"; "" for a recording alone."""
    links: Links | None = None
    """The partners of its events in another source; None while nothing is compared."""
    partner: int = -1
    """The slice that is drawn as selected while the selection, its partner, is in another source."""
    gaps: Mapping[int, Idle] = field(default_factory=dict)
    """By device."""
    matches: Bool | None = None
    """Mask over the slices."""
    same: int = -1
    """Index of the name whose events are highlighted; -1: none."""
    series: tuple[Series, ...] = ()
    """The series of the counter tracks."""
    roles: Sequence[str] = ()
    """What each lane is called, safe to show; without, by its name."""
    left: Sequence[Mapping[str, Any]] = ()
    """The saved arrangement of its lanes, see `arrangement`. Series that come later use it, too."""
    kept: dict[object, Any] = field(default_factory=dict)
    """A cache between frames (such as the overview's shares)."""

    def index_of(self, name: str) -> int:
        """Index of a name in the trace, -1 if it has no such name."""
        indices = self.kept.get("names")
        if indices is None:
            indices = self.kept["names"] = {text: i for i, text in enumerate(self.trace.names)}
        return int(indices.get(name, -1))

    def lane_name(self, lane: int) -> str:
        """What a lane is called."""
        return self.roles[lane] if self.roles else self.trace.lanes[lane].name

    def start(self, slice_index: int) -> int:
        """When a slice starts, on the axis."""
        return int(self.trace.start[slice_index]) + self.offset

    @property
    def span(self) -> tuple[int, int]:
        """First start to last end on the axis, at least 1 ns. Looks at every slice."""
        low, high = self.on_axis(self.trace.span)
        return low, max(high, low + 1)

    def on_axis(self, stretch: tuple[int, int]) -> tuple[int, int]:
        """A time range of the trace, on the axis."""
        return stretch[0] + self.offset, stretch[1] + self.offset


class Local(Struct, frozen=True, eq=False):
    """The scene as one source sees it: in its own time and its own slices."""

    source: Source
    view: Viewport
    layout: TrackLayout
    selected: int
    """What stands for the selected slice in its row, see `Rows.drawn`; if the selection is in another source,
    for its partner here, or -1."""
    chosen: int
    """That slice itself."""
    gap: tuple[int, int] | None
    """The selected gap: device, index."""

    @property
    def theme(self) -> Theme:
        return self.source.palette.theme


class Scene(Struct, frozen=True, eq=False):
    """What to draw, as an immutable value. All times are axis times."""

    sources: tuple[Source, ...]
    """One or more, all with the same theme."""
    view: Viewport
    layout: TrackLayout
    top: int = 0
    """First line of the scrolled part."""
    foot: int = 0
    """First line of the dock on the screen: 0 unless it takes more lines than there is room for."""
    labels: int = 14
    """Cells of the column of lane labels."""
    active: int = 0
    """The source that the selection is, or last was, in."""
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
    """(time in ns, label) of the marks, by time."""
    instant: int | None = None
    """The time (ns) of the last "go to", drawn like a mark until something else is selected."""

    @property
    def source(self) -> Source:
        """The active one."""
        return self.sources[self.active]

    @property
    def theme(self) -> Theme:
        return self.sources[0].palette.theme

    @property
    def first_view(self) -> tuple[int, int]:
        """The time range to show first: the interesting part of every source."""
        lows, highs = zip(*(source.on_axis(source.trace.first_view) for source in self.sources), strict=True)
        return min(lows), max(highs)

    @property
    def band_columns(self) -> slice:
        """The columns of the selected range, empty without one."""
        if self.band is None:
            return slice(0, 0)
        start, end = self.band
        columns = self.view.column(start), self.view.column(max(start, end - 1)) + 1
        return slice(max(0, columns[0]), max(0, columns[1]))

    @property
    def event(self) -> Event | None:
        """The selection."""
        return Event(self.active, self.selected) if self.selected >= 0 else None

    @property
    def focus(self) -> int | None:
        """The last "go to" or else the middle of the selection, if that is in view."""
        if self.instant is not None and self.view.contains(self.instant):
            return self.instant
        if self.selected < 0:
            return None
        length = int(self.source.trace.duration[self.selected])
        middle = self.source.start(self.selected) + length // 2
        return middle if self.view.contains(middle) else None

    @property
    def cursor(self) -> int:
        """The time that a zoom is about and that the numbers of counters are of: the focus, else the middle
        of the screen. It is marked in the ruler and on the counters."""
        return (self.view.start_ns + self.view.end_ns) // 2 if self.focus is None else self.focus

    @property
    def flags(self) -> tuple[tuple[int, str], ...]:
        """The marks, and the time of the last "go to", by time."""
        if self.instant is None:
            return self.marks
        return tuple(sorted((*self.marks, (self.instant, as_typed(self.instant)))))

    def lines(self, height: int) -> list[Line]:
        """The lines on a screen whose lanes take `height` lines."""
        return self.layout.lines(self.top, height, self.foot)

    def title(self, of: int) -> str:
        """The name of a source, if there are several."""
        source = self.sources[of]
        return f"{source.letter} {source.title}".strip() or f"recording {of + 1}"

    def letter(self, of: int) -> str:
        """What a source is called in short, if there are several."""
        return self.sources[of].letter or self.title(of)

    def having(self, of: int | None = None, **changes: Any) -> Scene:
        """With some fields of one source (None: the active one) changed."""
        of = self.active if of is None else of
        changed = replace(self.sources[of], **changes)
        return replace(self, sources=(*self.sources[:of], changed, *self.sources[of + 1 :]))

    def local(self, of: int) -> Local:
        """The scene as one source sees it."""
        source, view = self.sources[of], self.view
        if source.offset:
            view = replace(view, start=float(view.start_ns - source.offset))
        gap = self.gap[1:] if self.gap is not None and self.gap[0] == of else None
        chosen = self.selected if of == self.active else source.partner
        return Local(source, view, self.layout, source.rows.drawn(chosen) if chosen >= 0 else -1, chosen, gap)
