"""Python frames that last as long as the first view: one row instead of many.

A trace with stacks begins with `<module>`, `main`, `run`, ...: a dozen rows that say nothing. Each lane's
chain of such frames, one within the other, is drawn as one bar, and what lies below moves up: nothing else
is hidden. It depends on the trace alone, so that the rows stay where they are at every zoom.
"""

from __future__ import annotations

import numpy as np

from tracetui.trace.categories import CATEGORY_KINDS
from tracetui.trace.model import I32, I64, Kind, Trace, cached_on_trace

SPANNING = 0.98
"""The least part of the first view that such a frame lasts."""
LEAST = 3
"""Fewer frames keep a row each."""


def spanning_frames(trace: Trace, lane: int) -> I64:
    """The slices of a lane's chain, from the outermost to the innermost; none if there are fewer than
    `LEAST`."""
    first, last = trace.lanes[lane].first, trace.lanes[lane].last
    low, high = trace.first_view
    # Quick where there are very many lanes.
    if high <= low or trace.lanes[lane].rows < LEAST or not _has_frames(trace):
        return np.zeros(0, dtype=np.int64)
    start, duration = trace.start[first:last], trace.duration[first:last]
    long = np.flatnonzero(trace.kind[first:last] == int(Kind.PYTHON))
    long = long[duration[long] >= SPANNING * (high - low)]
    seen = np.minimum(start[long] + duration[long], high) - np.maximum(start[long], low)
    found: I64 = long[seen >= SPANNING * (high - low)] + first
    # The parent may be an annotation that lies below, in rows of its own.
    end, depth = trace.end_of(found), trace.depth[found]
    nested = (end[1:] <= end[:-1]) & (depth[1:] == depth[:-1] + 1)
    chain = found[: int(np.argmin(np.append(nested, False))) + 1]
    return chain if len(chain) >= LEAST else chain[:0]


@cached_on_trace
def _has_frames(trace: Trace) -> bool:
    return any(CATEGORY_KINDS.get(category.lower()) == Kind.PYTHON for category in trace.categories)


def depths_with(trace: Trace, lane: int, chain: I64) -> I32:
    """The row of each slice of a lane when a chain takes one row; -1 for the chain, without its innermost."""
    first, last = trace.lanes[lane].first, trace.lanes[lane].last
    depth, parent = trace.depth[first:last].astype(np.int32), trace.parent[first:last]
    # In order of start: a frame of the chain contains all that comes after it and begins before its end.
    within = np.zeros(last - first + 1, dtype=np.int32)
    np.add.at(within, chain - first + 1, 1)
    ends = trace.end_of(chain)
    np.add.at(within, np.maximum(np.searchsorted(trace.start[first:last], ends), chain - first + 1), -1)
    up = np.maximum(np.cumsum(within)[:-1] - 1, 0)
    # What crosses another's end is below all the rest, with its own children: those rows move up together.
    above = np.where(parent >= 0, trace.depth[np.maximum(parent, 0)] + 1, 0)
    aside = int(depth[depth > above].min(initial=np.iinfo(np.int32).max))
    found: I32 = (depth - np.where(depth >= aside, len(chain) - 1, up)).astype(np.int32)
    found[chain[:-1] - first] = -1
    found[chain[-1] - first] = depth[chain[0] - first]
    return found
