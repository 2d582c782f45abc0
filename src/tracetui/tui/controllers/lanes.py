"""Keys that arrange the lanes, and saving that arrangement for the next time."""

from __future__ import annotations

from threading import Lock

from textual.timer import Timer

from tracetui.core.units import plural
from tracetui.session.arranging import load_lanes, save_lanes
from tracetui.session.state import why_not_kept
from tracetui.tui.controllers.screen_context import ScreenContext

SAVE_DELAY = 1.0
"""Seconds from the last change until the lanes are saved: a held key moves a lane many times."""

_writing = Lock()
"""Only one arrangement is written at a time."""


class LaneKeys:
    """Folding, hiding, pinning and moving lanes."""

    def __init__(self, context: ScreenContext) -> None:
        self.context, self.lanes = context, context.session.lanes
        self._unsaved: bool | None = None
        """What to save: True: there is an arrangement; False: there is none any more; None: nothing to
        save."""
        self._timer: Timer | None = None

    def _chosen_lane(self) -> bool:
        """Whether there is a selection, and so a lane to act on; if not, say so."""
        if self.context.navigator.selected is None:
            self.context.say("select an event in the lane first")
        return self.context.navigator.selected is not None

    def action_fold(self) -> None:
        if self._chosen_lane() and not self.lanes.toggle_fold():
            self.context.say("this lane has one row: nothing to fold")

    def action_fold_all(self) -> None:
        self.lanes.toggle_all()

    def action_hide_lane(self) -> None:
        if self._chosen_lane():
            self.lanes.hide()
            self.context.say("lane hidden; X shows hidden lanes")

    def action_show_lanes(self) -> None:
        back = self.lanes.show_hidden()
        self.context.say(f"{plural(back, 'hidden lane')} back" if back else "nothing is hidden")

    def action_pin_lane(self) -> None:
        if self._chosen_lane():
            pinned = self.lanes.pin()
            self.context.say(f"this lane {'stays at the top' if pinned else 'scrolls with the others again'}")

    def action_lane_move(self, by: int) -> None:
        if self._chosen_lane() and not self.lanes.move(by):
            if self.lanes.is_hidden():
                self.context.say("this lane is hidden: X shows it")
            else:
                self.context.say("no lane below to move past" if by > 0 else "no lane above to move past")

    def action_lanes_reset(self) -> None:
        self.lanes.reset()
        self.context.say("lanes reset")

    # Saving

    def restore(self) -> None:
        """Arrange the lanes as they were last time, and from now on save every change. Several recordings are
        arranged alike, and the arrangement is not saved."""
        if not self.context.session.layout.saves_lanes:
            return
        kept = load_lanes(self.context.session.active.path)
        if kept:
            self.lanes.restore(kept)
        self.lanes.on_arrange = self._arranged

    def _arranged(self, own: bool) -> None:
        self._unsaved = own
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.context.after(SAVE_DELAY, self._save_in_thread)

    def _save_in_thread(self) -> None:
        self._timer = None

        def save() -> None:
            if not self.save():
                self.context.from_thread(self.context.say, f"the lanes are not saved: {why_not_kept()}")

        self.context.in_thread(save, "keep lanes")

    def save(self) -> bool:
        """Save what is not saved yet; may be called from any thread. False if that failed."""
        with _writing:
            own, self._unsaved = self._unsaved, None
            lanes = self.lanes.arrangement() if own else None
            return own is None or save_lanes(self.context.session.active.path, lanes)
