"""Device events for the rules and the efficiency table: their decoded names, and the op behind each."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from tracetui.analysis.calls.ancestors import op_around
from tracetui.analysis.devices import by_start, work_of_devices
from tracetui.analysis.names.kernel_names import decode
from tracetui.analysis.names.model import KernelName
from tracetui.analysis.part import Part, fact
from tracetui.analysis.select import name_mask, plausible
from tracetui.analysis.steps.scope import members
from tracetui.core.columns import distinct
from tracetui.trace import DEVICE_WORK, Kind, Trace
from tracetui.trace.model import I64
from tracetui.trace.slices import Slices


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
    graph = name_mask(trace, lambda name: "GraphLaunch" in name, Kind.RUNTIME)
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


@fact
def device_work_of(part: Part) -> Slices:
    """Kernels, copies and memsets, by time."""
    work = device_work(part.trace)
    return Slices(part.trace, work if part.is_whole else work[members(part.trace, part.scope, work)])


def work_time(part: Part) -> int:
    """The sum of all device work's durations, ns (`OF_WORK` in sentences). What overlaps counts twice."""
    return device_work_of(part).time


@fact
def work_op_of(part: Part) -> I64:
    """The op behind each of `device_work_of`, -1 for none."""
    return op_behind(part.trace, device_work_of(part).at)


@fact
def kernel_names_of(part: Part) -> dict[int, KernelName]:
    """Decoded names of the device work, by index into ``trace.names``."""
    return decoded_names(part.trace, device_work_of(part).at)


def decoded_name(part: Part, i: int) -> KernelName:
    """The decoded name of a slice of `device_work_of`."""
    return kernel_names_of(part)[int(part.trace.name[i])]


def work_where(part: Part, wanted: Callable[[KernelName], object]) -> Slices:
    """The device work whose decoded name is wanted, by time."""
    mask = np.zeros(len(part.trace.names), dtype=np.bool_)
    mask[[i for i, name in kernel_names_of(part).items() if wanted(name)]] = True
    work = device_work_of(part)
    return work[mask[work.name]]


def work_of_kind(part: Part, *kinds: str) -> Slices:
    """The device work of these kinds, by its decoded names, by time."""
    return work_where(part, lambda name: name.kind in kinds)
