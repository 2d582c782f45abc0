"""What ran inside CUDA graphs, by the annotations of their kernels.

PyTorch 2.12 and newer can note, while a graph is captured, which part of the model each node belongs to
(`torch.cuda.graph_annotations.mark_kernels`). `export_chrome_trace(..., cuda_graph_annotations=...)`, before
2.15 the script `torch.cuda._annotate_cuda_graph_trace`, writes that into the `args` of each replayed kernel,
copy and memset that has a `graph node id`: every key of the annotation, with its value as text. `name` is the
region's name, `module_fqn` the module's path; `autograd_phase` is `backward` for what the backward pass left.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tracetui.analysis.select import named, plausible
from tracetui.safe_text import plain
from tracetui.trace import DEVICE_WORK, NO_ID, Kind, Lane, Trace
from tracetui.trace.model import I64
from tracetui.trace.nesting import nest, sort_slices

AT_ONCE = 2048
"""The number of events whose arguments are decoded in one batch."""
PROBED = 64
"""The number of events to look at before the annotations of all are read."""
DEEPEST = 24
"""Rows of a lane of modules."""
BACKWARD = " (backward)"
TITLE = "modules in graphs"
_NAME_LIMIT = 300


def graph_events(trace: Trace) -> I64:
    """Kernels, copies and memsets that a CUDA graph may have run: by their launch, or without one. Slices."""
    at = plausible(trace, *DEVICE_WORK)
    launch = trace.launch[at]
    graph = named(trace, lambda name: "GraphLaunch" in name)
    return at[(launch < 0) | graph[trace.name[launch]]]


def module_of(args: Mapping[str, Any]) -> str:
    """The module, or the region, that a kernel is annotated with; "" for none. Safe to show."""
    module = args.get("module_fqn")
    if not isinstance(module, str) and args.get("graph node id"):
        module = args.get("name", args.get("str"))
    if not isinstance(module, str) or not module:
        return ""
    return plain(module, _NAME_LIMIT) + (BACKWARD if args.get("autograd_phase") == "backward" else "")


def modules_of(trace: Trace, events: I64) -> list[str]:
    """`module_of` each event; read from the file again, all of it in one pass."""
    found = [""] * len(events)
    # In file order, each block is decoded once; in small batches, the arguments take no memory to speak of.
    order = np.argsort(trace.source[events], kind="stable")
    for start in range(0, len(order), AT_ONCE):
        part = order[start : start + AT_ONCE]
        for place, args in zip(part.tolist(), trace.args_of(events[part]), strict=True):
            found[place] = module_of(args)
    return found


def is_annotated(trace: Trace, events: I64) -> bool:
    """Whether some of the first of these events, by time, have an annotation."""
    first = events[np.argsort(trace.start[events], kind="stable")[:PROBED]]
    return any(modules_of(trace, first))


def with_module_lanes(trace: Trace) -> Trace:
    """The trace, with a lane above each device's streams: which module the kernels of its graphs belong to.

    A slice stands for the kernels of one module that follow one another in one replay, from the first start
    to the last end; those of `layers.0.attention` lie inside those of `layers.0`. The trace itself where none
    is annotated. The slices are of `Kind.OTHER`, so that no analysis counts them, and have `source` -1.
    """
    events = graph_events(trace)
    if not is_annotated(trace, events):
        return trace
    device = np.array([lane.device for lane in trace.lanes], dtype=np.int64)[trace.lane[events]]
    order = np.lexsort((trace.start[events], trace.correlation[events], device))
    events, device = events[order], device[order]
    modules = modules_of(trace, events)
    names: dict[str, int] = {}
    # The number of each level of each event's path, -1 below its end: of `a.b` those of `a` and `a.b`.
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
        end = np.maximum.reduceat(trace.start[events] + trace.duration[events], first)
        named_ = level[first] >= 0
        first, end = first[named_], end[named_]
        spans.append((device[first], trace.start[events[first]], end, level[first]))
    of, start, end, name = map(np.concatenate, zip(*spans, strict=True))
    return _with_slices(trace, of, start, end, name, list(names))


def _path(label: str) -> list[str]:
    """A label and the modules around it, outermost first: `a`, `a.b`, `a.b.c`. [] for ""."""
    parts = label.split(".", DEEPEST) if " " not in label.removesuffix(BACKWARD) else [label]
    return [".".join(parts[: n + 1]) for n in range(len(parts))] if label else []


def _with_slices(trace: Trace, device: I64, start: I64, end: I64, name: I64, names: list[str]) -> Trace:
    """The trace with a lane of modules for each device, and these slices in them. Times in ns."""
    lanes: list[Lane] = []
    moved: list[int] = []
    lane_of = {}
    for lane in trace.lanes:
        if lane.device in device and lane.device not in lane_of:
            lane_of[lane.device] = len(lanes)
            lanes.append(replace(lane, tid=TITLE, name=TITLE, kind="gpu_annotation"))
        moved.append(len(lanes))
        lanes.append(lane)
    place = np.array([*moved, -1], dtype=np.int32)
    many = len(start)
    no_id = np.full(many, NO_ID, dtype=np.int64)
    none = np.full(many, -1, dtype=np.int32)
    added = {
        "start": start, "duration": end - start, "name": name + len(trace.names),
        "category": np.full(many, len(trace.categories)), "kind": np.full(many, int(Kind.OTHER)),
        "lane": np.array([lane_of[int(one)] for one in device]), "correlation": no_id, "external_id": no_id,
        "launch": none, "op": none, "source": np.full(many, -1), "implausible": np.zeros(many, np.bool_),
    }  # fmt: skip
    given = {key: getattr(trace, key) for key in added} | {"lane": place[trace.lane]}
    columns: dict[str, Any] = {
        key: np.concatenate([old, added[key].astype(old.dtype)]) for key, old in given.items()
    }
    order, low, high = sort_slices(columns["lane"], columns["start"], columns["duration"])
    columns = {key: column[order] for key, column in columns.items()}
    now_at = np.empty(len(order) + 1, dtype=np.int32)
    now_at[order] = np.arange(len(order))
    now_at[-1] = -1
    for key in ("launch", "op"):
        columns[key] = now_at[columns[key]]
    firsts = np.searchsorted(columns["lane"], np.arange(len(lanes) + 1)).tolist()
    depth, parent, rows = nest(low, high, firsts)
    return replace(
        trace,
        **columns,
        depth=depth,
        parent=parent,
        names=[*trace.names, *names],
        categories=(*trace.categories, "module"),
        lanes=tuple(
            replace(lane, first=firsts[n], last=firsts[n + 1], rows=rows[n]) for n, lane in enumerate(lanes)
        ),
        flow_from=now_at[trace.flow_from],
        flow_to=now_at[trace.flow_to],
        instants=replace(trace.instants, lane=place[trace.instants.lane]),
    )
