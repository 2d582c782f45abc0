"""A rule on Python's garbage collector, which PyTorch can record."""

from __future__ import annotations

from collections.abc import Iterator

from tracetui.analysis.part import Part
from tracetui.analysis.steps.scope import slices_of
from tracetui.analysis.verdicts import base_of
from tracetui.rules.claims import Claims, Count, Remedy, Share, Time, says
from tracetui.rules.model import HIGH, MEDIUM, Finding, build_finding
from tracetui.trace import Kind

NAME = "Python GC"
"""What PyTorch calls it, with `record_python_gc_info`."""
GC_SHARE = 0.02


def garbage(part: Part) -> Iterator[Finding]:
    """Collecting garbage takes a noticeable part of the time."""
    at, whole = slices_of(part, Kind.PYTHON, NAME.__eq__).longest_first(), part.length
    if not len(at) or at.time < GC_SHARE * whole:
        return
    yield build_finding(
        "garbage",
        "high" if at.time > HIGH * whole else "medium" if at.time >= MEDIUM * whole else "low",
        {
            "gc_ns": Time(at.time),
            "share": Share(at.time, whole, base_of(part)),
            "calls": Count(len(at)),
            "longest_ns": Time(int(at.duration[0])),
        },
        at,
        "gc_ns share calls",
        remedy=Remedy("remove", at),
    )


@says("garbage")
def _garbage(c: Claims) -> tuple[str, str, str]:
    longest = f", the longest {c.longest_ns}" if c.calls.n > 1 else ""
    return (
        f"Python collects garbage for {c.share}",
        f"{c.calls:collection} {c.calls:~take} {c.gc_ns}{longest}. Meanwhile no Python code of the process "
        "runs, so nothing is launched.",
        "Call gc.freeze() once the model is built, so that what stays is not looked at again. Or turn the "
        "collector off in the loop (gc.disable()) and call gc.collect() between two epochs.",
    )
