"""The timeline widget: it holds what is shown, draws it, and answers calls, keys and clicks with moves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from textual import events, messages, on
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget
from textual.worker import get_current_worker

from tracetui.session.history import History
from tracetui.timeline import arrangement, moves, viewport
from tracetui.timeline.canvas import Packed
from tracetui.timeline.frame import paint
from tracetui.timeline.labels import label_width
from tracetui.timeline.layout import Layout, Of
from tracetui.timeline.scene import EDGE, TOP, Scene
from tracetui.timeline.series import Series
from tracetui.timeline.themes import Theme
from tracetui.timeline.viewport import Viewport
from tracetui.trace.model import Trace
from tracetui.tui.timeline.bar import SelectionBar, describe
from tracetui.tui.timeline.delta_strips import Board, DeltaStrip
from tracetui.tui.timeline.messages import (
    Flag,
    GapId,
    Gaps,
    LanesArranged,
    RangeChanged,
    SelectionChanged,
    ViewportChanged,
)
from tracetui.tui.timeline.mouse import Mouse
from tracetui.tui.timeline.pace import Pace, frame_limit
from tracetui.tui.timeline.setup import gaps_of, series_of, source_of, theme_of, themed


class TimelineView(Widget, can_focus=True):
    """Overview, ruler and lanes of one or more recordings over one stretch of time.

    Methods change what is shown at once and draw it with the next frame; many calls cost one frame. Times are
    those of the axis. `of` is a recording's index, in the order in which they came; None: that of the
    selection. A lane that is not given is the selection's.
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
        title: str = "",
        id: str | None = None,
    ) -> None:
        """`theme`: None follows the app's theme; the others: see `add`."""
        super().__init__(id=id)
        self.bar: SelectionBar | None = None
        """Shows the selected event, in the same frame as the timeline itself."""
        self._given_theme = theme
        source = source_of(trace, theme or theme_of(None), short, gaps, title=title)
        view = viewport.fit(*trace.first_view, 66, margin=0.01)
        self._scene = Scene((source,), view, arrangement.opened((source,), 20), span=source.span)
        self._moved = False
        """Whether anything but the size decided what is in view."""
        self._arranged = False
        """Whether a person folded, hid, pinned or moved a lane."""
        self._fitted = 0
        """The height that the lanes were last fitted to."""
        self._history = History()
        self._mouse = Mouse(self)
        self._cells: Packed | None = None
        self._board = Board(0)
        self._strips: list[DeltaStrip] = []
        self._waiting = False
        self.pace = Pace(frame_limit(None))
        """Decides when a frame may be drawn."""
        self._told: Viewport | None = None

    def add(
        self,
        trace: Trace,
        offset: int = 0,
        *,
        gaps: Sequence[Gaps] = (),
        short: Callable[[int], str] | None = None,
        title: str = "",
    ) -> int:
        """Show another recording below the others. Returns its index.

        `offset`: nanoseconds from a time in the trace to the same on the axis. `short` gives the text for a
        name's index (default: the name itself), and is asked once per name. `title` stands above its lanes.
        """
        scene, of = self._as_left(), len(self._scene.sources)
        source = source_of(trace, scene.theme, short, gaps, offset, title)
        (low, high), (first, last) = scene.span, source.span
        scene = replace(scene, sources=(*scene.sources, source), span=(min(low, first), max(high, last)))
        self._scene = replace(scene, view=self._opening_view(scene, scene.view.width))
        self._reopen()
        if self.is_mounted:
            self._derive(of)
        return of

    # What is shown

    @property
    def scene(self) -> Scene:
        """All of it."""
        return self._scene

    @property
    def trace(self) -> Trace:
        """The recording of the selection."""
        return self._scene.source.trace

    @property
    def viewport(self) -> Viewport:
        """The stretch of time on the screen."""
        return self._scene.view

    @property
    def selected(self) -> int | None:
        """The selected slice, of recording `scene.active`."""
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
        self._show(scene)

    def show(self, start_ns: int, end_ns: int) -> None:
        """Show a stretch of time, with a little air on either side. Goes into the history."""
        view = viewport.fit(start_ns, end_ns, self.viewport.width, margin=0.02)
        self._go(moves.look(self._scene, view), jump=True)

    def fit(self) -> None:
        """Show all recordings whole."""
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

    def reveal(self, slice_index: int, *, of: int | None = None, closer: bool = True) -> None:
        """Move, scroll and unfold just so far that a slice is in view; `closer`: zoom in if it is tiny."""
        self._go(moves.revealed(self._scene, slice_index, self.size.height, closer=closer, of=of))

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

    def select(
        self, slice_index: int | None, *, of: int | None = None, reveal: bool = True, quiet: bool = False
    ) -> None:
        """Select a slice. `reveal`: bring it into view; `quiet`: send no `SelectionChanged`."""
        of = self._scene.active if of is None else of
        if (None if slice_index is None else (of, slice_index)) != self._scene.event:
            self._go(moves.chosen(self._scene, -1 if slice_index is None else slice_index, of))
            if not quiet:
                self.post_message(SelectionChanged(slice_index, of))
        if slice_index is not None and reveal:
            self.reveal(slice_index)

    def move(self, direction: str) -> bool:
        """Select "next" or "previous" in the row, "up" (parent, row above) or "down" (child, row below)."""
        found = moves.stepped(self._scene, direction)
        if found is None:
            return False
        of, slice_index = found
        self.select(slice_index, of=of, reveal=False)
        self.reveal(slice_index, closer=False)
        return True

    def set_range(self, start_ns: int | None, end_ns: int | None = None, *, quiet: bool = False) -> None:
        """Mark a range of time; None takes it away. `quiet`: send no `RangeChanged`."""
        band = None if start_ns is None or end_ns is None else (min(start_ns, end_ns), max(start_ns, end_ns))
        if band != self._scene.band:
            self._change(band=band)
            if not quiet:
                self.post_message(RangeChanged(band))

    # What is drawn over the lanes

    def set_gaps(self, gaps: Sequence[Gaps], *, of: int | None = None) -> None:
        """The gaps to draw on the devices' lanes."""
        self._show(self._scene.having(of, gaps=gaps_of(gaps)))

    def set_gap(self, gap: GapId | None, *, of: int | None = None, reveal: bool = True) -> None:
        """Highlight one gap."""
        of = self._scene.active if of is None else of
        self._change(gap=None if gap is None else (of, gap.device, gap.index))
        if gap is not None and reveal:
            self._go(moves.gap_shown(self._scene, of, gap.device, gap.index, self.size.height))

    def set_matches(self, slices: npt.NDArray[np.generic] | None, *, of: int | None = None) -> None:
        """Search matches, as sorted slice indices or a mask; highlighted here and in the overview."""
        mask: npt.NDArray[np.bool_] | None = None
        if slices is not None:
            mask = np.zeros(len(self.trace if of is None else self._scene.sources[of].trace), dtype=np.bool_)
            mask[slices] = True
        self._show(self._scene.having(of, matches=mask))

    def set_marks(self, marks: Sequence[Flag]) -> None:
        """Labelled instants, drawn in the ruler and down the lanes."""
        self._change(marks=tuple((m.time_ns, m.label) for m in marks))

    def go_to(self, time_ns: int) -> None:
        """Move to an instant and draw a line at it. Goes into the history."""
        self._go(moves.gone_to(self._scene, time_ns), jump=True)

    def leave_instant(self) -> None:
        """Take the line of `go_to` away."""
        self._change(instant=None)

    def set_series(self, series: Sequence[Series], *, of: int | None = None) -> None:
        """The values over time to draw below the lanes of a recording, in order."""
        scene, height = self._scene, self.size.height
        of = scene.active if of is None else of
        new = scene.having(of, series=tuple(series))
        if self._arranged:
            layout = arrangement.with_series(scene, of, series, height - TOP)
        else:
            layout = self._opening_layout(new)
        fitted = moves.refitted(scene, layout, height, height)
        self._show(replace(new, layout=fitted.layout, top=fitted.top))

    def set_theme(self, theme: Theme | None) -> None:
        """Other colours; None follows the app's theme."""
        self._given_theme = theme
        theme = theme or theme_of(self.app)
        self._change(sources=tuple(themed(source, theme) for source in self._scene.sources))

    # The lanes

    def _track(self, lane: int | None, of: int | None = None) -> int:
        scene = self._scene
        if lane is None:
            lane = int(self.trace.lane[scene.selected]) if scene.selected >= 0 else -1
        return scene.layout.track_of(Of.LANE, lane, scene.active if of is None else of)

    def _arrange(self, layout: Layout) -> None:
        self._arranged = True
        self._go(moves.arranged(self._scene, layout, self.size.height))
        self.post_message(LanesArranged())

    def toggle_track(self, track: int) -> None:
        """Fold a track to its top row, or unfold it."""
        layout = self._scene.layout
        folded = int(layout.shown[track]) < int(layout.rows[track])
        self._arrange(layout.with_shown(track, int(layout.rows[track]) if folded else 1))

    def toggle_fold(self, lane: int | None = None, *, of: int | None = None) -> bool:
        """Fold a lane to its top row, or unfold it. False where it has but one."""
        track = self._track(lane, of)
        if track < 0 or self._scene.layout.rows[track] < 2:
            return False
        self.toggle_track(track)
        return True

    def collapse_all(self) -> None:
        """Fold every lane to its top row."""
        self._arrange(self._scene.layout.with_all(1))

    def expand_all(self) -> None:
        """Show every row of every lane."""
        self._arrange(self._scene.layout.with_all(1 << 30))

    @property
    def all_folded(self) -> bool:
        """Whether no lane shows more than its top row."""
        return bool((self._scene.layout.shown <= 1).all())

    def is_hidden(self, lane: int | None = None, *, of: int | None = None) -> bool:
        """Whether a lane was taken off the screen."""
        track = self._track(lane, of)
        return track >= 0 and not self._scene.layout.shown[track]

    def hide_lane(self, lane: int | None = None, *, of: int | None = None) -> None:
        """Take a lane off the screen."""
        if (track := self._track(lane, of)) >= 0:
            self._arrange(self._scene.layout.with_shown(track, 0))

    def show_hidden(self) -> int:
        """Bring all hidden lanes and series back, as they were; how many those are."""
        hidden = int((self._scene.layout.shown == 0).sum())
        if hidden:
            self._arrange(self._scene.layout.with_hidden())
        return hidden

    def pin_lane(self, lane: int | None = None, *, of: int | None = None) -> bool:
        """Keep a lane on the screen above the others while they scroll; again: no longer. Whether it is."""
        track = self._track(lane, of)
        if track >= 0:
            self._arrange(self._scene.layout.toggle_pin(track))
        return track in self._scene.layout.pinned

    def move_lane(self, by: int, lane: int | None = None, *, of: int | None = None) -> bool:
        """Move a lane one place up (-1) or down (1) among those of its recording on the screen. False where
        there is none."""
        track, before = self._track(lane, of), self._scene.layout
        layout = before.moved(track, by) if track >= 0 else None
        if layout is None:
            return False
        self._arrange(layout)
        track = self._track(int(before.ref[track]), of)
        self._go(moves.track_in_view(self._scene, track, self.size.height))
        return True

    def arrangement(self, of: int | None = None) -> arrangement.Kept:
        """How the lanes of a recording are arranged, as JSON-ready data for `set_arrangement`."""
        return arrangement.now(self._scene, self._scene.active if of is None else of)

    def set_arrangement(self, kept: Sequence[Mapping[str, Any]], *, of: int | None = None) -> None:
        """Open with the lanes of a recording in this order, with these folds and pins."""
        self._scene = self._as_left().having(of, left=kept)
        self._reopen()

    def as_opened(self) -> None:
        """The lanes as they open without an arrangement."""
        sources = tuple(replace(source, left=()) for source in self._scene.sources)
        self._scene = replace(self._scene, sources=sources)
        self._reopen()
        self._go(moves.track_in_view(self._scene, self._track(None), self.size.height))
        self.post_message(LanesArranged(own=False))

    def _as_left(self) -> Scene:
        """The scene with what a person arranged kept for `_reopen`."""
        scene = self._scene
        for of in range(len(scene.sources) if self._arranged else 0):
            scene = scene.having(of, left=arrangement.now(scene, of))
        return scene

    def _reopen(self) -> None:
        """The lanes as they open with what is kept of their arrangement."""
        self._go(moves.arranged(self._scene, self._opening_layout(self._scene), self.size.height))
        self._arranged = False

    def _opening_layout(self, scene: Scene) -> Layout:
        return arrangement.opened(scene.sources, max(1, self.size.height - TOP))

    # Drawing

    def _change(self, **changes: Any) -> None:
        """Other fields of the scene."""
        self._show(replace(self._scene, **changes))

    def _show(self, scene: Scene) -> None:
        """Another scene, drawn with the next frame."""
        self._scene = scene
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
            source, width = scene.source, bar.size.width
            lane = f"{scene.title(scene.active)} " if len(scene.sources) > 1 else ""
            parts = describe(
                source.trace, scene.selected, width, source.short, offset=source.offset, before_lane=lane
            )
        else:
            parts = [("nothing selected", False), ("  click an event, or press an arrow key", False)]
        return bar if bar.show(parts, scene.theme) else None

    def render_lines(self, crop: Region) -> list[Strip]:
        width, height = self.size
        if self._cells is None or self._cells.shape != (height, width):
            self._render_frame()
        strips = self._strips[crop.y : crop.bottom]
        if crop.x == 0 and crop.width >= width:
            return list(strips)
        return [strip.piece(crop.x, crop.right) for strip in strips]

    @on(events.MouseScrollDown)
    @on(events.MouseScrollUp)
    @on(events.MouseScrollLeft)
    @on(events.MouseScrollRight)
    @on(events.MouseDown)
    @on(events.MouseMove)
    @on(events.MouseUp)
    @on(events.Click)
    def _use_mouse(self, event: events.MouseEvent) -> None:
        self._mouse.handle(event)

    def on_mount(self) -> None:
        self.set_theme(self._given_theme)
        for of in range(len(self._scene.sources)):
            self._derive(of)
        self.app.theme_changed_signal.subscribe(self, lambda _: self.set_theme(self._given_theme))

    def _derive(self, of: int) -> None:
        """Work out a recording's series in a thread."""
        trace = self._scene.sources[of].trace

        def work() -> None:
            worker = get_current_worker()
            for found in series_of(trace, lambda: worker.is_cancelled):
                self.app.call_from_thread(partial(self.set_series, found, of=of))

        self.run_worker(work, thread=True, group="series", exit_on_error=False)

    def on_resize(self, event: events.Resize) -> None:
        width = event.size.width
        labels = label_width(width)
        scene = self._scene
        view = self._opening_view(scene, max(1, width - labels - EDGE))
        layout = scene.layout if self._arranged else self._opening_layout(scene)
        self._change(view=view, labels=labels)
        self._scene = moves.refitted(self._scene, layout, self._fitted, event.size.height)
        self._fitted = event.size.height

    def _opening_view(self, scene: Scene, width: int) -> Viewport:
        """The stretch of time over so many cells: all that matters, until a person chose another."""
        if self._moved:
            return viewport.resize(scene.view, width)
        return viewport.fit(*scene.first_view, width, margin=0.01)
