"""The replay itself: when each node of a recording ends, given how long everything takes.

Nodes are in the order in which the CPU comes to them. The CPU's own time is a running sum that is made before
(`Nodes.cpu`), so that one pass over device events and waits is all that is left. The library made from
replay.c does it where it is installed.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from tracetui.core.native import load_library
from tracetui.trace.model import F64, I8, I64

WORK, WAIT, MARK, QUEUED, GONE = range(5)
"""Kinds of nodes: a device event; a call that waits for some; the end of a step; a device event that was
launched before the recording, or nobody knows when; one that is taken out: what waits for it waits for what
it waited for."""
NOTHING, CPU = -2, -1
"""What a node waits for that waits for no other node."""


class Nodes(Struct, frozen=True):
    """What the recursion needs, one row per node. Times in ns."""

    kind: I8
    cpu: F64
    """The CPU's running sum where it comes to the node: the end of the launch, the start of the wait."""
    least: F64
    """From there to the earliest start of the event; of a wait, its least length; of what is queued, when it
    starts."""
    before: I64
    """The node before it in its stream, -1 for none."""
    gap: F64
    """From the end of that one to its start."""
    first: I64
    """Rows `first[i]` to `first[i + 1]` of `on` are what node i waits for, too. One longer than the rest."""
    on: I64
    on_gap: F64
    """From the end of each of these to the start of the event or the end of the wait."""
    late: F64
    """How much later it came than all this explains."""
    length: F64
    """How long the event runs; 0 for others."""


class Result(Struct, frozen=True):
    """When each node begins and ends, and what held it up: a node, `CPU`, or `NOTHING`."""

    begin: F64
    end: F64
    bound: I64


def _load() -> ctypes.CDLL | None:
    library = load_library(Path(__file__).with_name("replay.c"))
    if library is not None:
        address, number = ctypes.c_void_p, ctypes.c_int64
        library.run.argtypes = [number, *[address] * 13]
        library.back.argtypes = [number, *[address] * 4]
        library.run.restype = library.back.restype = None
    return library


LIBRARY = _load()
"""None where it is not installed."""


def _call(function: Any, count: int, *arrays: Any) -> Any:
    return function(count, *(array.ctypes.data for array in arrays))


def run(nodes: Nodes) -> Result:
    """When each node ends."""
    count = len(nodes.kind)
    begin, end, bound = np.zeros(count), np.zeros(count), np.full(count, NOTHING, np.int64)
    if LIBRARY is not None:
        arrays = [np.ascontiguousarray(getattr(nodes, name)) for name in Nodes.__struct_fields__]
        _call(LIBRARY.run, count, *arrays, begin, end, bound)
        return Result(begin, end, bound)
    columns = [getattr(nodes, name).tolist() for name in Nodes.__struct_fields__]
    kind, cpu, least, before, gap, first, on, on_gap, late, length = columns
    begun, over, by = [0.0] * count, [0.0] * count, [NOTHING] * count
    shift, latest, last = 0.0, -1e300, NOTHING
    for i in range(count):
        now = cpu[i] + shift
        if kind[i] == MARK:
            begun[i] = over[i] = max(now, latest)
            by[i] = last if latest > now else CPU
            continue
        at = -1e300 if kind[i] == GONE else (0.0 if kind[i] == QUEUED else now) + least[i]
        held = NOTHING if kind[i] in (QUEUED, GONE) else CPU
        if before[i] >= 0 and over[before[i]] + gap[i] > at:
            at, held = over[before[i]] + gap[i], before[i]
        for k in range(first[i], first[i + 1]):
            if over[on[k]] + on_gap[k] > at:
                at, held = over[on[k]] + on_gap[k], on[k]
        at += late[i]
        by[i] = held
        if kind[i] == WAIT:
            begun[i], over[i] = now, at
            shift = at - cpu[i]
        else:
            begun[i], over[i] = at, at + length[i]
            if over[i] > latest and kind[i] != GONE:
                latest, last = over[i], i
    return Result(np.array(begun), np.array(over), np.array(by, np.int64))


def back(kind: I8, bound: I64, weight: F64) -> tuple[F64, F64]:
    """From the weight of each mark: (how much later the marks come, weighted, if a node takes longer; the
    same for the CPU's time between each node and the one before it)."""
    weight, flow = weight.astype(np.float64), np.zeros(len(weight))
    if LIBRARY is not None:
        _call(LIBRARY.back, len(kind), np.ascontiguousarray(kind), bound, weight, flow)
        return weight, flow
    kinds, bounds, weights, cpu = kind.tolist(), bound.tolist(), weight.tolist(), 0.0
    for i in range(len(kinds) - 1, -1, -1):
        at = bounds[i]
        if kinds[i] == WAIT:
            weights[i] = cpu
            if at >= 0:
                weights[at] += cpu
                cpu = 0.0
        elif at >= 0:
            weights[at] += weights[i]
        elif at == CPU:
            cpu += weights[i]
        flow[i] = cpu
    return np.array(weights), flow
