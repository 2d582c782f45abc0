"""What the tables speak of: the whole trace or the range, what is in view, a step."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from textual.timer import Timer

from tracetui.tui.controllers.base import TracePart
from tracetui.tui.panes.scoped import ScopedPane
from tracetui.tui.timeline import ViewportChanged
from tracetui.units import exact

if TYPE_CHECKING:
    from tracetui.analysis.scope import Scope

SETTLED = 0.15
"""Seconds that a range must rest before the tables follow: a drag changes it many times."""

IN_VIEW_SETTLED = 0.25
"""Seconds that the view must rest before the tables follow: a held key costs them nothing."""


class Scoping(TracePart):
    """The scope of the panes, and the key that chooses it."""

    scope: Scope | None = None
    """What the panes speak of; None: the whole trace."""
    scoped_by: str = "range"
    """What decides on the scope: "range" (none: the whole trace), "viewport" or "step"."""
    _settle: Timer | None = None
    _view_settles: Timer | None = None
    _view_moved = 0.0

    def set_scope(self, scope: Scope | None) -> None:
        """Let all panes speak of a scope; those that are not to be seen follow when they are opened."""
        self._hold(False)
        if scope != self.scope:
            self.scope = scope
            for pane in self.area.panes.values():
                pane.set_scope(scope)

    def action_scope(self) -> None:
        """The whole trace or the range → what is in view → the step → the first again."""
        if self.scoped_by == "range":
            self.scoped_by = "viewport"
            self.led_to = None
            self._view_follows()
            view = self.timeline.viewport
            length = exact(view.end_ns - view.start_ns)
            self.say(f"the tables speak of what is in view, {length}, and follow it")
        elif self.scoped_by == "viewport":
            self.scoped_by = "step"
            self._step_follows()
        else:
            self.scope_by_range()

    # The range, or all

    def range_settles(self) -> None:
        """Another range, or none any more."""
        if self._settle is not None:
            self._settle.stop()
        self._settle = self.set_timer(SETTLED, self._range_follows)

    def _range_follows(self) -> None:
        if self.timeline.range_ns is not None or self.scoped_by == "range":
            self.scope_by_range()

    def scope_by_range(self) -> None:
        """The range decides on the scope; without one it is the whole trace."""
        from tracetui.analysis.scope import range_scope

        widened = self.scoped_by != "range"
        self.scoped_by = "range"
        band = self.timeline.range_ns
        scope = range_scope(*band) if band is not None and band[1] > band[0] else None
        self.set_scope(scope)
        if scope is not None:
            length = exact(scope.end - scope.start)
            self.say(f"range of {length}: the tables speak of it; Esc clears it")
        elif widened:
            self.say("the tables speak of the whole trace")

    # What is in view

    def on_viewport_changed(self, message: ViewportChanged) -> None:
        message.stop()
        if self.scoped_by == "viewport":
            self._view_moved = monotonic()
            # One timer for many moves: it looks again where the last of them is too new.
            if self._view_settles is None:
                self._view_settles = self.set_timer(IN_VIEW_SETTLED, self._view_rests)

    def _view_rests(self) -> None:
        self._view_settles = None
        left = self._view_moved + IN_VIEW_SETTLED - monotonic()
        if left > 0.005:
            self._view_settles = self.set_timer(left, self._view_rests)
        else:
            self._view_follows()

    def _view_follows(self) -> None:
        from tracetui.analysis.scope import range_scope

        view = self.timeline.viewport
        if self.scoped_by != "viewport" or view.end_ns <= view.start_ns:
            return
        if self.led_to == (view.start_ns, view.end_ns):
            self._hold(True)
        else:
            self.led_to = None
            self.set_scope(range_scope(view.start_ns, view.end_ns, "viewport"))

    def _hold(self, held: bool) -> None:
        """Whether the tables stay with the view before the one that is shown: their notes say so."""
        if held != self.held:
            self.held = held
            for pane in self.area.panes.values():
                if isinstance(pane, ScopedPane):
                    pane.set_earlier(held)

    # A step

    def _step_follows(self) -> None:
        view, event = self.timeline.viewport, self.timeline.selected
        middle = (view.start_ns + view.end_ns) // 2

        def find() -> None:
            self.app.call_from_thread(self._step_found, self.results.step_at(middle, event))

        self.run_worker(find, thread=True, exit_on_error=False, group="find step", exclusive=True)

    def _step_found(self, step: Scope | None) -> None:
        if self.scoped_by != "step":  # the key was pressed again meanwhile
            return
        if step is None:
            self.scope_by_range()
            self.say(
                "no step here: " + ("the tables speak of the range" if self.scope else "the whole trace")
            )
        else:
            self.set_scope(step)
            self.say(f"the tables speak of {step.label}")
