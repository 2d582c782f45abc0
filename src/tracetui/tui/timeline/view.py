"""The timeline widget: it draws a walk's scene and passes on the mouse."""

from __future__ import annotations

from functools import partial

import numpy as np
from textual import events, messages, on
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget
from textual.worker import get_current_worker

from tracetui.core.copying import replace
from tracetui.session.session import Session
from tracetui.timeline.canvas import Packed
from tracetui.timeline.frame import paint
from tracetui.timeline.palette import Palette
from tracetui.timeline.series import series_of
from tracetui.timeline.themes import Theme
from tracetui.timeline.viewport import Viewport
from tracetui.tui.timeline.bar import SelectionBar, describe, describe_gap
from tracetui.tui.timeline.delta_strips import Board, DeltaStrip
from tracetui.tui.timeline.messages import RangeChanged, SelectionChanged, ViewportChanged
from tracetui.tui.timeline.mouse import Mouse
from tracetui.tui.timeline.pace import Pace, frame_limit

LITTLE = 100_000
"""For a trace of up to this many slices, computing self times takes no noticeable time."""


class TimelineView(Widget, can_focus=True):
    """Overview, ruler and lanes of a navigator. The walk's methods change them; many changes share a
    frame."""

    DEFAULT_CSS = "TimelineView { height: 1fr; width: 1fr; }"
    ALLOW_SELECT = False
    nothing = "click an event, or press an arrow key"
    """What the bar says to do while nothing is selected."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        navigator = self.navigator = session.navigator
        self.lanes = session.lanes
        self.bar: SelectionBar | None = None
        """The line about the selected event, drawn in the same frame as the timeline."""
        self._cells: Packed | None = None
        self._board = Board(0)
        self._strips: list[DeltaStrip] = []
        self._waiting = False
        self._derived = 0
        """How many recordings have their series, or are about to get them."""
        self._mouse = Mouse(self, session)
        self.pace = Pace(frame_limit(None))
        """Decides when to draw."""
        self._shown: Viewport | None = None
        navigator.on_change = self._wake
        navigator.on_select = lambda: self.post_message(SelectionChanged())
        navigator.on_range = lambda: self.post_message(RangeChanged())

    def set_theme(self, theme: Theme) -> None:
        """Change the colors."""
        sources = self.navigator.scene.sources
        self.navigator.change(sources=tuple(replace(s, palette=Palette(s.trace, theme)) for s in sources))

    # Drawing

    def _wake(self) -> None:
        if not self._waiting and self.is_mounted:
            self._waiting = True
            # Draw after the keys that are already queued: a held key changes the scene many times per frame.
            self.call_later(self._draw)

    def _draw(self) -> None:
        wait = self.pace.wait(self.app)
        if wait:
            self.set_timer(wait, self._draw)
            return
        self._waiting = False
        # Side by side there is no room for counters, and those of a part would be too low.
        counted = (
            len(self.navigator.recordings) if self.session.layout.counters and not self.session.part else 0
        )
        for of in range(self._derived, counted):
            self.run_worker(partial(self._derive, of), thread=True, group=f"series {of}", exit_on_error=False)
        self._derived = counted
        regions = self._render_frame()
        barred = self._update_bar()
        if regions:
            self.refresh(*regions)
            # Draw both now, so that they are sent in one write.
            self.screen.post_message(messages.Update(self))
        if barred is not None:
            self.screen.post_message(messages.Update(barred))
        if self._shown != self.navigator.view:
            self._shown = self.navigator.view
            self.post_message(ViewportChanged())

    def _render_frame(self) -> list[Region]:
        """Paint the scene. Returns the lines that changed, as regions."""
        width, height = self.size
        cells = paint(self.navigator.scene, height).packed()[:, :width]  # the labels alone may be wider
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
        # Each region goes up to the last cell that has changed.
        return [Region(0, y, self._strips[y].end, 1) for y in lines if self._strips[y].end]

    def _update_bar(self) -> SelectionBar | None:
        from tracetui.analysis.calls.calls import self_time_of

        bar, scene = self.bar, self.navigator.scene
        if bar is None or not bar.is_mounted:
            return None
        if told := self.session.comparing.told():
            parts = [(told[0], False), (f"  {told[1]}", True)]
        elif (gap := self.session.gaps.current) is not None:
            from tracetui.views.gap_words import gap_line  # not needed for the first picture

            told = gap_line(self.navigator.recording.whole, gap, self.session.gaps.small)
            parts = describe_gap(told, bar.size.width)
        elif scene.selected >= 0:
            source, width = scene.source, bar.size.width
            part = self.navigator.recording.whole
            # In a large trace, self times are known only once a pane has asked for them: they take too long
            # for a key press.
            at_hand = part.knows(self_time_of) or len(source.trace) < LITTLE
            own = int(self_time_of(part)[scene.selected]) if at_hand and not self.session.part else None
            beside = self.session.comparing.beside()
            parts = describe(
                source.trace,
                scene.selected,
                width,
                source.short,
                source.lane_name(int(source.trace.lane[scene.selected])),
                offset=source.offset,
                letter=scene.letter(scene.active) if len(scene.sources) > 1 else "",
                beside=beside or (),
                own=own,
            )
        else:
            parts = [("nothing selected", False), (f"  {self.nothing}", False)]
            if not any(len(source.trace) for source in scene.sources):
                parts = [("nothing to select: no events with a duration", False)]
        return bar if bar.show(parts, scene.theme) else None

    def render_lines(self, crop: Region) -> list[Strip]:
        width, height = self.size
        if self._cells is None or self._cells.shape != (height, width):
            self._render_frame()
        strips = self._strips[crop.y : crop.bottom]
        if crop.x == 0 and crop.width >= width:
            return list(strips)
        return [strip.piece(crop.x, crop.right) for strip in strips]

    def on_mount(self) -> None:
        self._wake()

    def _derive(self, of: int) -> None:
        """Make the series of a recording, in a thread."""
        worker = get_current_worker()
        for found in series_of(self.navigator.recordings[of].trace, lambda: worker.is_cancelled):
            self.app.call_from_thread(partial(self.lanes.set_series, found, of=of))

    def on_resize(self, event: events.Resize) -> None:
        self.lanes.resize(event.size.width, event.size.height)

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
