"""Keys for two recordings: partners, differences, aligning; and the sheet that says why a step differs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetui.analysis.steps.scope import step_table_of
from tracetui.session.compared import Compared
from tracetui.tui.controllers.host import Escape, Host
from tracetui.tui.controllers.panes import PaneKeys
from tracetui.tui.panes.base import GoToDifference, GoToEvent
from tracetui.tui.panes.scoped import ScopedPane
from tracetui.tui.requests import EndComparison
from tracetui.tui.topline import TopLine, both_facts
from tracetui.tui.verdict_line import VerdictLine

if TYPE_CHECKING:
    from tracetui.tui.panes.steps import StepsPane

ONCE_MORE = "nothing to clear; Esc again goes back to A alone, Q goes on with B alone"
ONE = "only one trace is open: C compares it with another"


class CompareKeys:
    """Steps through the differences of two recordings."""

    def __init__(self, host: Host, panes: PaneKeys, line: VerdictLine, top: TopLine) -> None:
        self.host, self.panes, self.line, self.top = host, panes, line, top
        self.comparing = host.session.comparing
        host.escapes.append(Escape(self.comparing.told, self.comparing.leave))

    def compare(self) -> None:
        """Compare the two in a thread, then show what was found."""
        from tracetui.analysis.steps.steps import steps_of

        if not self.comparing:
            return
        recordings = self.host.walk.recordings

        def work() -> None:
            found = self.comparing.work_out()
            lengths = [[row.window_length for row in steps_of(one.whole).rows] for one in recordings]
            self.host.from_thread(self._show, found, lengths)

        self.line.say("comparing A and B …")
        self.host.in_thread(work, "compare")

    def _show(self, found: Compared, lengths: list[list[int]]) -> None:
        self.comparing.use(found)
        self.line.answer(found.comparison)
        a, b = self.host.walk.recordings
        self.top.say(both_facts(a.trace, b.trace, lengths))
        for key in ("compare", "averages"):
            pane = self.host.area.panes.get(key)
            if isinstance(pane, ScopedPane):
                pane.load()
        self.host.follow_at_once()

    # Keys

    async def action_compare(self) -> None:
        if self.comparing:
            self.panes.action_pane("compare")
        else:
            await self.host.screen.run_action("app.compare_with")

    def action_pair_pane(self, key: str) -> None:
        if self.comparing:
            self.panes.action_pane(key)
        else:
            self.host.say(ONE)

    def action_difference(self, step: int) -> None:
        if not self.comparing:
            self.host.say(ONE)
            return
        self.host.say(self.comparing.next(step))
        self._shown()

    def go_to_difference(self, message: GoToDifference) -> None:
        """A pane asks to go to a difference."""
        before = self.host.walk.view
        self.host.say(self.comparing.show(message.which, message.again))
        self.host.jumped_from(before)
        self._shown()

    def _shown(self) -> None:
        from tracetui.tui.panes.compare import ComparePane

        pane = self.host.area.open
        if isinstance(pane, ComparePane) and self.comparing.at is not None:
            pane.show_difference(self.comparing.at)
        self.host.follow_at_once()

    def go_to_event(self, message: GoToEvent) -> None:
        """A pane asks to go to an event of either recording, or to say something."""
        if message.event is not None:
            self.comparing.go_to(message.event)
            self.host.follow_at_once()
        self.host.say(message.said)

    def action_partner(self) -> None:
        pane = self.host.area.open
        from tracetui.tui.panes.steps import StepsPane

        if isinstance(pane, StepsPane) and pane.has_focus:
            self._why_this_step(pane)
        elif not self.comparing:
            self.host.say(ONE)
        else:
            event, said = self.comparing.partner()
            if event is not None:
                self.comparing.go_to(event)
                self.host.follow_at_once()
            self.host.say(said)

    def action_align(self) -> None:
        self.host.say(self.comparing.align() if self.comparing else ONE)

    def action_end_comparison(self) -> None:
        if self.comparing:
            self._go_on_with(1)
        else:
            self.host.say(ONE)

    def may_end(self) -> bool:
        """Handles Esc when nothing is left to clear: the second Esc goes back to A. False if nothing is
        compared."""
        if self.comparing and self.host.footer.message == ONCE_MORE:
            self._go_on_with(0)
        elif self.comparing:
            self.host.say(ONCE_MORE)
        return bool(self.comparing)

    def _go_on_with(self, of: int) -> None:
        self.host.screen.post_message(EndComparison(self.host.walk.recordings[of]))

    # Steps of one trace

    def _why_this_step(self, pane: StepsPane) -> None:
        from tracetui.tui.screens.step import StepScreen

        step = pane.step()
        if step is None:
            self.host.say("choose a step: this line is not one")
        elif len(step_table_of(pane.whole)) < 2:
            self.host.say("there is only one step: nothing to compare it with")
        else:
            sheet = StepScreen(pane.whole, step, self.host.walk)
            self.host.screen.app.push_screen(sheet, self.host.jump_if)
