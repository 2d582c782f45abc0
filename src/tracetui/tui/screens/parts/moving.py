"""Keys that move the view, and keys that arrange the lanes."""

from __future__ import annotations

from tracetui.tui.screens.parts.base import TracePart

ENDS = {
    "next": "the last event of this row",
    "previous": "the first event of this row",
    "up": "nothing above",
    "down": "nothing below",
}


class Moving(TracePart):
    """Zoom, pan, history, and lanes."""

    all_folded = False

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

    def action_move(self, direction: str) -> None:
        if self.timeline.move(direction):
            self.follow_at_once()
        else:
            self.say(ENDS[direction])

    def action_fold(self) -> None:
        if self.timeline.selected is None:
            self.say("select an event in the lane first")
        else:
            self.timeline.toggle_fold()

    def action_fold_all(self) -> None:
        self.all_folded = not self.all_folded
        if self.all_folded:
            self.timeline.collapse_all()
        else:
            self.timeline.expand_all()

    def action_hide_lane(self) -> None:
        if self.timeline.selected is None:
            self.say("select an event in the lane first")
        else:
            self.timeline.hide_lane()
            self.say("lane hidden; X brings hidden lanes back")

    def action_show_lanes(self) -> None:
        self.timeline.show_hidden()

    def action_pin_lane(self) -> None:
        if self.timeline.selected is None:
            self.say("select an event in the lane first")
        else:
            self.timeline.pin_lane()

    def action_lane_move(self, by: int) -> None:
        if self.timeline.selected is None:
            self.say("select an event in the lane first")
        else:
            self.timeline.move_lane(by)
