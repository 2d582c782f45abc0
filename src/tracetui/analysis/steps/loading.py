"""Waits for the next batch of a `DataLoader`."""

from __future__ import annotations

from tracetui.analysis.idle.gaps import busy_union
from tracetui.analysis.part import Part, fact_of_trace
from tracetui.analysis.steps.scope import slices_of
from tracetui.trace import Kind
from tracetui.trace.intervals import Intervals
from tracetui.trace.slices import Slices, joined


def loader_calls(part: Part) -> Slices:
    """The waits for the next batch of a `DataLoader`."""
    # Old traces give them the category of an op.
    kinds = (Kind.ANNOTATION, Kind.CPU_OP)
    return joined(*(slices_of(part, kind, is_loader) for kind in kinds))


@fact_of_trace
def loading_time(part: Part) -> Intervals:
    """While the program waits for a `DataLoader`, in all of the trace."""
    return busy_union(part.trace, loader_calls(part).at)


def is_loader(name: str) -> bool:
    """Whether an annotation of this name is such a wait."""
    return name.startswith("enumerate(DataLoader)#")
