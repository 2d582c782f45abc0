"""Rules on how one process uses several GPUs: in turn, or with DataParallel."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from tracetui.analysis.calls.ancestors import op_around
from tracetui.analysis.calls.data_parallel import data_parallel_calls, trains_data_parallel
from tracetui.analysis.device_text import device_text
from tracetui.analysis.device_work import device_work_of, work_time
from tracetui.analysis.devices import work_of_devices
from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.idle.in_turn import gpus_in_turn_of
from tracetui.analysis.idle.kinds import communicates
from tracetui.analysis.part import Part
from tracetui.analysis.steps.scope import slices_of
from tracetui.analysis.verdicts import verdict_of, verdict_window
from tracetui.core.units import duration
from tracetui.rules.advice import advise, data_parallel_advice
from tracetui.rules.claims import Claims, Count, Named, Names, Remedy, Share, Time, says
from tracetui.rules.model import MEDIUM, OF_WORK, Finding, build_finding
from tracetui.trace import Kind
from tracetui.trace.slices import Slices, joined

HIGH_SHARE = 0.8
NAMED = 4
_MOVES = {"Broadcast", "Scatter", "Gather", "BroadcastBackward", "ScatterBackward", "GatherBackward"}


def gpus_in_turn(part: Part) -> Iterator[Finding]:
    """Several GPUs are busy, but hardly ever at the same time."""
    trace, (low, high) = part.trace, verdict_window(part)
    devices = gaps_of(part.whole).devices
    turns = gpus_in_turn_of(part)
    if turns is None:
        return
    used, busy, any_of_them = turns.used, turns.busy, turns.any_of_them
    works = [Slices(trace, work_of_devices(trace)[devices[i].device]).longest_first() for i in used]
    yield build_finding(
        "gpus_in_turn",
        "high" if any_of_them >= HIGH_SHARE * (high - low) else "medium",
        {
            "together_ns": Time(turns.together),
            "busy_ns": Time(any_of_them),
            "gpus": Count(len(used)),
            "share": Share(
                len(used) * (high - low) - int(busy[used].sum()),
                len(used) * (high - low),
                verdict_of(part).base,
            ),
            "time_ns": Time(high - low),
            "each": Names(
                tuple(Named(device_text(part, devices[i]), ns=int(busy[i])) for i in used[:NAMED].tolist())
            ),
            "sent": Count(len(turns.sent)),
        },
        joined(*works),
        "together_ns busy_ns gpus share",
        first=chain.from_iterable(work[:2] for work in works),
    )


@says("gpus_in_turn")
def _gpus_in_turn(c: Claims) -> tuple[str, str, str]:
    listed = [f"{each.name} for {duration(each.ns)}" for each in c.each.each]
    listed += ["..."] if c.gpus.n > NAMED else []
    at_once = f"for {c.together_ns} at most" if c.together_ns.ns else "never"
    why, early = "", ""
    if c.sent.n:
        why = f"Results move from one to another in {c.sent:copy/copies}: most likely each waits for what "
        why += "another computes. "
        early = " Start copies to another GPU as early as possible, on a stream of their own."
    return (
        f"{c.gpus.n} GPUs take turns and hardly ever work at the same time",
        f"Of the {c.time_ns} {c.share.of}, at least one of them is busy for {c.busy_ns} "
        f"({', '.join(listed)}), more than one {at_once}. {why}Used like this, they are hardly faster than a "
        "single one.",
        "If the model fits on one GPU, put a copy on each (to train it: DistributedDataParallel). If not, "
        "split each batch into micro-batches, so that one GPU works on the next while another is busy "
        f"(torch.distributed.pipelining).{early}",
    )


def data_parallel(part: Part) -> Iterator[Finding]:
    """DataParallel: one process, which copies the model to its GPUs in every forward pass."""
    trace, (low, high), forward = part.trace, verdict_window(part), data_parallel_calls(part)
    if not len(forward):
        return
    moves = slices_of(part, Kind.CPU_OP, _MOVES.__contains__)
    moves = moves[op_around(trace, moves.at) < 0]
    work = device_work_of(part)
    copies = work[communicates(trace)[work.name] | work.are_named("PtoP")]
    share = Share(copies.time, max(1, work_time(part)), OF_WORK)
    yield build_finding(
        "data_parallel",
        "medium" if max(moves.time / (high - low), share.value) >= MEDIUM else "low",
        {
            "cpu_ns": Time(moves.time),
            "device_ns": Time(copies.time),
            "calls": Count(len(forward)),
            "share": share,
            "trains": trains_data_parallel(part),
            **data_parallel_advice(part),
        },
        joined(moves, forward),
        "cpu_ns device_ns calls",
        first=[*moves.longest_first()[:3], *forward.longest_first()],
        remedy=Remedy("remove", joined(moves, copies)),
    )


@says("data_parallel")
def _data_parallel(c: Claims) -> tuple[str, str, str]:
    gathers = ", and adds up the gradients on one of them in the backward pass" if c.trains else ""
    return (
        "DataParallel copies the model to every GPU in each forward pass",
        f"It also splits the inputs and gathers the outputs{gathers}. That takes {c.cpu_ns} in recorded ops "
        f"on the CPU and {c.device_ns} on the GPUs, {c.share}. One process launches the work of all GPUs, "
        "from threads that share Python's interpreter lock.",
        advise(c),
    )
