"""Rules on calls that wait for the GPU: in ops, outside of them, in launches, at the end."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from tracetui.analysis.calls.ancestors import first_marked, op_around
from tracetui.analysis.calls.backward import checked_for_nan
from tracetui.analysis.calls.launches import launch_calls_of, launches_of
from tracetui.analysis.calls.saved_tensors import saves_on_host
from tracetui.analysis.calls.sums import sum_into
from tracetui.analysis.device_text import gpus_are, gpus_text
from tracetui.analysis.device_work import device_work_of
from tracetui.analysis.idle.causes import CAUSES
from tracetui.analysis.idle.cpu_time import blocking_copies, is_synchronising
from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.idle.gaps import busy_union
from tracetui.analysis.idle.verdict import PARTS
from tracetui.analysis.part import Part
from tracetui.analysis.select import by_name, named
from tracetui.analysis.steps.scope import slices_of
from tracetui.analysis.verdicts import verdict_of
from tracetui.core.columns import unique
from tracetui.core.units import capital, duration, plural, share, such, verb
from tracetui.rules.copies import OUT, SAVED_ADVICE, is_copying, pageable_memory
from tracetui.rules.model import Finding, first_of, longest_first, on_xpu, outermost_op, per_step
from tracetui.trace import Kind
from tracetui.trace.intervals import Union
from tracetui.trace.model import I64

WAIT_NS = 50_000
WAIT_SHARE = 0.01
WAIT_MEDIUM = 0.05
SEVERAL_WAITS = 3
"""So many waits within a step cut it into pieces."""
TURNS_SHARE = 0.1
"""Where the CPU waits for the GPU for this share of the time, and the GPU for the CPU, they take turns."""
CLOSING_SHARE = 0.1
"""A closing wait of less is not what a reader stops at."""
BLOCKING_NS = 20_000
MUCH_NS = 20_000
"""A copy of a loss, or of a few of them, is over sooner."""
_LINEAR_ALGEBRA = re.compile(r"aten::_?(?:linalg_|cholesky|lu_|inverse|lstsq|geqrf|symeig)")
BLOCKED_CALLS, BLOCKED_SHARE = 10, 0.9
_OUT_OF_THE_LOOP = (
    "Take torch.cuda.synchronize() and similar calls out of the loop. To time a part of it, use "
    "torch.cuda.Event."
)
_LATER = "Wait for events later: read the times of torch.cuda.Event after the loop, all at once."
_READ_LATER = (
    "Read values back later and less often: keep losses on the GPU, copy with non_blocking=True to pinned "
    "memory, avoid .item(), .tolist() and boolean indexing in the loop."
)
MANY_VALUES = 8
_READ_ONCE = (
    "Read values once per step, not one by one: put them into one tensor, torch.stack(values).tolist(). Or "
    "keep them on the GPU and read them later, less often."
)
_RECORD = "Record the GPU, too (ProfilerActivity.CUDA): then the trace shows what the CPU waits for."
_LEAVE = "Leave them as they are, as long as the GPU stays busy."
_STATUS = (
    "These ops read back their status or results. The _ex variants, for ops that have one, skip the check "
    "(torch.linalg.solve_ex, inv_ex, cholesky_ex). Otherwise, give the GPU work on another stream in the "
    "meantime."
)
_CTC = re.compile(r"aten::_?(?:use_)?(?:cudnn_)?ctc_loss")
_BY_ITSELF = (
    "The op itself copies and waits: call it less often, with more at a time, or give the GPU work on "
    "another stream in the meantime."
)
_SEND = (
    "Most of that wait is in copies to the GPU: copy from pinned memory with non_blocking=True, and copy "
    "many small tensors as one."
)

_FETCH = (
    "Most of that wait is in copies of tensors to the host: copy them less often, or into pinned memory with "
    "non_blocking=True, and wait for them once, later."
)


def waiting_at_the_end(part: Part) -> Iterator[Finding]:
    """A closing synchronisation that mostly waits for work that was queued."""
    trace, work = part.trace, device_work_of(part)
    at = slices_of(part, Kind.RUNTIME, is_synchronising)
    at = at[op_around(trace, at) < 0]
    if not len(at) or not len(work):
        return
    last = int(at[np.argmax(trace.start[at])])
    start, length = int(trace.start[last]), int(trace.duration[last])
    busy = int(busy_union(trace, work).within(np.array([start]), np.array([start + length]))[0])
    span = part.span[1] - part.span[0]
    if length < max(WAIT_NS, CLOSING_SHARE * span) or busy < 0.5 * length:
        return
    running = work[trace.start[work] + trace.duration[work] > start]
    # The trace does not say which one it waits for.
    several = len(gaps_of(part).devices) > 1
    a_gpu, busy_one = ("a GPU", "at least one GPU") if several else ("the GPU", "the GPU")
    yield Finding(
        "waiting_at_the_end",
        "info",
        f"{trace.name_of(last)} waits {duration(length)} for {a_gpu} to finish",
        f"{capital(busy_one)} is busy for {duration(busy)} of that: it is working through earlier launches. "
        "The call itself is not slow: its CPU time is the GPU's time, seen from the CPU.",
        "Do not count it as overhead. It shows how far the CPU was ahead of the GPU.",
        first_of([last, *running[:3].tolist()]),
        {"wait_ns": float(length), "busy_ns": float(busy)},
    )


def blocking_calls(part: Part) -> Iterator[Finding]:
    """Ops that make the CPU wait for the device: .item(), copies to the CPU, nonzero."""
    trace = part.trace
    at, parent = _waits_in_ops(part)
    total = int(trace.duration[at].sum())
    span = part.span[1] - part.span[0]
    if not len(at) or total < max(WAIT_NS, WAIT_SHARE * span):
        return
    called = outermost_op(part, parent)
    time = {
        trace.names[int(name)]: int(trace.duration[at[trace.name[called] == name]].sum())
        for name in np.unique(trace.name[called])
    }
    calls, which = by_name(trace, at)
    most = trace.names[int(calls[np.argmax(sum_into(which, trace.duration[at], len(calls)))])]
    ops = unique(parent)  # one that copies and then waits for the copy takes two calls
    each = per_step(part, trace.start[ops]) or 0
    in_step = f" in {plural(len(ops), 'op')}" if len(ops) < len(at) else ""
    in_step += f" ({each:,} in a step)" if 1 < each < len(ops) else ""
    largest = sorted(time, key=lambda name: -time[name])[:3]
    verdict = verdict_of(part)
    devices = len(gaps_of(part).devices)  # each of them may be idle for all of the wait
    cost = min(total * devices, verdict.causes[CAUSES.index("sync")] if verdict.causes else 0)
    fraction = cost / verdict.judged if verdict.judged else 0.0
    idle = verdict.parts[PARTS.index("cpu")] if verdict.parts else 0
    hidden = min(total * devices, idle)
    behind = fraction < WAIT_SHARE and hidden >= TURNS_SHARE * verdict.judged > 0
    gpus = gpus_text(part)
    are, have = ("is", "has") if devices < 2 else ("are", "have")
    meanwhile = f"{capital(gpus)} {have} work in the meantime"
    if fraction >= WAIT_SHARE:
        meanwhile = f"Meanwhile nothing is launched: for {duration(cost)}, {share(fraction)} {verdict.of()}, "
        meanwhile += f"{gpus_are(part)} idle because of these waits."
    elif behind:
        meanwhile += f", but the CPU cannot work ahead. That could hide up to {duration(hidden)} of the "
        meanwhile += f"{duration(idle)} for which {gpus} {verb(max(1, devices), 'wait')} for the CPU."
    else:
        meanwhile += ", so the waiting costs little here."
    cheap = fraction < WAIT_SHARE and not behind
    if not devices:
        meanwhile = "The trace does not show what the GPU does meanwhile."
    copying = np.isin(at, blocking_copies(trace, launches_of(part).event)[0])
    mostly_copies = 2 * int(trace.duration[at[copying]].sum()) > total
    if fraction < WAIT_MEDIUM and mostly_copies and any(pageable_memory(part)):
        return  # a finding of its own
    if cheap and verdict.verdict == "overhead-bound":
        meanwhile = f"{capital(gpus)} {are} idle for other reasons: the waiting costs little here."
    yield Finding(
        "blocking_calls",
        "medium" if fraction >= WAIT_MEDIUM else "low" if fraction >= WAIT_SHARE or behind else "info",
        f"The CPU waits {duration(total)} for {gpus} inside ops",
        f"{such(len(at), 'call', most)}{in_step} {verb(len(at), 'stop')} the CPU until "
        f"{gpus} {have} caught up, under "
        f"{', '.join(f'{name} ({duration(time[name])})' for name in largest)}. {meanwhile}",
        _RECORD
        if not devices
        else ("First look at what keeps the GPU idle." if verdict.verdict == "overhead-bound" else _LEAVE)
        if cheap
        else _SEND
        if 2 * _sending(part, at, parent, called) > total
        else SAVED_ADVICE
        if saves_on_host(part)
        else _STATUS
        if 2 * sum(time[name] for name in time if _LINEAR_ALGEBRA.match(name)) > total
        else _BY_ITSELF
        if 2 * sum(time[name] for name in time if _CTC.match(name)) > total
        else _FETCH
        if 2 * _fetching(part, at) > total
        else _READ_ONCE
        if each >= MANY_VALUES and 2 * time.get("aten::item", 0) > total
        else _READ_LATER,
        first_of(longest_first(trace, at)),
        {"wait_ns": float(total), "calls": float(len(at)), "idle_ns": float(cost)}
        | {"share": total / span if span else 0.0},
    )


def _waits_in_ops(part: Part) -> tuple[I64, I64]:
    """The calls in ops that make the CPU wait for the device, and the op around each (slices)."""
    trace = part.trace
    at = unique(
        slices_of(part, Kind.RUNTIME, is_synchronising), blocking_copies(trace, launches_of(part).event)[0]
    )
    parent = op_around(trace, at)
    at, parent = at[parent >= 0], parent[parent >= 0]
    # `anomaly_detection` tells of its own.
    check = np.zeros(len(trace), dtype=np.bool_)
    check[checked_for_nan(part)] = True
    mine = first_marked(trace, parent, check) < 0
    at, parent = at[mine], parent[mine]
    return at, parent


def sending_advice(part: Part) -> str:
    """What to try where most of the CPU's waits are in copies to a device; "" elsewhere."""
    at, parent = _waits_in_ops(part)
    sent = _sending(part, at, parent, outermost_op(part, parent))
    waits = unique(at, slices_of(part, Kind.RUNTIME, is_synchronising))
    return _SEND if 2 * sent > int(part.trace.duration[waits].sum()) else ""


def waits_in_a_step(part: Part) -> tuple[int, str]:
    """(how many ops of a step make the CPU wait for the device; the op of most of them that the program
    calls, "" for none)."""
    _, parent = _waits_in_ops(part)
    ops = unique(parent)
    names, which = by_name(part.trace, outermost_op(part, ops))
    most = int(names[np.argmax(np.bincount(which))]) if len(ops) else -1
    return per_step(part, part.trace.start[ops]) or 0, part.trace.names[most] if len(ops) else ""


def no_graphs_yet(part: Part) -> str | None:
    """What to say instead of advising CUDA graphs, as a graph holds no op that makes the CPU wait for the
    device: "" for nothing, where there are such graphs already, or none for this device. None where nothing
    is in the way."""
    waits, op = waits_in_a_step(part)
    if waits >= SEVERAL_WAITS:
        return f" For CUDA graphs, first remove the step's {waits:,} waits for the GPU, above all {op}."
    return "" if replays(part) or on_xpu(part) else None


def replays(part: Part) -> bool:
    """Whether graph launches run most of the kernels, copies and memsets."""
    replay = named(part.trace, lambda name: "GraphLaunch" in name)[part.trace.name[launches_of(part).launch]]
    return bool(2 * np.count_nonzero(replay) > len(replay))


def _fetching(part: Part, at: I64) -> int:
    """How long the calls `at` that copy much from the device wait, ns."""
    trace, launches = part.trace, launches_of(part)
    from_device = named(part.trace, lambda name: any(way in name for way in OUT))[trace.name[launches.event]]
    much = from_device & (trace.duration[launches.event] >= MUCH_NS)
    return int(trace.duration[at[np.isin(at, launches.launch[much])]].sum())


def _sending(part: Part, at: I64, parent: I64, called: I64) -> int:
    """How long the calls `at` in the ops `parent` wait in ops that copy to the device, where what the program
    `called` is a copy, ns."""
    trace, launches = part.trace, launches_of(part)
    to_device = named(part.trace, lambda name: bool(re.search(r"HtoD|HostToDevice|\bM2D\b", name)))
    copies = launches.launch[to_device[trace.name[launches.event]]]
    sending = np.isin(parent, op_around(trace, copies)) & named(part.trace, is_copying)[trace.name[called]]
    return int(trace.duration[at[sending]].sum())


def explicit_waits(part: Part) -> Iterator[Finding]:
    """Calls outside of ops that make the CPU wait for the device, before it launches more."""
    trace, launch = part.trace, launch_calls_of(part)
    at = slices_of(part, Kind.RUNTIME, is_synchronising)
    if not len(at) or not len(launch):
        return
    inside = op_around(trace, at) >= 0
    within, last = int(trace.duration[at[inside]].sum()), trace.start[launch].max()
    at = at[~inside & (trace.start[at] < last)]
    total, verdict = int(trace.duration[at].sum()), verdict_of(part)
    devices = len(gaps_of(part).devices)  # each of them may be idle for all of the wait
    cost = min(total * devices, verdict.causes[CAUSES.index("sync")]) if verdict.causes else 0
    fraction = cost / verdict.judged if verdict.judged else 0.0
    if fraction < WAIT_MEDIUM or total < max(WAIT_NS, within):
        return
    at = longest_first(trace, at)
    events = named(part.trace, lambda name: "EventSynchronize" in name)
    yield Finding(
        "explicit_waits",
        "medium",
        f"The CPU waits {duration(total)} for {gpus_text(part)} outside of ops",
        f"{such(len(at), 'call', trace.name_of(int(at[0])))} {verb(len(at), 'stop')} the CPU until "
        f"{gpus_text(part)} {'has' if devices < 2 else 'have'} caught up, outside of any op. Meanwhile "
        f"nothing is launched: for {duration(cost)}, {share(fraction)} {verdict.of()}, {gpus_are(part)} idle "
        "because of these waits.",
        _LATER if 2 * int(trace.duration[at[events[trace.name[at]]]].sum()) > total else _OUT_OF_THE_LOOP,
        first_of(at),
        {"wait_ns": float(total), "calls": float(len(at)), "idle_ns": float(cost), "share": fraction},
    )


def blocking_launches(part: Part) -> Iterator[Finding]:
    """Launches that return only when their kernel is done: CUDA_LAUNCH_BLOCKING=1."""
    trace, launches = part.trace, launches_of(part)
    # A kernel of a few µs may be over before its launch returns.
    long = (trace.kind[launches.event] == Kind.KERNEL) & (trace.duration[launches.event] >= BLOCKING_NS)
    if launches.median_delay is None:  # the clocks differ
        return
    event, call = launches.event[long], launches.launch[long]
    done = trace.start[event] + trace.duration[event] <= trace.start[call] + trace.duration[call]
    if done.sum() < BLOCKED_CALLS or done.sum() < BLOCKED_SHARE * len(done):
        return
    call = unique(call[done])
    yield Finding(
        "blocking_launches",
        "high",
        "Launches wait for their kernels, as with CUDA_LAUNCH_BLOCKING=1",
        f"{int(done.sum()):,} of {plural(len(done), 'kernel')} of {duration(BLOCKING_NS)} and more end "
        "before their launch returns. So CPU and GPU never work at the same time, and the time of a launch "
        "is that of its kernel.",
        "Unset CUDA_LAUNCH_BLOCKING (on AMD: HIP_LAUNCH_BLOCKING, AMD_SERIALIZE_KERNEL): it is for "
        "debugging.",
        first_of(longest_first(trace, call)),
        {"calls": float(len(call)), "launch_ns": float(trace.duration[call].sum())},
    )


def waits_for_device(part: Part) -> Union:
    """While the thread that launches most waits for a device, in or outside of ops, before it goes on."""
    trace, launch = part.trace, launch_calls_of(part)
    at = unique(
        slices_of(part, Kind.RUNTIME, is_synchronising), blocking_copies(trace, launches_of(part).event)[0]
    )
    if len(launch):
        lane = np.argmax(np.bincount(trace.lane[launch]))
        last = trace.start[launch[trace.lane[launch] == lane]].max()
        at = at[(trace.lane[at] == lane) & (trace.start[at] <= last)]
    return busy_union(trace, at)
