"""Rules on the kernels themselves: what takes most, what memory limits, what is too short."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tracetui.analysis.attention import outside_attention
from tracetui.analysis.calls.backward import searches_for_nan
from tracetui.analysis.calls.compiling import compile_phases
from tracetui.analysis.calls.launches import (
    SHORT_EVENTS,
    SHORT_SHARE,
    launched_by_rnn,
    launches_of,
    short_kernels_of,
)
from tracetui.analysis.calls.sums import sum_into
from tracetui.analysis.device_text import gpus_text
from tracetui.analysis.device_work import (
    decoded_name,
    device_work_of,
    kernel_names_of,
    op_behind,
    work_of_kind,
    work_time,
)
from tracetui.analysis.idle.exposed_time import host_copies
from tracetui.analysis.idle.gap_list import busy_share_of, gaps_of
from tracetui.analysis.idle.gaps import busy_union
from tracetui.analysis.idle.waits import blocking_launches_of
from tracetui.analysis.names.kernel_names import short_name
from tracetui.analysis.names.model import KernelName, on_plain_units
from tracetui.analysis.part import Part
from tracetui.analysis.rates.efficiency import efficiency, shapes_recorded
from tracetui.analysis.rates.flops import counted
from tracetui.analysis.rates.small_grids import SPINS, small_grids_of
from tracetui.analysis.select import name_mask
from tracetui.rules.advice import FIRST_TURN_OFF, RNN_ADVICE, before_graphs, graphs
from tracetui.rules.claims import Claim, Claims, Count, Named, Names, Rate, Ratio, Remedy, Share, Time, says
from tracetui.rules.model import (
    FUSED_SHARE,
    MUCH_IDLE,
    OF_WORK,
    SMALL_COPIES,
    WAITED_SHARE,
    Finding,
    build_finding,
    can_be_fused,
    waited_share,
)
from tracetui.trace.model import I64
from tracetui.trace.slices import Slices, by_name, joined

HOTSPOT_SHARE = 0.5
HOTSPOT_RATIO = 1.5
"""It takes as many times as long as what comes next."""
RATED = 200
"""Read the shapes of at most this many calls to rate a hotspot."""
MEMORY_SHARE = 0.5
BUSY_SHARE = 0.8
NEAR_PEAK = 0.6


def hotspot(part: Part) -> Iterator[Finding]:
    """One name takes most of the device's work, on a device that has something to do."""
    trace, work = part.trace, device_work_of(part)
    names, which = by_name(trace, work.at)
    alike = _alike(part, names)
    which = alike[which]
    if len(np.unique(alike)) < 2 or (busy_share_of(part) or 0) < 0.3:
        return
    time = sum_into(which, work.duration, len(names))
    top = int(np.argmax(time))
    fraction = int(time[top]) / work_time(part) if work_time(part) else 0.0
    if fraction < HOTSPOT_SHARE or time[top] < HOTSPOT_RATIO * np.sort(time)[-2]:
        return
    at = work[which == top]
    name = decoded_name(part, at.first)
    # These have rules of their own.
    own = np.isin(names[top], small_grids_of(part).names)
    if own or name.kind == "collective" or host_copies(trace, at.at[:1])[0] or on_plain_units(name):
        return
    at = at.longest_first()
    claims: dict[str, Claim] = {
        "name": name.short,
        "share": Share(int(time[top]), work_time(part), OF_WORK),
        "calls": Count(len(at)),
        "device_ns": Time(int(time[top])),
        "mean_ns": Time(time[top] / len(at)),
        "rest_ns": Time(work_time(part) - int(time[top])),
        "instances": Count(int(np.count_nonzero(alike == top))),
        "gpus": Count(len(gaps_of(part).devices)),
        "why": "spins" if SPINS in at.first_name else "joins" if "CatArray" in at.first_name else "",
        "shapes": shapes_recorded(trace) or not _shapes_would_tell(part, at, name),
    }
    numbers = "share calls device_ns"
    row = next(iter(efficiency(trace, at[:RATED].at).kernels), None)
    if row is not None and row.tflops is not None:
        claims["rate"], claims["tflops"] = Rate(row.tflops * 1e12, "FLOP/s"), Ratio(row.tflops)
        numbers += " tflops"
        if row.compute_share is not None:
            claims["compute_share"] = Share(row.compute_share, 1, "of the peak for its type")
            numbers += " compute_share"
        if row.memory_share is not None and row.gbps is not None and row.memory_share >= NEAR_PEAK:
            claims["bytes"] = Rate(row.gbps * 1e9, "B/s")
            claims["memory_share"] = Share(row.memory_share, 1, "of the memory's bandwidth")
            numbers += " memory_share"
    severity = "low" if name.kind in ("gemm", "conv", "attention") else "medium"
    yield build_finding("hotspot", severity, claims, at, numbers, remedy=Remedy("speed_up", at))


@says("hotspot")
def _hotspot(c: Claims) -> tuple[str, str, str]:
    reached = ""
    if "rate" in c:
        reached = f"It reaches {c.rate}"
        if "compute_share" in c:
            reached += f", {c.compute_share}"
        if "memory_share" in c:
            reached += f", and moves at least {c.bytes}, {c.memory_share}"
        reached += ". "
    calls = f"{c.calls:call} of {c.mean_ns} on average, {c.device_ns}"
    calls = calls if c.calls.n > 1 else f"1 call, {c.mean_ns}"
    of_them = f", by {c.instances} instances of one template" if c.instances.n > 1 else ""
    whose = "the GPU's" if c.gpus.n == 1 else "the GPUs'"
    advice = {
        "spins": "It only waits, as torch.cuda._sleep does: leave it out of what you measure.",
        "joins": _JOINS,
    }
    return (
        f"{c.name} takes {c.share}",
        f"{calls} in all{of_them}. {reached}All {whose} other work together takes {c.rest_ns}.",
        advice.get(c.why) or _hotspot_advice(c),
    )


_COUNTED = ("gemm", "conv", "attention", "elementwise", "copy")
"""The kinds of kernels whose work recorded shapes tell (`flops`)."""


def _alike(part: Part, names: I64) -> I64:
    """For each of the names the place of the first that reads the same, of those that multiply: instances of
    one template, which differ in layouts and the like."""
    decoded, first = kernel_names_of(part), dict[str, int]()
    each = [decoded[name] for name in names.tolist()]
    return np.array(
        [
            first.setdefault(name.short, i) if name.kind in ("gemm", "conv", "attention") else i
            for i, name in enumerate(each)
        ],
        dtype=np.int64,
    )


def _shapes_would_tell(part: Part, at: Slices, name: KernelName) -> bool:
    """Whether recorded shapes would say how much work kernels of one name do: not of a graph's, which have no
    op, nor of those that the compiler wrote."""
    trace = part.trace
    if name.kind not in _COUNTED:
        return False
    op, launch = op_behind(trace, at.at), trace.launch[at]
    if (op >= 0).any():
        return bool(name_mask(part.trace, counted)[trace.name[op[op >= 0]]].any())
    graphs = name_mask(part.trace, lambda other: "GraphLaunch" in other)
    return not graphs[trace.name[launch[launch >= 0]]].any()


_JOINS = (
    "Each call copies everything it joins: allocate the result once, at full size, and write the parts into "
    "it (a cache that grows by torch.cat is copied as a whole each time)."
)


def _hotspot_advice(c: Claims) -> str:
    if "memory_share" in c:
        return "Memory limits it: larger batches reuse what it reads, a narrower type reads less."
    if "compute_share" not in c:
        before = "Compare its rate with the GPU's peak before you tune it"
        return f"{before}." if c.shapes else f"{before}: record_shapes=True shows how much work it does."
    if c.compute_share.value >= NEAR_PEAK:
        return "There is little left to gain in the kernel itself: give it less work, or a narrower type."
    return "It is well below the peak: check the shape of its work (too small, unaligned, or too narrow?)."


_GATHERING = (
    "Gather and scatter less: a narrower type, indices in order, or an op that reduces what it gathers at "
    "once (torch.sparse.mm, torch.segment_reduce, embedding_bag)."
)


def memory_bound(part: Part) -> Iterator[Finding]:
    """A busy device that mostly runs kernels which read and write memory and compute next to nothing."""
    if (busy_share_of(part) or 0.0) < BUSY_SHARE:
        return
    indexing = work_of_kind(part, "index")
    at = joined(work_of_kind(part, "elementwise", "copy", "softmax", "norm", "reduction", "memcpy"), indexing)
    at = outside_attention(part, at[~host_copies(part.trace, at.at)])
    at = at[~np.isin(at.name, small_grids_of(part).names)]  # few blocks limit them, not memory
    time, names = at.time, at.by_name()
    if not time or time < MEMORY_SHARE * work_time(part) or len(names) < 2:  # of one, `hotspot` tells
        return
    short = kernel_names_of(part)
    yield build_finding(
        "memory_bound",
        "medium",
        {
            "share": Share(time, work_time(part), OF_WORK),
            "device_ns": Time(time),
            "names": Names(tuple(Named(short[each.index].short, ns=each.time) for each in names[:4])),
            "gathered_ns": Time(at[at.among(indexing)].time),
        },
        at,
        "share device_ns",
        first=(each.longest for each in names),
        remedy=Remedy("speed_up", at),
    )


@says("memory_bound")
def _memory_bound(c: Claims) -> tuple[str, str, str]:
    gathered = c.gathered_ns.ns
    return (
        f"{c.share} goes to kernels that mostly read and write memory",
        f"Elementwise work, {'gathers, scatters, ' if gathered else ''}copies, norms and reductions "
        f"(by name): {c.names}. Each reads its inputs from the GPU's memory, writes its result back, and "
        "does almost no arithmetic on the way.",
        _GATHERING
        if 2 * gathered > c.device_ns.ns
        else "Fuse them: torch.compile for chains of elementwise ops, fused norms and losses. Intermediate "
        "results then never go to memory.",
    )


def short_calls(part: Part) -> Iterator[Finding]:
    """Very many kernels that are over before their launch would be."""
    trace, launches = part.trace, launches_of(part)
    # Launches that the device never waits for cost nothing.
    if (waited := waited_share(part)) < WAITED_SHARE:
        return
    short = short_kernels_of(part)
    if short.events < SHORT_EVENTS or short.events < SHORT_SHARE * short.of:
        return
    if blocking_launches_of(part) is not None:  # the time of a launch is that of its kernel
        return
    name = short.names[0]
    mask = name_mask(part.trace, lambda other: other == name)
    mine = short.at[mask[trace.name[launches.event[short.at]]]]
    # What torch.compile tries out is not the program's.
    compiler = busy_union(trace, compile_phases(part))
    tried = compiler.holds(trace.start[launches.launch])
    if 2 * int(np.count_nonzero(tried)) > len(launches):
        return
    at = launches.event[mine][np.argsort(-launches.cost[mine], kind="stable")]
    kernel = decoded_name(part, int(at[0]))
    small, quick = short.at, trace.duration[launches.event] < launches.cost
    op = op_behind(trace, launches.event[small])
    ops, calls = np.unique(trace.name[op[op >= 0]], return_counts=True)
    order = [i for i in np.argsort(-calls, kind="stable")[:3] if "::" in trace.names[int(ops[i])]]
    begun = trace.start[launches.launch[small]]
    updates = np.count_nonzero(can_be_fused(part).holds(begun)) >= FUSED_SHARE * len(small)
    copies = 2 * np.count_nonzero(host_copies(trace, launches.event[quick])) > np.count_nonzero(quick)
    why = (
        "anomaly" if searches_for_nan(part)
        else "copies" if copies
        else "rnn" if launched_by_rnn(part)
        else ""
    )  # fmt: skip
    named_ops = (Named(short_name(trace.names[int(ops[i])], "cpu_op"), int(calls[i])) for i in order)
    events = Slices(trace, launches.event[short.at])
    yield build_finding(
        "short_calls",
        "medium" if waited >= MUCH_IDLE else "low",
        {
            "short": Count(short.events),
            "of": Count(short.of),
            "launch_ns": Time(int(short.launch_time.sum())),
            "device_ns": Time(int(short.device_time.sum())),
            # First launches are far longer, and say nothing of the others.
            "usual_launch_ns": Time(float(np.median(launches.cost))),
            "gpus": Count(len(gaps_of(part).devices)),
            "kernel": kernel.short,
            "calls": Count(int(short.count[0])),
            "mean_ns": Time(short.device_time[0] / max(1, short.count[0])),
            "ops": Names(tuple(named_ops)),
            "why": why,
            "fusable": bool(updates),
            **graphs(part),
        },
        events,
        "short of launch_ns",
        first=at,
        remedy=Remedy("remove", Slices(trace, launches.launch[short.at])),
    )


@says("short_calls")
def _short_calls(c: Claims) -> tuple[str, str, str]:
    under = f" The ops that launch most of them: {c.ops}." if c.ops.each else ""
    advised = ", CUDA graphs make launches cheap" if c.graphs == "advised" else ""
    more = "; a fused optimizer handles many tensors per kernel." if c.fusable else "."
    advice = {"anomaly": FIRST_TURN_OFF, "copies": SMALL_COPIES, "rnn": RNN_ADVICE}
    return (
        f"{c.short} of {c.of} kernels, copies and memsets take less time than their launch",
        f"They keep {gpus_text(c.gpus.n)} busy for {c.device_ns}{' in all' if c.gpus.n > 1 else ''}; a "
        f"launch takes the CPU {c.usual_launch_ns} (median). Most frequent: {c.kernel}, {c.calls:call} of "
        f"{c.mean_ns} on average.{under}",
        advice.get(c.why)
        or "Do more per kernel: torch.compile fuses elementwise chains, larger batches lengthen every "
        f"kernel{advised}{more}{before_graphs(c)}",
    )
