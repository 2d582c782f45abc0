"""Device events for the rules and the efficiency table: their decoded names, and the op behind each."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tracetui.analysis.calls.ancestors import op_around
from tracetui.analysis.devices import by_start, work_of_devices
from tracetui.analysis.names.kernel_names import decode
from tracetui.analysis.names.model import KernelName
from tracetui.analysis.select import distinct, named, plausible
from tracetui.trace import DEVICE_WORK, Kind, Trace
from tracetui.trace.model import I64


def device_work(trace: Trace) -> I64:
    """Every plausible kernel, copy and memset, by time. Slice indices."""
    work = list(work_of_devices(trace).values())
    return work[0] if len(work) == 1 else by_start(trace, plausible(trace, *DEVICE_WORK))


def decoded_names(trace: Trace, events: I64) -> dict[int, KernelName]:
    """The decoded name of each distinct name among ``events``, by its index into ``trace.names``."""
    return {int(i): decode(trace.names[int(i)]) for i in distinct(trace.name[events], len(trace.names))}


def op_behind(trace: Trace, events: I64) -> I64:
    """The op that launched each device event: the one with the event's id, else the one around its launch; -1
    for none.

    The work of a graph launch belongs to no op: all kernels of a graph have the id of the op around it.
    """
    launch = trace.launch[events]
    graph = named(trace, lambda name: "GraphLaunch" in name, Kind.RUNTIME)
    op = trace.op[events].astype(np.int64)
    op = np.where((op >= 0) & (trace.kind[op] == Kind.CPU_OP), op, -1)
    missing = np.flatnonzero((op < 0) & (launch >= 0))
    op[missing] = op_around(trace, launch[missing])
    op[(launch >= 0) & graph[trace.name[launch]]] = -1
    return op


def has_tf32(trace: Trace, names: Iterable[KernelName]) -> bool:
    """Whether the trace's first device has tensor cores for TF32 and bf16, judging by its compute capability
    or, if the file lacks that, by the architecture in the kernels' names."""
    major = next(iter(trace.info.devices), {}).get("computeMajor")
    if isinstance(major, int):
        return major >= 8
    return major is None and not any(name.arch in ("volta", "turing") for name in names)
