"""Rule on ops that first copy what they are given into another memory layout."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tracetui.analysis.calls.ancestors import first_marked
from tracetui.analysis.calls.sums import sum_into
from tracetui.analysis.names.kernel_names import short_name
from tracetui.analysis.results import Results
from tracetui.analysis.select import by_name
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


def contiguous_copies(results: Results) -> Iterator[Finding]:
    """Ops that make their input contiguous for themselves: it comes in a layout that they do not take."""
    trace, work = results.trace, results.work()
    contiguous = results.named(CONTIGUOUS.__eq__)
    inner = first_marked(trace, results.work_op(), contiguous[trace.name])
    keep = (inner >= 0) & (trace.kind[work] == Kind.KERNEL)
    at, called = work[keep], outermost_op(results, inner[keep])
    by_an_op = ~contiguous[trace.name[called]]  # else the program asked for it
    at, called = at[by_an_op], called[by_an_op]
    time = int(trace.duration[at].sum())
    if time < max(1, MEDIUM * results.work_time, OF_ALL * results.verdict().judged):
        return
    names, which = by_name(trace, called)
    spent, calls = sum_into(which, trace.duration[at], len(names)), np.bincount(which)
    listed = ", ".join(
        f"{short_name(trace.names[int(names[i])], 'cpu_op')} ({calls[i]:,}, {duration(int(spent[i]))})"
        for i in np.argsort(-spent, kind="stable")[:NAMED]
    )
    part = time / results.work_time
    yield Finding(
        "contiguous_copies",
        graded_kernels(results, time),
        f"Ops copy their inputs into another memory layout: {share(part)} of {WORK_TIME}",
        f"{plural(len(at), 'kernel')} {verb(len(at), 'take')} {duration(time)} to copy what comes in a "
        f"layout that the op does not take (aten::contiguous): in {listed}.",
        "Hand these ops the layout that they take: no transposed views, and channels_last only where all ops "
        "in a row take it. Compare the model in the default layout.",
        first_of(longest_first(trace, at)),
        {"share": part, "device_ns": float(time), "kernels": float(len(at))},
    )
