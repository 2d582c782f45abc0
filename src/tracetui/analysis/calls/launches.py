"""From the launch on the CPU to the start on the device: launch delays, and kernels shorter than their
launch."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tracetui.analysis.calls.ancestors import op_around
from tracetui.analysis.calls.sums import sum_into
from tracetui.analysis.part import Part, Scope, fact
from tracetui.analysis.select import name_mask, plausible
from tracetui.analysis.steps.scope import members
from tracetui.core.columns import counted, distinct
from tracetui.trace import DEVICE_WORK, Kind, Trace
from tracetui.trace.model import I64, Bool
from tracetui.trace.slices import by_name

SHORT_EVENTS, SHORT_SHARE = 100, 0.3
"""So many short kernels, of all, are worth a finding."""
_RNN = re.compile(r"aten::_?(?:cudnn|miopen)_rnn")
NEARLY_ALL = 0.95
"""A copy call that ends after this share of its copy counts as having waited for it."""


@dataclass(frozen=True)
class Launches:
    """Every kernel, copy and set whose launch is in the trace, by (lane, start). Arrays of one length."""

    event: I64
    launch: I64
    delay: I64
    """From the launch's start to the event's, in ns; negative if the clocks of CPU and device differ."""
    first: Bool
    """Whether the event is the first of its launch: true except for the later nodes of a graph."""
    cost: I64
    """The launch's time on the CPU, in ns, split evenly among all the events that it launched."""
    unlinked: int
    """Device events of the scope whose launch is not in the trace."""

    def __len__(self) -> int:
        return len(self.event)

    @property
    def median_delay(self) -> int | None:
        """The median delay in ns, using the first node of each graph; None if there is no launch, or if the
        clocks differ so much that it is negative."""
        return self._middle if self._middle is not None and self._middle >= 0 else None

    @property
    def ahead(self) -> int:
        """How long before its launch most work starts, ns: the clocks differ by at least this much; otherwise
        0."""
        return max(0, -(self._middle or 0))

    @cached_property
    def _middle(self) -> int | None:
        return int(np.median(self.delay[self.first])) if self.first.any() else None


@dataclass(frozen=True, slots=True)
class ShortKernels:
    """Kernels, copies and sets that took less time than their launch, by name; the most frequent first."""

    events: int
    of: int
    """How many events have a launch, short or not."""
    at: I64
    """Their positions in the `Launches`."""
    names: tuple[str, ...]
    count: I64
    device_time: I64
    launch_time: I64


def find_launches(trace: Trace, scope: Scope | None = None) -> Launches:
    """The launches of a scope's device events."""
    at = plausible(trace, *DEVICE_WORK)
    event = at[trace.launch[at] >= 0]
    launch = trace.launch[event].astype(np.int64)
    delay = trace.start[event] - trace.start[launch]
    count = sum_into(launch, np.ones_like(launch), len(trace))
    several = np.flatnonzero(count[launch] > 1)
    several = several[np.lexsort((trace.start[event[several]], launch[several]))]
    first = np.ones(len(event), dtype=np.bool_)
    first[several[1:]] = launch[several[1:]] != launch[several[:-1]]
    cost = trace.duration[launch] // count[launch]
    # Only now: a part of a trace may hold some nodes of a graph without the first.
    inside = members(trace, scope, at)
    mine = inside[trace.launch[at] >= 0]
    unlinked = int(np.count_nonzero(inside)) - int(np.count_nonzero(mine))
    return Launches(event[mine], launch[mine], delay[mine], first[mine], cost[mine], unlinked)


def short_kernels(trace: Trace, launches: Launches) -> ShortKernels:
    """The events whose launch cost the CPU more time than the device took to run them. Left out are those of
    a graph, which share one launch, and copies that are nearly over before their call is, because the call
    waits for them."""
    run = trace.duration[launches.event]
    alone = launches.cost == trace.duration[launches.launch]
    end = trace.end_of(launches.launch)
    held = trace.start[launches.event] + (NEARLY_ALL * run).astype(np.int64)
    copied = (trace.kind[launches.event] == Kind.MEMCPY) & (held <= end)
    short = np.flatnonzero((run < launches.cost) & alone & ~copied)
    names, which = by_name(trace, launches.event[short])
    count = counted(which, len(names))
    order = np.argsort(-count, kind="stable")
    device_time = sum_into(which, run[short], len(names))
    launch_time = sum_into(which, launches.cost[short], len(names))
    texts = tuple(trace.names[int(names[i])] for i in order)
    return ShortKernels(
        len(short), len(launches), short, texts, count[order], device_time[order], launch_time[order]
    )


@fact
def launches_of(part: Part) -> Launches:
    """The launches of the part's device events."""
    return find_launches(part.trace, part.scope)


@fact
def short_kernels_of(part: Part) -> ShortKernels:
    """The events that took less time than their launch."""
    return short_kernels(part.trace, launches_of(part))


@fact
def launch_calls_of(part: Part) -> I64:
    """The calls that launched the part's device events, in order (slices)."""
    return distinct(launches_of(part).launch, len(part.trace))


@fact
def launching_lanes_of(part: Part) -> Bool:
    """Mask over ``trace.lanes``: the threads that made those calls."""
    lanes = np.zeros(len(part.trace.lanes), dtype=np.bool_)
    lanes[part.trace.lane[launch_calls_of(part)]] = True
    return lanes


def replays(part: Part) -> bool:
    """Whether graph launches run most of the kernels, copies and memsets."""
    replay = name_mask(part.trace, lambda name: "GraphLaunch" in name)[
        part.trace.name[launches_of(part).launch]
    ]
    return bool(2 * np.count_nonzero(replay) > len(replay))


def launched_by_rnn(part: Part) -> bool:
    """Whether a library's recurrent layers launch most of the kernels, copies and memsets."""
    trace, launch = part.trace, launches_of(part).launch
    op = op_around(trace, launch)
    rnn = name_mask(part.trace, _RNN.match)
    return bool(2 * np.count_nonzero(rnn[trace.name[op[op >= 0]]]) > len(launch))
