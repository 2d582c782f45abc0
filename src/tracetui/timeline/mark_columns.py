"""The screen columns of the marks and of the last "go to" time, fast even for many marks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tracetui.timeline.scene import Scene

FAR = 1 << 62
"""Nanoseconds; no event lies further out, and differences fit into 64 bits."""


class Marked(NamedTuple):
    """A column with marks: the first one's label, and their number."""

    column: int
    label: str
    number: int


def marked_columns(scene: Scene) -> list[Marked]:
    """The visible columns with marks or the last "go to" time, from left to right."""
    kept = scene.sources[0].kept.get("marks")
    if kept is None or kept[0] is not scene.marks or kept[1] != scene.instant:
        marks = scene.flags
        times = np.array([max(1 - FAR, min(time, FAR - 1)) for time, _ in marks], dtype=np.int64)
        kept = scene.sources[0].kept["marks"] = scene.marks, scene.instant, marks, times
    marks, times = kept[2:]
    every = (times - scene.view.start_ns) // scene.view.cell
    inside = np.flatnonzero((every >= 0) & (every < scene.view.width))
    found = np.unique(every[inside], return_index=True, return_counts=True)
    columns, first, count = (part.tolist() for part in found)
    return [Marked(c, marks[inside[i]][1], n) for c, i, n in zip(columns, first, count, strict=True)]
