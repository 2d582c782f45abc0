"""Painting rows of slices: bars with names, borders to an eighth of a cell, crowded cells by busy share."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from tracetui.core.units import duration
from tracetui.timeline.canvas import BOLD, Canvas, code_points, cut
from tracetui.timeline.links import ALONE
from tracetui.timeline.raster import Raster, raster
from tracetui.timeline.rows import Row
from tracetui.timeline.scene import Local
from tracetui.timeline.track_layout import Line
from tracetui.trace.indices import namesakes
from tracetui.trace.model import I32, I64, Bool

FROM_LEFT = np.array([ord(c) for c in " ▏▎▍▌▋▊▉█"], dtype=np.uint32)
FROM_BELOW = np.array([ord(c) for c in " ▁▂▃▄▅▆▇█"], dtype=np.uint32)
ASCII_SHARES = np.array([ord(c) for c in " .,:;+*%#"], dtype=np.uint32)
HAIRLINE = ord("│")
ASCII_HAIRLINE = ord("|")
SEAM = ord("┊")
SHORTEST = 3
"""A bar of fewer cells has no name."""

Colors = npt.NDArray[np.int16]


def paint_rows(
    local: Local, lines: list[Line], below: Callable[[Line, I64], Colors]
) -> tuple[Canvas, Raster]:
    """The lines with slices of a source, without names.

    `below`: the ground of a line, from its busy time in each cell; see `Ground.below`.
    """
    rows = [local.source.rows.row(line.ref, line.depth) for line in lines]
    parts = [(line.part, line.parts) for line in lines] if any(line.parts > 1 for line in lines) else ()
    shares = raster(rows, local.view, parts)
    paper = np.array([below(line, busy) for line, busy in zip(lines, shares.busy, strict=True)])
    foot = np.array([[line.part == line.parts - 1] for line in lines])
    cells = Canvas.blank(local.view.width, len(lines), local.theme.text, local.theme.paper)
    cells.paper[:] = paper
    first = _colors(local, shares.first)
    _paint_shares(local, shares, rows, cells, first, paper, foot)
    return cells, shares


def _colors(local: Local, slices: I32) -> Colors:
    """The current colors of slices: by name, or as the selection, its namesakes, or search matches."""
    trace, theme = local.source.trace, local.theme
    if not len(trace):
        return np.zeros(slices.shape, dtype=np.int16)
    names = trace.name[slices]
    colors = local.source.palette.of(names)
    if local.source.same >= 0:
        colors = np.where(names == local.source.same, np.int16(theme.same), colors)
    if local.source.matches is not None:
        colors = np.where(local.source.matches[slices], np.int16(theme.match), colors)
    if local.selected >= 0:
        colors = np.where(slices == local.selected, np.int16(theme.selected), colors)
    return colors


def _paint_shares(
    local: Local, shares: Raster, rows: list[Row], cells: Canvas, first: Colors, paper: Colors, foot: Bool
) -> None:
    """`paper`: the ground of the cells. `foot`: which lines are the last of their row, shape (lines, 1)."""
    trace, view, theme = local.source.trace, local.view, local.theme
    if not len(trace):
        return
    from_left = ASCII_SHARES if theme.ascii else FROM_LEFT
    from_below = ASCII_SHARES if theme.ascii else FROM_BELOW
    eighths, count = shares.eighths, shares.count
    left = view.borders()[:-1]
    right = left + view.cell
    single, pair, crowd = count == 1, count == 2, count > 2
    full = shares.full

    # One slice: it fills the cell, or is on the side where it continues (or that it is nearer to).
    start = trace.start[shares.first]
    end = start + trace.duration[shares.first]
    after = end < right  # ends within the cell
    rightward = (start > left) & (~after | (start - left > right - end))
    partial = single & ~full
    at_left, at_right = partial & ~rightward, partial & rightward

    # Two slices with a gap between them: the longer part keeps its side and gets the share of both.
    if pair.any():
        later = trace.start[shares.last]
        last = _colors(local, shares.last)
        more = np.minimum(trace.duration[shares.last], right - later) > end - np.maximum(start, left)
        apart = pair & ~full
        at_right |= apart & more
        at_left |= apart & ~more
        first = np.where(apart & more, last, first)
        seam = pair & full
        where = np.clip((8 * (later - left) + view.cell // 2) // view.cell, 0, 8)
        cells.glyph[seam] = from_left[where[seam]]
        cells.ink[seam] = first[seam]
        cells.paper[seam] = last[seam]
        alike = seam & (first == last)
        cells.glyph[alike] = SEAM
        cells.ink[alike] = local.source.palette.text_on(first[alike])

    # Crowded: the share as height, in the color of the prevailing name.
    if crowd.any():
        names = shares.prevailing[crowd]
        mixed = _mixed(local, rows)[np.nonzero(crowd)[0]]
        named = _named_colors(local, np.maximum(names, 0))
        color = np.where(names >= 0, named, mixed)
        color = _lit(local, shares, rows, crowd, color)
        first = first.copy()
        first[crowd] = color
        low = crowd & ~full
        cells.glyph[low] = from_below[eighths[low]]
        cells.ink[low] = first[low]

    solid = full & ~pair
    cells.paper[solid] = first[solid]
    cells.ink[solid] = local.source.palette.text_on(first[solid])
    cells.glyph[at_left] = from_left[eighths[at_left]]
    cells.ink[at_left] = first[at_left]
    cells.glyph[at_right] = from_left[8 - eighths[at_right]]
    cells.ink[at_right] = paper[at_right]
    cells.paper[at_right] = first[at_right]

    # Busy for less than a sixteenth: a hairline, unless it is the rest of a bar next to it.
    trace_of_bar = single & ((8 * (end - start) >= view.cell) | (start < left)) & (left > view.start_ns)
    if pair.any():
        both = np.minimum(end - start, trace.duration[shares.last])
        trace_of_bar |= pair & (8 * both >= view.cell)
    rest = (count > 0) & (eighths == 0)
    cells.glyph[rest] = ord(" ")
    cells.paper[rest] = paper[rest]
    hair = rest & (shares.levels == 0) & ~trace_of_bar & foot
    cells.glyph[hair] = ASCII_HAIRLINE if theme.ascii else HAIRLINE
    cells.ink[hair] = first[hair]


def _mixed(local: Local, rows: list[Row]) -> Colors:
    """The color of each row's crowded cells in which no name prevails. Shape (rows,)."""
    lanes, theme = local.source.trace.lanes, local.theme
    return np.array([theme.many_device if lanes[r.lane].device >= 0 else theme.many for r in rows], np.int16)


def _named_colors(local: Local, names: I32) -> Colors:
    colors = local.source.palette.of(names)
    if local.source.same >= 0:
        colors = np.where(names == local.source.same, np.int16(local.theme.same), colors)
    return colors


def _lit(local: Local, shares: Raster, rows: list[Row], crowd: Bool, color: Colors) -> Colors:
    """Colors of crowded cells: the selection, matches and highlighted names win over the prevailing name."""
    theme = local.theme
    at_row, _ = np.nonzero(crowd)
    low, high = shares.first[crowd], shares.last[crowd]
    color = color.astype(np.int16)
    if local.source.matches is not None or local.source.same >= 0:
        for i in np.unique(at_row).tolist():
            here = at_row == i
            if local.source.same >= 0:
                alike = _alike(local, rows[i])
                _light(color, here & (color != theme.same), alike, low, high, theme.hint)
            if local.source.matches is not None:
                _light(color, here, _matching(local, rows[i], local.source.matches), low, high, theme.match)
    if local.selected >= 0:
        lane = int(local.source.trace.lane[local.selected])
        own = np.array([(r.lane, r.depth) == (lane, local.source.rows.depth(local.selected)) for r in rows])
        color[(low <= local.selected) & (local.selected <= high) & own[at_row]] = theme.selected
    return color


def _alike(local: Local, row: Row) -> I32:
    """The slices of a row with the highlighted name, cached until that changes."""
    key = ("alike", row.lane, row.depth)
    kept = local.source.kept.get(key)
    if kept is None or kept[0] != local.source.same:
        same, rows = local.source.same, local.source.rows
        # A row with a chain of frames is none of the trace's own.
        alike = None if len(rows.frames(row.lane)) else namesakes(rows.trace, row.lane, row.depth, same)
        kept = local.source.kept[key] = same, row.index[row.name == same] if alike is None else alike
    found: I32 = kept[1]
    return found


def _matching(local: Local, row: Row, matches: Bool) -> I32:
    """The slices of a row that match the search, cached until that changes."""
    key = ("matching", row.lane, row.depth)
    kept = local.source.kept.get(key)
    if kept is None or kept[0] is not matches:
        kept = local.source.kept[key] = (matches, row.index[matches[row.index]])
    found: I32 = kept[1]
    return found


def _light(color: Colors, here: Bool, hits: I32, low: I32, high: I32, value: int) -> None:
    found = np.searchsorted(hits, high[here], side="right") > np.searchsorted(hits, low[here])
    at = np.flatnonzero(here)[found]
    color[at] = value


def paint_names(local: Local, lines: list[Line], shares: Raster, cells: Canvas) -> None:
    """Write names into bars with enough room, starting at the bar's first visible cell, and before them the
    sign of what another recording has not; on the second line of a row, how long they take."""
    inner = (shares.count == 1) & shares.full
    if not inner.any():
        return
    before = np.zeros_like(inner)
    before[:, 1:] = inner[:, 1:] & inner[:, :-1] & (shares.first[:, 1:] == shares.first[:, :-1])
    after = np.zeros_like(inner)
    after[:, :-1] = before[:, 1:]
    begins = np.flatnonzero((inner & ~before).ravel())
    ends = np.flatnonzero((inner & ~after).ravel()) + 1
    slices = shares.first.ravel()[begins]
    alone = np.zeros(len(begins), dtype=np.bool_)
    if (links := local.source.links) is not None:
        alone = links.partner[slices] == ALONE
    wide = (ends - begins >= SHORTEST) | alone
    begins, ends, alone, slices = begins[wide], ends[wide], alone[wide], slices[wide]
    # A bar that touches another of the same color needs a seam, unless there is one already.
    column = begins % local.view.width
    left = np.maximum(begins - 1, 0)
    paper, glyph, full = cells.paper.ravel(), cells.glyph.ravel(), shares.full.ravel()
    seam = (column > 0) & full[left] & (paper[left] == paper[begins]) & (glyph[left] != SEAM)
    glyph[begins[seam]] = SEAM
    trace, attributes = local.source.trace, cells.attributes.ravel()
    part = np.array([line.part for line in lines])[begins // local.view.width]
    sign = [links.sign if links is not None and one else "" for one in alone.tolist()]
    bars = zip(
        begins.tolist(), ends.tolist(), part.tolist(), slices.tolist(), seam.tolist(), sign, strict=True
    )
    for begin, end, n, slice_index, offset, mark in bars:
        at = begin + offset
        text = mark + _bar_name(local, slice_index) if end - begin >= SHORTEST else mark
        text = cut(text, end - at) if n == 0 else ""
        if n == 1:
            text = _took(int(trace.duration[slice_index]))
            text = text if len(text) <= end - at else ""
        codes = code_points(text)
        glyph[at : at + len(codes)] = codes
        attributes[at : at + len(codes)] = 0
    if local.selected >= 0:
        cells.attributes[(shares.first == local.selected) & inner] |= BOLD


_took = lru_cache(maxsize=4096)(duration)


def _bar_name(local: Local, slice_index: int) -> str:
    """What is written into a slice's bar: its name, or what it stands for."""
    trace, short = local.source.trace, local.source.short
    name = short(int(trace.name[slice_index]))
    frames = local.source.rows.frames(int(trace.lane[slice_index]))
    if not len(frames) or slice_index != frames[-1]:
        return name
    if local.chosen in frames:
        at = int(np.searchsorted(frames, local.chosen))
        return f"{short(int(trace.name[local.chosen]))} ({at + 1} of {len(frames)} Python frames)"
    return f"{len(frames)} Python frames: {short(int(trace.name[frames[0]]))} … {name}"
