"""Stepping through the gaps of the active recording, longest first or by time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tracetui.analysis.part import Part
from tracetui.core.units import exact, share
from tracetui.session.navigator import Navigator
from tracetui.trace.model import I64

if TYPE_CHECKING:
    from tracetui.analysis.idle.gap_list import GapList

SOON = 1 << 18
"""For up to this many slices, the gaps and their causes are found within a frame or two."""


def gap_order(gaps: GapList, by_size: bool, minimum: int = 0) -> I64:
    """Indices of the gaps of at least `minimum` ns, longest first or by time."""
    order = np.argsort(-gaps.duration if by_size else gaps.start, kind="stable")
    return order[gaps.duration[order] >= minimum]


def next_gap(
    gaps: GapList, order: I64, at: int | None, time: float, step: int, by_size: bool, last: int = 0
) -> tuple[int, int] | None:
    """(next gap, its 1-based place in `order`), starting from gap `at`, or else from a time.

    By size, the longest comes first; by time, the one after (or before) the time. Wraps around.
    None if there are no gaps. `last`: the 1-based place of `at`, if that is known.
    """
    if not len(order):
        return None
    if 0 < last <= len(order) and order[last - 1] == at:
        here = np.array([last - 1])
    else:
        here = np.flatnonzero(order == at) if at is not None else order[:0]
    if len(here):
        place = int(here[0]) + step
    elif by_size:
        place = 0 if step > 0 else -1
    else:
        place = int(np.searchsorted(gaps.start[order], time))
        place = place if step > 0 else place - 1
    place %= len(order)
    return int(order[place]), place + 1


def _event_of(gaps: GapList, gap: int) -> int:
    """What is selected with a gap: the event that ended it or, at the end of the recording, began it."""
    return int(gaps.after[gap] if gaps.after[gap] >= 0 else gaps.before[gap])


class GapNavigator:
    """The current gap, and steps to the next one."""

    def __init__(self, navigator: Navigator) -> None:
        self._navigator = navigator
        self.minimum = 0
        """Shorter gaps (ns) are skipped."""
        self.by_size = True
        self._shown: dict[tuple[int, int, int], int] = {}
        """Indices in `all_gaps_of` of the highlighted gaps, as the scene names them."""
        self._orders: dict[tuple[int, bool, int], I64] = {}
        """The `gap_order`s found so far, by recording, by size or not, and minimum."""
        self._place = 0
        """The place in it of the gap that was shown last."""
        self._example = False
        """Whether the highlighted gap is an example of something, and so has no place in that order."""

    @property
    def _whole(self) -> Part:
        return self._navigator.recording.whole

    @property
    def at(self) -> int | None:
        """Index of the highlighted gap in `all_gaps_of` of its recording."""
        marked = self._navigator.scene.gap
        return None if marked is None else self._shown.get(marked)

    def toggle_order(self) -> None:
        """Switch between longest first and by time."""
        self.by_size = not self.by_size

    @property
    def order_text(self) -> str:
        """The order in words."""
        return "longest first" if self.by_size else "by time"

    @property
    def soon(self) -> bool:
        """Whether `next` is too fast to be noticed; if not, call `order` first, in a thread."""
        navigator = self._navigator
        return self._key(navigator.active) in self._orders or len(navigator.recording.trace) <= SOON

    def _key(self, of: int) -> tuple[int, bool, int]:
        return of, self.by_size, self.minimum

    def order(self, of: int) -> I64:
        """The `gap_order` of a recording, found once."""
        from tracetui.analysis.idle.thread_gaps import all_gaps_of

        key = self._key(of)
        if key not in self._orders:
            gaps = all_gaps_of(self._navigator.recordings[of].whole)
            self._orders[key] = gap_order(gaps, self.by_size, self.minimum)
        return self._orders[key]

    def next(self, step: int) -> str | None:
        """Show the next (1) or previous (-1) gap. Returns a message about it; None if there are no gaps."""
        from tracetui.analysis.idle.thread_gaps import all_gaps_of

        gaps = all_gaps_of(self._whole)
        view = self._navigator.view
        order = self.order(self._navigator.active)
        middle = (view.start_ns + view.end_ns) / 2 - self._navigator.offset
        marked = self._navigator.scene.gap
        at = self.at if marked is not None and marked[0] == self._navigator.active else None
        if self._example and self.by_size:
            at = None
        found = next_gap(gaps, order, at, middle, step, self.by_size, self._place)
        if found is None:
            return None
        gap, place = found
        self._place = place
        return f"gap {place:,} of {len(order):,}, {self.order_text}: {self.show(gap)}"

    def show(self, gap: int, of: int | None = None, example: bool = False) -> str:
        """Highlight a gap of a recording (None: the active one), bring it into view and select the event that
        ended it. Returns its length, as a message; `told` has the rest. `example`: the gap is only an example
        of something, and `next` goes to the longest gap."""
        from tracetui.analysis.idle.thread_gaps import all_gaps_of

        self._example = example
        of = self._navigator.active if of is None else of
        gaps = all_gaps_of(self._navigator.recordings[of].whole)
        self._shown[of, int(gaps.device[gap]), int(gaps.index[gap])] = gap
        self._navigator.select(_event_of(gaps, gap), of=of, reveal=False)
        self._navigator.set_gap(int(gaps.device[gap]), int(gaps.index[gap]))
        idle = sum(device.idle for device in gaps.devices if device.device == gaps.device[gap])
        part = share(int(gaps.duration[gap]) / idle)
        # In this order: a narrow screen keeps the key, and the share is in the table of gaps too.
        what, time = ("idle", "idle time") if gaps.device[gap] >= 0 else ("in no op", "time in no op")
        return f"{what} for {exact(int(gaps.duration[gap]))}; e explains it; {part} of the {time}"

    @property
    def current(self) -> int | None:
        """The highlighted gap, as long as the event that ended it is selected."""
        from tracetui.analysis.idle.thread_gaps import all_gaps_of

        marked, at = self._navigator.scene.gap, self.at
        if marked is None or at is None or marked[0] != self._navigator.active:
            return None
        return at if self._navigator.selected == _event_of(all_gaps_of(self._whole), at) else None

    @property
    def small(self) -> bool:
        """Whether the trace is so small that all about a gap is found within a frame or two."""
        return len(self._whole.trace) <= SOON

    def leave(self) -> None:
        """Remove the highlight."""
        self._navigator.set_gap(None)
