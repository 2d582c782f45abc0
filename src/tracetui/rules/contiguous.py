"""Rule on ops that first copy what they are given into another memory layout."""

from __future__ import annotations

from collections.abc import Iterator

from tracetui.analysis.calls.ancestors import first_marked, outermost_op
from tracetui.analysis.device_work import device_work_of, work_op_of, work_time
from tracetui.analysis.names.kernel_names import short_name
from tracetui.analysis.part import Part
from tracetui.analysis.select import name_mask
from tracetui.analysis.verdicts import verdict_of
from tracetui.rules.claims import Claims, Named, Names, Remedy, says
from tracetui.rules.model import KERNELS, MEDIUM, Finding, build_finding, claims_of, graded_kernels
from tracetui.trace import Kind
from tracetui.trace.slices import Slices

CONTIGUOUS = "aten::contiguous"
NAMED = 3
OF_ALL = 0.05
"""Of the time: what a device that is nearly always idle copies does not matter."""


def contiguous_copies(part: Part) -> Iterator[Finding]:
    """Ops that make their input contiguous for themselves: it comes in a layout that they do not take."""
    trace, work = part.trace, device_work_of(part)
    contiguous = name_mask(part.trace, CONTIGUOUS.__eq__)
    inner = first_marked(trace, work_op_of(part), contiguous[trace.name])
    keep = (inner >= 0) & (work.kind == Kind.KERNEL)
    at, called = work[keep], Slices(trace, outermost_op(part, inner[keep]))
    by_an_op = ~contiguous[called.name]  # else the program asked for it
    at, called = at[by_an_op], called[by_an_op]
    time = at.time
    if time < max(1, MEDIUM * work_time(part), OF_ALL * verdict_of(part).judged):
        return
    names = (
        Named(short_name(op.name, "cpu_op"), op.calls, op.time) for op in called.by_name(at.duration)[:NAMED]
    )
    claims = claims_of(part, at) | {"names": Names(tuple(names))}
    copies, severity = at.longest_first(), graded_kernels(part, time)
    yield build_finding(
        "contiguous_copies", severity, claims, copies, KERNELS, remedy=Remedy("remove", copies)
    )


@says("contiguous_copies")
def _contiguous_copies(c: Claims) -> tuple[str, str, str]:
    return (
        f"Ops copy their inputs into another memory layout: {c.share}",
        f"{c.kernels:kernel} {c.kernels:~take} {c.device_ns} to copy what comes in a layout that the op does "
        f"not take (aten::contiguous): in {c.names}.",
        "Hand these ops the layout that they take: no transposed views, and channels_last only where all ops "
        "in a row take it. Compare the model in the default layout.",
    )
