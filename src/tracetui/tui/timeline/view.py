"""The timeline widget: it holds what is shown, draws it, and answers calls, keys and clicks with moves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from textual import events, messages
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget
from textual.worker import get_current_worker

from tracetui.session.history import History
from tracetui.timeline import moves, viewport
from tracetui.timeline.canvas import Packed
from tracetui.timeline.frame import paint
from tracetui.timeline.labels import label_width
from tracetui.timeline.layout import lay_out
from tracetui.timeline.scene import EDGE, Scene
from tracetui.timeline.themes import Theme
from tracetui.timeline.viewport import Viewport
from tracetui.trace.model import Trace
from tracetui.tui.timeline.bar import SelectionBar, describe
from tracetui.tui.timeline.delta_strips import Board, DeltaStrip
from tracetui.tui.timeline.lanes import Lanes
from tracetui.tui.timeline.marking import Marking
from tracetui.tui.timeline.messages import (
    Gaps,
    RangeChanged,
    SelectionChanged,
    ViewportChanged,
)
from tracetui.tui.timeline.mouse import Mouse
from tracetui.tui.timeline.pace import Pace, frame_limit
from tracetui.tui.timeline.setup import fixed_of, series_of, theme_of


class TimelineView(Mouse, Lanes, Marking, Widget, can_focus=True):
    """Overview, ruler and lanes of a trace over one stretch of time.

    Methods change what is shown at once and draw it with the next frame; many calls cost one frame.
    `short` gives the text for a name's index (default: the name itself); it is asked once per name.
    """

    DEFAULT_CSS = "TimelineView { height: 1fr; width: 1fr; }"
    ALLOW_SELECT = False

    def __init__(
        self,
        trace: Trace,
        *,
        gaps: Sequence[Gaps] = (),
        short: Callable[[int], str] | None = None,
        theme: Theme | None = None,
        id: str | None = None,
    ) -> None:
        """`theme`: None follows the app's theme."""
        super().__init__(id=id)
        self.trace = trace
        self.bar: SelectionBar | None = None
        """Shows the selected event, in the same frame as the timeline itself."""
        self._given_theme = theme
        fixed = fixed_of(trace, theme or theme_of(None), short)
        low, high = trace.span
        view = viewport.fit(*trace.first_view, 66, margin=0.01)
        self._scene = Scene(fixed, view, lay_out(trace, 20), span=(low, max(high, low + 1)))
        self._moved = False
        """Whether anything but the size decided what is in view."""
        self._arranged = False
        """Whether a person folded, hid, pinned or moved a lane."""
        self._fitted = 0
        """The height that the lanes were last fitted to."""
        self._history = History()
        self._cells: Packed | None = None
        self._board = Board(0)
        self._strips: list[DeltaStrip] = []
        self._waiting = False
        self.pace = Pace(frame_limit(None))
        """Decides when a frame may be drawn."""
        self._told: Viewport | None = None
        self.set_gaps(gaps)

    # What is shown

    @property
    def scene(self) -> Scene:
        """All of it."""
        return self._scene

    @property
    def viewport(self) -> Viewport:
        """The stretch of time on the screen."""
        return self._scene.view

    @property
    def selected(self) -> int | None:
        """The selected slice."""
        return self._scene.selected if self._scene.selected >= 0 else None

    @property
    def range_ns(self) -> tuple[int, int] | None:
        """The selected range of time, nanoseconds."""
        return self._scene.band

    # Moving

    def _go(self, scene: Scene, *, jump: bool | None = None) -> None:
        """Show another scene; `jump`: whether the view before it enters the history (None: if it is far)."""
        before = self._scene.view
        if scene.view != before:
            self._moved = True
            if jump or (jump is None and moves.is_jump(before, scene.view)):
                self._history.leave(before)
        self._scene = scene
        self._wake()

    def show(self, start_ns: int, end_ns: int) -> None:
        """Show a stretch of time, with a little air on either side. Goes into the history."""
        view = viewport.fit(start_ns, end_ns, self.viewport.width, margin=0.02)
        self._go(moves.look(self._scene, view), jump=True)

    def fit(self) -> None:
        """Show the whole trace."""
        self.show(*self._scene.span)

    def zoom(self, factor: float, about: float | None = None) -> None:
        """Zoom in (over 1) or out about an instant (default: the selection if in view, else the centre)."""
        self._go(moves.zoomed(self._scene, factor, about), jump=False)

    def pan(self, fraction: float) -> None:
        """Move by a share of the screen's width, later where positive."""
        cells = round(fraction * self.viewport.width) or (1 if fraction > 0 else -1)
        self._go(moves.look(self._scene, viewport.pan(self.viewport, cells)), jump=False)

    def centre_on(self, time_ns: float, *, jump: bool = True) -> None:
        """Move an instant into the middle. `jump`: goes into the history."""
        self._go(moves.look(self._scene, viewport.centre(self.viewport, time_ns)), jump=jump)

    def scroll_lanes(self, lines: int) -> None:
        """Scroll the lanes, down where positive."""
        self._go(moves.scrolled(self._scene, self._scene.top + lines, self.size.height))

    def reveal(self, slice_index: int, *, closer: bool = True) -> None:
        """Move, scroll and unfold just so far that a slice is in view; `closer`: zoom in if it is tiny."""
        self._go(moves.revealed(self._scene, slice_index, self.size.height, closer=closer))

    def centre(self) -> None:
        """Centre the selection; asked again without anything in between, fit it."""
        self._go(moves.centred(self._scene), jump=True)

    def back(self) -> bool:
        """Return to the view before the last jump. False where there is none."""
        return self._recall(self._history.back(self.viewport))

    def forward(self) -> bool:
        """Undo `back`. False where there is nothing to undo."""
        return self._recall(self._history.forward(self.viewport))

    def _recall(self, view: Viewport | None) -> bool:
        if view is not None:
            self._go(moves.look(self._scene, viewport.resize(view, self.viewport.width)), jump=False)
        return view is not None

    # Selecting

    def select(self, slice_index: int | None, *, reveal: bool = True, quiet: bool = False) -> None:
        """Select a slice. `reveal`: bring it into view; `quiet`: send no `SelectionChanged`."""
        if slice_index != self.selected:
            self._go(moves.chosen(self._scene, -1 if slice_index is None else slice_index))
            if not quiet:
                self.post_message(SelectionChanged(slice_index))
        if slice_index is not None and reveal:
            self.reveal(slice_index)

    def move(self, direction: str) -> bool:
        """Select "next" or "previous" in the row, "up" (parent, row above) or "down" (child, row below)."""
        found = moves.stepped(self._scene, direction)
        if found is None:
            return False
        self.select(found, reveal=False)
        self.reveal(found, closer=False)
        return True

    def set_range(self, start_ns: int | None, end_ns: int | None = None, *, quiet: bool = False) -> None:
        """Mark a range of time; None takes it away. `quiet`: send no `RangeChanged`."""
        band = None if start_ns is None or end_ns is None else (min(start_ns, end_ns), max(start_ns, end_ns))
        if band != self._scene.band:
            self._change(band=band)
            if not quiet:
                self.post_message(RangeChanged(band))

    # Drawing

    def _change(self, **changes: object) -> None:
        """Another scene, drawn with the next frame."""
        self._scene = replace(self._scene, **changes)  # type: ignore[arg-type]
        self._wake()

    def _wake(self) -> None:
        if not self._waiting and self.is_mounted:
            self._waiting = True
            # Behind the keys that already wait: a held key changes the scene many times per frame.
            self.call_later(self._draw)

    def _draw(self) -> None:
        wait = self.pace.wait(self.app)
        if wait:
            self.set_timer(wait, self._draw)
            return
        self._waiting = False
        regions = self._render_frame()
        barred = self._update_bar()
        if regions:
            self.refresh(*regions)
            # Both at once, so that they leave in one write.
            self.screen.post_message(messages.Update(self))
        if barred is not None:
            self.screen.post_message(messages.Update(barred))
        if self._told != self._scene.view:
            self._told = self._scene.view
            self.post_message(ViewportChanged(self._scene.view))

    def _render_frame(self) -> list[Region]:
        """Paint the scene; the lines that changed, as regions."""
        width, height = self.size
        cells = paint(self._scene, height).packed()[:, :width]  # the labels alone may be wider than that
        before = self._cells
        if before is None or before.shape != cells.shape:
            self._board = Board(height)
            self._strips = [DeltaStrip(cells[y], y, self._board) for y in range(height)]
            lines = list(range(height))
        else:
            lines = np.flatnonzero((cells != before).any(axis=1)).tolist()
            for y in lines:
                self._strips[y] = DeltaStrip(cells[y], y, self._board)
        self._cells = cells
        # Up to the last cell that differs from the screen's.
        return [Region(0, y, self._strips[y].end, 1) for y in lines if self._strips[y].end]

    def _update_bar(self) -> SelectionBar | None:
        bar, scene = self.bar, self._scene
        if bar is None or not bar.is_mounted:
            return None
        if scene.selected >= 0:
            parts = describe(self.trace, scene.selected, bar.size.width, scene.fixed.short)
        else:
            parts = [("nothing selected", False), ("  click an event, or press an arrow key", False)]
        return bar if bar.show(parts, scene.fixed.theme) else None

    def render_lines(self, crop: Region) -> list[Strip]:
        width, height = self.size
        if self._cells is None or self._cells.shape != (height, width):
            self._render_frame()
        strips = self._strips[crop.y : crop.bottom]
        if crop.x == 0 and crop.width >= width:
            return list(strips)
        return [strip.piece(crop.x, crop.right) for strip in strips]

    def on_mount(self) -> None:
        self.set_theme(self._given_theme)
        self.run_worker(self._derive, thread=True, group="series", exit_on_error=False)
        self.app.theme_changed_signal.subscribe(self, lambda _: self.set_theme(self._given_theme))

    def _derive(self) -> None:
        worker = get_current_worker()
        for found in series_of(self.trace, lambda: worker.is_cancelled):
            self.app.call_from_thread(self.set_series, found)

    def on_resize(self, event: events.Resize) -> None:
        width = event.size.width
        labels = label_width(width)
        room = max(1, width - labels - EDGE)
        scene = self._scene
        if self._moved:
            view = viewport.resize(scene.view, room)
        else:
            view = viewport.fit(*self.trace.first_view, room, margin=0.01)
        layout = scene.layout if self._arranged else self._opening_layout(scene.series)
        self._change(view=view, labels=labels)
        self._scene = moves.refitted(self._scene, layout, self._fitted, event.size.height)
        self._fitted = event.size.height
