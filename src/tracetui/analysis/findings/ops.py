"""Rules on operators: look at the children, metadata only, planning before a launch."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tracetui.analysis.ancestors import op_around
from tracetui.analysis.findings.model import Finding, first_of
from tracetui.analysis.kernel_names import short_name
from tracetui.analysis.nesting import sum_into
from tracetui.analysis.results import Results
from tracetui.trace import Kind
from tracetui.trace.model import I64, Bool
from tracetui.units import duration, plural, share, verb

CHILDREN_SHARE = 0.3
OWN_SHARE = 0.2
HANDED_ON = 0.8
"""Of the time in what an op calls: from this share on one of the callees is what it does."""

_VIEWS = """
    _unsafe_view alias as_strided chunk detach diagonal expand expand_as flatten lift_fresh movedim narrow
    numpy_T permute reshape select slice split squeeze swapaxes t transpose unbind unflatten unfold unsqueeze
    view view_as
"""
METADATA_OPS = frozenset(f"aten::{name}" for name in _VIEWS.split())
"""Operators that make a new view of a tensor's memory: no kernel, as long as none of them has to copy."""


def look_at_the_children(results: Results) -> Iterator[Finding]:
    """The op with the most CPU time has hardly any of its own: what costs lies below it.

    Not where that is plain: it hands nearly all of its work on to one op, as aten::linear does to aten::addmm
    and the autograd engine to the backward op.
    """
    trace = results.trace
    at = results.slices(Kind.CPU_OP, lambda _: True)
    if not len(at):
        return
    outer = at[op_around(trace, at) < 0]
    if not len(outer):  # a part of a trace, in the middle of an op
        return
    names, which = np.unique(trace.name[outer], return_inverse=True)
    time = sum_into(which, trace.duration[outer], len(names))
    own = sum_into(which, results.own_time()[outer], len(names))
    first = int(np.argmax(time))
    total = int(time.sum())
    if not total or time[first] < CHILDREN_SHARE * total or own[first] > OWN_SHARE * time[first]:
        return
    mine = outer[which == first]
    below = np.flatnonzero(np.isin(trace.parent, mine))
    if not len(below):
        return
    called, which = np.unique(trace.name[below], return_inverse=True)
    spent = sum_into(which, trace.duration[below], len(called))
    if spent.max() >= HANDED_ON * (total_below := int(spent.sum())) or not total_below:
        return
    most = below[which == np.argmax(spent)]
    child = int(most[np.argmax(trace.duration[most])])
    inside = 1 - int(own[first]) / int(time[first])
    name = short_name(trace.names[int(names[first])], "cpu_op")
    yield Finding(
        "look_at_the_children",
        "info",
        f"{name} spends {share(inside)} of its CPU time in what it calls",
        f"{name} takes {duration(time[first])} in {plural(len(mine), 'call')}, more than any other outermost "
        f"op, and {duration(own[first])} of it is its own. The rest is in what it calls, most of that in "
        f"{short_name(trace.name_of(child), 'cpu_op')}. Total counts the children, self does not.",
        "Sort the table by self time, or go down into the op's children.",
        first_of([int(trace.parent[child]), child]),
        {"total_ns": float(time[first]), "self_ns": float(own[first])},
    )


def metadata_only(results: Results) -> Iterator[Finding]:
    """View operators launch nothing: they change shapes and strides, and take CPU time only."""
    trace = results.trace
    at = results.slices(Kind.CPU_OP, METADATA_OPS.__contains__)
    if not len(at) or not len(results.work()):
        return
    at = at[~_launches_inside(results, at)]
    if not len(at):
        return
    own = results.own_time()[at]
    names, which = np.unique(trace.name[at], return_inverse=True)
    calls = np.bincount(which, minlength=len(names))
    order = np.argsort(-calls, kind="stable")
    most = ", ".join(f"{trace.names[int(names[i])]} ({calls[i]:,})" for i in order[:4])
    most += " and others" if len(order) > 4 else ""
    ops = results.slices(Kind.CPU_OP, lambda _: True)
    part = float(own.sum()) / max(1.0, float(results.own_time()[ops].sum()))
    first = [int(at[trace.name[at] == names[i]][0]) for i in order]
    yield Finding(
        "metadata_only",
        "info",
        f"{plural(len(at), 'call')} of view ops {verb(len(at), 'start')} no kernel",
        f"{most}: they only make a new view of the same memory, with other sizes and strides, and move no "
        f"data. They cost the CPU {duration(own.sum())}, {share(part)} of the self time of all ops, and the "
        "device nothing.",
        "Nothing to gain on the device. A transposed operand is not copied either: the product reads it as "
        "it lies.",
        first_of(first),
        {"calls": float(len(at)), "self_ns": float(own.sum()), "share": part},
    )


def _launches_inside(results: Results, at: I64) -> Bool:
    """Mask: which of the ops had something launched while they ran, on their own thread."""
    trace = results.trace
    launch = np.unique(results.launches().launch)
    if not len(launch):
        return np.zeros(len(at), dtype=np.bool_)
    # A launch in an op is one of the rows after it, before the first that starts after its end.
    end = trace.start[at] + trace.duration[at]
    following = np.searchsorted(launch, at, side="right")
    found = launch[np.minimum(following, len(launch) - 1)]
    inside: Bool = (trace.lane[found] == trace.lane[at]) & (trace.start[found] < end)
    return inside & (following < len(launch))


def planned_launches(results: Results) -> Iterator[Finding]:
    """An occupancy query before a launch: the library plans its kernel at run time."""
    trace = results.trace
    at = results.slices(Kind.RUNTIME, lambda name: "Occupancy" in name)
    launches = np.unique(results.launches().launch)
    position = np.searchsorted(launches, at)
    at, position = at[position < len(launches)], position[position < len(launches)]
    after = launches[position]
    # The query is for the launch that follows it in the same op.
    together = (trace.parent[at] >= 0) & (trace.parent[after] == trace.parent[at])
    at, after = at[together], after[together]
    if not len(at):
        return
    names, which = np.unique(trace.name[trace.parent[at]], return_inverse=True)
    order = np.argsort(-np.bincount(which, minlength=len(names)), kind="stable")
    ops = ", ".join(trace.names[int(names[i])] for i in order[:3])
    planned = np.unique(after)
    total = int(trace.duration[at].sum())
    query = trace.name_of(int(at[-1]))
    such = f" such as {query}" if len(at) > 1 else f" ({query})"
    yield Finding(
        "planned_launches",
        "info",
        f"{plural(len(planned), 'launch is', 'launches are')} planned by asking for the occupancy first",
        f"Under {ops} the library asks how many blocks of a kernel fit on a multiprocessor before it "
        f"launches: {plural(len(at), 'query', 'queries')}{such}, {duration(total)} in all. It "
        "chooses its grid for this device at run time. Elementwise kernels are launched without asking.",
        "Nothing to change: it explains why such an op takes the CPU longer than an elementwise one.",
        first_of(np.stack([at, after], axis=1).ravel()),
        {"queries": float(len(at)), "launches": float(len(planned)), "query_ns": float(total)},
    )
