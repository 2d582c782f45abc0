"""The ruler: ticks at round times with short labels, the selected range's length, and the labels of marks.

They share one line. Anything that would touch something more important is left out: the range comes first,
then the marks, then the ticks.
"""

from __future__ import annotations

from typing import NamedTuple

from rich.cells import cell_len

from tracetui.core.units import as_typed, duration, tick
from tracetui.timeline.canvas import BOLD, Canvas, cut
from tracetui.timeline.mark_columns import Marked, marked_columns
from tracetui.timeline.scene import EDGE, Scene
from tracetui.timeline.viewport import Viewport

ROOM = 5
"""Cells between a label and the next tick, including the tick."""
LABEL = 16
"""Most cells of a mark's label."""
CLOSE = 3
"""Marks closer than this many cells share a label: there is no room for two."""


class Tick(NamedTuple):
    column: int
    time_ns: int
    label: str


def step_of(view: Viewport, cells: int) -> int:
    """The smallest 1, 2 or 5 times a power of ten (ns) that is at least `cells` wide."""
    least = max(1, cells * view.cell)
    power = 1
    while power * 10 <= least:
        power *= 10
    return next(power * m for m in (1, 2, 5, 10) if power * m >= least)


def ticks(view: Viewport) -> tuple[int | None, list[Tick]]:
    """The ticks on the screen, and the time that their labels count from (None: the trace's zero).

    Deep in a trace all labels would begin with the same digits, so they count from a round time before the
    screen, which is shown separately.
    """
    step = step_of(view, 10)
    longest = len(tick(max(abs(view.start_ns), abs(view.end_ns)), step)) + ROOM
    base = None
    if longest > 12 and view.start_ns > 0:
        unit = step
        while unit < 10 * view.span_ns:
            unit *= 10
        base = view.start_ns // unit * unit
        longest = 2 + ROOM + max(len(tick(t, step)) for t in (view.start_ns - base, view.end_ns - base))
        if base == 0:
            base = None
    step = step_of(view, longest)
    origin = base or 0
    time = -(-view.start_ns // step) * step
    found = []
    while time < view.end_ns:
        text = ("+" if base is not None else "") + _label(time - origin, step)
        found.append(Tick(view.column(time), time, text))
        time += step
    return base, found


def _label(time_ns: int, step: int) -> str:
    return "0" if time_ns == 0 else tick(time_ns, step)


class Free:
    """Keeps track of the free cells of the line."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.taken: list[tuple[int, int]] = []

    def take(self, first: int, end: int) -> bool:
        """Take cells `first` to `end`; False if they are off the line or touch taken ones."""
        if first < 0 or end > self.width or any(first <= e and s <= end for s, e in self.taken):
            return False
        self.taken.append((first, end))
        return True

    def room(self, first: int, most: int) -> int:
        """How many cells (at most `most`) can be taken from `first` on."""
        ends = [s - 1 for s, e in self.taken if e >= first]
        return max(0, min(first + most, self.width, *ends) - first)


def paint_ruler(scene: Scene, canvas: Canvas) -> None:
    """Paint the line below the overview."""
    theme = scene.theme
    canvas.ink[1], canvas.paper[1] = theme.dim, theme.frame
    line = canvas.part(1, 2, scene.labels, canvas.width - EDGE)
    free = Free(line.width)
    _put_range(scene, line, free)
    _put_marks(scene, line, free)
    base, found = ticks(scene.view)
    sign = "|" if theme.ascii else "╷"
    for column, _, label in found:
        if free.take(column, column + 1 + cell_len(label)):
            line.put(0, column + 1, label, ink=theme.text)
            line.put(0, column, sign, ink=theme.line)
        elif free.take(column, column + 1):
            line.put(0, column, sign, ink=theme.line)
    _put_cursor(scene, line)
    # Text on the range must be readable there, too.
    on_range = (line.paper[0] == theme.band) & (line.ink[0] == theme.text)
    line.ink[0, on_range] = scene.source.palette.text_on(line.paper[0, on_range])
    left = f" {as_typed(base)} +" if base is not None else f" {duration(scene.view.span_ns)}"
    canvas.put(1, 0, cut(left, scene.labels - 1), ink=theme.text if base is not None else theme.dim)


def _put_cursor(scene: Scene, line: Canvas) -> None:
    """Reverse the cell of the cursor, as on a command line: it takes no room from what stands there."""
    column = scene.view.column(scene.cursor)
    if 0 <= column < line.width:
        line.paper[0, column] = scene.theme.text
        line.ink[0, column] = scene.theme.frame


def _put_range(scene: Scene, line: Canvas, free: Free) -> None:
    """The length of the selected range, in the middle of its visible part."""
    if scene.band is None:
        return
    first, last = (scene.view.column(t) for t in scene.band)
    first, end = max(0, first), min(line.width, last + 1)
    line.paper[0, first : max(first, end)] = scene.theme.band
    text = f" {duration(scene.band[1] - scene.band[0])} "
    at = first + (end - first - len(text)) // 2
    if len(text) <= end - first and free.take(at + 1, at + len(text) - 1):
        line.put(0, at, text, ink=scene.theme.text, attributes=BOLD)


def _put_marks(scene: Scene, line: Canvas, free: Free) -> None:
    """The labels of marks, cut at the next mark; marks side by side show their number."""
    theme = scene.theme
    sign = "v" if theme.ascii else "▾"
    groups: list[Marked] = []
    for marked in marked_columns(scene):
        if groups and marked.column - groups[-1].column < CLOSE:
            groups[-1] = groups[-1]._replace(number=groups[-1].number + marked.number)
        else:
            groups.append(marked)
    for n, (column, label, number) in enumerate(groups):
        most = min([LABEL, *(after.column - column - 1 for after in groups[n + 1 : n + 2])])
        room = free.room(column, most)
        label = label if number == 1 else f"{number:,} marks"
        whole = sign + label
        edge = most == LABEL and room < min(LABEL, cell_len(whole))
        if not (edge and _put_left(line, free, column, label, sign, theme.mark)):
            text = cut(whole, room) if room > 2 else sign
            if free.take(column, column + cell_len(text)):
                line.put(0, column, text, ink=theme.mark, attributes=BOLD)


def _put_left(line: Canvas, free: Free, column: int, label: str, sign: str, ink: int) -> bool:
    """Put a mark's label on its left: near the right edge there is no room on the right."""
    text = cut(label, LABEL - 1) + sign
    first = column + 1 - cell_len(text)
    if not free.take(first, column + 1):
        return False
    line.put(0, first, text, ink=ink, attributes=BOLD)
    return True
