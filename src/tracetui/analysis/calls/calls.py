"""The events that PyTorch's averages count, linked as it does: CPU tree, device time of ops, merged calls.

The rules are those of torch.autograd.profiler (`_parse_kineto_results`) and torch.autograd.profiler_util
(`EventList._build_tree`), applied to arrays of what the exported JSON still contains.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from tracetui.analysis.calls import sums
from tracetui.analysis.calls.ancestors import op_around
from tracetui.analysis.calls.nesting import UNKNOWN, order_by_time, parents, top_of
from tracetui.analysis.calls.sums import sum_into, without_children
from tracetui.analysis.part import Part, fact, fact_of_trace
from tracetui.analysis.select import slices_named
from tracetui.analysis.steps.scope import slices_of
from tracetui.core.columns import counted
from tracetui.core.threads import map_blocks, run_parallel, threads_for
from tracetui.trace import Kind, Trace
from tracetui.trace.model import I32, I64, Bool
from tracetui.trace.nesting import first_places
from tracetui.trace.unended import unfinished

_PAGE = 10
"""Bits of the ids on one page of `_ops_by_id`."""

HIDDEN_NAMES = frozenset(
    """
    [memory] [OutOfMemory] profiler::_record_function_enter profiler::_record_function_enter_new
    profiler::_record_function_exit aten::is_leaf aten::output_nr aten::_version
    """.split()  # noqa: SIM905
)
"""Helper ops that PyTorch leaves out of its tables (torch.autograd.profiler_util._filter_name)."""


COLLECTIVE = re.compile(r"(nccl|gloo|mpi|ucc|xccl|hccl):")
"""The start of the name of a torch.distributed collective's annotation. These are asynchronous: one thread
starts them and another ends them, so PyTorch keeps them out of the tree (no parent, no children, no self
time). The exported JSON does not say which events are asynchronous; c10d's `Work` marks all of its own so."""


@dataclass(frozen=True, slots=True)
class Calls:
    """CPU calls, in tree order, and device events. All times in nanoseconds.

    The CPU arrays have one length: `cpu`, `cpu_parent`, `removed`, `asynchronous`, `self_cpu`,
    `device_total`, `self_device`.
    """

    cpu: I64
    """Slice of each CPU call, sorted by (thread, start, longest first)."""
    cpu_parent: I64
    """Position (in these arrays) of the call around it, -1 for none. Never a removed call."""
    removed: Bool
    """Merged into the call around it: an only child with its parent's name. It does not count."""
    innermost: Bool
    """The innermost removed call of a chain: the merged call gets its children and device time."""
    asynchronous: Bool
    """A collective's annotation: outside the tree, without self time and device time of its own."""
    self_cpu: I64
    device_total: I64
    self_device: I64

    device: I64
    """Slice of each device event that has a row, annotations among them."""
    device_start: I64
    device_duration: I64
    """Without what Kineto adds to GPU annotations on export."""
    device_op: I64
    """Position in `cpu` of the op (or annotation) that each device event belongs to, -1 for none."""

    @property
    def merged_into(self) -> I64:
        """The position of the call that each one is now part of: its own, unless it was removed."""
        return np.where(self.removed, self.cpu_parent, np.arange(len(self.cpu)))


def _ops_by_id(trace: Trace, ops: I64) -> Callable[[I64], I32 | I64]:
    """What finds for each id the position in `ops` of the first op that has it, or -1. Ids of 0 and below
    belong to none."""
    own = trace.external_id[ops]
    np.maximum(own, 0, out=own)
    top = int(own.max(initial=0))
    if top < 8 * len(own) + 65536:  # nearly always: a table, without the pages that no op is on
        used = np.zeros((top >> _PAGE) + 1, dtype=np.bool_)
        map_blocks(len(own), lambda part: np.put(used, own[part] >> _PAGE, True))
        page: I32 = (np.cumsum(used, dtype=np.int32) << np.int32(_PAGE)) * used  # the first one is empty
        place_of = np.empty(len(own), dtype=np.int32)

        def on_pages(ids: I64) -> I32:
            found: I32 = page[ids >> _PAGE] + (ids & ((1 << _PAGE) - 1)).astype(np.int32)
            return found

        def put(part: slice) -> None:
            place_of[part] = on_pages(own[part])

        map_blocks(len(own), put)
        place = first_places(place_of, (int(np.count_nonzero(used)) + 1) << _PAGE)
        place[on_pages(np.zeros(1, np.int64))] = -1
        return lambda ids: place[on_pages(np.where((ids > 0) & (ids <= top), ids, 0))]
    at = np.flatnonzero(own)
    at = at[np.argsort(own[at], kind="stable")]
    own = own[at]

    def find(ids: I64) -> I64:
        found = np.minimum(np.searchsorted(own, ids), len(own) - 1)
        return np.where(own[found] == ids, at[found], -1)

    return find


def main_lane(trace: Trace, ops: I64) -> int:
    """The lane of the thread that stopped the profiler: PyTorch puts runtime events of no op there.

    The JSON does not name it. The guess is the thread of the `ProfilerStep`s, else the process's first thread
    (tid = pid), else the thread with most ops. -1 if the trace has no ops at all.
    """
    if not len(ops):
        return -1
    steps = slices_named(trace, lambda name: name.startswith("ProfilerStep#"))
    found = steps[ops[np.minimum(np.searchsorted(ops, steps), len(ops) - 1)] == steps]
    if len(found):
        return int(trace.lane[found[0]])
    count = counted(trace.lane[ops], len(trace.lanes))
    for i in np.flatnonzero(count):
        lane = trace.lanes[int(i)]
        if trace.processes[lane.process].pid == lane.tid:
            return int(i)
    return int(count.argmax())


def build_calls(trace: Trace, python_functions: bool = False) -> Calls:
    """The calls behind a trace's averages, for any scope and grouping, without implausible slices.

    `python_functions`: count `python_function` slices as CPU calls, as PyTorch 2.13 does.
    """
    good = ~trace.implausible
    good[slices_named(trace, HIDDEN_NAMES.__contains__)] = False
    python = (Kind.PYTHON,) if python_functions else ()
    cpu_kinds = (Kind.CPU_OP, Kind.ANNOTATION, Kind.RUNTIME, Kind.OVERHEAD, *python)
    tasks: list[Callable[[], Any]] = [
        lambda: np.flatnonzero(trace.is_kind(*cpu_kinds) & good),
        lambda: _device_events(trace, good),
    ]
    cpu, (device, device_start, device_duration, widened) = run_parallel(tasks, threads_for(len(trace)))
    columns: tuple[Any, ...] = (trace.kind, trace.lane)
    kind, thread = run_parallel(
        [partial(np.take, column, cpu) for column in columns], threads_for(len(trace))
    )
    is_op = (kind == int(Kind.CPU_OP)) | (kind == int(Kind.ANNOTATION))
    ops = np.flatnonzero(is_op)

    # Each call's thread: its lane; for a runtime or overhead event that of its op, or the main thread.
    runtime = np.flatnonzero((kind == int(Kind.RUNTIME)) | (kind == int(Kind.OVERHEAD)))
    links = trace.external_id[cpu[runtime]]
    # An overhead event's id is not a link if it equals the event's own correlation.
    own_id = runtime[kind[runtime] == int(Kind.OVERHEAD)]
    own_id = own_id[trace.external_id[cpu[own_id]] == trace.correlation[cpu[own_id]]]
    links[np.searchsorted(runtime, own_id)] = 0
    with_id = _ops_by_id(trace, cpu[ops])
    linked = with_id(links)
    main, moved = main_lane(trace, cpu[ops]), False
    if main >= 0:
        lane = thread[runtime]
        process = np.array([one.process for one in trace.lanes], dtype=np.int64)
        own = np.where(linked >= 0, thread[ops[linked]], main)
        if len(np.unique(process[thread[ops]])) > 1:  # ids of another process are of other ops
            theirs = (kind[runtime] == int(Kind.RUNTIME)) & (process[own] != process[lane])
            own = np.where(theirs, lane, own)
        thread[runtime] = own
        moved = bool((thread[runtime] != lane).any())
    if moved:
        order = order_by_time(thread, trace.start[cpu], trace.end_of(cpu))
        cpu, thread, is_op = cpu[order], thread[order], is_op[order]
        ops = np.flatnonzero(is_op)  # in the same order, which `with_id` counts in: ops stay in their lanes
    talk = np.zeros(len(trace), dtype=np.bool_)
    talk[slices_named(trace, is_collective, Kind.ANNOTATION)] = True
    talk[list(unfinished(trace))] = True
    apart = talk[cpu]

    links = trace.external_id[device]
    links[(trace.kind[device] == Kind.SYNC) & (links == trace.correlation[device])] = 0
    links[widened] = 0
    of_op = with_id(links)
    device_op: I64 = np.where(of_op >= 0, ops[of_op] if len(ops) else -1, -1)

    n = len(cpu)
    has_op = device_op >= 0
    own_device = sum_into(device_op[has_op], device_duration[has_op], n)
    own_device[apart] = 0
    name = np.ascontiguousarray(trace.name, dtype=np.int32)
    start, duration = (np.ascontiguousarray(one, dtype=np.int64) for one in (trace.start, trace.duration))
    thread = np.ascontiguousarray(thread, dtype=np.int32)
    del kind, is_op, ops, with_id, talk  # memory for the results
    tree = _Tree(cpu, thread, name, start, duration, apart, own_device)
    made = _in_numpy(tree, trace, moved) if sums.LIBRARY is None else _in_few_passes(tree)
    parent, removed, innermost, self_cpu, total = made
    return Calls(
        cpu, parent, removed, innermost, apart, self_cpu, total, own_device,
        device, device_start, device_duration, device_op,
    )  # fmt: skip


def _device_events(trace: Trace, good: Bool) -> tuple[I64, I64, I64, Bool]:
    """The device events that have a row (slices), their starts and durations, and which are annotations."""
    device_kinds = (Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET, Kind.SYNC, Kind.GPU_ANNOTATION)
    # CUDA's own event records have no row in PyTorch's table.
    events = [i for i, c in enumerate(trace.categories) if c.lower() == "cuda_event"]
    device = np.flatnonzero(trace.is_kind(*device_kinds) & good & ~np.isin(trace.category, events))
    device_kind = trace.kind[device]
    device_start, device_duration = trace.start[device], trace.duration[device]
    widened = device_kind == Kind.GPU_ANNOTATION
    # Kineto moves the annotation's start 1 ns to the left and makes it 2 ns longer on export.
    device_start = np.where(widened, device_start + 1, device_start)
    device_duration = np.where(widened, np.maximum(device_duration - 2, 0), device_duration)
    return device, device_start, device_duration, widened


class _Tree(NamedTuple):
    """The calls in tree order, before any is merged. Arrays of one length, but for three columns."""

    cpu: I64
    """Their slices."""
    thread: I32
    name: I32
    """A column of all slices, as are the next two."""
    start: I64
    duration: I64
    apart: Bool
    own_device: I64
    """Its own device time: `Calls.self_device` once they are merged, which changes it in place."""


class _Merged(NamedTuple):
    """Fields of `Calls`."""

    parent: I64
    removed: Bool
    innermost: Bool
    self_cpu: I64
    total: I64


def _in_few_passes(tree: _Tree) -> _Merged:
    cpu, thread, name, start, duration, apart, own = tree
    count = len(cpu)
    parent, self_cpu, total = (np.empty(count, dtype=np.int64) for _ in range(3))
    removed, innermost = np.empty(count, dtype=np.bool_), np.empty(count, dtype=np.bool_)

    def call(function: Any, *arguments: Any) -> None:
        function(*(one.ctypes.data if isinstance(one, np.ndarray) else one for one in arguments))

    library: Any = sums.LIBRARY
    call(library.parents, thread, cpu, start, duration, apart, count, parent)
    part = (removed, innermost, own, self_cpu, total)
    call(library.merge, parent, cpu, name, duration, apart, count, *part)
    return _Merged(parent, removed, innermost, self_cpu, total)


def _in_numpy(tree: _Tree, trace: Trace, moved: bool) -> _Merged:
    cpu, thread, apart, own_device = tree.cpu, tree.thread, tree.apart, tree.own_device
    name, start, duration = tree.name[cpu], tree.start[cpu], tree.duration[cpu]
    parent = _parents_of(trace, cpu, np.flatnonzero(~apart), thread, start, start + duration, moved)
    removed, innermost, top = _same_name_chains(name, parent)
    if removed.any():
        parent = np.where(parent >= 0, top[parent], -1)
    own_device[top[innermost]] = own_device[innermost]
    own_device[removed] = 0
    around = np.where(removed, 0, parent + 1)  # at 0: of none
    self_cpu = np.where(apart, 0, duration - sum_into(around, duration, len(start) + 1)[1:])
    return _Merged(parent, removed, innermost, self_cpu, _totals(parent, own_device))


def self_times(calls: Calls, without_children: I64) -> I64:
    """The self time of every slice, in ns: that of a CPU call as PyTorch's averages count it.

    A call that is merged into the one around it has 0: its time is that one's. What the averages do not count
    (Python functions, device events) keeps its duration `without_children`. Shapes (len(trace),).
    """
    own = without_children.copy()
    own[calls.cpu] = np.where(calls.removed, 0, calls.self_cpu)
    return own


def is_collective(name: str) -> bool:
    """Whether an annotation of this name is a collective's, and so asynchronous for PyTorch."""
    return COLLECTIVE.match(name) is not None


def _parents_of(trace: Trace, cpu: I64, some: I64, thread: I32, start: I64, end: I64, moved: bool) -> I64:
    """The parents among `some` of the calls, in tree order; -1 for none, and for all others. Shape (n,).
    `moved`: whether any call is not in its lane's thread."""
    parent = np.full(len(start), -1, dtype=np.int64)
    at, thread = cpu[some], thread[some]
    # What is around a call in its lane is around it here, too, if it is among them and no call came from
    # another lane.
    place = np.full(len(trace), UNKNOWN, dtype=np.int64)
    place[at] = np.arange(len(some))
    up = trace.parent[at]
    known = np.where(up >= 0, place[up], -1)
    if moved:
        mixed = np.zeros(len(trace.lanes), dtype=np.bool_)
        mixed[thread[thread != trace.lane[at]]] = True
        known[mixed[thread] | ((known >= 0) & (thread[known] != thread))] = UNKNOWN
    found = parents(thread, start[some], end[some], known)
    parent[some] = np.where(found >= 0, some[found], -1)
    return parent


def _same_name_chains(name: I32, parent: I64) -> tuple[Bool, Bool, I64]:
    """Every only child that has its parent's name is merged into it: (removed, innermost, merged into).

    The outermost call of such a chain keeps its duration and takes the innermost one's children and device
    time (EventList._remove_dup_nodes; a chain is one pass there too, as calls come outermost first).
    """
    n = len(parent)
    inner = np.flatnonzero(parent >= 0)
    around = parent[inner]
    children = counted(around, n)
    same = np.flatnonzero(name[around] == name[inner])
    removed = np.zeros(n, dtype=np.bool_)
    removed[inner[same[children[around[same]] == 1]]] = True
    innermost = removed.copy()
    innermost[parent[removed]] = False
    return removed, innermost, top_of(parent, removed)


def _totals(parent: I64, own: I64) -> I64:
    """Own values plus those of all descendants. Shape (n,)."""
    total = own.copy()
    at = np.flatnonzero(own)
    value = own[at]
    for _ in range(64):
        at = parent[at]
        at, value = at[at >= 0], value[at >= 0]
        if not len(at):
            return total
        np.add.at(total, at, value)
    # Very deep: what has come so far goes on by 1, 2, 4, ... levels.
    come = np.zeros_like(own)
    np.add.at(come, at, value)
    further = come.copy()
    while len(at := np.flatnonzero((parent >= 0) & (further != 0))):
        np.add.at(further, parent[at], further[at])
        parent = np.where(parent >= 0, parent[parent], -1)
    return total + further - come


def calls_of(part: Part, python_functions: bool = False) -> Calls:
    """The tree of calls behind the averages."""
    make = partial(build_calls, part.trace, python_functions)
    return part.whole.cached((calls_of, python_functions), make)


@fact_of_trace
def exclusive_time_of(part: Part) -> I64:
    """Each slice's duration minus its children's, ns."""
    return without_children(part.trace.parent, part.trace.duration)


@fact_of_trace
def self_time_of(part: Part) -> I64:
    """The self time of every slice, ns: for a call, as the averages count it."""
    return self_times(calls_of(part), exclusive_time_of(part))


@fact
def outermost_ops_of(part: Part) -> I64:
    """The part's ops that are not inside another op (slices)."""
    at = slices_of(part, Kind.CPU_OP).at
    return at[op_around(part.trace, at) < 0]
