"""The mouse on the timeline: click, wheel and drag."""

from __future__ import annotations

from textual import events
from textual.widget import Widget

from tracetui.session.session import Session
from tracetui.timeline.gap_cells import gap_at
from tracetui.timeline.navigate import event_at
from tracetui.timeline.scene import TOP
from tracetui.timeline.track_layout import Of
from tracetui.tui.timeline.messages import GapClicked, RangeChanged

WHEEL_LINES = 3
WHEEL_PAN = 0.1
WHEEL_ZOOM = 1.25


class Mouse:
    """Turns mouse events on a widget into moves of its session."""

    def __init__(self, widget: Widget, session: Session) -> None:
        self._widget, self._navigator, self._lanes = widget, session.navigator, session.lanes
        self._pressed: tuple[int, int] | None = None
        self._dragged = False

    def handle(self, event: events.MouseEvent) -> None:
        """Handle one event."""
        match event:
            case events.MouseScrollDown():
                self._wheel(event, 1)
            case events.MouseScrollUp():
                self._wheel(event, -1)
            case events.MouseScrollRight():
                event.stop()
                self._navigator.pan(WHEEL_PAN)
            case events.MouseScrollLeft():
                event.stop()
                self._navigator.pan(-WHEEL_PAN)
            case events.MouseDown(button=1):
                self._press(event)
            case events.MouseMove() if self._pressed is not None:
                self._drag(event, *self._pressed)
            case events.MouseUp():
                self._release()
            case events.Click(chain=2) if event.y >= TOP and event.x >= self._navigator.scene.labels:
                self._fit_selection()

    def _wheel(self, event: events.MouseEvent, step: int) -> None:
        event.stop()
        scene = self._navigator.scene
        if event.ctrl or event.meta:
            about = scene.view.time(max(0, event.x - scene.labels) + 0.5)
            self._navigator.zoom(WHEEL_ZOOM if step < 0 else 1 / WHEEL_ZOOM, about)
        elif event.shift:
            self._navigator.pan(WHEEL_PAN * step)
        else:
            parts = scene.layout.parts(self._widget.size.height - TOP)
            below = event.y - TOP >= parts.pinned + min(parts.scrolled, scene.layout.height)
            self._navigator.scroll_lanes(WHEEL_LINES * step, docked=below)

    def _press(self, event: events.MouseDown) -> None:
        self._pressed, self._dragged = (event.x, event.y), False
        self._widget.capture_mouse()
        if event.y == 0:
            self._to_overview(event.x)

    def _drag(self, event: events.MouseMove, x: int, y: int) -> None:
        """`x`, `y`: where the button went down."""
        view, labels = self._navigator.scene.view, self._navigator.scene.labels
        if y == 0:
            self._to_overview(event.x)
        elif x >= labels and (self._dragged or abs(event.x - x) > 1):
            self._dragged = True
            first, last = sorted((x, max(labels, event.x)))
            self._navigator.set_range(view.time(first - labels), view.time(last + 1 - labels), quiet=True)

    def _release(self) -> None:
        pressed, self._pressed = self._pressed, None
        self._widget.release_mouse()
        if pressed is not None and self._dragged:
            self._widget.post_message(RangeChanged())
        elif pressed is not None and pressed[1] > 0:
            self._click(*pressed)

    def _fit_selection(self) -> None:
        """On a double click, fit what the first click selected."""
        source, selected = self._navigator.scene.source, self._navigator.scene.selected
        if selected >= 0:
            start = source.start(selected)
            self._navigator.show(start, start + max(10, int(source.trace.duration[selected])))

    def _to_overview(self, x: int) -> None:
        scene = self._navigator.scene
        low, high = scene.span
        share = min(1.0, max(0.0, (x - scene.labels + 0.5) / max(1, scene.view.width)))
        self._navigator.center_on(low + share * (high - low), jump=False)

    def _click(self, x: int, y: int) -> None:
        scene = self._navigator.scene
        lines, column = scene.lines(self._widget.size.height - TOP), x - scene.labels
        if not 0 <= y - TOP < len(lines):
            self._navigator.select(None)
            return
        line = lines[y - TOP]
        local = scene.local(line.source)
        if line.of is Of.RULE:
            self._navigator.select(None)
        elif column < 0:
            self._lanes.toggle_track(line.track)
        elif (event := event_at(local, line, column)) is not None:
            self._navigator.select(event, of=line.source, reveal=False)
        elif (gap := gap_at(local, line, column)) is not None:
            self._widget.post_message(GapClicked(*gap, line.source))
        else:
            self._navigator.select(None)
