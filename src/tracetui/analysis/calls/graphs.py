"""What ran inside CUDA graphs, by the annotations of their kernels.

PyTorch 2.12 and newer can note, while a graph is captured, which part of the model each node belongs to
(`torch.cuda.graph_annotations.mark_kernels`). `export_chrome_trace(..., cuda_graph_annotations=...)`, before
2.15 the script `torch.cuda._annotate_cuda_graph_trace`, writes that into the `args` of each replayed kernel,
copy and memset that has a `graph node id`: every key of the annotation, with its value as text. `name` is the
region's name, `module_fqn` the module's path; `autograd_phase` is `backward` for what the backward pass left.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tracetui.analysis.devices import device_of
from tracetui.analysis.select import name_mask, plausible
from tracetui.core.columns import looked_up
from tracetui.core.copying import replace
from tracetui.core.safe_text import plain
from tracetui.trace import DEVICE_WORK, NO_ID, Kind, Lane, Trace
from tracetui.trace.model import I64
from tracetui.trace.nesting import nest, sort_slices

PROBED = 16
"""How many events in a row to look at, at four places, before reading the annotations of all of them."""
MOST = 500_000
"""The most events for which lanes of modules are made when a trace is opened."""
DEEPEST = 24
"""The most rows in a lane of modules."""
BACKWARD = " (backward)"
TITLE = "modules in graphs"
_NAME_LIMIT = 300


def graph_events(trace: Trace) -> I64:
    """Kernels, copies and memsets that a CUDA graph may have run: those launched by one, or without a launch.
    Slices."""
    at = plausible(trace, *DEVICE_WORK)
    launch = looked_up(trace.launch, at)
    found = launch < 0
    if "GraphLaunch" in "\n".join(trace.names):  # checking each event takes longer
        by_graph = name_mask(trace, lambda name: "GraphLaunch" in name)
        found |= by_graph[looked_up(trace.name, launch)]
    return at[found]


def module_of(args: Mapping[str, Any]) -> str:
    """The module, or the region, that a kernel is annotated with; "" for none. Safe to show."""
    module = args.get("module_fqn")
    # Cuspy's first node has the id 0; without a graph, both are 0 or missing.
    if not isinstance(module, str) and (args.get("graph node id") or args.get("graph id")):
        module = args.get("name", args.get("str"))
    if not isinstance(module, str) or not module:
        return ""
    return plain(module, _NAME_LIMIT) + (BACKWARD if args.get("autograd_phase") == "backward" else "")


def modules_of(trace: Trace, events: I64) -> list[str]:
    """`module_of` each event; read from the file again, all in one pass."""
    modules = [""] * len(events)
    for place, args in trace.args_in_turn(events):
        modules[place] = module_of(args)
    return modules


def is_annotated(trace: Trace, events: I64) -> bool:
    """Whether some of these events have an annotation, judging by a few at four places of the trace."""
    events = events[np.argsort(trace.start[events], kind="stable")]
    places = (len(events) * quarter // 4 for quarter in range(4))
    return any(any(modules_of(trace, events[at : at + PROBED])) for at in places)


def by_module(annotated: bool) -> str:
    """How the time of a graph can be divided by module. `annotated`: whether its kernels are."""
    if annotated:
        return "Its kernels are annotated: the averages by module split its time."
    return (
        "Per-op tables cannot split a graph's time. Since PyTorch 2.12, torch.cuda.graph can note which "
        "module each kernel belongs to (enable_annotations=True); the averages by module then split it."
    )


def with_module_lanes(trace: Trace) -> Trace:
    """The trace, with a lane above each device's streams that shows which modules the kernels of its graphs
    belong to.

    A slice stands for the kernels of one module that follow one another in one replay, from the first start
    to the last end; those of `layers.0.attention` lie inside those of `layers.0`. Returns the trace itself if
    nothing is annotated, or if reading the annotations would take many seconds. The slices are of
    `Kind.OTHER`, so that no analysis counts them, and have `source` -1.
    """
    events = graph_events(trace)
    if len(events) > MOST or not is_annotated(trace, events):
        return trace
    device = device_of(trace)[trace.lane[events]]
    order = np.lexsort((trace.start[events], trace.correlation[events], device))
    events, device = events[order], device[order]
    modules = modules_of(trace, events)
    names: dict[str, int] = {}
    # The number of each level of each event's path, -1 below its end: `a.b` has the levels `a` and `a.b`.
    paths = {label: [names.setdefault(part, len(names)) for part in _path(label)] for label in set(modules)}
    levels = np.full((max(map(len, paths.values())), len(events)), -1, dtype=np.int64)
    for at, label in enumerate(modules):
        levels[: len(paths[label]), at] = paths[label]
    apart = np.ones(len(events), dtype=np.bool_)
    apart[1:] = np.diff(device).astype(bool) | np.diff(trace.correlation[events]).astype(bool)
    spans: list[tuple[I64, I64, I64, I64]] = []
    for level in levels:
        apart[1:] |= level[1:] != level[:-1]
        first = np.flatnonzero(apart)
        end = np.maximum.reduceat(trace.end_of(events), first)
        named_ = level[first] >= 0
        first, end = first[named_], end[named_]
        spans.append((device[first], trace.start[events[first]], end, level[first]))
    of, start, end, name = map(np.concatenate, zip(*spans, strict=True))
    return _with_slices(trace, of, start, end, name, list(names))


def _path(label: str) -> list[str]:
    """A label and the modules around it, outermost first: `a`, `a.b`, `a.b.c`. [] for ""."""
    parts = label.split(".", DEEPEST)
    if "" in parts or " " in label.removesuffix(BACKWARD):  # the name of a region, not a path
        parts = [label]
    return [".".join(parts[: n + 1]) for n in range(len(parts))] if label else []


def _with_slices(trace: Trace, device: I64, start: I64, end: I64, name: I64, names: list[str]) -> Trace:
    """The trace with a lane of modules for each device, and these slices in them. Times in ns.

    The new lanes and slices come after all others, which keep their numbers.
    """
    devices, lane = np.unique(device, return_inverse=True)
    length = end - start
    order, firsts = sort_slices(lane.astype(np.int32), start, length)
    depth, parent, rows = nest(start[order], length[order], firsts)
    many, old = len(order), len(trace)
    added: dict[str, Any] = {
        "start": start[order], "duration": length[order], "name": len(trace.names) + name[order],
        "category": len(trace.categories), "kind": int(Kind.OTHER), "lane": len(trace.lanes) + lane[order],
        "depth": depth, "parent": np.where(parent >= 0, parent + old, -1), "correlation": NO_ID,
        "external_id": NO_ID, "launch": -1, "op": -1, "source": -1, "implausible": False,
    }  # fmt: skip
    columns: dict[str, Any] = {}
    for key, values in added.items():
        column = getattr(trace, key)
        columns[key] = np.concatenate([column, np.broadcast_to(values, many).astype(column.dtype)])
    lanes = list(trace.lanes)
    for n, one in enumerate(devices.tolist()):
        process = next(lane.process for lane in trace.lanes if lane.device == one)
        bounds = old + firsts[n], old + firsts[n + 1]
        lanes.append(Lane(process, TITLE, TITLE, "modules", one, *bounds, rows[n]))
    return replace(
        trace,
        **columns,
        names=[*trace.names, *names],
        categories=(*trace.categories, "module"),
        lanes=tuple(lanes),
    )
