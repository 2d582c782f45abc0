"""Rules on how a program communicates: very many small collectives, what DistributedDataParallel copies."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tracetui.analysis.ancestors import op_around
from tracetui.analysis.devices import work_of_devices
from tracetui.analysis.findings.model import MEDIUM, Finding, first_of, graded, longest_first, per_step
from tracetui.analysis.gaps import busy_union
from tracetui.analysis.kinds import communicates
from tracetui.analysis.results import Results
from tracetui.analysis.scope import launch_times, members
from tracetui.analysis.select import processes_of
from tracetui.trace import Kind, Trace
from tracetui.trace.model import I64
from tracetui.units import duration, plural, share, size

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


def small_collectives(results: Results) -> Iterator[Finding]:
    """Very many collectives, short or with little to send, that no computation hides."""
    trace = results.trace
    talks = communicates(trace)
    for gaps in results.gaps().devices:
        kernels = work_of_devices(trace)[gaps.device]
        kernels = kernels[trace.kind[kernels] == Kind.KERNEL]
        kernels = kernels[members(trace, results.scope, kernels)]
        at = kernels[talks[trace.name[kernels]]]
        if not len(at):
            continue
        in_step = per_step(results, launch_times(trace, at))
        many = len(at) if in_step is None else in_step
        if many < MANY:
            continue
        usual = int(np.median(trace.duration[at]))
        sent = _sent(trace, at)
        # A collective waits in its kernel for the other ranks: with a known size, its time does not matter.
        if sent > SMALL_BYTES if sent is not None else usual > SMALL_NS:
            continue
        low, high = np.array([gaps.first]), np.array([gaps.last])
        ran, computed = (
            int(busy_union(trace, some).within(low, high)[0])
            for some in (kernels, kernels[~talks[trace.name[kernels]]])
        )
        alone, talked = ran - computed, int(busy_union(trace, at).within(low, high)[0])
        calls = results.slices(Kind.CPU_OP, lambda name: name.startswith("c10d::"))
        calls = calls[op_around(trace, calls) < 0]
        called = int(trace.duration[calls].sum())
        if alone < EXPOSED * talked or max(alone, called) < COST_SHARE * gaps.span:
            continue
        each = f"{many:,} {'in all' if in_step is None else 'per step'}"
        carries = f" for {size(sent)}" if sent is not None else ""
        on_cpu = f" On the CPU the calls take {duration(called)}." if called else ""
        yield Finding(
            "small_collectives",
            graded(results, max(alone, called)),
            f"Many small collectives, {each}, hardly hidden behind computation",
            f"{len(at):,} collectives such as {results.decoded(int(at[0])).short} of "
            f"{duration(usual)}{carries} (median). For {duration(alone)}, {share(alone / max(1, talked))} of "
            f"their time, no other kernel runs.{on_cpu} Each pays for network latency and a launch, no "
            "matter how little it sends.",
            "Combine them: one flat tensor, larger buckets (bucket_cap_mb in DDP), a coalescing "
            "manager; or send less often.",
            first_of(longest_first(trace, at)),
            {
                "collectives": float(len(at)),
                "exposed_ns": float(alone),
                "cpu_ns": float(called),
                "share": max(alone, called) / gaps.span if gaps.span else 0.0,
            },
        )


def ddp_copies(results: Results) -> Iterator[Finding]:
    """What DistributedDataParallel copies for itself, on a CPU that the GPU waits for."""
    trace, verdict = results.trace, results.verdict()
    low, high = results.judged_range()
    if verdict.cpu is not None or verdict.share("cpu") < WAITED_SHARE:
        return
    calls = [results.slices(kind, _DDP_FORWARD.__eq__) for kind in (Kind.ANNOTATION, Kind.CPU_OP)]
    forward = busy_union(trace, np.sort(np.concatenate(calls)))
    flat = results.slices(Kind.CPU_OP, _FLATTEN.__contains__)
    flat = flat[forward.touching(trace.start[flat], trace.start[flat] + 1) > 0]
    back = results.slices(Kind.CPU_OP, lambda name: name == _TO_GRADIENTS)
    buffers, gradients = int(trace.duration[flat].sum()), int(trace.duration[back].sum())
    total = buffers + gradients
    part = total / ((high - low) * max(1, processes_of(trace, np.union1d(flat, back))))
    if part < DDP_SHARE:
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
        "medium" if part >= MEDIUM else "low",
        f"DistributedDataParallel's own copies keep the CPU busy for {share(part)} {verdict.base}",
        text.strip(),
        advice.strip(),
        first_of(longest_first(trace, np.union1d(flat, back))),
        {"cpu_ns": float(total), "share": part},
    )


def _sent(trace: Trace, at: I64) -> int | None:
    """The median of what the collectives send, in bytes, of an even sample; None if it was not recorded."""
    sample = at[np.unique(np.linspace(0, len(at) - 1, READ).astype(np.int64))]
    counts = []
    for args in trace.args_of(sample):
        elements, width = args.get("In msg nelems"), _BYTES.get(str(args.get("dtype")))
        if isinstance(elements, int) and width and 0 <= elements < 2**50:
            counts.append(elements * width)
    return int(np.median(counts)) if 2 * len(counts) > len(sample) else None
