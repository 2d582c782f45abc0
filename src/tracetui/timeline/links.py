"""Which events of two recordings belong together, and where one has what the other one has not."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from msgspec import Struct

from tracetui.timeline.viewport import Viewport
from tracetui.trace.model import I32, I64, Bool

NOT_COMPARED = -1
ALONE = -2
"""In `Links.partner`: the other recording has no such event."""
THREADS = -1
"""In `Links.places`: of all threads."""


class Links(Struct, frozen=True, eq=False):
    """The links of one recording's events to those of another."""

    other: int
    """Index of that recording's source."""
    partner: I32
    """The partner of each slice, NOT_COMPARED or ALONE."""
    sign: str
    """Marks what is alone: "-" where it is gone in the other one, "+" where it is new."""
    places: Mapping[int, tuple[I64, I64]]
    """The starts and the ends of what is alone, each sorted (ns of the trace), by device or THREADS."""

    def alone_in(self, device: int, view: Viewport) -> Bool:
        """The cells in which something is alone. `view`: in the trace's time. Shape (view.width,)."""
        if device not in self.places:
            return np.zeros(view.width, dtype=np.bool_)
        starts, ends = self.places[device]
        borders = view.borders()
        begun = np.searchsorted(starts, borders[1:], side="left")
        over = np.searchsorted(ends, borders[:-1], side="right")
        return begun > over
