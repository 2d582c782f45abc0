"""Rules on idle devices: overhead, little use, data loading, communication, waiting for the device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tracetui.analysis.causes import CAUSES, CauseTotal, cause_table, is_synchronising
from tracetui.analysis.climb import climb_to
from tracetui.analysis.findings.kernels import SHORT_EVENTS
from tracetui.analysis.findings.model import Facts, Finding, first_of
from tracetui.analysis.gaps import DeviceGaps, clip, device_of
from tracetui.analysis.intervals import Union, union
from tracetui.analysis.kinds import is_communication
from tracetui.analysis.launches import short_kernels
from tracetui.analysis.meanings import CAUSES as WORDS
from tracetui.analysis.scope import step_of
from tracetui.analysis.verdict import OF_SPAN, OF_STEPS, busy_text
from tracetui.trace import Kind, Trace
from tracetui.trace.model import I64
from tracetui.units import duration, plural, share, verb

LITTLE_USE = 0.5
LOADING_SHARE = 0.05
COMMUNICATION_SHARE = 0.1
WAIT_NS = 50_000
WAIT_SHARE = 0.01
BLOCKING_NS = 20_000

_ADVICE = {
    "dispatch": "Give the device more work per launch: larger batches, torch.compile, CUDA graphs (mode="
    '"reduce-overhead"); in training also fused optimizers.',
    "host": "Look at what Python does between the ops: data loading, logging, .item(), printing.",
    "sync": "Take out what makes the CPU wait in between: .item(), .cpu(), nonzero, printing a tensor.",
    "allocation": "Let the caching allocator keep its memory: no empty_cache() in the loop, stable shapes.",
    "profiler": "That is the profiler's own work: record fewer steps, or without stacks and memory.",
    "launch": "Many launches one after another: fuse small kernels, or use CUDA graphs.",
    "dependency": "Look at what the device waits for: another stream, an event, a copy.",
    "unlinked": "The trace lacks the launches: record CPU activity as well.",
}


def overhead_bound(facts: Facts) -> Iterator[Finding]:
    """The device waits for the CPU: the verdict, with the largest causes of its idle time."""
    verdict = facts.verdict
    if verdict.verdict != "overhead-bound":
        return
    short = short_kernels(facts.trace, facts.launches)
    text = "A faster device or faster kernels would change little: the CPU sets the pace."
    if 0 < short.events < SHORT_EVENTS:  # more of them are a finding of their own
        whose = "its" if short.events == 1 else "their"
        events = f"{short.events:,} of {short.of:,} kernels, copies and memsets"
        text = f"{events} {verb(short.events, 'take')} less time than {whose} launch on the CPU. {text}"
    for idle in _little_used(facts):
        totals = idle.causes
        # Between tiny kernels the gaps outside of ops are long only because there is so little to launch.
        cause = "dispatch" if 2 * short.events > short.of and totals[0].cause == "host" else totals[0].cause
        numbers = {**idle.numbers, "short_launches": float(short.events)}
        if verdict.launch_delay is not None:
            numbers["launch_delay_ns"] = float(verdict.launch_delay)
        yield Finding(
            "overhead_bound",
            "high",
            f"Overhead-bound: {_device(facts, idle.gaps)} is busy {busy_text(idle.busy_share)} {idle.base}",
            f"{_idle_text(idle)} {text}",
            _ADVICE[cause],
            first_of(idle.ended_by),
            numbers,
        )


def little_use(facts: Facts) -> Iterator[Finding]:
    """A device that is idle for more than half of its time, though not for overhead."""
    if facts.verdict.verdict == "overhead-bound":
        return
    for idle in _little_used(facts):
        device = _device(facts, idle.gaps).capitalize()
        yield Finding(
            "little_use",
            "high",
            f"{device} is busy only {busy_text(idle.busy_share)} {idle.base}",
            _idle_text(idle),
            _ADVICE[idle.causes[0].cause],
            first_of(idle.ended_by),
            idle.numbers,
        )


@dataclass(frozen=True, slots=True)
class _Idle:
    """How a device was used in the time that the verdict speaks of: within the steps where there are any."""

    gaps: DeviceGaps
    """Those of the scope, whatever lies outside of the steps included."""
    base: str
    """As `Verdict.base`."""
    busy: int
    idle: int
    causes: list[CauseTotal]
    """Of `idle`, largest first."""
    ended_by: I64
    """The slices that ended the longest gaps, longest first."""

    @property
    def busy_share(self) -> float:
        return self.busy / (self.busy + self.idle) if self.busy + self.idle > 0 else 0.0

    @property
    def numbers(self) -> dict[str, float]:
        return {
            "busy_share": self.busy_share,
            "idle_ns": float(self.idle),
            "span_busy_share": self.gaps.busy_share,
        }


def _little_used(facts: Facts) -> Iterator[_Idle]:
    """The devices that are busy for less than half of the time, with the causes of that."""
    in_steps = facts.whole and facts.summary.busy_share is not None
    for gaps, causes in zip(facts.gaps, facts.causes, strict=True):
        windows = [row.window for row in facts.summary.rows] if in_steps else [(gaps.first, gaps.last)]
        parts = [clip(gaps, *window) for window in windows]
        # Positions in `gaps`; a gap that a step's border cuts is in two parts, and ends in the second.
        at = np.concatenate([_positions(gaps, part) for part in parts])
        length = np.concatenate([part.duration for part in parts])
        ends = np.concatenate([part.end for part in parts]) == gaps.end[at]
        count, time = np.zeros(len(CAUSES), np.int64), np.zeros(len(CAUSES), np.int64)
        np.add.at(count, causes.cause[at[ends]], 1)
        np.add.at(time, causes.cause[at], length)
        longest = np.argsort(-length, kind="stable")[:5]
        idle = _Idle(
            gaps,
            facts.verdict.base,
            sum(part.busy for part in parts),
            sum(part.idle for part in parts),
            cause_table(count, time),
            gaps.after[at[longest]],
        )
        if len(at) and idle.busy_share < LITTLE_USE:
            yield idle


def _positions(gaps: DeviceGaps, part: DeviceGaps) -> I64:
    """Which of `gaps` those of a clipped part of it are."""
    return part.whole - gaps.whole[0] if len(gaps) else part.whole


def _device(facts: Facts, gaps: DeviceGaps) -> str:
    return f"device {gaps.device}" if len(facts.gaps) > 1 else "the device"


def _idle_text(idle: _Idle) -> str:
    causes = "; ".join(
        f"in {duration(total.duration)} ({plural(total.gaps, 'gap')}) {WORDS[total.cause]}"
        for total in idle.causes[:2]
    )
    said = {OF_STEPS: "within the steps", OF_SPAN: "from its first to its last event"}.get(
        idle.base, idle.base
    )
    text = f"Of the {duration(idle.busy + idle.idle)} {said} the device is busy for {duration(idle.busy)}. "
    text += f"Of its idle time, {causes}."
    overall = busy_text(idle.gaps.busy_share)
    if overall != busy_text(idle.busy_share):  # the tables of gaps tell this one
        text += f" From its first to its last event, {duration(idle.gaps.span)}, it is busy {overall}."
    return text


def waiting_at_the_end(facts: Facts) -> Iterator[Finding]:
    """A closing synchronisation that mostly waits for work that was queued."""
    trace = facts.trace
    at = facts.slices(Kind.RUNTIME, is_synchronising)
    at = at[_op_around(facts, at) < 0]
    if not len(at) or not len(facts.work):
        return
    last = int(at[np.argmax(trace.start[at])])
    start, length = int(trace.start[last]), int(trace.duration[last])
    lanes = union(trace.start[facts.work], trace.start[facts.work] + trace.duration[facts.work])
    busy = int(lanes.within(np.array([start]), np.array([start + length]))[0])
    span = facts.span[1] - facts.span[0]
    if length < max(WAIT_NS, WAIT_SHARE * span) or busy < 0.5 * length:
        return
    running = facts.work[trace.start[facts.work] + trace.duration[facts.work] > start]
    yield Finding(
        "waiting_at_the_end",
        "info",
        f"{trace.name_of(last)} waits {duration(length)} for the device to finish",
        f"The device is busy for {duration(busy)} of that: it works off what was launched before. The call "
        "is not slow by itself. Its CPU time is the device's time seen from the other side.",
        "Do not count it as overhead. It shows how far ahead of the device the CPU was.",
        first_of([last, *running[:3].tolist()]),
        {"wait_ns": float(length), "busy_ns": float(busy)},
    )


def blocking_calls(facts: Facts) -> Iterator[Finding]:
    """Ops that make the CPU wait for the device: .item(), copies to the CPU, nonzero."""
    trace = facts.trace
    at = np.union1d(facts.slices(Kind.RUNTIME, is_synchronising), _blocking_copies(facts))
    parent = _op_around(facts, at)
    at, parent = at[parent >= 0], parent[parent >= 0]
    total = int(trace.duration[at].sum())
    span = facts.span[1] - facts.span[0]
    if not len(at) or total < max(WAIT_NS, WAIT_SHARE * span):
        return
    time: dict[str, int] = {}
    for name in np.unique(trace.name[parent]):
        time[trace.names[int(name)]] = int(trace.duration[at[trace.name[parent] == name]].sum())
    largest = sorted(time, key=lambda name: -time[name])[:3]
    order = np.argsort(-trace.duration[at], kind="stable")
    kept_busy = facts.verdict.verdict == "compute-bound"
    yield Finding(
        "blocking_calls",
        "info" if kept_busy else "medium" if total > 0.1 * span else "low",
        f"The CPU waits {duration(total)} for the device inside ops",
        f"{plural(len(at), 'call')} such as {trace.name_of(int(at[order[0]]))} {verb(len(at), 'stop')} the "
        "CPU until the device has caught up, under "
        f"{', '.join(f'{name} ({duration(time[name])})' for name in largest)}. "
        + (
            "The device stays busy for most of the time all the same: here the waiting costs little."
            if kept_busy
            else "Meanwhile this thread launches nothing, so that the device may run out of work."
        ),
        "Read values back less often and later: collect losses on the device, copy with non_blocking=True "
        "to pinned memory, avoid .item(), .tolist() and boolean indexing in the loop.",
        first_of(at[order]),
        {"wait_ns": float(total), "calls": float(len(at)), "share": total / span if span else 0.0},
    )


def _blocking_copies(facts: Facts) -> I64:
    """Copy calls that return only when the copy is over: those of pageable memory do, asynchronous or not."""
    trace, launches = facts.trace, facts.launches
    copy = trace.kind[launches.event] == Kind.MEMCPY
    event, call = launches.event[copy], launches.launch[copy]
    copied = trace.start[event] + trace.duration[event] <= trace.start[call] + trace.duration[call]
    return np.unique(call[copied & (trace.duration[call] >= BLOCKING_NS)])


def _op_around(facts: Facts, at: I64) -> I64:
    """The op that each slice lies in, -1 for none."""
    trace = facts.trace
    return climb_to(trace, trace.parent[at].astype(np.int64), lambda of, _: trace.kind[of] == Kind.CPU_OP)


def data_loading(facts: Facts) -> Iterator[Finding]:
    """Waiting for the next batch takes more than a twentieth of a step."""
    trace, steps = facts.trace, facts.steps
    at = facts.slices(Kind.ANNOTATION, lambda name: name.startswith("enumerate(DataLoader)#"))
    if not len(at):
        return
    if facts.whole and len(steps):
        at = at[step_of(steps, trace.start[at]) >= 0]
        whole = int((steps.end - steps.start).sum())
    else:
        whole = facts.span[1] - facts.span[0]
    total = int(trace.duration[at].sum())
    if not len(at) or not whole or total < LOADING_SHARE * whole:
        return
    order = np.argsort(-trace.duration[at], kind="stable")
    longest = f", the longest {duration(trace.duration[at[order[0]]])}" if len(at) > 1 else ""
    idle = "" if _launches_within(facts, at) else " The loop launches nothing while it waits for its batch."
    yield Finding(
        "data_loading",
        "high" if total > 0.3 * whole else "medium",
        f"Data loading takes {share(total / whole)} of "
        f"{'the steps' if len(steps) and facts.whole else 'the time'}",
        f"{plural(len(at), 'call')} of {trace.name_of(int(at[order[0]]))} {verb(len(at), 'take')} "
        f"{duration(total)}{longest}.{idle}",
        "Raise num_workers, set pin_memory=True and persistent_workers=True, prefetch, or do less per "
        "sample.",
        first_of(at[order]),
        {"loading_ns": float(total), "share": total / whole},
    )


def _launches_within(facts: Facts, at: I64) -> bool:
    """Whether anything is launched by the threads of these slices while they run."""
    trace, launch = facts.trace, np.unique(facts.launches.launch)
    return any(
        bool(_union(trace, at[lane == trace.lane[at]]).touching(start, start + 1).any())
        for lane in np.unique(trace.lane[at])
        if len(start := trace.start[launch[trace.lane[launch] == lane]])
    )


def communication(facts: Facts) -> Iterator[Finding]:
    """Collectives that no computation hides take more than a tenth of the device's time."""
    for gaps in facts.gaps:
        yield from _communication_of(facts, gaps)


def _communication_of(facts: Facts, gaps: DeviceGaps) -> Iterator[Finding]:
    trace = facts.trace
    kernels = facts.work[trace.kind[facts.work] == Kind.KERNEL]
    kernels = kernels[device_of(trace)[trace.lane[kernels]] == gaps.device]
    collective = facts.named(is_communication)[trace.name[kernels]]
    at, others = kernels[collective], kernels[~collective]
    talking, computing = _union(trace, at), _union(trace, others)
    exposed = talking.total - int(computing.within(talking.start, talking.end).sum())
    span = gaps.span
    if not len(at) or not span or exposed < COMMUNICATION_SHARE * span:
        return
    order = np.argsort(-trace.duration[at], kind="stable")
    shorts = {facts.decoded(int(i)).short for i in at[order][:50].tolist()}
    yield Finding(
        "communication",
        "high" if exposed > 0.3 * span else "medium",
        f"Communication alone takes {share(exposed / span)} of {_device(facts, gaps)}'s time",
        f"Collectives ({', '.join(sorted(shorts)[:3])}) run for {duration(talking.total)}, "
        f"{duration(exposed)} of it while no other kernel runs. A collective also waits in its kernel for "
        "the slowest rank: a long one does not have to mean a slow network.",
        "Compare the ranks: the rank that waits least is the late one. Overlap with computation (bucket "
        "sizes, prefetching of FSDP), or send less.",
        first_of(at[order]),
        {"exposed_ns": float(exposed), "communication_ns": float(talking.total), "share": exposed / span},
    )


def _union(trace: Trace, at: I64) -> Union:
    return union(trace.start[at], trace.start[at] + trace.duration[at])
