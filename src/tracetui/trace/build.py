"""Builds a Trace from the columns that a format has read: sorts, nests and links them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from tracetui.core.columns import I32, I64, NO_TIME, Array, Bool, blocks, counted, looked_up, repeated
from tracetui.core.copying import replace
from tracetui.core.patterns import pattern
from tracetui.core.safe_text import plain
from tracetui.core.threads import PART, THREADS, map_blocks, release_memory, run_parallel
from tracetui.core.units import exact
from tracetui.formats.parsed_file import ParsedFile
from tracetui.formats.store import LAUNCH_FLOWS, Store, Tables
from tracetui.trace.callers import with_threads
from tracetui.trace.flows import FlowEnds, link_flows, pair_flows
from tracetui.trace.implausible import first_view, mark_implausible
from tracetui.trace.lanes import Plan, plan_lanes, read_labels
from tracetui.trace.links import (
    borrow_ids,
    count_before_launch,
    guess_ranks,
    link_launches,
    link_ops,
    settle_annotations,
    settle_ops,
    share_lanes,
    stream_lanes,
)
from tracetui.trace.model import GRAPH_DEPENDENCY, SEVERAL_WRITERS, Counters, Instants, Lane, Trace, TraceInfo
from tracetui.trace.nesting import nest, sort_slices
from tracetui.trace.overloads import drop_overloads
from tracetui.trace.pairs import pair_async, pair_threads
from tracetui.trace.transfers import name_transfers
from tracetui.trace.unended import adopt, cut_frames, find_unfinished

_OF_LANE = "process", "device"
_OF_DEVICE = pattern(r"GPU (\d{1,4}) Counters")
"""The process of a device's counters, as PyTorch's Cuspy writes it."""
_LINKING = 2
"""Threads that look for links: each of them needs memory at a moment when memory use is at its peak."""


def build(parsed: ParsedFile, path: str, size: int) -> Trace:
    """The trace of a file of `size` bytes. Empties the store of its `contents`."""
    release_memory(size)
    store = parsed.store
    tables, diagnostics = store.tables, store.diagnostics
    phases = {plain(phase, 8): count for phase, count in store.phases().items()}
    points = {name: store.points.take(name) for name in store.points.kinds}
    pairs = pair_threads(points, tables, diagnostics)
    for name in ("duration", "correlation", "external"):
        del points[name]
    asyncs, steps = pair_async(store.asyncs, tables, diagnostics)
    for more in (pairs, asyncs):
        if more and len(more["head"]):
            store.slices.add(0.0, **more)
    columns: dict[str, Any] = {name: store.slices.take(name) for name in store.slices.kinds}
    columns, points = _without_instants(columns, points, tables)
    heads = list(tables.heads)
    columns["external_id"] = columns.pop("external")
    head, start, duration = (columns[name] for name in ("head", "start", "duration"))
    used, labels = _used(head, len(heads)), read_labels(store.metadata)
    plan = plan_lanes(heads, used, labels)
    category_of_head, categories = _categories(heads)

    _close_open(start, duration)
    lane, kind = (looked_up(table, head) for table in (plan.lane_of_head, plan.kind_of_head))
    settled = with_threads(heads, used, plan, (kind, lane, start, duration), diagnostics)
    if settled is not heads:
        heads, plan = settled, plan_lanes(settled, used, labels)
        lane = looked_up(plan.lane_of_head, head)
    on_device = np.array([x.device >= 0 for x in plan.lanes] or [False], dtype=np.bool_)
    name_transfers(kind, columns["name"], columns["source"], tables, parsed.reader)
    drop_overloads(kind, columns["name"], tables)
    implausible, clipped = mark_implausible(kind, lane, start, duration, on_device, diagnostics)
    zero = _zero(start, implausible, points, store)
    np.maximum(duration, 0, out=duration)
    del kind
    order, firsts = sort_slices(lane, start, duration)
    del head, lane, start, duration
    columns |= {"implausible": implausible, "clipped": clipped}
    _put_in_order(columns, order)
    del order
    release_memory(size)
    head = columns.pop("head")
    columns["category"], kind = (looked_up(table, head) for table in (category_of_head, plan.kind_of_head))
    del head
    columns["kind"] = kind
    columns["lane"] = lane = repeated(np.arange(len(plan.lanes), dtype=np.int32), np.diff(firsts))
    start, duration = columns["start"], columns["duration"]
    start -= zero
    diagnostics.note("outlasting_frame", count=cut_frames(columns, firsts, parsed.reader))
    correlation, external = columns["correlation"], columns["external_id"]
    borrow_ids(kind, correlation, external)
    implausible, clipped = columns["implausible"], columns.pop("clipped")
    programs = {x.process for x in plan.lanes if x.kind == "thread"}
    if len(programs) > 1 and not plan.rank_of_lane.any():
        process, device = (np.array([getattr(x, of) for x in plan.lanes], np.int32) for of in _OF_LANE)
        if share_lanes(process, device, kind, lane, correlation):
            diagnostics.note(SEVERAL_WRITERS)
        guessed = guess_ranks(process, device, kind, lane, start, correlation)
        plan = plan if guessed is None else replace(plan, rank_of_lane=guessed)
    ranks = plan.rank_of_lane
    rank = ranks[lane] if len(ranks) and ranks.any() else None

    instants = _instants(points, steps, heads, plan, category_of_head, zero)

    def launches() -> tuple[Any, ...]:
        found = link_launches(kind, start, correlation, rank)
        return found, count_before_launch(found, start, implausible)

    def ops() -> tuple[Any, ...]:
        found = link_ops(kind, start, correlation, external, rank)
        return found, first_view(kind, start, duration, implausible)

    tasks: list[Callable[[], Any]] = [
        ops,
        partial(_paired_flows, points, heads, plan, zero),
        partial(nest, start, duration, firsts),
        launches,
    ]
    done = run_parallel(tasks, _LINKING if len(start) > PART else 1)
    (op, view), (ends, sources, targets, flow_kinds), (depth, parent, rows), (launch, (early, lead)) = done
    del tasks, done
    unended = find_unfinished(kind, start, duration, implausible, columns["source"], parsed.reader)
    adopt(parent, unended)
    diagnostics.note("unfinished", count=len(unended))
    wrong, foreign = settle_ops(kind, start, duration, launch, parent, external, op)
    diagnostics.note("foreign_ids" if foreign else "other_op", count=wrong)
    stream_of = stream_lanes(plan.lanes)
    settle_annotations(kind, start, duration, columns["name"], launch, external, lane, stream_of, firsts)
    flows = link_flows(ends, sources, targets, start, duration, parent, firsts)
    flow_from, flow_to, flow_category = flows
    diagnostics.note("before_launch", count=early, detail=f"by up to {exact(lead)}")
    base = parsed.base_ns
    about = (parsed.devices, parsed.distributed, parsed.properties)
    return Trace(
        **columns,
        info=TraceInfo(path, size, parsed.text_size, zero + (base or 0), base, *about),
        names=[plain(text) for text in tables.names],
        categories=categories,
        processes=plan.processes,
        lanes=_lanes(plan, firsts, rows),
        depth=depth,
        parent=parent,
        launch=launch,
        op=op,
        flow_from=flow_from,
        flow_to=flow_to,
        flow_kind=flow_kinds,
        flow_category=flow_category.astype(np.int8),
        instants=instants,
        counters=_counters(store, plan, zero),
        notices=diagnostics.notices(),
        phases=phases,
        first_view=view,
        reader=parsed.reader,
        clipped=frozenset(np.flatnonzero(clipped).tolist()),
    )


def _without_instants(
    columns: dict[str, Any], points: dict[str, Any], tables: Tables
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Make points of the slices that are instants by their category: PyTorch's exporter in Python writes
    `[memory]` records as if they lasted until the end of the recording."""
    instant_of = {
        i: tables.heads["i", cat, pid, tid]
        for i, (phase, cat, pid, tid) in enumerate(list(tables.heads))
        if phase == "X" and cat.lower() == "cpu_instant_event"
    }
    if not instant_of:
        return columns, points
    head = np.full(len(tables.heads), -1, dtype=np.int32)
    head[list(instant_of)] = list(instant_of.values())
    moved = head[columns["head"]]
    at = np.flatnonzero(moved >= 0)
    rows = {name: columns[name][at] for name in ("name", "start", "source")} | {"head": moved[at]}
    rows |= {"flow": np.full(len(at), NO_TIME, np.int64), "encloses": np.zeros(len(at), np.bool_)}
    left = moved < 0
    return (
        {name: column[left] for name, column in columns.items()},
        {name: np.concatenate([column, rows[name]]) for name, column in points.items()},
    )


def _put_in_order(columns: dict[str, Any], order: I32) -> None:
    """Put all columns in this order, each into the memory of an earlier column of the same width."""
    free: dict[int, Array] = {}
    parts = blocks(0, len(order), PART)
    for name, column in columns.items():
        if column.dtype == np.bool_ and not column.any():
            continue
        out = free.pop(column.itemsize, None)
        out = np.empty(len(order), dtype=column.dtype) if out is None else out.view(column.dtype)
        put = partial(np.take, column, mode="clip")  # writes to `out` as it goes
        run_parallel([partial(put, order[a:b], out=out[a:b]) for a, b in parts], THREADS)
        columns[name], free[column.itemsize] = out, column


def _used(head: I32, count: int) -> list[bool]:
    """Which of `count` heads some slice has."""
    used = np.zeros(count, dtype=np.bool_)

    def mark(part: slice) -> None:
        used[head[part]] = True

    map_blocks(len(head), mark)
    found: list[bool] = used.tolist()
    return found


def _close_open(start: I64, duration: I64) -> None:
    """Extend slices without an end to the end of the trace. Changes `duration` in place."""
    opened = duration == NO_TIME
    if opened.any():
        last = int(np.where(opened, start, start + np.maximum(duration, 0)).max())
        duration[opened] = last - start[opened]


def _zero(start: I64, implausible: Bool, points: Mapping[str, Array], store: Store) -> int:
    """The trace's zero: the start of its first plausible slice, else of its first event."""
    if len(start):
        some = implausible.any() and not implausible.all()
        return int(start[~implausible].min() if some else start.min())
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


def _lanes(plan: Plan, first: list[int], rows: list[int]) -> tuple[Lane, ...]:
    return tuple(
        Lane(x.process, x.tid, x.name, x.kind, x.device, first[i], first[i + 1], rows[i])
        for i, x in enumerate(plan.lanes)
    )


def _paired_flows(
    points: dict[str, Array], heads: list[Any], plan: Plan, zero: int
) -> tuple[FlowEnds, I32, I32, tuple[str, ...]]:
    """The result of `pair_flows`, and the kinds of flows. Empties `points`."""
    kinds: dict[str, int] = {}
    phase_of = np.full(max(1, len(heads)), -1, dtype=np.int8)
    kind_of = np.zeros(max(1, len(heads)), dtype=np.int32)
    used = np.flatnonzero(counted(points["head"], len(heads))).tolist()
    for i in used:
        phase, category = heads[i][:2]
        lane = int(plan.lane_of_head[i])
        if category in LAUNCH_FLOWS:
            if lane < 0 or plan.lanes[lane].device < 0:
                continue
            category = GRAPH_DEPENDENCY
        if phase in ("s", "t", "f"):
            phase_of[i] = "stf".index(phase)
            # At most 127 kinds of flows: all others share the last one.
            kind_of[i] = kinds.setdefault(category, min(len(kinds), 126))
    at = np.flatnonzero((looked_up(phase_of, points["head"]) >= 0) & (points["flow"] != NO_TIME))
    head = points["head"][at]
    lanes = plan.lane_of_head[head] if len(heads) else head
    flow, time, encloses = (points[name][at] for name in ("flow", "start", "encloses"))
    points.clear()  # free the memory for other links
    ids = _flow_ids(flow, plan, lanes)
    ends = FlowEnds(phase_of[head], kind_of[head], ids, lanes, time - zero, encloses)
    return *pair_flows(ends), tuple(plain(kind) for kind in list(kinds)[:127])


def _flow_ids(flow: I64, plan: Plan, lanes: I32) -> I64:
    """Flow ids, made unique across the ranks of a file."""
    if not len(flow) or not plan.rank_of_lane.any():
        return flow
    ids = np.unique(flow, return_inverse=True)[1].astype(np.int64)
    rank = np.where(lanes >= 0, plan.rank_of_lane[lanes], 0).astype(np.int64)
    return ids * (int(plan.rank_of_lane.max()) + 1) + rank


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
    process = {f"GPU {p.device} Counters": i for i, p in enumerate(plan.processes)}  # as Cuspy writes it
    process |= {p.pid: i for i, p in reversed(list(enumerate(plan.processes)))}
    return Counters(
        start[order] - zero,
        series[order],
        value[order],
        tuple(plain(f"{name} {key}" if key not in ("", "value") else name) for name, key, _ in names),
        tuple(process.get(plain(pid), -1) for _, _, pid in names),
        tuple(int(of[1]) if (of := _OF_DEVICE.fullmatch(pid)) else -1 for _, _, pid in names),
    )
