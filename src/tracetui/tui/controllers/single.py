"""What only one trace has, and what only the ranks of a job have; a pair has `compare.PairKeys`."""

from __future__ import annotations

from tracetui.analysis.steps.scope import step_table_of
from tracetui.tui.controllers.panes import PaneKeys
from tracetui.tui.controllers.screen_context import ScreenContext
from tracetui.tui.controllers.verdict import VerdictKeys


class SingleKeys:
    """One trace: its verdict, and the way to a comparison."""

    def __init__(self, context: ScreenContext, panes: PaneKeys, verdict: VerdictKeys) -> None:
        self.context, self.verdict = context, verdict

    def begin(self) -> None:
        """Judge the trace; of one that is a comparison by itself, say so."""
        part = self.context.session.active.whole

        def look() -> None:
            from tracetui.analysis.steps.interleaved import SOURCE

            if step_table_of(part).source == SOURCE:
                self.context.from_thread(
                    self.context.say, "A and B took turns in this recording: C compares them"
                )

        self.verdict.judge()
        self.context.in_thread(look, "turns")

    async def action_compare(self) -> None:
        await self.context.screen.run_action("app.compare_with")


class JobKeys:
    """Several ranks: nothing is said about all of them yet."""

    def __init__(self, context: ScreenContext, panes: PaneKeys, verdict: VerdictKeys) -> None:
        self.context, self.line = context, verdict.line

    def begin(self) -> None:
        """Say whose the panes are."""
        self.line.say("The panes are about the rank that has the selection.")

    def action_part(self, step: int) -> None:
        self.context.say("parts are of one recording, not of a job")
