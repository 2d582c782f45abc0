"""Folding, hiding, pinning and moving lanes, and restoring how they were left."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tracetui.core.copying import replace
from tracetui.session.navigator import Navigator, nothing
from tracetui.session.state import forget_state, read_state, resolved, state_file, write_state
from tracetui.timeline import arrangement, moves, viewport
from tracetui.timeline.labels import label_width
from tracetui.timeline.scene import EDGE, TOP, Scene, Source
from tracetui.timeline.series import Series
from tracetui.timeline.track_layout import Of, TrackLayout


class Lanes:
    """The arrangement of the lanes. `of` is a recording's index in the session (None: the active one);
    without `lane`, the methods act on the selection's lane."""

    def __init__(self, navigator: Navigator) -> None:
        self.navigator = navigator
        self.on_arrange: Callable[[bool], object] = nothing
        """Called with True after the user arranged a lane, and with False after a reset of all lanes."""
        self._arranged = False
        """Whether the user folded, hid, pinned or moved a lane."""
        self._fitted = 0
        """Height of the screen at the last `resize`."""

    @property
    def layout(self) -> TrackLayout:
        """The current tracks."""
        return self.navigator.scene.layout

    def track(self, lane: int | None = None, of: int | None = None) -> int:
        """The track of a lane; -1 if there is none."""
        if lane is None:
            selected = self.navigator.selected
            lane = int(self.navigator.trace.lane[selected]) if selected is not None else -1
        return self.layout.track_of(Of.LANE, lane, self.navigator.active if of is None else of)

    def _arrange(self, layout: TrackLayout) -> None:
        self._arranged = True
        self.navigator.go(moves.arranged(self.navigator.scene, layout, self.navigator.height))
        self.on_arrange(True)

    def toggle_track(self, track: int) -> None:
        """Fold a track to its top row, or unfold it."""
        layout = self.layout
        folded = int(layout.shown[track]) < int(layout.rows[track])
        self._arrange(layout.with_shown(track, int(layout.rows[track]) if folded else 1))

    def toggle_fold(self, lane: int | None = None, *, of: int | None = None) -> bool:
        """Fold a lane to its top row, or unfold it. False if it has only one row."""
        track = self.track(lane, of)
        if track < 0 or self.layout.rows[track] < 2:
            return False
        self.toggle_track(track)
        return True

    def toggle_all(self) -> None:
        """Fold every lane to its top row; if all are folded, unfold them."""
        folded = bool((self.layout.shown <= 1).all())
        self._arrange(self.layout.with_all(1 << 30 if folded else 1))

    def is_hidden(self, lane: int | None = None, *, of: int | None = None) -> bool:
        """Whether a lane is hidden."""
        track = self.track(lane, of)
        return track >= 0 and not self.layout.shown[track]

    def hide(self, lane: int | None = None, *, of: int | None = None) -> None:
        """Hide a lane."""
        if (track := self.track(lane, of)) >= 0:
            self._arrange(self.layout.with_shown(track, 0))

    def show_hidden(self) -> int:
        """Show all hidden lanes and series again, as they were. Returns how many there were."""
        hidden = int((self.layout.shown == 0).sum())
        if hidden:
            self._arrange(self.layout.with_hidden())
        return hidden

    def pin(self, lane: int | None = None, *, of: int | None = None) -> bool:
        """Pin a lane above the part that scrolls, or unpin it. Returns whether it is pinned now."""
        track = self.track(lane, of)
        if track >= 0:
            self._arrange(self.layout.toggle_pin(track))
        return track in self.layout.pinned

    def move(self, by: int, lane: int | None = None, *, of: int | None = None) -> bool:
        """Move a lane one place up (-1) or down (1) among the visible lanes of its recording. False if it
        cannot move."""
        track, before = self.track(lane, of), self.layout
        layout = before.moved(track, by) if track >= 0 else None
        if layout is None:
            return False
        self._arrange(layout)
        self._in_view(self.track(int(before.ref[track]), of))
        return True

    def _in_view(self, track: int) -> None:
        self.navigator.go(moves.track_in_view(self.navigator.scene, track, self.navigator.height))

    # Saving and restoring

    def arrangement(self, of: int | None = None) -> arrangement.Kept:
        """The arrangement of a recording's lanes, as JSON-ready data for `restore`."""
        return arrangement.now(self.navigator.scene, self.navigator.active if of is None else of)

    def restore(self, kept: Sequence[Mapping[str, Any]], *, of: int | None = None) -> None:
        """Arrange the lanes of a recording as saved: order, folds and pins."""
        self._reopen(self._with_arrangement().having(of, left=kept))

    def reset(self) -> None:
        """Arrange the lanes as for a trace that was never opened before."""
        sources = tuple(replace(source, left=()) for source in self.navigator.scene.sources)
        self._reopen(replace(self.navigator.scene, sources=sources))
        self._in_view(self.track())
        self.on_arrange(False)

    def _with_arrangement(self) -> Scene:
        """The scene, with the current arrangement stored in its sources for `_reopen`."""
        scene = self.navigator.scene
        for of in range(len(scene.sources) if self._arranged else 0):
            scene = scene.having(of, left=arrangement.now(scene, of))
        return scene

    def _reopen(self, scene: Scene) -> None:
        """Lay out the lanes anew from the arrangements stored in the sources."""
        self.navigator.go(moves.arranged(scene, self._opening(scene), self.navigator.height))
        self._arranged = False

    def _opening(self, scene: Scene) -> TrackLayout:
        return arrangement.opened(scene.sources, max(1, self.navigator.height - TOP))

    def add(self, source: Source) -> int:
        """Show another recording below the others. Returns its index."""
        scene, of = self._with_arrangement(), len(self.navigator.scene.sources)
        (low, high), (first, last) = scene.span, source.span
        scene = replace(scene, sources=(*scene.sources, source), span=(min(low, first), max(high, last)))
        # The user did not move, so the history gets no entry.
        self.navigator.scene = replace(scene, view=self._view(scene, scene.view.width))
        self._reopen(self.navigator.scene)
        return of

    def exchanged(self, source: Source, shift: int, event: int | None) -> Scene:
        """The scene with the only source replaced by another one, whose zero is `shift` ns later, and with
        this event of the new source selected. New lanes come where they belong; what is on the screen stays
        there."""
        navigator, before = self.navigator, self.navigator.scene
        rows = [(line.of, line.ref, line.depth) for line in before.lines(navigator.height - TOP)]
        stays = event is not None and (Of.LANE, *_row(before.source, before.selected)) in rows
        band, instant = before.band, before.instant
        scene = replace(
            before,
            sources=(replace(source, left=arrangement.now(before, 0)),),
            span=source.span,
            view=replace(before.view, start=before.view.start + shift),
            band=None if band is None else (band[0] + shift, band[1] + shift),
        )
        if before.selected < 0:
            scene = replace(scene, view=self._view(scene, scene.view.width))
        scene = moves.chosen(scene, -1 if event is None else event)
        layout = self._opening(scene)
        scene = replace(
            scene,
            layout=layout,
            instant=None if instant is None else instant + shift,
            top=_same_line(before, scene.source, layout) if before.top else 0,
        )
        scene = moves.scrolled(scene, scene.top, navigator.height)
        return moves.brought_up(scene, 0, *_row(source, scene.selected), navigator.height) if stays else scene

    def set_series(self, series: Sequence[Series], *, of: int | None = None) -> None:
        """Set the series drawn below a recording's lanes. New ones go where they were left, or to the end."""
        scene, height = self.navigator.scene, self.navigator.height
        of = scene.active if of is None else of
        new = scene.having(of, series=tuple(series))
        if self._arranged:
            layout = arrangement.with_series(scene, of, series)
        else:
            layout = self._opening(new)
        fitted = moves.refitted(scene, layout, height, height)
        self.navigator.show_scene(replace(new, layout=fitted.layout, top=fitted.top, foot=fitted.foot))

    def _view(self, scene: Scene, width: int) -> viewport.Viewport:
        """The view for `width` cells: the current one, or the initial one if nobody has moved yet."""
        if self.navigator.moved:
            return viewport.resize(scene.view, width)
        return viewport.fit(*scene.first_view, width, margin=0.01)

    def resize(self, width: int, height: int) -> None:
        """Fit the view and the lanes to a new screen size, in cells."""
        navigator, labels = self.navigator, label_width(width)
        navigator.height = height
        layout = self.layout if self._arranged else self._opening(navigator.scene)
        view = self._view(navigator.scene, max(1, width - labels - EDGE))
        scene, place = replace(navigator.scene, view=view, labels=labels), navigator.returned
        if place is not None and place.height == height and len(place.scene.layout.rows) == len(layout.rows):
            scene = replace(scene, top=place.scene.top)
            navigator.show_scene(moves.arranged(scene, place.scene.layout, height))
        else:
            navigator.show_scene(moves.refitted(scene, layout, self._fitted, height))
        self._fitted = height


def _row(source: Source, event: int) -> tuple[int, int]:
    """The lane of an event, and the event's row in it."""
    return int(source.trace.lane[event]), source.rows.depth(event)


def _same_line(before: Scene, source: Source, layout: TrackLayout) -> int:
    """The line in another source's layout that corresponds to the first line on the screen now; 0 if there is
    none."""
    pieces = before.layout.scrolled.pieces(before.top, before.top + 1)
    names, there = (
        arrangement.keys(one.trace, tracks)
        for one, tracks in ((before.source, before.layout), (source, layout))
    )
    for track, first, _ in pieces:
        if names[track] in there:
            return max(0, layout.scrolled.start(there.index(names[track])) + first)
    return before.top


# Saved for the next session. Damaged or foreign files count as missing: `arrangement` uses only what fits the
# trace.


def load_lanes(path: str, folder: Path | None = None) -> list[Mapping[str, Any]]:
    """The saved arrangement of a trace's lanes; [] if there is none."""
    entries = read_state(state_file("lanes", path, folder)).get("lanes")
    if not isinstance(entries, list):
        return []
    return [e for e in entries if isinstance(e, dict) and isinstance(e.get("track"), str)]


def save_lanes(path: str, lanes: Sequence[Mapping[str, Any]] | None, folder: Path | None = None) -> bool:
    """Save an arrangement; None deletes it. False if it could not be written."""
    file = state_file("lanes", path, folder)
    if lanes is None or file is None:
        forget_state(file)
        return True
    return write_state(file, {"path": resolved(path), "lanes": list(lanes)})
