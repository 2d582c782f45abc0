"""Rules on devices that stand idle: for overhead, or for other reasons."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from tracetui.analysis.ancestors import op_around
from tracetui.analysis.causes import CAUSES, NOT_THE_PROGRAMS, Causes, cause_sentences, waits_for_others
from tracetui.analysis.cpu_time import is_allocation
from tracetui.analysis.exposed_time import host_copies
from tracetui.analysis.findings.anomaly import anomaly_detection
from tracetui.analysis.findings.compiled import (
    COMPILED_GRAPH,
    COMPILED_REGION,
    compile_time,
    compiling_advice,
)
from tracetui.analysis.findings.copies import SAVED_ADVICE, saves_on_host
from tracetui.analysis.findings.idle import (
    MUCH_NS,
    TURNS_SHARE,
    blocking_launches,
    loading_advice,
    loading_time,
    waits_for_device,
    waits_in_a_step,
)
from tracetui.analysis.findings.kernels import RNN_ADVICE, SHORT_EVENTS, SHORT_SHARE, launched_by_rnn
from tracetui.analysis.findings.model import (
    Finding,
    OfDevice,
    can_be_fused,
    first_of,
    first_to_end,
    largest,
    longest_first,
    of_devices,
    smi,
)
from tracetui.analysis.findings.ops import METADATA_OPS
from tracetui.analysis.findings.slow_calls import MOSTLY, SlowCalls, called_once, slow_calls_of
from tracetui.analysis.gaps import DeviceGaps, busy_union
from tracetui.analysis.kernel_names import short_name
from tracetui.analysis.memory import OUT_OF_MEMORY
from tracetui.analysis.nesting import sum_into
from tracetui.analysis.results import Results
from tracetui.analysis.scope import step_of
from tracetui.analysis.select import by_name, has, is_op_name
from tracetui.analysis.split import BUSY, CAUSED, COLUMNS
from tracetui.analysis.verdict import busy_text
from tracetui.formats.machine import threads_for, together
from tracetui.trace.indices import places
from tracetui.trace.intervals import Union, all_of
from tracetui.trace.memory import named_instants
from tracetui.trace.model import I32, I64, Kind, Trace
from tracetui.trace.unknown import launches_by_time
from tracetui.units import capital, duration, plural, share

LITTLE_USE = 0.5
IDLE_SHARE = 0.1
"""From this share of the time on, idle time is worth a finding."""
MUCH_IDLE = 0.25
SEVERAL_GAPS = 10
"""Of fewer, one that takes half of the idle time is nothing special."""
SEVERAL_WAITS = 3
"""So many waits within a step cut it into pieces."""
NO_REASON = "back to back"
FREEING_SHARE = 0.1
ALLOCATION_SHARE = 0.05
LOADING_SHARE = 0.4
"""From this share of the idle time on, the advice is that on data loading."""
NEARLY_ALL = 0.8
STEPS, PLACE_SHARE, PLACE_RATIO, PLACE_NS = 3, 0.3, 2, 200_000
"""Stretches outside of ops, one in each of so many steps, this share of that time, alike and long."""
_COMPUTES_NOTHING = re.compile(
    r"aten::(?:empty|resize_|set_|detach|view|as_strided)|autograd::engine::|\w{1,200}Backward\d+$"
)
"""If one of these, or a view, takes long, something kept the thread from going on. What a node of PyTorch's
own gradients computes is in ops inside it."""
ON_CPU_SHARE = 0.2
"""From this share of `dispatch` on, ops that compute on the CPU are told."""
COPIED_SHARE = 0.3
LONG_NS = 50_000
"""An op on the CPU that takes as long does not only launch, or look at its inputs."""
_COMPUTES = re.compile(
    r"aten::(?:(?:add|sub|mul|div|pow|neg|abs|exp|log|sqrt|sum|mean|prod|cumsum|min|max|amin|amax|argmin|argmax|any"
    r"|all|sort|topk|eq|ne|lt|le|gt|ge|where|clamp|mm|bmm|addmm|matmul|softmax|sigmoid|tanh|relu|cat|stack"
    r"|index_select|masked_select|gather|scatter)_?|(?:fill|zero|copy|normal|uniform|random)_)"
)
"""Nor does a shorter one of these, if it launches nothing."""
TURNS, TURN_SHARE = 5, 0.95
"""So many gaps that wait for this share of the longest or more are turns of one length."""

MANY_TENSORS, FREED_SHARE = 50, 0.8
_MALLOC, _FREE = re.compile(r"(?:cuda|hip)Malloc"), re.compile(r"(?:cuda|hip)Free")
_EMPTY = re.compile(r"aten::empty(?:_strided)?")
"""Of what makes tensors, the ops that the trace has."""
_PINS = re.compile(r"HostAlloc|HostMalloc|HostRegister|MemHostAlloc")
_ADVICE = {
    "host": "Look at what Python does between the ops: data loading, logging, printing, garbage collection.",
    "sync": "Remove what makes the CPU wait in between: .item(), .cpu(), nonzero, printing a tensor.",
    "allocation": "Let the caching allocator keep its memory: no empty_cache() in the loop, stable shapes.",
    "launch": "Many launches one after another: fuse small kernels, or use CUDA graphs.",
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
_NOT_THE_PROGRAMS = [COLUMNS.index(cause) for cause in NOT_THE_PROGRAMS]
_COMPILED_ADVICE = (
    'It is compiled already: CUDA graphs (mode="reduce-overhead"), larger batches or larger compiled regions '
    "give the GPU more work per launch."
)


def overhead_bound(results: Results) -> Iterator[Finding]:
    """The device waits for the CPU: the verdict, with the largest causes of its idle time."""
    verdict = results.verdict()
    if verdict.verdict != "overhead-bound":
        return
    short = results.short_kernels()
    # Where it also waits for other ranks, or for what the trace does not show, the CPU is not all.
    queued = verdict.causes[CAUSES.index("queued")] >= IDLE_SHARE * verdict.judged
    alone = not queued and verdict.share("communication") < IDLE_SHARE and not results.launches().ahead
    pace = "A faster GPU or faster kernels would change little: the CPU sets the pace." if alone else ""
    waits, events = waits_for_device(results), ""
    blocking = list(blocking_launches(results))
    # Few of them explain nothing; more of them are a finding of their own.
    if max(SHORT_SHARE * short.of, 2) <= short.events < SHORT_EVENTS:
        events = f"{short.events:,} of {short.of:,} kernels, copies and memsets take less time than their "
        events += "launch on the CPU."
    low, high = results.judged_range()
    begin, end = np.clip(waits.start, low, high), np.clip(waits.end, low, high)

    def tell(idle: _Idle) -> Finding:
        # One gap or one step says nothing of the rest, nor does compiling.
        rare = idle.one_gap or bool(_one_step(results, idle)) or 2 * idle.compiling > idle.idle
        rare = rare or _once(results, idle) is not None or 2 * _after_all(results, idle) > idle.idle
        # Launches are not what takes the time then.
        elsewhere = 2 * max(idle.compiling, idle.on_cpu[1]) > idle.idle
        device = results.device_text(idle.gaps)
        numbers = {**idle.numbers, "short_launches": float(short.events)}
        if verdict.launch_delay is not None:
            numbers["launch_delay_ns"] = float(verdict.launch_delay)
        waited = int(idle.gaps.blocks.within(begin, end).sum())
        text = "" if rare else pace
        if waited >= TURNS_SHARE * idle.time:
            text = f"CPU and GPU take turns: for {duration(waited)} the CPU waits for the GPU."
        if blocking:
            text = "CPU and GPU take turns: each launch waits for its kernel."
        return Finding(
            "overhead_bound",
            "low" if verdict.mostly_left_out else "high",
            f"Overhead-bound: {device} is busy {busy_text(idle.busy_share)} {verdict.of(idle.time)}",
            " ".join(part for part in (_idle_text(results, idle), "" if elsewhere else events, text) if part),
            blocking[0].advice if blocking else _advice(results, idle),
            idle.evidence,
            numbers,
            device,
        )

    severity = "low" if verdict.mostly_left_out else "high"
    found = (idle for idle in _idle(results) if idle.busy_share <= LITTLE_USE)
    yield from of_devices((idle.found(severity, tell) for idle in found), min)


def little_use(results: Results) -> Iterator[Finding]:
    """A device that is idle for more than half of its time, though not for overhead. Nothing where all of
    them together compute for most of the time that counts."""
    verdict = results.verdict()
    if verdict.verdict in ("overhead-bound", "compute-bound"):
        return
    severity = "low" if verdict.mostly_left_out else "high"

    def tell(idle: _Idle) -> Finding:
        device = results.device_text(idle.gaps)
        return Finding(
            "little_use",
            severity,
            f"{capital(device)} is busy only {busy_text(idle.busy_share)} {verdict.of(idle.time)}",
            _idle_text(results, idle),
            _advice(results, idle),
            idle.evidence,
            idle.numbers,
            device,
        )

    found = (idle for idle in _idle(results) if idle.busy_share < LITTLE_USE)
    yield from of_devices((idle.found(severity, tell) for idle in found), min)


def idle_time(results: Results) -> Iterator[Finding]:
    """A device that is idle for less than half of its time, but for enough of it to look at."""
    verdict = results.verdict()

    def severity(idle: _Idle) -> str:
        return "medium" if 1 - idle.busy_share >= MUCH_IDLE else "low"

    def tell(idle: _Idle) -> Finding:
        device = results.device_text(idle.gaps)
        return Finding(
            "idle_time",
            severity(idle),
            f"{capital(device)} is idle {share(1 - idle.busy_share)} {verdict.of(idle.time)}",
            _idle_text(results, idle),
            _advice(results, idle),
            idle.evidence,
            idle.numbers,
            device,
        )

    found = (
        idle
        for idle in _idle(results)
        if LITTLE_USE <= idle.busy_share <= 1 - IDLE_SHARE
        # Not where the rest is the time between kernels, or where `data_loading` says it all.
        and idle.idle - idle.no_reason >= IDLE_SHARE * idle.time
        and idle.loading < NEARLY_ALL * idle.idle
    )
    yield from of_devices((idle.found(severity(idle), tell) for idle in found), min)


def allocations(results: Results) -> Iterator[Finding]:
    """A device that waits for memory to be allocated or freed, beside other reasons."""
    trace, verdict = results.trace, results.verdict()
    cost = verdict.causes[CAUSES.index("allocation")] if verdict.causes else 0
    part = cost / verdict.judged if verdict.judged else 0.0
    if part < ALLOCATION_SHARE or any(idle.main == "allocation" for idle in _idle(results)):
        return
    at = longest_first(trace, results.slices(Kind.RUNTIME, is_allocation))
    if len(at) < 2:
        return
    names, which = by_name(trace, at)
    spent, calls = sum_into(which, trace.duration[at], len(names)), np.bincount(which, minlength=len(names))
    told = ", ".join(
        f"{trace.names[int(names[i])]} ({plural(int(calls[i]), 'call')}, {duration(int(spent[i]))})"
        for i in np.argsort(-spent, kind="stable")[:3]
    )
    yield Finding(
        "allocations",
        "medium" if part >= IDLE_SHARE else "low",
        f"Allocating and freeing memory takes {share(part)} {verdict.of()}",
        f"{told}. The GPU is idle for {duration(cost)} because of that.",
        allocation_advice(results),
        first_of(at),
        {"calls": float(len(at)), "idle_ns": float(cost), "share": part},
    )


def between_kernels(results: Results) -> Iterator[Finding]:
    """Work is queued, but the kernels are so short that the moment between two of them counts."""
    trace, verdict = results.trace, results.verdict()

    def tell(idle: _Idle) -> Finding:
        pause, part = idle.pauses, idle.no_reason / idle.time
        event = idle.why.event[np.argsort(-pause, kind="stable")[: np.count_nonzero(pause)]]
        kernel, usual = float(trace.duration[event].mean()), float(pause[pause > 0].mean())
        return Finding(
            "between_kernels",
            "medium" if part >= MUCH_IDLE else "low",
            f"The moments between kernels take {share(part)} {verdict.of(idle.time)}",
            f"The next kernel is queued, and still {duration(idle.no_reason)} pass between the end of one "
            f"and the start of another: {duration(usual)} each on average, next to kernels of "
            f"{duration(kernel)}. Launching earlier does not change that.",
            "Fewer, longer kernels: torch.compile fuses elementwise chains, larger batches lengthen every "
            "kernel.",
            first_of(event),
            {"share": part, "idle_ns": float(idle.no_reason), "kernel_ns": kernel},
            results.device_text(idle.gaps),
        )

    found = [
        OfDevice(
            "medium" if idle.no_reason / idle.time >= MUCH_IDLE else "low",
            results.device_text(idle.gaps),
            idle.no_reason / idle.time,
            lambda idle=idle: int(idle.why.event[np.argmax(idle.pauses)]),  # type: ignore[misc]
            partial(tell, idle),
        )
        for idle in _idle(results)
        if idle.no_reason >= IDLE_SHARE * idle.time and idle.pauses.any()
    ]
    yield from of_devices(found, max)


@dataclass(frozen=True)
class _Idle:
    """How much a device was used in the time that the verdict is about."""

    results: Results
    place: int
    """Which of the devices it is."""
    gaps: DeviceGaps
    scoped: DeviceGaps
    """Its gaps in the scope."""
    why: Causes
    """Of those."""
    stretches: tuple[I64, I64, I64]
    """(starts, ends, the slices that end them) of all idle time, -1 where it has no end."""
    busy: int
    causes: I64
    """The idle time of each cause in ns, without what the verdict leaves out."""

    @cached_property
    def evidence(self) -> tuple[int, ...]:
        """The slices that ended the longest stretches, longest first."""
        (start, end, event), (low, high) = self.stretches, self.results.judged_range()
        length = np.minimum(end, high) - np.maximum(start, low)
        length[event < 0] = 0
        longest = largest(length, 5)
        ended_by = event[longest[length[longest] > 0]]
        return first_of(ended_by if len(ended_by) else self.results.work()[-1:])  # nothing ran after it

    @cached_property
    def loading(self) -> int:
        """The idle time while the program waited for a `DataLoader`, in ns."""
        return self.during(loading_time(self.results))

    @cached_property
    def compiling(self) -> int:
        """The idle time while torch.compile compiled, in ns."""
        return self.during(compile_time(self.results))

    @cached_property
    def counts(self) -> tuple[int, int]:
        """(start, end) of what is judged, without the lead-in where that is left out, ns."""
        low, high = self.results.judged_range()
        without_lead_in = "lead-in" in dict(self.results.verdict().left_out)
        return max(low, self.gaps.first) if without_lead_in else low, high

    def during(self, of: Union) -> int:
        """The idle time for `host` and `dispatch` in these stretches, in ns."""
        if not len(of):
            return 0
        begin, end = (np.clip(at, *self.counts) for at in self.stretches[:2])
        cpu = sum(int(self.causes[CAUSES.index(cause)]) for cause in ("host", "dispatch"))
        return min(int(of.within(begin, end).sum()), cpu)

    @cached_property
    def longest_length(self) -> int:
        """The longest gap, ns; 0 where there are few."""
        low, high = self.results.judged_range()
        counts = (self.scoped.start >= low) & (self.scoped.end <= high)
        counts &= ~self.why.pieces[:, [CAUSES.index(cause) for cause in NOT_THE_PROGRAMS]].any(1)
        return int(self.scoped.duration[counts].max()) if counts.sum() >= SEVERAL_GAPS else 0

    @cached_property
    def within(self) -> tuple[str, int]:
        """The annotation or function of Python in which the CPU was for most of `host`, as it ran little
        else, "" for none; and for how long."""
        return _within(self.results, self)

    @cached_property
    def on_cpu(self) -> tuple[str, int, int]:
        """The ops that work on the CPU for much of `dispatch`, "" for none; for how long; their calls."""
        return _on_cpu(self.results, self.gaps, self.dispatch)

    @property
    def pauses(self) -> I64:
        """How much of each gap has no reason, ns."""
        return self.why.pieces[:, CAUSES.index(NO_REASON)]

    def found(self, severity: str, tell: Callable[[_Idle], Finding]) -> OfDevice:
        """A finding about it."""
        device = self.results.device_text(self.gaps)
        return OfDevice(severity, device, self.busy_share, lambda: self.evidence[0], partial(tell, self))

    @property
    def one_gap(self) -> bool:
        """Whether most of it is a single gap."""
        return 2 * self.longest_length > self.idle

    @property
    def busy_share(self) -> float:
        return self.busy / self.time if self.busy else 0.0

    @property
    def time(self) -> int:
        return self.busy + self.idle

    @property
    def idle(self) -> int:
        return int(self.causes.sum())

    @property
    def no_reason(self) -> int:
        return int(self.causes[CAUSES.index(NO_REASON)])

    @property
    def dispatch(self) -> int:
        return int(self.causes[CAUSES.index("dispatch")])

    @cached_property
    def largest(self) -> list[int]:
        """Indices into `CAUSES`, largest first: the first, and a second from a tenth of the idle time on."""
        order = np.argsort(-self.causes, kind="stable").tolist()
        reasons = [i for i in order if self.causes[i] and CAUSES[i] != NO_REASON] or order[:1]
        return [i for n, i in enumerate(reasons[:2]) if not n or self.causes[i] >= 0.1 * self.idle]

    @property
    def main(self) -> str:
        return CAUSES[self.largest[0]]

    @property
    def numbers(self) -> dict[str, float]:
        whole = self.gaps.busy_share
        return {"busy_share": self.busy_share, "idle_ns": float(self.idle), "span_busy_share": whole}


def _idle(results: Results) -> tuple[_Idle, ...]:
    """The devices that ran anything, with why they did not all the time."""
    return results.kept("idle", lambda: tuple(_look_at_idle(results)))


def _look_at_idle(results: Results) -> Iterator[_Idle]:
    left_out = [CAUSES.index(cause) for cause in NOT_THE_PROGRAMS]
    split, times = results.split(), results.judged_times()
    idle = times[:, CAUSED].copy()
    idle[:, left_out] = 0
    busy = times[:, BUSY]
    scoped, why = results.gaps().devices, results.device_causes()
    for i in np.flatnonzero(busy.any(1) & idle.any(1)).tolist():
        stretches, spent = split.stretches(i), int(busy[i].sum())
        yield _Idle(results, i, split.gaps[i], scoped[i], why[i], stretches, spent, idle[i])


def _within(results: Results, idle: _Idle) -> tuple[str, int]:
    """The annotations, or functions of Python, of one name that are most of `host`, and how long the device
    was idle in them for reasons of the program."""
    trace, host, at = results.trace, idle.why.pieces[:, CAUSES.index("host")], idle.why.activity
    # Those that are little else: not what is around all of a step.
    known = np.isin(trace.kind[at], (Kind.ANNOTATION, Kind.PYTHON))
    mine = (at >= 0) & known & (2 * host > trace.duration[at])
    names, which = by_name(trace, at[mine])
    if not len(names):
        return "", 0
    top = int(names[np.argmax(sum_into(which, host[mine], len(names)))])
    kind = Kind(int(trace.kind[at[mine][trace.name[at[mine]] == top][0]]))
    name, of_name = trace.names[top], results.slices(kind, trace.names[top].__eq__)
    inside = busy_union(trace, of_name)
    begin, end = (np.clip(time, *idle.counts) for time in (inside.start, inside.end))
    spent = results.split().idle_of(idle.place, begin, end)
    spent[:, [CAUSES.index(cause) for cause in NOT_THE_PROGRAMS]] = 0
    time = int(spent.sum())
    told = 2 * time > int(host.sum()) and not name.startswith("ProfilerStep")
    category = "python_function" if kind == Kind.PYTHON else "user_annotation"
    return (short_name(name, category), time) if told else ("", 0)


def _idle_text(results: Results, idle: _Idle) -> str:
    words = cause_sentences(results.trace, results.causes())
    told = "; ".join(f"for {duration(idle.causes[i])} {words[CAUSES[i]]}" for i in idle.largest)
    verdict, device = results.verdict(), results.device_text(idle.gaps)
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
    if not loading and (slow := _slow(results, idle)):
        spent, calls = sum(each.idle for each in slow), sum(len(each.at) for each in slow)
        loading = f" For {duration(min(spent, idle.dispatch))} of the idle time the CPU was in "
        loading += f"{plural(calls, 'long call')} of {' and '.join(e.name(results.trace) for e in slow)}."
    if not loading and (once := _once(results, idle)):
        names, spent = once
        loading = f" For {duration(min(spent, idle.dispatch))} of the idle time the CPU was in "
        loading += f"{' and '.join(names)}, called once{' each' if len(names) > 1 else ''}: a first call "
        loading += "also loads code and sets up libraries."
    for cause in (CAUSES[i] for i in idle.largest):
        if not loading and cause == "dispatch":
            loading = _ops_on_cpu(idle)
        if not loading and cause == "host":
            loading = _same_place(results, idle)
    if idle.main == "queued" and not waits_for_others(results.trace):
        loading += _turns(idle)
    if where := _one_step(results, idle) or _without_launches(results):
        loading += where
    elif 2 * (first := _before_all(results, idle)) > idle.idle:
        loading += f" {duration(first)} pass before {device} has anything to do."
    elif 2 * (rest := _after_all(results, idle)) > idle.idle:
        loading += f" {duration(rest)} come after the last work of {device}."
    elif idle.one_gap:
        loading += f" One gap alone takes {duration(idle.longest_length)}."
    busy = f"{capital(device)} is busy for {duration(idle.busy)} of the {time}"
    return f"{busy}. While it is idle: {told}.{loading}"


def _ops_on_cpu(idle: _Idle) -> str:
    ops, time, _ = idle.on_cpu
    launch = "launch nothing" if ops.startswith("ops ") else "launches nothing"
    return f" For {duration(time)} of the idle time the CPU ran {ops}, which {launch}." if ops else ""


def _before_all(results: Results, idle: _Idle) -> int:
    """How long a device is idle before its first event, of a trace without steps, ns."""
    if not results.is_whole or len(results.step_table()):
        return 0
    low, _ = results.judged_range()
    left_out = sum(time for _, time in results.verdict().left_out)
    return max(0, idle.gaps.first - low - left_out)


def _after_all(results: Results, idle: _Idle) -> int:
    """How long a device is idle after its last event, of a trace without steps, ns."""
    if not results.is_whole or len(results.step_table()):
        return 0
    return max(0, results.judged_range()[1] - idle.gaps.last)


def _same_place(results: Results, idle: _Idle) -> str:
    """A sentence on the longest stretch of each step in which no thread is in an op, a call or an annotation;
    "" where they are little of `host`."""
    trace, steps = results.trace, results.step_table()
    if not results.is_whole or len(steps) < STEPS:
        return ""
    others = results.slices(Kind.ANNOTATION, lambda name: not name.startswith("ProfilerStep"))
    # Annotations that have something inside say nothing of the time between it.
    inside = np.zeros(len(trace) + 1, dtype=np.bool_)  # the last for -1, of those in nothing
    for at in (others, results.slices(Kind.CPU_OP, is_op_name)):
        inside[trace.parent[at]] = True
    known = [results.slices(kind, lambda _: True) for kind in (Kind.CPU_OP, Kind.RUNTIME)]
    known.append(others[~inside[others]])
    unions = together([partial(busy_union, trace, at) for at in known], threads_for(len(trace)))
    busy = all_of(unions)
    start, end = busy.end, np.append(busy.start[1:], max(results.span[1], int(busy.end.max(initial=0))))
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


def _on_cpu(results: Results, gaps: DeviceGaps, dispatch: int) -> tuple[str, int, int]:
    """(the ops that run for much of `dispatch` ns in which a device is idle, without a call of the runtime;
    for how long; how many calls). Of short ops that may compute nothing the time is PyTorch's own."""
    if not dispatch:
        return "", 0, 0
    trace, (low, high) = results.trace, results.judged_range()
    at = results.slices(Kind.CPU_OP, _may_compute)
    computes = results.named(lambda name: _COMPUTES.fullmatch(name) is not None)
    at = at[(trace.duration[at] >= LONG_NS) | computes[trace.name[at]]]
    at = at[results.launching_lanes()[trace.lane[at]]]
    calls = results.slices(Kind.RUNTIME, lambda _: True)
    at = at[np.searchsorted(calls, at) == np.searchsorted(calls, _ends(trace, at))]
    at = at[~np.isin(op_around(trace, at), at)]  # the outermost
    begin = np.clip(trace.start[at], low, high)
    end = np.clip(trace.start[at] + trace.duration[at], low, high)
    idle = end - begin - gaps.blocks.within(begin, end)
    if not len(at) or (total := int(idle.sum())) < ON_CPU_SHARE * dispatch:
        return "", 0, 0
    names, which = by_name(trace, at)
    spent = sum_into(which, idle, len(names))
    order = np.argsort(-spent, kind="stable")
    few = order[: 1 if spent[order[0]] > MOSTLY * total else 3].tolist()
    told = " and ".join(short_name(trace.names[int(names[i])], "cpu_op") for i in few[:2])
    # What the verdict leaves out may cover some of it.
    time = min(total if len(few) > 1 else int(spent[few[0]]), dispatch)
    return f"ops such as {told}" if len(few) > 1 else told, time, len(at)


def _may_compute(name: str) -> bool:
    return is_op_name(name) and name not in METADATA_OPS and not _COMPUTES_NOTHING.match(name)


def _ends(trace: Trace, at: I64) -> I64:
    """The first slice after all that is within each of some slices: of its lane, that starts at its end."""
    found = np.empty(len(at), dtype=np.int64)
    for lane, mine in places(trace.lane[at], len(trace.lanes)):
        rows = slice(trace.lanes[lane].first, trace.lanes[lane].last)
        over = trace.start[at[mine]] + trace.duration[at[mine]]
        found[mine] = rows.start + np.searchsorted(trace.start[rows], over)
    return found


def _slow(results: Results, idle: _Idle) -> tuple[SlowCalls, ...]:
    """The long calls of one op or two that are most of `dispatch`, where that is the main cause."""
    slow = slow_calls_of(results)[:2] if idle.main == "dispatch" else ()
    if slow and 2 * slow[0].idle > idle.dispatch:
        return slow[:1]
    return slow if 2 * sum(each.idle for each in slow) > idle.dispatch else ()


def _once(results: Results, idle: _Idle) -> tuple[tuple[str, ...], int] | None:
    """`called_once`, where that is most of `dispatch`, and this the main cause."""
    once = called_once(results) if idle.main == "dispatch" else ((), 0)
    return once if 2 * once[1] > idle.dispatch else None


def _turns(idle: _Idle) -> str:
    """A sentence on the gaps with work queued, where most of that time is in several of one length."""
    length, held = idle.scoped.duration, idle.why.pieces[:, CAUSES.index("queued")]
    long = np.sort(length[held > TURN_SHARE * held.max(initial=0)])
    if len(long) < TURNS or 2 * long.sum() < held.sum():
        return ""
    low, high = duration(int(long[0])), duration(int(long[-1]))
    alike = f"{low} each" if low == high else f"{low} to {high} each"
    return f" {len(long)} gaps take {alike}: so do the turns of processes that share a GPU."


def _one_step(results: Results, idle: _Idle) -> str:
    """The step that most of it is in, if that is not as the others are."""
    rows = results.steps().rows if results.is_whole and len(results.gaps().devices) == 1 else ()
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


def _without_launches(results: Results) -> str:
    """The steps that have nothing for any device to do, beside others that have."""
    rows, table = results.steps().rows if results.is_whole else (), results.step_table()
    if (table.end[:-1] > table.start[1:]).any():  # work belongs to the latest to start
        return ""
    idle = [i for i, row in enumerate(rows) if not row.launches]
    time, _ = launches_by_time(results.trace) if idle else (table.start, None)
    calls = np.searchsorted(time, table.end[idle]) - np.searchsorted(time, table.start[idle])
    without = [rows[i].label for i, n in zip(idle, calls.tolist(), strict=True) if not n]
    if not without or len(without) == len(rows):
        return ""
    if len(without) == 1:
        return f" {capital(without[0])} launches nothing."
    return f" {len(without):,} of {len(rows):,} steps launch nothing."


def _advice(results: Results, idle: _Idle) -> str:
    main, trace = idle.main, results.trace
    also = " Fuse the optimizer, too: fused=True." if len(can_be_fused(results)) else ""
    if idle.loading >= LOADING_SHARE * idle.idle:
        return loading_advice(results)
    if idle.compiling >= LOADING_SHARE * idle.idle:
        return compiling_advice(results)
    if any(anomaly_detection(results)):
        return (
            "First turn off autograd's anomaly detection: it is for debugging, and waits for the GPU after "
            "each node of the backward pass."
        )
    if 2 * _after_all(results, idle) > idle.idle:
        return "Look at what the program does after its last work on the GPU, or stop recording before that."
    if main == "host" and not _has_ops(results) and has(trace, Kind.ANNOTATION):
        at = results.slices(Kind.ANNOTATION, lambda _: True)
        if results.launching_lanes()[trace.lane[at]].any():
            return (
                "Annotations of the thread that launches are there, but no ops: whatever wrote the file left "
                "them out."
            )
        return (
            "Annotations were recorded, but no ops: the profiler sees those of the thread that starts it and "
            "of autograd. Start it in the thread that works, or record every thread: "
            "profile_all_threads=True in torch.profiler's experimental_config."
        )
    if main == "host" and not _has_ops(results):
        return (
            "Record CPU activity as well (ProfilerActivity.CPU): the trace does not show what the CPU did. "
            "If that was on, the ops ran in another thread: the profiler sees those of the thread that "
            "starts it and of autograd, and with profile_all_threads=True in its experimental_config those "
            "of all threads."
        )
    if main == "unlinked" and _has_ops(results):
        # Calls without ids lead nowhere; calls that are not there are another matter.
        if results.cpu_time().linked or not has(trace, Kind.RUNTIME):
            return (
                "The calls that launched this work are not in the trace: whatever wrote the file left them "
                "out, or another process made them."
            )
        return "The trace shows what the CPU did, but not what launched what: look at both on the timeline."
    if main == "allocation":
        return allocation_advice(results)
    if "allocation" in (CAUSES[i] for i in idle.largest) and _frees(results):
        return f"{_ADVICE['allocation']} {_more_per_launch(results) if main == 'dispatch' else _ADVICE[main]}"
    if main in ("launch", "dispatch") and launched_by_rnn(results):
        return RNN_ADVICE
    if main == "dispatch" and 2 * idle.on_cpu[1] >= idle.dispatch:
        if 2 * idle.during(can_be_fused(results)) > idle.idle:
            return _OPTIMIZER_ON_CPU
        ops, spent, calls = idle.on_cpu
        if spent < LONG_NS * calls:
            few = "run a few on whole tensors, on the GPU."
            return f"Instead of {calls:,} small calls of {ops} on the CPU, {few}"
        return f"Run {ops} on the GPU, or while the GPU has other work."
    copies, of = _copies(results)
    if main in ("launch", "dispatch") and copies >= COPIED_SHARE * of:
        advice = f"{copies:,} of {of:,} launches copy little from or to the host: copy many small tensors "
        advice += "as one."
        more = _more_per_launch(results) if main == "dispatch" else _ADVICE[main]
        return advice if 2 * copies > of else f"{advice} {more}"
    if main in ("launch", "dispatch") and _replays(results):
        return "It runs CUDA graphs already: put more of the step into them, or more work into each kernel."
    if main == "sync" and saves_on_host(results):
        return SAVED_ADVICE
    if slow := _slow(results, idle):
        return slow[0].advice(trace)
    if main == "launch" and idle.one_gap:
        return _ONE_LAUNCH
    if _once(results, idle):
        return "Run such an op once before the recording, and see whether it is still as slow."
    if main == "dispatch" and _is_compiled(results):
        return _COMPILED_ADVICE
    if main == "queued" and not waits_for_others(trace):
        return f"Look for other processes on the GPU ({smi(results)}), and record again with it to yourself."
    if main == "host":
        # Between tiny kernels the gaps outside of ops are long only because there is so little to launch.
        short, time = results.short_kernels(), dict(zip(CAUSES, idle.causes, strict=True))
        within = idle.within[0] if not idle.within[0].startswith("Optimizer.") else ""
        look = _IN_ANNOTATION.format(within) if within else _ADVICE["host"]
        if 2 * short.events > short.of and "dispatch" in (CAUSES[i] for i in idle.largest):
            both = "" if 2 * time["host"] < idle.idle and not within else f"{look} "
            return both + _more_per_launch(results) + also
        return look
    return _more_per_launch(results) + also if main == "dispatch" else _ADVICE[main]


def _more_per_launch(results: Results) -> str:
    """What to try where launching takes long. A graph holds no op that makes the CPU wait for the device."""
    waits, op = waits_in_a_step(results)
    graphs = ', CUDA graphs (mode="reduce-overhead").'
    if waits >= SEVERAL_WAITS:
        graphs = f". For CUDA graphs, first remove the step's {waits:,} waits for the GPU, above all {op}."
    compiled = "larger compiled regions" if len(_compiled_regions(results)) else "torch.compile"
    return f"Give the GPU more work per launch: larger batches, {compiled}{graphs}"


def allocation_advice(results: Results) -> str:
    """What to try against allocating and freeing memory within the steps."""
    trace = results.trace
    if _without_cache(results):
        return (
            "Every tensor is allocated and freed individually, as with PYTORCH_NO_CUDA_MEMORY_CACHING=1: "
            "unset it. It is for debugging."
        )
    if _frees(results):
        return _LESS_MEMORY if len(named_instants(trace, OUT_OF_MEMORY)) else _ADVICE["allocation"]
    steps, at = results.step_table(), results.slices(Kind.RUNTIME, is_allocation)
    pins = results.named(lambda name: bool(_PINS.search(name)))[trace.name[at]]
    if 2 * int(trace.duration[at[pins]].sum()) > int(trace.duration[at].sum()):
        return (
            "Pin a few buffers of host memory once and reuse them in turn, or let "
            "DataLoader(pin_memory=True) do it in its own thread."
        )
    again = np.count_nonzero(np.unique(step_of(steps, trace.start[at])) >= 0)
    if results.is_whole and again > 2 and 2 * again > len(steps):
        return (
            "Every step requests memory again, and next to nothing is freed: look for tensors that are kept "
            "from one step to the next, and for shapes that change, so that no free block fits."
        )
    return "Next to nothing is freed here, so these are first requests. Warm up with the largest shapes."


def _without_cache(results: Results) -> bool:
    """Whether memory is allocated as often as tensors are made, and freed as often."""
    made, freed, tensors = (
        len(results.slices(kind, lambda name, of=of: of.fullmatch(name) is not None))  # type: ignore[misc]
        for kind, of in ((Kind.RUNTIME, _MALLOC), (Kind.RUNTIME, _FREE), (Kind.CPU_OP, _EMPTY))
    )
    return made >= max(MANY_TENSORS, tensors) and freed >= FREED_SHARE * made


def _frees(results: Results) -> bool:
    """Whether freeing takes a noticeable part of the time in which memory is allocated and freed."""
    trace, at = results.trace, results.slices(Kind.RUNTIME, is_allocation)
    freeing = results.named(lambda name: "Free" in name)[trace.name[at]]
    return bool(trace.duration[at[freeing]].sum() >= FREEING_SHARE * trace.duration[at].sum() > 0)


def _replays(results: Results) -> bool:
    """Whether graph launches run most of the kernels, copies and memsets."""
    replay = results.named(lambda name: "GraphLaunch" in name)[results.trace.name[results.launches().launch]]
    return bool(2 * np.count_nonzero(replay) > len(replay))


def _copies(results: Results) -> tuple[int, int]:
    """How many launches copy little from and to the host; of how many in all."""
    trace, event = results.trace, results.launches().event
    copies = host_copies(trace, event) & (trace.duration[event] < MUCH_NS)
    return int(np.count_nonzero(copies)), len(copies)


def _compiled_regions(results: Results) -> I64:
    return results.slices(Kind.CPU_OP, lambda name: name.startswith((COMPILED_REGION, COMPILED_GRAPH)))


def _is_compiled(results: Results) -> bool:
    """Whether most of what is launched is launched by compiled regions."""
    trace, calls = results.trace, results.launch_calls()
    inside = busy_union(trace, _compiled_regions(results)).touching(
        trace.start[calls], trace.start[calls] + 1
    )
    return bool(2 * np.count_nonzero(inside) > len(calls))


def _has_ops(results: Results) -> bool:
    return has(results.trace, Kind.CPU_OP)
