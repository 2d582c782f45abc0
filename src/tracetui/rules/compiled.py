"""Rules on compiled code: what every call pays, what was fused, CUDA graphs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tracetui.analysis.calls.ancestors import first_marked
from tracetui.analysis.calls.compiling import (
    COMPILED_REGION,
    COMPILING,
    COMPILING_SHARE,
    compile_phases,
)
from tracetui.analysis.calls.graphs import by_module, is_annotated
from tracetui.analysis.calls.launches import launches_of
from tracetui.analysis.device_work import kernel_names_of, work_time, work_where
from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.idle.gaps import busy_union
from tracetui.analysis.names.inductor import METADATA
from tracetui.analysis.part import Part
from tracetui.analysis.steps.scope import slices_of, step_table_of
from tracetui.analysis.verdicts import base_of, verdict_of
from tracetui.rules.advice import advise, compiling_advice, graphs
from tracetui.rules.claims import Claims, Count, Named, Names, Remedy, Share, Time, says
from tracetui.rules.model import OF_ALL, OF_WORK, WAITED_SHARE, Finding, build_finding, waited_share
from tracetui.trace import Kind
from tracetui.trace.model import I64
from tracetui.trace.slices import Slices, joined

_GUARDS = ("TorchDynamo Cache Lookup",)
_PROLOGUE = ("Pregraph bytecode", "AOTDispatcher Runtime Wrapper Prologue")


PHASE_SHARE = 0.1
"""Of the time: a phase of less is not named."""
GUARD_SHARE = 0.03
FUSED_SHARE = 0.05


def compiling(part: Part) -> Iterator[Finding]:
    """torch.compile compiles within the recording."""
    at = compile_phases(part)
    time = busy_union(part.trace, at).time_in(*part.span)
    if not time or time < COMPILING_SHARE * part.length:
        return
    fraction, phases = time / part.length, Slices(part.trace, at).longest_first()
    yield build_finding(
        "compiling",
        "high" if fraction >= 0.5 else "medium" if fraction >= 0.1 else "low",
        {
            "compile_ns": Time(time),
            "share": Share(time, part.length, base_of(part)),
            "phases": _phases(part, at, time),
            **compiling_advice(part),
            "steps": Count(len(step_table_of(part))),
        },
        phases,
        "compile_ns share",
        remedy=Remedy("remove", phases),
    )


@says("compiling")
def _compiling(c: Claims) -> tuple[str, str, str]:
    *others, last = c.phases.each
    phases = f"in {last.name} and what it calls"
    if others:
        phases = f"in {', '.join(map(str, others))} and {last}, and in what they call"
    kept = "so the compiled program does not pay for it later."
    if c.advice.each[0].name == "compiling again":
        kept = f"and here in each of the {c.steps} steps, so the program keeps paying for it."
    return (
        f"torch.compile compiles during the recording: {c.compile_ns}",
        f"That is {c.share}, {phases}. It happens once for each graph and each new set of shapes, types and "
        f"flags, {kept}",
        advise(c),
    )


def _phases(part: Part, at: I64, time: int) -> Names:
    """The outermost phases `at` of torch.compile that take most of its `time`, ns."""
    trace = part.trace
    phase = np.zeros(len(trace), dtype=np.bool_)
    phase[at] = True
    outer = at[first_marked(trace, trace.parent[at], phase) < 0]
    phases = [each for each in Slices(trace, outer).by_name() if each.time >= PHASE_SHARE * time][:3]
    return Names(tuple(Named(each.name.removesuffix(COMPILING), ns=each.time) for each in phases))


def compiled_overhead(part: Part) -> Iterator[Finding]:
    """Guards and prologue of a compiled region, paid on every call."""
    regions = slices_of(part, Kind.CPU_OP, lambda name: name.startswith(COMPILED_REGION))
    guards = slices_of(part, Kind.CPU_OP, _GUARDS.__contains__)
    prologue = slices_of(part, Kind.CPU_OP, _PROLOGUE.__contains__)
    if not len(regions) or not (len(guards) + len(prologue)):
        return
    cost = guards.time + prologue.time
    if cost < GUARD_SHARE * part.length:
        return
    if gaps_of(part).devices and waited_share(part) < WAITED_SHARE:
        return
    replayed = len(slices_of(part, Kind.RUNTIME, lambda name: "GraphLaunch" in name))
    possible = not replayed and not verdict_of(part).cpu and graphs(part)["graphs"] == "advised"
    paid = joined(guards, prologue)
    first = ((guards, 3), (prologue, 6), (regions, 3))
    whole = max(1, regions.time + guards.time)
    yield build_finding(
        "compiled_overhead",
        "info",
        {
            "each_ns": Time(cost / len(regions)),
            "calls": Count(len(regions)),
            "share": Share(cost, whole, "of the compiled calls' CPU time"),
            "guards_ns": Time(guards.time),
            "prologue_ns": Time(prologue.time),
            "graphs": possible,
        },
        joined(paid, regions),
        "each_ns calls share",
        first=(i for some, most in first for i in some.longest_first()[:most]),
        remedy=Remedy("remove", paid),
    )


@says("compiled_overhead")
def _compiled_overhead(c: Claims) -> tuple[str, str, str]:
    graphs = ' mode="reduce-overhead" replays the rest as a CUDA graph.' if c.graphs else ""
    return (
        f"Each call of a compiled region spends {c.each_ns} on average on guards and prologue",
        f"{c.calls:call}: {c.guards_ns} in all to check that the compiled code still fits its inputs "
        f"({_GUARDS[0]}), {c.prologue_ns} to prepare the call. That is {c.share}, and does not shrink with "
        "the work.",
        f"Compile larger regions instead of small functions that are called often.{graphs}",
    )


def fused_kernels(part: Part) -> Iterator[Finding]:
    """Kernels that the compiler wrote, and which operators their names say they fuse."""
    at = work_where(part, lambda name: name.family == "triton" and len(set(name.ops) - METADATA) > 1)
    if not len(at):
        return
    time, names = at.time, at.by_name()
    fused = [kernel_names_of(part)[each.index] for each in names]
    if time < max(FUSED_SHARE * work_time(part), OF_ALL * verdict_of(part).judged):
        return
    top = fused[0]
    attends = [op for op in top.ops if top.kind == "attention" and op.startswith("flex_attention")]
    computed = attends or [op for op in top.ops if op not in METADATA] or list(top.ops)
    parts = dict.fromkeys(f"{', '.join(name.ops)} ({name.notes[0]})" for name in fused[:3])
    yield build_finding(
        "fused_kernels",
        "info",
        {
            "kernels": Count(len(fused)),
            "calls": Count(len(at)),
            "device_ns": Time(time),
            "share": Share(time, max(1, work_time(part)), OF_WORK),
            "name": top.short,
            "computed": Names(tuple(map(Named, computed))),
            "fused": Names(tuple(map(Named, parts))),
        },
        at,
        "kernels calls device_ns",
        first=(each.longest for each in names),
    )


@says("fused_kernels")
def _fused_kernels(c: Claims) -> tuple[str, str, str]:
    one = c.kernels.n == 1
    *others, last = c.computed.each
    computes = f"{', '.join(map(str, others))} and {last}" if others else last
    lists = f"Its name lists {c.fused.each[0]}" if one else f"Their names list {c.fused:; }"
    return (
        f"One fused kernel computes {computes}"
        if one
        else f"{c.kernels.n} fused kernels, above all {c.name}",
        f"{lists}. {c.calls:call}, {c.device_ns}, {c.share}. The compiler names a kernel after the operators "
        "it came from; values that they pass to each other inside the kernel never go to memory and back.",
        "Compare it with the eager kernels of the same operators. Views in the list move no data themselves.",
    )


def cuda_graphs(part: Part) -> Iterator[Finding]:
    """Graph launches: one call on the CPU, many kernels on the device."""
    trace = part.trace
    at = slices_of(part, Kind.RUNTIME, lambda name: "GraphLaunch" in name).at
    launch = launches_of(part).launch
    launched = np.bincount(np.searchsorted(at, launch[np.isin(launch, at)]), minlength=len(at))
    if not len(at) or int(launched.max(initial=0)) < 2:
        return
    most = int(np.argmax(launched))
    inside = launches_of(part).event[launch == at[most]]
    first = int(inside[np.argmin(trace.start[inside])])
    yield build_finding(
        "cuda_graphs",
        "info",
        {
            "launches": Count(len(at)),
            "kernels": Count(int(launched.sum())),
            "graphs": Count(int((launched > 0).sum())),
            "name": trace.name_of(int(at[most])),
            "most": Count(int(launched[most])),
            "annotated": is_annotated(trace, inside),
        },
        Slices(trace, at),
        "launches kernels",
        first=[int(at[most]), first],
    )


@says("cuda_graphs")
def _cuda_graphs(c: Claims) -> tuple[str, str, str]:
    return (
        f"{c.graphs:graph launch} {c.graphs:~run} {c.kernels} kernels, copies and memsets",
        f"{c.name} hands a recorded sequence to the GPU in one call, up to {c.most} of them. Ops inside a "
        "graph do not appear on the CPU: they ran when the graph was captured.",
        f"Read the GPU lanes: the CPU lane does not show what runs. {by_module(c.annotated)}",
    )
