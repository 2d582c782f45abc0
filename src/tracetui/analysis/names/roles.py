"""What lanes are called on the screen: by what they do. Reports and JSON keep the names from the file."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np

from tracetui.analysis.names.communication import is_communication
from tracetui.core.columns import blocks
from tracetui.trace.model import Bool, Kind, Lane, Trace, cached_on_trace

_THREAD = re.compile(r"(?:\[[^\]]*\] )?thread \S+ \((?P<name>.+)\)")
_NOTHING = re.compile(r"python[\d.]*|pt_main_thread|pt_autograd_\d+", re.IGNORECASE)
"""Thread names that say nothing, or less than the role."""
_AUTOGRAD = re.compile(r".*\(pt_autograd_\d+\)")
_BACKWARD = "autograd::engine::evaluate_function"


@cached_on_trace
def roles(trace: Trace) -> tuple[str, ...]:
    """What each lane is called, safe to show: `CPU main`, `CPU autograd`, `pt_data_worker`, `NCCL`. Ids are
    included only if several lanes of a device or process have the same role.

    The main thread is the one with the `ProfilerStep`s; else the process's first thread (its tid is the pid),
    if it ran ops; else the thread with the most ops among those that ran no backward pass or, if each ran
    one, among all. PyTorch names its autograd threads: none of them is the main one.
    """
    found = [lane.name for lane in trace.lanes]
    backward = np.array([name.startswith(_BACKWARD) for name in trace.names], dtype=np.bool_)
    step = np.array([name.startswith("ProfilerStep") for name in trace.names], dtype=np.bool_)
    threads: dict[int, list[int]] = {}
    for i, lane in enumerate(trace.lanes):
        if lane.kind == "thread":
            threads.setdefault(lane.process, []).append(i)
        elif lane.kind == "stream" and (library := _communicates(trace, lane)):
            found[i] = library
    for mine in threads.values():
        ops = {i: int((_of(trace, trace.lanes[i]) == int(Kind.CPU_OP)).sum()) for i in mine}
        steps = {i: _has(trace, trace.lanes[i], step) for i in mine}
        autograd = {i: _has(trace, trace.lanes[i], backward) for i in mine}
        first = {
            i: ops[i] > 0 and trace.lanes[i].tid == trace.processes[trace.lanes[i].process].pid for i in mine
        }
        main = max(mine, key=lambda i: (steps[i], first[i], not autograd[i], ops[i]))
        for i in mine:
            told = _THREAD.fullmatch(found[i])
            if i == main and (steps[i] or ops[i]) and not _AUTOGRAD.fullmatch(found[i]):
                found[i] = "CPU main"
            elif autograd[i]:
                found[i] = "CPU autograd"
            elif told and not _NOTHING.fullmatch(told["name"]):
                found[i] = told["name"]
            elif told or f"{found[i]} ".startswith("thread "):
                found[i] = f"CPU thread {trace.lanes[i].tid}".strip()
    for i, lane in enumerate(trace.lanes):
        if lane.kind == "gpu_annotation":
            found[i] = "annotations"
    often = Counter(_key(lane, name) for lane, name in zip(trace.lanes, found, strict=True))
    return tuple(
        _ranked(trace, lane, name if often[_key(lane, name)] == 1 else _numbered(lane, name))
        for lane, name in zip(trace.lanes, found, strict=True)
    )


def _key(lane: Lane, name: str) -> tuple[int, int, str]:
    return lane.device, lane.process if lane.device < 0 else -1, name


def _numbered(lane: Lane, name: str) -> str:
    """A name that several lanes share, with the lane's id."""
    if lane.kind == "gpu_annotation":
        return lane.name
    return name if lane.tid in name.split() else f"{name} {lane.tid}"


def _ranked(trace: Trace, lane: Lane, name: str) -> str:
    """With the rank in front, in a file of several ranks."""
    rank = trace.processes[lane.process].rank
    return f"[{rank}] {name}" if rank and not name.startswith("[") else name


def _of(trace: Trace, lane: Lane) -> np.ndarray[tuple[int], np.dtype[np.int8]]:
    """The kinds of a lane's slices."""
    return trace.kind[lane.first : lane.last]


def _has(trace: Trace, lane: Lane, names: Bool) -> bool:
    """Whether a lane has a slice with one of the names, a mask over all names."""
    return bool(names.any()) and any(
        bool(names[trace.name[low:high]].any()) for low, high in blocks(lane.first, lane.last)
    )


def _communicates(trace: Trace, lane: Lane) -> str:
    """The name for a stream that runs only collectives; "" for other streams."""
    kernels = trace.name[lane.first : lane.last][_of(trace, lane) == int(Kind.KERNEL)]
    used = np.zeros(len(trace.names), dtype=np.bool_)
    used[kernels] = True
    names = [trace.names[name] for name in np.flatnonzero(used).tolist()] if len(kernels) else []
    if not names or not all(is_communication(name) for name in names):
        return ""
    return "NCCL" if all("nccl" in name.lower() for name in names) else "collectives"
