"""How a person arranged the lanes, as plain data that can be kept for the next opening."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tracetui.timeline.layout import Layout, Of
from tracetui.timeline.series import Series
from tracetui.trace.model import Trace

Kept = list[dict[str, Any]]
"""For each track in order: its key, the rows that a person wants of it ("all"; 0: hidden; None: as many as
fit), and whether it is pinned."""
SERIES = "counter "
"""How the keys of series begin."""


def keys(trace: Trace, layout: Layout, series: Sequence[Series] = ()) -> list[str]:
    """What names each track in another opening of the same trace, or of one like it. No two are equal."""
    found = [""] * len(layout)
    often: dict[str, int] = {}
    ofs, refs = layout.of.tolist(), layout.ref.tolist()
    # Equal ones are numbered in the trace's order, not in that of the screen.
    for track in np.argsort(layout.ref, kind="stable").tolist():
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


def arrangement(trace: Trace, layout: Layout, series: Sequence[Series] = ()) -> Kept:
    """How the tracks are arranged, as JSON-ready data for `arranged`."""
    pinned = set(layout.pinned)
    rows: list[int | str | None] = [None] * len(layout)
    for track in layout.chosen:
        shown = int(layout.shown[track])
        rows[track] = shown if shown < layout.rows[track] else "all"
    named = enumerate(keys(trace, layout, series))
    return [{"track": key, "rows": rows[i], "pinned": i in pinned} for i, key in named]


def arranged(
    trace: Trace, layout: Layout, kept: Sequence[Mapping[str, Any]], series: Sequence[Series] = ()
) -> Layout:
    """A layout put into the order, folds and pins of `kept`.

    A lane that is not named there stays below the one that it stood below, a counter at the end; what is
    named but not there is passed over.
    """
    at = {key: track for track, key in enumerate(keys(trace, layout, series))}
    order: list[int] = []
    shown = layout.shown.copy()
    pinned: set[int] = set()
    chosen: set[int] = set()
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
    return mine.ordered(np.array(_inserted(order, new, layout), dtype=np.int64))


def _inserted(order: list[int], new: set[int], layout: Layout) -> list[int]:
    """The order with the tracks that it lacks."""
    after: dict[int, list[int]] = {}
    last: list[int] = []
    place = -1  # the track of the order below which the next ones come
    for track in range(len(layout)):
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
    """What is arranged now, with what was kept before of series that have not been worked out yet.

    Each of those comes below the track that it was kept below.
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
