"""The launch chain of an event: step → annotation → op → launch → kernel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetui.analysis.calls.flow import launches_work, partner, path, place_of
from tracetui.analysis.names.kernel_names import short_name
from tracetui.analysis.steps.scope import find_steps, launch_times, step_of
from tracetui.trace import DEVICE_WORK, Kind, Trace
from tracetui.trace.indices import having
from tracetui.trace.model import I64

MOST_EVENTS = 8
"""A chain lists at most this many device events, choosing the longest ones."""

_ROLES = {
    Kind.CPU_OP: "op", Kind.ANNOTATION: "annotation", Kind.PYTHON: "python", Kind.RUNTIME: "call",
    Kind.OVERHEAD: "overhead", Kind.KERNEL: "kernel", Kind.MEMCPY: "copy", Kind.MEMSET: "memset",
    Kind.SYNC: "sync", Kind.GPU_ANNOTATION: "annotation on the GPU",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Link:
    """One event of a chain.

    Attributes:
        role: ``step``, ``annotation``, ``forward``, ``op``, ``launch`` (``call`` where it launches nothing),
            ``kernel``, ``copy``, ``memset``, ...
        slice: the event.
        name: its short name, safe to show.
        level: how far to indent it, 0 for the outermost.
        duration: ns.
        delay: for a device event the time from its launch to its start, ns; else None. For the later events
            of a launch, such as those of a CUDA graph, the time from the start of the first of them.
        after_first: whether `delay` counts from the first event of the launch.
    """

    role: str
    slice: int
    name: str
    level: int
    duration: int
    delay: int | None = None
    after_first: bool = False


@dataclass(frozen=True, slots=True)
class Chain:
    """The links, outermost first, and the number of device events left out."""

    links: tuple[Link, ...]
    more: int


def launched_by(trace: Trace, i: int) -> I64:
    """The device events launched during a CPU slice: by its thread, or, for a step, by any thread."""
    end = trace.start[i] + trace.duration[i]
    if trace.name_of(i).startswith("ProfilerStep#"):
        events: I64 = np.flatnonzero(trace.is_kind(*DEVICE_WORK))
        time = launch_times(trace, events)
        return np.asarray(events[(time >= trace.start[i]) & (time < end)], dtype=np.int64)
    lane = trace.lanes[int(trace.lane[i])]
    # The slices inside a slice are the rows after it, up to the first that starts after its end.
    stop = lane.first + int(np.searchsorted(trace.start[lane.first : lane.last], end))
    return np.sort(having(trace, "launch", i, max(stop, i + 1))).astype(np.int64)


def launch_chain(trace: Trace, i: int) -> Chain:
    """The chain through slice i: the slices around it (or its launch), itself, and what it launched."""
    kind = Kind(int(trace.kind[i]))
    cpu, events, more = i, np.array([i], dtype=np.int64), 0
    if kind in (*DEVICE_WORK, Kind.SYNC):
        cpu = int(trace.launch[i])
    elif kind == Kind.GPU_ANNOTATION:
        cpu = int(trace.op[i])
    else:
        found = launched_by(trace, i)
        longest = found[np.argsort(-trace.duration[found], kind="stable")][:MOST_EVENTS]
        events, more = np.sort(longest), len(found) - len(longest)
        events = events[np.argsort(launch_times(trace, events), kind="stable")]
    outer = _around(trace, cpu)
    links = _outer_links(trace, outer, cpu if cpu >= 0 else i)
    base = sum(link.role != "forward" for link in links)
    if cpu < 0:
        return Chain((*links, _link(trace, i, base)), 0)
    links.append(_link(trace, cpu, base))
    seen = {cpu: base}
    for event in events.tolist():
        between = _path(trace, cpu, int(trace.launch[event])) if kind != Kind.GPU_ANNOTATION else []
        level = base
        for slice_ in between:
            if slice_ not in seen:
                seen[slice_] = level + 1
                links.append(_link(trace, slice_, level + 1))
            level = seen[slice_]
        links.append(_link(trace, event, level + 1))
    return Chain(tuple(links), more)


def _around(trace: Trace, i: int) -> list[int]:
    """The annotations and ops around a slice, outermost first; Python frames are left out."""
    return [at for at in path(trace, i)[:-1] if trace.kind[at] != Kind.PYTHON] if i >= 0 else []


def _path(trace: Trace, outer: int, launch: int) -> list[int]:
    """The ops between ``outer`` and the launch, outermost first, then the launch itself."""
    if launch < 0 or launch == outer:
        return []
    around = path(trace, launch)[:-1]
    inside = around[around.index(outer) + 1 :] if outer in around else []
    return [*(at for at in inside if trace.kind[at] != Kind.PYTHON), launch]


def _outer_links(trace: Trace, outer: list[int], anchor: int) -> list[Link]:
    """The step, the forward op if this is a backward one, and the slices around it."""
    links: list[Link] = []
    if not any(trace.name_of(i).startswith("ProfilerStep#") for i in (*outer, anchor)):
        steps = find_steps(trace)
        step = int(step_of(steps, launch_times(trace, np.array([anchor], dtype=np.int64)))[0])
        if step >= 0 and steps.annotated and int(steps.event[step]) not in outer:
            links.append(_link(trace, int(steps.event[step]), 0))
    forward = _forward_of(trace, [*outer, anchor])
    if forward >= 0:  # it is not around the op but before it, so it adds no level
        links.append(_link(trace, forward, len(links), "forward"))
    level = sum(link.role != "forward" for link in links)
    links += [_link(trace, at, level + n) for n, at in enumerate(outer)]
    return links


def _forward_of(trace: Trace, at: list[int]) -> int:
    """The forward op that a backward one among the slices belongs to, or -1."""
    for i in at:
        for flow in having(trace, "flow_to", i).tolist():
            if trace.flow_kind[int(trace.flow_category[flow])] == "fwdbwd":
                return int(trace.flow_from[flow])
    # The autograd engine's slice around a backward op has none of its own.
    found = partner(trace, at[-1])
    return found[0] if found and found[1] else -1


def _link(trace: Trace, i: int, level: int, role: str = "") -> Link:
    name = trace.name_of(i)
    kind = Kind(int(trace.kind[i]))
    if not role:
        role = "step" if name.startswith("ProfilerStep#") else _ROLES.get(kind, "event")
        if kind == Kind.RUNTIME and launches_work(trace, i):
            role = "launch"
    place = place_of(trace, i)
    later = place is not None and place.number > 1
    since = -1 if place is None else place.first if later else int(trace.launch[i])
    delay = max(0, int(trace.start[i] - trace.start[since])) if since >= 0 else None
    short = short_name(name, trace.categories[int(trace.category[i])])
    return Link(role, i, short, level, int(trace.duration[i]), delay, later)
