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
    compiles_again,
)
from tracetui.analysis.calls.graphs import by_module
from tracetui.analysis.calls.launches import launches_of
from tracetui.analysis.device_work import kernel_names_of, work_time, work_where
from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.idle.gaps import busy_union
from tracetui.analysis.names.inductor import METADATA
from tracetui.analysis.part import Part
from tracetui.analysis.steps.scope import slices_of, step_table_of
from tracetui.analysis.verdicts import base_of, verdict_of
from tracetui.core.units import duration, plural, share, verb
from tracetui.rules.advice import compiling_advice, no_graphs_yet
from tracetui.rules.model import (
    OF_ALL,
    WAITED_SHARE,
    WORK_TIME,
    Finding,
    first_of,
    waited_share,
)
from tracetui.trace import Kind
from tracetui.trace.model import I64
from tracetui.trace.slices import Slices

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
    fraction = time / part.length
    again = compiles_again(part)
    kept = "so the compiled program does not pay for it later."
    if again:
        steps = f"{len(step_table_of(part)):,} steps"
        kept = f"and here in each of the {steps}, so the program keeps paying for it."
    yield Finding(
        "compiling",
        "high" if fraction >= 0.5 else "medium" if fraction >= 0.1 else "low",
        f"torch.compile compiles during the recording: {duration(time)}",
        f"That is {share(fraction)} {base_of(part)}, {_in_phases(part, at, time)}. It happens once for "
        f"each graph and each new set of shapes, types and flags, {kept}",
        compiling_advice(part),
        first_of(Slices(part.trace, at).longest_first()),
        {"compile_ns": float(time), "share": fraction},
    )


def _in_phases(part: Part, at: I64, time: int) -> str:
    """The outermost phases `at` of torch.compile that take most of its `time`, ns."""
    trace = part.trace
    phase = np.zeros(len(trace), dtype=np.bool_)
    phase[at] = True
    outer = at[first_marked(trace, trace.parent[at], phase) < 0]
    phases = [each for each in Slices(trace, outer).by_name() if each.time >= PHASE_SHARE * time][:3]
    if len(phases) == 1:
        return f"in {phases[0].name.removesuffix(COMPILING)} and what it calls"
    told = [f"{each.name.removesuffix(COMPILING)} ({duration(each.time)})" for each in phases]
    return f"in {', '.join(told[:-1])} and {told[-1]}, and in what they call"


def compiled_overhead(part: Part) -> Iterator[Finding]:
    """Guards and prologue of a compiled region, paid on every call."""
    regions = slices_of(part, Kind.CPU_OP, lambda name: name.startswith(COMPILED_REGION))
    guards = slices_of(part, Kind.CPU_OP, _GUARDS.__contains__)
    prologue = slices_of(part, Kind.CPU_OP, _PROLOGUE.__contains__)
    if not len(regions) or not (len(guards) + len(prologue)):
        return
    guarding, preparing = guards.time, prologue.time
    if guarding + preparing < GUARD_SHARE * part.length:
        return
    if gaps_of(part).devices and waited_share(part) < WAITED_SHARE:
        return
    whole = max(1, regions.time + guarding)
    each = (guarding + preparing) / len(regions)
    graphs = ' mode="reduce-overhead" replays the rest as a CUDA graph.'
    replayed = len(slices_of(part, Kind.RUNTIME, lambda name: "GraphLaunch" in name))
    if replayed or verdict_of(part).cpu or no_graphs_yet(part) is not None:
        graphs = ""
    yield Finding(
        "compiled_overhead",
        "info",
        f"Each call of a compiled region spends {duration(each)} on average on guards and prologue",
        f"{plural(len(regions), 'call')}: {duration(guarding)} in all to check that the compiled code still "
        f"fits its inputs ({_GUARDS[0]}), {duration(preparing)} to prepare the call. That is "
        f"{share((guarding + preparing) / whole)} of the compiled calls' CPU time, and does "
        "not shrink with the work.",
        f"Compile larger regions instead of small functions that are called often.{graphs}",
        first_of(
            i
            for some, most in ((guards, 3), (prologue, 6), (regions, 3))
            for i in some.longest_first()[:most]
        ),
        {"each_ns": each, "calls": float(len(regions)), "share": (guarding + preparing) / whole},
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
    parts = list(dict.fromkeys(f"{', '.join(name.ops)} ({name.notes[0]})" for name in fused[:3]))
    lists = f"Its name lists {parts[0]}" if len(fused) == 1 else f"Their names list {'; '.join(parts)}"
    attends = [op for op in top.ops if top.kind == "attention" and op.startswith("flex_attention")]
    computed = attends or [op for op in top.ops if op not in METADATA] or list(top.ops)
    one = " and ".join(fraction for fraction in (", ".join(computed[:-1]), computed[-1]) if fraction)
    yield Finding(
        "fused_kernels",
        "info",
        f"One fused kernel computes {one}"
        if len(fused) == 1
        else f"{len(fused)} fused kernels, above all {top.short}",
        f"{lists}. {plural(len(at), 'call')}, {duration(time)}, {share(time / max(1, work_time(part)))} of "
        f"{WORK_TIME}. The compiler names a kernel after the operators it came from; values that they pass "
        "to each other inside the kernel never go to memory and back.",
        "Compare it with the eager kernels of the same operators. Views in the list move no data themselves.",
        first_of(each.longest for each in names),
        {"kernels": float(len(fused)), "calls": float(len(at)), "device_ns": float(time)},
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
    many, graphs = int(launched.sum()), int((launched > 0).sum())
    name = trace.name_of(int(at[most]))
    inside = launches_of(part).event[launch == at[most]]
    first = int(inside[np.argmin(trace.start[inside])])
    yield Finding(
        "cuda_graphs",
        "info",
        f"{plural(graphs, 'graph launch')} {verb(graphs, 'run')} {many:,} kernels, copies and memsets",
        f"{name} hands a recorded sequence to the GPU in one call, up to {launched[most]:,} of "
        "them. Ops inside a graph do not appear on the CPU: they ran when the graph was captured.",
        f"Read the GPU lanes: the CPU lane does not show what runs. {by_module(trace, inside)}",
        first_of([int(at[most]), first]),
        {"launches": float(len(at)), "kernels": float(many)},
    )
