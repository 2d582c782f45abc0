"""Flows: the arrows of the file, each between the two slices that its ends bind to."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from tracetui.core.columns import blocks
from tracetui.core.threads import run_parallel, threads_for
from tracetui.trace.indices import group_positions
from tracetui.trace.model import I8, I32, I64, Bool

_MANY_LANES = 64


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
    """Whether it binds to the slice around it; otherwise it binds to the next one that starts."""


def pair_flows(ends: FlowEnds) -> tuple[FlowEnds, I32, I32]:
    """(the ends that are linked, by flow and time; from and to of each link: indices into them)."""
    if not len(ends.flow):
        return (ends, *(np.zeros(0, dtype=np.int32),) * 2)
    order = _by_flow(ends)
    phase, category, flow = ends.phase[order], ends.category[order], ends.flow[order]
    same = (flow[1:] == flow[:-1]) & (category[1:] == category[:-1])
    forward = same & (phase[:-1] < 2) & (phase[1:] > 0)
    # Two ends alone belong together even if the clocks put the second one first.
    alone = same.copy()
    alone[1:] &= ~same[:-1]
    alone[:-1] &= ~same[1:]
    backward = alone & (phase[:-1] == 2) & (phase[1:] == 0)
    linked = np.zeros(len(order), dtype=np.bool_)
    for mask in (forward, backward):
        linked[1:] |= mask
        linked[:-1] |= mask
    place = np.cumsum(linked, dtype=np.int32) - 1
    a = np.concatenate((place[:-1][forward], place[1:][backward]))
    b = np.concatenate((place[1:][forward], place[:-1][backward]))
    order = order[linked]
    kept: list[Any] = [column[order] for column in ends]
    return FlowEnds(*kept), a, b


def link_flows(
    ends: FlowEnds, a: I32, b: I32, start: I64, duration: I64, parent: I32, firsts: Sequence[int]
) -> tuple[I32, I32, I32]:
    """(from, to, category) of the flows with a slice at both ends; arrays of one length.

    `ends`, `a`, `b`: see `pair_flows`; `start`, `duration`, `parent`: for each slice; `firsts`: the first
    slice of each lane, and the number of slices.
    """
    slices = _bind(ends, start, duration, parent, firsts)
    both = (slices[a] >= 0) & (slices[b] >= 0)
    a, b = a[both], b[both]
    by_start = np.argsort(slices[a], kind="stable")
    a, b = a[by_start], b[by_start]
    return slices[a], slices[b], ends.category[a]


def _by_flow(ends: FlowEnds) -> I32:
    """Order by (category, flow, time, phase)."""
    low, high = int(ends.flow.min()), int(ends.flow.max())
    bits = (high - low).bit_length()
    if bits + int(ends.category.max()).bit_length() > 62:
        return np.lexsort((ends.phase, ends.time, ends.flow, ends.category)).astype(np.int32)
    key = (ends.category.astype(np.int64) << bits) + (ends.flow - low)
    order = np.argsort(key, kind="stable").astype(np.int32)
    key = key[order]
    same = key[1:] == key[:-1]
    del key
    # Most flows have two ends: sort by time only those that are out of order.
    at = np.flatnonzero(same)
    one, two = order[at], order[at + 1]
    late, later = ends.time[one], ends.time[two]
    wrong = at[(later < late) | ((later == late) & (ends.phase[two] < ends.phase[one]))]
    if len(wrong):
        flow = np.zeros(len(order), dtype=np.int32)
        np.cumsum(~same, out=flow[1:])
        tangled = np.zeros(int(flow[-1]) + 1, dtype=np.bool_)
        tangled[flow[wrong]] = True
        at = np.flatnonzero(tangled[flow])
        mine = order[at]
        order[at] = mine[np.lexsort((ends.phase[mine], ends.time[mine], flow[at]))]
    return order


def _bind(ends: FlowEnds, start: I64, duration: I64, parent: I32, firsts: Sequence[int]) -> I32:
    """The slice that each flow end binds to, else -1."""
    found = np.full(len(ends.flow), -1, dtype=np.int32)
    lanes, times = ends.lane, ends.time

    used = np.flatnonzero(np.bincount(lanes[lanes >= 0])).tolist()
    # One pass per lane takes hardly any memory, but very long if there are very many lanes.
    many = dict(group_positions(lanes, len(firsts))) if len(used) > _MANY_LANES else {}

    def within(lane: int) -> None:
        at = (many[lane] if many else np.flatnonzero(lanes == lane)).astype(np.int32)
        # Searching for sorted times is several times as fast.
        at = at[np.argsort(times[at], kind="stable")]
        for low, high in blocks(0, len(at)):
            some(at[low:high], firsts[lane], firsts[lane + 1])

    def some(at: I32, first: int, last: int) -> None:
        inside = ends.encloses[at]
        own, next_one = at[inside], at[~inside]
        place = np.searchsorted(start[first:last], times[next_one], side="left") + first
        found[next_one] = np.where(place < last, place, -1)
        around = np.searchsorted(start[first:last], times[own], side="right") - 1 + first
        around[around < first] = -1
        left = np.flatnonzero(around >= 0)
        while len(left):
            slices = around[left]
            left = left[start[slices] + duration[slices] < times[own[left]]]
            around[left] = parent[around[left]]
            left = left[around[left] >= 0]
        found[own] = around

    run_parallel([partial(within, lane) for lane in used], threads_for(len(lanes)))
    return found
