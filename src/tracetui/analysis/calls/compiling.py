"""torch.compile at work within a recording."""

from __future__ import annotations

from functools import partial

from tracetui.analysis.idle.gaps import busy_union
from tracetui.analysis.results import Results
from tracetui.analysis.select import called
from tracetui.trace.intervals import Union
from tracetui.trace.model import I64

COMPILED_REGION = "Torch-Compiled Region"
COMPILED_GRAPH = "## Call CompiledFxGraph"
"""What runs in such a region, and on its own in the backward pass."""
COMPILING = " (dynamo_timed)"
"""The end of the names of its phases."""


def is_compiling(name: str) -> bool:
    """Whether an event of this name is a phase of torch.compile at work."""
    return name.endswith(COMPILING)


def compile_phases(results: Results) -> I64:
    """The phases of torch.compile at work, those that overlap the scope (slices)."""
    return results.kept("compile phases", partial(_compile_phases, results))


def compile_time(results: Results) -> Union:
    """While they are."""
    return results.kept("compile time", lambda: busy_union(results.trace, compile_phases(results)))


def _compile_phases(results: Results) -> I64:
    trace, (low, high) = results.trace, results.span
    at = called(trace, is_compiling)
    at = at[~trace.implausible[at]]
    return at[(trace.start[at] < high) & (trace.start[at] + trace.duration[at] > low)]
