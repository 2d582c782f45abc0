"""Calls of an op that keep the CPU for long by themselves, while the device is idle."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tracetui.analysis.calls.ancestors import any_inside, children_of, op_around
from tracetui.analysis.calls.calls import exclusive_time_of
from tracetui.analysis.calls.compiling import COMPILED_GRAPH, COMPILED_REGION, compile_phases
from tracetui.analysis.calls.launches import launching_lanes_of
from tracetui.analysis.calls.sums import sum_into
from tracetui.analysis.idle.cpu_time import cpu_time_of
from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.idle.gaps import busy_union
from tracetui.analysis.idle.initialization import profilers_work
from tracetui.analysis.names.kernel_names import short_name
from tracetui.analysis.part import Part, fact
from tracetui.analysis.select import is_op_name, name_mask, plausible
from tracetui.analysis.steps.scope import slices_of
from tracetui.analysis.verdicts import verdict_window
from tracetui.trace import Kind, Trace
from tracetui.trace.model import I64
from tracetui.trace.slices import Slices

SLOW_NS = 1_000_000
"""To launch takes an op some ten µs: one that goes on as long without a call does something else."""
MOSTLY = 0.8
"""An op with this share of the time of several is told alone."""
MOST_OPS = 5
_COMPILED = (COMPILED_REGION, COMPILED_GRAPH)
_NUMBERED = re.compile(r"Backward\d+$")
"""How the names of PyTorch's own gradients end."""


@dataclass(frozen=True, slots=True)
class SlowCalls:
    """The calls of one op that keep the CPU for `SLOW_NS` and more at a stretch, while a device is idle."""

    calls: Slices
    """By time."""
    of: int
    """The calls of that op in all."""
    idle: int
    """How long the device was idle meanwhile, ns."""

    @property
    def name(self) -> str:
        """The op's, as it is shown."""
        return short_name(self.calls.first_name, "cpu_op")


@fact
def slow_calls_of(part: Part) -> tuple[SlowCalls, ...]:
    """The ops whose slow calls cost the one device idle time, most first; none for several devices."""
    return tuple(_find(part))


def _find(part: Part) -> Iterator[SlowCalls]:
    trace, devices = part.trace, gaps_of(part).devices
    if len(devices) != 1:
        return
    ops = slices_of(part, Kind.CPU_OP, lambda name: is_op_name(name) and not name.startswith(_COMPILED)).at
    at = _long(part, ops)
    at = at[2 * exclusive_time_of(part)[at] > trace.duration[at]]
    at = at[launching_lanes_of(part)[trace.lane[at]] & ~np.isin(at, cpu_time_of(part).first)]
    start, end = trace.start[at], trace.end_of(at)
    at = at[busy_union(trace, compile_phases(part)).overlap(start, end) == 0]
    child = children_of(trace, at)
    stretch = _longest_stretch(trace, at, child)
    at = at[(stretch >= SLOW_NS) & (2 * stretch > trace.duration[at])]
    # An op that calls nothing of the runtime does its work on the CPU: `use` tells of it. A program's own op
    # may leave the calls to the ops inside it.
    child = child[np.isin(trace.parent[child], at)]
    launches = np.isin(at, trace.parent[child[trace.kind[child] == Kind.RUNTIME]])
    own = name_mask(trace, is_the_programs)[trace.name[at]]
    at = at[launches | own & any_inside(trace, slices_of(part, Kind.RUNTIME).at, at)]
    child = child[np.isin(trace.parent[child], at)]
    if not len(at):
        return
    every = plausible(trace, Kind.CPU_OP)
    for op in Slices(trace, at).by_name(_idle_alone(part, at, child))[:MOST_OPS]:
        calls = op.slices
        # A single one that is the first of all may be slow only once.
        if op.calls == 1 and calls.first == calls_of(trace, every, calls.first)[0]:
            continue
        yield SlowCalls(calls, len(calls_of(trace, ops, calls.first)), op.time)


def is_the_programs(name: str) -> bool:
    """Whether an op is not of a library, such as an `autograd.Function` of the program."""
    return "::" not in name and _NUMBERED.search(name) is None


def called_once(part: Part) -> tuple[tuple[str, ...], int]:
    """(the ops that are called a single time, launch, and are slow by themselves, as they are shown; how long
    the one device is idle meanwhile, ns): whether they are slow only the first time nobody can tell."""
    trace, devices = part.trace, gaps_of(part).devices
    ops = slices_of(part, Kind.CPU_OP, lambda name: is_op_name(name) and not name.startswith(_COMPILED)).at
    at = _long(part, ops)
    at = at[[len(calls_of(trace, ops, one)) == 1 for one in at.tolist()]]
    at = at[~np.isin(at, cpu_time_of(part).first)]
    child = children_of(trace, at)
    at = at[np.isin(at, trace.parent[child[trace.kind[child] == Kind.RUNTIME]])]
    if len(devices) != 1 or not len(at):
        return (), 0
    idle = _idle_alone(part, at, child[np.isin(trace.parent[child], at)])
    order = np.argsort(-idle, kind="stable")[:2]
    if idle[order[0]] >= MOSTLY * idle.sum():
        order = order[:1]
    return tuple(short_name(trace.name_of(int(at[i])), "cpu_op") for i in order), int(idle[order].sum())


def _long(part: Part, ops: I64) -> I64:
    """Of some ops those that take `SLOW_NS` and more by themselves, most of it not for the profiler."""
    trace = part.trace
    at = ops[exclusive_time_of(part)[ops] >= SLOW_NS]
    start, end = trace.start[at], trace.end_of(at)
    return at[2 * busy_union(trace, profilers_work(trace)).overlap(start, end) <= trace.duration[at]]


def _idle_alone(part: Part, at: I64, child: I64) -> I64:
    """How long the one device is idle in each of the slices `at` while none of their children runs, ns."""
    trace, (low, high) = part.trace, verdict_window(part)

    def idle_in(slices: I64) -> I64:
        begin = np.clip(trace.start[slices], low, high)
        over = np.clip(trace.end_of(slices), low, high)
        idle: I64 = over - begin - gaps_of(part).devices[0].blocks.overlap(begin, over)
        return idle

    inside = sum_into(np.searchsorted(at, trace.parent[child]), idle_in(child), len(at))
    return np.asarray(idle_in(at) - inside, dtype=np.int64)


def calls_of(trace: Trace, ops: I64, one: int) -> I64:
    """The calls of an op among `ops`, by time: of one that calls another form of itself, the inner."""
    same = ops[trace.name[ops] == trace.name[one]]
    same = same[~np.isin(same, op_around(trace, same))]
    calls: I64 = same[np.argsort(trace.start[same], kind="stable")]
    return calls


def _longest_stretch(trace: Trace, at: I64, child: I64) -> I64:
    """The longest time in each of the slices in which none of their children is recorded, ns."""
    child = child[np.lexsort((trace.start[child], trace.parent[child]))]
    of = np.searchsorted(at, trace.parent[child])
    begins = trace.start[at].copy()
    before = np.empty(len(child), dtype=np.int64)
    opens = np.append(True, of[1:] != of[:-1])[: len(child)]
    end = trace.end_of(child)
    before[opens] = begins[of[opens]]
    before[~opens] = end[:-1][~opens[1:]]
    longest = np.zeros(len(at), dtype=np.int64)
    np.maximum.at(longest, of, trace.start[child] - before)
    np.maximum.at(begins, of, end)  # when the last of them is over
    found: I64 = np.maximum(longest, trace.end_of(at) - begins)
    return found
