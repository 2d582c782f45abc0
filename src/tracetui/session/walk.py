"""A walk over the recordings: the view, the selection, the range and what lies over the lanes, as a Scene.

Every method changes the scene at once. Whoever shows it sets the callbacks: nothing here draws or waits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from tracetui.session.history import History
from tracetui.session.recording import Recording
from tracetui.timeline import moves, viewport
from tracetui.timeline.busy import busy_of, overall
from tracetui.timeline.layout import lay_out
from tracetui.timeline.palette import Palette
from tracetui.timeline.rows import Rows
from tracetui.timeline.scene import Fixed, Idle, Scene
from tracetui.timeline.themes import Theme
from tracetui.timeline.viewport import Viewport
from tracetui.trace.model import Bool, Trace


class Event(NamedTuple):
    """What names an event in a session of several recordings."""

    recording: int
    """Its place among the session's recordings."""
    slice: int
    """The slice of that recording's trace."""


def nothing(*_: Any) -> None:
    """The callback of a walk that nobody watches."""


class Walk:
    """The scene of a session and the moves through it."""

    def __init__(self, recordings: Sequence[Recording], theme: Theme) -> None:
        recording = recordings[0]
        trace = recording.trace
        busy = busy_of(trace)
        fixed = Fixed(
            trace, Rows(trace), Palette(trace, theme), recording.short, busy, overall(busy.values())
        )
        view = viewport.fit(*trace.first_view, 66, margin=0.01)
        low, high = trace.span
        self.scene = Scene(fixed, view, lay_out(trace, 20), span=(low, max(high, low + 1)))
        self.height = 24
        """Lines of the screen that the scene is drawn on."""
        self.moved = False
        """Whether anything but the size decided what is in view."""
        self._history = History()
        self.on_change: Callable[[], object] = nothing
        """Called after each change of the scene."""
        self.on_select: Callable[[int | None], object] = nothing
        """Called with another selected slice, or None."""
        self.on_range: Callable[[tuple[int, int] | None], object] = nothing
        """Called with another range (ns), or None."""

    @property
    def trace(self) -> Trace:
        """The trace of the active recording."""
        return self.scene.fixed.trace

    @property
    def active(self) -> int:
        """The recording that the selection is in."""
        return 0

    @property
    def offsets(self) -> Sequence[int]:
        """For each recording, what its time lies behind the session's clock, ns."""
        return (0,)

    @property
    def offset(self) -> int:
        """That of the active recording."""
        return self.offsets[self.active]

    @property
    def view(self) -> Viewport:
        """The stretch of time on the screen."""
        return self.scene.view

    @property
    def middle(self) -> int:
        """The instant in the middle of the screen, ns."""
        return (self.view.start_ns + self.view.end_ns) // 2

    @property
    def selected(self) -> int | None:
        """The selected slice of the active recording."""
        return self.scene.selected if self.scene.selected >= 0 else None

    @property
    def event(self) -> Event | None:
        """The selected event."""
        return Event(self.active, self.scene.selected) if self.scene.selected >= 0 else None

    def start_of(self, event: Event) -> int:
        """When an event starts on the session's clock, ns."""
        return int(self.trace.start[event.slice]) + self.offsets[event.recording]

    @property
    def range_ns(self) -> tuple[int, int] | None:
        """The selected range of time, ns."""
        return self.scene.band

    # Moving

    def go(self, scene: Scene, *, jump: bool | None = None) -> None:
        """Show another scene; `jump`: whether the view before it enters the history (None: if it is far)."""
        before = self.scene.view
        if scene.view != before:
            self.moved = True
            if jump or (jump is None and moves.is_jump(before, scene.view)):
                self._history.leave(before)
        self.scene = scene
        self.on_change()

    def change(self, **changes: Any) -> None:
        """Another scene, with some fields changed."""
        self.scene = replace(self.scene, **changes)
        self.on_change()

    def show(self, start_ns: int, end_ns: int) -> None:
        """Show a stretch of time, with a little air on either side. Goes into the history."""
        view = viewport.fit(start_ns, end_ns, self.view.width, margin=0.02)
        self.go(moves.look(self.scene, view), jump=True)

    def fit(self) -> None:
        """Show everything."""
        self.show(*self.scene.span)

    def zoom(self, factor: float, about: float | None = None) -> None:
        """Zoom in (over 1) or out about an instant (default: the selection if in view, else the centre)."""
        self.go(moves.zoomed(self.scene, factor, about), jump=False)

    def pan(self, fraction: float) -> None:
        """Move by a share of the screen's width, later where positive."""
        cells = round(fraction * self.view.width) or (1 if fraction > 0 else -1)
        self.go(moves.look(self.scene, viewport.pan(self.view, cells)), jump=False)

    def centre_on(self, time_ns: float, *, jump: bool = True) -> None:
        """Move an instant into the middle. `jump`: goes into the history."""
        self.go(moves.look(self.scene, viewport.centre(self.view, time_ns)), jump=jump)

    def scroll_lanes(self, lines: int) -> None:
        """Scroll the lanes, down where positive."""
        self.go(moves.scrolled(self.scene, self.scene.top + lines, self.height))

    def reveal(self, slice_index: int, *, closer: bool = True) -> None:
        """Move, scroll and unfold just so far that a slice is in view; `closer`: zoom in if it is tiny."""
        self.go(moves.revealed(self.scene, slice_index, self.height, closer=closer))

    def centre(self) -> None:
        """Centre the selection; asked again without anything in between, fit it."""
        self.go(moves.centred(self.scene), jump=True)

    def go_to(self, time_ns: int) -> None:
        """Move to an instant and mark it. Goes into the history."""
        self.go(moves.gone_to(self.scene, time_ns), jump=True)

    def leave_instant(self) -> None:
        """Take the mark of `go_to` away."""
        self.change(instant=None)

    def back(self) -> bool:
        """Return to the view before the last jump. False where there is none."""
        return self._recall(self._history.back(self.view))

    def forward(self) -> bool:
        """Undo `back`. False where there is nothing to undo."""
        return self._recall(self._history.forward(self.view))

    def _recall(self, view: Viewport | None) -> bool:
        if view is not None:
            self.go(moves.look(self.scene, viewport.resize(view, self.view.width)), jump=False)
        return view is not None

    # Selecting

    def select(self, slice_index: int | None, *, reveal: bool = True) -> None:
        """Select a slice (None: none). `reveal`: bring it into view."""
        if slice_index != self.selected:
            self.go(moves.chosen(self.scene, -1 if slice_index is None else slice_index))
            self.on_select(slice_index)
        if slice_index is not None and reveal:
            self.reveal(slice_index)

    def move(self, direction: str) -> bool:
        """Select "next" or "previous" in the row, "up" (parent, row above) or "down" (child, row below)."""
        found = moves.stepped(self.scene, direction)
        if found is None:
            return False
        self.select(found, reveal=False)
        self.reveal(found, closer=False)
        return True

    def set_range(self, start_ns: int | None, end_ns: int | None = None, *, quiet: bool = False) -> None:
        """Mark a range of time; None takes it away. `quiet`: without a call of `on_range`."""
        band = None if start_ns is None or end_ns is None else (min(start_ns, end_ns), max(start_ns, end_ns))
        if band != self.scene.band:
            self.change(band=band)
            if not quiet:
                self.on_range(band)

    # What lies over the lanes

    def set_gaps(self, gaps: dict[int, Idle]) -> None:
        """The gaps to draw, by device."""
        self.change(gaps=gaps)

    def set_gap(self, device: int | None, index: int = 0) -> None:
        """Highlight a gap and bring it into view; None: none."""
        self.change(gap=None if device is None else (device, index))
        if device is not None:
            self.go(moves.gap_shown(self.scene, device, index, self.height))

    def set_matches(self, masks: Sequence[Bool] | None) -> None:
        """What matches a search: for each recording a mask over its slices."""
        self.change(matches=None if masks is None else masks[0])
