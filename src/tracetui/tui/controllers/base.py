"""What the parts of the trace screen share."""

from __future__ import annotations

from textual import messages
from textual.screen import Screen
from textual.widget import Widget

from tracetui.analysis.results import Results
from tracetui.timeline.viewport import Viewport
from tracetui.trace.model import Trace
from tracetui.tui.footer import Footer
from tracetui.tui.panes.area import PaneArea
from tracetui.tui.panes.scoped import ScopedPane
from tracetui.tui.timeline import TimelineView


class TracePart(Screen[None]):
    """The widgets of the trace screen; `TraceScreen` makes them."""

    trace: Trace
    results: Results
    timeline: TimelineView
    area: PaneArea
    footer: Footer
    gap: int | None
    """The gap that is highlighted, by its place in `Results.gaps`."""
    led_to: tuple[int, int] | None = None
    """The view that a table's own jump led to, in ns: tables of what is in view stay with the one before.
    Else the jump to a row's first event would take away the row, and its other events with it."""
    held: bool = False
    """Whether they do so now."""

    def say(self, message: str) -> None:
        """Tell what a key did, where that is not plain to see."""
        self.footer.say(message)
        self.draw_soon(self.footer)

    def on_key(self) -> None:
        """A message speaks of the key before: it goes with the next one, in that one's frame.

        This key's action runs in the app, once the key has come up there; what is called later from here
        reaches the app behind it.
        """
        if self.footer.grow_old():
            self.call_later(self.app.call_later, self.footer.drop_old)

    def on_mouse_down(self) -> None:
        self.on_key()

    def jump(self, event: int, said: str = "") -> None:
        """Select an event and bring it into view."""
        self.timeline.select(event)
        self.follow_at_once()
        if said:
            self.say(said)

    def led_from(self, before: Viewport) -> None:
        """A table has asked for what is shown now; `before`: the view that it asked in."""
        view = self.timeline.viewport
        if view != before and isinstance(self.area.open, ScopedPane):
            self.led_to = view.start_ns, view.end_ns

    def follow_at_once(self) -> None:
        """Let the open pane follow the selection in the timeline's own frame, where that is cheap.

        The timeline's message comes too late for that frame, and two frames take twice as long.
        """
        pane = self.area.open
        if pane is not None and pane.eager:
            pane.follow(self.timeline.selected)
            self.draw_soon(pane)

    def draw_soon(self, widget: Widget) -> None:
        """Put what has changed of a widget into the next frame."""
        self.post_message(messages.Update(widget))
