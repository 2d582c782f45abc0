"""What the timeline prepares once: the busy intervals of the devices, colours and the theme."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from textual.app import App

from tracetui.timeline.palette import Palette
from tracetui.timeline.scene import Source
from tracetui.timeline.series import Series, counters, launches, memory
from tracetui.timeline.themes import DARK, LIGHT, PLAIN, SIXTEEN, Theme
from tracetui.trace.model import Trace


def theme_of(app: App[Any] | None) -> Theme:
    """The theme that suits an app: without colours, with 16, or by its light or dark theme."""
    if app is None:
        return DARK
    if app.no_color:
        return PLAIN
    if not app.is_headless and app.console.color_system in ("standard", "windows"):
        return SIXTEEN
    return DARK if app.current_theme.dark else LIGHT


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
