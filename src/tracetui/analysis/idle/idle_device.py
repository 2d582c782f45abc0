"""A device that stands idle: for how long, why, and what the CPU did meanwhile."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tracetui.analysis.calls.ancestors import any_inside, op_around
from tracetui.analysis.calls.compiling import compile_time
from tracetui.analysis.calls.launches import launching_lanes_of
from tracetui.analysis.calls.slow_calls import MOSTLY, SlowCalls, called_once, slow_calls_of
from tracetui.analysis.device_work import device_work_of
from tracetui.analysis.idle.causes import CAUSES, NOT_THE_PROGRAMS, Causes
from tracetui.analysis.idle.cpu_time import cpu_time_of
from tracetui.analysis.idle.cpu_verdict import cpu_collectives_of
from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.idle.gaps import DeviceGaps, busy_union
from tracetui.analysis.idle.split import BUSY, CAUSED, device_causes_of, split_of
from tracetui.analysis.names.kernel_names import short_name
from tracetui.analysis.part import Part, fact
from tracetui.analysis.select import METADATA_OPS, is_op_name, largest
from tracetui.analysis.steps.loading import loading_time
from tracetui.analysis.steps.scope import slices_of, step_table_of
from tracetui.analysis.verdicts import verdict_of, verdict_times_of, verdict_window
from tracetui.trace.intervals import Intervals
from tracetui.trace.model import I64, Kind, Trace
from tracetui.trace.slices import Slices

SEVERAL_GAPS = 10
"""Of fewer, one that takes half of the idle time is nothing special."""
NO_REASON = "back to back"
_COMPUTES_NOTHING = re.compile(
    r"aten::(?:empty|resize_|set_|detach|view|as_strided|_nested_view)|autograd::engine::|\w{1,200}Backward\d+$"
    r"|Python(?:Subclass|DispatchMode)$"
)
"""If one of these, or a view, takes long, something kept the thread from going on. What a node of PyTorch's
own gradients computes is in ops inside it, and what a class of tensors or a mode written in Python does."""
ON_CPU_SHARE = 0.2
"""From this share of `dispatch` on, ops that compute on the CPU are told."""
LONG_NS = 50_000
"""An op on the CPU that takes as long does not only launch, or look at its inputs."""
_COMPUTES = re.compile(
    r"aten::(?:(?:add|sub|mul|div|pow|neg|abs|exp|log|sqrt|sum|mean|prod|cumsum|min|max|amin|amax|argmin|argmax|any"
    r"|all|sort|topk|eq|ne|lt|le|gt|ge|where|clamp|mm|bmm|addmm|matmul|softmax|sigmoid|tanh|relu|cat|stack"
    r"|index_select|masked_select|gather|scatter)_?|(?:fill|zero|copy|normal|uniform|random)_)"
)
"""Nor does a shorter one of these, if it launches nothing."""


@dataclass(frozen=True)
class IdleDevice:
    """How much a device was used in the time that the verdict is about."""

    part: Part
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
        (start, end, event), (low, high) = self.stretches, verdict_window(self.part)
        length = np.minimum(end, high) - np.maximum(start, low)
        length[event < 0] = 0
        longest = largest(length, 5)
        ended_by = event[longest[length[longest] > 0]]
        ended_by = ended_by if len(ended_by) else device_work_of(self.part).at[-1:]  # nothing ran after it
        return tuple(dict.fromkeys(ended_by.tolist()))

    @cached_property
    def loading(self) -> int:
        """The idle time while the program waited for a `DataLoader`, in ns."""
        return self.during(loading_time(self.part))

    @cached_property
    def compiling(self) -> int:
        """The idle time while torch.compile compiled, in ns."""
        return self.during(compile_time(self.part))

    @cached_property
    def counted_window(self) -> tuple[int, int]:
        """(start, end) of what is judged, without the lead-in where that is left out, ns."""
        low, high = verdict_window(self.part)
        without_lead_in = "lead-in" in dict(verdict_of(self.part).left_out)
        return max(low, self.gaps.first) if without_lead_in else low, high

    def during(self, of: Intervals) -> int:
        """The idle time for `host` and `dispatch` in these stretches, in ns."""
        if not len(of):
            return 0
        begin, end = (np.clip(at, *self.counted_window) for at in self.stretches[:2])
        cpu = sum(int(self.causes[CAUSES.index(cause)]) for cause in ("host", "dispatch"))
        return min(int(of.overlap(begin, end).sum()), cpu)

    @cached_property
    def talking(self) -> int:
        """The idle time while a collective ran on the CPU, in ns."""
        return self.during(cpu_collectives_of(self.part))

    @cached_property
    def in_graphs(self) -> int:
        """The idle time while a node of a CUDA graph ran on the CPU, in ns."""
        return self.during(cpu_time_of(self.part).in_graphs)

    @cached_property
    def longest_length(self) -> int:
        """The longest gap, ns; 0 where there are few."""
        low, high = verdict_window(self.part)
        counts = (self.scoped.start >= low) & (self.scoped.end <= high)
        counts &= ~self.why.pieces[:, [CAUSES.index(cause) for cause in NOT_THE_PROGRAMS]].any(1)
        return int(self.scoped.duration[counts].max()) if counts.sum() >= SEVERAL_GAPS else 0

    @cached_property
    def enclosing_slice(self) -> tuple[str, int]:
        """The annotation or function of Python in which the CPU was for most of `host`, as it ran little
        else, "" for none; and for how long."""
        return _within(self.part, self)

    @cached_property
    def function_in_ops(self) -> tuple[str, int]:
        """The function of Python that ops call, such as a hook of a gradient, and that runs no op, in which
        the CPU was for most of `dispatch`, "" for none; and for how long."""
        return _in_ops(self.part, self)

    @cached_property
    def on_cpu(self) -> tuple[str, int, int]:
        """The ops that work on the CPU for much of `dispatch`, "" for none; for how long; their calls."""
        return _on_cpu(self.part, self.gaps, self.dispatch)[:3]

    @property
    def on_cpu_once(self) -> bool:
        """Whether most of `on_cpu` is one call, the first of its name: nobody can tell if the next are
        slow."""
        return _on_cpu(self.part, self.gaps, self.dispatch)[3]

    @property
    def pauses(self) -> I64:
        """How much of each gap has no reason, ns."""
        return self.why.pieces[:, CAUSES.index(NO_REASON)]

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


@fact
def idle_devices(part: Part) -> tuple[IdleDevice, ...]:
    """The devices that ran anything, with why they did not all the time."""
    return tuple(_look_at_idle(part))


def _look_at_idle(part: Part) -> Iterator[IdleDevice]:
    if verdict_of(part).verdict == "not known":
        return
    left_out = [CAUSES.index(cause) for cause in NOT_THE_PROGRAMS]
    split, times = split_of(part), verdict_times_of(part)
    idle = times[:, CAUSED].copy()
    idle[:, left_out] = 0
    busy = times[:, BUSY]
    scoped, why = gaps_of(part).devices, device_causes_of(part)
    for i in np.flatnonzero(busy.any(1) & idle.any(1)).tolist():
        stretches, spent = split.stretches(i), int(busy[i].sum())
        yield IdleDevice(part, i, split.gaps[i], scoped[i], why[i], stretches, spent, idle[i])


@fact
def edges_of(part: Part) -> list[tuple[I64, I64, I64]]:
    """The causes of the time before each device's first event and after its last, as far as it is judged."""
    return split_of(part).edges(*verdict_window(part))


def _widest(trace: Trace, at: int, most: int) -> int:
    """The outermost function or annotation around a slice that takes at most so long, in ns; -1 for none."""
    while at >= 0 and (around := int(trace.parent[at])) >= 0 and trace.duration[around] <= most:
        if trace.kind[around] not in (Kind.ANNOTATION, Kind.PYTHON):
            break
        at = around
    return at


def _within(part: Part, idle: IdleDevice) -> tuple[str, int]:
    """The annotations, or functions of Python, of one name that are most of `host`, and how long the device
    was idle in them for reasons of the program."""
    trace, cause = part.trace, CAUSES.index("host")
    pieces, activity, event = edges_of(part)[idle.place]
    counts = (event < 0) | (idle.counted_window[0] < idle.gaps.first)  # not a lead-in that is left out
    at, host = idle.why.activity, idle.why.pieces[:, cause]
    if int(pieces[counts, cause].sum()) > int(host.sum()):  # otherwise it is in the gaps
        held = zip(activity[counts].tolist(), pieces[counts, cause].tolist(), strict=True)
        outer = [_widest(trace, *one) for one in held]
        at, host = np.append(at, outer), np.append(host, pieces[counts, cause])
    # Those that are little else: not what is around all of a step.
    known = np.isin(trace.kind[at], (Kind.ANNOTATION, Kind.PYTHON))
    mine = (at >= 0) & known & (2 * host > trace.duration[at])
    top = next(iter(Slices(trace, at[mine]).by_name(host[mine])), None)
    if top is None:
        return "", 0
    kind, name = Kind(int(top.slices.kind[0])), top.name
    inside = busy_union(trace, slices_of(part, kind, name.__eq__).at)
    begin, end = (np.clip(time, *idle.counted_window) for time in (inside.start, inside.end))
    spent = split_of(part).idle_of(idle.place, begin, end)
    spent[:, [CAUSES.index(cause) for cause in NOT_THE_PROGRAMS]] = 0
    time = int(spent.sum())
    told = 2 * time > int(host.sum()) and not name.startswith("ProfilerStep")
    category = "python_function" if kind == Kind.PYTHON else "user_annotation"
    return (short_name(name, category), time) if told else ("", 0)


def _in_ops(part: Part, idle: IdleDevice) -> tuple[str, int]:
    """The outermost functions of one name that are most of `dispatch`; how long a device was idle then."""
    trace, at = part.trace, idle.why.activity.astype(np.int64)
    time = idle.why.pieces[:, CAUSES.index("dispatch")]
    python = trace.kind == Kind.PYTHON
    at, time = at[(at >= 0) & python[at]], time[(at >= 0) & python[at]]
    around = trace.parent[at]
    while (within := (around >= 0) & python[around]).any():
        at = np.where(within, around, at)
        around = trace.parent[at]
    ops = slices_of(part, Kind.CPU_OP).at
    mine = (around >= 0) & (trace.kind[around] == Kind.CPU_OP) & ~any_inside(trace, ops, at)
    top = next(iter(Slices(trace, at[mine]).by_name(time[mine])), None)
    if top is None or 2 * top.time <= idle.dispatch:
        return "", 0
    return short_name(top.name, "python_function"), top.time


def _on_cpu(part: Part, gaps: DeviceGaps, dispatch: int) -> tuple[str, int, int, bool]:
    """(the ops that run for much of `dispatch` ns in which a device is idle, without a call of the runtime;
    for how long; how many calls; whether the first call of a name is most of it). Of short ops that may
    compute nothing the time is PyTorch's own."""
    if not dispatch:
        return "", 0, 0, False
    trace, (low, high) = part.trace, verdict_window(part)
    at = slices_of(part, Kind.CPU_OP, _may_compute)
    at = at[(at.duration >= LONG_NS) | at.are_named(_COMPUTES.fullmatch)]
    at = at[launching_lanes_of(part)[at.lane]]
    at = at[~any_inside(trace, slices_of(part, Kind.RUNTIME).at, at.at)]
    mine = np.zeros(len(trace) + 1, dtype=np.bool_)  # the last for -1
    mine[at] = True
    at = at[~mine[op_around(trace, at.at)]]  # the outermost
    begin, end = np.clip(at.start, low, high), np.clip(at.end, low, high)
    idle = end - begin - gaps.blocks.overlap(begin, end)
    if not len(at) or (total := int(idle.sum())) < ON_CPU_SHARE * dispatch:
        return "", 0, 0, False
    names = at.by_name(idle)
    few = names[: 1 if names[0].time > MOSTLY * total else 3]
    told = " and ".join(short_name(op.name, "cpu_op") for op in few[:2])
    # What the verdict leaves out may cover some of it.
    time = min(total if len(few) > 1 else few[0].time, dispatch)
    longest = at.longest_first()[:1]
    same = slices_of(part.whole, Kind.CPU_OP, longest.first_name.__eq__)
    once = 2 * int(idle.max()) > total and int(longest.start[0]) == int(same.start.min())
    return f"ops such as {told}" if len(few) > 1 else told, time, len(at), once


def _may_compute(name: str) -> bool:
    return is_op_name(name) and name not in METADATA_OPS and not _COMPUTES_NOTHING.match(name)


def long_calls(part: Part, idle: IdleDevice) -> tuple[SlowCalls, ...]:
    """The long calls of one op or two that are most of `dispatch`, where that is the main cause."""
    slow = slow_calls_of(part)[:2] if idle.main == "dispatch" else ()
    if slow and 2 * slow[0].idle > idle.dispatch:
        return slow[:1]
    return slow if 2 * sum(each.idle for each in slow) > idle.dispatch else ()


def first_call(part: Part, idle: IdleDevice) -> tuple[tuple[str, ...], int] | None:
    """`called_once`, where that is most of `dispatch`, and this the main cause."""
    once = called_once(part) if idle.main == "dispatch" else ((), 0)
    return once if 2 * once[1] > idle.dispatch else None


def idle_after_all_work(part: Part, idle: IdleDevice) -> int:
    """How long a device is idle after its last event, of a trace without steps, ns."""
    if not part.is_whole or len(step_table_of(part)):
        return 0
    return max(0, verdict_window(part)[1] - idle.gaps.last)
