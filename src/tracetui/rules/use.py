"""Rules on devices that stand idle: for overhead, or for other reasons."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from tracetui.analysis.calls.launches import SHORT_EVENTS, SHORT_SHARE, launches_of, short_kernels_of
from tracetui.analysis.device_text import device_text, gpus_are
from tracetui.analysis.idle.causes import CAUSES, NOT_THE_PROGRAMS
from tracetui.analysis.idle.cpu_time import is_allocation
from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.idle.gaps import busy_union, lane_calls_of
from tracetui.analysis.idle.idle_device import (
    IdleDevice,
    first_call,
    idle_after_all_work,
    idle_devices,
    long_calls,
)
from tracetui.analysis.idle.split import CAUSED, COLUMNS, causes_of
from tracetui.analysis.idle.verdict import QUEUED_NS, busy_text
from tracetui.analysis.idle.waited_for import waits_for_others
from tracetui.analysis.idle.waits import TURNS_SHARE, blocking_launches_of, waits_for_device
from tracetui.analysis.names.kernel_names import short_name
from tracetui.analysis.part import Part
from tracetui.analysis.select import is_op_name
from tracetui.analysis.steps.scope import slices_of, step_of, step_table_of
from tracetui.analysis.steps.steps import steps_of
from tracetui.analysis.verdicts import judged_range, verdict_of
from tracetui.core.threads import threads_for, together
from tracetui.core.units import capital, duration, plural, share
from tracetui.rules.advice import LAUNCHING, UNBLOCK, advice_on, allocation_advice
from tracetui.rules.model import (
    MUCH_IDLE,
    Finding,
    OfDevice,
    first_of,
    first_to_end,
    of_devices,
)
from tracetui.trace.intervals import all_of
from tracetui.trace.model import I32, I64, Kind
from tracetui.trace.unrecorded import launches_by_time
from tracetui.words.cause_words import cause_sentences

LITTLE_USE = 0.5
IDLE_SHARE = 0.1
"""From this share of the time on, idle time is worth a finding."""
ALLOCATION_SHARE = 0.05
NEARLY_ALL = 0.8
STEPS, PLACE_SHARE, PLACE_RATIO, PLACE_NS = 3, 0.3, 2, 200_000
"""Stretches outside of ops, one in each of so many steps, this share of that time, alike and long."""
TURNS, TURN_SHARE = 5, 0.95
"""So many gaps that wait for this share of the longest or more are turns of one length."""
_NOT_THE_PROGRAMS = [COLUMNS.index(cause) for cause in NOT_THE_PROGRAMS]


def of_device(idle: IdleDevice, severity: str, tell: Callable[[IdleDevice], Finding]) -> OfDevice:
    """A finding about a device that stands idle."""
    device = device_text(idle.part, idle.gaps)
    return OfDevice(severity, device, idle.busy_share, lambda: idle.evidence[0], partial(tell, idle))


def overhead_bound(part: Part) -> Iterator[Finding]:
    """The device waits for the CPU: the verdict, with the largest causes of its idle time."""
    verdict = verdict_of(part)
    if verdict.verdict != "overhead-bound":
        return
    short = short_kernels_of(part)
    # Where it also waits for other ranks, or for what the trace does not show, the CPU is not all.
    queued = verdict.causes[CAUSES.index("queued")] >= IDLE_SHARE * verdict.judged
    alone = not queued and verdict.share("communication") < IDLE_SHARE and not launches_of(part).ahead
    pace = "A faster GPU or faster kernels would change little: the CPU sets the pace." if alone else ""
    waits, events = waits_for_device(part), ""
    blocking = blocking_launches_of(part) is not None
    # Few of them explain nothing; more of them are a finding of their own.
    if max(SHORT_SHARE * short.of, 2) <= short.events < SHORT_EVENTS:
        of_all = " of all GPUs" if len(gaps_of(part).devices) > 1 else ""
        events = f"{short.events:,} of {short.of:,} kernels, copies and memsets{of_all} take less time than "
        events += "their launch on the CPU."
    low, high = judged_range(part)
    begin, end = np.clip(waits.start, low, high), np.clip(waits.end, low, high)

    def tell(idle: IdleDevice) -> Finding:
        # One gap or one step says nothing of the rest, nor does compiling.
        rare = idle.one_gap or bool(_one_step(part, idle)) or 2 * idle.compiling > idle.idle
        rare = rare or first_call(part, idle) is not None or 2 * idle_after_all_work(part, idle) > idle.idle
        if CAUSES.index("host") in idle.largest:  # both take long
            looks: list[Callable[[], object]] = [partial(_same_place, part, idle), lambda: idle.on_cpu]
            together(looks, threads_for(len(part.trace)))
        # Launches are not what takes the time then.
        elsewhere = 2 * max(idle.compiling, idle.on_cpu[1]) > idle.idle
        elsewhere = elsewhere or not any(CAUSES[i] in LAUNCHING for i in idle.largest)
        device = device_text(part, idle.gaps)
        numbers = {**idle.numbers, "short_launches": float(short.events)}
        if verdict.launch_delay is not None:
            numbers["launch_delay_ns"] = float(verdict.launch_delay)
        waited = int(idle.gaps.blocks.within(begin, end).sum())
        # Where most work is queued, the rest of the time is the GPU's.
        behind = (verdict.launch_delay or 0) >= QUEUED_NS and idle.busy_share >= IDLE_SHARE
        text = "" if rare or behind else pace
        if waited >= TURNS_SHARE * idle.time:
            text = f"CPU and {device.removeprefix('the ')} take turns: for {duration(waited)} the CPU waits "
            text += "for the GPU." if device == "the GPU" else "while it works."
        if blocking:
            text = "CPU and GPU take turns: each launch waits for its kernel."
        return Finding(
            "overhead_bound",
            "low" if verdict.mostly_left_out else "high",
            f"Overhead-bound: {device} is busy {busy_text(idle.busy_share)} {verdict.of(idle.time)}",
            " ".join(
                fraction
                for fraction in (_idle_text(part, idle), "" if elsewhere else events, text)
                if fraction
            ),
            UNBLOCK if blocking else advice_on(part, idle),
            idle.evidence,
            numbers,
            device,
        )

    severity = "low" if verdict.mostly_left_out else "high"
    found = (idle for idle in idle_devices(part) if idle.busy_share <= LITTLE_USE)
    yield from of_devices((of_device(idle, severity, tell) for idle in found), min)


def little_use(part: Part) -> Iterator[Finding]:
    """A device that is idle for more than half of its time, though not for overhead. Nothing where all of
    them together compute for most of the time that counts."""
    verdict = verdict_of(part)
    if verdict.verdict in ("overhead-bound", "compute-bound"):
        return
    severity = "low" if verdict.mostly_left_out else "high"

    def tell(idle: IdleDevice) -> Finding:
        device = device_text(part, idle.gaps)
        return Finding(
            "little_use",
            severity,
            f"{capital(device)} is busy only {busy_text(idle.busy_share)} {verdict.of(idle.time)}",
            _idle_text(part, idle),
            advice_on(part, idle),
            idle.evidence,
            idle.numbers,
            device,
        )

    found = (idle for idle in idle_devices(part) if idle.busy_share < LITTLE_USE)
    yield from of_devices((of_device(idle, severity, tell) for idle in found), min)


def idle_time(part: Part) -> Iterator[Finding]:
    """A device that is idle for less than half of its time, but for enough of it to look at."""
    verdict = verdict_of(part)

    def severity(idle: IdleDevice) -> str:
        return "medium" if 1 - idle.busy_share >= MUCH_IDLE else "low"

    def tell(idle: IdleDevice) -> Finding:
        device = device_text(part, idle.gaps)
        return Finding(
            "idle_time",
            severity(idle),
            f"{capital(device)} is idle {share(1 - idle.busy_share)} {verdict.of(idle.time)}",
            _idle_text(part, idle),
            advice_on(part, idle),
            idle.evidence,
            idle.numbers,
            device,
        )

    found = (
        idle
        for idle in idle_devices(part)
        if LITTLE_USE <= idle.busy_share <= 1 - IDLE_SHARE
        # Not where the rest is the time between kernels, or where `data_loading` says it all.
        and idle.idle - idle.no_reason >= IDLE_SHARE * idle.time
        and idle.loading < NEARLY_ALL * idle.idle
    )
    yield from of_devices((of_device(idle, severity(idle), tell) for idle in found), min)


def allocations(part: Part) -> Iterator[Finding]:
    """A device that waits for memory to be allocated or freed, beside other reasons."""
    verdict = verdict_of(part)
    cost = verdict.causes[CAUSES.index("allocation")] if verdict.causes else 0
    fraction = cost / verdict.judged if verdict.judged else 0.0
    if fraction < ALLOCATION_SHARE or any(idle.main == "allocation" for idle in idle_devices(part)):
        return
    at = slices_of(part, Kind.RUNTIME, is_allocation).longest_first()
    if len(at) < 2:
        return
    told = ", ".join(
        f"{each.name} ({plural(each.calls, 'call')}, {duration(each.time)})" for each in at.by_name()[:3]
    )
    yield Finding(
        "allocations",
        "medium" if fraction >= IDLE_SHARE and not verdict.mostly_left_out else "low",
        f"Allocating and freeing memory takes {share(fraction)} {verdict.of()}",
        f"{told}. {capital(gpus_are(part))} idle for {duration(cost)} because of that.",
        allocation_advice(part),
        first_of(at),
        {"calls": float(len(at)), "idle_ns": float(cost), "share": fraction},
    )


def between_kernels(part: Part) -> Iterator[Finding]:
    """Work is queued, but the kernels are so short that the moment between two of them counts."""
    trace, verdict = part.trace, verdict_of(part)

    def tell(idle: IdleDevice) -> Finding:
        pause, fraction = idle.pauses, idle.no_reason / idle.time
        event = idle.why.event[np.argsort(-pause, kind="stable")[: np.count_nonzero(pause)]]
        kernel, usual = float(trace.duration[event].mean()), float(pause[pause > 0].mean())
        return Finding(
            "between_kernels",
            "medium" if fraction >= MUCH_IDLE else "low",
            f"The moments between kernels take {share(fraction)} {verdict.of(idle.time)}",
            f"The next kernel is queued, and still {duration(idle.no_reason)} pass between the end of one "
            f"and the start of another: {duration(usual)} each on average, next to kernels of "
            f"{duration(kernel)}. Launching earlier does not change that.",
            "Fewer, longer kernels: torch.compile fuses elementwise chains, larger batches lengthen every "
            "kernel.",
            first_of(event),
            {"share": fraction, "idle_ns": float(idle.no_reason), "kernel_ns": kernel},
            device_text(part, idle.gaps),
        )

    found = [
        OfDevice(
            "medium" if idle.no_reason / idle.time >= MUCH_IDLE else "low",
            device_text(part, idle.gaps),
            idle.no_reason / idle.time,
            lambda idle=idle: int(idle.why.event[np.argmax(idle.pauses)]),  # type: ignore[misc]
            partial(tell, idle),
        )
        for idle in idle_devices(part)
        if idle.no_reason >= IDLE_SHARE * idle.time and idle.pauses.any()
    ]
    yield from of_devices(found, max)


def _idle_text(part: Part, idle: IdleDevice) -> str:
    words = cause_sentences(part.trace, causes_of(part))
    told = "; ".join(f"for {duration(idle.causes[i])} {words[CAUSES[i]]}" for i in idle.largest)
    verdict, device = verdict_of(part), device_text(part, idle.gaps)
    counted = " that count" if verdict.noticeably_left_out else ""
    time = f"{duration(idle.time)} {verdict.base}{counted}"
    loading = ""
    if idle.loading >= 0.1 * idle.idle:
        loading = f" For {duration(idle.loading)} of the idle time the program waited for its DataLoader."
    if idle.compiling >= 0.1 * idle.idle:
        loading += f" For {duration(idle.compiling)} of it, torch.compile was compiling."
    within, within_time = ("", 0) if loading else idle.within
    if within:
        loading = f" The CPU was in {within} for {duration(within_time)} of it."
    if not loading and (slow := long_calls(part, idle)):
        spent, calls = sum(each.idle for each in slow), sum(len(each.calls) for each in slow)
        loading = f" For {duration(min(spent, idle.dispatch))} of the idle time the CPU was in "
        loading += f"{plural(calls, 'long call')} of {' and '.join(e.name for e in slow)}."
    if not loading and (once := first_call(part, idle)):
        names, spent = once
        loading = f" For {duration(min(spent, idle.dispatch))} of the idle time the CPU was in "
        loading += f"{' and '.join(names)}, called once{' each' if len(names) > 1 else ''}: a first call "
        loading += "also loads code and sets up libraries."
    for cause in (CAUSES[i] for i in idle.largest):
        if not loading and cause == "dispatch":
            loading = _ops_on_cpu(idle)
        if not loading and cause == "host":
            loading = _same_place(part, idle)
    if idle.main == "queued" and not waits_for_others(part.trace):
        loading += _turns(idle)
    if where := _one_step(part, idle) or _without_launches(part):
        loading += where
    elif 2 * (first := _before_all(part, idle)) > idle.idle:
        loading += f" {duration(first)} pass before {device} has anything to do."
    elif 2 * (rest := idle_after_all_work(part, idle)) > idle.idle:
        loading += f" {duration(rest)} come after the last work of {device}."
    elif idle.one_gap:
        loading += f" One gap alone takes {duration(idle.longest_length)}."
    busy = f"{capital(device)} is busy for {duration(idle.busy)} of the {time}"
    return f"{busy}. While it is idle: {told}.{loading}"


def _ops_on_cpu(idle: IdleDevice) -> str:
    ops, time, _ = idle.on_cpu
    launch = "launch nothing" if ops.startswith("ops ") else "launches nothing"
    return f" For {duration(time)} of the idle time the CPU ran {ops}, which {launch}." if ops else ""


def _before_all(part: Part, idle: IdleDevice) -> int:
    """How long a device is idle before its first event, of a trace without steps, ns."""
    if not part.is_whole or len(step_table_of(part)):
        return 0
    low, _ = judged_range(part)
    left_out = sum(time for _, time in verdict_of(part).left_out)
    return max(0, idle.gaps.first - low - left_out)


def _same_place(part: Part, idle: IdleDevice) -> str:
    return part.cached((_same_place, idle.place), partial(_find_same_place, part, idle))


def _find_same_place(part: Part, idle: IdleDevice) -> str:
    """A sentence on the longest stretch of each step in which no thread is in an op, a call or an annotation;
    "" where they are little of `host`."""
    trace, steps = part.trace, step_table_of(part)
    if not part.is_whole or len(steps) < STEPS:
        return ""
    others = slices_of(part, Kind.ANNOTATION, lambda name: not name.startswith("ProfilerStep")).at
    # Annotations that have something inside say nothing of the time between it.
    inside = np.zeros(len(trace) + 1, dtype=np.bool_)  # the last for -1, of those in nothing
    for at in (others, slices_of(part, Kind.CPU_OP, is_op_name).at):
        inside[trace.parent[at]] = True
    known = [slices_of(part, kind).at for kind in (Kind.CPU_OP, Kind.RUNTIME)]
    known.append(others[~inside[others]])
    busy = all_of([*lane_calls_of(part).values(), busy_union(trace, known[-1])])
    start, end = busy.end, np.append(busy.start[1:], max(part.span[1], int(busy.end.max(initial=0))))
    step, length = step_of(steps, start), end - start - idle.gaps.blocks.within(start, end)
    longest = _longest_of_each(step, length)
    host = int(idle.causes[CAUSES.index("host")])
    if len(longest) < len(steps) or length[longest].sum() < PLACE_SHARE * host:
        return ""
    low, high = int((end - start)[longest].min()), int((end - start)[longest].max())
    if low < PLACE_NS or high > PLACE_RATIO * low:
        return ""
    before = {trace.name_of(i) for i in first_to_end(trace, known, start[longest]).tolist()}
    after = f", after {short_name(before.pop(), 'cpu_op')}" if len(before) == 1 else ""
    times = duration(low) if duration(low) == duration(high) else f"{duration(low)} to {duration(high)}"
    return f" In every step one stretch outside of ops takes {times}{after}."


def _longest_of_each(step: I32, length: I64) -> I64:
    """The longest stretch of each step, the first of equal ones (positions), by step; -1 is none."""
    at = np.flatnonzero(step >= 0)
    at = at[np.argsort(step[at], kind="stable")]
    if not len(at):
        return at
    first = np.flatnonzero(np.diff(step[at], prepend=-1))
    most = np.maximum.reduceat(length[at], first)
    top: I64 = at[length[at] == np.repeat(most, np.diff(first, append=len(at)))]
    found: I64 = top[np.diff(step[top], prepend=-1) != 0]
    return found


def _turns(idle: IdleDevice) -> str:
    """A sentence on the gaps with work queued, where most of that time is in several of one length."""
    length, held = idle.scoped.duration, idle.why.pieces[:, CAUSES.index("queued")]
    long = np.sort(length[held > TURN_SHARE * held.max(initial=0)])
    if len(long) < TURNS or 2 * long.sum() < held.sum():
        return ""
    low, high = duration(int(long[0])), duration(int(long[-1]))
    alike = f"{low} each" if low == high else f"{low} to {high} each"
    return f" {len(long)} gaps take {alike}: so do the turns of processes that share a GPU."


def _one_step(part: Part, idle: IdleDevice) -> str:
    """The step that most of it is in, if that is not as the others are."""
    rows = steps_of(part).rows if part.is_whole and len(gaps_of(part).devices) == 1 else ()
    if not rows:
        return ""
    judged = np.array([row.judged for row in rows])
    idle_of = judged[:, CAUSED].sum(1) - judged[:, _NOT_THE_PROGRAMS].sum(1)
    worst, most = rows[int(np.argmax(idle_of))], int(idle_of.max())
    # Of one that is mostly left out the length says nothing.
    if not worst.unusual or worst.verdict.mostly_left_out or 2 * most < idle.idle:
        return ""
    usual = duration(float(np.median([row.window_length for row in rows])))
    return (
        f" {capital(worst.label)} alone has {duration(most)} of it: it takes "
        f"{duration(worst.window_length)}, the median step {usual}."
    )


def _without_launches(part: Part) -> str:
    """The steps that have nothing for any device to do, beside others that have."""
    rows, table = steps_of(part).rows if part.is_whole else (), step_table_of(part)
    if (table.end[:-1] > table.start[1:]).any():  # work belongs to the latest to start
        return ""
    idle = [i for i, row in enumerate(rows) if not row.launches]
    time, _ = launches_by_time(part.trace) if idle else (table.start, None)
    calls = np.searchsorted(time, table.end[idle]) - np.searchsorted(time, table.start[idle])
    without = [rows[i].label for i, n in zip(idle, calls.tolist(), strict=True) if not n]
    if not without or len(without) == len(rows):
        return ""
    if len(without) == 1:
        return f" {capital(without[0])} launches nothing."
    return f" {len(without):,} of {len(rows):,} steps launch nothing."
