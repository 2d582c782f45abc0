"""Walking through the gaps of a trace, by size or by time. Pure functions."""

from __future__ import annotations

import numpy as np

from tracetui.analysis.gap_list import GapList
from tracetui.trace.model import I64


def gap_order(gaps: GapList, by_size: bool, minimum: int = 0) -> I64:
    """The gaps of at least `minimum` ns in the order of a walk: the longest first, or by time."""
    order = np.argsort(-gaps.duration if by_size else gaps.start, kind="stable")
    return order[gaps.duration[order] >= minimum]


def next_gap(
    gaps: GapList, order: I64, at: int | None, time: float, step: int, by_size: bool
) -> tuple[int, int] | None:
    """(the gap to go to, its place in `order` from 1), from gap `at` or from a time.

    By size the longest comes first; by time the one after (before) the time. Around the ends.
    None where there are no gaps.
    """
    if not len(order):
        return None
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
