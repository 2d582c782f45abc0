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
from tracetui.rules.claims import Claims, Count, Time, names_of, says
from tracetui.rules.model import Finding, build_finding
from tracetui.trace import Kind
from tracetui.trace.indices import group_positions
from tracetui.trace.model import I32, I64, Bool
from tracetui.trace.slices import Slices

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
    work, device = device_work_of(part), device_of(part.trace)
    if not _several(device, work.of_kind(Kind.KERNEL).lane).any():
        return
    kernels = work[~_several_streams(work, work_op_of(part))].of_kind(Kind.KERNEL)
    kernels = kernels.without(work_of_kind(part, "collective"))
    several = _several(device, kernels.lane)
    kernels = kernels[several[device[kernels.lane]]]
    for _, mine in group_positions(device[kernels.lane], len(several)):
        yield from _in_turn(part, kernels[mine])


def _in_turn(part: Part, at: Slices) -> Iterator[Finding]:
    """`at`: the kernels of one device."""
    trace, devices = part.trace, gaps_of(part).devices
    lanes, which = np.unique(at.lane, return_inverse=True)
    time = sum_into(which, at.duration, len(lanes))
    busy = np.flatnonzero(time >= STREAM_SHARE * time.sum())
    if len(busy) < 2:
        return
    at = at[np.isin(which, busy)]
    turns = int(np.count_nonzero(np.diff(at.lane[np.argsort(at.start, kind="stable")])))
    any_of_them = _length(at)
    each = [at[mine] for _, mine in group_positions(at.lane, len(trace.lanes))]
    together = sum(_length(of_lane) for of_lane in each) - any_of_them
    if turns < TURNS or together >= AT_ONCE * any_of_them:
        return
    names = [trace.lanes[lane].name for lane in lanes[busy].tolist()]
    late = verdict_of(part).share("cpu") >= IDLE_SHARE
    waits = len(slices_of(part, Kind.RUNTIME, lambda name: "StreamWaitEvent" in name))
    chained = 2 * waits >= turns * len(devices)  # the calls do not say whose streams they are
    mine = trace.lanes[at.lane[0]].device
    called = next((device_text(part, gaps) for gaps in devices if gaps.device == mine), "")
    yield build_finding(
        "streams_in_turn",
        "info",
        {
            "together_ns": Time(together),
            "kernel_ns": Time(any_of_them),
            "streams": Count(len(names)),
            "names": names_of(names[:NAMED]),
            "turns": Count(turns),
            "waits": Count(waits),
            "gpus": Count(len(devices)),
            "device": called,
            "why": "chained" if chained else "late" if late else "full",
        },
        at,
        "together_ns kernel_ns streams",
        first=(i for of_lane in each for i in of_lane.longest_first()[:2]),
        device=called,
    )


@says("streams_in_turn")
def _streams_in_turn(c: Claims) -> tuple[str, str, str]:
    all_gpus, of_it = (" on all GPUs", f" of {c.device}") if c.gpus.n > 1 else ("", "")
    why, advice = {
        "chained": (f"{c.waits:call}{all_gpus} {c.waits:~make} one stream wait for another.", _CHAIN),
        "late": (_RAN_OUT, _LATE),
        "full": ("So they gain nothing over one stream.", _FULL),
    }[c.why]
    return (
        f"Kernels of {c.streams.n} streams{of_it} take turns and hardly ever overlap",
        f"{c.names}{', ...' if c.streams.n > NAMED else ''}: kernels run for {c.kernel_ns} in all, with "
        f"{c.turns:change} from one stream to another, and overlap for {c.together_ns}. {why}",
        advice,
    )


def _several(device: I64, lane: I32) -> Bool:
    """Mask over the devices: those that have several of these lanes."""
    return np.bincount(device[distinct(lane, len(device))], minlength=1) > 1


def _several_streams(work: Slices, op: I64) -> Bool:
    """Mask: the work of ops that have some in more than one stream."""
    order = np.argsort(op, kind="stable")
    ops, lanes = op[order], work.lane[order]
    several = np.zeros(len(work.trace) + 1, dtype=np.bool_)  # the last for -1, of work without an op
    several[ops[1:][(ops[1:] == ops[:-1]) & (lanes[1:] != lanes[:-1])]] = True
    several[-1] = False
    return several[op]


def _length(kernels: Slices) -> int:
    union = busy_union(kernels.trace, kernels.at)
    return int((union.end - union.start).sum())
