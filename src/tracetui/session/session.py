"""A session: the open recordings on a common clock, with view, selection, search, marks and scope.

It has no terminal and draws nothing: the app displays it, tests and scripts can drive it directly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from tracetui.analysis.calls import flow
from tracetui.core.copying import replace
from tracetui.core.units import as_typed, instant
from tracetui.session.arranging import Lanes
from tracetui.session.comparing import Comparing
from tracetui.session.gap_navigator import GapNavigator
from tracetui.session.layout import Layout, layout_of
from tracetui.session.mark_navigator import MarkNavigator
from tracetui.session.navigator import Navigator
from tracetui.session.query import parse_time
from tracetui.session.recording import Recording
from tracetui.session.scopes import Scopes
from tracetui.session.search import Search
from tracetui.timeline import moves
from tracetui.timeline.scene import EDGE
from tracetui.timeline.themes import DARK, Theme
from tracetui.trace import Trace


class Session:
    """One or several recordings on one time axis. Times are in ns of the session's clock."""

    def __init__(
        self, recordings: Sequence[Recording], theme: Theme = DARK, layout: Layout | None = None
    ) -> None:
        """`layout`: without one, that of so many recordings."""
        self.layout = layout or layout_of(len(recordings))
        self.navigator = Navigator(recordings, theme, self.layout)
        self.lanes = Lanes(self.navigator)
        self.search = Search(self.navigator)
        self.gaps = GapNavigator(self.navigator)
        self.marks = MarkNavigator(self.navigator)
        self.scopes = Scopes(self.navigator)
        self.comparing = Comparing(self.navigator, self.search, self.marks)

    @classmethod
    def open(cls, *paths: str | Path) -> Session:
        """Load traces, in this order. Raises TraceError."""
        return cls([Recording.open(path) for path in paths])

    @property
    def active(self) -> Recording:
        """The recording that the selection is in."""
        return self.navigator.recording

    @property
    def part(self) -> bool:
        """Whether this is the beginning of a file that is still being read."""
        return self.active.part

    def go_on_from(self, part: Session) -> None:
        """Take over what is on the screen of a session that shows the beginning of the same file: the same
        time (if the user has moved there), the same range and event, and what was folded or unfolded."""
        navigator, before = self.navigator, part.navigator
        rows = {one["track"]: one["rows"] for one in part.lanes.arrangement() if one["rows"] is not None}
        if rows:
            now = self.lanes.arrangement()
            self.lanes.restore([{**one, "rows": rows.get(one["track"], one["rows"])} for one in now])
        self.lanes.resize(before.view.width + before.scene.labels + EDGE, before.height)
        shift = _shift(before.trace, navigator.trace)
        if before.moved or before.selected is not None:
            view = replace(before.view, start=before.view.start + shift, width=navigator.view.width)
            navigator.moved = True
            navigator.show_scene(moves.look(navigator.scene, view))
        if before.range_ns is not None:
            navigator.set_range(*(time + shift for time in before.range_ns))
        if before.selected is not None:
            event = same_event(before.trace, before.selected, navigator.trace, shift)
            if event is not None:
                navigator.select(event, reveal=False)
                navigator.reveal(event, closer=False)

    def grow(self, longer: Recording) -> None:
        """Replace the beginning that is shown by a longer one of the same file. The screen keeps the same
        time (if the user has moved), range, event and first line."""
        navigator, before = self.navigator, self.navigator.trace
        shift, event = _shift(before, longer.trace), navigator.selected
        if event is not None:
            event = same_event(before, event, longer.trace, shift)
        scene = self.lanes.exchanged(longer.source(navigator.scene.theme), shift, event)
        navigator.exchange(longer, scene, shift)

    def let_go(self) -> None:
        """Drop the beginning of the file, which would otherwise take memory as long as some closed screen
        refers to this session."""
        self.navigator.recordings.clear()
        self.navigator.scene = replace(self.navigator.scene, sources=())

    def draw_gaps(self) -> int:
        """Find the gaps of all recordings and draw them. Returns how many the active one has."""
        from tracetui.analysis.idle.thread_gaps import all_gaps_of

        for of, recording in enumerate(self.navigator.recordings):
            self.navigator.set_gaps(recording.idle(), of=of)
        return len(all_gaps_of(self.active.whole))

    def add(self, recording: Recording, offset: int = 0) -> int:
        """Show another recording below the others. `offset`: session time minus its trace's time, ns. Returns
        its index."""
        self.navigator.recordings.append(recording)
        return self.lanes.add(recording.source(self.navigator.scene.theme, offset))

    # Links

    def follow(self, step: int) -> tuple[int | None, str]:
        """Follow the flow from the selection: op → launch → kernel (1), or back (-1). Returns (the event to
        go to or None, a message)."""
        return self._along(flow.follow if step > 0 else flow.unfollow)

    def partner(self) -> tuple[int | None, str]:
        """The backward op of the selected forward op, or vice versa. Returns the same as `follow`."""

        def link(trace: Trace, event: int) -> tuple[int | None, str]:
            found = flow.partner(trace, event)
            if found is None:
                return None, "this has no forward or backward op"
            return found[0], "forward ↔ backward"

        return self._along(link)

    def _along(self, link: Callable[[Trace, int], tuple[int | None, str]]) -> tuple[int | None, str]:
        event = self.navigator.selected
        return (None, "select an event first") if event is None else link(self.active.trace, event)

    # Times

    def wrong_time(self, text: str) -> str:
        """What is wrong with a typed time; "" if nothing is."""
        try:
            time = parse_time(text)
        except ValueError as error:
            return str(error)
        low, high = self.navigator.scene.span
        return "" if low <= time <= high else f"the trace runs from {instant(low)} to {instant(high)}"

    def go_to_time(self, text: str) -> str:
        """Go to a typed time. Returns a message. Raises ValueError if it is not a time."""
        time = round(parse_time(text))
        self.navigator.go_to(time)
        return f"line at {as_typed(time)}; Esc removes it"

    def select_range(self) -> bool:
        """Make the selected event's time the range. False without a selection."""
        event, trace = self.navigator.selected, self.active.trace
        if event is None:
            return False
        start = int(trace.start[event]) + self.navigator.offset
        self.navigator.set_range(start, start + max(1, int(trace.duration[event])))
        return True


def _shift(part: Trace, whole: Trace) -> int:
    """How much later the zero of a part is than that of the whole, ns."""
    # Without the base time, which may be at the end of the file.
    clocks = [info.zero_ns - (info.base_ns or 0) for info in (part.info, whole.info)]
    return clocks[0] - clocks[1]


def same_event(part: Trace, event: int, whole: Trace, shift: int) -> int | None:
    """The slice of `whole` that corresponds to slice `event` of a part of it, whose zero is `shift` ns later;
    None if there is none, or if several fit."""

    def place(trace: Trace, lane: int) -> tuple[str, str, str]:
        found = trace.lanes[lane]
        return trace.processes[found.process].pid, found.tid, found.kind

    name, where = part.name_of(event), place(part, int(part.lane[event]))
    start, duration = int(part.start[event]) + shift, int(part.duration[event])
    found = []
    for number, lane in enumerate(whole.lanes):
        if place(whole, number) == where:
            starts = whole.start[lane.first : lane.last]
            first, last = lane.first + np.searchsorted(starts, [start, start + 1])
            same = first + np.flatnonzero(whole.duration[first:last] == duration)
            found += [i for i in same.tolist() if whole.name_of(i) == name]
    return found[0] if len(found) == 1 else None
