"""What to try: where a device stands idle, and what several rules advise."""

from __future__ import annotations

import re

import numpy as np

from tracetui.analysis.calls.ancestors import outermost_op
from tracetui.analysis.calls.backward import searches_for_nan
from tracetui.analysis.calls.compiling import COMPILED_GRAPH, COMPILED_REGION, compiles_again
from tracetui.analysis.calls.data_parallel import data_parallel_calls, trains_data_parallel
from tracetui.analysis.calls.launches import (
    launch_calls_of,
    launched_by_rnn,
    launches_of,
    launching_lanes_of,
    replays,
    short_kernels_of,
)
from tracetui.analysis.calls.memory import OUT_OF_MEMORY
from tracetui.analysis.calls.saved_tensors import saves_on_host
from tracetui.analysis.calls.slow_calls import SlowCalls
from tracetui.analysis.idle.causes import CAUSES
from tracetui.analysis.idle.cpu_time import cpu_time_of, is_allocation, is_synchronising
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
from tracetui.analysis.idle.waits import MUCH_NS, sending, waits_in_a_step, waits_in_ops
from tracetui.analysis.part import Part
from tracetui.analysis.select import has, named
from tracetui.analysis.steps.loading import is_loader
from tracetui.analysis.steps.scope import slices_of, step_of, step_table_of
from tracetui.analysis.verdicts import judged_range, verdict_of
from tracetui.rules.model import can_be_fused, on_xpu, smi
from tracetui.trace.intervals import all_of
from tracetui.trace.memory import named_instants
from tracetui.trace.model import I64, Kind
from tracetui.trace.slices import joined

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
FIRST_TURN_OFF = (
    "First turn off autograd's anomaly detection: it is for debugging, and waits for the GPU after each node "
    "of the backward pass."
)
"""What to try against anything else."""
SAVED_ADVICE = (
    "Saving tensors on the host (torch.autograd.graph.save_on_cpu) trades time for memory. Recomputing them "
    "copies nothing (torch.utils.checkpoint). Or save fewer, and copy on a separate stream."
)
RNN_ADVICE = (
    "The library launches kernels for each time step of a recurrent layer: larger batches lengthen them, "
    "torch.cuda.graph replays them with one launch. In fp16 a single layer can run as one persistent kernel."
)
SEND = (
    "Most of that wait is in copies to the GPU: copy from pinned memory with non_blocking=True, and copy "
    "many small tensors as one."
)
UNBLOCK = (
    "Unset CUDA_LAUNCH_BLOCKING (on AMD: HIP_LAUNCH_BLOCKING, AMD_SERIALIZE_KERNEL): it is for debugging."
)
SEVERAL_WAITS = 3
"""So many waits within a step cut it into pieces."""
_COMPILING_ADVICE = (
    "Call the compiled function a few times before recording. If it compiles again in later steps, "
    'TORCH_LOGS="recompiles" says why.'
)
_COMPILING_AGAIN = (
    'TORCH_LOGS="recompiles" says why it compiles again. If sizes change: torch.compile(dynamic=True), '
    "torch._dynamo.mark_dynamic, or pad to a few sizes."
)
_CUDNN = re.compile(r"(?i)cudnn|miopen")
_ATTENTION = re.compile(r"(?i)attention")
_ANY_SHAPE = (
    "If each new shape costs that, pad to a few sizes (record_shapes=True shows them). A sampling profiler "
    "can show what the CPU does in it: py-spy record --native."
)
_PLANS = "cuDNN makes a plan for each new shape: pad to a few sizes"
# https://github.com/pytorch/pytorch/pull/155958, https://github.com/modelscope/FunASR/issues/3704
_OTHER_ATTENTION = f"{_PLANS}, or let other kernels do it: torch.backends.cuda.enable_cudnn_sdp(False)."
_NO_BENCHMARK = f"{_PLANS}, and leave torch.backends.cudnn.benchmark off if shapes change."
LAUNCHING = ("dispatch", "launch")
"""The causes that more work per launch helps against."""


def advice_on(part: Part, idle: IdleDevice) -> str:
    main, trace = idle.main, part.trace
    also = " Fuse the optimizer, too: fused=True." if len(can_be_fused(part)) else ""
    if idle.loading >= LOADING_SHARE * idle.idle:
        return loading_advice(part)
    if idle.compiling >= LOADING_SHARE * idle.idle:
        return compiling_advice(part)
    if searches_for_nan(part):
        return FIRST_TURN_OFF
    if 2 * (after := idle_after_all_work(part, idle)) > idle.idle:
        if 2 * _others_work(part, idle) > after:
            return _UNEVEN
        return "Look at what the program does after its last work on the GPU, or stop recording before that."
    if 2 * idle.during(busy_union(trace, data_parallel_calls(part).at)) > idle.idle:
        return data_parallel_advice(part)
    if main == "host" and not _has_ops(part) and has(trace, Kind.ANNOTATION):
        if launching_lanes_of(part)[slices_of(part, Kind.ANNOTATION).lane].any():
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
        return slow_call_advice(slow[0])
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


def loading_advice(part: Part) -> str:
    """What to try against waiting for a `DataLoader`: not what the program does already."""
    pinned = named(part.trace, lambda name: name == "aten::pin_memory" or "HtoD (Pinned" in name).any()
    pin = "" if pinned or verdict_of(part).cpu else "set pin_memory=True, "
    if named(part.trace, lambda name: is_loader(name) and "SingleProcess" in name).any():
        return f"The DataLoader loads in the main process: try num_workers=4, {pin}or do less per sample."
    return f"Raise num_workers, {pin}prefetch more (prefetch_factor), or do less per sample."


def compiling_advice(part: Part) -> str:
    """What to try against compiling within the recording."""
    return _COMPILING_AGAIN if compiles_again(part) else _COMPILING_ADVICE


def data_parallel_advice(part: Part) -> str:
    """What to use instead."""
    if trains_data_parallel(part):
        return (
            "Use DistributedDataParallel, with one process per GPU: it copies the model only once and sends "
            "gradients during the backward pass. PyTorch recommends it even on a single machine."
        )
    return "Run one process per GPU, each with its own copy of the model and its share of the inputs."


def slow_call_advice(slow: SlowCalls) -> str:
    """What to try against them."""
    name = slow.calls.first_name
    if _CUDNN.search(name) is None:
        return _ANY_SHAPE
    return _OTHER_ATTENTION if _ATTENTION.search(name) else _NO_BENCHMARK


def sending_advice(part: Part) -> str:
    """What to try where most of the CPU's waits are in copies to a device; "" elsewhere."""
    at, parent = waits_in_ops(part)
    sent = sending(part, at, parent, outermost_op(part, parent))
    return SEND if 2 * sent > joined(at, slices_of(part, Kind.RUNTIME, is_synchronising)).time else ""


def no_graphs_yet(part: Part) -> str | None:
    """What to say instead of advising CUDA graphs, as a graph holds no op that makes the CPU wait for the
    device: "" for nothing, where there are such graphs already, or none for this device. None where nothing
    is in the way."""
    waits, op = waits_in_a_step(part)
    if waits >= SEVERAL_WAITS:
        return f" For CUDA graphs, first remove the step's {waits:,} waits for the GPU, above all {op}."
    return "" if replays(part) or on_xpu(part) else None


def _others_work(part: Part, idle: IdleDevice) -> int:
    """How long other devices are busy after the device's last event, in ns."""
    others = all_of([gaps.blocks for gaps in gaps_of(part).devices if gaps.device != idle.gaps.device])
    return others.time_in(idle.gaps.last, judged_range(part)[1])


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
    if 2 * at.named(_PINS).time > at.time:
        return (
            "Pin a few buffers of host memory once and reuse them in turn, or let "
            "DataLoader(pin_memory=True) do it in its own thread."
        )
    again = np.count_nonzero(np.unique(step_of(steps, at.start)) >= 0)
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
    at = slices_of(part, Kind.RUNTIME, is_allocation)
    return at.named("Free").time >= FREEING_SHARE * at.time > 0


def _copies(part: Part) -> tuple[int, int]:
    """How many launches copy little from and to the host; of how many in all."""
    trace, event = part.trace, launches_of(part).event
    copies = host_copies(trace, event) & (trace.duration[event] < MUCH_NS)
    return int(np.count_nonzero(copies)), len(copies)


def _compiled_regions(part: Part) -> I64:
    return slices_of(part, Kind.CPU_OP, lambda name: name.startswith((COMPILED_REGION, COMPILED_GRAPH))).at


def _is_compiled(part: Part) -> bool:
    """Whether most of what is launched is launched by compiled regions."""
    trace, calls = part.trace, launch_calls_of(part)
    inside = busy_union(trace, _compiled_regions(part)).touching(trace.start[calls], trace.start[calls] + 1)
    return bool(2 * np.count_nonzero(inside) > len(calls))


def _has_ops(part: Part) -> bool:
    return has(part.trace, Kind.CPU_OP)
