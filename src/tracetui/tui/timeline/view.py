"""The timeline widget: it holds what is shown, draws it, and answers calls, keys and clicks with moves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from textual import events, messages
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from tracetui.timeline import navigate, viewport
from tracetui.timeline.canvas import Canvas
from tracetui.timeline.frame import paint
from tracetui.timeline.labels import label_width
from tracetui.timeline.layout import Layout, Of, lay_out
from tracetui.timeline.palette import Theme
from tracetui.timeline.scene import TOP, Idle, Scene
from tracetui.timeline.viewport import Limits, Viewport
from tracetui.trace.model import Trace
from tracetui.tui.timeline.bar import SelectionBar, describe
from tracetui.tui.timeline.history import History
from tracetui.tui.timeline.messages import (
    GapId,
    Gaps,
    Mark,
    RangeChanged,
    SelectionChanged,
    ViewportChanged,
)
from tracetui.tui.timeline.mouse import Mouse
from tracetui.tui.timeline.pace import behind
from tracetui.tui.timeline.setup import fixed_of, theme_of, themed
from tracetui.tui.timeline.strips import LeanStrip

RETRY = 0.004
"""Seconds until a terminal that had not kept up is looked at again."""


class TimelineView(Mouse, Widget, can_focus=True):
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
        self._limits = Limits(low, max(high, low + 1))
        view = viewport.fit(*trace.first_view, 66, margin=0.01)
        self._scene = Scene(fixed, view, lay_out(trace, 20), span=(low, max(high, low + 1)))
        self._moved = False
        """Whether anything but the size decided what is in view."""
        self._unfolded = False
        self._lit: int | None = None
        self._history = History()
        self._canvas: Canvas | None = None
        self._strips: list[Strip] = []
        self._waiting = False
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

    def _look(self, view: Viewport, *, jump: bool = False) -> None:
        if jump:
            self._history.leave(self._scene.view)
        self._moved = True
        self._change(view=self._limits.clamp(view))

    def show(self, start_ns: int, end_ns: int) -> None:
        """Show a stretch of time, with a little air on either side. Goes into the history."""
        self._look(viewport.fit(start_ns, end_ns, self._scene.view.width, margin=0.02), jump=True)

    def fit(self) -> None:
        """Show the whole trace."""
        self._look(viewport.fit(*self._scene.span, self._scene.view.width, margin=0.01), jump=True)

    def zoom(self, factor: float, about: float | None = None) -> None:
        """Zoom in (over 1) or out about an instant (default: the selection if in view, else the centre)."""
        if about is None and self.selected is not None:
            start = int(self.trace.start[self.selected])
            middle = start + int(self.trace.duration[self.selected]) // 2
            about = middle if self.viewport.contains(middle) else None
        self._look(viewport.zoom(self._scene.view, factor, about))

    def pan(self, fraction: float) -> None:
        """Move by a share of the screen's width, later where positive."""
        cells = round(fraction * self._scene.view.width) or (1 if fraction > 0 else -1)
        self._look(viewport.pan(self._scene.view, cells))

    def scroll_lanes(self, lines: int) -> None:
        """Scroll the lanes, down where positive."""
        self._change(top=self._scene.top + lines)

    def reveal(self, slice_index: int, *, closer: bool = True) -> None:
        """Move, scroll and unfold just so far that a slice is in view; `closer`: zoom in if it is tiny."""
        start, length = int(self.trace.start[slice_index]), int(self.trace.duration[slice_index])
        view = self._scene.view
        if closer and 2 * length < view.cell:
            air = max(length, 10) * (view.width / 6 - 1) / 2
            self._look(viewport.fit(int(start - air), int(start + length + air), view.width), jump=True)
        else:
            moved = viewport.reveal(view, start, start + length)
            if moved != view:
                self._look(moved, jump=abs(moved.start - view.start) > view.span_ns)
        self._bring_up(int(self.trace.lane[slice_index]), int(self.trace.depth[slice_index]))

    def centre(self) -> None:
        """Centre the selection; asked again without anything in between, fit it."""
        i = self.selected
        if i is None:
            return
        start, length = int(self.trace.start[i]), int(self.trace.duration[i])
        centred = self._limits.clamp(viewport.centre(self._scene.view, start + length / 2))
        if abs(centred.start - self._scene.view.start) < self._scene.view.cell:
            self.show(start, start + max(length, 10))
        else:
            self._look(centred, jump=True)

    def back(self) -> bool:
        """Return to the view before the last jump. False where there is none."""
        return self._recall(self._history.back(self._scene.view))

    def forward(self) -> bool:
        """Undo `back`. False where there is nothing to undo."""
        return self._recall(self._history.forward(self._scene.view))

    def _recall(self, view: Viewport | None) -> bool:
        if view is not None:
            self._look(viewport.resize(view, self._scene.view.width))
        return view is not None

    # Selecting

    def select(self, slice_index: int | None, *, reveal: bool = True, quiet: bool = False) -> None:
        """Select a slice. `reveal`: bring it into view; `quiet`: send no `SelectionChanged`."""
        self._select(slice_index, quiet=quiet)
        if slice_index is not None and reveal:
            self.reveal(slice_index)

    def _select(self, slice_index: int | None, *, quiet: bool = False) -> None:
        if slice_index == self.selected:
            return
        i = -1 if slice_index is None else slice_index
        same = self._lit if self._lit is not None else int(self.trace.name[i]) if i >= 0 else -1
        flows = navigate.linked(self.trace, i) if i >= 0 else ()
        self._change(selected=i, same=same, flows=flows)
        if not quiet:
            self.post_message(SelectionChanged(slice_index))

    def move(self, direction: str) -> bool:
        """Select "next" or "previous" in the row, "up" (parent, row above) or "down" (child, row below)."""
        scene, i = self._scene, self.selected
        rows, layout, view = scene.fixed.rows, scene.layout, scene.view
        if i is None:
            found = navigate.opening(rows, layout, view)
        elif direction in ("next", "previous"):
            found = navigate.neighbour(rows, i, 1 if direction == "next" else -1)
        else:
            go = navigate.above if direction == "up" else navigate.below
            found = go(rows, layout, view, i)
        if found is None:
            return False
        self._select(found)
        self.reveal(found, closer=False)
        return True

    def set_range(self, start_ns: int | None, end_ns: int | None = None) -> None:
        """Mark a range of time; None takes it away."""
        band = None if start_ns is None or end_ns is None else (min(start_ns, end_ns), max(start_ns, end_ns))
        if band != self._scene.band:
            self._change(band=band)
            self.post_message(RangeChanged(band))

    # Marking

    def set_gaps(self, gaps: Sequence[Gaps]) -> None:
        """The gaps to draw on the devices' lanes."""
        self._change(gaps={g.device: Idle(g.start, g.end) for g in gaps})

    def set_gap(self, gap: GapId | None, *, reveal: bool = True) -> None:
        """Highlight one gap."""
        self._change(gap=None if gap is None else (gap.device, gap.index))
        idle = self._scene.gaps.get(gap.device) if gap is not None else None
        if gap is None or idle is None or not reveal:
            return
        start, end = int(idle.start[gap.index]), int(idle.end[gap.index])
        view = self._scene.view
        if not 4 * view.cell <= end - start <= view.span_ns:
            air = 2 * (end - start)
            self._look(viewport.fit(start - air, end + air, view.width), jump=True)
        elif (moved := viewport.reveal(view, start, end)) != view:
            self._look(moved, jump=True)
        streams = [
            i
            for i, lane in enumerate(self.trace.lanes)
            if lane.device == gap.device and lane.kind == "stream"
        ]
        if streams:
            self._bring_up(streams[0], 0)

    def set_matches(self, slices: npt.NDArray[np.generic] | None) -> None:
        """Search matches, as sorted slice indices or a mask; highlighted here and in the overview."""
        mask: npt.NDArray[np.bool_] | None = None
        if slices is not None:
            mask = np.zeros(len(self.trace), dtype=np.bool_)
            mask[slices] = True
        self._change(matches=mask)

    def highlight_name(self, name: int | None) -> None:
        """Light up all events of a name (by default those named like the selection; None: that again)."""
        self._lit = name
        i = self._scene.selected
        self._change(same=name if name is not None else int(self.trace.name[i]) if i >= 0 else -1)

    def set_marks(self, marks: Sequence[Mark]) -> None:
        """Labelled instants, drawn in the ruler and down the lanes."""
        self._change(marks=tuple((m.time_ns, m.label) for m in marks))

    def set_theme(self, theme: Theme | None) -> None:
        """Other colours; None follows the app's theme."""
        self._given_theme = theme
        self._change(fixed=themed(self._scene.fixed, theme or theme_of(self.app)))

    # Lanes

    def _track(self, lane: int | None) -> int:
        if lane is None:
            lane = int(self.trace.lane[self._scene.selected]) if self._scene.selected >= 0 else -1
        return self._scene.layout.track_of(Of.LANE, lane)

    def _arrange(self, layout: Layout) -> None:
        self._unfolded = True
        self._change(layout=layout)

    def toggle_track(self, track: int) -> None:
        """Fold a track to its top row, or unfold it."""
        if track >= 0:
            layout = self._scene.layout
            folded = int(layout.shown[track]) < int(layout.rows[track])
            self._arrange(layout.with_shown(track, int(layout.rows[track]) if folded else 1))

    def toggle_fold(self, lane: int | None = None) -> None:
        """Fold a lane to its top row, or unfold it (default: the selection's lane)."""
        self.toggle_track(self._track(lane))

    def collapse_all(self) -> None:
        """Fold every lane to its top row."""
        self._arrange(self._scene.layout.with_all(1))

    def expand_all(self) -> None:
        """Show every row of every lane."""
        self._arrange(self._scene.layout.with_all(1 << 30))

    def hide_lane(self, lane: int | None = None) -> None:
        """Take a lane off the screen (default: the selection's lane)."""
        if (track := self._track(lane)) >= 0:
            self._arrange(self._scene.layout.with_shown(track, 0))

    def show_hidden(self) -> None:
        """Bring all hidden lanes and counters back."""
        self._arrange(self._scene.layout.with_hidden())

    def pin_lane(self, lane: int | None = None) -> None:
        """Keep a lane on the screen above the others while they scroll; again: no longer."""
        if (track := self._track(lane)) >= 0:
            self._arrange(self._scene.layout.toggle_pin(track))

    def move_lane(self, by: int, lane: int | None = None) -> None:
        """Move a lane up (negative) or down past its neighbours (default: the selection's lane)."""
        if (track := self._track(lane)) >= 0:
            self._arrange(self._scene.layout.reorder(track, by))

    def _bring_up(self, lane: int, depth: int) -> None:
        layout = self._scene.layout
        track = layout.track_of(Of.LANE, lane)
        if track < 0:
            return
        if depth >= int(layout.shown[track]):
            layout = layout.with_shown(track, int(layout.rows[track]))
            self._arrange(layout)
        line = layout.place(track, depth)
        room = max(1, self.size.height - TOP - layout.pinned_height)
        if line >= 0:
            self._change(top=min(max(self._scene.top, line - room + 1), line))

    # Drawing

    def _change(self, **changes: object) -> None:
        """Another scene, drawn with the next frame."""
        scene = replace(self._scene, **changes)  # type: ignore[arg-type]
        if "top" in changes or "layout" in changes:
            lowest = scene.layout.height - max(1, self.size.height - TOP - scene.layout.pinned_height)
            scene = replace(scene, top=max(0, min(scene.top, lowest)))
        self._scene = scene
        self._wake()

    def _wake(self) -> None:
        if not self._waiting and self.is_mounted:
            self._waiting = True
            # Behind the keys that already wait: a held key changes the scene many times per frame.
            self.call_later(self._draw)

    def _draw(self) -> None:
        if behind(self.app):
            self.set_timer(RETRY, self._draw)
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
        canvas = paint(self._scene, height)
        before = self._canvas
        same = before is not None and before.glyph.shape == canvas.glyph.shape and len(self._strips) == height
        lines = canvas.changed(before) if same and before is not None else list(range(height))
        if not same:
            self._strips = [Strip.blank(width)] * height
        for y in lines:
            self._strips[y] = LeanStrip(canvas.runs(y), canvas.width)
        self._canvas = canvas
        return [Region(0, y, width, 1) for y in lines]

    def _update_bar(self) -> SelectionBar | None:
        bar, scene = self.bar, self._scene
        if bar is None or not bar.is_mounted:
            return None
        if scene.selected >= 0:
            parts = describe(self.trace, scene.selected, bar.size.width)
        else:
            parts = [("nothing selected", False), ("  click an event, or press an arrow key", False)]
        return bar if bar.show(parts, scene.fixed.theme) else None

    def render_lines(self, crop: Region) -> list[Strip]:
        width, height = self.size
        if self._canvas is None or self._canvas.width != width or len(self._strips) != height:
            self._render_frame()
        strips = self._strips[crop.y : crop.bottom]
        if crop.x == 0 and crop.width >= width:
            return strips
        return [strip.crop(crop.x, crop.right) for strip in strips]

    def on_mount(self) -> None:
        self.set_theme(self._given_theme)
        self.app.theme_changed_signal.subscribe(self, lambda _: self.set_theme(self._given_theme))

    def on_resize(self, event: events.Resize) -> None:
        width, height = event.size
        labels = label_width(width)
        room = max(1, width - labels)
        scene = self._scene
        if self._moved:
            view = self._limits.clamp(viewport.resize(scene.view, room))
        else:
            view = viewport.fit(*self.trace.first_view, room, margin=0.01)
        layout = scene.layout if self._unfolded else lay_out(self.trace, max(1, height - TOP))
        self._change(view=view, labels=labels, layout=layout)
