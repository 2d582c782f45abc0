"""A program under two sets of options in one recording, a step of each in turn: annotations `A` and `B`."""

from __future__ import annotations

import numpy as np

from tracetui.analysis.select import slices_named
from tracetui.trace import Kind, Trace
from tracetui.trace.model import I64

SIDES = ("A", "B")
FEWEST = 2
"""Rounds. One A and one B may be the names of anything."""
SOURCE = "annotations A and B"


def sides_in_turn(trace: Trace) -> I64:
    """The annotations A, B, A, B, ... of one thread, none of which overlap, without a last A that has no B
    (slices, by time). Empty if the trace does not have them in this order."""
    none = np.zeros(0, np.int64)
    at = slices_named(trace, SIDES.__contains__, Kind.ANNOTATION)
    at = at[~trace.implausible[at]]
    at = at[np.argsort(trace.start[at], kind="stable")]
    at = at[: len(at) // 2 * 2]
    if len(at) < 2 * FEWEST or len(np.unique(trace.lane[at])) > 1:
        return none
    is_b = np.array([trace.name_of(int(i)) == SIDES[1] for i in at])
    apart = (trace.start[at] + trace.duration[at])[:-1] <= trace.start[at][1:]
    return at if (is_b == (np.arange(len(at)) % 2 == 1)).all() and apart.all() else none
