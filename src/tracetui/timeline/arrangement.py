"""The user's arrangement of the lanes as plain data that can be saved for the next time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tracetui.core.copying import replace
from tracetui.timeline.dock import COUNTERS, MEMORY_COUNTERS
from tracetui.timeline.scene import Scene, Source
from tracetui.timeline.series import Series
from tracetui.timeline.track_layout import Of, TrackLayout, fitted, lay_out
from tracetui.trace.memory import RECORD
from tracetui.trace.model import Trace

Kept = list[dict[str, Any]]
"""For each track in order: its key, the rows that the user chose ("all"; 0: hidden; None: as many as fit),
and whether it is pinned."""
SERIES = "counter "
"""Prefix of the keys of series."""


def keys(trace: Trace, layout: TrackLayout, series: Sequence[Series] = (), source: int = 0) -> list[str]:
    """A unique key for each track of a recording, stable between sessions and similar traces.

    Tracks of other recordings, and the recording's heading, have "".
    """
    found = [""] * len(layout)
    often: dict[str, int] = {}
    ofs, refs = layout.of.tolist(), layout.ref.tolist()
    own = (layout.source == source) & (layout.of != Of.RECORDING)
    # Equal keys are numbered in trace order, not in screen order.
    order = np.argsort(layout.ref, kind="stable")
    for track in order[own[order]].tolist():
        of, ref = ofs[track], refs[track]
        if of == Of.LANE:
            lane = trace.lanes[ref]
            key = f"lane {trace.processes[lane.process].pid} {lane.tid} {lane.kind}"
        elif of == Of.PROCESS:
            key = f"process {trace.processes[ref].pid}"
        elif of == Of.COUNTER:
            key = f"{SERIES}{series[ref].name if ref < len(series) else ref}"
        else:
            key = f"device {ref}"
        number = often[key] = often.get(key, 0) + 1
        found[track] = f"{key} ({number})" if number > 1 else key
    return found


def arrangement(trace: Trace, layout: TrackLayout, series: Sequence[Series] = (), source: int = 0) -> Kept:
    """The arrangement of a recording's tracks, as JSON-ready data for `arranged`."""
    pinned = set(layout.pinned)
    rows: list[int | str | None] = [None] * len(layout)
    for track in layout.chosen:
        shown = int(layout.shown[track])
        rows[track] = shown if shown < layout.rows[track] else "all"
    named = enumerate(keys(trace, layout, series, source))
    return [{"track": key, "rows": rows[i], "pinned": i in pinned} for i, key in named if key]


def arranged(
    trace: Trace,
    layout: TrackLayout,
    kept: Sequence[Mapping[str, Any]],
    series: Sequence[Series] = (),
    source: int = 0,
) -> TrackLayout:
    """A layout with the tracks of a recording in the order, folds and pins of `kept`.

    A lane missing in `kept` stays below the one that it was below, a counter goes to the end; unknown keys
    are ignored.
    """
    at = {key: track for track, key in enumerate(keys(trace, layout, series, source)) if key}
    own = sorted(at.values())
    order: list[int] = []
    shown = layout.shown.copy()
    pinned, chosen = set(layout.pinned).difference(own), set(layout.chosen).difference(own)
    for one in kept:
        track = at.pop(str(one.get("track")), None)
        if track is None:
            continue
        order.append(track)
        rows, every = one.get("rows"), int(layout.rows[track])
        if rows == "all" or isinstance(rows, int):
            shown[track] = every if rows == "all" else max(0, min(every, rows))
            chosen.add(track)
        if one.get("pinned"):
            pinned.add(track)
    new = set(at.values())
    pinned |= new.intersection(layout.pinned)
    chosen |= new.intersection(layout.chosen)
    mine = replace(layout, shown=shown, pinned=tuple(sorted(pinned)), chosen=frozenset(chosen))
    every_track = np.arange(len(layout))
    every_track[own] = _inserted(order, new, own, layout)
    return mine.ordered(every_track)


def _inserted(order: list[int], new: set[int], own: list[int], layout: TrackLayout) -> list[int]:
    """`order` with the tracks that it lacks inserted. `own`: all tracks from top to bottom."""
    after: dict[int, list[int]] = {}
    last: list[int] = []
    place = -1  # the track of `order` below which the next ones go
    for track in own:
        if track not in new:
            place = track
        elif layout.of[track] == Of.COUNTER:
            last.append(track)
        else:
            after.setdefault(place, []).append(track)
    found = after.get(-1, [])
    for track in order:
        found += [track, *after.get(track, ())]
    return found + last


def merged(now: Kept, before: Sequence[Mapping[str, Any]]) -> Kept:
    """The current arrangement, plus the saved entries of series that are not computed yet.

    Each of those goes below the track that it was saved below.
    """
    known = {str(one["track"]) for one in now}
    after: dict[str | None, Kept] = {}
    place: str | None = None
    for one in before:
        key = str(one.get("track"))
        if key in known:
            place = key
        elif key.startswith(SERIES):
            after.setdefault(place, []).append(dict(one))
    found = after.get(None, [])
    for entry in now:
        found += [entry, *after.get(entry["track"], ())]
    return found


def now(scene: Scene, of: int) -> Kept:
    """The arrangement of a source's lanes, with the saved entries of series that are not there yet."""
    source = scene.sources[of]
    return merged(arrangement(source.trace, scene.layout, source.series, of), source.left)


def opened(sources: Sequence[Source], height: int) -> TrackLayout:
    """The saved layout of the lanes, or else one that fits into `height` lines."""
    traces = [source.trace for source in sources]
    left = [(of, source) for of, source in enumerate(sources) if source.left]
    counters = COUNTERS + MEMORY_COUNTERS * any(RECORD in trace.names for trace in traces)
    counters = 0 if sources[0].letter else counters  # those that are compared have none
    layout = lay_out(traces, height, [source.rows.count for source in sources], counters)
    for of, source in left:
        layout = arranged(source.trace, layout, source.left, (), of)
    if left:
        layout = fitted(layout, height, counters)
    for of, source in enumerate(sources):
        layout = layout.with_counters(len(source.series), of, devices_of(source.series))
    for of, source in left:
        layout = arranged(source.trace, layout, source.left, source.series, of)
    return layout


def devices_of(series: Sequence[Series]) -> list[int]:
    """The device of each series, -1 for none."""
    return [one.device for one in series]


def with_series(scene: Scene, of: int, series: Sequence[Series]) -> TrackLayout:
    """A layout that the user arranged, with tracks for a source's series added: where they were left, or at
    the end."""
    source = scene.sources[of]
    layout = scene.layout.with_counters(len(series), of, devices_of(series))
    return arranged(source.trace, layout, now(scene, of), series, of) if source.left else layout
