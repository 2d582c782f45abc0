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
from tracetui.analysis.calls.slow_calls import SlowCalls, is_the_programs
from tracetui.analysis.idle.causes import CAUSES
from tracetui.analysis.idle.cpu_time import cpu_time_of, is_allocation, is_synchronizing
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
from tracetui.analysis.idle.in_turn import gpus_in_turn_of
from tracetui.analysis.idle.split import causes_of
from tracetui.analysis.idle.waited_for import waited_for_elsewhere, waits_for_others
from tracetui.analysis.idle.waits import MUCH_NS, sending, waits_in_a_step, waits_in_ops, waits_outside
from tracetui.analysis.part import Part
from tracetui.analysis.select import has_kind, name_mask
from tracetui.analysis.steps.loading import is_loader
from tracetui.analysis.steps.scope import slices_of, step_of, step_table_of
from tracetui.analysis.verdicts import verdict_of, verdict_window
from tracetui.rules.claims import Claim, Claims, Count, Named, Names
from tracetui.rules.model import can_be_fused, on_xpu, smi
from tracetui.trace.intervals import all_of
from tracetui.trace.memory import named_instants
from tracetui.trace.model import I64, Kind
from tracetui.trace.slices import joined
from tracetui.trace.unrecorded import capture_times

FREEING_SHARE = 0.1
LOADING_SHARE = 0.4
"""From this share of the idle time on, the advice is that on data loading."""
COPIED_SHARE = 0.3
MANY_TENSORS, FREED_SHARE = 50, 0.8
SEVERAL_STREAMS = 4
NEXT_TO = 5
"""At most so many launches, of what a capture prepares, come between freeing and the capture."""
_MALLOC, _FREE = re.compile(r"(?:cuda|hip)Malloc"), re.compile(r"(?:cuda|hip)Free")
_EMPTY = re.compile(r"aten::empty(?:_strided)?")
"""Of what makes tensors, the ops that the trace has."""
_PINS = re.compile(r"HostAlloc|HostMalloc|HostRegister|MemHostAlloc")
SEVERAL_WAITS = 3
"""So many waits within a step cut it into pieces."""
_COLLECT = "<built-in function collect>"
"""`gc.collect`, in the stacks of Python."""
_CUDNN = re.compile(r"(?i)cudnn|miopen")
_ATTENTION = re.compile(r"(?i)attention")
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
_PLANS = "cuDNN makes a plan for each new shape: pad to a few sizes"
ADVICE = {
    "host": "Look at what Python does between the ops: data loading, logging, printing, garbage collection.",
    "record stacks": "Record it again with stacks to see which line it is: `c` in the app, --with-stack, or "
    "with_stack=True.",
    "sync": "Remove what makes the CPU wait in between: .item(), .cpu(), nonzero, printing a tensor.",
    "allocation": "Let the caching allocator keep its memory: no empty_cache() in the loop, stable shapes.",
    "queued": "Look at what the GPU waits for: another stream, an event, a copy, another process.",
    "back to back": "Fuse kernels that follow one another: torch.compile, or fused ops.",
    "unlinked": "The trace lacks the launches: record CPU activity as well.",
    "in annotation": "Look at what the program does in {c.annotation}: do less there, or do it less often, "
    "or in another process while the GPU works.",
    "optimizer on the CPU": "The optimizer updates parameters on the CPU: fused=True does that in one pass "
    "there, too. Or keep them on the GPU, or update them while the GPU has other work.",
    "one launch": "A single launch takes most of that, where a few µs are usual: look at what held up that "
    "call, such as another thread in a CUDA call, the driver, or other programs on the CPU.",
    "less memory": "Some requests failed, and before each the allocator freed what it kept: use less memory, "
    "or smaller batches.",
    "another GPU": "One GPU waits for what another computes: split the batch, so that each GPU works on one "
    "part while another works on the next, or give each a whole copy of the model.",
    "uneven": "Another GPU works on in that time: divide the work more evenly.",
    "after the last work": "Look at what the program does after its last work on the GPU, or stop recording "
    "before that.",
    "anomaly": FIRST_TURN_OFF,
    "saved": SAVED_ADVICE,
    "rnn": RNN_ADVICE,
    "send": SEND,
    "unblock": UNBLOCK,
    "compiling": "Call the compiled function a few times before recording. If it compiles again in later "
    'steps, TORCH_LOGS="recompiles" says why.',
    "compiling again": 'TORCH_LOGS="recompiles" says why it compiles again. If sizes change: '
    "torch.compile(dynamic=True), torch._dynamo.mark_dynamic, or pad to a few sizes.",
    "ops left out": "Annotations of the thread that launches are there, but no ops: whatever wrote the file "
    "left them out.",
    "ops of other threads": "Annotations were recorded, but no ops: the profiler sees those of the thread "
    "that starts it and of autograd. Start it in the thread that works, or record every thread: "
    "profile_all_threads=True in torch.profiler's experimental_config.",
    "no ops": "Record CPU activity as well (ProfilerActivity.CPU): the trace does not show what the CPU did. "
    "If that was on, the program calls no ops, as where it launches Triton kernels itself, or the ops ran in "
    "another thread: the profiler sees those of the thread that starts it and of autograd, and with "
    "profile_all_threads=True in its experimental_config those of all threads.",
    "launches left out": "The calls that launched this work are not in the trace: whatever wrote the file "
    "left them out, or another process made them.",
    "no ids": "The trace shows what the CPU did, but not what launched what: look at both on the timeline.",
    "few on the GPU": "Instead of {c.ops_calls} small calls of {c.ops} on the CPU, run a few on whole "
    "tensors, on the GPU.",
    "collective on the CPU": 'Exchange tensors between GPUs: init_process_group("cpu:gloo,cuda:nccl"). What '
    "has to stay on the CPU can run beside the GPU: async_op=True, and wait() as late as possible.",
    "host nodes": "Take functions of the CPU out of the CUDA graph (host nodes, cudaLaunchHostFunc): what "
    "depends on them waits for the CPU. Call them between two graphs, or beside the GPU's work.",
    "garbage": "Call gc.freeze() once the model is built, or gc.collect() only where nothing waits for it.",
    "first allocation": "Most of that is one call, the first of its kind: record after some steps, and see "
    "whether it is still there.",
    "on the GPU": "Run {c.ops} on the GPU, or while the GPU has other work.",
    "small copies": "{c.small_copies} of {c.launches} launches copy little from or to the host: copy many "
    "small tensors as one.",
    "graphs already": "It runs CUDA graphs already: put more of the step into them, or more work into each "
    "kernel.",
    "first call": "Run such an op once before the recording, and see whether it is still as slow.",
    "compiled already": "It is compiled already.",
    "other processes": "Look for other processes on the GPU ({c.tool}), and record again with it to "
    "yourself.",
    "more per launch": "Give the GPU more work per launch: larger batches, {c.compile}",
    "fused": "Fuse the optimizer, too: fused=True.",
    "load in workers": "The DataLoader loads in the main process: try num_workers=4, {c.pin}or do less per "
    "sample.",
    "more workers": "Raise num_workers, {c.pin}prefetch more (prefetch_factor), or do less per sample.",
    "DistributedDataParallel": "Use DistributedDataParallel, with one process per GPU: it copies the model "
    "only once and sends gradients during the backward pass. PyTorch recommends it even on a single machine.",
    "a process per GPU": "Run one process per GPU, each with its own copy of the model and its share of the "
    "inputs.",
    "any shape": "If each new shape costs that, pad to a few sizes (record_shapes=True shows them). A "
    "sampling profiler can show what the CPU does in it: py-spy record --native.",
    "own code": "Look at the code of {c.op}, such as a custom autograd.Function: most of that is its own "
    "time, outside of the ops that it calls. with_stack=True shows the lines.",
    # https://github.com/pytorch/pytorch/pull/155958, https://github.com/modelscope/FunASR/issues/3704
    "other attention": f"{_PLANS}, or let other kernels do it: torch.backends.cuda.enable_cudnn_sdp(False).",
    "no benchmark": f"{_PLANS}, and leave torch.backends.cudnn.benchmark off if shapes change.",
    "no caching": "Every tensor is allocated and freed individually, as with "
    "PYTORCH_NO_CUDA_MEMORY_CACHING=1: unset it. It is for debugging.",
    "pin a few": "Pin a few buffers of host memory once and reuse them in turn, or let "
    "DataLoader(pin_memory=True) do it in its own thread.",
    "pin once": "Pin buffers of host memory once and reuse them in turn, or let "
    "DataLoader(pin_memory=True) do it in its own thread: pinning copies on the CPU.",
    "every step": "Every step requests memory again, and next to nothing is freed: look for tensors that are "
    "kept from one step to the next, and for shapes that change, so that no free block fits.",
    "graph pool": "Capturing a CUDA graph frees what the allocator kept, and the graph gets memory of its "
    "own. A program does this once per graph: record after it.",
    "out of the loop": "Take torch.cuda.synchronize() and similar calls out of the loop, or wait later.",
    "new streams": "Next to nothing is freed here, and streams come and go: the allocator keeps memory by "
    "stream, so each new one asks for its own. Create streams once and use them again.",
    "first requests": "Next to nothing is freed here, so these are first requests. Warm up with the largest "
    "shapes.",
}
"""Sentences by the names that `advice` claims; what stands in braces are other claims."""
LAUNCHING = ("dispatch", "launch")
"""The causes that more work per launch helps against."""


def advise(c: Claims) -> str:
    """The sentences of the claim `advice`."""
    pin = "set pin_memory=True, " if c.get("pin") else ""
    compiled = "larger compiled regions" if c.get("compiled") else "torch.compile"
    advised = c.get("graphs") == "advised"
    graphed = ', CUDA graphs (mode="reduce-overhead").' if advised else f".{before_graphs(c)}"
    more = Claims(c, pin=pin, compile=compiled + graphed)
    return " ".join(ADVICE[each.name].format(c=more) for each in c.advice.each)


def claim_advice(*names: str, **others: Claim) -> dict[str, Claim]:
    """The claim `advice`, with the others that its sentences need."""
    return {"advice": Names(tuple(map(Named, names))), **others}


def advice_on(part: Part, idle: IdleDevice) -> dict[str, Claim]:
    """What to try where a device stands idle. The order counts: what is sure comes before what may help."""
    main, trace = idle.main, part.trace
    also = ("fused",) if len(can_be_fused(part)) else ()
    if idle.loading >= LOADING_SHARE * idle.idle:
        return loading_advice(part)
    if idle.compiling >= LOADING_SHARE * idle.idle:
        return compiling_advice(part)
    if 2 * idle.talking > idle.idle:
        return claim_advice("collective on the CPU")
    if 2 * idle.in_graphs > idle.idle:
        return claim_advice("host nodes")
    if searches_for_nan(part):
        return claim_advice("anomaly")
    if 2 * (after := idle_after_all_work(part, idle)) > idle.idle:
        return claim_advice("uneven" if 2 * _others_work(part, idle) > after else "after the last work")
    if 2 * idle.during(busy_union(trace, data_parallel_calls(part).at)) > idle.idle:
        return data_parallel_advice(part)
    turns = gpus_in_turn_of(part) if main in ("host", "dispatch") else None
    if turns and len(turns.sent) and 2 * _while_others(part, idle) > idle.idle:
        return claim_advice("another GPU")
    if main == "host" and not _has_ops(part) and has_kind(trace, Kind.ANNOTATION):
        theirs = launching_lanes_of(part)[slices_of(part, Kind.ANNOTATION).lane].any()
        return claim_advice("ops left out" if theirs else "ops of other threads")
    if main == "host" and not _has_ops(part):
        return claim_advice("no ops")
    if main == "unlinked" and _has_ops(part):
        # Calls without ids lead nowhere; calls that are not there are another matter.
        left_out = cpu_time_of(part).linked or not has_kind(trace, Kind.RUNTIME)
        return claim_advice("launches left out" if left_out else "no ids")
    if main == "allocation":
        return allocation_advice(part)
    if (
        "allocation" in (CAUSES[i] for i in idle.largest)
        and _frees(part)
        and not (_first_takes_most(part) or _for_graphs(part))
    ):
        if main in ADVICE:
            return claim_advice("allocation", main)
        return more_per_launch(part, before=("allocation",))
    if main in LAUNCHING and launched_by_rnn(part):
        return claim_advice("rnn")
    if main == "dispatch" and idle.function_in_ops[0]:
        return claim_advice("in annotation", annotation=idle.function_in_ops[0])
    if main == "dispatch" and 2 * idle.on_cpu[1] >= idle.dispatch:
        if 2 * idle.during(can_be_fused(part)) > idle.idle:
            return claim_advice("optimizer on the CPU")
        if idle.on_cpu_once:
            return claim_advice("first call")
        ops, spent, calls = idle.on_cpu
        if ops == "aten::_pin_memory":
            return claim_advice("pin once")
        what = "few on the GPU" if spent < LONG_NS * calls else "on the GPU"
        return claim_advice(what, ops=ops, ops_calls=Count(calls))
    copies, of = _copies(part)
    if main in LAUNCHING and copies >= COPIED_SHARE * of > 0:
        counts = {"small_copies": Count(copies), "launches": Count(of)}
        if 2 * copies > of:
            return claim_advice("small copies", **counts)
        return more_per_launch(part, before=("small copies",)) | counts
    if main in LAUNCHING and replays(part):
        return claim_advice("graphs already")
    if main == "sync" and saves_on_host(part):
        return claim_advice("saved")
    if main == "sync" and sends(part):
        return claim_advice("send")
    if main == "sync" and waits_outside(part):
        return claim_advice("out of the loop")
    if slow := long_calls(part, idle):
        return slow_call_advice(slow[0])
    if main == "launch" and idle.one_gap:
        return claim_advice("one launch")
    if first_call(part, idle):
        return claim_advice("first call")
    if main in LAUNCHING and _is_compiled(part):
        return more_per_launch(part, before=("compiled already",))
    if main == "queued" and not waits_for_others(trace):
        return claim_advice("other processes", tool=smi(part))
    if main == "queued" and waited_for_elsewhere(trace, causes_of(part)) == "another device":
        return claim_advice("another GPU")
    if main == "host":
        # Between tiny kernels the gaps outside of ops are long only because there is so little to launch.
        short, time = short_kernels_of(part), dict(zip(CAUSES, idle.causes, strict=True))
        within = idle.enclosing_slice[0] if not idle.enclosing_slice[0].startswith("Optimizer.") else ""
        look = "in annotation" if within else "host"
        if 2 * short.events > short.of and any(CAUSES[i] in LAUNCHING for i in idle.largest):
            both = () if 2 * time["host"] < idle.idle and not within else (look,)
            return more_per_launch(part, both, also) | {"annotation": within}
        collects = within == "Python GC" or (within == "collect" and _COLLECT in trace.names)
        return claim_advice("garbage" if collects else look, annotation=within)
    return claim_advice(main) if main in ADVICE else more_per_launch(part, after=also)


def loading_advice(part: Part) -> dict[str, Claim]:
    """What to try against waiting for a `DataLoader`: not what the program does already."""
    pinned = name_mask(part.trace, lambda name: name == "aten::pin_memory" or "HtoD (Pinned" in name).any()
    alone = name_mask(part.trace, lambda name: is_loader(name) and "SingleProcess" in name).any()
    pin = not pinned and not verdict_of(part).cpu
    return claim_advice("load in workers" if alone else "more workers", pin=pin)


def compiling_advice(part: Part) -> dict[str, Claim]:
    """What to try against compiling within the recording."""
    return claim_advice("compiling again" if compiles_again(part) else "compiling")


def data_parallel_advice(part: Part) -> dict[str, Claim]:
    """What to use instead."""
    return claim_advice("DistributedDataParallel" if trains_data_parallel(part) else "a process per GPU")


def slow_call_advice(slow: SlowCalls) -> dict[str, Claim]:
    """What to try against them."""
    name = slow.calls.first_name
    if is_the_programs(name):
        return claim_advice("own code", op=slow.name)
    if _CUDNN.search(name) is None:
        return claim_advice("any shape")
    return claim_advice("other attention" if _ATTENTION.search(name) else "no benchmark")


def sends(part: Part) -> bool:
    """Whether most of the CPU's waits are in copies to a device."""
    at, parent = waits_in_ops(part)
    sent = sending(part, at, parent, outermost_op(part, parent))
    return 2 * sent > joined(at, slices_of(part, Kind.RUNTIME, is_synchronizing)).time


def graphs(part: Part) -> dict[str, Claim]:
    """Whether CUDA graphs are `advised`, `possible` only without the waits of a step, as a graph holds no op
    that makes the CPU wait for the device, or `neither`: there are some already, or none for this device."""
    waits, op = waits_in_a_step(part)
    if waits >= SEVERAL_WAITS:
        return {"graphs": "possible", "waits": Count(waits), "waiting_op": op}
    return {"graphs": "neither" if replays(part) or on_xpu(part) else "advised"}


def before_graphs(c: Claims) -> str:
    """What comes before CUDA graphs, "" for nothing."""
    if c.get("graphs") != "possible":
        return ""
    return f" For CUDA graphs, first remove the step's {c.waits} waits for the GPU, above all {c.waiting_op}."


def _others_work(part: Part, idle: IdleDevice) -> int:
    """How long other devices are busy after the device's last event, in ns."""
    others = all_of([gaps.blocks for gaps in gaps_of(part).devices if gaps.device != idle.gaps.device])
    return others.time_in(idle.gaps.last, verdict_window(part)[1])


def _while_others(part: Part, idle: IdleDevice) -> int:
    """How long other devices are busy while this one is idle, in the time that is judged, in ns."""
    others = all_of([gaps.blocks for gaps in gaps_of(part).devices if gaps.device != idle.gaps.device])
    begin, end = (np.clip(at, *idle.counted_window) for at in idle.stretches[:2])
    return int(others.overlap(begin, end).sum())


def more_per_launch(
    part: Part, before: tuple[str, ...] = (), after: tuple[str, ...] = ()
) -> dict[str, Claim]:
    """What to try where launching takes long, with other advice before and after."""
    compiled = len(_compiled_regions(part)) > 0
    return claim_advice(*before, "more per launch", *after, compiled=compiled, **graphs(part))


def allocation_advice(part: Part) -> dict[str, Claim]:
    """What to try against allocating and freeing memory within the steps."""
    trace = part.trace
    if _without_cache(part):
        return claim_advice("no caching")
    if _first_takes_most(part):
        return claim_advice("first allocation")
    if _for_graphs(part):
        return claim_advice("graph pool")
    if _frees(part):
        failed = len(named_instants(trace, OUT_OF_MEMORY))
        return claim_advice("less memory" if failed else "allocation")
    steps, at = step_table_of(part), slices_of(part, Kind.RUNTIME, is_allocation)
    if 2 * at.named(_PINS).time > at.time:
        return claim_advice("pin a few")
    again = np.count_nonzero(np.unique(step_of(steps, at.start)) >= 0)
    several = part.is_whole and again > 2 and 2 * again > len(steps)
    if _streams_come_and_go(part):
        return claim_advice("new streams")
    return claim_advice("every step" if several else "first requests")


def _streams_come_and_go(part: Part) -> bool:
    """Whether most streams with kernels, and several, are used for less than half of the time."""
    at = slices_of(part, Kind.KERNEL)
    lanes = np.unique(at.lane)
    used = [at[at.lane == lane] for lane in lanes[:MANY_TENSORS]]
    brief = sum(2 * int(one.end.max() - one.start.min()) < part.length for one in used)
    return brief >= SEVERAL_STREAMS and 2 * brief > len(lanes)


def _for_graphs(part: Part) -> bool:
    """Whether most of the time in which memory is allocated and freed is for graphs that are captured:
    meanwhile, and right before, where the allocator frees what it kept (`torch.cuda.graph` makes it)."""
    at, captured = slices_of(part, Kind.RUNTIME, is_allocation), capture_times(part.trace)
    if not len(captured):
        return False
    inside, freed = at[captured.overlap(at.start, at.end) > 0].time, at.named("Free")
    launched, begins = np.sort(part.trace.start[launch_calls_of(part)]), np.sort(captured.start)
    place = np.searchsorted(begins, freed.end)
    until = np.append(begins, 0)[place]
    between = np.searchsorted(launched, until) - np.searchsorted(launched, freed.end)
    return 2 * (inside + freed[(place < len(begins)) & (between <= NEXT_TO)].time) > at.time


def _without_cache(part: Part) -> bool:
    """Whether memory is allocated as often as tensors are made, and freed as often."""
    made, freed, tensors = (
        len(slices_of(part, kind, of.fullmatch))
        for kind, of in ((Kind.RUNTIME, _MALLOC), (Kind.RUNTIME, _FREE), (Kind.CPU_OP, _EMPTY))
    )
    return made >= max(MANY_TENSORS, tensors) and freed >= FREED_SHARE * made


def _frees(part: Part) -> bool:
    """Whether freeing takes a noticeable part of the time in which memory is allocated and freed."""
    at = slices_of(part, Kind.RUNTIME, is_allocation)
    return at.named("Free").time >= FREEING_SHARE * at.time > 0


def _first_takes_most(part: Part) -> bool:
    """Whether one call that frees takes most of the time in which memory is allocated and freed, and is the
    first of its name in the trace: as the `cudaFree` that creates the context."""
    at = slices_of(part, Kind.RUNTIME, is_allocation)
    longest = at.longest_first()[:1]
    if not longest.named("Free").time * 2 > at.time:
        return False
    same = slices_of(part.whole, Kind.RUNTIME, longest.first_name.__eq__)
    return int(longest.start[0]) == int(same.start.min())


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
    inside = busy_union(trace, _compiled_regions(part)).holds(trace.start[calls])
    return bool(2 * np.count_nonzero(inside) > len(calls))


def _has_ops(part: Part) -> bool:
    return has_kind(part.trace, Kind.CPU_OP)
