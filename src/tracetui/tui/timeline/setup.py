"""What the timeline prepares once: the busy intervals of the devices, colours and the theme."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from textual.app import App

from tracetui.timeline.busy import busy_of
from tracetui.timeline.palette import Palette
from tracetui.timeline.rows import Rows
from tracetui.timeline.scene import Idle, Source
from tracetui.timeline.series import Series, counters, launches, memory
from tracetui.timeline.themes import DARK, LIGHT, PLAIN, SIXTEEN, Theme
from tracetui.trace.model import Trace
from tracetui.tui.timeline.messages import Gaps


def theme_of(app: App[Any] | None) -> Theme:
    """The theme that suits an app: without colours, with 16, or by its light or dark theme."""
    if app is None:
        return DARK
    if app.no_color:
        return PLAIN
    if not app.is_headless and app.console.color_system in ("standard", "windows"):
        return SIXTEEN
    return DARK if app.current_theme.dark else LIGHT


def source_of(
    trace: Trace,
    theme: Theme,
    short: Callable[[int], str] | None,
    gaps: Sequence[Gaps] = (),
    offset: int = 0,
    title: str = "",
) -> Source:
    """A recording as the timeline draws it."""
    text = lru_cache(maxsize=None)(short or (lambda name: trace.names[name]))
    idle = gaps_of(gaps)
    return Source(trace, Rows(trace), Palette(trace, theme), text, busy_of(trace), offset, title, idle)


def gaps_of(gaps: Sequence[Gaps]) -> dict[int, Idle]:
    """Gaps by device."""
    return {one.device: Idle(one.start, one.end) for one in gaps}


def themed(source: Source, theme: Theme) -> Source:
    """The same with other colours."""
    if theme is source.palette.theme:
        return source
    return replace(source, palette=Palette(source.trace, theme))


def series_of(trace: Trace, stopped: Callable[[], bool]) -> Iterator[list[Series]]:
    """The values over time to draw, more each time; made in a thread, with a quarter of the time at most."""
    begun = time.monotonic()

    def going_on() -> bool:
        nonlocal begun
        time.sleep(min(1.0, 3 * (time.monotonic() - begun)))
        begun = time.monotonic()
        return not stopped()

    found: list[Series] = []
    for make in (counters, launches, lambda trace: memory(trace, going_on)):
        more = make(trace)
        if stopped():
            return
        if more:
            found = [*found, *more]
            yield found
