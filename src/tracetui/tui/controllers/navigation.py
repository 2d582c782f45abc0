"""Keys that walk: along flows, through gaps; and the sheet that explains an event."""

from __future__ import annotations

from collections.abc import Callable

from tracetui.analysis import flow
from tracetui.analysis.gap_list import GapList
from tracetui.session.gap_walk import gap_order, next_gap
from tracetui.trace.model import I64, Trace
from tracetui.tui.controllers.base import TracePart
from tracetui.tui.panes.base import JumpToGap
from tracetui.tui.timeline import GapClicked, GapId, Gaps
from tracetui.units import exact

FEW = 20_000
"""So many gaps have their causes within a frame or two; for more they are waited for in the background."""


class Walking(TracePart):
    """Flows, gaps, and `e`."""

    gaps_by_size = True
    _order: I64 | None = None
    minimum_gap = 0
    """Shorter gaps are passed over by `g`, in ns."""

    # Flows

    def action_flow(self, step: int) -> None:
        self._along(flow.follow if step > 0 else flow.unfollow)

    def action_backward(self) -> None:
        def partner(trace: Trace, i: int) -> tuple[int | None, str]:
            found = flow.backward(trace, i)
            none = "no forward or backward op belongs to this"
            return found, "forward ↔ backward" if found is not None else none

        self._along(partner)

    def _along(self, link: Callable[[Trace, int], tuple[int | None, str]]) -> None:
        event = self.timeline.selected
        if event is None:
            self.say("select an event first")
            return
        target, said = link(self.trace, event)
        if target is None:
            self.say(said)
        else:
            self.jump(target, said)

    def action_explain(self) -> None:
        from tracetui.tui.screens.explain import ExplainScreen

        event = self.timeline.selected
        if event is None:
            self.say("select an event first")
        else:
            self.app.push_screen(ExplainScreen(self.trace, event), self._explained)

    def _explained(self, event: int | None) -> None:
        if event is not None and event >= 0:
            self.jump(event)

    # Gaps

    def find_gaps(self) -> None:
        """Look for the gaps off this thread, then draw them."""

        def find() -> None:
            gaps = self.results.gaps()
            self.app.call_from_thread(self._show_gaps, gaps)
            self.results.causes()  # so that they are there when a gap is looked at

        self.run_worker(find, thread=True, exit_on_error=False, group="find gaps")

    def _show_gaps(self, gaps: GapList) -> None:
        self.timeline.set_gaps([Gaps(d.device, d.start, d.end) for d in gaps.devices])
        self.area.tabs.set_count("gaps", f"{len(gaps):,}")

    def action_gap(self, step: int) -> None:
        gaps = self.results.gaps()
        view = self.timeline.viewport
        middle = (view.start_ns + view.end_ns) / 2
        if self._order is None:
            self._order = gap_order(gaps, self.gaps_by_size, self.minimum_gap)
        found = next_gap(gaps, self._order, self.gap, middle, step, self.gaps_by_size)
        if found is None:
            self.say("no gaps: no device ran anything in this trace, or it never paused")
            return
        gap, place = found
        order = "longest first" if self.gaps_by_size else "by time"
        self.show_gap(gap, f"gap {place:,} of {len(self._order):,}, {order}")

    def action_gap_order(self) -> None:
        self.gaps_by_size = not self.gaps_by_size
        self._order = None
        self.say(f"g and G walk the gaps {'longest first' if self.gaps_by_size else 'by time'}")

    def show_gap(self, gap: int, said: str = "") -> None:
        """Highlight a gap, bring it into view, select the event that ended it, and say its cause."""
        from tracetui.analysis.causes import CAUSE_TEXT, CAUSES
        from tracetui.tui.panes.gaps import GapsPane

        gaps = self.results.gaps()
        self.gap = gap
        self.timeline.select(int(gaps.after[gap]), reveal=False)
        self.timeline.set_gap(GapId(int(gaps.device[gap]), int(gaps.index[gap])))
        pane = self.area.panes.get("gaps")
        if isinstance(pane, GapsPane):
            pane.show_gap(int(gaps.device[gap]), int(gaps.index[gap]))
        self.follow_at_once()
        idle = f"idle for {exact(int(gaps.duration[gap]))}"
        if self.results.ready("causes") or len(gaps) <= FEW:
            cause = CAUSES[int(self.results.causes().cause[gap])]
            idle += f", {cause}: {CAUSE_TEXT[cause]}"
        self.say(f"{said}: {idle}" if said else idle)

    def on_jump_to_gap(self, message: JumpToGap) -> None:
        message.stop()
        before = self.timeline.viewport
        self.show_gap(message.gap)
        self.led_from(before)

    def on_gap_clicked(self, message: GapClicked) -> None:
        message.stop()
        gap = self.results.gaps().find(message.gap.device, message.gap.index)
        if gap is not None:
            self.show_gap(gap)
