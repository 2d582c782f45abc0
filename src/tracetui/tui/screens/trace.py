"""The screen on which one walks a trace: the timeline, the selected event's line, and the panes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import ClassVar

import numpy as np
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical
from textual.worker import Worker, WorkerState

from tracetui.analysis.kernel_names import short_name
from tracetui.analysis.results import Results
from tracetui.session.marks import Marks
from tracetui.session.recent import remember
from tracetui.timeline.themes import DARK, Theme
from tracetui.trace.model import Trace
from tracetui.tui.bindings import ACTIONS
from tracetui.tui.controllers.export import Taking
from tracetui.tui.controllers.lanes import Arranging
from tracetui.tui.controllers.marks import Marking
from tracetui.tui.controllers.moves import Moving
from tracetui.tui.controllers.navigation import Walking
from tracetui.tui.controllers.panes import Paning
from tracetui.tui.controllers.ranges import Ranges
from tracetui.tui.footer import Footer
from tracetui.tui.hint import Hint, remember_seen, wanted
from tracetui.tui.panes.area import PaneArea
from tracetui.tui.panes.base import Pane, failure
from tracetui.tui.requests import NextTrace, WantCapture
from tracetui.tui.timeline import SelectionBar, TimelineView
from tracetui.tui.topline import TopLine, trace_name


class TraceScreen(Moving, Arranging, Walking, Ranges, Marking, Taking, Paning):
    """One trace."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(",".join(a.keys), a.action, a.text, id=a.id, show=False) for a in ACTIONS
    ]
    DEFAULT_CSS = """
    TraceScreen { layout: vertical; }
    TraceScreen #body { layout: vertical; height: 1fr; width: 1fr; }
    TraceScreen #body.side { layout: horizontal; }
    TraceScreen #picture { height: 1fr; width: 1fr; }
    TraceScreen #body.side PaneArea { width: 42%; height: 100%; max-height: 100%; }
    TraceScreen #body.side PaneArea.maximised { width: 100%; }
    TraceScreen #body.side PaneArea.closed { width: 14; }
    """

    def __init__(self, trace: Trace, pane: str | None = "averages", palette: Theme = DARK) -> None:
        super().__init__()
        self.trace = trace
        self.results = Results(trace)
        self.gap = None
        self.marks = Marks("-")
        self._categories = np.zeros(len(trace.names), dtype=np.int64)
        self._categories[trace.name[::-1]] = trace.category[::-1]
        self.timeline = TimelineView(trace, short=self._short, theme=palette)
        self.bar = SelectionBar()
        self.timeline.bar = self.bar
        self.area = PaneArea(self._panes(), pane)
        self.footer = Footer()

    def compose(self) -> ComposeResult:
        yield TopLine(self.trace)
        with Container(id="body"):
            with Vertical(id="picture"):
                yield self.timeline
                yield self.bar
            yield self.area
        if wanted():
            yield Hint()
        yield self.footer

    def on_mount(self) -> None:
        self.timeline.focus()
        self.restore_lanes()
        self.show_marks()
        # The picture first; then what takes longer.
        self.call_after_refresh(self.find_gaps)
        self.run_worker(partial(remember, self.trace.info.path), thread=True, exit_on_error=False)

    def _short(self, name: int) -> str:
        """The short name to write into bars; a name's category is that of its first event."""
        return short_name(self.trace.names[name], self.trace.categories[int(self._categories[name])])

    def _panes(self) -> Mapping[str, Callable[[], Pane]]:
        """How each pane is made, when it is first opened."""

        def details() -> Pane:
            from tracetui.tui.panes.details import DetailsPane

            return DetailsPane(self.results, "details")

        def averages() -> Pane:
            from tracetui.tui.panes.averages import AveragesPane

            return AveragesPane(self.results, "averages", self._colour, self.scope)

        def gaps() -> Pane:
            from tracetui.tui.panes.gaps import GapsPane

            pane = GapsPane(self.results, "gaps", self.scope)
            if self.gap is not None:
                found = self.results.gaps()
                pane.show_gap(int(found.device[self.gap]), int(found.index[self.gap]))
            return pane

        def steps() -> Pane:
            from tracetui.tui.panes.steps import StepsPane

            return StepsPane(self.results, "steps", self.scope)

        def findings() -> Pane:
            from tracetui.tui.panes.findings import FindingsPane

            return FindingsPane(self.results, "findings", self.scope)

        return {p.__name__: p for p in (details, averages, gaps, steps, findings)}

    def _colour(self, name: int) -> str | None:
        """The colour of a name in the timeline, for the tables."""
        colour = self.timeline.scene.source.palette.colour_of(name)
        return f"color({colour})" if 0 <= colour < 256 else None

    def set_palette(self, palette: Theme) -> None:
        """Other colours for the timeline."""
        self.timeline.set_theme(palette)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        if event.state is WorkerState.ERROR:
            self.say(failure(event.worker.error))

    def action_clear(self) -> None:
        """One thing at a time, the most passing first."""
        if not self.query_one("#picture").display:
            self.action_pane_maximise()
        elif hints := self.query(Hint):
            hints.remove()
            remember_seen()
        elif self.focused is not self.timeline:
            self.timeline.focus()
        elif self.timeline.scene.instant is not None:
            self.timeline.leave_instant()
        elif self.searching:
            self.search.clear()
        elif self.timeline.range_ns is not None:
            self.timeline.set_range(None)
        elif self.scoped_by != "range":
            self.scope_by_range()
        elif self.gap is not None:
            self.gap = None
            self.timeline.set_gap(None)
        elif self.timeline.selected is not None:
            self.timeline.select(None)
        else:
            self.say("nothing to clear")

    def action_help(self) -> None:
        from tracetui.tui.screens.help import HelpScreen

        in_table = self.focused is not self.timeline
        self.app.push_screen(HelpScreen(getattr(self.app, "actions", ACTIONS), in_table))

    # Captures and other traces

    def action_capture(self) -> None:
        self.post_message(WantCapture())

    def action_next_trace(self) -> None:
        self.post_message(NextTrace())

    def tell_place(self, place: int, count: int) -> None:
        """Say which of the session's traces this is."""
        name = trace_name(self.trace)
        self.say(
            f"trace {place} of {count}: {name}"
            if count > 1
            else "the only trace of this session: c captures another"
        )
