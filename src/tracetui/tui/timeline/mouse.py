"""The mouse on the timeline: click, wheel and drag. Moving it without a button costs nothing."""

from __future__ import annotations

from typing import Protocol

from textual import events
from textual.geometry import Size
from textual.message import Message

from tracetui.timeline.gap_cells import gap_at
from tracetui.timeline.navigate import event_at
from tracetui.timeline.scene import TOP, Scene
from tracetui.tui.timeline.messages import GapClicked, GapId, RangeChanged

WHEEL_LINES = 3
WHEEL_PAN = 0.1
WHEEL_ZOOM = 1.25


class Timeline(Protocol):
    """What the mouse needs of the timeline."""

    @property
    def scene(self) -> Scene: ...
    @property
    def size(self) -> Size: ...
    def capture_mouse(self) -> None: ...
    def release_mouse(self) -> None: ...
    def post_message(self, message: Message) -> bool: ...
    def show(self, start_ns: int, end_ns: int) -> None: ...
    def zoom(self, factor: float, about: float | None = None) -> None: ...
    def pan(self, fraction: float) -> None: ...
    def centre_on(self, time_ns: float, *, jump: bool = True) -> None: ...
    def scroll_lanes(self, lines: int) -> None: ...
    def select(self, slice_index: int | None, *, of: int | None = None, reveal: bool = True) -> None: ...
    def set_range(self, start_ns: int | None, end_ns: int | None = None, *, quiet: bool = False) -> None: ...
    def toggle_track(self, track: int) -> None: ...


class Mouse:
    """Turns the mouse's events into calls of the timeline."""

    def __init__(self, view: Timeline) -> None:
        self._view = view
        self._pressed: tuple[int, int] | None = None
        self._dragged = False

    def handle(self, event: events.MouseEvent) -> None:
        """Do what an event asks for."""
        match event:
            case events.MouseScrollDown():
                self._wheel(event, 1)
            case events.MouseScrollUp():
                self._wheel(event, -1)
            case events.MouseScrollRight():
                event.stop()
                self._view.pan(WHEEL_PAN)
            case events.MouseScrollLeft():
                event.stop()
                self._view.pan(-WHEEL_PAN)
            case events.MouseDown(button=1):
                self._press(event)
            case events.MouseMove() if self._pressed is not None:
                self._drag(event, *self._pressed)
            case events.MouseUp():
                self._release()
            case events.Click(chain=2) if event.y >= TOP:
                self._fit_selection()

    def _wheel(self, event: events.MouseEvent, step: int) -> None:
        event.stop()
        scene = self._view.scene
        if event.ctrl or event.meta:
            about = scene.view.time(max(0, event.x - scene.labels) + 0.5)
            self._view.zoom(WHEEL_ZOOM if step < 0 else 1 / WHEEL_ZOOM, about)
        elif event.shift:
            self._view.pan(WHEEL_PAN * step)
        else:
            self._view.scroll_lanes(WHEEL_LINES * step)

    def _press(self, event: events.MouseDown) -> None:
        self._pressed, self._dragged = (event.x, event.y), False
        self._view.capture_mouse()
        if event.y == 0:
            self._to_overview(event.x)

    def _drag(self, event: events.MouseMove, x: int, y: int) -> None:
        """`x`, `y`: where the button was pressed."""
        view, labels = self._view.scene.view, self._view.scene.labels
        if y == 0:
            self._to_overview(event.x)
        elif x >= labels and (self._dragged or abs(event.x - x) > 1):
            self._dragged = True
            first, last = sorted((x, max(labels, event.x)))
            self._view.set_range(view.time(first - labels), view.time(last + 1 - labels), quiet=True)

    def _release(self) -> None:
        pressed, self._pressed = self._pressed, None
        self._view.release_mouse()
        if pressed is not None and self._dragged:
            self._view.post_message(RangeChanged(self._view.scene.band))
        elif pressed is not None and pressed[1] > 0:
            self._click(*pressed)

    def _fit_selection(self) -> None:
        """A double click fits what the first one selected."""
        source, selected = self._view.scene.source, self._view.scene.selected
        if selected >= 0:
            start = source.start(selected)
            self._view.show(start, start + max(10, int(source.trace.duration[selected])))

    def _to_overview(self, x: int) -> None:
        scene = self._view.scene
        low, high = scene.span
        share = min(1.0, max(0.0, (x - scene.labels + 0.5) / max(1, scene.view.width)))
        self._view.centre_on(low + share * (high - low), jump=False)

    def _click(self, x: int, y: int) -> None:
        scene = self._view.scene
        lines, column = scene.lines(self._view.size.height - TOP), x - scene.labels
        if not 0 <= y - TOP < len(lines):
            self._view.select(None)
            return
        line = lines[y - TOP]
        local = scene.local(line.source)
        if column < 0:
            self._view.toggle_track(line.track)
        elif (found := event_at(local, line, column)) is not None:
            self._view.select(found, of=line.source, reveal=False)
        elif (gap := gap_at(local, line, column)) is not None:
            self._view.post_message(GapClicked(GapId(*gap), line.source))
        else:
            self._view.select(None)
