"""Rules on operators: look at the children, metadata only, optimizers, planning before a launch."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tracetui.analysis.calls.ancestors import any_inside, outermost_ops_of
from tracetui.analysis.calls.backward import recomputed_ops
from tracetui.analysis.calls.calls import own_time_of
from tracetui.analysis.calls.launches import launch_calls_of, launches_of
from tracetui.analysis.calls.sums import sum_into
from tracetui.analysis.idle.cpu_time import cpu_time_of, is_synchronising
from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.idle.gaps import busy_union
from tracetui.analysis.idle.initialisation import loading
from tracetui.analysis.idle.verdict import OF_RECORDING
from tracetui.analysis.names.kernel_names import short_name
from tracetui.analysis.part import Part
from tracetui.analysis.select import METADATA_OPS, named
from tracetui.analysis.steps.scope import slices_of
from tracetui.analysis.verdicts import verdict_of
from tracetui.core.columns import unique
from tracetui.core.units import duration, plural, share, such, verb
from tracetui.rules.model import (
    CAN_BE_FUSED,
    OF_ALL,
    Finding,
    first_of,
    longest_first,
    longest_of_each,
)
from tracetui.trace import Kind
from tracetui.trace.indices import index
from tracetui.trace.model import I32, I64, Bool
from tracetui.trace.slices import by_name

CHILDREN_SHARE = 0.3
VIEWS_SHARE = 0.1
VIEWS_OF_ALL = 0.05
QUERY_SHARE = 0.01
OPTIMIZER_SHARE, OPTIMIZER_KERNELS = 0.1, 100
"""Of the time, and for each call of the optimizer."""
LOOP_CALLS, LOOP_SHARE = 32, 0.05
_DEEPEST = 500
"""Levels of calls to go down; Python itself ends at about a thousand."""

_LISTS = """
    abs add addcdiv addcmul clamp_max clamp_min cos div exp lerp log maximum minimum mul neg norm pow
    reciprocal rsqrt sigmoid sign sin sqrt sub tanh
"""
_FOREACH = {f"aten::{name}": f"torch._foreach_{name}" for name in _LISTS.split()} | {
    "aten::linalg_vector_norm": "torch._foreach_norm (clip_grad_norm_(..., foreach=True))",
    "aten::zero": "torch._foreach_zero_ (of gradients: zero_grad(set_to_none=True))",
}
"""Ops on one tensor, without the underscore of those in place, and what does the same to a list."""


_SPARSE = (
    "SparseAdam has neither foreach=True nor fused=True: put several tables into one, with an offset for "
    "each, or let a library update them in the backward pass (FBGEMM, TorchRec)."
)


def _instead(name: str) -> str:
    plain = name.removesuffix("_")
    return _FOREACH[plain] + ("_" if name != plain and _FOREACH[plain][-1].isalpha() else "")


def look_at_the_children(part: Part) -> Iterator[Finding]:
    """The op with the most CPU time spends it in something that its name does not suggest."""
    trace = part.trace
    outer = outermost_ops_of(part)
    if not len(outer):  # no op, or a part of a trace in the middle of one
        return
    names, which = by_name(trace, outer)
    time = sum_into(which, trace.duration[outer], len(names))
    first = int(np.argmax(time))
    total = int(time.sum())
    if not total or time[first] < CHILDREN_SHARE * total:
        return
    mine = outer[which == first]
    levels, call = _down(part, mine, int(time[first]))
    if not len(call) or _is_expected(part, int(call[0]), int(mine[0])):
        return
    inside = int(trace.duration[call].sum())
    first_use = busy_union(trace, unique(loading(trace), cpu_time_of(part).first))
    if 2 * int(first_use.within(trace.start[call], trace.start[call] + trace.duration[call]).sum()) > inside:
        # a finding of its own
        return
    name, below = short_name(trace.names[int(names[first])], "cpu_op"), trace.name_of(int(call[0]))
    longest = longest_first(trace, call)
    yield Finding(
        "look_at_the_children",
        "info",
        f"{name} spends {share(inside / int(time[first]))} of its CPU time in {below}",
        f"{name} takes {duration(time[first])} in {plural(len(mine), 'call')}, more than any other outermost "
        f"op; {duration(inside)} of it {'is' if len(call) == 1 else 'are'} {below}, "
        f"{plural(levels, 'level')} further down.",
        "Look there: an op's total time includes what it calls, its self time does not.",
        first_of([i for child in longest for i in (int(child), _outermost(part, int(child), mine))]),
        {
            "total_ns": float(time[first]),
            "self_ns": float(own_time_of(part)[mine].sum()),
            "inside_ns": float(inside),
            "levels": float(levels),
        },
    )


def _down(part: Part, at: I64, whole: int) -> tuple[int, I64]:
    """(levels, slices): as far down as one name takes half of the whole; no slices where none does."""
    trace, found, levels = part.trace, np.zeros(0, dtype=np.int64), 0
    children = index(trace.parent)
    while levels < _DEEPEST:
        below = np.sort(children.each(at)).astype(np.int64)
        if not len(below):
            break
        called, which = by_name(trace, below)
        spent = sum_into(which, trace.duration[below], len(called))
        most = int(np.argmax(spent))
        if 2 * int(spent[most]) < whole:
            break
        at = found = below[which == most]
        levels += 1
    return levels, found


def _is_expected(part: Part, call: int, op: int) -> bool:
    """Whether a call is what one expects in an op: a launch, a copy, an op of the same library, a wait (which
    `blocking_calls` tells).
    """
    trace = part.trace
    name, kind = trace.name_of(call), trace.kind[call]
    if kind == Kind.RUNTIME:
        return bool((launches_of(part).launch == call).any()) or is_synchronising(name) or "emcpy" in name
    outer = trace.name_of(op)
    library, outer_library = name.split("::")[0], outer.split("::")[0]
    known = "::" in name and "::" in outer and outer_library != "autograd"  # autograd runs any op
    return kind != Kind.CPU_OP or not known or library == outer_library


def _outermost(part: Part, call: int, ops: I64) -> int:
    """The one of the ops around a call."""
    parent = part.trace.parent
    wanted = set(ops.tolist())
    while call not in wanted:
        call = int(parent[call])
    return call


def metadata_only(part: Part) -> Iterator[Finding]:
    """View operators launch nothing: they change shapes and strides, and take CPU time only."""
    trace, devices = part.trace, gaps_of(part).devices
    at = slices_of(part, Kind.CPU_OP, METADATA_OPS.__contains__).at
    if not len(at) or not len(launch_calls_of(part)):  # without any, a reshape may have launched a copy
        return
    at = at[~any_inside(trace, launch_calls_of(part), at)]
    if not len(at):
        return
    own = own_time_of(part)[at]
    names, which = by_name(trace, at)
    calls = np.bincount(which, minlength=len(names))
    order = np.argsort(-calls, kind="stable")
    most = ", ".join(f"{trace.names[int(names[i])]} ({calls[i]:,})" for i in order[:4])
    most += " and others" if len(order) > 4 else ""
    ops = slices_of(part, Kind.CPU_OP).at
    fraction = float(own.sum()) / max(1.0, float(own_time_of(part)[ops].sum()))
    if fraction < VIEWS_SHARE or own.sum() < VIEWS_OF_ALL * (part.span[1] - part.span[0]):
        return
    # Next to work that a device has queued they cost nothing.
    views, idle = busy_union(trace, at), 0
    for gaps in devices:
        begin, end = np.clip(views.start, gaps.first, gaps.last), np.clip(views.end, gaps.first, gaps.last)
        idle += int((end - begin - gaps.blocks.within(begin, end)).sum())
    if idle < max(1, OF_ALL * sum(gaps.span for gaps in devices)):
        return
    waits = f"; for {duration(idle)} of that the GPU is idle." if len(devices) == 1 else "."
    yield Finding(
        "metadata_only",
        "info",
        f"{plural(len(at), 'call')} of view ops {verb(len(at), 'start')} no kernel",
        f"{most}: they only make a new view of the same memory, with different sizes and strides, and "
        f"move no data. They cost the CPU {duration(own.sum())}, {share(fraction)} of the self time of all "
        f"ops{waits}",
        "Nothing runs on the GPU for them: torch.compile avoids these calls.",
        first_of(longest_of_each(trace, at, names[order])),
        {"calls": float(len(at)), "self_ns": float(own.sum()), "share": fraction, "idle_ns": float(idle)},
    )


def optimizer_loop(part: Part) -> Iterator[Finding]:
    """An optimizer that updates one tensor after the other, with many small kernels for each."""
    trace = part.trace
    at = slices_of(part, Kind.ANNOTATION, lambda name: name.startswith("Optimizer.step#")).at
    if not len(at) or verdict_of(part).verdict == "compute-bound":
        return
    for name in np.unique(trace.name[at]).tolist():
        yield from _optimizer_loop(part, at[trace.name[at] == name])


def _optimizer_loop(part: Part, at: I64) -> Iterator[Finding]:
    """`at`: the steps of one optimizer."""
    trace, launches = part.trace, launches_of(part)
    inside = busy_union(trace, at)
    low, high = (np.array([time]) for time in part.span)
    spent = int(inside.within(low, high)[0])
    fraction = spent / max(1, int(high[0] - low[0]))
    if fraction < OPTIMIZER_SHARE:
        return
    begin = trace.start[
        slices_of(part, Kind.ANNOTATION, lambda name: name.startswith("Optimizer.zero_grad#")).at
    ]
    if inside.touching(begin, begin + 1).any():  # with a closure, the model runs in it, too
        return
    mine = trace.kind[launches.event] == Kind.KERNEL
    begun = trace.start[launches.launch]
    event = launches.event[mine & (inside.touching(begun, begun + 1) > 0)]
    several = named(part.trace, lambda name: "multi_tensor_apply" in name)[trace.name[event]]
    if len(event) < OPTIMIZER_KERNELS * len(at) or 2 * several.sum() > len(event):
        return
    name = trace.name_of(int(at[0]))
    yield Finding(
        "optimizer_loop",
        "medium",
        f"{short_name(name, 'user_annotation')} launches {round(len(event) / len(at)):,} kernels a call",
        f"{plural(len(at), 'call')} {verb(len(at), 'take')} {duration(spent)}, {share(fraction)} "
        f"{OF_RECORDING if part.is_whole else verdict_of(part).base}. The kernels run for "
        f"{duration(float(trace.duration[event].mean()))} on average: each is for one "
        "tensor, and every tensor takes several.",
        _SPARSE
        if "SparseAdam" in name
        else "Update many tensors with one kernel: "
        + (
            "foreach=True or fused=True in the optimizer."
            if CAN_BE_FUSED.fullmatch(name)
            else "foreach=True in the optimizer, if it has that."
        ),
        first_of([*longest_first(trace, at)[:3].tolist(), *longest_first(trace, event)[:3].tolist()]),
        {"kernels": float(len(event)), "calls": float(len(at)), "share": fraction},
    )


def tensor_loops(part: Part) -> Iterator[Finding]:
    """An op, or two in turn, for one tensor after the other, where one call could take them all."""
    trace, launch = part.trace, launch_calls_of(part)
    if not len(launch) or verdict_of(part).verdict == "compute-bound":
        return
    at = outermost_ops_of(part)
    at = at[any_inside(trace, launch, at)]
    # Runs of one name on one thread, without a launch outside of ops in between.
    before = launch[np.maximum(np.searchsorted(launch, at) - 1, 0)]
    over = np.append(0, (trace.start[at] + trace.duration[at])[:-1])
    follows = (trace.lane[before] != trace.lane[at]) | (trace.start[before] < over)
    follows &= np.diff(trace.lane[at], prepend=-1) == 0
    foreach = named(part.trace, lambda name: _FOREACH.get(name.removesuffix("_")) is not None)
    follows &= foreach[trace.name[at]]
    alone, in_turn = (_runs(trace.name[at], follows, period) for period in (1, 2))
    first, count = np.concatenate([alone, in_turn], axis=1)
    if not len(first):
        return
    other = trace.name[at[np.minimum(first + 1, len(at) - 1)]]  # of one op alone the same
    begin, last = at[first], at[first + count - 1]
    time = trace.start[last] + trace.duration[last] - trace.start[begin]
    total, span = int(time.sum()), part.span[1] - part.span[0]
    if total < LOOP_SHARE * span:
        return
    names, which = np.unique(np.stack([trace.name[begin], other], axis=1), axis=0, return_inverse=True)
    spent, calls = sum_into(which, time, len(names)), sum_into(which, count, len(names))
    runs = np.bincount(which, minlength=len(names))
    order = np.argsort(-spent, kind="stable")[:3]
    each = [list(dict.fromkeys(trace.names[i] for i in pair)) for pair in names.tolist()]
    told = "; ".join(
        f"{' and '.join(each[i])}, {plural(int(calls[i]), 'call')} in {plural(int(runs[i]), 'run')}, "
        f"{duration(int(spent[i]))}"
        for i in order
    )
    base = OF_RECORDING if part.is_whole else verdict_of(part).base
    many = count / (1 + (other != trace.name[begin]))
    what = "one op" if len(each[order[0]]) == 1 else "two ops in turn"
    loops = f"Loops call {what} {round(float(many.mean())):,}"
    instead = dict.fromkeys(_instead(name) for i in order for name in each[i])
    steps = busy_union(
        trace, slices_of(part, Kind.ANNOTATION, lambda name: name.startswith("Optimizer.step#")).at
    )
    if 2 * int(count[steps.touching(trace.start[begin], trace.start[begin] + 1) > 0].sum()) > int(
        count.sum()
    ):
        instead = {"foreach=True or fused=True in the optimizer": None}
    yield Finding(
        "tensor_loops",
        "medium" if total >= 2 * LOOP_SHARE * span else "low",
        f"{loops} times in a row: {share(total / span)} {base}",
        f"{told}. Each call launches at least one kernel of its own, and nothing else is launched in "
        "between: most likely each is for another tensor of a list, or for the result of the one before.",
        f"One call for a whole list: {', '.join(instead)}. torch.compile makes one kernel of a chain.",
        first_of(begin[np.argsort(-time, kind="stable")]),
        {
            "calls": float(count.sum()),
            "runs": float(len(first)),
            "loop_ns": float(total),
            "share": total / span,
        },
    )


def _runs(name: I32, follows: Bool, period: int) -> I64:
    """(first, count) of the runs of `LOOP_CALLS` and more of the same `period` names, positions in `name`.
    `follows`: which of them come right after the one before. Shape (2, n)."""
    alike = np.zeros(len(name) + 1, dtype=np.bool_)
    alike[period:-1] = name[period:] == name[:-period]
    for n in range(period):
        alike[period:-1] &= follows[period - n : len(name) - n]
    if period > 1:
        alike[1:-1] &= name[1:] != name[:-1]
    edge = np.flatnonzero(np.diff(alike, prepend=False))
    first, count = edge[::2] - period, edge[1::2] - edge[::2] + period
    long = count >= period * LOOP_CALLS
    return np.stack([first[long], count[long]])


def recomputation(part: Part) -> Iterator[Finding]:
    """The backward pass runs forward ops again: activation checkpointing."""
    trace, again = part.trace, recomputed_ops(part)
    if again is None:
        return
    fraction, cpu = again.device_share, again.cpu_share
    base = OF_RECORDING if part.is_whole else verdict_of(part).base
    listed = ", ".join(f"{trace.names[name]} ({calls:,})" for name, calls in again.calls[:3])
    gpu = f" What they launch takes {share(fraction)} of kernel and copy time." if again.device_ns else ""
    yield Finding(
        "recomputation",
        "low",
        f"The backward pass runs forward ops again, for {duration(again.cpu_ns)} on the CPU",
        f"In {plural(again.nodes, 'node')} of the backward pass: {listed}. That is {share(cpu)} {base}.{gpu} "
        "So does activation checkpointing: it computes again what it does not keep.",
        "If memory allows, checkpoint fewer layers (torch.utils.checkpoint), or only what is cheap to "
        "compute again.",
        first_of(longest_first(trace, again.at)),
        {
            "calls": float(len(again.at)),
            "cpu_ns": float(again.cpu_ns),
            "device_ns": float(again.device_ns),
            "share": fraction,
        },
    )


def planned_launches(part: Part) -> Iterator[Finding]:
    """An occupancy query before a launch: the library plans its kernel at run time."""
    trace = part.trace
    at = slices_of(part, Kind.RUNTIME, lambda name: "Occupancy" in name).at
    launches = launch_calls_of(part)
    position = np.searchsorted(launches, at)
    at, position = at[position < len(launches)], position[position < len(launches)]
    after = launches[position]
    # The query is for the launch that follows it in the same op.
    together = (trace.parent[at] >= 0) & (trace.parent[after] == trace.parent[at])
    at, after = at[together], after[together]
    if not len(at):
        return
    names, which = by_name(trace, trace.parent[at])
    order = np.argsort(-np.bincount(which, minlength=len(names)), kind="stable")
    ops = ", ".join(trace.names[int(names[i])] for i in order[:3])
    planned = np.unique(after)
    total = int(trace.duration[at].sum())
    if total < QUERY_SHARE * (part.span[1] - part.span[0]):
        return
    query = trace.name_of(int(at[-1]))
    yield Finding(
        "planned_launches",
        "info",
        f"{plural(len(planned), 'launch is', 'launches are')} preceded by an occupancy query",
        f"In {ops} the library asks how many blocks of a kernel fit on a multiprocessor before it "
        f"launches it: {such(len(at), 'query', query, 'queries')}, {duration(total)} in all. It "
        "picks the grid for this GPU at run time. Elementwise kernels are launched without asking.",
        "Nothing to change: it explains why this op takes the CPU longer than an elementwise one.",
        first_of(np.stack([at, after], axis=1).ravel()),
        {"queries": float(len(at)), "launches": float(len(planned)), "query_ns": float(total)},
    )
