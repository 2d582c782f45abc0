"""The critical path: what held up the end of the last step, and so on back to the beginning of the first."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from tracetui.analysis.part import Part, fact_of_trace
from tracetui.replay.engine import QUEUED, WAIT, WORK, back
from tracetui.replay.graph import graph_of
from tracetui.replay.scenario import replay
from tracetui.trace.model import I64

HALF = 0.5


class Path(Struct, frozen=True, eq=False):
    """Stretches of the path by time. Arrays of one length. What lies between two is a latency, a gap, a
    return, or a delay that nothing explains."""

    start: I64
    """As measured, ns."""
    end: I64
    slices: I64
    """The device event; -1 where it is the CPU's time."""
    lane: int
    """The thread that drives, -1 for none."""


@fact_of_trace
def critical_path(part: Part) -> Path:
    """The path through all steps."""
    graph = graph_of(part)
    steps = replay(graph)
    weight = np.zeros(len(steps.end))
    weight[graph.marks[-1]] += 1
    weight[graph.marks[0]] -= 1
    kind = steps.nodes.kind
    of_nodes, flow = back(kind, steps.result.bound, weight)
    work = np.flatnonzero((of_nodes > HALF) & ((kind == WORK) | (kind == QUEUED)))
    begin, end = graph.begin[work], graph.measured[work].astype(np.int64)
    # The CPU's time before each node, from the node before it.
    over = np.where(kind == WAIT, graph.measured, graph.at).astype(np.int64)
    since = np.maximum.accumulate(np.append(part.trace.span[0], over[:-1]))
    on_cpu = np.flatnonzero((flow > HALF) & (graph.at > since))
    low, high = since[on_cpu], graph.at[on_cpu]
    first = np.flatnonzero(np.append(True, low[1:] > high[:-1])[: len(low)])
    last = np.append(first[1:], len(low))[: len(first)] - 1
    low, high = low[first], high[last]
    start, over = np.concatenate([begin, low]), np.concatenate([end, high])
    slices = np.concatenate([graph.slices[work], np.full(len(low), -1)])
    order = np.argsort(start, kind="stable")
    return Path(start[order], over[order], slices[order], graph.driver.lane)
