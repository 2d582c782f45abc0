"""The screen on which one walks a trace: the timeline, the selected event's line, and the panes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.timer import Timer
from textual.worker import Worker, WorkerState

from tracetui.analysis.kernel_names import short_name
from tracetui.timeline.palette import DARK, LIGHT, Palette
from tracetui.trace.model import Trace
from tracetui.tui import flow
from tracetui.tui.bindings import ACTIONS
from tracetui.tui.footer import Footer
from tracetui.tui.panes.area import PaneArea, PaneTabs
from tracetui.tui.panes.base import Jump, JumpToGap, Pane, ShowSpan, failure
from tracetui.tui.results import Results
from tracetui.tui.timeline import (
    GapClicked,
    GapId,
    Gaps,
    SelectionBar,
    SelectionChanged,
    TimelineView,
)
from tracetui.tui.topline import TopLine

if TYPE_CHECKING:
    from tracetui.tui.gaps import GapList
    from tracetui.tui.prompt import Prompt
    from tracetui.tui.search.control import Search

IDLE = 0.08
"""Seconds that a selection must last before the panes follow it: a held arrow key moves only the timeline."""


class TraceScreen(Screen[None]):
    """One trace."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(",".join(a.keys), a.action, a.text, id=a.id, show=False) for a in ACTIONS
    ]
    DEFAULT_CSS = """
    TraceScreen { layout: vertical; }
    TraceScreen > TimelineView { height: 1fr; }
    """

    def __init__(self, trace: Trace, pane: str | None = "averages") -> None:
        super().__init__()
        self.trace = trace
        self.results = Results(trace)
        self.gap: int | None = None
        self.gaps_by_size = True
        self._follow: Timer | None = None
        self._search: Search | None = None
        self.prompt: Prompt | None = None
        self.timeline = TimelineView(trace, short=self._short)
        self.bar = SelectionBar()
        self.timeline.bar = self.bar
        self.area = PaneArea(self._panes(), pane)
        self.footer = Footer()

    def compose(self) -> ComposeResult:
        yield TopLine(self.trace)
        yield self.timeline
        yield self.bar
        yield self.area
        yield self.footer

    def on_mount(self) -> None:
        self.timeline.focus()
        # The picture first; then what takes longer.
        self.call_after_refresh(self._find_gaps)

    def _short(self, name: int) -> str:
        first = self._first_of_name(name)
        return short_name(self.trace.names[name], self.trace.categories[first])

    def _first_of_name(self, name: int) -> int:
        """A category that a name occurs under."""
        if not hasattr(self, "_categories"):
            import numpy as np

            categories = np.zeros(len(self.trace.names), dtype=np.int64)
            categories[self.trace.name[::-1]] = self.trace.category[::-1]
            self._categories = categories
        return int(self._categories[name])

    def _panes(self) -> Mapping[str, Callable[[], Pane]]:
        """How each pane is made, when it is first opened."""

        def details() -> Pane:
            from tracetui.tui.panes.details import DetailsPane

            return DetailsPane(self.results, "details")

        def averages() -> Pane:
            from tracetui.tui.panes.averages import AveragesPane

            return AveragesPane(self.results, "averages", self._colour())

        def gaps() -> Pane:
            from tracetui.tui.panes.gaps import GapsPane

            return GapsPane(self.results, "gaps")

        def steps() -> Pane:
            from tracetui.tui.panes.steps import StepsPane

            return StepsPane(self.results, "steps")

        def findings() -> Pane:
            from tracetui.tui.panes.findings import FindingsPane

            return FindingsPane(self.results, "findings")

        return {p.__name__: p for p in (details, averages, gaps, steps, findings)}

    def _colour(self) -> Callable[[int], str | None]:
        palette = Palette(self.trace, DARK if self.app.current_theme.dark else LIGHT)
        return lambda name: f"color({palette.colour_of(name)})"

    # The selection, shared

    def on_selection_changed(self, message: SelectionChanged) -> None:
        message.stop()
        self._selected()

    def _selected(self) -> None:
        """Let the open pane follow: at once where that is cheap, else once the selection rests."""
        if self._follow is not None:
            self._follow.stop()
        pane = self.area.open
        if pane is not None and pane.eager:
            pane.follow(self.timeline.selected)
        else:
            self._follow = self.set_timer(IDLE, self._panes_follow)

    def _panes_follow(self) -> None:
        self._follow = None
        pane = self.area.open
        if pane is not None:
            pane.follow(self.timeline.selected)

    def jump(self, event: int, said: str = "") -> None:
        """Select an event and bring it into view."""
        self.timeline.select(event)
        if said:
            self.footer.say(said)

    def on_jump(self, message: Jump) -> None:
        message.stop()
        if message.show is not None:
            self.timeline.select(message.event, reveal=False)
            self.timeline.show(*message.show)
            self.footer.say(message.said)
        elif message.event >= 0:
            self.jump(message.event, message.said)
        else:
            self.footer.say(message.said)

    def on_show_span(self, message: ShowSpan) -> None:
        message.stop()
        self.timeline.show(message.start, message.end)
        self.footer.say(message.said)

    # Moving

    def action_zoom(self, factor: float) -> None:
        self.timeline.zoom(factor if factor > 0 else -1 / factor)

    def action_pan(self, fraction: float) -> None:
        self.timeline.pan(fraction)

    def action_centre(self) -> None:
        if self.timeline.selected is None:
            self.footer.say("nothing is selected: click an event, or use the arrow keys")
        else:
            self.timeline.centre()

    def action_fit(self) -> None:
        self.timeline.fit()

    def action_back(self) -> None:
        if not self.timeline.back():
            self.footer.say("no earlier view")

    def action_forward(self) -> None:
        if not self.timeline.forward():
            self.footer.say("no later view")

    def action_move(self, direction: str) -> None:
        if not self.timeline.move(direction):
            self.footer.say(
                {
                    "next": "the last event of this row",
                    "previous": "the first event of this row",
                    "up": "nothing above",
                    "down": "nothing below",
                }[direction]
            )

    def action_flow(self, step: int) -> None:
        self._along(flow.follow if step > 0 else flow.unfollow)

    def action_backward(self) -> None:
        def partner(trace: Trace, i: int) -> tuple[int | None, str]:
            found = flow.backward(trace, i)
            return (
                found,
                "forward ↔ backward" if found is not None else "no forward or backward op is linked to this",
            )

        self._along(partner)

    def _along(self, link: Callable[[Trace, int], tuple[int | None, str]]) -> None:
        event = self.timeline.selected
        if event is None:
            self.footer.say("select an event first")
            return
        target, said = link(self.trace, event)
        if target is None:
            self.footer.say(said)
        else:
            self.jump(target, said)

    def action_explain(self) -> None:
        from tracetui.tui.screens.explain import ExplainScreen

        event = self.timeline.selected
        if event is None:
            self.footer.say("select an event first")
        else:
            self.app.push_screen(ExplainScreen(self.trace, event), self._explained)

    def _explained(self, event: int | None) -> None:
        if event is not None and event >= 0:
            self.jump(event)

    # Gaps

    def _find_gaps(self) -> None:
        def find() -> None:
            gaps = self.results.gaps()
            self.app.call_from_thread(self._show_gaps, gaps)

        self.run_worker(find, thread=True, exit_on_error=False, group="find gaps")

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        if event.state is WorkerState.ERROR:
            self.footer.say(failure(event.worker.error))

    def _show_gaps(self, gaps: GapList) -> None:
        self.timeline.set_gaps([Gaps(d.device, d.start, d.end) for d in gaps.devices])
        self.area.tabs.set_count("gaps", f"{len(gaps):,}")

    def action_gap(self, step: int) -> None:
        from tracetui.tui.gaps import next_gap

        gaps = self.results.gaps()
        view = self.timeline.viewport
        middle = (view.start_ns + view.end_ns) / 2
        found = next_gap(gaps, self.gap, middle, step, self.gaps_by_size)
        if found is None:
            self.footer.say("no gaps: no device ran anything in this trace, or it never paused")
            return
        gap, place, count = found
        order = "longest first" if self.gaps_by_size else "by time"
        self.show_gap(gap, f"gap {place:,} of {count:,}, {order}")

    def action_gap_order(self) -> None:
        self.gaps_by_size = not self.gaps_by_size
        self.footer.say(f"g and G walk the gaps {'longest first' if self.gaps_by_size else 'by time'}")

    def show_gap(self, gap: int, said: str = "") -> None:
        """Highlight a gap, bring it into view, and select the event that ended it."""
        from tracetui.tui.units import duration

        gaps = self.results.gaps()
        self.gap = gap
        self.timeline.select(int(gaps.after[gap]), reveal=False)
        self.timeline.set_gap(GapId(int(gaps.device[gap]), int(gaps.index[gap])))
        pane = self.area.panes.get("gaps")
        if pane is not None:
            pane.show_row(gap)
        idle = f"idle for {duration(int(gaps.duration[gap])).strip()}"
        self.footer.say(f"{said}: {idle}" if said else idle)

    def on_jump_to_gap(self, message: JumpToGap) -> None:
        message.stop()
        self.show_gap(message.gap)

    def on_gap_clicked(self, message: GapClicked) -> None:
        message.stop()
        gap = self.results.gaps().find(message.gap.device, message.gap.index)
        if gap is not None:
            self.show_gap(gap)

    # Panes

    def action_pane(self, key: str) -> None:
        if self.area.tabs.open == key and self.area.open is not None:
            self.area.show_pane(None)
            self.timeline.focus()
            return
        pane = self.area.show_pane(key)
        if pane is not None:
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

    def action_sort(self, step: int) -> None:
        pane = self.area.open
        if pane is not None:
            if step:
                pane.sort_next(step)
            else:
                pane.reverse()

    # Search and filter

    @property
    def search(self) -> Search:
        if self._search is None:
            from tracetui.tui.search.control import Search

            self._search = Search(self)
        return self._search

    def action_search(self) -> None:
        self.search.ask()

    def action_match(self, step: int) -> None:
        self.search.step(step)

    def action_filter(self) -> None:
        pane = self.area.open
        if pane is None or pane.table is None or pane.table.search_text is None:
            self.footer.say("open a table first: 2 averages, 3 gaps")
            return
        self.ask("filter", f"filter {pane.id}:", pane.needle, "a part of the name; Esc: all rows")

    def ask(self, purpose: str, label: str, value: str = "", placeholder: str = "") -> None:
        """Put a line to type into at the place of the footer."""
        from tracetui.tui.prompt import Prompt

        self.answered()
        self.prompt = Prompt(purpose, label, value, placeholder)
        self.footer.display = False
        self.mount(self.prompt)

    def answered(self) -> None:
        """Take the line away again."""
        if self.prompt is not None:
            self.prompt.remove()
            self.prompt = None
            self.footer.display = True
            self.timeline.focus()

    def on_prompt_typed(self, message: Prompt.Typed) -> None:
        message.stop()
        if message.purpose == "search":
            self.search.typed(message.value)
        elif message.purpose == "filter" and self.area.open is not None:
            self.area.open.set_filter(message.value)

    def on_prompt_entered(self, message: Prompt.Entered) -> None:
        message.stop()
        self.answered()
        if message.purpose == "search":
            self.search.entered(message.value)
        elif message.purpose == "filter" and self.area.open is not None:
            self.area.open.focus()

    def on_prompt_left(self, message: Prompt.Left) -> None:
        message.stop()
        purpose = self.prompt.purpose if self.prompt is not None else ""
        self.answered()
        if purpose == "search":
            self.search.clear()
        elif purpose == "filter" and self.area.open is not None:
            self.area.open.set_filter("")
            self.area.open.focus()

    def action_clear(self) -> None:
        """One thing at a time, the most passing first."""
        if self.focused is not None and self.focused is not self.timeline:
            self.timeline.focus()
        elif self._search is not None and self._search.query:
            self._search.clear()
        elif self.timeline.range_ns is not None:
            self.timeline.set_range(None)
        elif self.gap is not None:
            self.gap = None
            self.timeline.set_gap(None)
        else:
            self.timeline.select(None)

    def action_help(self) -> None:
        from tracetui.tui.screens.help import HelpScreen

        self.app.push_screen(HelpScreen())

    # Lanes

    def action_fold(self) -> None:
        self.timeline.toggle_fold()

    def action_fold_all(self) -> None:
        self._folded = not getattr(self, "_folded", False)
        if self._folded:
            self.timeline.collapse_all()
        else:
            self.timeline.expand_all()

    def action_hide_lane(self) -> None:
        self.timeline.hide_lane()
        self.footer.say("lane hidden; X shows it again")

    def action_show_lanes(self) -> None:
        self.timeline.show_hidden()

    def action_pin_lane(self) -> None:
        self.timeline.pin_lane()
