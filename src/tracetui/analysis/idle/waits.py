"""Calls that wait for the device: in ops, outside of them, in launches."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from tracetui.analysis.calls.ancestors import first_marked, op_around, outermost_op
from tracetui.analysis.calls.backward import checked_for_nan
from tracetui.analysis.calls.launches import launch_calls_of, launches_of
from tracetui.analysis.calls.pageable import OUT, is_copying
from tracetui.analysis.idle.cpu_time import blocking_copies, is_synchronizing
from tracetui.analysis.idle.gaps import busy_union
from tracetui.analysis.part import Part, fact
from tracetui.analysis.select import name_mask
from tracetui.analysis.steps.scope import per_step, slices_of
from tracetui.core.columns import unique
from tracetui.trace import Kind
from tracetui.trace.intervals import Intervals
from tracetui.trace.model import I64
from tracetui.trace.slices import Slices

MUCH_NS = 20_000
"""A copy of a loss, or of a few of them, is over sooner."""
BLOCKING_NS = 20_000
BLOCKED_CALLS, BLOCKED_SHARE = 10, 0.9
TURNS_SHARE = 0.1
"""Where the CPU waits for the GPU for this share of the time, and the GPU for the CPU, they take turns."""


@fact
def waits_in_ops(part: Part) -> tuple[Slices, I64]:
    """The calls in ops that make the CPU wait for the device, and the op around each (slices)."""
    trace = part.trace
    at = unique(
        slices_of(part, Kind.RUNTIME, is_synchronizing).at, blocking_copies(trace, launches_of(part).event)[0]
    )
    parent = op_around(trace, at)
    at, parent = at[parent >= 0], parent[parent >= 0]
    # `anomaly_detection` tells of its own.
    check = np.zeros(len(trace), dtype=np.bool_)
    check[checked_for_nan(part)] = True
    mine = first_marked(trace, parent, check) < 0
    return Slices(trace, at[mine]), parent[mine]


def waits_outside(part: Part) -> bool:
    """Whether most of the CPU's waits, before it launches more, are in calls outside of ops."""
    trace, launch = part.trace, launch_calls_of(part)
    at = slices_of(part, Kind.RUNTIME, is_synchronizing)
    at = at[(op_around(trace, at.at) < 0) & (at.start < trace.start[launch].max(initial=0))]
    return at.time > waits_in_ops(part)[0].time


def waits_in_a_step(part: Part) -> tuple[int, str]:
    """(how many ops of a step make the CPU wait for the device; the op of most of them that the program
    calls, "" for none)."""
    _, parent = waits_in_ops(part)
    ops = unique(parent)
    names = Slices(part.trace, outermost_op(part, ops)).by_calls()
    return per_step(part, part.trace.start[ops]) or 0, names[0].name if names else ""


def fetching(part: Part, at: Slices) -> int:
    """How long the calls `at` that copy much from the device wait, ns."""
    trace, launches = part.trace, launches_of(part)
    from_device = name_mask(part.trace, lambda name: any(way in name for way in OUT))[
        trace.name[launches.event]
    ]
    much = from_device & (trace.duration[launches.event] >= MUCH_NS)
    return at[at.among(launches.launch[much])].time


def sending(part: Part, at: Slices, parent: I64, called: I64) -> int:
    """How long the calls `at` in the ops `parent` wait in ops that copy to the device, where what the program
    `called` is a copy, ns."""
    trace, launches = part.trace, launches_of(part)
    to_device = name_mask(part.trace, lambda name: bool(re.search(r"HtoD|HostToDevice|\bM2D\b", name)))
    copies = launches.launch[to_device[trace.name[launches.event]]]
    asked = np.isin(parent, op_around(trace, copies)) & name_mask(part.trace, is_copying)[trace.name[called]]
    return at[asked].time


def waits_for_device(part: Part) -> Intervals:
    """While the thread that launches most waits for a device, in or outside of ops, before it goes on."""
    trace, launch = part.trace, launch_calls_of(part)
    at = unique(
        slices_of(part, Kind.RUNTIME, is_synchronizing).at, blocking_copies(trace, launches_of(part).event)[0]
    )
    if len(launch):
        lane = np.argmax(np.bincount(trace.lane[launch]))
        last = trace.start[launch[trace.lane[launch] == lane]].max()
        at = at[(trace.lane[at] == lane) & (trace.start[at] <= last)]
    return busy_union(trace, at)


@dataclass(frozen=True, slots=True)
class BlockingLaunches:
    """Launches that return only when their kernel is done."""

    calls: Slices
    kernels: int
    of: int
    """How many kernels of `BLOCKING_NS` and more there are."""


@fact
def blocking_launches_of(part: Part) -> BlockingLaunches | None:
    """Nearly all launches of kernels, of those that one can tell by; None where they return at once."""
    trace, launches = part.trace, launches_of(part)
    # A kernel of a few µs may be over before its launch returns.
    long = (trace.kind[launches.event] == Kind.KERNEL) & (trace.duration[launches.event] >= BLOCKING_NS)
    if launches.median_delay is None:  # the clocks differ
        return None
    event, call = Slices(trace, launches.event[long]), Slices(trace, launches.launch[long])
    done = event.end <= call.end
    many = int(done.sum())
    if many < BLOCKED_CALLS or many < BLOCKED_SHARE * len(done):
        return None
    return BlockingLaunches(Slices(trace, unique(call[done].at)), many, len(done))
