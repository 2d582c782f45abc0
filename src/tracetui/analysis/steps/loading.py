"""Waits for the next batch of a `DataLoader`."""

from __future__ import annotations

import numpy as np

from tracetui.analysis.idle.gaps import busy_union
from tracetui.analysis.results import Results
from tracetui.trace import Kind
from tracetui.trace.intervals import Union
from tracetui.trace.model import I64


def loader_calls(results: Results) -> I64:
    """The waits for the next batch of a `DataLoader` (slices)."""
    # Old traces give them the category of an op.
    kinds = (Kind.ANNOTATION, Kind.CPU_OP)
    return np.sort(np.concatenate([results.slices(kind, is_loader) for kind in kinds]))


def loading_time(results: Results) -> Union:
    """While the program waits for a `DataLoader`, in all of the trace."""
    whole = results.whole
    return whole.kept("loading", lambda: busy_union(whole.trace, loader_calls(whole)))


def is_loader(name: str) -> bool:
    """Whether an annotation of this name is such a wait."""
    return name.startswith("enumerate(DataLoader)#")
