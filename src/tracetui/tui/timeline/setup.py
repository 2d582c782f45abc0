"""What the timeline prepares once: the busy intervals of the devices, colours and the theme."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from textual.app import App

from tracetui.timeline.palette import DARK, LIGHT, PLAIN, SIXTEEN, Palette, Theme
from tracetui.timeline.rows import Rows
from tracetui.timeline.scene import Fixed, merged
from tracetui.trace.model import DEVICE_WORK, I64, Trace


def theme_of(app: App[Any] | None) -> Theme:
    """The theme that suits an app: without colours, with 16, or by its light or dark theme."""
    if app is None:
        return DARK
    if app.no_color:
        return PLAIN
    if app.console.color_system in ("standard", "windows"):
        return SIXTEEN
    return DARK if app.current_theme.dark else LIGHT


def fixed_of(trace: Trace, theme: Theme, short: Callable[[int], str] | None) -> Fixed:
    """Everything about a trace that stays while one moves about."""
    names = trace.names

    def whole(name: int) -> str:
        return names[name]

    cached: dict[int, str] = {}
    given = short or whole

    def once(name: int) -> str:
        text = cached.get(name)
        if text is None:
            text = cached[name] = given(name)
        return text

    pieces = busy_pieces(trace)
    return Fixed(trace, Rows(trace), Palette(trace, theme), once, pieces, busy_part(pieces))


def themed(fixed: Fixed, theme: Theme) -> Fixed:
    """The same with other colours."""
    if theme is fixed.theme:
        return fixed
    return replace(fixed, palette=Palette(fixed.trace, theme))


def busy_pieces(trace: Trace) -> dict[int, tuple[I64, I64]]:
    """When each device was busy; where there is none, when any thread was (key -1)."""
    found: dict[int, tuple[I64, I64]] = {}
    device = np.array([lane.device for lane in trace.lanes], dtype=np.int32)
    work = trace.is_kind(*DEVICE_WORK) & ~trace.odd
    if len(trace):
        on = device[trace.lane]
        for i in np.unique(on[work]).tolist():
            mine = work & (on == i)
            start = trace.start[mine]
            found[i] = merged(start, start + trace.duration[mine])
    if not any(i >= 0 for i in found):
        top = (trace.depth == 0) & ~trace.odd
        found = {-1: merged(trace.start[top], trace.start[top] + trace.duration[top])}
    return found


def busy_part(pieces: Mapping[int, tuple[I64, I64]]) -> float:
    """Busy time over the time from first start to last end, over all devices; 0.0 where nothing ran."""
    used = [(start, end) for start, end in pieces.values() if len(start)]
    span = sum(int(end[-1] - start[0]) for start, end in used)
    return sum(int((end - start).sum()) for start, end in used) / span if span else 0.0
