"""`python -m tracetui.tui.timeline TRACE [THEME]`: the timeline alone, to look at while working on it."""

from __future__ import annotations

import sys
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType

from tracetui.timeline.busy import busy_of
from tracetui.timeline.themes import THEMES
from tracetui.trace import load
from tracetui.trace.model import Trace
from tracetui.tui.timeline import Gaps, SelectionBar, TimelineView


class Demo(App[None]):
    """A trace's timeline and the selected event's line."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(key, action)
        for key, action in (
            ("w", "zoom(1.4)"),
            ("s", "zoom(0.714)"),
            ("a", "pan(-0.1)"),
            ("d", "pan(0.1)"),
            ("left", "move('previous')"),
            ("right", "move('next')"),
            ("up", "move('up')"),
            ("down", "move('down')"),
            ("f", "centre"),
            ("0", "fit"),
            ("z", "fold"),
            ("q", "quit"),
        )
    ]

    def __init__(self, trace: Trace, theme: str = "") -> None:
        super().__init__()
        colours = THEMES.get(theme)
        if theme == "light":
            self.theme = "textual-light"
        gaps = [Gaps(d, b.end[:-1], b.start[1:]) for d, b in busy_of(trace).items() if d >= 0]
        self.view = TimelineView(trace, gaps=gaps, theme=colours)

    def compose(self) -> ComposeResult:
        yield self.view
        self.view.bar = SelectionBar()
        yield self.view.bar

    def action_zoom(self, factor: float) -> None:
        self.view.zoom(factor)

    def action_pan(self, fraction: float) -> None:
        self.view.pan(fraction)

    def action_move(self, direction: str) -> None:
        self.view.move(direction)

    def action_centre(self) -> None:
        self.view.centre()

    def action_fit(self) -> None:
        self.view.fit()

    def action_fold(self) -> None:
        self.view.toggle_fold()


if __name__ == "__main__":
    Demo(load(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "").run()
