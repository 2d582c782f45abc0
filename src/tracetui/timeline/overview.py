"""All recordings in one line: busy share, matches, and the part on the screen."""

from __future__ import annotations

import numpy as np

from tracetui.core.units import share
from tracetui.timeline.busy import IN_OPS, overall
from tracetui.timeline.canvas import BOLD, INK, PAPER, Canvas, cut
from tracetui.timeline.ground import BLUR, busy_or_unknown
from tracetui.timeline.paint import ASCII_SHARES, FROM_BELOW
from tracetui.timeline.scene import EDGE, Scene, Source
from tracetui.trace.intervals import Intervals
from tracetui.trace.model import I64, Bool
from tracetui.trace.unknown import idle_known


def overview_borders(scene: Scene, width: int) -> I64:
    """The overview's cell borders: the whole trace over `width` cells. Shape (width + 1,), int64."""
    low, high = scene.span
    return np.array([low + (high - low) * step // max(1, width) for step in range(width + 1)], dtype=np.int64)


def _used(scene: Scene) -> list[tuple[Intervals, Intervals, int]]:
    """When each device (without devices: the threads) was busy, when it was or may have been, and its
    source's offset."""
    every = [
        (device, one, busy_or_unknown(s, device), s.offset)
        for s in scene.sources
        for device, one in s.devices.items()
    ]
    return [one[1:] for one in every if one[0] >= 0] or [one[1:] for one in every]


def _own(source: Source) -> list[Intervals]:
    """When each device (without devices: the threads) of one source was busy."""
    return [one for device, one in source.devices.items() if device >= 0] or list(source.devices.values())


def _cells(scene: Scene, borders: I64) -> tuple[I64, Bool]:
    """(0..8 for each cell: 0 only if nothing ran, 8 only if less than an eighth was idle; whether the devices
    are idle in what is left)."""
    kept = scene.sources[0].kept
    key = scene.span, len(borders), tuple(source.offset for source in scene.sources)
    last, found = kept.get("overview", (None, None))
    if found is None or last != key:
        used = _used(scene)
        low, high = borders[:-1], borders[1:]
        busy = idle = np.zeros(len(low), dtype=np.int64)
        for one, known, at in used:
            busy = busy + one.overlap(low - at, high - at)
            idle = idle + known.idle(borders - at)
        whole = np.maximum(1, (high - low) * max(1, len(used)))
        eighths = np.clip(-(-8 * busy // whole), 0, 8)
        eighths = np.where(8 * busy <= 7 * whole, np.minimum(eighths, 7), eighths)
        on_device = any(device >= 0 for source in scene.sources for device in source.devices)
        found = eighths, (idle > 0) & (BLUR * (whole - busy - idle) < whole) & on_device
        kept["overview"] = key, found
    eighths, idling = found
    return eighths, idling


def _point(scene: Scene, canvas: Canvas, cell: int, color: int, plain: int) -> None:
    """Color a cell of the overview, with a stroke if it is empty. Without colors, reverse it and show
    `plain`."""
    x = scene.labels + cell
    if scene.labels <= x < canvas.width - EDGE:
        canvas.ink[0, x] = color
        if scene.theme.plain:
            canvas.ink[0, x], canvas.paper[0, x] = PAPER, INK
            canvas.glyph[0, x] = plain
        elif canvas.glyph[0, x] == ord(" "):
            canvas.glyph[0, x] = ord("|" if scene.theme.ascii else "╵")


def paint_overview(scene: Scene, canvas: Canvas) -> None:
    """Paint the first line of a canvas."""
    theme, width = scene.theme, canvas.width - scene.labels - EDGE
    canvas.ink[0], canvas.paper[0] = theme.dim, theme.frame
    if width <= 0:
        return
    borders = overview_borders(scene, width)
    eighths, idle = _cells(scene, borders)
    cells = slice(scene.labels, scene.labels + width)
    canvas.glyph[0, cells] = (ASCII_SHARES if theme.ascii else FROM_BELOW)[eighths]
    canvas.ink[0, cells] = theme.busy
    low, high = scene.span
    first = (scene.view.start_ns - low) * width // (high - low)
    last = -(-(scene.view.end_ns - low) * width // max(1, high - low))
    first, last = max(0, min(width - 1, first)), max(1, min(width, max(first + 1, last)))
    window = slice(scene.labels + first, scene.labels + last)
    canvas.paper[0, window] = theme.window
    known = all(idle_known(source.trace) for source in scene.sources)
    if theme.grounded and known:
        paper = canvas.paper[0, cells]
        lit = (paper == theme.window) & (last - first < width)
        paper[idle] = np.where(lit[idle], theme.idle_lit, theme.idle)
    for source in scene.sources:
        if source.matches is not None:
            at = source.trace.start[source.matches]
            hits = np.unique(np.searchsorted(borders - source.offset, at, side="right") - 1)
            for hit in hits.tolist():
                _point(scene, canvas, hit, theme.match, ord(" "))
    if scene.selected >= 0:
        cell = int(np.searchsorted(borders, scene.source.start(scene.selected), side="right")) - 1
        _point(scene, canvas, cell, theme.selected, ord("v" if theme.ascii else "▼"))
    if theme.plain:
        out = int(last - first < 3)  # put the brackets around a narrow window
        canvas.put(0, scene.labels + max(0, first - out), "[")
        canvas.put(0, scene.labels + min(width, last + out) - 1, "]")
    if all(source.letter for source in scene.sources):
        each = " " + " ".join(f"{s.letter} {share(overall(_own(s)))}" for s in scene.sources)
        more = next((m for m in (" busy overall", " overall", " busy") if len(each + m) < scene.labels), "")
        canvas.put(0, 0, cut(each + more, scene.labels - 1), theme.text, None, BOLD)
        return
    if not any(source.devices for source in scene.sources):
        return  # of a file that is still being read
    if not known:
        canvas.put(0, 0, cut(" file cut off", scene.labels - 1), theme.text, None, BOLD)
        return
    used = share(overall([one for one, *_ in _used(scene)]))
    devices = [device for source in scene.sources for device in source.devices]
    what = "GPU" if any(device >= 0 for device in devices) else "CPU"
    how = " in ops" if what == "CPU" and IN_OPS in devices else " busy"
    # Of the whole recording: the verdict's share is of the steps, the tables' of what is in view.
    texts = f"{what} {used}{how} overall", f"{what} {used} overall", f"{used} overall", f"{what} {used}"
    text = next((text for text in texts if len(text) + 1 < scene.labels), texts[-1])
    canvas.put(0, 0, cut(f" {text}", scene.labels - 1), theme.text, None, BOLD)
