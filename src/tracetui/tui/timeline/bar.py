"""The line about the selected event that is always in view."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.cells import cell_len
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from tracetui.analysis.calls.flow import place_of
from tracetui.core.cells import clauses
from tracetui.core.units import duration, tick
from tracetui.timeline.canvas import BOLD, Canvas, cut
from tracetui.timeline.themes import DARK, Theme
from tracetui.trace.model import Trace
from tracetui.tui.timeline.delta_strips import whole

Part = tuple[str, bool]
"""A text, and whether it is bright."""
LEAST_NAME = 24
"""Cells that the name keeps while other parts are dropped."""


class SelectionBar(Widget):
    """One line about the selected event (name, start, duration, self time, launch delay), or about the reason
    for the selected gap."""

    DEFAULT_CSS = "SelectionBar { height: 1; }"
    ALLOW_SELECT = False
    can_focus = False

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[Part] = []
        self._theme = DARK

    def show(self, parts: list[Part], theme: Theme) -> bool:
        """Show a line of plain text. False if nothing changed."""
        if parts == self._parts and theme is self._theme:
            return False
        self._parts, self._theme = parts, theme
        self.refresh()
        return True

    def render_lines(self, crop: Region) -> list[Strip]:
        width = self.size.width
        theme = self._theme
        canvas = Canvas.blank(width, 1, theme.dim, theme.frame)
        column = 1
        for text, bright in self._parts:
            text = cut(text, width - column - 1)
            canvas.put(0, column, text, theme.text if bright else theme.dim, None, BOLD if bright else 0)
            column += cell_len(text)
        if theme.ascii:
            canvas.to_ascii()
        strip: Strip = whole(canvas.runs(0), width)
        return [strip if crop.width == width else strip.crop(crop.x, crop.right)] * crop.height


def describe(
    trace: Trace,
    slice_index: int,
    width: int,
    short: Callable[[int], str],
    lane: str,
    *,
    offset: int = 0,
    letter: str = "",
    beside: Sequence[Part] = (),
    own: int | None = None,
) -> list[Part]:
    """The selected event's line, at most `width` cells. `lane`: what its lane is called; `offset`: ns from
    the trace's time to the axis's; `letter`: which of several recordings it is in; `beside`: its partner in
    another one; `own`: its self time in ns, None while that is not known.

    A kernel has its short name. If the line is too long, first the name is shortened; then the lane, the self
    time and the start are left out, in this order (and the launch, beside a partner); in the end the name is
    cut.
    """
    i = slice_index
    start, length = int(trace.start[i]), int(trace.duration[i])
    groups: dict[str, list[Part]] = {
        "at": [("  at ", False), (tick(start + offset, max(1, length // 1000)), False)],
        "for": [("  for ", False), (duration(length, 4), True)],
    }
    if beside:
        groups["beside"] = list(beside)
    if own is not None and len(trace.children(i)):
        groups["self"] = [("  self ", False), (duration(own, 4), False)]
    if (place := place_of(trace, i)) and place.number > 1:
        groups["launch"] = [
            ("  number ", False),
            (f"{place.number:,}", True),
            (f" of a launch of {place.of:,}", False),
        ]
    elif place:
        delay = duration(start - int(trace.start[int(trace.launch[i])]))
        groups["launch"] = [("  launched ", False), (delay, True), (" before", False)]
    groups["lane"] = [(f"  {lane}", False)]

    before: list[Part] = [(f"{letter} ", False)] if letter else []
    head = sum(cell_len(text) for text, _ in before)

    def room() -> int:
        return width - 2 - head - sum(cell_len(text) for parts in groups.values() for text, _ in parts)

    brief = short(int(trace.name[i]))
    wanted = min(cell_len(brief), LEAST_NAME)
    for way in ("lane", "self", "at", *(("launch",) if beside else ())):
        if room() < wanted:
            groups.pop(way, None)
    # A kernel's full name is in the details; here it is called as in its bar and in the tables.
    device = trace.lanes[int(trace.lane[i])].device >= 0
    name = trace.name_of(i)
    if device or cell_len(name) > room():
        name = brief
    return [
        *before,
        (cut(name, max(1, room())), True),
        *(part for parts in groups.values() for part in parts),
    ]


def describe_gap(told: Sequence[str], width: int) -> list[Part]:
    """The line about a gap, at most `width` cells: its length, its cause, and as many of the other parts as
    fit."""
    parts, room = [(told[0], True)], width - 2 - cell_len(told[0])
    for n, text in enumerate(told[1:]):
        if cell_len(text) + 2 > room and n:
            continue
        text = clauses(text, max(0, room - 2))
        parts.append((f"  {text}", n == 0))
        room -= cell_len(text) + 2
    return parts
