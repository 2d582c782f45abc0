"""What the timeline needs first: a theme, and the series of values to draw."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from textual.app import App

from tracetui.copying import replace
from tracetui.timeline.palette import Palette
from tracetui.timeline.scene import Source
from tracetui.timeline.series import Series, counters, launches, memory
from tracetui.timeline.themes import DARK, LIGHT, PLAIN, SIXTEEN, Theme
from tracetui.trace.model import Trace


def theme_of(app: App[Any] | None) -> Theme:
    """The theme for an app: without colors, with 16, or light or dark like the app's own."""
    if app is None:
        return DARK
    if app.no_color:
        return PLAIN
    if not app.is_headless and app.console.color_system in ("standard", "windows"):
        return SIXTEEN
    return DARK if app.current_theme.dark else LIGHT


def themed(source: Source, theme: Theme) -> Source:
    """The source with another theme."""
    if theme is source.palette.theme:
        return source
    return replace(source, palette=Palette(source.trace, theme))


def series_of(trace: Trace, stopped: Callable[[], bool]) -> Iterator[list[Series]]:
    """The series to draw, more each time; runs in a thread, and uses at most a quarter of the time."""
    begun = time.monotonic()

    def keep_going() -> bool:
        nonlocal begun
        time.sleep(min(1.0, 3 * (time.monotonic() - begun)))
        begun = time.monotonic()
        return not stopped()

    found: list[Series] = []
    for make in (counters, launches, lambda trace: memory(trace, keep_going)):
        more = make(trace)
        if stopped():
            return
        if more:
            found = [*found, *more]
            yield found
