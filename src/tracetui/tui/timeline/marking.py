"""What is drawn over the lanes: gaps, matches, names that light up, marks, series; and in which colours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tracetui.timeline import moves
from tracetui.timeline.scene import Idle
from tracetui.timeline.series import Series
from tracetui.timeline.themes import Theme
from tracetui.tui.timeline.messages import GapId, Gaps, Mark
from tracetui.tui.timeline.setup import theme_of, themed

if TYPE_CHECKING:
    from tracetui.tui.timeline.view import TimelineView


class Marking:
    """Calls for `TimelineView`."""

    def set_gaps(self: TimelineView, gaps: Sequence[Gaps]) -> None:  # type: ignore[misc]
        """The gaps to draw on the devices' lanes."""
        self._change(gaps={g.device: Idle(g.start, g.end) for g in gaps})

    def set_gap(self: TimelineView, gap: GapId | None, *, reveal: bool = True) -> None:  # type: ignore[misc]
        """Highlight one gap."""
        self._change(gap=None if gap is None else (gap.device, gap.index))
        if gap is not None and reveal:
            self._go(moves.gap_shown(self._scene, gap.device, gap.index, self.size.height))

    def set_matches(self: TimelineView, slices: npt.NDArray[np.generic] | None) -> None:  # type: ignore[misc]
        """Search matches, as sorted slice indices or a mask; highlighted here and in the overview."""
        mask: npt.NDArray[np.bool_] | None = None
        if slices is not None:
            mask = np.zeros(len(self.trace), dtype=np.bool_)
            mask[slices] = True
        self._change(matches=mask)

    def set_marks(self: TimelineView, marks: Sequence[Mark]) -> None:  # type: ignore[misc]
        """Labelled instants, drawn in the ruler and down the lanes."""
        self._change(marks=tuple((m.time_ns, m.label) for m in marks))

    def go_to(self: TimelineView, time_ns: int) -> None:  # type: ignore[misc]
        """Move to an instant and draw a line at it. Goes into the history."""
        self._go(moves.gone_to(self._scene, time_ns), jump=True)

    def leave_instant(self: TimelineView) -> None:  # type: ignore[misc]
        """Take the line of `go_to` away."""
        self._change(instant=None)

    def set_series(self: TimelineView, series: Sequence[Series]) -> None:  # type: ignore[misc]
        """The values over time to draw below the lanes, in order."""
        height = self.size.height
        scene = moves.refitted(self.scene, self.with_series(series), height, height)
        self._change(series=tuple(series), layout=scene.layout, top=scene.top)

    def set_theme(self: TimelineView, theme: Theme | None) -> None:  # type: ignore[misc]
        """Other colours; None follows the app's theme."""
        self._given_theme = theme
        self._change(fixed=themed(self._scene.fixed, theme or theme_of(self.app)))
