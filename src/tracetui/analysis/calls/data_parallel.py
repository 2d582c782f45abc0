"""Where DataParallel runs a model on several GPUs."""

from __future__ import annotations

from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.part import Part
from tracetui.analysis.steps.scope import slices_of
from tracetui.trace import Kind
from tracetui.trace.slices import Slices, joined

_FORWARD = "DataParallel.forward"
_BACKWARD = "ReduceAddCoalesced"


def data_parallel_calls(part: Part) -> Slices:
    """The forward passes of DataParallel on several GPUs."""
    calls = joined(*(slices_of(part, kind, _FORWARD.__eq__) for kind in (Kind.ANNOTATION, Kind.CPU_OP)))
    return calls if len(gaps_of(part).devices) > 1 else calls[:0]


def trains_data_parallel(part: Part) -> bool:
    """Whether it adds up gradients, too."""
    return len(slices_of(part, Kind.CPU_OP, _BACKWARD.__eq__)) > 0
