"""Views to go back and forward to."""

from __future__ import annotations

from tracetui.core.copying import replace
from tracetui.timeline.viewport import Viewport

LONGEST = 200


class History:
    """Two stacks of viewports: back and forward."""

    def __init__(self) -> None:
        self._past: list[Viewport] = []
        self._future: list[Viewport] = []

    def copy(self) -> History:
        """An independent copy of these stacks."""
        other = History()
        other._past, other._future = self._past[:], self._future[:]
        return other

    def shift(self, by: int) -> None:
        """Move all views by so many ns."""
        self._past, self._future = (
            [replace(view, start=view.start + by) for view in views] for views in (self._past, self._future)
        )

    def leave(self, view: Viewport) -> None:
        """Remember the view before a jump."""
        if not self._past or self._past[-1] != view:
            self._past = [*self._past[-LONGEST:], view]
        self._future.clear()

    def back(self, now: Viewport) -> Viewport | None:
        """The view before the last jump."""
        if not self._past:
            return None
        self._future.append(now)
        return self._past.pop()

    def forward(self, now: Viewport) -> Viewport | None:
        """The view before the last `back`."""
        if not self._future:
            return None
        self._past.append(now)
        return self._future.pop()
