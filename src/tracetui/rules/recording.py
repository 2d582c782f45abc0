"""Rules on the recording itself: the profiler's work, the cost of stacks, graphs captured meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from tracetui.analysis.calls.ancestors import deepest_at
from tracetui.analysis.calls.calls import exclusive_time_of
from tracetui.analysis.device_text import device_text
from tracetui.analysis.device_work import device_work_of
from tracetui.analysis.idle.causes import CAUSES
from tracetui.analysis.idle.gap_list import busy_share_of, gaps_of
from tracetui.analysis.idle.gaps import DeviceGaps, busy_union
from tracetui.analysis.idle.initialization import profilers_work
from tracetui.analysis.idle.split import device_causes_of
from tracetui.analysis.part import Part
from tracetui.analysis.recorded import asked_from_outside, recorded_too
from tracetui.analysis.steps.scope import slices_of
from tracetui.analysis.verdicts import base_of
from tracetui.core.units import capital, duration
from tracetui.rules.claims import Claims, Count, Remedy, Share, Time, names_of, says
from tracetui.rules.model import DeviceFinding, Finding, build_finding, merge_devices
from tracetui.trace import Kind
from tracetui.trace.model import I64
from tracetui.trace.slices import Slices

CAPTURE_SHARE = 0.05
RECORDED_SHARE = 0.2
OFTEN_NS = 10_000
"""With a Python call as often as that, stacks alone cost a noticeable part of the time (about 1 us each)."""
PROFILER_NS = 20_000
PROFILER_SHARE = 0.2
PROFILER = CAUSES.index("profiler")


def graph_capture(part: Part) -> Iterator[Finding]:
    """A CUDA graph is captured within the recording: what is launched meanwhile does not run."""
    begins = slices_of(part, Kind.RUNTIME, lambda name: "StreamBeginCapture" in name)
    ends = slices_of(part, Kind.RUNTIME, lambda name: "StreamEndCapture" in name)
    made = slices_of(part, Kind.RUNTIME, lambda name: "GraphInstantiate" in name)
    after = np.searchsorted(ends, begins)
    begins, ends = begins[after < len(ends)], ends[after[after < len(ends)]]
    same = begins.lane == ends.lane
    first, last = begins[same], ends[same]
    if not len(first):
        return
    length = last.end - first.start
    time, building = int(length.sum()), made.time
    share = Share(time + building, part.length, base_of(part))
    yield build_finding(
        "graph_capture",
        "low" if share.value >= CAPTURE_SHARE else "info",
        {
            "captures": Count(len(first)),
            "capture_ns": Time(time),
            "instantiate_ns": Time(building),
            "share": share,
        },
        Slices(part.trace, np.concatenate([first[np.argsort(-length)].at, last.at, made.at])),
        "captures capture_ns instantiate_ns",
    )


@says("graph_capture")
def _graph_capture(c: Claims) -> tuple[str, str, str]:
    instantiated = f" and {c.instantiate_ns} to instantiate" if c.instantiate_ns.ns else ""
    return (
        f"{c.captures:CUDA graph is/CUDA graphs are} captured in this recording",
        f"It takes {c.capture_ns} to capture{instantiated}, {c.share}. Whatever is launched during a capture "
        "is recorded into the graph, not run: those ops have no kernel. A program does this once per graph.",
        "Ignore that stretch when you read the trace, or record after it: only the replays repeat.",
    )


def recording_cost(part: Part) -> Iterator[Finding]:
    """Stacks of very many calls, or shapes or memory with them, were recorded of a program that waits for
    its CPU."""
    trace = part.trace
    stacks = slices_of(part, Kind.PYTHON)
    stacks = stacks[stacks.lane == np.argmax(np.bincount(stacks.lane, minlength=1))]
    if not part.is_whole or not len(stacks) or not len(device_work_of(part)):
        return
    if (busy_share_of(part) or 0.0) >= 1 - RECORDED_SHARE:
        return
    also = [what for what in recorded_too(trace) if what != "stacks"]
    if not also and len(stacks) * OFTEN_NS < part.length:
        return
    yield build_finding(
        "recording_cost",
        "low",
        {
            "python_calls": Count(len(stacks)),
            "ops": Count(len(slices_of(part, Kind.CPU_OP))),
            "also": names_of(also),
        },
        stacks[np.argsort(-exclusive_time_of(part)[stacks], kind="stable")],
        "python_calls ops",
    )


@says("recording_cost")
def _recording_cost(c: Claims) -> tuple[str, str, str]:
    recorded, each = "stacks were recorded", ""
    if also := [each.name for each in c.also.each]:
        recorded = f"{', '.join(['stacks', *also[:-1]])} and {also[-1]} were recorded together"
        each = f", each with its {c.also: and }"
    return (
        f"The recording itself costs CPU time: {recorded}",
        f"{c.python_calls} Python calls were recorded along with {c.ops:op}{each}. The measured threads do "
        "all of that work, and the trace does not show how long it takes: without it, the CPU would be "
        "faster and the GPU idle for less time.",
        "To measure times, turn with_stack, record_shapes and profile_memory off; turn one on only to answer "
        "a question that needs it.",
    )


def profiler_overhead(part: Part) -> Iterator[Finding]:
    """The profiler's own work delays the first device event, or explains gaps."""
    trace = part.trace
    overhead = profilers_work(trace)
    if not len(overhead) or not gaps_of(part).devices:
        return
    spent = busy_union(trace, overhead)
    delayed: list[DeviceFinding] = []
    held: list[DeviceFinding] = []
    for gaps, causes in zip(gaps_of(part).devices, device_causes_of(part), strict=True):
        device = device_text(part, gaps)
        begun = gaps.first - gaps.lead_in
        in_lead = spent.time_in(begun, gaps.first)
        in_gaps = np.minimum(causes.pieces[:, PROFILER], spent.overlap(gaps.start, gaps.end))
        if part.is_whole and in_lead >= max(PROFILER_NS, PROFILER_SHARE * gaps.lead_in):
            work = device_work_of(part)
            first = int(work.at[np.searchsorted(work.start, gaps.first)])
            told = partial(_delays_the_first, part, overhead, gaps, in_lead, first)
            fraction = in_lead / gaps.lead_in
            delayed.append(
                DeviceFinding("info", device, fraction, partial(int, first), told, duration(in_lead))
            )
        if len(gaps) and int(in_gaps.sum()) >= max(PROFILER_NS, 0.01 * gaps.span):
            event = int(causes.event[np.argmax(in_gaps)])
            told = partial(_explains_gaps, part, overhead, gaps, in_gaps, event)
            time = int(in_gaps.sum())
            held.append(
                DeviceFinding("info", device, time / gaps.span, partial(int, event), told, duration(time))
            )
    yield from merge_devices(delayed, max)
    yield from merge_devices(held, max)


def _delays_the_first(part: Part, overhead: I64, gaps: DeviceGaps, spent: int, first: int) -> Finding:
    trace, device = part.trace, device_text(part, gaps)
    longest, inside, events = _what_it_interrupts(part, overhead, gaps.first - gaps.lead_in, gaps.first)
    return build_finding(
        "profiler_overhead",
        "info",
        {
            "profiler_ns": Time(spent),
            "lead_in_ns": Time(gaps.lead_in),
            "name": trace.name_of(longest),
            "inside": inside,
            "device": device,
            "gpus": Count(len(gaps_of(part).devices)),
            "ran_before": asked_from_outside(trace),
        },
        Slices(trace, events),
        "profiler_ns lead_in_ns",
        first=[*events.tolist(), first],
        device=device,
        remedy=Remedy("remove", Slices(trace, events)),
    )


def _explains_gaps(part: Part, overhead: I64, gaps: DeviceGaps, in_gaps: I64, event: int) -> Finding:
    """`in_gaps`: the profiler's part of each gap, ns. `event`: what ends the gap with the largest."""
    trace, device = part.trace, device_text(part, gaps)
    worst, many, time = int(np.argmax(in_gaps)), int((in_gaps > 0).sum()), int(in_gaps.sum())
    longest, inside, events = _what_it_interrupts(
        part, overhead, int(gaps.start[worst]), int(gaps.end[worst])
    )
    return build_finding(
        "profiler_overhead",
        "info",
        {
            "profiler_ns": Time(time),
            "gaps": Count(many),
            "longest_ns": Time(int(gaps.duration[worst])),
            "name": trace.name_of(longest),
            "inside": inside,
            "device": device,
            "gpus": Count(len(gaps_of(part).devices)),
            "recorded": names_of(what for what in recorded_too(trace) if what != "shapes"),
        },
        Slices(trace, overhead),
        "profiler_ns gaps",
        first=[*events.tolist(), event],
        device=device,
        remedy=Remedy("remove", Slices(trace, overhead)),
    )


@says("profiler_overhead")
def _profiler_overhead(c: Claims) -> tuple[str, str, str]:
    inside = f", inside {c.inside}" if c.inside else ""
    of_several = c.gpus.n > 1
    if "lead_in_ns" in c:
        kernel = f"the first kernel of {c.device}" if of_several else "the first kernel"
        warm_up = " With warm-up steps in a schedule, it is over before the recording starts."
        return (
            f"{c.name} holds up {kernel} for {c.profiler_ns}",
            f"{capital(c.device)}'s first event starts {c.lead_in_ns} after the CPU does; {c.profiler_ns} of "
            f"that is the profiler's own work ({c.name}){inside}. Without a profiler, the program does not "
            "have this cost.",
            f"Do not count that stretch{' or the op around it' if inside else ''}."
            f"{'' if c.ran_before else warm_up}",
        )
    which = "the longest lasts" if c.gaps.n > 1 else "it lasts"
    without = f", or record without {c.recorded: and }" if c.recorded.each else ""
    return (
        f"The profiler's own work explains {c.profiler_ns} of idle "
        f"time{f' of {c.device}' if of_several else ''}",
        f"{c.name} holds {c.device} up in {c.gaps:gap}{inside}; {which} {c.longest_ns}. Without a profiler, "
        f"the program does not have {'them' if c.gaps.n > 1 else 'it'}.",
        f"Do not count that time. To get less of it, record fewer steps{without}.",
    )


def _what_it_interrupts(part: Part, overhead: I64, start: int, end: int) -> tuple[int, str, I64]:
    """(longest overhead event of a range of time, the op that it is in or "", all its overhead events)."""
    trace = part.trace
    low = np.maximum(trace.start[overhead], start)
    length = np.minimum(trace.start[overhead] + trace.duration[overhead], end) - low
    inside = overhead[length > 0]
    longest = int(inside[np.argmax(length[length > 0])])
    middle = int(trace.start[longest] + trace.duration[longest] // 2)
    threads = np.array([i for i, lane in enumerate(trace.lanes) if lane.kind == "thread"], dtype=np.int64)
    around = deepest_at(trace, threads, np.full(len(threads), middle, dtype=np.int64))
    ops = [int(i) for i in around if i >= 0 and trace.kind[i] in (Kind.CPU_OP, Kind.RUNTIME)]
    return longest, trace.name_of(ops[0]) if ops else "", inside
