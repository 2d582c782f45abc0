"""What averages can be grouped by besides the name: input shapes, the annotation above, the module, ..."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracetui.analysis.calls.ancestors import first_marked
from tracetui.analysis.calls.calls import Calls
from tracetui.analysis.calls.graphs import graph_events, modules_of
from tracetui.analysis.calls.nesting import top_of
from tracetui.analysis.select import name_mask
from tracetui.core.safe_text import plain
from tracetui.trace import Kind, Trace
from tracetui.trace.model import I64
from tracetui.trace.overloads import split_overload

GROUPS = ("name", "shape", "annotation", "module", "kernel", "op", "overload")
ON_SCREEN = GROUPS[:-1]
"""Those that panes offer."""
MODULE_FRAME = "nn.Module: "
"""The prefix of the name of a module's Python frame; recorded with `with_stack`."""


def group_labels(
    trace: Trace, calls: Calls, cpu_at: I64, device_at: I64, group: str
) -> tuple[I64, list[str]]:
    """(label indices of the CPU calls `cpu_at`, then of the device events `device_at`; the labels).

    Labels are safe to show. `group`: one of `GROUPS`, except "name" and "kernel", which need none.
    """
    size = len(cpu_at) + len(device_at)
    if group == "shape":
        return _shapes(trace, calls, cpu_at, size)
    if group == "overload":
        return _overloads(trace, calls, cpu_at, size)
    if group == "module":
        return _modules(trace, calls.cpu[cpu_at], calls.device[device_at])
    op = calls.device_op[device_at]
    if group == "op":
        by = np.where(op >= 0, calls.cpu[op] if len(calls.cpu) else -1, trace.launch[calls.device[device_at]])
    else:
        above = annotation_above(trace, calls)
        by = np.full(size, -1, dtype=np.int64)
        if len(above):
            own = np.where(trace.kind[calls.cpu[op]] == Kind.ANNOTATION, op, above[op])
            by = np.concatenate([above[cpu_at], np.where(op >= 0, own, -1)])
            by = np.where(by >= 0, calls.cpu[by], -1)
    label, labels = _by_name(
        trace, by, lambda text: "ProfilerStep*" if text.startswith("ProfilerStep#") else text
    )
    return label, list(labels)


def _by_name(trace: Trace, of: I64, text: Callable[[str], str]) -> tuple[I64, dict[str, int]]:
    """The labels of slices (-1: none), each a function of the slice's name, and the index of each label."""
    labels = {"": 0}
    table = np.zeros(len(trace.names) + 1, dtype=np.int64)
    name = np.where(of >= 0, trace.name[of], -1) if len(trace) else of
    for i in np.unique(name[name >= 0]).tolist():
        table[i] = labels.setdefault(text(trace.names[i]), len(labels))
    return np.where(name >= 0, table[name], 0), labels


def annotation_above(trace: Trace, calls: Calls) -> I64:
    """For each CPU call the position in `calls.cpu` of the nearest user annotation around it, or -1."""
    is_annotation = trace.kind[calls.cpu] == Kind.ANNOTATION
    top = top_of(calls.cpu_parent, ~is_annotation)
    return np.where(calls.cpu_parent >= 0, top[calls.cpu_parent], -1)


def shape_text(dims: Any) -> str:
    """Input shapes as PyTorch's table writes them; a list of tensors is an empty list there. Safe to show."""
    if not isinstance(dims, list):
        return "[]"
    flat = [[] if isinstance(d, list) and any(isinstance(x, list) for x in d) else d for d in dims]
    return plain(str(flat))


def _shapes(trace: Trace, calls: Calls, cpu_at: I64, size: int) -> tuple[I64, list[str]]:
    """Labels by `Input Dims`, which have to be read from the file again for every op."""
    label = np.zeros(size, dtype=np.int64)
    ops = np.flatnonzero(trace.kind[calls.cpu[cpu_at]] == Kind.CPU_OP)
    labels = {"": 0}
    for place, args in trace.args_in_turn(calls.cpu[cpu_at[ops]]):
        if "Input Dims" in args:
            label[ops[place]] = labels.setdefault(shape_text(args["Input Dims"]), len(labels))
    return label, list(labels)


def _overloads(trace: Trace, calls: Calls, cpu_at: I64, size: int) -> tuple[I64, list[str]]:
    """Labels by the overload in the op's name, which is in the file only."""
    label = np.zeros(size, dtype=np.int64)
    ops = np.flatnonzero(trace.kind[calls.cpu[cpu_at]] == Kind.CPU_OP)
    ops = ops[name_mask(trace, lambda name: "::" in name)[trace.name[calls.cpu[cpu_at[ops]]]]]
    labels = {"": 0}
    for place, event in trace.events_in_turn(calls.cpu[cpu_at[ops]]):
        _, overload = split_overload(str(event.get("name", "")))
        label[ops[place]] = labels.setdefault(plain(overload), len(labels))
    return label, list(labels)


def _modules(trace: Trace, cpu: I64, device: I64) -> tuple[I64, list[str]]:
    """Labels by module: the annotation of a graph's kernel, else the nearest module's Python frame."""
    frames = name_mask(trace, lambda name: name.startswith(MODULE_FRAME))
    launch = trace.launch[device].astype(np.int64)
    is_module = (trace.kind == Kind.PYTHON) & frames[trace.name]
    around = first_marked(trace, np.concatenate([cpu, launch]), is_module)
    label, labels = _by_name(trace, around, lambda text: text.removeprefix(MODULE_FRAME))
    at = np.flatnonzero(np.isin(device, graph_events(trace)))
    for place, module in zip(at.tolist(), modules_of(trace, device[at]), strict=True):
        if module:
            label[len(cpu) + place] = labels.setdefault(module, len(labels))
    return label, list(labels)
