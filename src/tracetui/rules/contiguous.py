"""Rule on ops that first copy what they are given into another memory layout."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tracetui.analysis.calls.ancestors import first_marked
from tracetui.analysis.calls.sums import sum_into
from tracetui.analysis.device_work import device_work_of, work_op_of, work_time
from tracetui.analysis.names.kernel_names import short_name
from tracetui.analysis.part import Part
from tracetui.analysis.select import by_name, named
from tracetui.analysis.verdicts import verdict_of
from tracetui.core.units import duration, plural, share, verb
from tracetui.rules.model import (
    MEDIUM,
    WORK_TIME,
    Finding,
    first_of,
    graded_kernels,
    longest_first,
    outermost_op,
)
from tracetui.trace import Kind

CONTIGUOUS = "aten::contiguous"
NAMED = 3
OF_ALL = 0.05
"""Of the time: what a device that is nearly always idle copies does not matter."""


def contiguous_copies(part: Part) -> Iterator[Finding]:
    """Ops that make their input contiguous for themselves: it comes in a layout that they do not take."""
    trace, work = part.trace, device_work_of(part)
    contiguous = named(part.trace, CONTIGUOUS.__eq__)
    inner = first_marked(trace, work_op_of(part), contiguous[trace.name])
    keep = (inner >= 0) & (trace.kind[work] == Kind.KERNEL)
    at, called = work[keep], outermost_op(part, inner[keep])
    by_an_op = ~contiguous[trace.name[called]]  # else the program asked for it
    at, called = at[by_an_op], called[by_an_op]
    time = int(trace.duration[at].sum())
    if time < max(1, MEDIUM * work_time(part), OF_ALL * verdict_of(part).judged):
        return
    names, which = by_name(trace, called)
    spent, calls = sum_into(which, trace.duration[at], len(names)), np.bincount(which)
    listed = ", ".join(
        f"{short_name(trace.names[int(names[i])], 'cpu_op')} ({calls[i]:,}, {duration(int(spent[i]))})"
        for i in np.argsort(-spent, kind="stable")[:NAMED]
    )
    fraction = time / work_time(part)
    yield Finding(
        "contiguous_copies",
        graded_kernels(part, time),
        f"Ops copy their inputs into another memory layout: {share(fraction)} of {WORK_TIME}",
        f"{plural(len(at), 'kernel')} {verb(len(at), 'take')} {duration(time)} to copy what comes in a "
        f"layout that the op does not take (aten::contiguous): in {listed}.",
        "Hand these ops the layout that they take: no transposed views, and channels_last only where all ops "
        "in a row take it. Compare the model in the default layout.",
        first_of(longest_first(trace, at)),
        {"share": fraction, "device_ns": float(time), "kernels": float(len(at))},
    )
