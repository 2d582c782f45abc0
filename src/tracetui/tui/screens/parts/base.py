"""What the parts of the trace screen share."""

from __future__ import annotations

from textual.screen import Screen

from tracetui.trace.model import Trace
from tracetui.tui.footer import Footer
from tracetui.tui.panes.area import PaneArea
from tracetui.tui.results import Results
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

    def say(self, message: str) -> None:
        """Tell what a key did, where that is not plain to see."""
        self.footer.say(message)

    def jump(self, event: int, said: str = "") -> None:
        """Select an event and bring it into view."""
        self.timeline.select(event)
        if said:
            self.say(said)
