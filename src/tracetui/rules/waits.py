"""Rules on calls that wait for the GPU: in ops, outside of them, in launches, at the end."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from tracetui.analysis.calls.ancestors import op_around, outermost_op
from tracetui.analysis.calls.launches import launch_calls_of, launches_of
from tracetui.analysis.calls.pageable import pageable_copies
from tracetui.analysis.calls.saved_tensors import saves_on_host
from tracetui.analysis.device_text import gpus_are, gpus_text
from tracetui.analysis.device_work import device_work_of
from tracetui.analysis.idle.causes import CAUSES
from tracetui.analysis.idle.cpu_time import blocking_copies, is_synchronising
from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.idle.gaps import busy_union
from tracetui.analysis.idle.verdict import PARTS
from tracetui.analysis.idle.waits import (
    BLOCKING_NS,
    TURNS_SHARE,
    blocking_launches_of,
    fetching,
    sending,
    waits_in_ops,
)
from tracetui.analysis.part import Part
from tracetui.analysis.steps.scope import per_step, slices_of
from tracetui.analysis.verdicts import verdict_of
from tracetui.core.columns import unique
from tracetui.core.units import capital, duration, plural, share, such, verb
from tracetui.rules.advice import SAVED_ADVICE, SEND, UNBLOCK
from tracetui.rules.model import Finding, first_of
from tracetui.trace import Kind
from tracetui.trace.slices import Slices

WAIT_NS = 50_000
WAIT_SHARE = 0.01
WAIT_MEDIUM = 0.05
CLOSING_SHARE = 0.1
"""A closing wait of less is not what a reader stops at."""
_LINEAR_ALGEBRA = re.compile(r"aten::_?(?:linalg_|cholesky|lu_|inverse|lstsq|geqrf|symeig)")
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
_FETCH = (
    "Most of that wait is in copies of tensors to the host: copy them less often, or into pinned memory with "
    "non_blocking=True, and wait for them once, later."
)


def waiting_at_the_end(part: Part) -> Iterator[Finding]:
    """A closing synchronisation that mostly waits for work that was queued."""
    trace, work = part.trace, device_work_of(part)
    at = slices_of(part, Kind.RUNTIME, is_synchronising)
    at = at[op_around(trace, at.at) < 0]
    if not len(at) or not len(work):
        return
    last = int(at.at[np.argmax(at.start)])
    start, length = int(trace.start[last]), int(trace.duration[last])
    busy = busy_union(trace, work.at).time_in(start, start + length)
    if length < max(WAIT_NS, CLOSING_SHARE * part.length) or busy < 0.5 * length:
        return
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
        first_of([last, *work[work.end > start][:3]]),
        {"wait_ns": float(length), "busy_ns": float(busy)},
    )


def blocking_calls(part: Part) -> Iterator[Finding]:
    """Ops that make the CPU wait for the device: .item(), copies to the CPU, nonzero."""
    trace = part.trace
    at, parent = waits_in_ops(part)
    total, span = at.time, part.length
    if not len(at) or total < max(WAIT_NS, WAIT_SHARE * span):
        return
    called = outermost_op(part, parent)
    time = {op.name: op.time for op in Slices(trace, called).by_name(at.duration)}
    ops = unique(parent)  # one that copies and then waits for the copy takes two calls
    each = per_step(part, trace.start[ops]) or 0
    in_step = f" in {plural(len(ops), 'op')}" if len(ops) < len(at) else ""
    in_step += f" ({each:,} in a step)" if 1 < each < len(ops) else ""
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
    copying = at[at.among(blocking_copies(trace, launches_of(part).event)[0])]
    mostly_copies = 2 * copying.time > total
    if fraction < WAIT_MEDIUM and mostly_copies and len(pageable_copies(part)):
        return  # a finding of its own
    if cheap and verdict.verdict == "overhead-bound":
        meanwhile = f"{capital(gpus)} {are} idle for other reasons: the waiting costs little here."
    yield Finding(
        "blocking_calls",
        "medium" if fraction >= WAIT_MEDIUM else "low" if fraction >= WAIT_SHARE or behind else "info",
        f"The CPU waits {duration(total)} for {gpus} inside ops",
        f"{such(len(at), 'call', at.by_name()[0].name)}{in_step} {verb(len(at), 'stop')} the CPU until "
        f"{gpus} {have} caught up, under "
        f"{', '.join(f'{name} ({duration(time[name])})' for name in list(time)[:3])}. {meanwhile}",
        _RECORD
        if not devices
        else ("First look at what keeps the GPU idle." if verdict.verdict == "overhead-bound" else _LEAVE)
        if cheap
        else SEND
        if 2 * sending(part, at, parent, called) > total
        else SAVED_ADVICE
        if saves_on_host(part)
        else _STATUS
        if 2 * sum(time[name] for name in time if _LINEAR_ALGEBRA.match(name)) > total
        else _BY_ITSELF
        if 2 * sum(time[name] for name in time if _CTC.match(name)) > total
        else _FETCH
        if 2 * fetching(part, at) > total
        else _READ_ONCE
        if each >= MANY_VALUES and 2 * time.get("aten::item", 0) > total
        else _READ_LATER,
        first_of(at.longest_first()),
        {"wait_ns": float(total), "calls": float(len(at)), "idle_ns": float(cost)}
        | {"share": total / span if span else 0.0},
    )


def explicit_waits(part: Part) -> Iterator[Finding]:
    """Calls outside of ops that make the CPU wait for the device, before it launches more."""
    trace, launch = part.trace, launch_calls_of(part)
    at = slices_of(part, Kind.RUNTIME, is_synchronising)
    if not len(at) or not len(launch):
        return
    inside = op_around(trace, at.at) >= 0
    within = at[inside].time
    at = at[~inside & (at.start < trace.start[launch].max())].longest_first()
    total, verdict = at.time, verdict_of(part)
    devices = len(gaps_of(part).devices)  # each of them may be idle for all of the wait
    cost = min(total * devices, verdict.causes[CAUSES.index("sync")]) if verdict.causes else 0
    fraction = cost / verdict.judged if verdict.judged else 0.0
    if fraction < WAIT_MEDIUM or total < max(WAIT_NS, within):
        return
    yield Finding(
        "explicit_waits",
        "medium",
        f"The CPU waits {duration(total)} for {gpus_text(part)} outside of ops",
        f"{such(len(at), 'call', at.first_name)} {verb(len(at), 'stop')} the CPU until "
        f"{gpus_text(part)} {'has' if devices < 2 else 'have'} caught up, outside of any op. Meanwhile "
        f"nothing is launched: for {duration(cost)}, {share(fraction)} {verdict.of()}, {gpus_are(part)} idle "
        "because of these waits.",
        _LATER if 2 * at.named("EventSynchronize").time > total else _OUT_OF_THE_LOOP,
        first_of(at),
        {"wait_ns": float(total), "calls": float(len(at)), "idle_ns": float(cost), "share": fraction},
    )


def blocking_launches(part: Part) -> Iterator[Finding]:
    """Launches that return only when their kernel is done: CUDA_LAUNCH_BLOCKING=1."""
    blocking = blocking_launches_of(part)
    if blocking is None:
        return
    calls = blocking.calls
    yield Finding(
        "blocking_launches",
        "high",
        "Launches wait for their kernels, as with CUDA_LAUNCH_BLOCKING=1",
        f"{blocking.kernels:,} of {plural(blocking.of, 'kernel')} of {duration(BLOCKING_NS)} and more end "
        "before their launch returns. So CPU and GPU never work at the same time, and the time of a launch "
        "is that of its kernel.",
        UNBLOCK,
        first_of(calls.longest_first()),
        {"calls": float(len(calls)), "launch_ns": float(calls.time)},
    )
