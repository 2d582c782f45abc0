"""Rules on calls that wait for the GPU: in ops, outside of them, in launches, at the end."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from tracetui.analysis.calls.ancestors import first_marked, op_around, outermost_op
from tracetui.analysis.calls.launches import launch_calls_of, launches_of
from tracetui.analysis.calls.pageable import pageable_copies
from tracetui.analysis.calls.saved_tensors import saves_on_host
from tracetui.analysis.device_text import gpus_are, gpus_text
from tracetui.analysis.device_work import device_work_of
from tracetui.analysis.idle.causes import CAUSES
from tracetui.analysis.idle.cpu_time import blocking_copies, is_synchronizing
from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.idle.gaps import busy_union
from tracetui.analysis.idle.idle_device import edges_of
from tracetui.analysis.idle.split import COLUMNS, split_of
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
from tracetui.analysis.select import name_mask
from tracetui.analysis.steps.scope import per_step, slices_of
from tracetui.analysis.verdicts import base_of, verdict_of
from tracetui.core.columns import unique
from tracetui.core.units import capital, such
from tracetui.rules.advice import SAVED_ADVICE, SEND, UNBLOCK
from tracetui.rules.claims import Claims, Count, Named, Names, Remedy, Share, Time, says
from tracetui.rules.model import Finding, build_finding
from tracetui.trace import Kind
from tracetui.trace.intervals import all_of
from tracetui.trace.model import I64, Bool
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
_SPARSE = re.compile(r"aten::_?coalesce$")
_CTC = re.compile(r"aten::_?(?:use_)?(?:cudnn_)?ctc_loss")
_BARRIER = (
    "Take barriers out of the loop (torch.distributed.barrier): collectives wait for the other ranks by "
    "themselves."
)
_COALESCE = (
    "Coalescing a sparse tensor reads back how many entries are left. If it is the gradient of an embedding, "
    "a dense one (sparse=False) does without, and costs little for a small table."
)
_BY_ITSELF = (
    "The op itself copies and waits: call it less often, with more at a time, or give the GPU work on "
    "another stream in the meantime."
)
_FETCH = (
    "Most of that wait is in copies of tensors to the host: copy them less often, or into pinned memory with "
    "non_blocking=True, and wait for them once, later."
)


def waiting_at_the_end(part: Part) -> Iterator[Finding]:
    """A closing synchronization that mostly waits for work that was queued."""
    trace, work = part.trace, device_work_of(part)
    at = slices_of(part, Kind.RUNTIME, is_synchronizing)
    at = at[op_around(trace, at.at) < 0]
    if not len(at) or not len(work):
        return
    last = int(at.at[np.argmax(at.start)])
    start, length = int(trace.start[last]), int(trace.duration[last])
    busy = busy_union(trace, work.at).time_in(start, start + length)
    if length < max(WAIT_NS, CLOSING_SHARE * part.length) or busy < 0.5 * length:
        return
    yield build_finding(
        "waiting_at_the_end",
        "info",
        {
            "name": trace.name_of(last),
            "wait_ns": Time(length),
            "busy_ns": Time(busy),
            "gpus": Count(len(gaps_of(part).devices)),
        },
        at[at.at == last],
        "wait_ns busy_ns",
        first=[last, *work[work.end > start][:3]],
    )


@says("waiting_at_the_end")
def _waiting_at_the_end(c: Claims) -> tuple[str, str, str]:
    # The trace does not say which one it waits for.
    a_gpu, busy_one = ("a GPU", "At least one GPU") if c.gpus.n > 1 else ("the GPU", "The GPU")
    return (
        f"{c.name} waits {c.wait_ns} for {a_gpu} to finish",
        f"{busy_one} is busy for {c.busy_ns} of that: it is working through earlier launches. The call "
        "itself is not slow: its CPU time is the GPU's time, seen from the CPU.",
        "Do not count it as overhead. It shows how far the CPU was ahead of the GPU.",
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
    verdict = verdict_of(part)
    devices = len(gaps_of(part).devices)  # each of them may be idle for all of the wait
    cost = min(total * devices, _held_up(part))
    fraction = cost / verdict.judged if verdict.judged else 0.0
    idle = verdict.parts[PARTS.index("cpu")] if verdict.parts else 0
    hidden = min(total * devices, idle)
    # If it is idle for most of the time that is waited, it has other reasons.
    works = (
        2 * all_of([gaps.blocks for gaps in gaps_of(part).devices]).overlap(at.start, at.end).sum() >= total
    )
    behind = works and fraction < WAIT_SHARE and hidden >= TURNS_SHARE * verdict.judged > 0
    copying = at[at.among(blocking_copies(trace, launches_of(part).event)[0])]
    mostly_copies = 2 * copying.time > total
    if fraction < WAIT_MEDIUM and mostly_copies and len(pageable_copies(part)):
        return  # a finding of its own
    cheap = fraction < WAIT_SHARE and not behind
    overhead = verdict.verdict == "overhead-bound" or not works
    meanwhile = (
        "not recorded" if not devices
        else "idle for other reasons" if cheap and overhead
        else "idle" if fraction >= WAIT_SHARE
        else "not ahead" if behind
        else "busy"
    )  # fmt: skip
    why = (
        "not recorded" if not devices
        else "first the rest" if cheap and overhead
        else "leave" if cheap
        else "send" if 2 * sending(part, at, parent, called) > total
        else "saved" if saves_on_host(part)
        else "status" if 2 * sum(time[name] for name in time if _LINEAR_ALGEBRA.match(name)) > total
        else "barrier" if 2 * at[_in_barriers(part, parent)].time > total
        else "coalesce" if 2 * sum(time[name] for name in time if _SPARSE.match(name)) > total
        else "by itself" if 2 * sum(time[name] for name in time if _CTC.match(name)) > total
        else "fetch" if 2 * fetching(part, at) > total
        else "read once" if each >= MANY_VALUES and 2 * time.get("aten::item", 0) > total
        else "read later"
    )  # fmt: skip
    longest = at.longest_first()
    yield build_finding(
        "blocking_calls",
        "medium" if fraction >= WAIT_MEDIUM else "low" if fraction >= WAIT_SHARE or behind else "info",
        {
            "wait_ns": Time(total),
            "calls": Count(len(at)),
            "idle_ns": Time(cost),
            "share": Share(total, span, base_of(part)),
            "idle_share": Share(cost, verdict.judged, verdict.of()),
            "name": at.by_name()[0].name,
            "ops": Count(len(ops)),
            "in_a_step": Count(each),
            "under": Names(tuple(Named(name, ns=ns) for name, ns in list(time.items())[:3])),
            "gpus": Count(devices),
            "meanwhile": meanwhile,
            "hidden_ns": Time(hidden),
            "for_the_cpu_ns": Time(idle),
            "why": why,
        },
        longest,
        "wait_ns calls idle_ns share",
        remedy=Remedy("remove", longest),
    )


def _held_up(part: Part) -> int:
    """How long devices are idle because the CPU waited, ns. Not the one that is done while another works on:
    it gets no more work."""
    causes, sync, devices = verdict_of(part).causes, CAUSES.index("sync"), gaps_of(part).devices
    if not causes or len(devices) < 2:
        return int(causes[sync]) if causes else 0
    done, last = np.zeros((len(devices), len(COLUMNS)), np.int64), max(device.last for device in devices)
    done[:, COLUMNS.index("sync")] = [
        min(int(cut[event < 0, sync].sum()), last - device.last)
        for device, (cut, _, event) in zip(devices, edges_of(part), strict=True)
    ]
    return max(0, int(causes[sync]) - int(split_of(part).judged(done).sum()))


def _in_barriers(part: Part, parent: I64) -> Bool:
    """Which of these ops are, or are in, a barrier of a group of ranks."""
    barrier = name_mask(part.trace, lambda name: name in ("c10d::barrier", "c10d::monitored_barrier_"))
    return first_marked(part.trace, parent, barrier[part.trace.name]) >= 0


_WAITS = {
    "not recorded": _RECORD,
    "first the rest": "First look at what keeps the GPU idle.",
    "leave": _LEAVE,
    "send": SEND,
    "saved": SAVED_ADVICE,
    "status": _STATUS,
    "barrier": _BARRIER,
    "coalesce": _COALESCE,
    "by itself": _BY_ITSELF,
    "fetch": _FETCH,
    "read once": _READ_ONCE,
    "read later": _READ_LATER,
}


@says("blocking_calls")
def _blocking_calls(c: Claims) -> tuple[str, str, str]:
    gpus, one = gpus_text(c.gpus.n), c.gpus.n < 2
    have = "has" if one else "have"
    in_step = f" in {c.ops:op}" if c.ops.n < c.calls.n else ""
    in_step += f" ({c.in_a_step} in a step)" if 1 < c.in_a_step.n < c.ops.n else ""
    works = f"{capital(gpus)} {have} work in the meantime"
    meanwhile = {
        "not recorded": "The trace does not show what the GPU does meanwhile.",
        "idle for other reasons": f"{capital(gpus)} {'is' if one else 'are'} idle for other reasons: the "
        "waiting costs little here.",
        "idle": f"Meanwhile nothing is launched: for {c.idle_ns}, {c.idle_share}, {gpus_are(c.gpus.n)} idle "
        "because of these waits.",
        "not ahead": f"{works}, but the CPU cannot work ahead. That could hide up to {c.hidden_ns} of the "
        f"{c.for_the_cpu_ns} for which {gpus} {'waits' if one else 'wait'} for the CPU.",
        "busy": f"{works}, so the waiting costs little here.",
    }
    return (
        f"The CPU waits {c.wait_ns} for {gpus} inside ops",
        f"{such(c.calls.n, 'call', c.name)}{in_step} {c.calls:~stop} the CPU until {gpus} {have} caught up, "
        f"under {c.under}. {meanwhile[c.meanwhile]}",
        _WAITS[c.why],
    )


def explicit_waits(part: Part) -> Iterator[Finding]:
    """Calls outside of ops that make the CPU wait for the device, before it launches more."""
    trace, launch = part.trace, launch_calls_of(part)
    at = slices_of(part, Kind.RUNTIME, is_synchronizing)
    if not len(at) or not len(launch):
        return
    inside = op_around(trace, at.at) >= 0
    within = at[inside].time
    at = at[~inside & (at.start < trace.start[launch].max())].longest_first()
    total, verdict = at.time, verdict_of(part)
    devices = len(gaps_of(part).devices)  # each of them may be idle for all of the wait
    cost = min(total * devices, _held_up(part))
    fraction = cost / verdict.judged if verdict.judged else 0.0
    if fraction < WAIT_MEDIUM or total < max(WAIT_NS, within):
        return
    yield build_finding(
        "explicit_waits",
        "medium",
        {
            "wait_ns": Time(total),
            "calls": Count(len(at)),
            "idle_ns": Time(cost),
            "share": Share(cost, verdict.judged, verdict.of()),
            "name": at.first_name,
            "gpus": Count(devices),
            "for_events": 2 * at.named("EventSynchronize").time > total,
        },
        at,
        "wait_ns calls idle_ns share",
        remedy=Remedy("remove", at),
    )


@says("explicit_waits")
def _explicit_waits(c: Claims) -> tuple[str, str, str]:
    gpus = gpus_text(c.gpus.n)
    return (
        f"The CPU waits {c.wait_ns} for {gpus} outside of ops",
        f"{such(c.calls.n, 'call', c.name)} {c.calls:~stop} the CPU until {gpus} "
        f"{'has' if c.gpus.n < 2 else 'have'} caught up, outside of any op. Meanwhile nothing is launched: "
        f"for {c.idle_ns}, {c.share}, {gpus_are(c.gpus.n)} idle because of these waits.",
        _LATER if c.for_events else _OUT_OF_THE_LOOP,
    )


def blocking_launches(part: Part) -> Iterator[Finding]:
    """Launches that return only when their kernel is done: CUDA_LAUNCH_BLOCKING=1."""
    blocking = blocking_launches_of(part)
    if blocking is None:
        return
    calls = blocking.calls.longest_first()
    yield build_finding(
        "blocking_launches",
        "high",
        {
            "calls": Count(len(calls)),
            "launch_ns": Time(calls.time),
            "kernels": Count(blocking.kernels),
            "of": Count(blocking.of),
            "long_ns": Time(BLOCKING_NS),
        },
        calls,
        "calls launch_ns",
        remedy=Remedy("remove", calls),
    )


@says("blocking_launches")
def _blocking_launches(c: Claims) -> tuple[str, str, str]:
    return (
        "Launches wait for their kernels, as with CUDA_LAUNCH_BLOCKING=1",
        f"{c.kernels} of {c.of:kernel} of {c.long_ns} and more end before their launch returns. So CPU and "
        "GPU never work at the same time, and the time of a launch is that of its kernel.",
        UNBLOCK,
    )
