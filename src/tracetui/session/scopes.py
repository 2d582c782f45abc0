"""What the tables speak of: the whole trace or the range, what is in view, or a step."""

from __future__ import annotations

from tracetui.analysis.scope import Scope, range_scope
from tracetui.session.walk import Walk
from tracetui.units import exact


class Scopes:
    """The scope of the tables, and what decides on it."""

    def __init__(self, walk: Walk) -> None:
        self._walk = walk
        self.scope: Scope | None = None
        """What the tables speak of; None: the whole trace."""
        self.by = "range"
        """What decides: "range" (none: the whole trace), "viewport" or "step"."""
        self.jump_view: tuple[int, int] | None = None
        """The view that a table's own jump led to, ns: tables of what is in view stay with the one before.
        Else the jump to a row's first event would take away the row, and its other events with it."""
        self.frozen = False
        """Whether they stay so now."""

    def jumped(self) -> None:
        """A table asked for the view that is shown now."""
        self.jump_view = self._walk.view.start_ns, self._walk.view.end_ns

    def to_range(self) -> str:
        """The range decides; without one it is the whole trace. Returns what to say, "" for nothing."""
        widened = self.by != "range"
        self.by, self.frozen = "range", False
        band = self._walk.range_ns
        self.scope = self._within(band[0], band[1]) if band is not None and band[1] > band[0] else None
        if self.scope is not None:
            length = exact(self.scope.end - self.scope.start)
            return f"range of {length}: the tables speak of it; Esc clears it"
        return "the tables speak of the whole trace" if widened else ""

    def to_view(self) -> str:
        """What is in view decides, and is followed. Returns what to say."""
        self.by, self.jump_view = "viewport", None
        self.follow_view()
        view = self._walk.view
        return f"the tables speak of what is in view, {exact(view.end_ns - view.start_ns)}, and follow it"

    def follow_view(self) -> None:
        """The view rests: the tables speak of it, unless one of them asked for it."""
        view = self._walk.view
        if self.by != "viewport" or view.end_ns <= view.start_ns:
            return
        self.frozen = self.jump_view == (view.start_ns, view.end_ns)
        if not self.frozen:
            self.jump_view = None
            self.scope = self._within(view.start_ns, view.end_ns, "viewport")

    def find_step(self) -> Scope | None:
        """The step of the selection, or without one that in the middle of the view. Takes as long as the
        steps take to find: for a thread."""
        middle = self._walk.middle - self._walk.offset
        return self._walk.recording.results.step_at(middle, self._walk.selected)

    def to_step(self, step: Scope | None) -> str:
        """A step decides; None: there is none here, so the range does. Returns what to say."""
        if step is None:
            self.to_range()
            what = "the tables speak of the range" if self.scope else "the whole trace"
            return f"no step here: {what}"
        self.by, self.scope, self.frozen = "step", step, False
        return f"the tables speak of {step.label}"

    def _within(self, start: int, end: int, kind: str = "range") -> Scope:
        """A stretch of the session's clock as a scope of the recording."""
        return range_scope(start - self._walk.offset, end - self._walk.offset, kind)
