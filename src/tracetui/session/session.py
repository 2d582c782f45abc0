"""A session: the open recordings on a common clock, with view, selection, search, marks and scope.

It has no terminal and draws nothing: the app displays it, tests and scripts can drive it directly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from tracetui.analysis import flow
from tracetui.session.arranging import Lanes
from tracetui.session.comparing import Comparing
from tracetui.session.gap_walk import GapWalk
from tracetui.session.mark_walk import MarkWalk
from tracetui.session.query import parse_time
from tracetui.session.recording import Recording
from tracetui.session.scopes import Scopes
from tracetui.session.search import Search
from tracetui.session.walk import Walk
from tracetui.timeline.scene import Idle
from tracetui.timeline.themes import DARK, Theme
from tracetui.trace import Trace
from tracetui.units import as_typed, instant


class Session:
    """One or several recordings on one time axis. Times are in ns of the session's clock."""

    def __init__(self, recordings: Sequence[Recording], theme: Theme = DARK) -> None:
        self.walk = Walk(recordings, theme)
        self.lanes = Lanes(self.walk)
        self.search = Search(self.walk)
        self.gaps = GapWalk(self.walk)
        self.marks = MarkWalk(self.walk)
        self.scopes = Scopes(self.walk)
        self.comparing = Comparing(self.walk, self.search, self.marks)

    @classmethod
    def open(cls, *paths: str | Path) -> Session:
        """Load traces, in this order. Raises TraceError."""
        return cls([Recording.open(path) for path in paths])

    @property
    def active(self) -> Recording:
        """The recording that the selection is in."""
        return self.walk.recording

    def draw_gaps(self) -> int:
        """Find the gaps of all recordings and draw them. Returns how many the active one has."""
        for of, recording in enumerate(self.walk.recordings):
            first, found = 0, {}
            for device in recording.results.gaps().devices:
                found[device.device] = Idle(device.start, device.end, partial(recording.why_idle, first))
                first += len(device)
            self.walk.set_gaps(found, of=of)
        return len(self.active.results.gaps())

    def add(self, recording: Recording, offset: int = 0) -> int:
        """Show another recording below the others. `offset`: session time minus its trace's time, ns. Returns
        its index."""
        self.walk.recordings.append(recording)
        return self.lanes.add(recording.source(self.walk.scene.theme, offset))

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
        event = self.walk.selected
        return (None, "select an event first") if event is None else link(self.active.trace, event)

    # Times

    def wrong_time(self, text: str) -> str:
        """What is wrong with a typed time; "" if nothing is."""
        try:
            time = parse_time(text)
        except ValueError as error:
            return str(error)
        low, high = self.walk.scene.span
        return "" if low <= time <= high else f"the trace runs from {instant(low)} to {instant(high)}"

    def go_to_time(self, text: str) -> str:
        """Go to a typed time. Returns a message. Raises ValueError if it is not a time."""
        time = round(parse_time(text))
        self.walk.go_to(time)
        return f"line at {as_typed(time)}; Esc removes it"

    def select_range(self) -> bool:
        """Make the selected event's time the range. False without a selection."""
        event, trace = self.walk.selected, self.active.trace
        if event is None:
            return False
        start = int(trace.start[event]) + self.walk.offset
        self.walk.set_range(start, start + max(1, int(trace.duration[event])))
        return True
