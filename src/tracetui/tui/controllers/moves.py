"""Keys that move the view."""

from __future__ import annotations

from tracetui.timeline.labels import lines_below
from tracetui.tui.controllers.screen_context import Escape, ScreenContext

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

    def __init__(self, context: ScreenContext) -> None:
        self.context, self.navigator = context, context.navigator
        navigator = context.navigator
        context.escapes.append(Escape(lambda: navigator.selected is not None, lambda: navigator.select(None)))

    def action_zoom(self, factor: float) -> None:
        self.navigator.zoom(factor if factor > 0 else -1 / factor)

    def action_pan(self, fraction: float) -> None:
        self.navigator.pan(fraction)

    def action_center(self) -> None:
        if self.navigator.selected is None:
            self.context.say("nothing selected: click an event, or use the arrow keys")
        else:
            self.navigator.center()

    def action_fit(self) -> None:
        self.navigator.fit()

    def action_back(self) -> None:
        if not self.navigator.back():
            self.context.say("no earlier view")

    def action_forward(self) -> None:
        if not self.navigator.forward():
            self.context.say("no later view")

    def action_move(self, direction: str) -> None:
        if self.navigator.move(direction):
            self.context.follow_at_once()
        elif direction == "down" and any(below := lines_below(self.navigator.scene, self.navigator.height)):
            self.navigator.scroll_lanes(SCROLL, docked=below[1] > 0)
        elif direction == "down" and not self.navigator.scene.layout.shown.all():
            self.context.say("only hidden lanes below: X shows them")
        elif not any(len(source.trace) for source in self.navigator.scene.sources):
            self.context.say("there is nothing to select: the trace has no events with a duration")
        else:
            self.context.say(ENDS[direction])
