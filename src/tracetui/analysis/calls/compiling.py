"""torch.compile at work within a recording."""

from __future__ import annotations

from tracetui.analysis.idle.gaps import busy_union
from tracetui.analysis.part import Part, fact
from tracetui.analysis.select import slices_named
from tracetui.analysis.steps.scope import step_table_of
from tracetui.trace.intervals import Intervals
from tracetui.trace.model import I64

COMPILED_REGION = "Torch-Compiled Region"
COMPILED_GRAPH = "## Call CompiledFxGraph"
"""What runs in such a region, and on its own in the backward pass."""
COMPILING_SHARE = 0.01
COMPILING = " (dynamo_timed)"
"""The end of the names of its phases."""


def is_compiling(name: str) -> bool:
    """Whether an event of this name is a phase of torch.compile at work."""
    return name.endswith(COMPILING)


@fact
def compile_phases(part: Part) -> I64:
    """The phases of torch.compile at work, those that overlap the scope (slices)."""
    trace, (low, high) = part.trace, part.span
    at = slices_named(trace, is_compiling)
    at = at[~trace.implausible[at]]
    return at[(trace.start[at] < high) & (trace.end_of(at) > low)]


@fact
def compile_time(part: Part) -> Intervals:
    """While they are."""
    return busy_union(part.trace, compile_phases(part))


@fact
def compiles_again(part: Part) -> bool:
    """Whether every one of several steps compiles."""
    steps = step_table_of(part)
    within = busy_union(part.trace, compile_phases(part)).overlap(steps.start, steps.end)
    every = bool((within >= COMPILING_SHARE * (steps.end - steps.start)).all())
    return part.is_whole and len(steps) > 1 and every
