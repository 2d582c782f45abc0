"""Walking the links of a trace: op → launch → device event and back, forward ↔ backward. Pure functions."""

from __future__ import annotations

import numpy as np

from tracetui.trace.model import DEVICE_WORK, Kind, Trace

_DEVICE = frozenset(int(k) for k in (*DEVICE_WORK, Kind.SYNC))


def subtree(trace: Trace, i: int) -> tuple[int, int]:
    """(first, stop) of the slices of i's lane that start within it, which includes all nested ones."""
    lane = trace.lanes[int(trace.lane[i])]
    end = int(trace.start[i]) + max(1, int(trace.duration[i]))
    stop = lane.first + int(np.searchsorted(trace.start[lane.first : lane.last], end))
    return i, max(i + 1, stop)


def launches_within(trace: Trace, i: int) -> list[int]:
    """The runtime slices within slice i that launched something, by time."""
    first, stop = subtree(trace, i)
    launched = np.unique(trace.launch[trace.launch >= 0])
    lo, hi = np.searchsorted(launched, [first, stop])
    ends = trace.start[i] + trace.duration[i]
    return [int(j) for j in launched[lo:hi] if trace.start[j] + trace.duration[j] <= ends]


def device_events(trace: Trace, launch: int) -> list[int]:
    """The device events that a runtime slice launched, by time."""
    found = np.flatnonzero(trace.launch == launch)
    return [int(j) for j in found[np.argsort(trace.start[found], kind="stable")]]


def is_device(trace: Trace, i: int) -> bool:
    """Whether slice i ran on a device."""
    return int(trace.kind[i]) in _DEVICE


def follow(trace: Trace, i: int) -> tuple[int | None, str]:
    """The slice one link forward from i, with the name of the link or why there is none."""
    if is_device(trace, i):
        launch = int(trace.launch[i])
        if launch < 0:
            return None, "this device event has no launch in the trace"
        siblings = device_events(trace, launch)
        at = siblings.index(i)
        if at + 1 < len(siblings):
            return siblings[at + 1], f"device event {at + 2} of {len(siblings)} of the same launch"
        return None, "the flow ends here; [ goes back to the launch"
    if int(trace.kind[i]) == Kind.RUNTIME:
        launched = device_events(trace, i)
        if launched:
            more = f", the first of {len(launched)}" if len(launched) > 1 else ""
            return launched[0], f"launch → device event{more}"
        return None, "this call launched nothing"
    inside = launches_within(trace, i)
    if inside:
        more = f", the first of {len(inside)}" if len(inside) > 1 else ""
        return inside[0], f"op → launch{more}"
    partner = backward(trace, i)
    if partner is not None:
        return partner, "forward ↔ backward"
    return None, "nothing was launched within this event"


def unfollow(trace: Trace, i: int) -> tuple[int | None, str]:
    """The slice one link back from i, with the name of the link or why there is none."""
    if is_device(trace, i):
        launch = int(trace.launch[i])
        if launch >= 0:
            return launch, "device event → launch"
        if trace.op[i] >= 0:
            return int(trace.op[i]), "device event → op"
        return None, "this device event has no launch in the trace"
    if int(trace.kind[i]) == Kind.RUNTIME and int(trace.op[i]) >= 0:
        return int(trace.op[i]), "launch → op"
    partner = backward(trace, i)
    if partner is not None and partner in forward_of(trace, i):
        return partner, "backward → forward"
    parent = int(trace.parent[i])
    return (parent, "to the parent") if parent >= 0 else (None, "nothing leads here")


def forward_of(trace: Trace, i: int) -> list[int]:
    """Slices with a flow to i."""
    return [int(j) for j in trace.flow_from[trace.flow_to == i]]


def backward(trace: Trace, i: int) -> int | None:
    """The other end of the flow at slice i: its backward op, or the forward op that it belongs to."""
    ahead = trace.flow_to[trace.flow_from == i]
    if len(ahead):
        return int(ahead[0])
    behind = forward_of(trace, i)
    return behind[0] if behind else None


def path(trace: Trace, i: int) -> list[int]:
    """The slices around i, outermost first, i itself last."""
    found, at = [i], int(trace.parent[i])
    while at >= 0:
        found.append(at)
        at = int(trace.parent[at])
    return found[::-1]
