"""What to try where a device stands idle."""

from __future__ import annotations

import re

import numpy as np

from tracetui.analysis.calls.compiling import COMPILED_GRAPH, COMPILED_REGION
from tracetui.analysis.calls.launches import (
    launch_calls_of,
    launches_of,
    launching_lanes_of,
    short_kernels_of,
)
from tracetui.analysis.calls.memory import OUT_OF_MEMORY
from tracetui.analysis.calls.saved_tensors import saves_on_host
from tracetui.analysis.idle.causes import CAUSES
from tracetui.analysis.idle.cpu_time import cpu_time_of, is_allocation
from tracetui.analysis.idle.exposed_time import host_copies
from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.idle.gaps import busy_union
from tracetui.analysis.idle.idle_device import (
    LONG_NS,
    IdleDevice,
    first_call,
    idle_after_all_work,
    long_calls,
)
from tracetui.analysis.idle.split import causes_of
from tracetui.analysis.idle.waited_for import waited_for_elsewhere, waits_for_others
from tracetui.analysis.part import Part
from tracetui.analysis.select import has, named
from tracetui.analysis.steps.scope import slices_of, step_of, step_table_of
from tracetui.analysis.verdicts import judged_range
from tracetui.rules.anomaly import FIRST_TURN_OFF, anomaly_detection
from tracetui.rules.compiled import compiling_advice
from tracetui.rules.copies import SAVED_ADVICE
from tracetui.rules.data_loading import loading_advice
from tracetui.rules.kernels import RNN_ADVICE, launched_by_rnn
from tracetui.rules.model import can_be_fused, smi
from tracetui.rules.several_gpus import data_parallel_advice, data_parallel_calls
from tracetui.rules.slow_calls import slow_call_advice
from tracetui.rules.waits import MUCH_NS, no_graphs_yet, replays, sending_advice
from tracetui.trace.intervals import all_of
from tracetui.trace.memory import named_instants
from tracetui.trace.model import I64, Kind

FREEING_SHARE = 0.1
LOADING_SHARE = 0.4
"""From this share of the idle time on, the advice is that on data loading."""
COPIED_SHARE = 0.3
MANY_TENSORS, FREED_SHARE = 50, 0.8
_MALLOC, _FREE = re.compile(r"(?:cuda|hip)Malloc"), re.compile(r"(?:cuda|hip)Free")
_EMPTY = re.compile(r"aten::empty(?:_strided)?")
"""Of what makes tensors, the ops that the trace has."""
_PINS = re.compile(r"HostAlloc|HostMalloc|HostRegister|MemHostAlloc")
_ADVICE = {
    "host": "Look at what Python does between the ops: data loading, logging, printing, garbage collection.",
    "sync": "Remove what makes the CPU wait in between: .item(), .cpu(), nonzero, printing a tensor.",
    "allocation": "Let the caching allocator keep its memory: no empty_cache() in the loop, stable shapes.",
    "queued": "Look at what the GPU waits for: another stream, an event, a copy, another process.",
    "back to back": "Fuse kernels that follow one another: torch.compile, or fused ops.",
    "unlinked": "The trace lacks the launches: record CPU activity as well.",
}
_IN_ANNOTATION = (
    "Look at what the program does in {}: do less there, or do it less often, or in another process while "
    "the GPU works."
)
_OPTIMIZER_ON_CPU = (
    "The optimizer updates parameters on the CPU: fused=True does that in one pass there, too. Or keep them "
    "on the GPU, or update them while the GPU has other work."
)
_ONE_LAUNCH = (
    "A single launch takes most of that, where a few µs are usual: look at what held up that call, such as "
    "another thread in a CUDA call, the driver, or other programs on the CPU."
)
_LESS_MEMORY = (
    "Some requests failed, and before each the allocator freed what it kept: use less memory, or smaller "
    "batches."
)
_OF_ANOTHER_GPU = (
    "It waits for what another GPU computes: split the batch, so that each GPU works on one part while "
    "another works on the next, or give each a whole copy of the model."
)
_UNEVEN = "Another GPU works on in that time: divide the work more evenly."
LAUNCHING = ("dispatch", "launch")
"""The causes that more work per launch helps against."""


def advice_on(part: Part, idle: IdleDevice) -> str:
    main, trace = idle.main, part.trace
    also = " Fuse the optimizer, too: fused=True." if len(can_be_fused(part)) else ""
    if idle.loading >= LOADING_SHARE * idle.idle:
        return loading_advice(part)
    if idle.compiling >= LOADING_SHARE * idle.idle:
        return compiling_advice(part)
    if any(anomaly_detection(part)):
        return FIRST_TURN_OFF
    if 2 * (after := idle_after_all_work(part, idle)) > idle.idle:
        if 2 * _others_work(part, idle) > after:
            return _UNEVEN
        return "Look at what the program does after its last work on the GPU, or stop recording before that."
    if 2 * idle.during(busy_union(trace, data_parallel_calls(part))) > idle.idle:
        return data_parallel_advice(part)
    if main == "host" and not _has_ops(part) and has(trace, Kind.ANNOTATION):
        at = slices_of(part, Kind.ANNOTATION, lambda _: True)
        if launching_lanes_of(part)[trace.lane[at]].any():
            return (
                "Annotations of the thread that launches are there, but no ops: whatever wrote the file left "
                "them out."
            )
        return (
            "Annotations were recorded, but no ops: the profiler sees those of the thread that starts it and "
            "of autograd. Start it in the thread that works, or record every thread: "
            "profile_all_threads=True in torch.profiler's experimental_config."
        )
    if main == "host" and not _has_ops(part):
        return (
            "Record CPU activity as well (ProfilerActivity.CPU): the trace does not show what the CPU did. "
            "If that was on, the ops ran in another thread: the profiler sees those of the thread that "
            "starts it and of autograd, and with profile_all_threads=True in its experimental_config those "
            "of all threads."
        )
    if main == "unlinked" and _has_ops(part):
        # Calls without ids lead nowhere; calls that are not there are another matter.
        if cpu_time_of(part).linked or not has(trace, Kind.RUNTIME):
            return (
                "The calls that launched this work are not in the trace: whatever wrote the file left them "
                "out, or another process made them."
            )
        return "The trace shows what the CPU did, but not what launched what: look at both on the timeline."
    if main == "allocation":
        return allocation_advice(part)
    if "allocation" in (CAUSES[i] for i in idle.largest) and _frees(part):
        return f"{_ADVICE['allocation']} {_ADVICE.get(main) or _more_per_launch(part)}"
    if main in LAUNCHING and launched_by_rnn(part):
        return RNN_ADVICE
    if main == "dispatch" and 2 * idle.on_cpu[1] >= idle.dispatch:
        if 2 * idle.during(can_be_fused(part)) > idle.idle:
            return _OPTIMIZER_ON_CPU
        ops, spent, calls = idle.on_cpu
        if spent < LONG_NS * calls:
            few = "run a few on whole tensors, on the GPU."
            return f"Instead of {calls:,} small calls of {ops} on the CPU, {few}"
        return f"Run {ops} on the GPU, or while the GPU has other work."
    copies, of = _copies(part)
    if main in LAUNCHING and copies >= COPIED_SHARE * of:
        advice = f"{copies:,} of {of:,} launches copy little from or to the host: copy many small tensors "
        advice += "as one."
        return advice if 2 * copies > of else f"{advice} {_more_per_launch(part)}"
    if main in LAUNCHING and replays(part):
        return "It runs CUDA graphs already: put more of the step into them, or more work into each kernel."
    if main == "sync" and saves_on_host(part):
        return SAVED_ADVICE
    if main == "sync" and (sending := sending_advice(part)):
        return sending
    if slow := long_calls(part, idle):
        return slow_call_advice(trace, slow[0])
    if main == "launch" and idle.one_gap:
        return _ONE_LAUNCH
    if first_call(part, idle):
        return "Run such an op once before the recording, and see whether it is still as slow."
    if main in LAUNCHING and _is_compiled(part):
        return f"It is compiled already. {_more_per_launch(part)}"
    if main == "queued" and not waits_for_others(trace):
        return f"Look for other processes on the GPU ({smi(part)}), and record again with it to yourself."
    if main == "queued" and waited_for_elsewhere(trace, causes_of(part)) == "another device":
        return _OF_ANOTHER_GPU
    if main == "host":
        # Between tiny kernels the gaps outside of ops are long only because there is so little to launch.
        short, time = short_kernels_of(part), dict(zip(CAUSES, idle.causes, strict=True))
        within = idle.within[0] if not idle.within[0].startswith("Optimizer.") else ""
        look = _IN_ANNOTATION.format(within) if within else _ADVICE["host"]
        if 2 * short.events > short.of and any(CAUSES[i] in LAUNCHING for i in idle.largest):
            both = "" if 2 * time["host"] < idle.idle and not within else f"{look} "
            return both + _more_per_launch(part) + also
        return look
    return _ADVICE.get(main) or _more_per_launch(part) + also


def _others_work(part: Part, idle: IdleDevice) -> int:
    """How long other devices are busy after the device's last event, in ns."""
    others = all_of([gaps.blocks for gaps in gaps_of(part).devices if gaps.device != idle.gaps.device])
    return int(others.within(np.array([idle.gaps.last]), np.array([judged_range(part)[1]]))[0])


def _more_per_launch(part: Part) -> str:
    """What to try where launching takes long."""
    instead = no_graphs_yet(part)
    graphs = ', CUDA graphs (mode="reduce-overhead").' if instead is None else f".{instead}"
    compiled = "larger compiled regions" if len(_compiled_regions(part)) else "torch.compile"
    return f"Give the GPU more work per launch: larger batches, {compiled}{graphs}"


def allocation_advice(part: Part) -> str:
    """What to try against allocating and freeing memory within the steps."""
    trace = part.trace
    if _without_cache(part):
        return (
            "Every tensor is allocated and freed individually, as with PYTORCH_NO_CUDA_MEMORY_CACHING=1: "
            "unset it. It is for debugging."
        )
    if _frees(part):
        return _LESS_MEMORY if len(named_instants(trace, OUT_OF_MEMORY)) else _ADVICE["allocation"]
    steps, at = step_table_of(part), slices_of(part, Kind.RUNTIME, is_allocation)
    pins = named(part.trace, lambda name: bool(_PINS.search(name)))[trace.name[at]]
    if 2 * int(trace.duration[at[pins]].sum()) > int(trace.duration[at].sum()):
        return (
            "Pin a few buffers of host memory once and reuse them in turn, or let "
            "DataLoader(pin_memory=True) do it in its own thread."
        )
    again = np.count_nonzero(np.unique(step_of(steps, trace.start[at])) >= 0)
    if part.is_whole and again > 2 and 2 * again > len(steps):
        return (
            "Every step requests memory again, and next to nothing is freed: look for tensors that are kept "
            "from one step to the next, and for shapes that change, so that no free block fits."
        )
    return "Next to nothing is freed here, so these are first requests. Warm up with the largest shapes."


def _without_cache(part: Part) -> bool:
    """Whether memory is allocated as often as tensors are made, and freed as often."""
    made, freed, tensors = (
        len(slices_of(part, kind, lambda name, of=of: of.fullmatch(name) is not None))  # type: ignore[misc]
        for kind, of in ((Kind.RUNTIME, _MALLOC), (Kind.RUNTIME, _FREE), (Kind.CPU_OP, _EMPTY))
    )
    return made >= max(MANY_TENSORS, tensors) and freed >= FREED_SHARE * made


def _frees(part: Part) -> bool:
    """Whether freeing takes a noticeable part of the time in which memory is allocated and freed."""
    trace, at = part.trace, slices_of(part, Kind.RUNTIME, is_allocation)
    freeing = named(part.trace, lambda name: "Free" in name)[trace.name[at]]
    return bool(trace.duration[at[freeing]].sum() >= FREEING_SHARE * trace.duration[at].sum() > 0)


def _copies(part: Part) -> tuple[int, int]:
    """How many launches copy little from and to the host; of how many in all."""
    trace, event = part.trace, launches_of(part).event
    copies = host_copies(trace, event) & (trace.duration[event] < MUCH_NS)
    return int(np.count_nonzero(copies)), len(copies)


def _compiled_regions(part: Part) -> I64:
    return slices_of(part, Kind.CPU_OP, lambda name: name.startswith((COMPILED_REGION, COMPILED_GRAPH)))


def _is_compiled(part: Part) -> bool:
    """Whether most of what is launched is launched by compiled regions."""
    trace, calls = part.trace, launch_calls_of(part)
    inside = busy_union(trace, _compiled_regions(part)).touching(trace.start[calls], trace.start[calls] + 1)
    return bool(2 * np.count_nonzero(inside) > len(calls))


def _has_ops(part: Part) -> bool:
    return has(part.trace, Kind.CPU_OP)
