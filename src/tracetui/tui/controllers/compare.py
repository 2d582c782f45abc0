"""Keys for a pair: the comparison, its differences, partners, aligning."""

from __future__ import annotations

from tracetui.session.compared import Compared
from tracetui.tui.controllers.panes import PaneKeys
from tracetui.tui.controllers.screen_context import Escape, ScreenContext
from tracetui.tui.controllers.verdict import VerdictKeys
from tracetui.tui.panes.scoped import ScopedPane
from tracetui.tui.requests import EndComparison
from tracetui.tui.topline import facts_of_all

ONCE_MORE = "nothing to clear; Esc again goes back to A alone, Q goes on with B alone"


class PairKeys:
    """Compares two recordings and steps through their differences."""

    def __init__(self, context: ScreenContext, panes: PaneKeys, verdict: VerdictKeys) -> None:
        self.context, self.panes, self.line, self.top = context, panes, verdict.line, verdict.top
        self.comparing = context.session.comparing
        context.escapes.insert(0, Escape(lambda: True, self._end))  # once nothing else is left
        context.escapes.append(Escape(self.comparing.told, self.comparing.leave))

    def begin(self) -> None:
        """Compare the two in a thread, then show what was found."""
        from tracetui.analysis.steps.steps import steps_of

        def work() -> None:
            found = self.comparing.compute()
            recordings = self.context.navigator.recordings
            lengths = [[row.window_length for row in steps_of(one.whole).rows] for one in recordings]
            self.context.from_thread(self._show, found, lengths)

        self.line.say("comparing A and B …")
        self.context.in_thread(work, "compare")

    def _show(self, found: Compared, lengths: list[list[int]]) -> None:
        self.comparing.use(found)
        self.line.answer(found.comparison)
        self.top.say(facts_of_all(self.context.navigator.scene, lengths))
        for key in ("compare", "averages"):
            pane = self.context.area.panes.get(key)
            if isinstance(pane, ScopedPane):
                pane.load()
        self.context.follow_at_once()

    # Keys

    def action_compare(self) -> None:
        self.panes.action_pane("compare")

    def action_part(self, step: int) -> None:
        self.context.say("parts are of one recording: ) goes to the next difference, Q goes on with B alone")

    def action_difference(self, step: int) -> None:
        self.panes.went_to_difference(self.comparing.next(step))

    def action_partner(self) -> None:
        if not self.panes.why_this_step():
            event, said = self.comparing.partner()
            self.panes.go_to(event, said)

    def action_align(self) -> None:
        self.context.say(self.comparing.align())

    def action_end_comparison(self) -> None:
        self._go_on_with(1)

    def _end(self) -> None:
        """Esc with nothing left to clear: the second one goes back to A."""
        if self.context.footer.message == ONCE_MORE:
            self._go_on_with(0)
        else:
            self.context.say(ONCE_MORE)

    def _go_on_with(self, of: int) -> None:
        recordings = self.context.navigator.recordings
        one = recordings[0] if recordings[0].trace is recordings[1].trace else recordings[of]
        self.context.screen.post_message(EndComparison(self.context.screen, one))
