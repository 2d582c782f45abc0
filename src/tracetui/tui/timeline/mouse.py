"""The mouse on the timeline: click, wheel and drag. Moving it without a button costs nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from textual import events

from tracetui.timeline import navigate
from tracetui.timeline.gap_cells import device_of, gap_columns
from tracetui.timeline.layout import Line, Of
from tracetui.timeline.scene import TOP
from tracetui.tui.timeline.messages import GapClicked, GapId, RangeChanged

if TYPE_CHECKING:
    from tracetui.tui.timeline.view import TimelineView

WHEEL_LINES = 3
WHEEL_PAN = 0.1
WHEEL_ZOOM = 1.25


class Mouse:
    """Handlers for `TimelineView`."""

    _pressed: tuple[int, int] | None = None
    _dragged = False

    def _line_at(self: TimelineView, y: int) -> Line | None:  # type: ignore[misc]
        lines = self.walk.scene.lines(self.size.height - TOP)
        return lines[y - TOP] if 0 <= y - TOP < len(lines) else None

    def on_mouse_scroll_down(self: TimelineView, event: events.MouseScrollDown) -> None:  # type: ignore[misc]
        self._wheel(event, 1)

    def on_mouse_scroll_up(self: TimelineView, event: events.MouseScrollUp) -> None:  # type: ignore[misc]
        self._wheel(event, -1)

    def on_mouse_scroll_right(self: TimelineView, event: events.MouseScrollRight) -> None:  # type: ignore[misc]
        event.stop()
        self.walk.pan(WHEEL_PAN)

    def on_mouse_scroll_left(self: TimelineView, event: events.MouseScrollLeft) -> None:  # type: ignore[misc]
        event.stop()
        self.walk.pan(-WHEEL_PAN)

    def _wheel(self: TimelineView, event: events.MouseEvent, step: int) -> None:  # type: ignore[misc]
        event.stop()
        if event.ctrl or event.meta:
            about = self.walk.view.time(max(0, event.x - self.walk.scene.labels) + 0.5)
            self.walk.zoom(WHEEL_ZOOM if step < 0 else 1 / WHEEL_ZOOM, about)
        elif event.shift:
            self.walk.pan(WHEEL_PAN * step)
        else:
            self.walk.scroll_lanes(WHEEL_LINES * step)

    def on_mouse_down(self: TimelineView, event: events.MouseDown) -> None:  # type: ignore[misc]
        if event.button == 1:
            self._pressed, self._dragged = (event.x, event.y), False
            self.capture_mouse()
            if event.y == 0:
                self._to_overview(event.x)

    def on_mouse_move(self: TimelineView, event: events.MouseMove) -> None:  # type: ignore[misc]
        if self._pressed is None:
            return
        x, y = self._pressed
        if y == 0:
            self._to_overview(event.x)
        elif x >= self.walk.scene.labels and (self._dragged or abs(event.x - x) > 1):
            self._dragged = True
            first, last = sorted((x, max(self.walk.scene.labels, event.x)))
            view = self.walk.view
            labels = self.walk.scene.labels
            self.walk.set_range(view.time(first - labels), view.time(last + 1 - labels), quiet=True)

    def on_mouse_up(self: TimelineView, event: events.MouseUp) -> None:  # type: ignore[misc]
        pressed, self._pressed = self._pressed, None
        self.release_mouse()
        if pressed is not None and self._dragged:
            self.post_message(RangeChanged(self.walk.range_ns))
        elif pressed is not None and pressed[1] > 0:
            self._click(*pressed)

    def on_click(self: TimelineView, event: events.Click) -> None:  # type: ignore[misc]
        """A double click fits what the first one selected."""
        if event.chain == 2 and event.y >= TOP and (i := self.walk.selected) is not None:
            start = int(self.walk.trace.start[i])
            self.walk.show(start, start + max(10, int(self.walk.trace.duration[i])))

    def _to_overview(self: TimelineView, x: int) -> None:  # type: ignore[misc]
        low, high = self.walk.scene.span
        share = min(1.0, max(0.0, (x - self.walk.scene.labels + 0.5) / max(1, self.walk.view.width)))
        self.walk.centre_on(low + share * (high - low), jump=False)

    def _click(self: TimelineView, x: int, y: int) -> None:  # type: ignore[misc]
        line = self._line_at(y)
        if line is None:
            self.walk.select(None)
            return
        column = x - self.walk.scene.labels
        if column < 0:
            self.lanes.toggle_track(line.track)
            return
        found = None
        if line.of is Of.LANE:
            row = self.walk.scene.fixed.rows.row(line.ref, line.depth)
            found = navigate.hit(row, self.walk.view, column)
        if found is not None:
            self.walk.select(found, reveal=False)
            return
        device = device_of(self.walk.scene, line)
        idle = self.walk.scene.gaps.get(device)
        if idle is not None:
            start = self.walk.view.time(column)
            at = int(gap_columns(idle, np.array([start, start + self.walk.view.cell], dtype=np.int64))[0])
            if at >= 0:
                self.post_message(GapClicked(GapId(device, at)))
                return
        self.walk.select(None)
