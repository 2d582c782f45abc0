"""The rule on streams whose kernels could run at the same time, and do not."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tracetui.analysis.calls.sums import sum_into
from tracetui.analysis.device_text import device_text
from tracetui.analysis.device_work import device_work_of, work_of_kind, work_op_of
from tracetui.analysis.devices import device_of
from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.idle.gaps import busy_union
from tracetui.analysis.part import Part
from tracetui.analysis.steps.scope import slices_of
from tracetui.analysis.verdicts import verdict_of
from tracetui.core.columns import distinct
from tracetui.core.units import duration, plural, verb
from tracetui.rules.model import Finding, first_of, longest_first
from tracetui.trace import Kind, Trace
from tracetui.trace.indices import places
from tracetui.trace.model import I32, I64, Bool

STREAM_SHARE = 0.1
"""Of a device's kernel time: a stream with less does little beside the others."""
TURNS = 10
"""So many times one stream has to follow another: those of two phases of a program are no surprise."""
AT_ONCE = 0.02
"""Of the time in which any of them runs a kernel."""
IDLE_SHARE = 0.25
NAMED = 4
_LATE = "Streams help only where work is queued: give the GPU more work per launch first."
_RAN_OUT = (
    "The GPU waits for the CPU in between: most likely one stream has run out of work before another has any."
)
_CHAIN = (
    "If each kernel needs the one before, put them into one stream: the waits only cost CPU time. Otherwise, "
    "wait only for what is needed."
)
_FULL = (
    "Look at them on the timeline: nothing is gained if one waits for another (wait_stream, wait_event), or "
    "if each kernel fills the GPU."
)


def streams_in_turn(part: Part) -> Iterator[Finding]:
    """Kernels of several streams take turns, but hardly ever run at the same time. Not those of an op that
    uses several by itself, as cuDNN's recurrent networks do."""
    trace, work, device = part.trace, device_work_of(part).at, device_of(part.trace)
    mine = trace.kind[work] == Kind.KERNEL
    if not _several(device, trace.lane[work[mine]]).any():
        return
    kernels = work[mine & ~_several_streams(trace, work, work_op_of(part))]
    kernels = kernels[~np.isin(kernels, work_of_kind(part, "collective").at)]
    several = _several(device, trace.lane[kernels])
    kernels = kernels[several[device[trace.lane[kernels]]]]
    for _, mine in places(device[trace.lane[kernels]], len(several)):
        yield from _in_turn(part, kernels[mine])


def _in_turn(part: Part, at: I64) -> Iterator[Finding]:
    """`at`: the kernels of one device."""
    trace, devices = part.trace, gaps_of(part).devices
    lanes, which = np.unique(trace.lane[at], return_inverse=True)
    time = sum_into(which, trace.duration[at], len(lanes))
    busy = np.flatnonzero(time >= STREAM_SHARE * time.sum())
    if len(busy) < 2:
        return
    at = at[np.isin(which, busy)]
    order = np.argsort(trace.start[at], kind="stable")
    turns = int(np.count_nonzero(np.diff(trace.lane[at][order])))
    any_of_them = _length(part, at)
    each = [at[mine] for _, mine in places(trace.lane[at], len(trace.lanes))]
    together = sum(_length(part, of_lane) for of_lane in each) - any_of_them
    if turns < TURNS or together >= AT_ONCE * any_of_them:
        return
    names = [trace.lanes[lane].name for lane in lanes[busy].tolist()]
    listed = ", ".join(names[:NAMED]) + (", ..." if len(names) > NAMED else "")
    late = verdict_of(part).share("cpu") >= IDLE_SHARE
    waits = len(slices_of(part, Kind.RUNTIME, lambda name: "StreamWaitEvent" in name))
    chained = 2 * waits >= turns * len(devices)  # the calls do not say whose streams they are
    why, advice = "So they gain nothing over one stream.", _FULL
    if chained:
        calls = plural(waits, "call") + (" on all GPUs" if len(devices) > 1 else "")
        why, advice = f"{calls} {verb(waits, 'make')} one stream wait for another.", _CHAIN
    elif late:
        why, advice = _RAN_OUT, _LATE
    mine = trace.lanes[trace.lane[at[0]]].device
    called = next((device_text(part, gaps) for gaps in devices if gaps.device == mine), "")
    of_it = f" of {called}" if len(devices) > 1 else ""
    yield Finding(
        "streams_in_turn",
        "info",
        f"Kernels of {len(names)} streams{of_it} take turns and hardly ever overlap",
        f"{listed}: kernels run for {duration(any_of_them)} in all, with {plural(turns, 'change')} from one "
        f"stream to another, and overlap for {duration(together)}. {why}",
        advice,
        first_of(np.concatenate([longest_first(trace, of_lane)[:2] for of_lane in each])),
        {"together_ns": float(together), "kernel_ns": float(any_of_them), "streams": float(len(names))},
        called,
    )


def _several(device: I64, lane: I32) -> Bool:
    """Mask over the devices: those that have several of these lanes."""
    return np.bincount(device[distinct(lane, len(device))], minlength=1) > 1


def _several_streams(trace: Trace, work: I64, op: I64) -> Bool:
    """Mask: the work of ops that have some in more than one stream."""
    order = np.argsort(op, kind="stable")
    ops, lanes = op[order], trace.lane[work[order]]
    several = np.zeros(len(trace) + 1, dtype=np.bool_)  # the last for -1, of work without an op
    several[ops[1:][(ops[1:] == ops[:-1]) & (lanes[1:] != lanes[:-1])]] = True
    several[-1] = False
    return several[op]


def _length(part: Part, at: I64) -> int:
    union = busy_union(part.trace, at)
    return int((union.end - union.start).sum())
