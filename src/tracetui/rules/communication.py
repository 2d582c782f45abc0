"""Rules on communication: what nothing hides, many small collectives, what DistributedDataParallel copies."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from tracetui.analysis.calls.ancestors import op_around
from tracetui.analysis.device_text import device_text
from tracetui.analysis.device_work import decoded_name
from tracetui.analysis.devices import work_of_devices
from tracetui.analysis.idle.cpu_time import cpu_time_of
from tracetui.analysis.idle.cpu_verdict import is_collective
from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.idle.gaps import DeviceGaps, busy_union
from tracetui.analysis.idle.kinds import communicates
from tracetui.analysis.idle.split import BUSY, COLUMNS
from tracetui.analysis.idle.verdict import PARTS, CpuTime, Verdict, judge
from tracetui.analysis.part import Part
from tracetui.analysis.select import name_mask, processes_of
from tracetui.analysis.steps.scope import launch_times, members, per_step, slices_of
from tracetui.analysis.steps.steps import steps_of
from tracetui.analysis.verdicts import verdict_of, verdict_times_of, verdict_window
from tracetui.core.units import capital
from tracetui.rules.claims import Claim, Claims, Count, Ratio, Remedy, Share, Size, Time, names_of, says
from tracetui.rules.model import MEDIUM, Finding, build_finding, graded
from tracetui.trace import Kind
from tracetui.trace.model import I64
from tracetui.trace.slices import Slices, joined

MANY = 50
"""Collectives per step, or in all where there are no steps."""
SMALL_NS = 50_000
SMALL_BYTES = 256 * 1024
EXPOSED = 0.8
COST_SHARE = 0.05
READ = 200
DDP_SHARE = 0.05
"""Of the time, what DDP's own copies take on the CPU to be worth a finding."""
WAITED_SHARE = 0.1
"""As much has the GPU to wait for the CPU, or the copies cost nothing."""
_DDP_FORWARD = "DistributedDataParallel.forward"
_FLATTEN = ("aten::flatten_dense_tensors", "aten::unflatten_dense_tensors")
_TO_GRADIENTS = "torch.distributed.ddp.reducer::copy_bucket_to_grad"

_BYTES = {
    "Float": 4,
    "Half": 2,
    "BFloat16": 2,
    "Double": 8,
    "Int": 4,
    "Long": 8,
    "Byte": 1,
    "Char": 1,
    "Bool": 1,
}
_BYTES |= {"Float8_e4m3fn": 1, "Float8_e5m2": 1}
COMMUNICATION_SHARE = 0.1
LATE_RATIO = 1.5
LATE_SHARE = 0.5
MOST_STEPS = 1000
_SEND_RECV = re.compile(r"SendRecv")
_SENT = re.compile(r"(?:nccl:|c10d::)(?:send|recv)")
_TO_ALL = re.compile(r"(?i)all_?to_?all|all2all")
_AMONG_ALL = (
    "Collectives",
    "A collective's kernel also waits for the slowest rank, so a long one does not have to mean a slow "
    "network.",
    "Compare the ranks: the rank that waits least is the late one. Overlap with computation (bucket sizes, "
    "FSDP prefetching), or send less.",
)
_BETWEEN_TWO = (
    "Sends and receives",
    "A receive waits in its kernel until the other rank sends: between the stages of a pipeline that is "
    "the bubble, not a slow network.",
    "Compare the ranks: the stage that waits least is the slowest. More micro-batches, an interleaved "
    "schedule or stages of equal work leave less to wait for.",
)


def small_collectives(part: Part) -> Iterator[Finding]:
    """Very many collectives, short or with little to send, that no computation hides."""
    trace = part.trace
    talks = communicates(trace)
    for gaps in gaps_of(part).devices:
        kernels = Slices(trace, work_of_devices(trace)[gaps.device]).of_kind(Kind.KERNEL)
        kernels = kernels[members(trace, part.scope, kernels.at)]
        at = kernels[talks[kernels.name]]
        if not len(at):
            continue
        in_step = per_step(part, launch_times(trace, at.at))
        many = len(at) if in_step is None else in_step
        if many < MANY:
            continue
        usual = int(np.median(at.duration))
        sent = _sent(at)
        # A collective waits in its kernel for the other ranks: with a known size, its time does not matter.
        if sent > SMALL_BYTES if sent is not None else usual > SMALL_NS:
            continue
        ran, computed, talked = (
            busy_union(trace, some.at).time_in(gaps.first, gaps.last)
            for some in (kernels, kernels.without(at), at)
        )
        alone = ran - computed
        calls = slices_of(part, Kind.CPU_OP, lambda name: name.startswith("c10d::"))
        called = calls[op_around(trace, calls.at) < 0].time
        if alone < EXPOSED * talked or max(alone, called) < COST_SHARE * gaps.span:
            continue
        longest, worst = at.longest_first(), max(alone, called)
        yield build_finding(
            "small_collectives",
            graded(part, worst),
            {
                "collectives": Count(len(at)),
                "exposed_ns": Time(alone),
                "cpu_ns": Time(called),
                "share": Share(worst, gaps.span, "of the GPU's span"),
                "alone_share": Share(alone, max(1, talked), "of their time"),
                "many": Count(many),
                "per_step": in_step is not None,
                "name": decoded_name(part, at.first).short,
                "usual_ns": Time(usual),
                "sent": None if sent is None else Size(sent),
            },
            longest,
            "collectives exposed_ns cpu_ns share",
            remedy=Remedy("remove", longest),
        )


@says("small_collectives")
def _small_collectives(c: Claims) -> tuple[str, str, str]:
    carries = f" for {c.sent}" if c.sent else ""
    on_cpu = f" On the CPU the calls take {c.cpu_ns}." if c.cpu_ns.ns else ""
    return (
        f"Many small collectives, {c.many} {'per step' if c.per_step else 'in all'}, hardly hidden behind "
        "computation",
        f"{c.collectives} collectives such as {c.name} of {c.usual_ns}{carries} (median). For "
        f"{c.exposed_ns}, {c.alone_share}, no other kernel runs.{on_cpu} Each pays for network latency and a "
        "launch, no matter how little it sends.",
        "Combine them: one flat tensor, larger buckets (bucket_cap_mb in DDP), a coalescing manager; or send "
        "less often.",
    )


def ddp_copies(part: Part) -> Iterator[Finding]:
    """What DistributedDataParallel copies for itself, on a CPU that the GPU waits for."""
    trace, verdict = part.trace, verdict_of(part)
    low, high = verdict_window(part)
    if verdict.cpu is not None or verdict.share("cpu") < WAITED_SHARE:
        return
    calls = joined(*(slices_of(part, kind, _DDP_FORWARD.__eq__) for kind in (Kind.ANNOTATION, Kind.CPU_OP)))
    forward = busy_union(trace, calls.at)
    flat = slices_of(part, Kind.CPU_OP, _FLATTEN.__contains__)
    flat = flat[forward.holds(flat.start)]
    back = slices_of(part, Kind.CPU_OP, _TO_GRADIENTS.__eq__)
    both, buffers, gradients = joined(flat, back), flat.time, back.time
    total = buffers + gradients
    share = Share(total, (high - low) * max(1, processes_of(trace, both.at)), verdict.base)
    if share.value < DDP_SHARE:
        return
    copies = both.longest_first()
    yield build_finding(
        "ddp_copies",
        "medium" if share.value >= MEDIUM else "low",
        {
            "cpu_ns": Time(total),
            "share": share,
            "buffers_ns": Time(buffers),
            "gradients_ns": Time(gradients),
            "gradients": Count(len(back)),
        },
        copies,
        "cpu_ns share",
        remedy=Remedy("remove", copies),
    )


@says("ddp_copies")
def _ddp_copies(c: Claims) -> tuple[str, str, str]:
    text, advice = "", ""
    if c.buffers_ns.ns >= 0.1 * c.cpu_ns.ns:
        text += "Before each forward pass, it sends rank 0's buffers, such as those of batch norms, to all "
        text += f"ranks: packing and unpacking them takes {c.buffers_ns}. "
        advice += "Set broadcast_buffers=False, unless the ranks' buffers have to be the same. "
    if c.gradients_ns.ns >= 0.1 * c.cpu_ns.ns:
        text += "At the end of the backward pass, it copies the gradients out of its buckets, one by one: "
        text += f"{c.gradients:call}, {c.gradients_ns}. "
        advice += "With gradient_as_bucket_view=True, the gradients stay in the buckets. "
    title = f"DistributedDataParallel's own copies keep the CPU busy for {c.share}"
    return title, text.strip(), advice.strip()


def _sent(at: Slices) -> int | None:
    """The median of what the collectives send, in bytes, of an even sample; None if it was not recorded."""
    sample = at[np.unique(np.linspace(0, len(at) - 1, READ).astype(np.int64))]
    counts = []
    for args in at.trace.args_of(sample.at):
        elements, width = args.get("In msg nelems"), _BYTES.get(str(args.get("dtype")))
        if isinstance(elements, int) and width and 0 <= elements < 2**50:
            counts.append(elements * width)
    return int(np.median(counts)) if 2 * len(counts) > len(sample) else None


def communication(part: Part) -> Iterator[Finding]:
    """Collectives that no computation hides take more than a tenth of the time."""
    if (cpu := verdict_of(part).cpu) is not None:
        yield from _communication_of_cpu(part, cpu)
    low, high = verdict_window(part)
    for gaps, time in zip(gaps_of(part).devices, verdict_times_of(part), strict=True):
        if time[COLUMNS.index("communication")]:
            yield from _communication_of(part, gaps, time, low, high)


def _communication_of_cpu(part: Part, cpu: CpuTime) -> Iterator[Finding]:
    verdict = verdict_of(part)
    if cpu.exposed_communication < COMMUNICATION_SHARE * cpu.span:
        return
    at = joined(*(slices_of(part, kind, is_collective) for kind in (Kind.CPU_OP, Kind.ANNOTATION)))
    at = at.longest_first()
    alone = cpu.exposed_communication
    yield build_finding(
        "communication",
        "high" if alone > 0.3 * cpu.span else "medium",
        {
            "exposed_ns": Time(alone),
            "communication_ns": Time(cpu.communication),
            "share": Share(alone, cpu.span, verdict.base),
            "time_ns": Time(cpu.span),
            "names": names_of([*dict.fromkeys(at[:50].names)][:3]),
            "kind": "of the CPU",
            **_late_step(part),
        },
        at,
        "exposed_ns communication_ns share",
        remedy=Remedy("overlap", at),
    )


@says("communication")
def _communication(c: Claims) -> tuple[str, str, str]:
    late = ""
    if "late_step" in c:
        late = (
            f" {capital(c.late_step)} takes {c.late_ratio} times as long as usual: {c.late_of_it_ns} of the "
        )
        late += f"{c.late_ns} more are communication."
    if c.kind == "of the CPU":
        return (
            f"Communication alone takes {c.share}",
            f"Collectives by name ({c.names}) run for {c.communication_ns}, {c.exposed_ns} of it while no "
            f"thread is in an op: {c.share:bare} of the {c.time_ns} {c.share.of}. That includes waiting for "
            f"the slowest rank.{late}",
            "Compare the ranks: the rank that waits least is the late one. Overlap with computation, or send "
            "less.",
        )
    where = f" on {c.device}" if c.gpus.n > 1 else ""
    what, waits, advice = _BETWEEN_TWO if c.kind == "between two" else _AMONG_ALL
    return (
        f"Communication alone takes {c.share}{where}",
        f"{what} by name ({c.names}) run for {c.communication_ns}{where}, {c.exposed_ns} of it while no "
        f"other kernel runs: {c.share:bare} of the {c.time_ns} {c.base}, {c.share_of_busy}. {waits}{late}",
        advice,
    )


def _late_step(part: Part) -> dict[str, Claim]:
    """The longest step, where it is far longer than usual for its communication."""
    rows = steps_of(part).rows
    if rows and rows[-1].window[1] > rows[-1].start + LATE_RATIO * rows[-1].duration:
        rows = rows[:-1]  # it has what all steps left to the device
    if not part.is_whole or not 3 <= len(rows) <= MOST_STEPS:
        return {}
    length = np.array([row.window_length for row in rows])
    longest = int(np.argmax(length))
    ratio, more = length[longest] / np.median(length), int(length[longest] - np.median(length))
    if ratio < LATE_RATIO:
        return {}
    talk = np.array([_communicating(row.verdict) for row in rows])
    of_it = int(talk[longest] - np.median(talk))
    if of_it < LATE_SHARE * more:
        return {}
    return {
        "late_step": rows[longest].label,
        "late_ratio": Ratio(float(ratio)),
        "late_of_it_ns": Time(min(of_it, more)),
        "late_ns": Time(more),
    }


def _communicating(verdict: Verdict) -> int:
    cpu = verdict.cpu
    return cpu.exposed_communication if cpu else verdict.parts[PARTS.index("communication")]


def _communication_of(part: Part, gaps: DeviceGaps, time: I64, low: int, high: int) -> Iterator[Finding]:
    trace, verdict = part.trace, verdict_of(part)
    base = f"{verdict.base} that count" if verdict.noticeably_left_out else verdict.base
    at = Slices(trace, cpu_time_of(part).work[gaps.device]).of_kind(Kind.KERNEL)
    at = at[communicates(trace)[at.name]]
    if not len(at):
        return
    # Cut at the borders of the time, so that the shares add up.
    talked = busy_union(trace, at.at).time_in(low, high)
    exposed, busy = int(time[COLUMNS.index("communication")]), int(time[BUSY].sum())
    judged = judge(time, None).judged
    at = at[members(trace, part.scope, at.at)]
    if not len(at) or not judged or exposed < COMMUNICATION_SHARE * judged:
        return
    at = at.longest_first()
    shorts = sorted({decoded_name(part, i).short for i in at[:50]})
    devices, device = len(gaps_of(part).devices), device_text(part, gaps)
    yield build_finding(
        "communication",
        "high" if exposed > 0.3 * judged else "medium",
        {
            "exposed_ns": Time(exposed),
            "communication_ns": Time(talked),
            "share": Share(exposed, judged, verdict.of(judged)),
            "share_of_busy": Share(exposed, busy, f"of {device}'s busy time"),
            "time_ns": Time(judged),
            "base": base,
            "names": names_of(shorts[:3]),
            "kind": "between two" if _between_two(part, at) else "among all",
            "gpus": Count(devices),
            "device": device,
            **({} if devices > 1 else _late_step(part)),
        },
        at,
        "exposed_ns communication_ns share share_of_busy",
        device=device,
        remedy=Remedy("overlap", at),
    )


def _between_two(part: Part, at: Slices) -> bool:
    """Whether most of the communication `at` is sent from one rank to one other, as between the stages of a
    pipeline: an all-to-all runs kernels of the same name."""
    if 2 * at.named(_SEND_RECV).time <= at.time:
        return False
    to_all = name_mask(part.trace, _TO_ALL.search).any()
    return not to_all and bool(name_mask(part.trace, _SENT.match).any())
