"""The ruler: ticks at round times, with labels as short as possible."""

from __future__ import annotations

from typing import NamedTuple

from tracetui.timeline.viewport import Viewport
from tracetui.units import tick

ROOM = 5
"""Cells between a label and the next tick, including the tick."""


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
