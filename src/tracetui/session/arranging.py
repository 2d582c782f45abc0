"""How the lanes lie on the screen: folded, hidden, pinned, moved; as they opened, or as they were left."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tracetui.session.walk import Walk, nothing
from tracetui.timeline import arrangement, moves, viewport
from tracetui.timeline.labels import label_width
from tracetui.timeline.layout import Layout, Of, fitted, lay_out
from tracetui.timeline.scene import EDGE, TOP
from tracetui.timeline.series import Series


class Lanes:
    """The arrangement of a walk's lanes. A lane that is not given is the selection's."""

    def __init__(self, walk: Walk) -> None:
        self.walk = walk
        self.on_arrange: Callable[[bool], None] = nothing
        """Called when a person arranged a lane (True), or put all of them back (False)."""
        self._arranged = False
        """Whether a person folded, hid, pinned or moved a lane."""
        self._kept: Sequence[Mapping[str, Any]] = ()
        """The arrangement that was restored: series come later than the lanes and find their places in it."""
        self._fitted = 0
        """The height that the lanes were last fitted to."""

    @property
    def layout(self) -> Layout:
        """The tracks as they are."""
        return self.walk.scene.layout

    def track(self, lane: int | None = None) -> int:
        """The track of a lane; -1 where there is none."""
        if lane is None:
            selected = self.walk.selected
            lane = int(self.walk.trace.lane[selected]) if selected is not None else -1
        return self.layout.track_of(Of.LANE, lane)

    def _arrange(self, layout: Layout) -> None:
        self._arranged = True
        self.walk.go(moves.arranged(self.walk.scene, layout, self.walk.height))
        self.on_arrange(True)

    def toggle_track(self, track: int) -> None:
        """Fold a track to its top row, or unfold it."""
        if track >= 0:
            layout = self.layout
            folded = int(layout.shown[track]) < int(layout.rows[track])
            self._arrange(layout.with_shown(track, int(layout.rows[track]) if folded else 1))

    def toggle_fold(self, lane: int | None = None) -> bool:
        """Fold a lane to its top row, or unfold it. False where it has but one."""
        track = self.track(lane)
        if track < 0 or self.layout.rows[track] < 2:
            return False
        self.toggle_track(track)
        return True

    def toggle_all(self) -> None:
        """Fold every lane to its top row; where all are folded, unfold them."""
        folded = bool((self.layout.shown <= 1).all())
        self._arrange(self.layout.with_all(1 << 30 if folded else 1))

    def is_hidden(self, lane: int | None = None) -> bool:
        """Whether a lane was taken off the screen."""
        track = self.track(lane)
        return track >= 0 and not self.layout.shown[track]

    def hide(self, lane: int | None = None) -> None:
        """Take a lane off the screen."""
        if (track := self.track(lane)) >= 0:
            self._arrange(self.layout.with_shown(track, 0))

    def show_hidden(self) -> int:
        """Bring all hidden lanes and series back as they were. Returns how many those are."""
        hidden = int((self.layout.shown == 0).sum())
        if hidden:
            self._arrange(self.layout.with_hidden())
        return hidden

    def pin(self, lane: int | None = None) -> bool:
        """Keep a lane above the others while they scroll; again: no longer. Returns whether it is pinned."""
        track = self.track(lane)
        if track >= 0:
            self._arrange(self.layout.toggle_pin(track))
        return track in self.layout.pinned

    def move(self, by: int, lane: int | None = None) -> bool:
        """Move a lane one place up (-1) or down (1) among those on the screen. False where there is none."""
        track = self.track(lane)
        layout = self.layout.moved(track, by) if track >= 0 else None
        if layout is None:
            return False
        ref = int(self.layout.ref[track])
        self._arrange(layout)
        self.walk.go(moves.lane_in_view(self.walk.scene, ref, self.walk.height))
        return True

    # As they were left

    def arrangement(self) -> arrangement.Kept:
        """How the lanes are arranged, as JSON-ready data for `restore`."""
        now = arrangement.arrangement(self.walk.trace, self.layout, self.walk.scene.series)
        return arrangement.merged(now, self._kept)

    def restore(self, kept: Sequence[Mapping[str, Any]] = ()) -> None:
        """Open with the lanes in this order, with these folds and pins; () for none."""
        self._kept, self._arranged = kept, False
        self.walk.go(moves.arranged(self.walk.scene, self._opening(self.walk.scene.series), self.walk.height))

    def reset(self) -> None:
        """The lanes as the trace opens without an arrangement."""
        self.restore()
        if (selected := self.walk.selected) is not None:
            lane = int(self.walk.trace.lane[selected])
            self.walk.go(moves.lane_in_view(self.walk.scene, lane, self.walk.height))
        self.on_arrange(False)

    def _opening(self, series: Sequence[Series]) -> Layout:
        """The lanes as they were left, or else as they fit into the screen."""
        trace, room = self.walk.trace, max(1, self.walk.height - TOP)
        layout = lay_out(trace, room)
        if not self._kept:
            return layout.with_counters(len(series), room)
        layout = fitted(trace, arrangement.arranged(trace, layout, self._kept), room)
        return arrangement.arranged(trace, layout.with_counters(len(series), room), self._kept, series)

    def set_series(self, series: Sequence[Series]) -> None:
        """The values over time to draw below the lanes: new ones where they were left, or at the end."""
        height = self.walk.height
        if not self._arranged:
            layout = self._opening(series)
        else:
            layout = self.layout.with_counters(len(series), height - TOP)
            if self._kept:
                layout = arrangement.arranged(self.walk.trace, layout, self.arrangement(), series)
        scene = moves.refitted(self.walk.scene, layout, height, height)
        self.walk.change(series=tuple(series), layout=scene.layout, top=scene.top)

    def resize(self, width: int, height: int) -> None:
        """Fit view and lanes into a screen of another size, in cells."""
        walk, labels = self.walk, label_width(width)
        room = max(1, width - labels - EDGE)
        walk.height = height
        if walk.moved:
            view = viewport.resize(walk.view, room)
        else:
            view = viewport.fit(*walk.trace.first_view, room, margin=0.01)
        layout = self.layout if self._arranged else self._opening(walk.scene.series)
        walk.change(view=view, labels=labels)
        walk.scene = moves.refitted(walk.scene, layout, self._fitted, height)
        self._fitted = height
