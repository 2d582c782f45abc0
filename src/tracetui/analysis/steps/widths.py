"""How long steps take the CPU by themselves."""

from __future__ import annotations

import numpy as np

from tracetui.analysis.idle.gaps import busy_union
from tracetui.analysis.idle.initialisation import profilers_work, queue_full
from tracetui.analysis.part import Part
from tracetui.analysis.steps.scope import StepTable
from tracetui.core.columns import unique
from tracetui.trace.model import I64


def own_widths(part: Part, steps: StepTable) -> I64:
    """Each step's time on the CPU, without the profiler's work and waiting for a place in the queue, ns."""
    trace = part.trace
    not_its_own = busy_union(trace, unique(profilers_work(trace), queue_full(trace)))
    return np.asarray(steps.end - steps.start - not_its_own.within(steps.start, steps.end), dtype=np.int64)
