"""Rules on how one process uses several GPUs: in turn, or with DataParallel."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import numpy as np

from tracetui.analysis.calls.ancestors import op_around
from tracetui.analysis.calls.data_parallel import data_parallel_calls, trains_data_parallel
from tracetui.analysis.device_text import device_text
from tracetui.analysis.device_work import device_work_of, work_time
from tracetui.analysis.devices import work_of_devices
from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.idle.kinds import communicates
from tracetui.analysis.part import Part
from tracetui.analysis.steps.scope import slices_of
from tracetui.analysis.verdicts import judged_range, verdict_of
from tracetui.core.units import duration, plural, share
from tracetui.rules.advice import data_parallel_advice
from tracetui.rules.model import MEDIUM, WORK_TIME, Finding, first_of
from tracetui.trace import Kind
from tracetui.trace.intervals import all_of
from tracetui.trace.slices import Slices

TAKES_PART = 0.15
"""Of the busy time of all GPUs: one that has less only helps the others."""
BUSY_SHARE = 0.5
"""Of the time: where the GPUs, in turn, are busy for less, something else holds them up."""
AT_ONCE = 0.1
"""Of the time in which any of them is busy."""
HIGH_SHARE = 0.8
NAMED = 4
_MOVES = {"Broadcast", "Scatter", "Gather", "BroadcastBackward", "ScatterBackward", "GatherBackward"}


def gpus_in_turn(part: Part) -> Iterator[Finding]:
    """Several GPUs are busy, but hardly ever at the same time."""
    trace, (low, high) = part.trace, judged_range(part)
    devices = gaps_of(part.whole).devices
    busy = np.array([device.blocks.time_in(low, high) for device in devices])
    used = np.flatnonzero(busy > TAKES_PART * busy.sum())
    if len(used) < 2 or len({trace.rank_of(devices[i].device) for i in used}) > 1:
        return
    any_of_them = all_of([devices[i].blocks for i in used]).time_in(low, high)
    together = int(busy[used].sum()) - any_of_them
    if any_of_them < BUSY_SHARE * (high - low) or together >= AT_ONCE * any_of_them:
        return
    listed = [f"{device_text(part, devices[i])} for {duration(int(busy[i]))}" for i in used[:NAMED]]
    listed += ["..."] if len(used) > NAMED else []
    sent = slices_of(part, Kind.MEMCPY, lambda name: "PtoP" in name).at
    at_once = f"for {duration(together)} at most" if together else "never"
    why, early = "", ""
    if len(sent):
        why = f"Results move from one to another in {plural(len(sent), 'copy', 'copies')}: most likely each "
        why += "waits for what another computes. "
        early = " Start copies to another GPU as early as possible, on a stream of their own."
    each = [Slices(trace, work_of_devices(trace)[devices[i].device]).longest_first()[:2] for i in used]
    yield Finding(
        "gpus_in_turn",
        "high" if any_of_them >= HIGH_SHARE * (high - low) else "medium",
        f"{len(used)} GPUs take turns and hardly ever work at the same time",
        f"Of the {duration(high - low)} {verdict_of(part).base}, at least one of them is busy for "
        f"{duration(any_of_them)} ({', '.join(listed)}), more than one {at_once}. "
        f"{why}Used like this, they are hardly faster than a single one.",
        "If the model fits on one GPU, put a copy on each (to train it: DistributedDataParallel). If not, "
        "split each batch into micro-batches, so that one GPU works on the next while another is busy "
        f"(torch.distributed.pipelining).{early}",
        first_of(chain.from_iterable(each)),
        {
            "together_ns": float(together),
            "busy_ns": float(any_of_them),
            "gpus": float(len(used)),
            "share": 1 - float(busy[used].sum()) / (len(used) * (high - low)),
        },
    )


def data_parallel(part: Part) -> Iterator[Finding]:
    """DataParallel: one process, which copies the model to its GPUs in every forward pass."""
    trace, (low, high), forward = part.trace, judged_range(part), data_parallel_calls(part)
    if not len(forward):
        return
    moves = slices_of(part, Kind.CPU_OP, _MOVES.__contains__)
    moves = moves[op_around(trace, moves.at) < 0]
    backward = trains_data_parallel(part)
    work = device_work_of(part)
    cpu, device = moves.time, work[communicates(trace)[work.name] | work.are_named("PtoP")].time
    parts = cpu / (high - low), device / max(1, work_time(part))
    gathers = ", and adds up the gradients on one of them in the backward pass" if backward else ""
    yield Finding(
        "data_parallel",
        "medium" if max(parts) >= MEDIUM else "low",
        "DataParallel copies the model to every GPU in each forward pass",
        f"It also splits the inputs and gathers the outputs{gathers}. That takes {duration(cpu)} in recorded "
        f"ops on the CPU and {duration(device)} on the GPUs, {share(parts[1])} of {WORK_TIME}. One process "
        "launches the work of all GPUs, from threads that share Python's interpreter lock.",
        data_parallel_advice(part),
        first_of([*moves.longest_first()[:3], *forward.longest_first()]),
        {"cpu_ns": float(cpu), "device_ns": float(device), "calls": float(len(forward))},
    )
