"""Keys that choose the part of the trace that the tables cover: all of it, a range, the view, a step."""

from __future__ import annotations

from time import monotonic

from textual.timer import Timer

from tracetui.tui.controllers.screen_context import Escape, ScreenContext
from tracetui.tui.panes.scoped import ScopedPane

SETTLED = 0.15
"""Seconds from the last change of the range until the tables follow: a drag changes it many times."""

IN_VIEW_SETTLED = 0.25
"""Seconds from the last move of the view until the tables follow: a held key moves it many times."""


class ScopeKeys:
    """The range, and the scope of the panes."""

    def __init__(self, context: ScreenContext) -> None:
        self.context, self.scopes = context, context.session.scopes
        self._range_timer: Timer | None = None
        self._view_timer: Timer | None = None
        self._view_moved = 0.0
        navigator = context.navigator
        context.escapes += [
            Escape(lambda: self.scopes.by != "range", self.to_range),
            Escape(lambda: navigator.range_ns is not None, lambda: navigator.set_range(None)),
        ]

    def _show(self, message: str = "") -> None:
        """Give all panes the scope; hidden ones update when they are opened."""
        for pane in self.context.area.panes.values():
            if isinstance(pane, ScopedPane):
                pane.set_earlier(self.scopes.frozen)
                if pane.scope != self.scopes.scope:
                    pane.set_scope(self.scopes.scope)
        if message:
            self.context.say(message)

    def to_range(self) -> None:
        """Make the tables cover the range, or the whole trace if there is none."""
        self._show(self.scopes.to_range())

    def action_range(self) -> None:
        if not self.context.session.select_range():
            self.context.say("select an event first, or drag with the mouse")

    def action_scope(self) -> None:
        """Switch the scope in turn: the whole trace or the range → what is in view → the step."""
        if self.scopes.by == "range":
            self._show(self.scopes.to_view())
        elif self.scopes.by == "viewport":
            self.scopes.by = "step"
            self.context.in_thread(self._find_step, "find step", exclusive=True)
        else:
            self.to_range()

    def _find_step(self) -> None:
        step = self.scopes.find_step()

        def found() -> None:
            if self.scopes.by == "step":  # otherwise the key was pressed again in the meantime
                self._show(self.scopes.to_step(step))

        self.context.from_thread(found)

    def recording_changed(self) -> None:
        """The selection went to another recording: use the same scope, in that one's time."""
        if self.scopes.by == "range":
            self.scopes.to_range()
        elif self.scopes.by == "viewport":
            self.scopes.jump_view = None
            self.scopes.follow_view()
        else:
            self.context.in_thread(self._find_step, "find step", exclusive=True)
            return
        self._show()

    def range_changed(self) -> None:
        """The range changed or was cleared: the tables follow after a pause."""

        def follow() -> None:
            if self.context.navigator.range_ns is not None or self.scopes.by == "range":
                self.to_range()

        if self._range_timer is not None:
            self._range_timer.stop()
        self._range_timer = self.context.after(SETTLED, follow)

    def view_changed(self) -> None:
        """The view moved: the tables follow after a pause."""
        if self.scopes.by == "viewport":
            self._view_moved = monotonic()
            # One timer serves many moves: if it fires too soon after the last one, it is set again.
            if self._view_timer is None:
                self._view_timer = self.context.after(IN_VIEW_SETTLED, self._follow_view)

    def _follow_view(self) -> None:
        self._view_timer = None
        left = self._view_moved + IN_VIEW_SETTLED - monotonic()
        if left > 0.005:
            self._view_timer = self.context.after(left, self._follow_view)
        else:
            self.scopes.follow_view()
            self._show()
