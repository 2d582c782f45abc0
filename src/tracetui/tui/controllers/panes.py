"""Keys that open, size and sort the panes, and the code that keeps them in step with the selection."""

from __future__ import annotations

from textual.timer import Timer

from tracetui.analysis.steps.scope import step_table_of
from tracetui.timeline.scene import Event
from tracetui.tui.controllers.navigation import Navigation
from tracetui.tui.controllers.screen_context import Escape, ScreenContext
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

    def __init__(self, context: ScreenContext, navigation: Navigation) -> None:
        self.context, self.navigation, self.navigator, self.area = (
            context,
            navigation,
            context.navigator,
            context.area,
        )
        self._follow: Timer | None = None
        self._aside = False
        """Whether to put the panes beside the timeline, if there is room."""
        context.escapes += [
            Escape(lambda: self._filtered and self._filtered.has_focus, self._show_all_rows),
            Escape(lambda: not context.screen.query_one("#picture").display, self.action_pane_maximize),
        ]
        context.escapes.insert(
            0, Escape(lambda: self._filtered, self._show_all_rows)
        )  # from the timeline: last

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
            self._follow = self.context.after(IDLE, self._follow_now)

    def _follow_now(self) -> None:
        self._follow = None
        pane = self.area.open
        if pane is not None:
            pane.follow(self.navigator.selected)

    def follow(self, target: Target) -> None:
        """Go to what a line leads to, and say what that is."""
        before, said = self.navigator.view, target.said
        if target.difference is not None:
            said = self.context.session.comparing.show(*target.difference)
            self.context.jumped_from(before)
            self.went_to_difference(said)
            return
        if target.gap is not None:
            self.navigation.show(target.gap, target.of, said, target.example)
        elif target.event is not None and target.span is None:
            self.context.jump(target.event, said, target.of)
        elif target.span is not None:
            if target.event is not None:
                self.navigator.select(target.event, reveal=False)
            self.navigator.show(*self.navigator.scene.source.on_axis(target.span))  # selecting may move B
            self.context.say(said)
        elif target.pane or said:
            if target.pane:
                self.open(target.pane)
            self.context.say(said)
        self.context.jumped_from(before)

    def went_to_difference(self, said: str) -> None:
        """Show the current difference in its pane, and say which one it is."""
        from tracetui.tui.panes.compare import ComparePane

        pane, at = self.area.open, self.context.session.comparing.at
        self.context.say(said)
        if isinstance(pane, ComparePane) and at is not None:
            pane.show_difference(at)
        self.context.follow_at_once()

    def go_to(self, event: Event | None, said: str) -> None:
        """Go to an event of any recording, if there is one, and say something."""
        if event is not None:
            self.navigator.select(event.slice, of=event.source)
            self.context.follow_at_once()
        self.context.say(said)

    def why_this_step(self) -> bool:
        """Open the sheet about the step under the cursor. False if the pane of steps has not got the keys."""
        from tracetui.tui.panes.view import ViewPane

        pane = self.area.open
        if not isinstance(pane, ViewPane) or pane.key != "steps" or not pane.has_focus:
            return False
        step = pane.item
        if not isinstance(step, int):
            self.context.say("choose a step: this line is not one")
        elif len(step_table_of(pane.whole)) < 2:
            self.context.say("there is only one step: nothing to compare it with")
        else:
            from tracetui.tui.screens.explain import StepScreen

            sheet = StepScreen(pane.whole, step, self.navigator)
            self.context.screen.app.push_screen(sheet, self.context.jump_if)
        return True

    def action_partner(self) -> None:
        if not self.why_this_step():
            self.context.say(self.context.absent)

    # Opening and closing

    def action_pane(self, key: str) -> None:
        """Show a pane and give it the keys; close it if it already has them."""
        if all(key != spec.key for _, spec in self.area.tabs.specs):
            self.context.say(self.context.absent)
            return
        pane = self.area.open
        if self.area.tabs.open == key and pane is not None and pane.has_focus:
            self.area.show_pane(None)
            self.context.timeline.focus()
        else:
            self.open(key)

    def open(self, key: str) -> None:
        """Show a pane and give it the keys."""
        pane = self.area.show_pane(key)
        if pane is not None:
            if isinstance(pane, ScopedPane):
                pane.set_earlier(self.context.session.scopes.frozen)
            pane.follow(self.navigator.selected)
            pane.focus()

    def action_focus_other(self) -> None:
        pane = self.area.open
        if self.context.screen.focused is self.context.timeline and pane is not None:
            pane.focus()
        else:
            self.context.timeline.focus()

    # Size and place

    def action_pane_size(self, lines: int) -> None:
        if self.area.open is None:
            self.context.say(CLOSED)
        else:
            self.area.grow(lines)

    def action_pane_maximize(self) -> None:
        if self.area.open is None:
            self.context.say(CLOSED)
        else:
            picture = self.context.screen.query_one("#picture")
            picture.display = not picture.display
            self.area.usual_size()
            self.area.set_class(not picture.display, "maximized")
            if picture.display:
                self.context.timeline.focus()
            else:
                self.area.open.focus()

    def action_pane_side(self) -> None:
        if self.context.screen.size.width < WIDE:
            self.context.say(f"panes fit beside the timeline from {WIDE} columns")
        elif self.area.open is None:
            self.context.say(CLOSED)
        else:
            if not self.context.screen.query_one("#picture").display:
                self.action_pane_maximize()
            self._aside = not self._aside
            self.resized()

    def resized(self) -> None:
        """Put the panes beside the timeline if the user wants that and there is room, else below."""
        body = self.context.screen.query_one("#body")
        aside = self._aside and self.context.screen.size.width >= WIDE
        if aside != body.has_class("side"):
            self.area.usual_size()
            body.set_class(aside, "side")

    # Order

    def action_sort(self, step: int) -> None:
        pane = self.area.open
        if pane is None:
            self.context.say(CLOSED)
        elif pane.table is None or all(column.values is None for column in pane.table.columns):
            self.context.say(f"the {pane.key} pane has no column to sort by")
        elif step:
            pane.sort_next(step)
        else:
            pane.reverse()

    def action_group(self) -> None:
        keys = [key for key, spec in keyed(PANES) if spec.key in ("ops", "kernels")]
        said = self.area.open.next_group() if self.area.open is not None else ""
        self.context.say(said or f"only ops and kernels can be grouped: press {keys[0]} or {keys[1]}")
