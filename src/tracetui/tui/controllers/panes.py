"""Keys that open, size and sort the panes, and the selection that they share with the timeline."""

from __future__ import annotations

from textual.timer import Timer

from tracetui.tui.controllers.base import TracePart
from tracetui.tui.panes.area import PaneTabs
from tracetui.tui.panes.base import Jump, ShowSpan
from tracetui.tui.panes.scoped import ScopedPane
from tracetui.tui.timeline import SelectionChanged

IDLE = 0.08
"""Seconds that a selection must last before a pane follows it that has to read for it."""

WIDE = 120
"""Columns from which panes may stand beside the timeline."""


class Paning(TracePart):
    """Panes."""

    _follow: Timer | None = None
    _aside = False
    """Whether panes are to stand beside the timeline, where there is room for it."""

    # The selection, shared

    def on_selection_changed(self, message: SelectionChanged) -> None:
        message.stop()
        if self._follow is not None:
            self._follow.stop()
            self._follow = None
        pane = self.area.open
        if pane is not None and pane.eager:
            pane.follow(self.timeline.selected)
        elif pane is not None:
            self._follow = self.set_timer(IDLE, self._panes_follow)

    def _panes_follow(self) -> None:
        self._follow = None
        pane = self.area.open
        if pane is not None:
            pane.follow(self.timeline.selected)

    def on_jump(self, message: Jump) -> None:
        message.stop()
        before = self.timeline.viewport
        if message.show is not None:
            self.timeline.select(message.event, reveal=False)
            self.timeline.show(*message.show)
            self.say(message.said)
        elif message.event >= 0:
            self.jump(message.event, message.said)
        else:
            self.say(message.said)
        self.led_from(before)

    def on_show_span(self, message: ShowSpan) -> None:
        message.stop()
        before = self.timeline.viewport
        self.timeline.show(message.start, message.end)
        self.led_from(before)
        self.say(message.said)

    # Opening and closing

    def action_pane(self, key: str) -> None:
        if self.area.tabs.open == key and self.area.open is not None:
            self.area.show_pane(None)
            self.timeline.focus()
            return
        pane = self.area.show_pane(key)
        if pane is not None:
            if isinstance(pane, ScopedPane):
                pane.set_earlier(self.held)
            pane.follow(self.timeline.selected)
            pane.focus()

    def on_pane_tabs_picked(self, message: PaneTabs.Picked) -> None:
        message.stop()
        self.action_pane(message.pane)

    def action_focus_other(self) -> None:
        pane = self.area.open
        if self.focused is self.timeline and pane is not None:
            pane.focus()
        else:
            self.timeline.focus()

    # Size and place

    def action_pane_size(self, lines: int) -> None:
        if self.area.open is None:
            self.say("no pane is open: 1 to 5 open one")
        else:
            self.area.grow(lines)

    def action_pane_maximise(self) -> None:
        if self.area.open is None:
            self.say("no pane is open: 1 to 5 open one")
        else:
            picture = self.query_one("#picture")
            picture.display = not picture.display
            self.area.usual_size()
            self.area.set_class(not picture.display, "maximised")
            if picture.display:
                self.timeline.focus()
            else:
                self.area.open.focus()

    def action_pane_side(self) -> None:
        if self.size.width < WIDE:
            self.say(f"panes stand beside the timeline from {WIDE} columns on")
        elif self.area.open is None:
            self.say("no pane is open: 1 to 5 open one")
        else:
            self._aside = not self._aside
            self._set_aside()

    def on_resize(self) -> None:
        self._set_aside()

    def _set_aside(self) -> None:
        aside, body = self._aside and self.size.width >= WIDE, self.query_one("#body")
        if aside != body.has_class("side"):
            self.area.usual_size()
            body.set_class(aside, "side")

    # Order

    def action_sort(self, step: int) -> None:
        pane = self.area.open
        if pane is None:
            self.say("no pane is open: 1 to 5 open one")
        elif pane.table is None or all(column.values is None for column in pane.table.columns):
            self.say(f"{pane.id} have no column to sort by")
        elif step:
            pane.sort_next(step)
        else:
            pane.reverse()

    def action_group(self) -> None:
        from tracetui.tui.panes.averages import AveragesPane

        pane = self.area.open
        if isinstance(pane, AveragesPane):
            self.say(f"averages by {pane.next_group()}")
        else:
            self.say("open the averages first: 2")
