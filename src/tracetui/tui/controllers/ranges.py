"""Keys for stretches of time: the range that the tables speak of."""

from __future__ import annotations

from tracetui.tui.controllers.scopes import Scoping
from tracetui.tui.timeline import RangeChanged


class Ranges(Scoping):
    """The range."""

    def action_range(self) -> None:
        event = self.timeline.selected
        if event is None:
            self.say("select an event first, or drag with the mouse")
            return
        start = int(self.trace.start[event])
        self.timeline.set_range(start, start + max(1, int(self.trace.duration[event])))

    def on_range_changed(self, message: RangeChanged) -> None:
        message.stop()
        self.range_settles()
