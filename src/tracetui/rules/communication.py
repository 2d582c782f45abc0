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
from tracetui.analysis.select import named, processes_of
from tracetui.analysis.steps.scope import launch_times, members, per_step, slices_of
from tracetui.analysis.steps.steps import steps_of
from tracetui.analysis.verdicts import judged_range, judged_times_of, verdict_of
from tracetui.core.units import capital, duration, plural, share, significant, size
from tracetui.rules.model import MEDIUM, Finding, first_of, graded
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
        each = f"{many:,} {'in all' if in_step is None else 'per step'}"
        carries = f" for {size(sent)}" if sent is not None else ""
        on_cpu = f" On the CPU the calls take {duration(called)}." if called else ""
        yield Finding(
            "small_collectives",
            graded(part, max(alone, called)),
            f"Many small collectives, {each}, hardly hidden behind computation",
            f"{len(at):,} collectives such as {decoded_name(part, at.first).short} of "
            f"{duration(usual)}{carries} (median). For {duration(alone)}, {share(alone / max(1, talked))} of "
            f"their time, no other kernel runs.{on_cpu} Each pays for network latency and a launch, no "
            "matter how little it sends.",
            "Combine them: one flat tensor, larger buckets (bucket_cap_mb in DDP), a coalescing "
            "manager; or send less often.",
            first_of(at.longest_first()),
            {
                "collectives": float(len(at)),
                "exposed_ns": float(alone),
                "cpu_ns": float(called),
                "share": max(alone, called) / gaps.span if gaps.span else 0.0,
            },
        )


def ddp_copies(part: Part) -> Iterator[Finding]:
    """What DistributedDataParallel copies for itself, on a CPU that the GPU waits for."""
    trace, verdict = part.trace, verdict_of(part)
    low, high = judged_range(part)
    if verdict.cpu is not None or verdict.share("cpu") < WAITED_SHARE:
        return
    calls = joined(*(slices_of(part, kind, _DDP_FORWARD.__eq__) for kind in (Kind.ANNOTATION, Kind.CPU_OP)))
    forward = busy_union(trace, calls.at)
    flat = slices_of(part, Kind.CPU_OP, _FLATTEN.__contains__)
    flat = flat[forward.touching(flat.start, flat.start + 1) > 0]
    back = slices_of(part, Kind.CPU_OP, _TO_GRADIENTS.__eq__)
    both, buffers, gradients = joined(flat, back), flat.time, back.time
    total = buffers + gradients
    fraction = total / ((high - low) * max(1, processes_of(trace, both.at)))
    if fraction < DDP_SHARE:
        return
    text, advice = "", ""
    if buffers >= 0.1 * total:
        text += "Before each forward pass, it sends rank 0's buffers, such as those of batch norms, to all "
        text += f"ranks: packing and unpacking them takes {duration(buffers)}. "
        advice += "Set broadcast_buffers=False, unless the ranks' buffers have to be the same. "
    if gradients >= 0.1 * total:
        text += "At the end of the backward pass, it copies the gradients out of its buckets, one by one: "
        text += f"{plural(len(back), 'call')}, {duration(gradients)}. "
        advice += "With gradient_as_bucket_view=True, the gradients stay in the buckets. "
    yield Finding(
        "ddp_copies",
        "medium" if fraction >= MEDIUM else "low",
        f"DistributedDataParallel's own copies keep the CPU busy for {share(fraction)} {verdict.base}",
        text.strip(),
        advice.strip(),
        first_of(both.longest_first()),
        {"cpu_ns": float(total), "share": fraction},
    )


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
    low, high = judged_range(part)
    for gaps, time in zip(gaps_of(part).devices, judged_times_of(part), strict=True):
        if time[COLUMNS.index("communication")]:
            yield from _communication_of(part, gaps, time, low, high)


def _communication_of_cpu(part: Part, cpu: CpuTime) -> Iterator[Finding]:
    verdict = verdict_of(part)
    if cpu.exposed_communication < COMMUNICATION_SHARE * cpu.span:
        return
    at = joined(*(slices_of(part, kind, is_collective) for kind in (Kind.CPU_OP, Kind.ANNOTATION)))
    at = at.longest_first()
    alone, names = cpu.exposed_communication, dict.fromkeys(at[:50].names)
    fraction = alone / cpu.span
    yield Finding(
        "communication",
        "high" if fraction > 0.3 else "medium",
        f"Communication alone takes {share(fraction)} {verdict.base}",
        f"Collectives by name ({', '.join(list(names)[:3])}) run for "
        f"{duration(cpu.communication)}, {duration(alone)} of it while no thread is in an op: "
        f"{share(fraction)} of the {duration(cpu.span)} {verdict.base}. That includes waiting for the "
        f"slowest rank.{_late_step(part)}",
        "Compare the ranks: the rank that waits least is the late one. Overlap with computation, or send "
        "less.",
        first_of(at),
        {"exposed_ns": float(alone), "communication_ns": float(cpu.communication), "share": fraction},
    )


def _late_step(part: Part) -> str:
    """A sentence on the longest step, where it is far longer than usual for its communication."""
    rows = steps_of(part).rows
    if rows and rows[-1].window[1] > rows[-1].start + LATE_RATIO * rows[-1].duration:
        rows = rows[:-1]  # it has what all steps left to the device
    if not part.is_whole or not 3 <= len(rows) <= MOST_STEPS:
        return ""
    length = np.array([row.window_length for row in rows])
    longest = int(np.argmax(length))
    ratio, more = length[longest] / np.median(length), int(length[longest] - np.median(length))
    if ratio < LATE_RATIO:
        return ""
    talk = np.array([_communicating(row.verdict) for row in rows])
    of_it = int(talk[longest] - np.median(talk))
    if of_it < LATE_SHARE * more:
        return ""
    step = capital(rows[longest].label)
    times = f"{significant(ratio, 2)} times as long as usual"
    return (
        f" {step} takes {times}: {duration(min(of_it, more))} of the {duration(more)} more are communication."
    )


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
    shorts = {decoded_name(part, i).short for i in at[:50]}
    many = len(gaps_of(part).devices) > 1
    device = device_text(part, gaps)
    where = f" on {device}" if many else ""
    late = "" if many else _late_step(part)
    what, waits, advice = _BETWEEN_TWO if _between_two(part, at) else _AMONG_ALL
    yield Finding(
        "communication",
        "high" if exposed > 0.3 * judged else "medium",
        f"Communication alone takes {share(exposed / judged)} {verdict.of(judged)}{where}",
        f"{what} by name ({', '.join(sorted(shorts)[:3])}) run for {duration(talked)}{where}, "
        f"{duration(exposed)} of it while no other kernel runs: {share(exposed / judged)} of the "
        f"{duration(judged)} {base}, {share(exposed / busy)} of {device}'s busy time. {waits}{late}",
        advice,
        first_of(at),
        {"exposed_ns": float(exposed), "communication_ns": float(talked), "share": exposed / judged}
        | {"share_of_busy": exposed / busy},
        device,
    )


def _between_two(part: Part, at: Slices) -> bool:
    """Whether most of the communication `at` is sent from one rank to one other, as between the stages of a
    pipeline: an all-to-all runs kernels of the same name."""
    if 2 * at.named(_SEND_RECV).time <= at.time:
        return False
    to_all = named(part.trace, lambda name: _TO_ALL.search(name) is not None).any()
    return not to_all and bool(named(part.trace, lambda name: _SENT.match(name) is not None).any())
