"""The nodes of the backward pass, and what runs in them besides gradients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetui.analysis.calls.ancestors import first_marked
from tracetui.analysis.calls.launches import launches_of
from tracetui.analysis.device_work import work_time
from tracetui.analysis.part import Part, fact
from tracetui.analysis.select import name_mask
from tracetui.analysis.steps.scope import slices_of
from tracetui.trace import Kind
from tracetui.trace.indices import group_positions
from tracetui.trace.intervals import union
from tracetui.trace.slices import Slices

_CHECKS = ("aten::isnan", "aten::_is_any_true", "aten::item")
ANOMALY_SHARE = 0.05
RECOMPUTED, RECOMPUTED_SHARE = 4, 0.05
"""So few ops, or so small a part of the time, are not called recomputation."""
_MODULES = """
    batch_norm conv1d conv2d conv3d dropout embedding gelu group_norm layer_norm linear relu rms_norm
    scaled_dot_product_attention silu softmax
"""
_FORWARD = frozenset(f"aten::{name}" for name in _MODULES.split())
"""Ops of modules that no formula of a gradient calls."""


def is_node(name: str) -> bool:
    """Whether an op of this name is a node of the backward pass."""
    return name.startswith("autograd::engine::evaluate_function")


def checked_for_nan(part: Part) -> Slices:
    """The ops with which autograd's anomaly mode looks at what every node of the backward pass returns."""
    trace, test = part.trace, name_mask(part.trace, "aten::_is_any_true".__eq__)
    at = slices_of(part, Kind.CPU_OP, _CHECKS.__contains__)
    node = trace.parent[at]
    inside = node >= 0
    inside[inside] = name_mask(part.trace, is_node)[trace.name[node[inside]]]
    at, node = at[inside], node[inside]
    return at[np.isin(node, node[test[at.name]])]


@fact
def searches_for_nan(part: Part) -> bool:
    """Whether that takes a noticeable part of the time."""
    span = part.length
    return bool(span) and checked_for_nan(part).time >= ANOMALY_SHARE * span


@dataclass(frozen=True)
class Recomputed:
    """Forward ops that the backward pass runs again."""

    ops: Slices
    calls: list[tuple[int, int]]
    """(name, calls), most first."""
    nodes: int
    """Nodes of the backward pass in which they run."""
    cpu_ns: int
    """From the first of them in a node to the last one's end."""
    device_ns: int
    """Time of the device work that is launched meanwhile."""


def recomputed_ops(part: Part) -> Recomputed | None:
    """What the backward pass computes again; None where that is little."""
    trace, launches = part.trace, launches_of(part)
    at = slices_of(part, Kind.CPU_OP, _FORWARD.__contains__).at
    nodes_of = name_mask(part.trace, is_node)
    node = first_marked(trace, at, nodes_of[trace.name])
    at, node = at[node >= 0], node[node >= 0]
    names, calls = np.unique(trace.name[at], return_counts=True)
    if len(names) < 2 or len(at) < RECOMPUTED:
        return None
    nodes, which = np.unique(node, return_inverse=True)
    start, end = np.full(len(nodes), np.iinfo(np.int64).max), np.zeros(len(nodes), dtype=np.int64)
    np.minimum.at(start, which, trace.start[at])
    np.maximum.at(end, which, trace.end_of(at))
    begun, event = trace.start[launches.launch], [launches.event[:0]]
    launched = dict(group_positions(trace.lane[launches.launch], len(trace.lanes)))
    for lane, mine in group_positions(trace.lane[nodes], len(trace.lanes)):
        some = launched.get(lane, mine[:0])
        inside = union(start[mine], end[mine]).holds(begun[some])
        event.append(launches.event[some[inside]])
    spent, device = int((end - start).sum()), int(trace.duration[np.concatenate(event)].sum())
    if max(device / max(1, work_time(part)), spent / max(1, part.length)) < RECOMPUTED_SHARE:
        return None
    order = np.argsort(-calls, kind="stable")
    listed = [(int(names[i]), int(calls[i])) for i in order]
    return Recomputed(Slices(trace, at), listed, len(nodes), spent, device)
