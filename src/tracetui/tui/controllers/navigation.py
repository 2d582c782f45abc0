"""Keys that follow flows and go from gap to gap; the sheets that explain an event, and the glossary."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from tracetui.core.threads import is_short_of_memory
from tracetui.trace.indices import prepare
from tracetui.tui.controllers.screen_context import Escape, ScreenContext
from tracetui.tui.panes.base import Follow
from tracetui.tui.screens.once import LeaveOnce
from tracetui.tui.timeline.messages import GapClicked

if TYPE_CHECKING:
    from tracetui.views.examples import Example
    from tracetui.views.glossary_terms import Term


class Navigation:
    """Flows, gaps, and `e`."""

    def __init__(self, context: ScreenContext) -> None:
        self.context, self.gaps = context, context.session.gaps
        context.escapes.append(Escape(lambda: self.gaps.at is not None, self.gaps.leave))
        self._ordering = False

    # Flows

    def action_flow(self, step: int) -> None:
        self._go(*self.context.session.follow(step))

    def action_backward(self) -> None:
        self._go(*self.context.session.partner())

    def _go(self, event: int | None, said: str) -> None:
        if event is None:
            self.context.say(said)
        else:
            self.context.jump(event, said)

    def action_explain(self) -> None:
        from tracetui.tui.panes.compare import ComparePane
        from tracetui.tui.panes.details import DetailsPane

        pane, screen = self.context.area.open, self.context.screen
        keys = pane is not None and pane.has_focus
        if (
            isinstance(pane, ComparePane)
            and (keys or self.context.navigator.selected is None)
            and pane.explain()
        ):
            return
        if pane is None or not keys or isinstance(pane, DetailsPane):  # details are about the selection
            self._explain_selection()
        elif (there := pane.about()) is not None:  # the table has the keys, so its row is meant
            screen.post_message(Follow(there))
            screen.call_later(self._explain_selection)
        else:
            self.context.say("this line is not about a single event or gap; Enter goes where it leads")

    def _explain_selection(self) -> None:
        from tracetui.tui.screens.explain import ExplainScreen

        navigator = self.context.navigator
        if navigator.selected is None:
            self.context.say("select an event first, or a row of a table")
        else:
            part, gap = self.context.session.active.whole, self.gaps.current
            sheet = ExplainScreen(part, navigator.selected, navigator, self.action_glossary, gap)
            self.context.screen.app.push_screen(sheet, self.context.jump_if)

    def action_glossary(self, some: Sequence[Term] = ()) -> None:
        from tracetui.tui.screens.glossary import GlossaryScreen

        app, part, pane = self.context.screen.app, self.context.session.active.whole, self.context.area.open
        at = pane.term if pane is not None and not some else ""
        sheet = GlossaryScreen(part, self.context.navigator, self._show_example, some, at)
        app.push_screen(sheet, self._to_example)

    def _show_example(self, found: Example) -> None:
        if found.gap is not None:
            self.gaps.show(found.gap, example=True)
        else:
            self.context.navigator.select(found.slice)

    def _to_example(self, found: Example | None) -> None:
        """Go to the example that was chosen, and close the sheets that led to the glossary."""
        if found is not None:
            below = self.context.screen.app.screen
            if isinstance(below, LeaveOnce):
                below.dismiss()
            if found.gap is not None:
                self.show(found.gap)
            else:
                self.context.jump(found.slice)

    # Gaps

    def find_gaps(self) -> None:
        """Find and draw the gaps in a thread; in a large trace, also compute what makes keys fast."""
        session = self.context.session

        def find() -> None:
            from tracetui.views.gap_words import find_told

            for recording in session.navigator.recordings:
                recording.idle()
            self.context.from_thread(draw)
            for of, recording in enumerate(session.navigator.recordings):
                self.gaps.order(of)
                if not is_short_of_memory(len(recording.trace)):
                    prepare(recording.trace)
            for recording in session.navigator.recordings:
                find_told(recording.whole)
            gc.freeze()  # as after loading: the results stay too
            self.context.from_thread(draw)

        def draw() -> None:
            session.draw_gaps()
            self.count_gaps()

        self.context.in_thread(find, "find gaps")

    def count_gaps(self) -> None:
        """Show in the tab how many gaps the active recording has."""
        from tracetui.analysis.idle.thread_gaps import all_gaps_of

        part = self.context.session.active.whole
        if part.knows(all_gaps_of):
            self.context.area.tabs.set_count("gaps", f"{len(all_gaps_of(part)):,}")

    def action_gap(self, step: int) -> None:
        from tracetui.views.gaps import no_gaps

        if not self.gaps.soon:
            if not self._ordering:
                self._ordering = True
                self.context.in_thread(partial(self._order_first, step), "order gaps")
            return
        said = self.gaps.next(step)
        self._update_panes()
        self.context.say(said or no_gaps(self.context.session.active.whole))

    def _order_first(self, step: int) -> None:
        """Sort the gaps in a thread, then go to the next one."""
        try:
            self.gaps.order(self.context.session.navigator.active)
        finally:
            self._ordering = False
        self.context.from_thread(self.action_gap, step)

    def action_gap_order(self) -> None:
        self.gaps.toggle_order()
        self.context.say(f"g and G now go through the gaps {self.gaps.order_text}")

    def show(self, gap: int, of: int | None = None, said: str = "", example: bool = False) -> None:
        """Highlight a gap of a recording (None: the active one), and say its cause, or `said`. `example`: see
        `GapNavigator.show`."""
        cause = self.gaps.show(gap, of, example)
        self._update_panes()
        self.context.say(said or cause)

    def _update_panes(self) -> None:
        """Show the gap in the panes."""
        from tracetui.analysis.idle.thread_gaps import all_gaps_of

        pane = self.context.area.panes.get("gaps")
        from tracetui.tui.panes.view import ViewPane

        if isinstance(pane, ViewPane) and self.gaps.at is not None:
            gaps = all_gaps_of(self.context.session.active.whole)
            pane.show_item((int(gaps.device[self.gaps.at]), int(gaps.index[self.gaps.at])))
        self.context.follow_at_once()

    def gap_clicked(self, message: GapClicked) -> None:
        from tracetui.analysis.idle.thread_gaps import all_gaps_of

        gaps = all_gaps_of(self.context.navigator.recordings[message.of].whole)
        gap = gaps.find(message.device, message.index)
        if gap is not None:
            self.show(gap, message.of)
