"""What the rules and the efficiency table ask about device events: decoded names, and the op behind each."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tracetui.analysis.ancestors import climb_to
from tracetui.analysis.kernel_names import decode
from tracetui.analysis.kernels.model import KernelName
from tracetui.trace import DEVICE_WORK, Kind, Trace
from tracetui.trace.model import I64


def device_work(trace: Trace) -> I64:
    """Every kernel, copy and memset that is not odd, by time. Slice indices."""
    at = np.flatnonzero(trace.is_kind(*DEVICE_WORK) & ~trace.implausible)
    return at[np.argsort(trace.start[at], kind="stable")]


def decoded_names(trace: Trace, events: I64) -> dict[int, KernelName]:
    """The decoded name of each distinct name among ``events``, by its index into ``trace.names``."""
    return {int(i): decode(trace.names[int(i)]) for i in np.unique(trace.name[events])}


def op_behind(trace: Trace, events: I64) -> I64:
    """The op that launched each device event: the one whose id it carries, or the one around its launch; -1
    for none.

    The work of a graph launch belongs to no op: every kernel of a graph carries the id of whatever op was
    around the launch.
    """
    launch = trace.launch[events]
    graph = np.fromiter(("GraphLaunch" in name for name in trace.names), np.bool_, len(trace.names))
    op = np.asarray(trace.op[events], dtype=np.int64)
    op = np.where((op >= 0) & (trace.kind[op] == Kind.CPU_OP), op, -1)
    missing = np.flatnonzero((op < 0) & (launch >= 0))
    if len(missing):
        op[missing] = climb_to(
            trace, trace.parent[launch[missing]].astype(np.int64), lambda at, _: trace.kind[at] == Kind.CPU_OP
        )
    if graph.any():
        op[(launch >= 0) & graph[trace.name[launch]]] = -1
    return op


def has_tf32(trace: Trace, names: Iterable[KernelName]) -> bool:
    """Whether the trace's first device has tensor cores for TF32 and bf16: by what the file says of it, else
    by the architecture in the kernels' names.
    """
    major = next(iter(trace.info.devices), {}).get("computeMajor")
    if isinstance(major, int):
        return major >= 8
    return major is None and not any(name.arch in ("volta", "turing") for name in names)
