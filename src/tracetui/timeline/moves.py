"""Moves as pure functions from scene to scene."""

from __future__ import annotations

from tracetui.core.copying import replace
from tracetui.timeline import navigate, viewport
from tracetui.timeline.scene import TOP, Event, Scene
from tracetui.timeline.track_layout import Of, TrackLayout
from tracetui.timeline.viewport import Viewport

SHARE = 6
"""A jump to a tiny event zooms in until it takes 1/SHARE of the screen's width."""


def look(scene: Scene, view: Viewport) -> Scene:
    """Show another time range, limited to the trace."""
    return replace(scene, view=viewport.clamped(view, *scene.span))


def scrolled(scene: Scene, top: int, height: int, foot: int | None = None) -> Scene:
    """Scroll to another first line (and `foot`, that of the dock), keeping the screen (`height` lines in all)
    filled."""
    layout = scene.layout
    _, room, docked = layout.parts(height - TOP)
    top = max(0, min(top, layout.height - room))
    foot = max(0, min(scene.foot if foot is None else foot, layout.dock.height - docked))
    return replace(scene, top=top, foot=foot)


def scrolled_by(scene: Scene, lines: int, height: int, *, docked: bool) -> Scene:
    """Scroll the dock or what is above it; whichever can be scrolled if only one can."""
    _, room, shown = scene.layout.parts(height - TOP)
    if (docked or scene.layout.height <= room) and scene.layout.dock.height > shown:
        return scrolled(scene, scene.top, height, scene.foot + lines)
    return scrolled(scene, scene.top + lines, height)


def arranged(scene: Scene, layout: TrackLayout, height: int) -> Scene:
    """Use another layout."""
    return scrolled(replace(scene, layout=layout), scene.top, height)


def refitted(scene: Scene, layout: TrackLayout, before: int, height: int) -> Scene:
    """Use a layout for `height` lines instead of `before`. If the selection's row was on the screen, it stays
    there, unfolded if necessary."""
    fitted, source, selected = arranged(scene, layout, height), scene.source, scene.selected
    if selected < 0:
        return fitted
    at = scene.active, int(source.trace.lane[selected]), source.rows.depth(selected)
    lines = scene.lines(max(0, before - TOP))
    seen = [(line.source, line.ref, line.depth) for line in lines if line.of is Of.LANE]
    return brought_up(fitted, *at, height) if at in seen else fitted


def gone_to(scene: Scene, time_ns: int) -> Scene:
    """Mark a time and center it, as far as the view stays within the trace."""
    return replace(look(scene, _around(scene, scene.view, time_ns)), instant=time_ns)


def _around(scene: Scene, view: Viewport, middle: float) -> Viewport:
    """A view centered on a time, as far as it stays within the trace."""
    (low, high), half = scene.span, view.span_ns / 2
    near = min(max(middle, low + half), high - half) if 2 * half < high - low else (low + high) / 2
    return viewport.center(view, near)


def zoomed(scene: Scene, factor: float, about: float | None) -> Scene:
    """Zoom in (factor > 1) or out around a time; None: the cursor."""
    about = scene.focus if about is None else about
    return look(scene, viewport.zoom(scene.view, factor, about))


def brought_up(scene: Scene, of: int, lane: int, depth: int, height: int) -> Scene:
    """Bring a row of a source's lane onto the screen, unfolding and scrolling as little as possible."""
    layout = scene.layout
    track = layout.track_of(Of.LANE, lane, of)
    if track < 0:
        return scene
    if depth >= layout.depths(track):
        # Where there are others below, only as deep as needed.
        rows = int(layout.rows[track]) if len(scene.sources) == 1 else depth + 1
        layout = layout.with_shown(track, rows, chosen=False)
    line = layout.place(track, depth)
    return _seen(arranged(scene, layout, height), track, line, line, height)


def track_in_view(scene: Scene, track: int, height: int) -> Scene:
    """Bring a track's first row and, if there is room, its others onto the screen."""
    first = scene.layout.place(track, 0) if track >= 0 else -1
    return (
        scene if first < 0 else _seen(scene, track, first, first + int(scene.layout.shown[track]) - 1, height)
    )


def _seen(scene: Scene, track: int, first: int, last: int, height: int) -> Scene:
    """Scroll to lines of a track, as numbered by `TrackLayout.place`; -1 if it always is in view."""
    _, room, docked = scene.layout.parts(height - TOP)
    if first < 0:
        return scene
    if scene.layout.zone[track] > 1:
        # The rule above a device's first track comes along if there is room.
        rule = first - int(docked > 1 and first > 0)
        return scrolled(scene, scene.top, height, min(max(scene.foot, last - max(1, docked) + 1), rule))
    return scrolled(scene, min(max(scene.top, last - max(1, room) + 1), first), height)


def revealed(scene: Scene, slice_index: int, height: int, *, closer: bool, of: int | None = None) -> Scene:
    """Bring a slice of a source (None: the active one) into view with the smallest move. `closer`: zoom in if
    it is too small to see."""
    of = scene.active if of is None else of
    source, trace, view = scene.sources[of], scene.sources[of].trace, scene.view
    start, length = source.start(slice_index), int(trace.duration[slice_index])
    if closer and 2 * length < view.cell:
        air = max(length, 10) * (SHARE - 1) / 2
        scene = look(scene, viewport.fit(int(start - air), int(start + length + air), view.width))
    else:
        moved = viewport.reveal(view, start, start + length)
        if moved != view:
            scene = look(scene, moved)
    lane, depth = int(trace.lane[slice_index]), source.rows.depth(slice_index)
    return brought_up(scene, of, lane, depth, height)


def centered(scene: Scene) -> Scene:
    """Center the selection; if it is centered already, fit it to the screen."""
    if scene.selected < 0:
        return scene
    source, view = scene.source, scene.view
    start, length = source.start(scene.selected), int(source.trace.duration[scene.selected])
    there = look(scene, viewport.center(view, start + length / 2))
    if abs(there.view.start - view.start) >= view.cell:
        return there
    return look(scene, viewport.fit(start, start + max(length, 10), view.width, margin=0.02))


def gap_shown(scene: Scene, of: int, device: int, index: int, height: int) -> Scene:
    """Bring a gap of a source into view with the smallest move; zoom if it would be too small or too wide."""
    source = scene.sources[of]
    idle = source.gaps.get(device)
    if idle is None or not 0 <= index < len(idle.start):
        return scene
    start, end = int(idle.start[index]) + source.offset, int(idle.end[index]) + source.offset
    view = scene.view
    if not 4 * view.cell <= end - start <= view.span_ns:
        air = 2 * (end - start)
        fitted = viewport.fit(start - air, end + air, view.width)
        scene = look(scene, _around(scene, fitted, (start + end) / 2))
    else:
        moved = viewport.reveal(view, start, end)
        if moved != view:
            scene = look(scene, moved)
    lanes = source.trace.lanes
    if device < 0:
        return brought_up(scene, of, ~device, 0, height)
    lane = next((i for i, one in enumerate(lanes) if one.device == device and one.kind == "stream"), None)
    return scene if lane is None else brought_up(scene, of, lane, 0, height)


def is_jump(before: Viewport, after: Viewport) -> bool:
    """Whether a move went far enough to be worth going back from."""
    return before.scale != after.scale or abs(after.start - before.start) > before.span_ns / 2


def stepped(scene: Scene, direction: str) -> Event | None:
    """The event that an arrow key selects: "next", "previous", "up" or "down"."""
    i = scene.selected
    if i < 0:
        return navigate.opening(scene)
    if direction in ("next", "previous"):
        found = navigate.neighbor(scene.source.rows, i, 1 if direction == "next" else -1)
        return None if found is None else Event(scene.active, found)
    return (navigate.above if direction == "up" else navigate.below)(scene, i)


def chosen(scene: Scene, slice_index: int, of: int | None = None) -> Scene:
    """Select a slice (-1: none) of a source (None: the active one), with its flows and its partner in another
    source. Events of the same name are highlighted in all sources."""
    of = scene.active if of is None else of
    trace = scene.sources[of].trace
    same = int(trace.name[slice_index]) if slice_index >= 0 else -1
    flows = navigate.linked(trace, slice_index) if slice_index >= 0 else ()
    links = scene.sources[of].links
    partner = int(links.partner[slice_index]) if links is not None and slice_index >= 0 else -1
    sources = tuple(
        replace(
            source,
            same=same if n == of or same < 0 else source.index_of(trace.names[same]),
            partner=max(partner, -1) if links is not None and n == links.other else -1,
        )
        for n, source in enumerate(scene.sources)
    )
    return replace(scene, sources=sources, active=of, selected=slice_index, flows=flows, instant=None)
