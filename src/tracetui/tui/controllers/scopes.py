"""Keys that choose what the tables speak of: the whole trace or the range, what is in view, a step."""

from __future__ import annotations

from time import monotonic

from textual.timer import Timer

from tracetui.tui.controllers.host import Escape, Host
from tracetui.tui.panes.scoped import ScopedPane

SETTLED = 0.15
"""Seconds that a range must rest before the tables follow: a drag changes it many times."""

IN_VIEW_SETTLED = 0.25
"""Seconds that the view must rest before the tables follow: a held key costs them nothing."""


class ScopeKeys:
    """The range, and the scope of the panes."""

    def __init__(self, host: Host) -> None:
        self.host, self.scopes = host, host.session.scopes
        self._range_rests: Timer | None = None
        self._view_rests: Timer | None = None
        self._view_moved = 0.0
        walk = host.walk
        host.escapes += [
            Escape(lambda: self.scopes.by != "range", self.to_range),
            Escape(lambda: walk.range_ns is not None, lambda: walk.set_range(None)),
        ]

    def _show(self, said: str = "") -> None:
        """Let all panes speak of the scope; those that are not to be seen follow when they are opened."""
        for pane in self.host.area.panes.values():
            if isinstance(pane, ScopedPane):
                pane.set_earlier(self.scopes.frozen)
                if pane.scope != self.scopes.scope:
                    pane.set_scope(self.scopes.scope)
        if said:
            self.host.say(said)

    def to_range(self) -> None:
        """The range decides; without one it is the whole trace."""
        self._show(self.scopes.to_range())

    def action_range(self) -> None:
        if not self.host.session.select_range():
            self.host.say("select an event first, or drag with the mouse")

    def action_scope(self) -> None:
        """The whole trace or the range → what is in view → the step → the first again."""
        if self.scopes.by == "range":
            self._show(self.scopes.to_view())
        elif self.scopes.by == "viewport":
            self.scopes.by = "step"
            self.host.in_thread(self._find_step, "find step", exclusive=True)
        else:
            self.to_range()

    def _find_step(self) -> None:
        step = self.scopes.find_step()

        def found() -> None:
            if self.scopes.by == "step":  # else the key was pressed again meanwhile
                self._show(self.scopes.to_step(step))

        self.host.from_thread(found)

    def range_changed(self) -> None:
        """Another range, or none any more: the tables follow once it rests."""

        def rests() -> None:
            if self.host.walk.range_ns is not None or self.scopes.by == "range":
                self.to_range()

        if self._range_rests is not None:
            self._range_rests.stop()
        self._range_rests = self.host.after(SETTLED, rests)

    def view_changed(self) -> None:
        """The view moved: the tables follow once it rests."""
        if self.scopes.by == "viewport":
            self._view_moved = monotonic()
            # One timer for many moves: it looks again where the last of them is too new.
            if self._view_rests is None:
                self._view_rests = self.host.after(IN_VIEW_SETTLED, self._look_again)

    def _look_again(self) -> None:
        self._view_rests = None
        left = self._view_moved + IN_VIEW_SETTLED - monotonic()
        if left > 0.005:
            self._view_rests = self.host.after(left, self._look_again)
        else:
            self.scopes.follow_view()
            self._show()
