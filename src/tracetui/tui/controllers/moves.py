"""Keys that move the view."""

from __future__ import annotations

from tracetui.timeline.labels import lines_below
from tracetui.tui.controllers.screen_context import Escape, Host

ENDS = {
    "next": "this is the last event in the row",
    "previous": "this is the first event in the row",
    "up": "nothing above",
    "down": "nothing below",
}

SCROLL = 2
"""How many lines `down` scrolls from the last event, to show the counters below it, which have no events."""


class Moves:
    """Zoom, pan, history, and the arrow keys."""

    def __init__(self, host: Host) -> None:
        self.host, self.walk = host, host.walk
        walk = host.walk
        host.escapes.append(Escape(lambda: walk.selected is not None, lambda: walk.select(None)))

    def action_zoom(self, factor: float) -> None:
        self.walk.zoom(factor if factor > 0 else -1 / factor)

    def action_pan(self, fraction: float) -> None:
        self.walk.pan(fraction)

    def action_center(self) -> None:
        if self.walk.selected is None:
            self.host.say("nothing selected: click an event, or use the arrow keys")
        else:
            self.walk.center()

    def action_fit(self) -> None:
        self.walk.fit()

    def action_back(self) -> None:
        if not self.walk.back():
            self.host.say("no earlier view")

    def action_forward(self) -> None:
        if not self.walk.forward():
            self.host.say("no later view")

    def action_move(self, direction: str) -> None:
        if self.walk.move(direction):
            self.host.follow_at_once()
        elif direction == "down" and any(below := lines_below(self.walk.scene, self.walk.height)):
            self.walk.scroll_lanes(SCROLL, docked=below[1] > 0)
        elif direction == "down" and not self.walk.scene.layout.shown.all():
            self.host.say("only hidden lanes below: X shows them")
        elif not any(len(source.trace) for source in self.walk.scene.sources):
            self.host.say("there is nothing to select: the trace has no events with a duration")
        else:
            self.host.say(ENDS[direction])
