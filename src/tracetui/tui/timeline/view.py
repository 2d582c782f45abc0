"""The timeline widget: it holds what is shown, and turns keys and clicks into moves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy.typing as npt
from textual.widget import Widget

from tracetui.timeline.viewport import Viewport
from tracetui.trace.model import I32, I64, Trace
from tracetui.tui.timeline.messages import GapId, Gaps, Mark


class TimelineView(Widget, can_focus=True):
    """Overview, ruler and lanes of a trace over one stretch of time.

    Methods change what is shown at once and draw it with the next frame; many calls cost one frame.
    `short` gives the text for a name's index (default: the name itself); it is asked once per name.
    """

    def __init__(
        self,
        trace: Trace,
        *,
        gaps: Sequence[Gaps] = (),
        short: Callable[[int], str] | None = None,
        id: str | None = None,
    ) -> None:
        super().__init__(id=id)
        self.trace = trace

    # What is shown ---------------------------------------------------------------------------------------------

    @property
    def viewport(self) -> Viewport:
        """The stretch of time on the screen."""
        raise NotImplementedError

    @property
    def selected(self) -> int | None:
        """The selected slice."""
        raise NotImplementedError

    @property
    def range_ns(self) -> tuple[int, int] | None:
        """The selected range of time, nanoseconds."""
        raise NotImplementedError

    # Moving ----------------------------------------------------------------------------------------------------

    def show(self, start_ns: int, end_ns: int) -> None:
        """Show a stretch of time, with a little air on either side. Goes into the history."""

    def fit(self) -> None:
        """Show the whole trace."""

    def zoom(self, factor: float, about: float | None = None) -> None:
        """Zoom in (over 1) or out about an instant (default: the selection where it is in view, else the centre)."""

    def pan(self, fraction: float) -> None:
        """Move by a share of the screen's width, later where positive."""

    def reveal(self, slice_index: int) -> None:
        """Move (and scroll, and unfold) just so far that a slice is in view."""

    def centre(self) -> None:
        """Centre the selection; asked again without anything in between, fit it."""

    def back(self) -> bool:
        """Return to the view before the last jump. False where there is none."""
        raise NotImplementedError

    def forward(self) -> bool:
        """Undo `back`. False where there is nothing to undo."""
        raise NotImplementedError

    # Selecting -------------------------------------------------------------------------------------------------

    def select(self, slice_index: int | None, *, reveal: bool = True, quiet: bool = False) -> None:
        """Select a slice. `reveal`: bring it into view; `quiet`: send no `SelectionChanged`."""

    def move(self, direction: str) -> bool:
        """Select "next" or "previous" in the row, or go "up" (parent, row above) or "down" (child, row below)."""
        raise NotImplementedError

    def set_range(self, start_ns: int | None, end_ns: int | None = None) -> None:
        """Mark a range of time; None takes it away."""

    # Marking ---------------------------------------------------------------------------------------------------

    def set_gaps(self, gaps: Sequence[Gaps]) -> None:
        """The gaps to draw on the devices' lanes."""

    def set_gap(self, gap: GapId | None, *, reveal: bool = True) -> None:
        """Highlight one gap."""

    def set_matches(self, slices: I64 | I32 | npt.NDArray[Any] | None) -> None:
        """Search matches: sorted slice indices, or a mask over all slices; highlighted here and in the overview."""

    def highlight_name(self, name: int | None) -> None:
        """Light up all events of a name (by default those named like the selection; None: no longer)."""

    def set_marks(self, marks: Sequence[Mark]) -> None:
        """Labelled instants, drawn in the ruler and down the lanes."""

    # Lanes -----------------------------------------------------------------------------------------------------

    def toggle_fold(self, lane: int | None = None) -> None:
        """Fold a lane to its top row, or unfold it (default: the selection's lane)."""

    def collapse_all(self) -> None:
        """Fold every lane to its top row."""

    def expand_all(self) -> None:
        """Show every row of every lane."""

    def hide_lane(self, lane: int | None = None) -> None:
        """Take a lane off the screen (default: the selection's lane)."""

    def show_hidden(self) -> None:
        """Bring all hidden lanes back."""

    def pin_lane(self, lane: int | None = None) -> None:
        """Keep a lane on the screen above the others while they scroll; again: no longer."""
