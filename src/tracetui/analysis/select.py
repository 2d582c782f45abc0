"""Picking slices by kind and by name."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tracetui.trace import Kind, Trace
from tracetui.trace.model import I32, I64, Bool


def named(trace: Trace, wanted: Callable[[str], bool]) -> Bool:
    """Mask over `trace.names`."""
    return np.fromiter(map(wanted, trace.names), np.bool_, len(trace.names))


def pick(trace: Trace, at: I64, wanted: Callable[[str], bool]) -> I64:
    """Those of the slices `at` whose name is wanted. Looks at their names only, each once."""
    names = trace.name[at]
    mask = np.zeros(len(trace.names), dtype=np.bool_)
    for i in distinct(names, len(mask)).tolist():
        mask[i] = wanted(trace.names[i])
    return at[mask[names]]


def distinct(at: I64 | I32, size: int) -> I64:
    """The distinct values of `at`, in order; all are in [0, size). `np.unique` takes fifty times as long."""
    there = np.zeros(size, dtype=np.bool_)
    there[at] = True
    return np.flatnonzero(there)


def plausible(trace: Trace, *kinds: Kind) -> I64:
    """The slices of these kinds that are not `Trace.implausible`."""
    return np.flatnonzero(trace.is_kind(*kinds) & ~trace.implausible)
