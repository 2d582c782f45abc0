"""Keys that arrange the lanes, and the arrangement that is kept for the next opening."""

from __future__ import annotations

from threading import Lock
from typing import ClassVar

from textual.timer import Timer

from tracetui.session.lanes import load_lanes, save_lanes
from tracetui.session.state import resolved
from tracetui.tui.controllers.base import TracePart
from tracetui.tui.timeline import LanesArranged
from tracetui.units import plural

RESTS = 1.0
"""Seconds that the lanes must rest before they are written: a held key moves a lane many times."""


class Arranging(TracePart):
    """Folding, hiding, pinning and moving lanes."""

    _own: bool | None = None
    """What is to be written: an arrangement, or that there is none any more; None: nothing."""
    _path = "-"
    _rests: Timer | None = None
    _writing: ClassVar[Lock] = Lock()

    def _chosen_lane(self) -> bool:
        """Whether there is a selection whose lane is meant; without one the user is told."""
        if self.timeline.selected is None:
            self.say("select an event in the lane first")
        return self.timeline.selected is not None

    def action_fold(self) -> None:
        if self._chosen_lane() and not self.timeline.toggle_fold():
            self.say("this lane has one row: there is nothing to fold")

    def action_fold_all(self) -> None:
        if self.timeline.all_folded:
            self.timeline.expand_all()
        else:
            self.timeline.collapse_all()

    def action_hide_lane(self) -> None:
        if self._chosen_lane():
            self.timeline.hide_lane()
            self.say("lane hidden; X brings hidden lanes back")

    def action_show_lanes(self) -> None:
        back = self.timeline.show_hidden()
        self.say(f"{plural(back, 'hidden lane')} back" if back else "nothing is hidden")

    def action_pin_lane(self) -> None:
        if self._chosen_lane():
            pinned = self.timeline.pin_lane()
            self.say(f"this lane {'stays at the top' if pinned else 'scrolls with the others again'}")

    def action_lane_move(self, by: int) -> None:
        if self._chosen_lane() and not self.timeline.move_lane(by):
            if self.timeline.is_hidden():
                self.say("this lane is hidden: X brings it back")
            else:
                self.say("no lane below to move past" if by > 0 else "no lane above to move past")

    def action_lanes_reset(self) -> None:
        self.timeline.as_opened()
        self.say("the lanes are as they were before you arranged them")

    # Kept

    def restore_lanes(self) -> None:
        """Arrange the lanes as they were left."""
        self._path = resolved(self.trace.info.path)
        kept = load_lanes(self._path)
        if kept:
            self.timeline.set_arrangement(kept)

    def on_lanes_arranged(self, message: LanesArranged) -> None:
        message.stop()
        self._own = message.own
        if self._rests is not None:
            self._rests.stop()
        self._rests = self.set_timer(RESTS, self._keep_in_thread)

    def _keep_in_thread(self) -> None:
        self._rests = None

        def keep() -> None:
            if not self.keep_lanes():
                self.app.call_from_thread(self.say, "the lanes are not kept: there is no place to write to")

        self.run_worker(keep, thread=True, exit_on_error=False, group="keep lanes")

    def keep_lanes(self) -> bool:
        """Write what is not written yet; from any thread, one at a time. False where that failed."""
        with self._writing:
            own, self._own = self._own, None
            lanes = self.timeline.arrangement() if own else None
            return own is None or save_lanes(self._path, lanes)

    def on_unmount(self) -> None:
        """The last change may be younger than the timer."""
        self.keep_lanes()
