"""What lies below the bars of a line: the paper or a selected range; where a device is idle, dark red, or a
texture (see `gap_cells`)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tracetui.timeline.paint import Colors
from tracetui.timeline.scene import Local, Source
from tracetui.timeline.track_layout import Line, Of
from tracetui.trace.intervals import EMPTY, Intervals, all_of
from tracetui.trace.model import I64, Trace
from tracetui.trace.unknown import idle_known
from tracetui.trace.unrecorded_time import idle_unknown

BLUR = 16
"""A cell is idle if less than 1/BLUR of it would be wrongly called so."""


def device_of(trace: Trace, line: Line) -> int:
    """The device whose idle time a line shows, or -1."""
    if line.of is Of.DEVICE:
        return line.ref
    if line.of is Of.LANE and line.depth == 0:
        lane = trace.lanes[line.ref]
        return lane.device if lane.kind == "stream" else -1
    return -1


def busy_or_unknown(source: Source, device: int) -> Intervals:
    """When a device was busy, or may have been: what lies between is idle time."""
    busy, unknown = source.devices.get(device, EMPTY), idle_unknown(source.trace).get(device, EMPTY)
    if not len(unknown) or not len(busy):
        return busy
    key = "busy or unknown", device
    if key not in source.kept:
        source.kept[key] = all_of([busy, unknown])
    found: Intervals = source.kept[key]
    return found


class Ground:
    """The ground of a source's lines in one picture."""

    def __init__(self, local: Local, papers: Colors) -> None:
        """`papers`: the background of every column, shape (width,)."""
        self.papers, self._local = papers, local
        self._idle: dict[int, I64] = {}
        theme = local.theme
        self._red = np.where(papers == theme.band, theme.idle_lit, theme.idle).astype(np.int16)

    def idle(self, device: int) -> I64:
        """How long a device is idle in each cell between its first start and its last end, ns. Shape
        (width,)."""
        found = self._idle.get(device)
        if found is None:
            found = busy_or_unknown(self._local.source, device).idle(self._local.view.borders())
            self._idle[device] = found
        return found

    def below(self, line: Line, busy: I64) -> Colors:
        """The ground of a line that is busy for so long in each cell, ns. Both of shape (width,)."""
        if not self._local.theme.grounded:
            return self.papers
        return np.where(self.is_red(line, busy), self._red, self.papers)

    def is_red(self, line: Line, busy: I64) -> npt.NDArray[np.bool_]:
        """The cells of such a line in which nothing else runs on its device, which is idle for the rest of
        them. Shape (width,)."""
        trace = self._local.source.trace
        device = device_of(trace, line)
        if device < 0 or not idle_known(trace):
            return np.zeros(len(busy), dtype=np.bool_)
        idle, cell = self.idle(device), self._local.view.cell
        return (idle > 0) & (BLUR * (cell - busy - idle) < cell)
