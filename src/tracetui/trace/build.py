"""The columns that a format has read become a Trace: sorted, nested, linked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tracetui.formats.columns import I32, I64, NO_TIME, Array, Bool
from tracetui.formats.contents import Contents
from tracetui.formats.store import LAUNCH_FLOWS, Store
from tracetui.safe_text import plain
from tracetui.trace.implausible import first_view, mark_implausible
from tracetui.trace.lanes import Plan, plan_lanes, read_labels
from tracetui.trace.links import FlowEnds, count_before_launch, link_flows, link_launches, link_ops
from tracetui.trace.model import Counters, Instants, Lane, Trace, TraceInfo
from tracetui.trace.nesting import nest, sort_slices
from tracetui.trace.pairs import pair_async, pair_threads
from tracetui.units import exact


def build(contents: Contents, path: str, size: int) -> Trace:
    """The trace of a file of `size` bytes. Empties the store of its `contents`."""
    store = contents.store
    tables, diagnostics = store.tables, store.diagnostics
    phases = {plain(phase, 8): count for phase, count in store.phases().items()}
    points = {name: store.points.take(name) for name in store.points.kinds}
    pairs = pair_threads(points, tables, diagnostics)
    asyncs, steps = pair_async(store.asyncs, tables, diagnostics)
    for more in (pairs, asyncs):
        if more and len(more["head"]):
            store.slices.add(0.0, **more)
    heads = list(tables.heads)
    head = store.slices.take("head")
    used = np.bincount(head, minlength=len(heads)) > 0
    labels = read_labels(store.metadata)
    plan = plan_lanes(heads, used.tolist(), labels)

    lane = plan.lane_of_head[head]
    start, duration = store.slices.take("start"), store.slices.take("duration")
    _close_open(start, duration)
    kind = plan.kind_of_head[head]
    on_device = np.array([x.device >= 0 for x in plan.lanes] or [False], dtype=np.bool_)
    implausible = mark_implausible(kind, lane, start, duration, on_device, diagnostics)
    zero = _zero(start, implausible, points, store)
    np.maximum(duration, 0, out=duration)

    order, begin, end = sort_slices(lane, start, duration)
    # One column after the other, each old one let go before the next: this is where memory is at its highest.
    category_of_head, categories = _categories(heads)
    category = category_of_head[head][order]
    del head
    lane = lane[order]
    kind = kind[order]
    implausible = implausible[order]
    start = start[order]
    start -= zero
    duration = duration[order]
    name = store.slices.take("name")[order]
    correlation = store.slices.take("correlation")[order]
    external = store.slices.take("external")[order]
    source = store.slices.take("source")[order]
    del order
    firsts = np.searchsorted(lane, np.arange(len(plan.lanes) + 1))
    depth, parent, rows = nest(begin, end, firsts.tolist())
    del begin, end
    lanes = _lanes(plan, firsts, rows)
    launch = link_launches(kind, start, correlation)
    op = link_ops(kind, start, correlation, external)
    early, lead = count_before_launch(launch, start)
    diagnostics.note("before_launch", count=early, detail=f"by up to {exact(lead)}")
    flow_from, flow_to, flow_category, flow_kinds = _flows(
        points, heads, plan, start, duration, parent, firsts, zero
    )
    instants = _instants(points, steps, heads, plan, category_of_head, zero)
    counters = _counters(store, plan, zero)
    info = TraceInfo(
        path,
        size,
        contents.text_size,
        zero + (contents.base_ns or 0),
        contents.base_ns,
        contents.devices,
        contents.distributed,
        contents.properties,
    )
    return Trace(
        info=info,
        names=[plain(text) for text in tables.names],
        categories=categories,
        processes=plan.processes,
        lanes=lanes,
        start=start,
        duration=duration,
        name=name,
        category=category,
        kind=kind,
        lane=lane,
        depth=depth,
        parent=parent,
        correlation=correlation,
        external_id=external,
        launch=launch,
        op=op,
        source=source,
        flow_from=flow_from,
        flow_to=flow_to,
        flow_kind=flow_kinds,
        flow_category=flow_category.astype(np.int8),
        instants=instants,
        counters=counters,
        notices=diagnostics.notices(),
        implausible=implausible,
        phases=phases,
        first_view=first_view(kind, start, duration, implausible),
        reader=contents.reader,
    )


def _close_open(start: I64, duration: I64) -> None:
    """Slices without an end go on to the end of the trace. Changes `duration`."""
    opened = duration == NO_TIME
    if opened.any():
        last = int(np.where(opened, start, start + np.maximum(duration, 0)).max())
        duration[opened] = last - start[opened]


def _zero(start: I64, implausible: Bool, points: Mapping[str, Array], store: Store) -> int:
    """The trace's zero: where its first slice that can be believed starts; else, its first event."""
    if len(start):
        return int(start[~implausible].min()) if not implausible.all() else int(start.min())
    firsts = [
        int(times.min())
        for times in (points["start"], store.counters.arrays["start"][: len(store.counters)])
        if len(times)
    ]
    return min(firsts, default=0)


def _categories(heads: list[Any]) -> tuple[Array, tuple[str, ...]]:
    numbers: dict[str, int] = {}
    of_head = np.array(
        [numbers.setdefault(head[1], min(len(numbers), 32767)) for head in heads], dtype=np.int16
    )
    return of_head, tuple(plain(text) for text in list(numbers)[:32768])


def _lanes(plan: Plan, firsts: I64, rows: list[int]) -> tuple[Lane, ...]:
    first = firsts.tolist()
    return tuple(
        Lane(x.process, x.tid, x.name, x.kind, x.device, first[i], first[i + 1], rows[i])
        for i, x in enumerate(plan.lanes)
    )


def _flows(
    points: Mapping[str, Array],
    heads: list[Any],
    plan: Plan,
    start: I64,
    duration: I64,
    parent: I32,
    firsts: I64,
    zero: int,
) -> tuple[I32, I32, I32, tuple[str, ...]]:
    kinds: dict[str, int] = {}
    phase_of = np.full(max(1, len(heads)), -1, dtype=np.int8)
    kind_of = np.zeros(max(1, len(heads)), dtype=np.int32)
    for i, head in enumerate(heads):
        if head[0] in ("s", "t", "f") and head[1] not in LAUNCH_FLOWS:
            phase_of[i] = "stf".index(head[0])
            # 127 kinds of flows: the rest share the last one.
            kind_of[i] = kinds.setdefault(head[1], min(len(kinds), 126))
    at = np.flatnonzero((phase_of[points["head"]] >= 0) & (points["flow"] != NO_TIME))
    head = points["head"][at]
    ends = FlowEnds(
        phase_of[head],
        kind_of[head],
        points["flow"][at],
        plan.lane_of_head[head] if len(heads) else head,
        points["start"][at] - zero,
        points["encloses"][at],
    )
    found = link_flows(ends, start, start + duration, parent, firsts[:-1], firsts[1:])
    return (*found, tuple(plain(kind) for kind in list(kinds)[:127]))


def _instants(
    points: Mapping[str, Array],
    steps: Mapping[str, Array],
    heads: list[Any],
    plan: Plan,
    category_of_head: Array,
    zero: int,
) -> Instants:
    wanted = np.array([head[0] in ("i", "I", "R") for head in heads] or [False], dtype=np.bool_)
    at = np.flatnonzero(wanted[points["head"]])
    column = {
        name: np.concatenate((points[name][at], steps[name])) for name in ("head", "name", "start", "source")
    }
    order = np.argsort(column["start"], kind="stable")
    head = column["head"][order]
    return Instants(
        column["start"][order] - zero,
        column["name"][order],
        category_of_head[head] if len(head) else np.zeros(0, dtype=np.int16),
        plan.lane_of_head[head] if len(head) else np.zeros(0, dtype=np.int32),
        column["source"][order],
    )


def _counters(store: Store, plan: Plan, zero: int) -> Counters:
    names = sorted(store.series, key=lambda s: (s[2], s[0], s[1]))
    rank = np.zeros(len(names), dtype=np.int32)
    for place, key in enumerate(names):
        rank[store.series[key]] = place
    series, start, value = (store.counters.take(name) for name in ("series", "start", "value"))
    series = rank[series] if len(series) else series
    order = np.lexsort((start, series))
    process = {p.pid: i for i, p in reversed(list(enumerate(plan.processes)))}
    return Counters(
        start[order] - zero,
        series[order],
        value[order],
        tuple(plain(f"{name} {key}" if key not in ("", "value") else name) for name, key, _ in names),
        tuple(process.get(plain(pid), -1) for _, _, pid in names),
    )
