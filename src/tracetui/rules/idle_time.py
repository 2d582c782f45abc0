"""Rules on devices that stand idle: for overhead, or for other reasons."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
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
    edges_of,
    first_call,
    idle_after_all_work,
    idle_devices,
    long_calls,
)
from tracetui.analysis.idle.split import CAUSED, COLUMNS, causes_of
from tracetui.analysis.idle.verdict import QUEUED_NS
from tracetui.analysis.idle.waited_for import cause_variants, waits_for_others
from tracetui.analysis.idle.waits import TURNS_SHARE, blocking_launches_of, waits_for_device
from tracetui.analysis.names.kernel_names import short_name
from tracetui.analysis.part import Part
from tracetui.analysis.select import is_op_name
from tracetui.analysis.steps.scope import slices_of, step_of, step_table_of
from tracetui.analysis.steps.steps import steps_of
from tracetui.analysis.verdicts import verdict_of, verdict_window
from tracetui.core.columns import unique
from tracetui.core.threads import run_parallel, threads_for
from tracetui.core.units import capital, duration, plural
from tracetui.rules.advice import LAUNCHING, advice_on, advise, allocation_advice, claim_advice
from tracetui.rules.claims import (
    Claim,
    Claims,
    Count,
    Named,
    Names,
    Ratio,
    Remedy,
    Share,
    Time,
    from_to,
    names_of,
    says,
)
from tracetui.rules.model import MUCH_IDLE, DeviceFinding, Finding, build_finding, first_to_end, merge_devices
from tracetui.trace.intervals import all_of
from tracetui.trace.model import I32, I64, Kind
from tracetui.trace.slices import Slices
from tracetui.trace.unrecorded import launches_by_time
from tracetui.words.cause_words import cause_sentence

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


def device_finding(idle: IdleDevice, severity: str, told: Callable[[IdleDevice], Finding]) -> DeviceFinding:
    """A finding about a device that stands idle."""
    device = device_text(idle.part, idle.gaps)
    return DeviceFinding(severity, device, idle.busy_share, lambda: idle.evidence[0], partial(told, idle))


def overhead_bound(part: Part) -> Iterator[Finding]:
    """The device waits for the CPU: the verdict, with the largest causes of its idle time."""
    verdict = verdict_of(part)
    if verdict.verdict != "overhead-bound":
        return
    short = short_kernels_of(part)
    # Where it also waits for other ranks, or for what the trace does not show, the CPU is not all.
    queued = verdict.causes[CAUSES.index("queued")] >= IDLE_SHARE * verdict.judged
    alone = not queued and verdict.share("communication") < IDLE_SHARE and not launches_of(part).ahead
    waits = waits_for_device(part)
    blocking = blocking_launches_of(part) is not None
    # Few of them explain nothing; more of them are a finding of their own.
    some_short = max(SHORT_SHARE * short.of, 2) <= short.events < SHORT_EVENTS
    low, high = verdict_window(part)
    begin, end = np.clip(waits.start, low, high), np.clip(waits.end, low, high)
    severity = "low" if verdict.mostly_left_out else "high"

    def told(idle: IdleDevice) -> Finding:
        # One gap or one step says nothing of the rest, nor does compiling.
        rare = idle.one_gap or bool(_one_step(part, idle)) or 2 * idle.compiling > idle.idle
        rare = (
            rare
            or 2 * idle.talking > idle.idle
            or first_call(part, idle) is not None
            or 2 * idle_after_all_work(part, idle) > idle.idle
        )
        if CAUSES.index("host") in idle.largest:  # both take long
            looks: list[Callable[[], object]] = [partial(_same_place, part, idle), lambda: idle.on_cpu]
            run_parallel(looks, threads_for(len(part.trace)))
        # Launches are not what takes the time then.
        elsewhere = 2 * max(idle.compiling, idle.on_cpu[1]) > idle.idle
        elsewhere = elsewhere or not any(CAUSES[i] in LAUNCHING for i in idle.largest)
        waited = int(idle.gaps.blocks.overlap(begin, end).sum())
        # Where most work is queued, the rest of the time is the GPU's.
        behind = (verdict.launch_delay or 0) >= QUEUED_NS and idle.busy_share >= IDLE_SHARE
        pace = (
            "blocking" if blocking
            else "turns" if waited >= TURNS_SHARE * idle.time
            else "" if rare or behind or not alone
            else "the CPU's"
        )  # fmt: skip
        claims = {
            "short_launches": Count(short.events),
            "short_of": Count(short.of) if some_short and not elsewhere else None,
            "gpus": Count(len(gaps_of(part).devices)),
            "pace": pace,
            "waited_ns": Time(waited),
        }
        numbers = "short_launches"
        if verdict.launch_delay is not None:
            claims["launch_delay_ns"] = Time(verdict.launch_delay)
            numbers += " launch_delay_ns"
        advice = claim_advice("unblock") if blocking else advice_on(part, idle)
        return tell_idle("overhead_bound", severity, idle, claims | advice, numbers)

    found = (idle for idle in idle_devices(part) if idle.busy_share <= LITTLE_USE)
    yield from merge_devices((device_finding(idle, severity, told) for idle in found), min)


@says("overhead_bound")
def _overhead_bound(c: Claims) -> tuple[str, str, str]:
    text = _idle_text(c)
    if c.short_of:
        of_all = " of all GPUs" if c.gpus.n > 1 else ""
        text += (
            f" {c.short_launches} of {c.short_of} kernels, copies and memsets{of_all} take less time than "
        )
        text += "their launch on the CPU."
    if c.pace == "the CPU's":
        text += " A faster GPU or faster kernels would change little: the CPU sets the pace."
    elif c.pace == "turns":
        text += f" CPU and {c.device.removeprefix('the ')} take turns: for {c.waited_ns} the CPU waits "
        text += "for the GPU." if c.device == "the GPU" else "while it works."
    elif c.pace == "blocking":
        text += " CPU and GPU take turns: each launch waits for its kernel."
    return f"Overhead-bound: {c.device} is busy {c.busy_share:1}", text, advise(c)


def little_use(part: Part) -> Iterator[Finding]:
    """A device that is idle for more than half of its time, though not for overhead. Nothing where all of
    them together compute for most of the time that counts."""
    verdict = verdict_of(part)
    if verdict.verdict in ("overhead-bound", "compute-bound"):
        return
    severity = "low" if verdict.mostly_left_out else "high"

    def told(idle: IdleDevice) -> Finding:
        return tell_idle("little_use", severity, idle, advice_on(part, idle))

    found = (idle for idle in idle_devices(part) if idle.busy_share < LITTLE_USE)
    yield from merge_devices((device_finding(idle, severity, told) for idle in found), min)


@says("little_use")
def _little_use(c: Claims) -> tuple[str, str, str]:
    return f"{capital(c.device)} is busy only {c.busy_share:1}", _idle_text(c), advise(c)


def idle_time(part: Part) -> Iterator[Finding]:
    """A device that is idle for less than half of its time, but for enough of it to look at."""

    def severity(idle: IdleDevice) -> str:
        return "medium" if 1 - idle.busy_share >= MUCH_IDLE else "low"

    def told(idle: IdleDevice) -> Finding:
        claims = {"share": Share(idle.idle, idle.time, verdict_of(part).of(idle.time))}
        return tell_idle("idle_time", severity(idle), idle, claims | advice_on(part, idle))

    found = (
        idle
        for idle in idle_devices(part)
        if LITTLE_USE <= idle.busy_share <= 1 - IDLE_SHARE
        # Not where the rest is the time between kernels, or where `data_loading` says it all.
        and idle.idle - idle.no_reason >= IDLE_SHARE * idle.time
        and idle.loading < NEARLY_ALL * idle.idle
    )
    yield from merge_devices((device_finding(idle, severity(idle), told) for idle in found), min)


@says("idle_time")
def _idle_time(c: Claims) -> tuple[str, str, str]:
    return f"{capital(c.device)} is idle {c.share}", _idle_text(c), advise(c)


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
    yield build_finding(
        "allocations",
        "medium" if fraction >= IDLE_SHARE and not verdict.mostly_left_out else "low",
        {
            "calls": Count(len(at)),
            "idle_ns": Time(cost),
            "share": Share(cost, verdict.judged, verdict.of()),
            "names": Names(tuple(Named(each.name, each.calls, each.time) for each in at.by_name()[:3])),
            "gpus": Count(len(gaps_of(part).devices)),
            **allocation_advice(part),
        },
        at,
        "calls idle_ns share",
        remedy=Remedy("remove", at),
    )


@says("allocations")
def _allocations(c: Claims) -> tuple[str, str, str]:
    names = [f"{each.name} ({plural(each.calls, 'call')}, {duration(each.ns)})" for each in c.names.each]
    return (
        f"Allocating and freeing memory takes {c.share}",
        f"{', '.join(names)}. {capital(gpus_are(c.gpus.n))} idle for {c.idle_ns} because of that.",
        advise(c),
    )


def between_kernels(part: Part) -> Iterator[Finding]:
    """Work is queued, but the kernels are so short that the moment between two of them counts."""
    trace, verdict = part.trace, verdict_of(part)

    def told(idle: IdleDevice) -> Finding:
        pause, fraction = idle.pauses, idle.no_reason / idle.time
        event = idle.why.event[np.argsort(-pause, kind="stable")[: np.count_nonzero(pause)]]
        claims: dict[str, Claim] = {
            "share": Share(idle.no_reason, idle.time, verdict.of(idle.time)),
            "idle_ns": Time(idle.no_reason),
            "kernel_ns": Time(float(trace.duration[event].mean())),
            "pause_ns": Time(float(pause[pause > 0].mean())),
        }
        severity = "medium" if fraction >= MUCH_IDLE else "low"
        at, device = Slices(trace, event), device_text(part, idle.gaps)
        return build_finding(
            "between_kernels", severity, claims, at, "share idle_ns kernel_ns", device=device
        )

    found = [
        DeviceFinding(
            "medium" if idle.no_reason / idle.time >= MUCH_IDLE else "low",
            device_text(part, idle.gaps),
            idle.no_reason / idle.time,
            lambda idle=idle: int(idle.why.event[np.argmax(idle.pauses)]),  # type: ignore[misc]
            partial(told, idle),
        )
        for idle in idle_devices(part)
        if idle.no_reason >= IDLE_SHARE * idle.time and idle.pauses.any()
    ]
    yield from merge_devices(found, max)


@says("between_kernels")
def _between_kernels(c: Claims) -> tuple[str, str, str]:
    return (
        f"The moments between kernels take {c.share}",
        f"The next kernel is queued, and still {c.idle_ns} pass between the end of one and the start of "
        f"another: {c.pause_ns} each on average, next to kernels of {c.kernel_ns}. Launching earlier does "
        "not change that.",
        "Fewer, longer kernels: torch.compile fuses elementwise chains, larger batches lengthen every "
        "kernel.",
    )


def tell_idle(
    rule: str, severity: str, idle: IdleDevice, claims: Mapping[str, Claim], numbers: str = ""
) -> Finding:
    """A finding on a device that stands idle: how long, why, and what the CPU did meanwhile."""
    part, verdict, variants = (
        idle.part,
        verdict_of(idle.part),
        cause_variants(idle.part.trace, causes_of(idle.part)),
    )
    sync = CAUSES.index("sync")
    if 2 * idle.talking > idle.dispatch > 0:
        variants["dispatch"] = "talking"
    if 2 * idle.in_graphs > int(idle.causes[CAUSES.index("host")]) > 0:
        variants["host"] = "in graphs"
    pieces, _, event = edges_of(part)[idle.place]
    if 2 * int(pieces[event < 0, sync].sum()) > int(idle.causes[sync]) and len(gaps_of(part).devices) > 1:
        variants["sync"] = "sync at the end"
    device = device_text(part, idle.gaps)
    largest = (Named(variants.get(CAUSES[i], CAUSES[i]), ns=int(idle.causes[i])) for i in idle.largest)
    known: dict[str, Claim] = {
        "device": device,
        "busy_share": Share(idle.busy, idle.time, verdict.of(idle.time)),
        "idle_ns": Time(idle.idle),
        "span_busy_share": Ratio(idle.gaps.busy_share),
        "busy_ns": Time(idle.busy),
        "time_ns": Time(idle.time),
        "base": f"{verdict.base}{' that count' if verdict.noticeably_left_out else ''}",
        "causes": Names(tuple(largest)),
        **_meanwhile(part, idle),
    }
    ends = idle.stretches[2]
    affected = Slices(part.trace, unique(ends[ends >= 0]))
    numbers = f"busy_share idle_ns span_busy_share {numbers}"
    return build_finding(
        rule, severity, known | dict(claims), affected, numbers, first=idle.evidence, device=device
    )


def _meanwhile(part: Part, idle: IdleDevice) -> dict[str, Claim]:
    """What the CPU did while a device was idle, as far as one thing stands out, and where most of that is."""
    claims: dict[str, Claim] = {}
    if idle.loading >= 0.1 * idle.idle:
        claims["loading_ns"] = Time(idle.loading)
    if idle.compiling >= 0.1 * idle.idle:
        claims["compiling_ns"] = Time(idle.compiling)
    if idle.talking >= 0.1 * idle.idle:
        claims["talking_ns"] = Time(idle.talking)
    if idle.in_graphs >= 0.1 * idle.idle:
        claims["in_graphs_ns"] = Time(idle.in_graphs)
    within, within_time = ("", 0) if claims else idle.enclosing_slice
    if not claims and not within and idle.main == "dispatch":
        within, within_time = idle.function_in_ops
    if within:
        claims["within"] = Names((Named(within, ns=within_time),))
    if not claims and (slow := long_calls(part, idle)):
        spent, calls = sum(each.idle for each in slow), sum(len(each.calls) for each in slow)
        claims["long_calls"], claims["long_calls_of"] = Count(calls), names_of(e.name for e in slow)
        claims["long_calls_ns"] = Time(min(spent, idle.dispatch))
    if not claims and (once := first_call(part, idle)):
        names, spent = once
        claims["first_calls"], claims["first_calls_ns"] = names_of(names), Time(min(spent, idle.dispatch))
    for cause in (CAUSES[i] for i in idle.largest):
        if not claims and cause == "dispatch" and idle.on_cpu[0]:
            claims["on_cpu"] = Names((Named(idle.on_cpu[0], ns=idle.on_cpu[1]),))
        if not claims and cause == "host":
            claims |= _same_place(part, idle)
    if idle.main == "queued" and not waits_for_others(part.trace):
        claims |= _turns(idle)
    if where := _one_step(part, idle) or _without_launches(part):
        claims |= where
    elif 2 * (first := _before_all(part, idle)) > idle.idle:
        claims["before_ns"] = Time(first)
    elif 2 * (rest := idle_after_all_work(part, idle)) > idle.idle:
        claims["after_ns"] = Time(rest)
    elif idle.one_gap:
        claims["one_gap_ns"] = Time(idle.longest_length)
    return claims


def _idle_text(c: Claims) -> str:
    causes = "; ".join(f"for {duration(each.ns)} {cause_sentence(each.name)}" for each in c.causes.each)
    text = f"{capital(c.device)} is busy for {c.busy_ns} of the {c.time_ns} {c.base}. "
    text += f"While it is idle: {causes}."
    if "loading_ns" in c:
        text += f" For {c.loading_ns} of the idle time the program waited for its DataLoader."
    if "compiling_ns" in c:
        text += f" For {c.compiling_ns} of it, torch.compile was compiling."
    if "talking_ns" in c:
        text += f" For {c.talking_ns} of it a collective ran on the CPU."
    if "in_graphs_ns" in c:
        text += f" For {c.in_graphs_ns} of it a node of a CUDA graph ran on the CPU."
    if "within" in c:
        (within,) = c.within.each
        text += f" The CPU was in {within.name} for {duration(within.ns)} of it."
    if "long_calls" in c:
        text += f" For {c.long_calls_ns} of the idle time the CPU was in {c.long_calls:long call} of "
        text += f"{c.long_calls_of: and }."
    if "first_calls" in c:
        each = " each" if len(c.first_calls.each) > 1 else ""
        text += f" For {c.first_calls_ns} of the idle time the CPU was in {c.first_calls: and }, called once"
        text += f"{each}: a first call also loads code and sets up libraries."
    if "on_cpu" in c:
        (ops,) = c.on_cpu.each
        launch = "launch nothing" if ops.name.startswith("ops ") else "launches nothing"
        text += f" For {duration(ops.ns)} of the idle time the CPU ran {ops.name}, which {launch}."
    if "shortest_place_ns" in c:
        after = f", after {c.after}" if c.after else ""
        times = from_to(c.shortest_place_ns, c.longest_place_ns)
        text += f" In every step one stretch outside of ops takes {times}{after}."
    if "turns" in c:
        times = from_to(c.shortest_turn_ns, c.longest_turn_ns)
        text += f" {c.turns.n} gaps take {times} each: so do the turns of processes that share a GPU."
    if "step" in c:
        text += f" {capital(c.step)} alone has {c.step_idle_ns} of it: it takes {c.step_ns}, the median step "
        text += f"{c.median_step_ns}."
    elif "steps_without" in c:
        text += (
            f" {capital(c.step_without)} launches nothing."
            if c.steps_without.n == 1
            else f" {c.steps_without} of {c.steps} steps launch nothing."
        )
    elif "before_ns" in c:
        text += f" {c.before_ns} pass before {c.device} has anything to do."
    elif "after_ns" in c:
        text += f" {c.after_ns} come after the last work of {c.device}."
    elif "one_gap_ns" in c:
        text += f" One gap alone takes {c.one_gap_ns}."
    return text


def _before_all(part: Part, idle: IdleDevice) -> int:
    """How long a device is idle before its first event, of a trace without steps, ns."""
    if not part.is_whole or len(step_table_of(part)):
        return 0
    low, _ = verdict_window(part)
    left_out = sum(time for _, time in verdict_of(part).left_out)
    return max(0, idle.gaps.first - low - left_out)


def _same_place(part: Part, idle: IdleDevice) -> dict[str, Claim]:
    return part.cached((_same_place, idle.place), partial(_find_same_place, part, idle))


def _find_same_place(part: Part, idle: IdleDevice) -> dict[str, Claim]:
    """The longest stretch of each step in which no thread is in an op, a call or an annotation; nothing where
    they are little of `host`."""
    trace, steps = part.trace, step_table_of(part)
    if not part.is_whole or len(steps) < STEPS:
        return {}
    others = slices_of(part, Kind.ANNOTATION, lambda name: not name.startswith("ProfilerStep")).at
    # Annotations that have something inside say nothing of the time between it.
    inside = np.zeros(len(trace) + 1, dtype=np.bool_)  # the last for -1, of those in nothing
    for at in (others, slices_of(part, Kind.CPU_OP, is_op_name).at):
        inside[trace.parent[at]] = True
    known = [slices_of(part, kind).at for kind in (Kind.CPU_OP, Kind.RUNTIME)]
    known.append(others[~inside[others]])
    busy = all_of([*lane_calls_of(part).values(), busy_union(trace, known[-1])])
    start, end = busy.end, np.append(busy.start[1:], max(part.span[1], int(busy.end.max(initial=0))))
    step, length = step_of(steps, start), end - start - idle.gaps.blocks.overlap(start, end)
    longest = _longest_of_each(step, length)
    host = int(idle.causes[CAUSES.index("host")])
    if len(longest) < len(steps) or length[longest].sum() < PLACE_SHARE * host:
        return {}
    low, high = int((end - start)[longest].min()), int((end - start)[longest].max())
    if low < PLACE_NS or high > PLACE_RATIO * low:
        return {}
    before = {trace.name_of(i) for i in first_to_end(trace, known, start[longest]).tolist()}
    return {
        "shortest_place_ns": Time(low),
        "longest_place_ns": Time(high),
        "after": short_name(before.pop(), "cpu_op") if len(before) == 1 else "",
    }


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


def _turns(idle: IdleDevice) -> dict[str, Claim]:
    """The gaps with work queued, where most of that time is in several of one length."""
    length, held = idle.scoped.duration, idle.why.pieces[:, CAUSES.index("queued")]
    long = np.sort(length[held > TURN_SHARE * held.max(initial=0)])
    if len(long) < TURNS or 2 * long.sum() < held.sum():
        return {}
    low, high = Time(int(long[0])), Time(int(long[-1]))
    return {"turns": Count(len(long)), "shortest_turn_ns": low, "longest_turn_ns": high}


def _one_step(part: Part, idle: IdleDevice) -> dict[str, Claim]:
    """The step that most of it is in, if that is not as the others are."""
    rows = steps_of(part).rows if part.is_whole and len(gaps_of(part).devices) == 1 else ()
    if not rows:
        return {}
    judged = np.array([row.judged for row in rows])
    idle_of = judged[:, CAUSED].sum(1) - judged[:, _NOT_THE_PROGRAMS].sum(1)
    worst, most = rows[int(np.argmax(idle_of))], int(idle_of.max())
    # Of one that is mostly left out the length says nothing.
    if not worst.unusual or worst.verdict.mostly_left_out or 2 * most < idle.idle:
        return {}
    return {
        "step": worst.label,
        "step_idle_ns": Time(most),
        "step_ns": Time(worst.window_length),
        "median_step_ns": Time(float(np.median([row.window_length for row in rows]))),
    }


def _without_launches(part: Part) -> dict[str, Claim]:
    """The steps that have nothing for any device to do, beside others that have."""
    rows, table = steps_of(part).rows if part.is_whole else (), step_table_of(part)
    if (table.end[:-1] > table.start[1:]).any():  # work belongs to the latest to start
        return {}
    idle = [i for i, row in enumerate(rows) if not row.launches]
    time, _ = launches_by_time(part.trace) if idle else (table.start, None)
    calls = np.searchsorted(time, table.end[idle]) - np.searchsorted(time, table.start[idle])
    without = [rows[i].label for i, n in zip(idle, calls.tolist(), strict=True) if not n]
    if not without or len(without) == len(rows):
        return {}
    return {"steps_without": Count(len(without)), "step_without": without[0], "steps": Count(len(rows))}
