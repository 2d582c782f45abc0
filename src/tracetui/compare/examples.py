"""Where to go to see an explanation: in each place, the event that its sentence is mostly about."""

from __future__ import annotations

import numpy as np

from tracetui.analysis.calls.sums import sum_into
from tracetui.trace.model import I64, Trace


def telling(trace: Trace, at: I64, place: I64, time: I64, count: int) -> I64:
    """For each of `count` places, the event that shows it best: the longest event of the name with the most
    time in all places, as sentences mention that name first; -1 for a place without events.

    `at`: slices; `place`, `time`: for each, its place and its time, ns. Both have the shape of `at`.
    """
    found = np.full(count, -1, dtype=np.int64)
    _, name = np.unique(trace.name[at], return_inverse=True)
    of_name = sum_into(name, time, int(name.max(initial=-1)) + 1)
    # The last one written stays: the longest event, of the name with the most time; of equal ones, the first.
    order = np.lexsort((-at, time, of_name[name]))
    found[place[order]] = at[order]
    return found


def in_pairs(a: I64, b: I64, most: I64 | None = None) -> I64:
    """The places of pairs of events, (len(a), 2): by time, or those with the most of `most` first."""
    found = np.stack([a, b], axis=1)
    order = np.argsort(a, kind="stable") if most is None else np.lexsort((a, -most))
    return found[order]
