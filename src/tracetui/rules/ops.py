"""Rules on operators: look at the children, metadata only, optimizers, planning before a launch."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tracetui.analysis.calls.ancestors import any_inside
from tracetui.analysis.calls.backward import recomputed_ops
from tracetui.analysis.calls.calls import outermost_ops_of, own_time_of
from tracetui.analysis.calls.launches import launch_calls_of, launches_of
from tracetui.analysis.calls.sums import sum_into
from tracetui.analysis.idle.cpu_time import cpu_time_of, is_synchronising
from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.idle.gaps import busy_union
from tracetui.analysis.idle.initialisation import loading
from tracetui.analysis.names.kernel_names import short_name
from tracetui.analysis.part import Part
from tracetui.analysis.select import METADATA_OPS, named
from tracetui.analysis.steps.scope import slices_of
from tracetui.analysis.verdicts import base_of, verdict_of
from tracetui.core.columns import unique
from tracetui.core.units import duration, plural, share, such, verb
from tracetui.rules.model import (
    CAN_BE_FUSED,
    OF_ALL,
    Finding,
    first_of,
)
from tracetui.trace import Kind
from tracetui.trace.indices import index
from tracetui.trace.model import I32, I64, Bool
from tracetui.trace.slices import Slices

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
    trace, outer = part.trace, Slices(part.trace, outermost_ops_of(part))
    if not len(outer):  # no op, or a part of a trace in the middle of one
        return
    first = outer.by_name()[0]
    time = first.time
    if not time or time < CHILDREN_SHARE * outer.time:
        return
    mine = first.slices
    levels, call = _down(mine)
    if not len(call) or _is_expected(part, call.first, mine.first):
        return
    inside = call.time
    first_use = busy_union(trace, unique(loading(trace), cpu_time_of(part).first))
    if 2 * int(first_use.within(call.start, call.end).sum()) > inside:
        # a finding of its own
        return
    name, below = short_name(first.name, "cpu_op"), call.first_name
    yield Finding(
        "look_at_the_children",
        "info",
        f"{name} spends {share(inside / time)} of its CPU time in {below}",
        f"{name} takes {duration(time)} in {plural(len(mine), 'call')}, more than any other outermost "
        f"op; {duration(inside)} of it {'is' if len(call) == 1 else 'are'} {below}, "
        f"{plural(levels, 'level')} further down.",
        "Look there: an op's total time includes what it calls, its self time does not.",
        first_of(i for child in call.longest_first() for i in (child, _outermost(child, mine))),
        {
            "total_ns": float(time),
            "self_ns": float(own_time_of(part)[mine].sum()),
            "inside_ns": float(inside),
            "levels": float(levels),
        },
    )


def _down(ops: Slices) -> tuple[int, Slices]:
    """(levels, slices): as far down as one name takes half of the ops' time; no slices where none does."""
    found, levels, children = ops[:0], 0, index(ops.trace.parent)
    while levels < _DEEPEST:
        below = np.sort(children.each((found or ops).at)).astype(np.int64)
        most = next(iter(Slices(ops.trace, below).by_name()), None)
        if most is None or 2 * most.time < ops.time:
            break
        found = most.slices
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


def _outermost(call: int, ops: Slices) -> int:
    """The one of the ops around a call."""
    parent, wanted = ops.trace.parent, set(ops)
    while call not in wanted:
        call = int(parent[call])
    return call


def metadata_only(part: Part) -> Iterator[Finding]:
    """View operators launch nothing: they change shapes and strides, and take CPU time only."""
    trace, devices = part.trace, gaps_of(part).devices
    at = slices_of(part, Kind.CPU_OP, METADATA_OPS.__contains__)
    if not len(at) or not len(launch_calls_of(part)):  # without any, a reshape may have launched a copy
        return
    at = at[~any_inside(trace, launch_calls_of(part), at.at)]
    if not len(at):
        return
    own = own_time_of(part)[at]
    names = at.by_calls()
    most = ", ".join(f"{each.name} ({each.calls:,})" for each in names[:4])
    most += " and others" if len(names) > 4 else ""
    ops = slices_of(part, Kind.CPU_OP)
    fraction = float(own.sum()) / max(1.0, float(own_time_of(part)[ops].sum()))
    if fraction < VIEWS_SHARE or own.sum() < VIEWS_OF_ALL * part.length:
        return
    # Next to work that a device has queued they cost nothing.
    views, idle = busy_union(trace, at.at), 0
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
        first_of(each.longest for each in names),
        {"calls": float(len(at)), "self_ns": float(own.sum()), "share": fraction, "idle_ns": float(idle)},
    )


def optimizer_loop(part: Part) -> Iterator[Finding]:
    """An optimizer that updates one tensor after the other, with many small kernels for each."""
    at = slices_of(part, Kind.ANNOTATION, lambda name: name.startswith("Optimizer.step#"))
    if not len(at) or verdict_of(part).verdict == "compute-bound":
        return
    for each in sorted(at.by_name(), key=lambda each: each.index):
        yield from _optimizer_loop(part, each.slices)


def _optimizer_loop(part: Part, at: Slices) -> Iterator[Finding]:
    """`at`: the steps of one optimizer."""
    trace, launches = part.trace, launches_of(part)
    inside = busy_union(trace, at.at)
    spent = inside.time_in(*part.span)
    fraction = spent / max(1, part.length)
    if fraction < OPTIMIZER_SHARE:
        return
    begin = slices_of(part, Kind.ANNOTATION, lambda name: name.startswith("Optimizer.zero_grad#")).start
    if inside.touching(begin, begin + 1).any():  # with a closure, the model runs in it, too
        return
    mine = trace.kind[launches.event] == Kind.KERNEL
    begun = trace.start[launches.launch]
    kernels = Slices(trace, launches.event[mine & (inside.touching(begun, begun + 1) > 0)])
    several = len(kernels.named("multi_tensor_apply"))
    if len(kernels) < OPTIMIZER_KERNELS * len(at) or 2 * several > len(kernels):
        return
    name = at.first_name
    yield Finding(
        "optimizer_loop",
        "medium",
        f"{short_name(name, 'user_annotation')} launches {round(len(kernels) / len(at)):,} kernels a call",
        f"{plural(len(at), 'call')} {verb(len(at), 'take')} {duration(spent)}, {share(fraction)} "
        f"{base_of(part)}. The kernels run for "
        f"{duration(float(kernels.duration.mean()))} on average: each is for one "
        "tensor, and every tensor takes several.",
        _SPARSE
        if "SparseAdam" in name
        else "Update many tensors with one kernel: "
        + (
            "foreach=True or fused=True in the optimizer."
            if CAN_BE_FUSED.fullmatch(name)
            else "foreach=True in the optimizer, if it has that."
        ),
        first_of([*at.longest_first()[:3], *kernels.longest_first()[:3]]),
        {"kernels": float(len(kernels)), "calls": float(len(at)), "share": fraction},
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
    total, span = int(time.sum()), part.length
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
    base = base_of(part)
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
    base = base_of(part)
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
        first_of(again.ops.longest_first()),
        {
            "calls": float(len(again.ops)),
            "cpu_ns": float(again.cpu_ns),
            "device_ns": float(again.device_ns),
            "share": fraction,
        },
    )


def planned_launches(part: Part) -> Iterator[Finding]:
    """An occupancy query before a launch: the library plans its kernel at run time."""
    trace = part.trace
    at = slices_of(part, Kind.RUNTIME, lambda name: "Occupancy" in name)
    launches = launch_calls_of(part)
    position = np.searchsorted(launches, at)
    at, position = at[position < len(launches)], position[position < len(launches)]
    after = launches[position]
    # The query is for the launch that follows it in the same op.
    together = (trace.parent[at] >= 0) & (trace.parent[after] == trace.parent[at])
    at, after = at[together], after[together]
    if not len(at):
        return
    ops = ", ".join(op.name for op in Slices(trace, trace.parent[at].astype(np.int64)).by_calls()[:3])
    planned = np.unique(after)
    total = at.time
    if total < QUERY_SHARE * part.length:
        return
    query = at[-1:].first_name
    yield Finding(
        "planned_launches",
        "info",
        f"{plural(len(planned), 'launch is', 'launches are')} preceded by an occupancy query",
        f"In {ops} the library asks how many blocks of a kernel fit on a multiprocessor before it "
        f"launches it: {such(len(at), 'query', query, 'queries')}, {duration(total)} in all. It "
        "picks the grid for this GPU at run time. Elementwise kernels are launched without asking.",
        "Nothing to change: it explains why this op takes the CPU longer than an elementwise one.",
        first_of(np.stack([at.at, after], axis=1).ravel()),
        {"queries": float(len(at)), "launches": float(len(planned)), "query_ns": float(total)},
    )
