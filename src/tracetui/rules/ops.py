"""Rules on operators: look at the children, metadata only, optimizers, planning before a launch."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tracetui.analysis.calls.ancestors import any_inside
from tracetui.analysis.calls.backward import recomputed_ops
from tracetui.analysis.calls.calls import exclusive_time_of, outermost_ops_of
from tracetui.analysis.calls.launches import launch_calls_of, launches_of
from tracetui.analysis.calls.sums import sum_into
from tracetui.analysis.device_work import work_time
from tracetui.analysis.idle.cpu_time import cpu_time_of, is_synchronizing
from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.idle.gaps import busy_union
from tracetui.analysis.idle.initialization import loading
from tracetui.analysis.names.kernel_names import short_name
from tracetui.analysis.part import Part
from tracetui.analysis.select import METADATA_OPS, name_mask
from tracetui.analysis.steps.scope import slices_of
from tracetui.analysis.verdicts import base_of, verdict_of
from tracetui.core.columns import unique
from tracetui.core.units import duration, plural, such
from tracetui.rules.claims import Claims, Count, Named, Names, Remedy, Share, Time, names_of, says
from tracetui.rules.model import CAN_BE_FUSED, OF_ALL, OF_WORK, Finding, build_finding
from tracetui.trace import Kind
from tracetui.trace.indices import index
from tracetui.trace.model import I32, I64, Bool
from tracetui.trace.slices import Slices, joined

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
    if 2 * int(first_use.overlap(call.start, call.end).sum()) > inside:
        # a finding of its own
        return
    yield build_finding(
        "look_at_the_children",
        "info",
        {
            "total_ns": Time(time),
            "self_ns": Time(int(exclusive_time_of(part)[mine].sum())),
            "inside_ns": Time(inside),
            "levels": Count(levels),
            "share": Share(inside, time, "of its CPU time"),
            "name": short_name(first.name, "cpu_op"),
            "calls": Count(len(mine)),
            "below": call.first_name,
            "below_calls": Count(len(call)),
        },
        call,
        "total_ns self_ns inside_ns levels",
        first=(i for child in call.longest_first() for i in (child, _outermost(child, mine))),
    )


@says("look_at_the_children")
def _look_at_the_children(c: Claims) -> tuple[str, str, str]:
    return (
        f"{c.name} spends {c.share} in {c.below}",
        f"{c.name} takes {c.total_ns} in {c.calls:call}, more than any other outermost op; {c.inside_ns} of "
        f"it {'is' if c.below_calls.n == 1 else 'are'} {c.below}, {c.levels:level} further down.",
        "Look there: an op's total time includes what it calls, its self time does not.",
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
        return bool((launches_of(part).launch == call).any()) or is_synchronizing(name) or "emcpy" in name
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
    own = exclusive_time_of(part)[at]
    names = at.by_calls()
    ops = slices_of(part, Kind.CPU_OP)
    share = Share(
        int(own.sum()), max(1, int(exclusive_time_of(part)[ops].sum())), "of the self time of all ops"
    )
    if share.value < VIEWS_SHARE or own.sum() < VIEWS_OF_ALL * part.length:
        return
    # Next to work that a device has queued they cost nothing.
    views, idle = busy_union(trace, at.at), 0
    for gaps in devices:
        begin, end = np.clip(views.start, gaps.first, gaps.last), np.clip(views.end, gaps.first, gaps.last)
        idle += int((end - begin - gaps.blocks.overlap(begin, end)).sum())
    if idle < max(1, OF_ALL * sum(gaps.span for gaps in devices)):
        return
    yield build_finding(
        "metadata_only",
        "info",
        {
            "calls": Count(len(at)),
            "self_ns": Time(int(own.sum())),
            "share": share,
            "idle_ns": Time(idle),
            "names": Names(tuple(Named(each.name, each.calls) for each in names[:4])),
            "more_names": len(names) > 4,
            "gpus": Count(len(devices)),
        },
        at,
        "calls self_ns share idle_ns",
        first=(each.longest for each in names),
        remedy=Remedy("remove", at),
    )


@says("metadata_only")
def _metadata_only(c: Claims) -> tuple[str, str, str]:
    waits = f"; for {c.idle_ns} of that the GPU is idle." if c.gpus.n == 1 else "."
    return (
        f"{c.calls:call} of view ops {c.calls:~start} no kernel",
        f"{c.names}{' and others' if c.more_names else ''}: they only make a new view of the same memory, "
        f"with different sizes and strides, and move no data. They cost the CPU {c.self_ns}, "
        f"{c.share}{waits}",
        "Nothing runs on the GPU for them: torch.compile avoids these calls.",
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
    if inside.holds(begin).any():  # with a closure, the model runs in it, too
        return
    mine = trace.kind[launches.event] == Kind.KERNEL
    begun = trace.start[launches.launch]
    kernels = Slices(trace, launches.event[mine & inside.holds(begun)])
    several = len(kernels.named("multi_tensor_apply"))
    if len(kernels) < OPTIMIZER_KERNELS * len(at) or 2 * several > len(kernels):
        return
    name = at.first_name
    yield build_finding(
        "optimizer_loop",
        "medium",
        {
            "kernels": Count(len(kernels)),
            "calls": Count(len(at)),
            "share": Share(spent, max(1, part.length), base_of(part)),
            "name": short_name(name, "user_annotation"),
            "each": Count(round(len(kernels) / len(at))),
            "spent_ns": Time(spent),
            "mean_ns": Time(float(kernels.duration.mean())),
            "can": "nothing"
            if "SparseAdam" in name
            else "fuse"
            if CAN_BE_FUSED.fullmatch(name)
            else "foreach",
        },
        joined(at, kernels),
        "kernels calls share",
        first=[*at.longest_first()[:3], *kernels.longest_first()[:3]],
        remedy=Remedy("remove", kernels),
    )


@says("optimizer_loop")
def _optimizer_loop_words(c: Claims) -> tuple[str, str, str]:
    can = {
        "fuse": "foreach=True or fused=True in the optimizer.",
        "foreach": "foreach=True in the optimizer, if it has that.",
    }
    return (
        f"{c.name} launches {c.each} kernels a call",
        f"{c.calls:call} {c.calls:~take} {c.spent_ns}, {c.share}. The kernels run for {c.mean_ns} on "
        "average: each is for one tensor, and every tensor takes several.",
        f"Update many tensors with one kernel: {can[c.can]}" if c.can in can else _SPARSE,
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
    over = np.append(0, trace.end_of(at)[:-1])
    follows = (trace.lane[before] != trace.lane[at]) | (trace.start[before] < over)
    follows &= np.diff(trace.lane[at], prepend=-1) == 0
    foreach = name_mask(part.trace, lambda name: _FOREACH.get(name.removesuffix("_")) is not None)
    follows &= foreach[trace.name[at]]
    alone, in_turn = (_runs(trace.name[at], follows, period) for period in (1, 2))
    first, count = np.concatenate([alone, in_turn], axis=1)
    if not len(first):
        return
    other = trace.name[at[np.minimum(first + 1, len(at) - 1)]]  # of one op alone the same
    begin, last = at[first], at[first + count - 1]
    time = trace.end_of(last) - trace.start[begin]
    total, span = int(time.sum()), part.length
    if total < LOOP_SHARE * span:
        return
    names, which = np.unique(np.stack([trace.name[begin], other], axis=1), axis=0, return_inverse=True)
    spent, calls = sum_into(which, time, len(names)), sum_into(which, count, len(names))
    runs = np.bincount(which, minlength=len(names))
    order = np.argsort(-spent, kind="stable")[:3]
    each = [list(dict.fromkeys(trace.names[i] for i in pair)) for pair in names.tolist()]
    many = count / (1 + (other != trace.name[begin]))
    steps = busy_union(
        trace, slices_of(part, Kind.ANNOTATION, lambda name: name.startswith("Optimizer.step#")).at
    )
    in_steps = int(count[steps.holds(trace.start[begin])].sum())
    share = Share(total, span, base_of(part))
    loops = (Named(" and ".join(each[i]), int(calls[i]), int(spent[i])) for i in order)
    yield build_finding(
        "tensor_loops",
        "medium" if total >= 2 * LOOP_SHARE * span else "low",
        {
            "calls": Count(int(count.sum())),
            "runs": Count(len(first)),
            "loop_ns": Time(total),
            "share": share,
            "loops": Names(tuple(loops)),
            "runs_of_each": names_of(plural(int(runs[i]), "run") for i in order),
            "in_turn": len(each[order[0]]) > 1,
            "many": Count(round(float(many.mean()))),
            "ops": names_of(dict.fromkeys(name for i in order for name in each[i])),
            "in_optimizer": 2 * in_steps > int(count.sum()),
        },
        Slices(trace, begin[np.argsort(-time, kind="stable")]),
        "calls runs loop_ns share",
    )


@says("tensor_loops")
def _tensor_loops(c: Claims) -> tuple[str, str, str]:
    loops = "; ".join(
        f"{each.name}, {plural(each.calls, 'call')} in {runs}, {duration(each.ns)}"
        for each, runs in zip(c.loops.each, c.runs_of_each.each, strict=True)
    )
    instead = ", ".join(dict.fromkeys(_instead(each.name) for each in c.ops.each))
    if c.in_optimizer:
        instead = "foreach=True or fused=True in the optimizer"
    return (
        f"Loops call {'two ops in turn' if c.in_turn else 'one op'} {c.many} times in a row: {c.share}",
        f"{loops}. Each call launches at least one kernel of its own, and nothing else is launched in "
        "between: most likely each is for another tensor of a list, or for the result of the one before.",
        f"One call for a whole list: {instead}. torch.compile makes one kernel of a chain.",
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
    ops = again.ops.longest_first()
    yield build_finding(
        "recomputation",
        "low",
        {
            "calls": Count(len(ops)),
            "cpu_ns": Time(again.cpu_ns),
            "device_ns": Time(again.device_ns),
            "share": Share(again.device_ns, max(1, work_time(part)), OF_WORK),
            "cpu_share": Share(again.cpu_ns, max(1, part.length), base_of(part)),
            "nodes": Count(again.nodes),
            "names": Names(tuple(Named(trace.names[name], calls) for name, calls in again.calls[:3])),
        },
        ops,
        "calls cpu_ns device_ns share",
        remedy=Remedy("remove", ops),
    )


@says("recomputation")
def _recomputation(c: Claims) -> tuple[str, str, str]:
    gpu = f" What they launch takes {c.share}." if c.device_ns.ns else ""
    return (
        f"The backward pass runs forward ops again, for {c.cpu_ns} on the CPU",
        f"In {c.nodes:node} of the backward pass: {c.names}. That is {c.cpu_share}.{gpu} So does activation "
        "checkpointing: it computes again what it does not keep.",
        "If memory allows, checkpoint fewer layers (torch.utils.checkpoint), or only what is cheap to "
        "compute again.",
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
    ops = (op.name for op in Slices(trace, trace.parent[at].astype(np.int64)).by_calls()[:3])
    planned = np.unique(after)
    total = at.time
    if total < QUERY_SHARE * part.length:
        return
    yield build_finding(
        "planned_launches",
        "info",
        {
            "queries": Count(len(at)),
            "launches": Count(len(planned)),
            "query_ns": Time(total),
            "ops": names_of(ops),
            "query": at[-1:].first_name,
        },
        Slices(trace, np.stack([at.at, after], axis=1).ravel()),
        "queries launches query_ns",
    )


@says("planned_launches")
def _planned_launches(c: Claims) -> tuple[str, str, str]:
    return (
        f"{c.launches:launch is/launches are} preceded by an occupancy query",
        f"In {c.ops} the library asks how many blocks of a kernel fit on a multiprocessor before it launches "
        f"it: {such(c.queries.n, 'query', c.query, 'queries')}, {c.query_ns} in all. It picks the grid for "
        "this GPU at run time. Elementwise kernels are launched without asking.",
        "Nothing to change: it explains why this op takes the CPU longer than an elementwise one.",
    )
