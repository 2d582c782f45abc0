"""Rule on ops that first copy what they are given into another memory layout."""

from __future__ import annotations

from collections.abc import Iterator

from tracetui.analysis.calls.ancestors import first_marked, outermost_op
from tracetui.analysis.device_work import device_work_of, work_op_of, work_time
from tracetui.analysis.names.kernel_names import short_name
from tracetui.analysis.part import Part
from tracetui.analysis.select import named
from tracetui.analysis.verdicts import verdict_of
from tracetui.core.units import duration, plural, share, verb
from tracetui.rules.model import (
    MEDIUM,
    WORK_TIME,
    Finding,
    first_of,
    graded_kernels,
    numbers_of,
)
from tracetui.trace import Kind
from tracetui.trace.slices import Slices

CONTIGUOUS = "aten::contiguous"
NAMED = 3
OF_ALL = 0.05
"""Of the time: what a device that is nearly always idle copies does not matter."""


def contiguous_copies(part: Part) -> Iterator[Finding]:
    """Ops that make their input contiguous for themselves: it comes in a layout that they do not take."""
    trace, work = part.trace, device_work_of(part)
    contiguous = named(part.trace, CONTIGUOUS.__eq__)
    inner = first_marked(trace, work_op_of(part), contiguous[trace.name])
    keep = (inner >= 0) & (work.kind == Kind.KERNEL)
    at, called = work[keep], Slices(trace, outermost_op(part, inner[keep]))
    by_an_op = ~contiguous[called.name]  # else the program asked for it
    at, called = at[by_an_op], called[by_an_op]
    time = at.time
    if time < max(1, MEDIUM * work_time(part), OF_ALL * verdict_of(part).judged):
        return
    listed = ", ".join(
        f"{short_name(op.name, 'cpu_op')} ({op.calls:,}, {duration(op.time)})"
        for op in called.by_name(at.duration)[:NAMED]
    )
    yield Finding(
        "contiguous_copies",
        graded_kernels(part, time),
        f"Ops copy their inputs into another memory layout: {share(time / work_time(part))} of {WORK_TIME}",
        f"{plural(len(at), 'kernel')} {verb(len(at), 'take')} {duration(time)} to copy what comes in a "
        f"layout that the op does not take (aten::contiguous): in {listed}.",
        "Hand these ops the layout that they take: no transposed views, and channels_last only where all ops "
        "in a row take it. Compare the model in the default layout.",
        first_of(at.longest_first()),
        numbers_of(part, at),
    )
