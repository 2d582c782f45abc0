"""Rule on requests for the device's memory that failed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tracetui.analysis.calls.ancestors import deepest_at, op_around
from tracetui.analysis.calls.memory import OUT_OF_MEMORY
from tracetui.analysis.names.kernel_names import short_name
from tracetui.analysis.part import Part
from tracetui.rules.claims import Claims, Count, Named, Names, Time, says
from tracetui.rules.model import Finding, build_finding
from tracetui.trace import Kind
from tracetui.trace.memory import named_instants
from tracetui.trace.slices import Slices, joined


def out_of_memory(part: Part) -> Iterator[Finding]:
    """The allocator found no room, as `profile_memory` records it."""
    trace, (low, high) = part.trace, part.span
    instants = named_instants(trace, OUT_OF_MEMORY)
    time, lane = trace.instants.start[instants], trace.instants.lane[instants].astype(np.int64)
    inside = (time >= low) & (time < high)
    time, lane = time[inside], lane[inside]
    at = deepest_at(trace, lane, time)
    at = np.where((at >= 0) & (trace.kind[at] != int(Kind.CPU_OP)), op_around(trace, at), at)
    if not (at >= 0).any():
        return
    ops = Slices(trace, at[at >= 0])
    names = (Named(short_name(op.name, "cpu_op"), op.calls) for op in ops.by_calls()[:3])
    yield build_finding(
        "out_of_memory",
        "medium",
        {
            "requests": Count(len(time)),
            "ops": Count(len(joined(ops))),
            "names": Names(tuple(names)),
            "last_ns": Time(int(time.max()) - trace.span[0]),
        },
        ops,
        "requests ops",
    )


@says("out_of_memory")
def _out_of_memory(c: Claims) -> tuple[str, str, str]:
    return (
        f"{c.requests:request} for GPU memory failed",
        f"PyTorch's allocator found no room, under {c.names}; the last time {c.last_ns} after the start. An "
        "op then raises OutOfMemoryError, or, as cuDNN's convolutions do, falls back to an algorithm that "
        "needs less memory and is often slower.",
        "Use smaller batches, keep less (losses with their graph, old outputs), or recompute activations "
        "(torch.utils.checkpoint). If much is reserved and little allocated: "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.",
    )
