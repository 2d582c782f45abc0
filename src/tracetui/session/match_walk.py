"""Walking through matches in order of time."""

from __future__ import annotations

import numpy as np

from tracetui.trace.model import I64, Bool, Trace


def by_time(trace: Trace, mask: Bool) -> I64:
    """The slices of a mask by start."""
    found = np.flatnonzero(mask)
    return found[np.argsort(trace.start[found], kind="stable")]


def next_match(trace: Trace, found: I64, at: int | None, time: float, step: int) -> int | None:
    """The place in `found` to go to: from slice `at`, or from `time` without one. Around the ends."""
    if not len(found):
        return None
    if at is not None:
        here = np.flatnonzero(found == at)
        if len(here):
            return int(here[0] + step) % len(found)
        time = float(trace.start[at])
    place = int(np.searchsorted(trace.start[found], time))
    return (place if step > 0 else place - 1) % len(found)
