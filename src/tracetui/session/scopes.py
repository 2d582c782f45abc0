"""The scope of the tables: the whole trace, the selected range, the view, or a step."""

from __future__ import annotations

from tracetui.analysis.part import Scope
from tracetui.analysis.steps.scope import range_scope, step_at
from tracetui.core.units import exact
from tracetui.session.navigator import Navigator


class Scopes:
    """The scope of the tables, and where it comes from."""

    def __init__(self, navigator: Navigator) -> None:
        self._navigator = navigator
        self.scope: Scope | None = None
        """The scope; None: the whole trace."""
        self.by = "range"
        """Where the scope comes from: "range" (without one, the whole trace), "viewport" or "step"."""
        self.jump_view: tuple[int, int] | None = None
        """The view (ns) that a table itself jumped to. Tables that follow the view ignore this jump:
        otherwise going to a row's first event would remove the row, or its other events."""
        self.frozen = False
        """Whether the tables are not following the view because of `jump_view`."""

    def jumped(self) -> None:
        """A table has just jumped to the current view."""
        self.jump_view = self._navigator.view.start_ns, self._navigator.view.end_ns

    def to_range(self) -> str:
        """Use the range, or without one the whole trace. Returns a message, "" for none."""
        widened = self.by != "range"
        self.by, self.frozen = "range", False
        band = self._navigator.range_ns
        self.scope = self._within(band[0], band[1]) if band is not None and band[1] > band[0] else None
        if self.scope is not None:
            length = exact(self.scope.end - self.scope.start)
            return f"tables show the range ({length}); Esc clears it"
        return "tables show the whole trace" if widened else ""

    def to_view(self) -> str:
        """Use the view, and follow it. Returns a message."""
        self.by, self.jump_view = "viewport", None
        self.follow_view()
        view = self._navigator.view
        return f"tables follow the view ({exact(view.end_ns - view.start_ns)})"

    def follow_view(self) -> None:
        """Update the scope after the view came to rest, unless a table jumped there itself."""
        view = self._navigator.view
        if self.by != "viewport" or view.end_ns <= view.start_ns:
            return
        self.frozen = self.jump_view == (view.start_ns, view.end_ns)
        if not self.frozen:
            self.jump_view = None
            self.scope = self._within(view.start_ns, view.end_ns, "viewport")

    def find_step(self) -> Scope | None:
        """The selection's step, or without one the step at the middle of the view. Slow the first time: call
        it in a thread."""
        middle = self._navigator.middle - self._navigator.offset
        return step_at(self._navigator.recording.whole, middle, self._navigator.selected)

    def to_step(self, step: Scope | None) -> str:
        """Use a step; None: there is none here, so use the range. Returns a message."""
        if step is None:
            self.to_range()
            what = "tables show the range" if self.scope else "tables show the whole trace"
            return f"no step here: {what}"
        self.by, self.scope, self.frozen = "step", step, False
        return f"tables show {step.label}"

    def _within(self, start: int, end: int, kind: str = "range") -> Scope:
        """A range of session times (ns) as a scope of the active recording."""
        return range_scope(start - self._navigator.offset, end - self._navigator.offset, kind)
