"""Folding, hiding, pinning and ordering the lanes of the timeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tracetui.timeline import arrangement, moves
from tracetui.timeline.layout import Layout, Of

if TYPE_CHECKING:
    from tracetui.tui.timeline.view import TimelineView


class Lanes:
    """Calls for `TimelineView`. A lane that is not given is the selection's."""

    def _track(self: TimelineView, lane: int | None) -> int:  # type: ignore[misc]
        if lane is None:
            selected = self.scene.selected
            lane = int(self.trace.lane[selected]) if selected >= 0 else -1
        return self.scene.layout.track_of(Of.LANE, lane)

    def _arrange(self: TimelineView, layout: Layout) -> None:  # type: ignore[misc]
        self._go(moves.arranged(self.scene, layout, self.size.height))

    def toggle_track(self: TimelineView, track: int) -> None:  # type: ignore[misc]
        """Fold a track to its top row, or unfold it."""
        if track >= 0:
            layout = self.scene.layout
            folded = int(layout.shown[track]) < int(layout.rows[track])
            self._arrange(layout.with_shown(track, int(layout.rows[track]) if folded else 1))

    def toggle_fold(self: TimelineView, lane: int | None = None) -> None:  # type: ignore[misc]
        """Fold a lane to its top row, or unfold it."""
        self.toggle_track(self._track(lane))

    def deepen(self: TimelineView, by: int, lane: int | None = None) -> None:  # type: ignore[misc]
        """Show so many rows of a lane more (negative: fewer); one stays."""
        if (track := self._track(lane)) >= 0:
            layout = self.scene.layout
            self._arrange(layout.with_shown(track, max(1, int(layout.shown[track]) + by)))

    def collapse_all(self: TimelineView) -> None:  # type: ignore[misc]
        """Fold every lane to its top row."""
        self._arrange(self.scene.layout.with_all(1))

    def expand_all(self: TimelineView) -> None:  # type: ignore[misc]
        """Show every row of every lane."""
        self._arrange(self.scene.layout.with_all(1 << 30))

    def hide_lane(self: TimelineView, lane: int | None = None) -> None:  # type: ignore[misc]
        """Take a lane off the screen."""
        if (track := self._track(lane)) >= 0:
            self._arrange(self.scene.layout.with_shown(track, 0))

    def show_hidden(self: TimelineView) -> None:  # type: ignore[misc]
        """Bring all hidden lanes and series back."""
        self._arrange(self.scene.layout.with_hidden())

    def pin_lane(self: TimelineView, lane: int | None = None) -> None:  # type: ignore[misc]
        """Keep a lane on the screen above the others while they scroll; again: no longer."""
        if (track := self._track(lane)) >= 0:
            self._arrange(self.scene.layout.toggle_pin(track))

    def arrangement(self: TimelineView) -> list[dict[str, Any]]:  # type: ignore[misc]
        """How the lanes are arranged, as JSON-ready data for `set_arrangement`."""
        return arrangement.arrangement(self.trace, self.scene.layout)

    def set_arrangement(self: TimelineView, kept: Sequence[Mapping[str, Any]]) -> None:  # type: ignore[misc]
        """Order, fold, hide and pin the lanes as they were."""
        self._arrange(arrangement.arranged(self.trace, self.scene.layout, kept))

    def move_lane(self: TimelineView, by: int, lane: int | None = None) -> None:  # type: ignore[misc]
        """Move a lane up (negative) or down past its neighbours."""
        if (track := self._track(lane)) >= 0:
            self._arrange(self.scene.layout.reorder(track, by))
