"""Walking the links of a trace: op → launch → GPU event and back, forward ↔ backward. Pure functions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tracetui.core.columns import unique
from tracetui.trace.indices import having
from tracetui.trace.model import DEVICE_WORK, I64, Kind, Trace

_DEVICE = frozenset(int(k) for k in (*DEVICE_WORK, Kind.SYNC))


class Place(NamedTuple):
    """Where a device event stands among the events of its launch."""

    number: int
    """Counted from 1, by time."""
    of: int
    first: int
    """The first event of the launch, a slice."""


def subtree(trace: Trace, i: int) -> tuple[int, int]:
    """(first, stop) of the slices of i's lane that start within it, which includes all nested ones."""
    lane = trace.lanes[int(trace.lane[i])]
    end = int(trace.start[i]) + max(1, int(trace.duration[i]))
    stop = lane.first + int(np.searchsorted(trace.start[lane.first : lane.last], end))
    return i, max(i + 1, stop)


def work_within(trace: Trace, i: int) -> I64:
    """The device events, except synchronization marks, of the calls within slice i, by call."""
    first, stop = subtree(trace, i)
    events = having(trace, "launch", first, stop)
    call = trace.launch[events]
    inside = trace.start[call] + trace.duration[call] <= trace.start[i] + trace.duration[i]
    return np.asarray(events[inside & np.isin(trace.kind[events], DEVICE_WORK)], dtype=np.int64)


def launches_within(trace: Trace, i: int) -> list[int]:
    """The runtime slices within slice i that launched something, by time."""
    found: list[int] = unique(trace.launch[work_within(trace, i)]).tolist()
    return found


def device_events(trace: Trace, launch: int) -> list[int]:
    """The device events that a runtime slice launched, by time."""
    found = having(trace, "launch", launch)
    return [int(j) for j in found[np.argsort(trace.start[found], kind="stable")]]


def place_of(trace: Trace, i: int) -> Place | None:
    """The place of device event i among the events of its launch; None if the launch is not in the trace."""
    if int(trace.launch[i]) < 0:
        return None
    events = device_events(trace, int(trace.launch[i]))
    return Place(events.index(i) + 1, len(events), events[0])


def is_device(trace: Trace, i: int) -> bool:
    """Whether slice i ran on a device."""
    return int(trace.kind[i]) in _DEVICE


def follow(trace: Trace, i: int) -> tuple[int | None, str]:
    """The slice one link forward from i, with the name of the link or why there is none."""
    if is_device(trace, i):
        place = place_of(trace, i)
        if place is None:
            return None, "this GPU event has no launch in the trace"
        if place.number < place.of:
            following = device_events(trace, int(trace.launch[i]))[place.number]
            return following, f"GPU event {place.number + 1} of {place.of} from the same launch"
        return None, "the flow ends here; [ goes back to the launch"
    if int(trace.kind[i]) == Kind.RUNTIME:
        launched = device_events(trace, i)
        if launched:
            more = f", the first of {len(launched)}" if len(launched) > 1 else ""
            return launched[0], f"{'launch' if launches_work(trace, i) else 'call'} → GPU event{more}"
        return None, "this call launched nothing"
    inside = launches_within(trace, i)
    if inside:
        more = f", the first of {len(inside)}" if len(inside) > 1 else ""
        return inside[0], f"op → launch{more}"
    other = partner(trace, i)
    if other is not None:
        return other[0], "forward ↔ backward"
    return None, "nothing was launched inside this event"


def unfollow(trace: Trace, i: int) -> tuple[int | None, str]:
    """The slice one link back from i, with the name of the link or why there is none."""
    if is_device(trace, i):
        launch = int(trace.launch[i])
        if launch >= 0:
            return launch, f"GPU event → {'launch' if launches_work(trace, launch) else 'call'}"
        if trace.op[i] >= 0:
            return int(trace.op[i]), "GPU event → op"
        return None, "this GPU event has no launch in the trace"
    if int(trace.kind[i]) == Kind.RUNTIME and int(trace.op[i]) >= 0:
        return int(trace.op[i]), f"{'launch' if launches_work(trace, i) else 'call'} → op"
    other = partner(trace, i)
    if other is not None and other[1]:
        return other[0], "backward → forward"
    parent = int(trace.parent[i])
    return (parent, "to the parent") if parent >= 0 else (None, "no link leads here")


def launches_work(trace: Trace, i: int) -> bool:
    """Whether runtime slice i put work on a device, or is a launch by name; `cudaMalloc`, for one, is not."""
    mine = trace.kind[having(trace, "launch", i)]
    return bool(np.isin(mine, DEVICE_WORK).any()) or "Launch" in trace.name_of(i)


def partner(trace: Trace, i: int) -> tuple[int, bool] | None:
    """(the other end of the flow at slice i, whether that is the forward op). None without a flow.

    `aten::linear` has no flow of its own, but the `aten::t` and `aten::mm` inside it do: of the flows within
    an op, the one whose other end takes longest counts.
    """
    stops = [i + 1, subtree(trace, i)[1]] if int(trace.kind[i]) == Kind.CPU_OP else [i + 1]
    for stop in stops:
        for here, there, back in (("flow_from", trace.flow_to, False), ("flow_to", trace.flow_from, True)):
            to = there[having(trace, here, i, stop)]
            to = to[(to < i) | (to >= stop)]
            if len(to):
                return int(to[np.argmax(trace.duration[to])]), back
    return None


def path(trace: Trace, i: int) -> list[int]:
    """The slices around i, outermost first, i itself last."""
    found, at = [i], int(trace.parent[i])
    while at >= 0:
        found.append(at)
        at = int(trace.parent[at])
    return found[::-1]
