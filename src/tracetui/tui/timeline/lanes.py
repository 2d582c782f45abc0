"""Folding, hiding, pinning and ordering the lanes of the timeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tracetui.timeline import arrangement, moves
from tracetui.timeline.layout import Layout, Of, fitted, lay_out
from tracetui.timeline.scene import TOP
from tracetui.timeline.series import Series
from tracetui.tui.timeline.messages import LanesArranged

if TYPE_CHECKING:
    from tracetui.tui.timeline.view import TimelineView


class Lanes:
    """Calls for `TimelineView`. A lane that is not given is the selection's."""

    _kept: Sequence[Mapping[str, Any]] = ()
    """The arrangement that was restored: series come later than the lanes, and find their places in it."""

    def _track(self: TimelineView, lane: int | None) -> int:  # type: ignore[misc]
        if lane is None:
            selected = self.scene.selected
            lane = int(self.trace.lane[selected]) if selected >= 0 else -1
        return self.scene.layout.track_of(Of.LANE, lane)

    def _arrange(self: TimelineView, layout: Layout) -> None:  # type: ignore[misc]
        self._arranged = True
        self._go(moves.arranged(self.scene, layout, self.size.height))
        self.post_message(LanesArranged())

    def toggle_track(self: TimelineView, track: int) -> None:  # type: ignore[misc]
        """Fold a track to its top row, or unfold it."""
        if track >= 0:
            layout = self.scene.layout
            folded = int(layout.shown[track]) < int(layout.rows[track])
            self._arrange(layout.with_shown(track, int(layout.rows[track]) if folded else 1))

    def toggle_fold(self: TimelineView, lane: int | None = None) -> bool:  # type: ignore[misc]
        """Fold a lane to its top row, or unfold it. False where it has but one."""
        track = self._track(lane)
        if track < 0 or self.scene.layout.rows[track] < 2:
            return False
        self.toggle_track(track)
        return True

    def collapse_all(self: TimelineView) -> None:  # type: ignore[misc]
        """Fold every lane to its top row."""
        self._arrange(self.scene.layout.with_all(1))

    def expand_all(self: TimelineView) -> None:  # type: ignore[misc]
        """Show every row of every lane."""
        self._arrange(self.scene.layout.with_all(1 << 30))

    @property
    def all_folded(self: TimelineView) -> bool:  # type: ignore[misc]
        """Whether no lane shows more than its top row."""
        return bool((self.scene.layout.shown <= 1).all())

    def is_hidden(self: TimelineView, lane: int | None = None) -> bool:  # type: ignore[misc]
        """Whether a lane was taken off the screen."""
        track = self._track(lane)
        return track >= 0 and not self.scene.layout.shown[track]

    def hide_lane(self: TimelineView, lane: int | None = None) -> None:  # type: ignore[misc]
        """Take a lane off the screen."""
        if (track := self._track(lane)) >= 0:
            self._arrange(self.scene.layout.with_shown(track, 0))

    def show_hidden(self: TimelineView) -> int:  # type: ignore[misc]
        """Bring all hidden lanes and series back, as they were; how many those are."""
        hidden = int((self.scene.layout.shown == 0).sum())
        if hidden:
            self._arrange(self.scene.layout.with_hidden())
        return hidden

    def pin_lane(self: TimelineView, lane: int | None = None) -> bool:  # type: ignore[misc]
        """Keep a lane on the screen above the others while they scroll; again: no longer. Whether it is."""
        track = self._track(lane)
        if track >= 0:
            self._arrange(self.scene.layout.toggle_pin(track))
        return track in self.scene.layout.pinned

    def move_lane(self: TimelineView, by: int, lane: int | None = None) -> bool:  # type: ignore[misc]
        """Move a lane one place up (-1) or down (1) among those on the screen. False where there is none."""
        track = self._track(lane)
        layout = self.scene.layout.moved(track, by) if track >= 0 else None
        if layout is None:
            return False
        ref = int(self.scene.layout.ref[track])
        self._arrange(layout)
        self._go(moves.lane_in_view(self.scene, ref, self.size.height))
        return True

    def arrangement(self: TimelineView) -> arrangement.Kept:  # type: ignore[misc]
        """How the lanes are arranged, as JSON-ready data for `set_arrangement`."""
        scene = self.scene
        now = arrangement.arrangement(self.trace, scene.layout, scene.series)
        return arrangement.merged(now, self._kept)

    def set_arrangement(self: TimelineView, kept: Sequence[Mapping[str, Any]]) -> None:  # type: ignore[misc]
        """Open with the lanes in this order, with these folds and pins."""
        self._kept = kept
        self._go(moves.arranged(self.scene, self._opening_layout(self.scene.series), self.size.height))
        self._arranged = False

    def _opening_layout(self: TimelineView, series: Sequence[Series]) -> Layout:  # type: ignore[misc]
        """The lanes as they were left, or else as they fit into the screen."""
        room = max(1, self.size.height - TOP)
        layout = lay_out(self.trace, room)
        if not self._kept:
            return layout.with_counters(len(series), room)
        layout = fitted(self.trace, arrangement.arranged(self.trace, layout, self._kept), room)
        layout = layout.with_counters(len(series), room)
        return arrangement.arranged(self.trace, layout, self._kept, series)

    def with_series(self: TimelineView, series: Sequence[Series]) -> Layout:  # type: ignore[misc]
        """The layout with tracks for so many series: new ones where they were left, or at the end."""
        if not self._arranged:
            return self._opening_layout(series)
        layout = self.scene.layout.with_counters(len(series), self.size.height - TOP)
        if not self._kept:
            return layout
        return arrangement.arranged(self.trace, layout, self.arrangement(), series)

    def as_opened(self: TimelineView) -> None:  # type: ignore[misc]
        """The lanes as the trace opens without an arrangement."""
        self._kept = ()
        self._go(moves.arranged(self.scene, self._opening_layout(self.scene.series), self.size.height))
        self._arranged = False
        if self.selected is not None:
            lane = int(self.trace.lane[self.selected])
            self._go(moves.lane_in_view(self.scene, lane, self.size.height))
        self.post_message(LanesArranged(own=False))
