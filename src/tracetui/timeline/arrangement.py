"""How a person arranged the lanes, as plain data that can be kept for the next opening."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tracetui.timeline.layout import Layout, Of
from tracetui.trace.model import Trace


def _key(trace: Trace, layout: Layout, track: int) -> str:
    """What names a track in another opening of the same trace, or of one like it."""
    of, ref = Of(int(layout.of[track])), int(layout.ref[track])
    if of is Of.LANE:
        lane = trace.lanes[ref]
        return f"lane {trace.processes[lane.process].pid} {lane.tid} {lane.kind}"
    if of is Of.PROCESS:
        return f"process {trace.processes[ref].pid}"
    return f"{of.name.lower()} {ref}"


def arrangement(trace: Trace, layout: Layout) -> list[dict[str, Any]]:
    """The tracks in order: their key, the rows shown (None: all; 0: hidden), and whether they are pinned."""
    return [
        {
            "track": _key(trace, layout, track),
            "rows": int(layout.shown[track]) if layout.shown[track] != layout.rows[track] else None,
            "pinned": track in layout.pinned,
        }
        for track in range(len(layout))
    ]


def arranged(trace: Trace, layout: Layout, kept: Sequence[Mapping[str, Any]]) -> Layout:
    """A layout put into the order and folds of `kept`. What is not named there keeps its place at the end;
    what is named but not there is passed over."""
    at: dict[str, int] = {}
    for track in range(len(layout)):
        at.setdefault(_key(trace, layout, track), track)
    order: list[int] = []
    known: set[int] = set()
    shown = layout.shown.copy()
    pinned: set[int] = set()
    for one in kept:
        place = at.get(str(one.get("track")))
        if place is None or place in known:
            continue
        order.append(place)
        known.add(place)
        rows = one.get("rows")
        every = int(layout.rows[place])
        shown[place] = max(0, min(every, rows)) if isinstance(rows, int) else every
        if one.get("pinned"):
            pinned.add(place)
    order += [track for track in range(len(layout)) if track not in known]
    index = np.array(order, dtype=np.int64)
    return replace(
        layout,
        of=layout.of[index],
        ref=layout.ref[index],
        rows=layout.rows[index],
        shown=shown[index],
        pinned=tuple(i for i, track in enumerate(order) if track in pinned),
    )
