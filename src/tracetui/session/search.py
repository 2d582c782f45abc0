"""Searching all recordings of a session, and stepping from match to match."""

from __future__ import annotations

import numpy as np

from tracetui.session.navigator import Navigator
from tracetui.session.query import matches
from tracetui.timeline.scene import Event
from tracetui.trace.model import I64

NONE: I64 = np.zeros(0, dtype=np.int64)


class Search:
    """A query and its matches by time. Arrays of shape (matches,)."""

    def __init__(self, navigator: Navigator) -> None:
        self._navigator = navigator
        self.query = ""
        self.recording: I64 = NONE
        """Index of the recording of each match."""
        self.slice: I64 = NONE
        """Slice of each match in its recording."""
        self._time: I64 = NONE
        """Start of each match in session time, ns."""

    def __len__(self) -> int:
        return len(self.slice)

    def __bool__(self) -> bool:
        """Whether there is a query."""
        return bool(self.query.strip())

    def find(self, query: str) -> None:
        """Search all recordings. Raises QueryError; the previous search then stays."""
        masks = [matches(r.trace, query, r.short_names) for r in self._navigator.recordings]
        found = [np.flatnonzero(mask) for mask in masks]
        self.query = query
        self.slice = np.concatenate(found)
        self.recording = np.repeat(np.arange(len(found)), [len(at) for at in found])
        self.moved()
        self._navigator.set_matches(masks if self else None)

    def moved(self) -> None:
        """Sort the matches by time again, after a recording was shifted on the session's clock."""
        time = np.zeros(len(self), dtype=np.int64)
        for of, source in enumerate(self._navigator.scene.sources):
            mine = self.recording == of
            time[mine] = source.trace.start[self.slice[mine]] + source.offset
        order = np.argsort(time, kind="stable")
        self._time, self.slice, self.recording = time[order], self.slice[order], self.recording[order]

    def clear(self) -> None:
        """Forget the search."""
        self.query = ""
        self.recording = self.slice = self._time = NONE
        self._navigator.set_matches(None)

    def event(self, place: int) -> Event:
        """A match by its index."""
        return Event(int(self.recording[place]), int(self.slice[place]))

    def next(self, step: int) -> int | None:
        """Index of the next (1) or previous (-1) match, counted from the selection or else from the left edge
        of the view. Wraps around; None if nothing matches."""
        if not len(self):
            return None
        time: int = self._navigator.view.start_ns
        at = self._navigator.scene.event
        if at is not None:
            here = np.flatnonzero((self.slice == at.slice) & (self.recording == at.source))
            if len(here):
                return int(here[0] + step) % len(self)
            time = self._navigator.scene.source.start(at.slice)
        place = int(np.searchsorted(self._time, time))
        return (place if step > 0 else place - 1) % len(self)
