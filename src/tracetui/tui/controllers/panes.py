"""Keys that open, size and sort the panes, and the code that keeps them in step with the selection."""

from __future__ import annotations

from textual.timer import Timer

from tracetui.analysis.steps.scope import step_table_of
from tracetui.timeline.scene import Event
from tracetui.tui.controllers.navigation import Navigation
from tracetui.tui.controllers.screen_context import Escape, Host
from tracetui.tui.panes import NUMBERS, PANES, keyed
from tracetui.tui.panes.base import Pane
from tracetui.tui.panes.scoped import ScopedPane
from tracetui.views.target import Target

IDLE = 0.08
"""Seconds from the last selection until a pane that has to read the file follows."""

WIDE = 120
"""Columns that the screen needs for panes beside the timeline."""

CLOSED = f"no pane is open: press 1 to {NUMBERS}"


class PaneKeys:
    """Open, size and sort panes, and let them follow the selection."""

    def __init__(self, host: Host, navigation: Navigation) -> None:
        self.host, self.navigation, self.navigator, self.area = host, navigation, host.navigator, host.area
        self._follow: Timer | None = None
        self._aside = False
        """Whether to put the panes beside the timeline, if there is room."""
        host.escapes += [
            Escape(lambda: self._filtered and self._filtered.has_focus, self._show_all_rows),
            Escape(lambda: not host.screen.query_one("#picture").display, self.action_pane_maximize),
        ]
        host.escapes.insert(0, Escape(lambda: self._filtered, self._show_all_rows))  # from the timeline: last

    @property
    def _filtered(self) -> Pane | None:
        """The open pane, if its table is filtered."""
        return self.area.open if self.area.open is not None and self.area.open.needle else None

    def _show_all_rows(self) -> None:
        if self.area.open is not None:
            self.area.open.set_filter("")

    # The selection

    def selection_changed(self) -> None:
        """Let the open pane follow: at once, or after a pause if it has to read the file."""
        if self._follow is not None:
            self._follow.stop()
            self._follow = None
        pane = self.area.open
        if pane is not None and pane.eager:
            pane.follow(self.navigator.selected)
        elif pane is not None:
            self._follow = self.host.after(IDLE, self._follow_now)

    def _follow_now(self) -> None:
        self._follow = None
        pane = self.area.open
        if pane is not None:
            pane.follow(self.navigator.selected)

    def follow(self, target: Target) -> None:
        """Go to what a line leads to, and say what that is."""
        before, said = self.navigator.view, target.said
        if target.difference is not None:
            said = self.host.session.comparing.show(*target.difference)
            self.host.jumped_from(before)
            self.went_to_difference(said)
            return
        if target.gap is not None:
            self.navigation.show(target.gap, target.of, said, target.example)
        elif target.event is not None and target.span is None:
            self.host.jump(target.event, said, target.of)
        elif target.span is not None:
            if target.event is not None:
                self.navigator.select(target.event, reveal=False)
            self.navigator.show(*self.navigator.scene.source.on_axis(target.span))  # selecting may move B
            self.host.say(said)
        elif target.pane or said:
            if target.pane:
                self.open(target.pane)
            self.host.say(said)
        self.host.jumped_from(before)

    def went_to_difference(self, said: str) -> None:
        """Show the current difference in its pane, and say which one it is."""
        from tracetui.tui.panes.compare import ComparePane

        pane, at = self.area.open, self.host.session.comparing.at
        self.host.say(said)
        if isinstance(pane, ComparePane) and at is not None:
            pane.show_difference(at)
        self.host.follow_at_once()

    def go_to(self, event: Event | None, said: str) -> None:
        """Go to an event of any recording, if there is one, and say something."""
        if event is not None:
            self.navigator.select(event.slice, of=event.source)
            self.host.follow_at_once()
        self.host.say(said)

    def why_this_step(self) -> bool:
        """Open the sheet about the step under the cursor. False if the pane of steps has not got the keys."""
        from tracetui.tui.panes.view import ViewPane

        pane = self.area.open
        if not isinstance(pane, ViewPane) or pane.key != "steps" or not pane.has_focus:
            return False
        step = pane.item
        if not isinstance(step, int):
            self.host.say("choose a step: this line is not one")
        elif len(step_table_of(pane.whole)) < 2:
            self.host.say("there is only one step: nothing to compare it with")
        else:
            from tracetui.tui.screens.explain import StepScreen

            sheet = StepScreen(pane.whole, step, self.navigator)
            self.host.screen.app.push_screen(sheet, self.host.jump_if)
        return True

    def action_partner(self) -> None:
        if not self.why_this_step():
            self.host.say(self.host.absent)

    # Opening and closing

    def action_pane(self, key: str) -> None:
        """Show a pane and give it the keys; close it if it already has them."""
        if all(key != spec.key for _, spec in self.area.tabs.specs):
            self.host.say(self.host.absent)
            return
        pane = self.area.open
        if self.area.tabs.open == key and pane is not None and pane.has_focus:
            self.area.show_pane(None)
            self.host.timeline.focus()
        else:
            self.open(key)

    def open(self, key: str) -> None:
        """Show a pane and give it the keys."""
        pane = self.area.show_pane(key)
        if pane is not None:
            if isinstance(pane, ScopedPane):
                pane.set_earlier(self.host.session.scopes.frozen)
            pane.follow(self.navigator.selected)
            pane.focus()

    def action_focus_other(self) -> None:
        pane = self.area.open
        if self.host.screen.focused is self.host.timeline and pane is not None:
            pane.focus()
        else:
            self.host.timeline.focus()

    # Size and place

    def action_pane_size(self, lines: int) -> None:
        if self.area.open is None:
            self.host.say(CLOSED)
        else:
            self.area.grow(lines)

    def action_pane_maximize(self) -> None:
        if self.area.open is None:
            self.host.say(CLOSED)
        else:
            picture = self.host.screen.query_one("#picture")
            picture.display = not picture.display
            self.area.usual_size()
            self.area.set_class(not picture.display, "maximized")
            if picture.display:
                self.host.timeline.focus()
            else:
                self.area.open.focus()

    def action_pane_side(self) -> None:
        if self.host.screen.size.width < WIDE:
            self.host.say(f"panes fit beside the timeline from {WIDE} columns")
        elif self.area.open is None:
            self.host.say(CLOSED)
        else:
            if not self.host.screen.query_one("#picture").display:
                self.action_pane_maximize()
            self._aside = not self._aside
            self.resized()

    def resized(self) -> None:
        """Put the panes beside the timeline if the user wants that and there is room, else below."""
        body = self.host.screen.query_one("#body")
        aside = self._aside and self.host.screen.size.width >= WIDE
        if aside != body.has_class("side"):
            self.area.usual_size()
            body.set_class(aside, "side")

    # Order

    def action_sort(self, step: int) -> None:
        pane = self.area.open
        if pane is None:
            self.host.say(CLOSED)
        elif pane.table is None or all(column.values is None for column in pane.table.columns):
            self.host.say(f"the {pane.key} pane has no column to sort by")
        elif step:
            pane.sort_next(step)
        else:
            pane.reverse()

    def action_group(self) -> None:
        keys = [key for key, spec in keyed(PANES) if spec.key in ("ops", "kernels")]
        said = self.area.open.next_group() if self.area.open is not None else ""
        self.host.say(said or f"only ops and kernels can be grouped: press {keys[0]} or {keys[1]}")
