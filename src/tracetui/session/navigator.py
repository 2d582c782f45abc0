"""Moving through the recordings: view, selection, range and overlays, held as one Scene.

Every method changes the scene at once and calls the callbacks; nothing here draws or waits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from tracetui.core.copying import replace
from tracetui.session.history import History
from tracetui.session.layout import Layout
from tracetui.session.recording import Recording
from tracetui.timeline import moves, viewport
from tracetui.timeline.arrangement import opened
from tracetui.timeline.scene import Event, Idle, Scene
from tracetui.timeline.themes import Theme
from tracetui.timeline.viewport import Viewport
from tracetui.trace.model import Bool, Trace


def nothing(*_: Any) -> None:
    """The default callback."""


class Viewpoint(Struct, frozen=True, eq=False):
    """A place in the session, to return to."""

    scene: Scene
    height: int
    moved: bool
    history: History


class Navigator:
    """The current scene of a session, and every way to move in it."""

    def __init__(self, recordings: Sequence[Recording], theme: Theme, layout: Layout) -> None:
        self.recordings = list(recordings)
        """At least one; the scene's sources are in the same order."""
        sources = tuple(layout.place([recording.source(theme) for recording in recordings]))
        lows, highs = zip(*(source.span for source in sources), strict=True)
        self.scene = Scene(sources, Viewport(0.0, 1.0, 66), opened(sources, 20), span=(min(lows), max(highs)))
        self.scene = replace(self.scene, view=viewport.fit(*self.scene.first_view, 66, margin=0.01))
        self.height = 24
        """Height of the screen in lines."""
        self.moved = False
        """Whether the view has moved since the start, other than by resizing."""
        self.returned: Viewpoint | None = None
        """The place that the user has returned to, until the next move. Its lanes come back when the screen
        has the height of then again."""
        self._history = History()
        self.on_change: Callable[[], object] = nothing
        """Called after every change of the scene."""
        self.on_select: Callable[[], object] = nothing
        """Called when another event was selected, or none."""
        self.after_select: Callable[[], object] = nothing
        """Called once a selected event has been brought into view."""
        self.on_range: Callable[[], object] = nothing
        """Called when another range was selected, or none."""

    @property
    def trace(self) -> Trace:
        """The trace of the active recording."""
        return self.scene.source.trace

    @property
    def active(self) -> int:
        """Index of the recording that the selection is, or last was, in."""
        return self.scene.active

    @property
    def recording(self) -> Recording:
        """The active recording."""
        return self.recordings[self.active]

    @property
    def offset(self) -> int:
        """Session time minus the active recording's time, ns."""
        return self.scene.source.offset

    @property
    def view(self) -> Viewport:
        """The time range on the screen."""
        return self.scene.view

    @property
    def middle(self) -> int:
        """The time at the middle of the screen, ns."""
        return (self.view.start_ns + self.view.end_ns) // 2

    @property
    def selected(self) -> int | None:
        """The selected slice of the active recording."""
        return self.scene.selected if self.scene.selected >= 0 else None

    @property
    def range_ns(self) -> tuple[int, int] | None:
        """The selected time range, ns."""
        return self.scene.band

    # Moving

    def go(self, scene: Scene, *, jump: bool | None = None) -> None:
        """Show another scene. `jump`: add the old view to the history (None: only if the move is far)."""
        before, self.returned = self.scene.view, None
        if scene.view != before:
            self.moved = True
            if jump or (jump is None and moves.is_jump(before, scene.view)):
                self._history.leave(before)
        self.show_scene(scene)

    def change(self, **changes: Any) -> None:
        """Change some fields of the scene."""
        self.show_scene(replace(self.scene, **changes))

    def show_scene(self, scene: Scene) -> None:
        """Show another scene without touching the history."""
        self.scene = scene
        self.on_change()

    def show(self, start_ns: int, end_ns: int) -> None:
        """Show a time range with a small margin on both sides. Adds to the history."""
        view = viewport.fit(start_ns, end_ns, self.view.width, margin=0.02)
        self.go(moves.look(self.scene, view), jump=True)

    def fit(self) -> None:
        """Show everything."""
        self.show(*self.scene.span)

    def zoom(self, factor: float, about: float | None = None) -> None:
        """Zoom in (factor > 1) or out around a time (default: the selection if in view, else the center)."""
        self.go(moves.zoomed(self.scene, factor, about), jump=False)

    def pan(self, fraction: float) -> None:
        """Move by a fraction of the screen's width; positive: to later times."""
        cells = round(fraction * self.view.width) or (1 if fraction > 0 else -1)
        self.go(moves.look(self.scene, viewport.pan(self.view, cells)), jump=False)

    def center_on(self, time_ns: float, *, jump: bool = True) -> None:
        """Center the view on a time. `jump`: add the old view to the history."""
        self.go(moves.look(self.scene, viewport.center(self.view, time_ns)), jump=jump)

    def scroll_lanes(self, lines: int, *, docked: bool = False) -> None:
        """Scroll the lanes; positive: down. `docked`: those of the devices."""
        self.go(moves.scrolled_by(self.scene, lines, self.height, docked=docked))

    def reveal(self, slice_index: int, *, closer: bool = True) -> None:
        """Bring a slice of the active recording into view: pan, scroll and unfold as little as possible.
        `closer`: zoom in if it is tiny."""
        self.go(moves.revealed(self.scene, slice_index, self.height, closer=closer))

    def center(self) -> None:
        """Center the selection; if it is centered already, fit it to the screen."""
        self.go(moves.centered(self.scene), jump=True)

    def go_to(self, time_ns: int) -> None:
        """Center the view on a time and draw a line there. Adds to the history."""
        self.go(moves.gone_to(self.scene, time_ns), jump=True)

    def leave_instant(self) -> None:
        """Remove the line that `go_to` drew."""
        self.change(instant=None)

    def back(self) -> bool:
        """Return to the view before the last jump. False if there is none."""
        return self._recall(self._history.back(self.view))

    def forward(self) -> bool:
        """Undo `back`. False if there is nothing to undo."""
        return self._recall(self._history.forward(self.view))

    def exchange(self, recording: Recording, scene: Scene, shift: int) -> None:
        """Replace the only recording by another one, whose zero is `shift` ns later, and show this scene of
        it."""
        self.recordings[:], self.returned = [recording], None
        self._history.shift(shift)
        self.show_scene(scene)

    def _recall(self, view: Viewport | None) -> bool:
        if view is not None:
            self.go(moves.look(self.scene, viewport.resize(view, self.view.width)), jump=False)
        return view is not None

    def viewpoint(self) -> Viewpoint:
        """The current place, for `return_to`."""
        return Viewpoint(self.scene, self.height, self.moved, self._history.copy())

    def return_to(self, place: Viewpoint) -> None:
        """Go back to a place: its view, selection and lanes. What was loaded since then stays."""
        then, before = place.scene, self.scene.event
        scene = moves.chosen(self.scene, then.selected, then.active)
        view = viewport.resize(then.view, scene.view.width)
        scene = replace(scene, view=view, gap=then.gap, instant=then.instant, top=then.top)
        if len(then.layout.rows) == len(scene.layout.rows):
            scene = moves.arranged(scene, then.layout, self.height)
        self.moved, self._history = place.moved, place.history.copy()
        self.show_scene(scene)
        self.returned = place
        if scene.event != before:
            self.on_select()

    # Selecting

    def select(self, slice_index: int | None, *, of: int | None = None, reveal: bool = True) -> None:
        """Select a slice (None: none) of a recording (None: the active one). `reveal`: bring it into view."""
        of = self.active if of is None else of
        if (None if slice_index is None else Event(of, slice_index)) != self.scene.event:
            self.go(moves.chosen(self.scene, -1 if slice_index is None else slice_index, of))
            self.on_select()
        if slice_index is not None and reveal:
            self.reveal(slice_index)
        self.after_select()

    def move(self, direction: str) -> bool:
        """Select "next" or "previous" in the row, "up" (parent, row above) or "down" (child, row below)."""
        found = moves.stepped(self.scene, direction)
        if found is None:
            return False
        of, slice_index = found
        self.select(slice_index, of=of, reveal=False)
        self.reveal(slice_index, closer=False)
        self.after_select()
        return True

    def set_range(self, start_ns: int | None, end_ns: int | None = None, *, quiet: bool = False) -> None:
        """Select a time range; None clears it. `quiet`: do not call `on_range`."""
        band = None if start_ns is None or end_ns is None else (min(start_ns, end_ns), max(start_ns, end_ns))
        if band != self.scene.band:
            self.change(band=band)
            if not quiet:
                self.on_range()

    # Overlays

    def set_gaps(self, gaps: Mapping[int, Idle], *, of: int | None = None) -> None:
        """Set the gaps to draw in a recording (None: the active one), by device."""
        self.show_scene(self.scene.having(of, gaps=gaps))

    def set_gap(self, device: int | None, index: int = 0) -> None:
        """Highlight a gap of the active recording and bring it into view; None removes the highlight."""
        self.change(gap=None if device is None else (self.active, device, index))
        if device is not None:
            self.go(moves.gap_shown(self.scene, self.active, device, index, self.height))

    def set_matches(self, masks: Sequence[Bool] | None) -> None:
        """Set the search matches: a mask over each recording's slices; None: no search."""
        given = [None] * len(self.scene.sources) if masks is None else masks
        sources = [
            replace(source, matches=None if mask is None else source.rows.drawn_mask(mask))
            for source, mask in zip(self.scene.sources, given, strict=True)
        ]
        self.change(sources=tuple(sources))
