"""Keys that move the view."""

from __future__ import annotations

from tracetui.timeline.labels import lines_below
from tracetui.tui.controllers.base import TracePart

ENDS = {
    "next": "the last event of this row",
    "previous": "the first event of this row",
    "up": "nothing above",
    "down": "nothing below",
}

SCROLL = 2
"""Lines that the last event's `down` scrolls: what is drawn below it has no events (counters)."""


class Moving(TracePart):
    """Zoom, pan and history."""

    def action_zoom(self, factor: float) -> None:
        self.timeline.zoom(factor if factor > 0 else -1 / factor)

    def action_pan(self, fraction: float) -> None:
        self.timeline.pan(fraction)

    def action_centre(self) -> None:
        if self.timeline.selected is None:
            self.say("nothing is selected: click an event, or use the arrow keys")
        else:
            self.timeline.centre()

    def action_fit(self) -> None:
        self.timeline.fit()

    def action_back(self) -> None:
        if not self.timeline.back():
            self.say("no earlier view")

    def action_forward(self) -> None:
        if not self.timeline.forward():
            self.say("no later view")

    def key_enter(self) -> None:
        """Enter belongs to the tables: in the timeline it has nothing to do."""
        if self.focused is self.timeline:
            self.say("Enter is for tables, Tab goes there; here f centres the selection, e explains it")

    def action_move(self, direction: str) -> None:
        if self.timeline.move(direction):
            self.follow_at_once()
        elif direction == "down" and lines_below(self.timeline.scene, self.timeline.size.height):
            self.timeline.scroll_lanes(SCROLL)
        elif direction == "down" and not self.timeline.scene.layout.shown.all():
            self.say("nothing below but what is hidden: X shows it")
        else:
            self.say(ENDS[direction])
