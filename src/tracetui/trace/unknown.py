"""Events of categories that are not known, on the lanes of a device: what they are, nobody has told us."""

from __future__ import annotations

import numpy as np

from tracetui.trace.intervals import union
from tracetui.trace.model import DEVICE_WORK, I64, Kind, Trace

IDLE_SHARE, SPAN_SHARE = 0.1, 0.01
"""From these shares of a device's idle time, and of the time between its first and last event, on they may be
what it did when nothing known ran."""


def unknown_events(trace: Trace) -> I64:
    """The plausible slices of unknown categories on lanes of a device, by lane."""
    lanes = [lane for lane in trace.lanes if lane.device >= 0]
    found = [lane.first + np.flatnonzero(trace.kind[lane.first : lane.last] == Kind.OTHER) for lane in lanes]
    at: I64 = np.concatenate([np.zeros(0, np.int64), *found])
    good: I64 = at[~trace.implausible[at]]
    return good


def idle_known(trace: Trace) -> bool:
    """Whether the trace shows when its devices were idle: its end is not missing, and what is not known to be
    work does not fill the time between kernels, copies and sets. Found once."""
    if "idle known" not in trace.derived:
        trace.derived["idle known"] = not trace.cut_off and not _fills(trace, unknown_events(trace))
    known: bool = trace.derived["idle known"]
    return known


def _fills(trace: Trace, at: I64) -> bool:
    if not len(at):
        return False
    device = np.array([lane.device for lane in trace.lanes], dtype=np.int64)[trace.lane]
    end = trace.start + trace.duration
    for one in np.unique(device[at]).tolist():
        work = np.flatnonzero((device == one) & trace.is_kind(*DEVICE_WORK) & ~trace.implausible)
        other = at[device[at] == one]
        # What has work of its own stream within is a range around it, not other work.
        for lane in np.unique(trace.lane[other]).tolist():
            own = work[trace.lane[work] == lane]
            beside = union(trace.start[own], end[own]).within(trace.start[other], end[other])
            other = other[(trace.lane[other] != lane) | (beside == 0)]
        both = np.concatenate([work, other])
        if not len(work) or not len(other):
            continue
        busy = union(trace.start[work], end[work]).total
        more = union(trace.start[both], end[both]).total - busy
        span = int(end[both].max() - trace.start[both].min())
        if more >= max(IDLE_SHARE * (span - busy), SPAN_SHARE * span) > 0:
            return True
    return False
