"""Links between slices: device event -> launch and -> op, and flows such as forward -> backward."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tracetui.trace.model import DEVICE_WORK, I8, I32, I64, NO_ID, Bool, Kind

_BLOCK = 1 << 17


def _kinds(kind: I8, *wanted: Kind) -> Bool:
    table = np.zeros(128, dtype=np.bool_)
    table[list(wanted)] = True
    return np.asarray(table[kind], dtype=np.bool_)


def _indices(mask: Bool) -> I32:
    return np.flatnonzero(mask).astype(np.int32)


def link_launches(kind: I8, start: I64, correlation: I64, rank: I32 | None = None) -> I32:
    """For each device event, the runtime event with its correlation, else -1. Shape (n,).

    `rank`: in a file of several ranks, the rank of each event; ids are unique within one only.
    """
    launch = np.full(len(kind), -1, dtype=np.int32)
    known = correlation != NO_ID
    runtime = _indices(_kinds(kind, Kind.RUNTIME) & known)
    device = _indices(_kinds(kind, *DEVICE_WORK, Kind.SYNC) & known)
    launch[device] = _match_within(rank, correlation, start, runtime, device)
    return launch


def link_ops(kind: I8, start: I64, correlation: I64, external: I64, rank: I32 | None = None) -> I32:
    """For each device or runtime event, the op with its `External id`, else -1. Shape (n,). `rank`: see
    `link_launches`."""
    op = np.full(len(kind), -1, dtype=np.int32)
    known = external != NO_ID
    ops = _indices(_kinds(kind, Kind.CPU_OP) & known)
    # A synchronisation may have its own correlation there, which belongs to no op.
    known &= ~(_kinds(kind, Kind.SYNC) & (external == correlation))
    linked = _indices(_kinds(kind, *DEVICE_WORK, Kind.SYNC, Kind.RUNTIME) & known)
    del known
    op[linked] = _match_within(rank, external, start, ops, linked)
    return op


def _match_within(rank: I32 | None, ids: I64, start: I64, targets: I32, seekers: I32) -> I32:
    """`_match` within each rank."""
    if rank is None:
        return _match(ids, start, targets, seekers)
    found = np.full(len(seekers), -1, dtype=np.int32)
    of_target, of_seeker = rank[targets], rank[seekers]
    for one in np.unique(of_seeker).tolist():
        mine = of_seeker == one
        found[mine] = _match(ids, start, targets[of_target == one], seekers[mine])
    return found


def _match(ids: I64, start: I64, targets: I32, seekers: I32) -> I32:
    """For each seeker, the target with its id; of several, the last that does not start after it, else the
    first."""
    found = np.full(len(seekers), -1, dtype=np.int32)
    if not len(targets) or not len(seekers):
        return found
    offered = ids[targets]
    order = np.argsort(offered, kind="stable").astype(np.int32)
    offered = offered[order]
    repeated = bool((offered[1:] == offered[:-1]).any())
    if repeated:
        order = np.lexsort((start[targets], ids[targets])).astype(np.int32)
    targets = targets[order]
    del order
    for a in range(0, len(seekers), _BLOCK):
        part = seekers[a : a + _BLOCK]
        wanted = ids[part]
        first = np.searchsorted(offered, wanted, side="left")
        there = np.flatnonzero(offered[np.minimum(first, len(offered) - 1)] == wanted)
        if repeated:
            found[a + there] = _latest(
                offered, targets, start, wanted[there], first[there], start[part[there]]
            )
        else:
            found[a + there] = targets[first[there]]
    return found


def _latest(offered: I64, targets: I32, start: I64, wanted: I64, first: I64, moment: I64) -> I32:
    """Of the targets with one id, in order of time from `first` on, the last that does not start after
    `moment`."""
    last = np.searchsorted(offered, wanted, side="right")
    pick = last - 1
    late = np.flatnonzero((last - first > 1) & (start[targets[pick]] > moment))
    for at in late.tolist():
        same = start[targets[first[at] : last[at]]]
        pick[at] = max(first[at], first[at] + int(np.searchsorted(same, moment[at], side="right")) - 1)
    return targets[pick]


class FlowEnds(NamedTuple):
    """Flow events (`s`, `t`, `f`), in the order of the file. Arrays of one length."""

    phase: I8
    """0 for `s`, 1 for `t`, 2 for `f`."""
    category: I32
    flow: I64
    lane: I32
    """-1 if the thread has no lane."""
    time: I64
    encloses: Bool
    """Binds to the slice around it; otherwise to the next one that starts."""


def link_flows(
    ends: FlowEnds, begin: I64, finish: I64, parent: I32, lane_first: I64, lane_last: I64
) -> tuple[I32, I32, I32]:
    """(from, to, category) of the flows whose both ends are slices; arrays of one length.

    `begin`, `finish`: start and end of each slice; `lane_first`, `lane_last`: where each lane's slices are.
    """
    if not len(ends.flow):
        return (np.zeros(0, dtype=np.int32),) * 3
    order = _by_flow(ends)
    phase, category, flow = ends.phase[order], ends.category[order], ends.flow[order]
    same = (flow[1:] == flow[:-1]) & (category[1:] == category[:-1])
    forward = same & (phase[:-1] < 2) & (phase[1:] > 0)
    # A pair by itself belongs together even where the clocks put its end first.
    alone = same.copy()
    alone[1:] &= ~same[:-1]
    alone[:-1] &= ~same[1:]
    backward = alone & (phase[:-1] == 2) & (phase[1:] == 0)
    a = np.concatenate((np.flatnonzero(forward), np.flatnonzero(backward) + 1))
    b = np.concatenate((np.flatnonzero(forward) + 1, np.flatnonzero(backward)))
    linked = np.zeros(len(order), dtype=np.bool_)
    linked[a] = linked[b] = True
    used = np.flatnonzero(linked)
    slices = np.full(len(order), -1, dtype=np.int64)
    slices[used] = _bind(ends, order[used], begin, finish, parent, lane_first, lane_last)
    both = (slices[a] >= 0) & (slices[b] >= 0)
    a, b = a[both], b[both]
    by_start = np.argsort(slices[a], kind="stable")
    a, b = a[by_start], b[by_start]
    return slices[a].astype(np.int32), slices[b].astype(np.int32), category[a].astype(np.int32)


def _by_flow(ends: FlowEnds) -> I64:
    """Order by (category, flow, time, phase)."""
    low, high = int(ends.flow.min()), int(ends.flow.max())
    bits = (high - low).bit_length()
    if bits + int(ends.category.max()).bit_length() > 62:
        return np.lexsort((ends.phase, ends.time, ends.flow, ends.category))
    key = (ends.category.astype(np.int64) << bits) + (ends.flow - low)
    order = np.argsort(key, kind="stable")
    key = key[order]
    # Most flows have two ends: sort by time only those that are out of order.
    same = key[1:] == key[:-1]
    time, phase = ends.time[order], ends.phase[order]
    wrong = same & ((time[1:] < time[:-1]) | ((time[1:] == time[:-1]) & (phase[1:] < phase[:-1])))
    if wrong.any():
        flow = np.zeros(len(key), dtype=np.int32)
        np.cumsum(~same, out=flow[1:])
        tangled = np.zeros(int(flow[-1]) + 1, dtype=np.bool_)
        tangled[flow[1:][wrong]] = True
        at = np.flatnonzero(tangled[flow])
        order[at] = order[at][np.lexsort((phase[at], time[at], key[at]))]
    return order


def _bind(
    ends: FlowEnds, which: I64, begin: I64, finish: I64, parent: I32, lane_first: I64, lane_last: I64
) -> I64:
    """The slice that each of the flow ends `which` binds to, else -1."""
    found = np.full(len(which), -1, dtype=np.int64)
    lanes, times = ends.lane[which], ends.time[which]
    for lane in np.flatnonzero(np.bincount(lanes[lanes >= 0])).tolist():
        first, last = int(lane_first[lane]), int(lane_last[lane])
        at = np.flatnonzero(lanes == lane)
        # Searching for sorted times is several times as fast.
        at = at[np.argsort(times[at], kind="stable")]
        place = np.searchsorted(begin[first:last], times[at], side="right") - 1 + first
        around = np.where(place >= first, place, -1)
        while True:
            over = around >= 0
            over[over] = finish[around[over]] < times[at[over]]
            if not over.any():
                break
            around[over] = parent[around[over]]
        following = np.searchsorted(begin[first:last], times[at], side="left") + first
        following = np.where(following < last, following, -1)
        found[at] = np.where(ends.encloses[which[at]], around, following)
    return found


def count_before_launch(launch: I32, start: I64) -> tuple[int, int]:
    """Device events that start before their launch: (how many, the largest lead in nanoseconds)."""
    at = np.flatnonzero(launch >= 0)
    lead = start[launch[at]] - start[at]
    early = lead[lead > 0]
    return len(early), int(early.max()) if len(early) else 0
