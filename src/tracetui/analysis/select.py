"""Picking slices by kind and by name."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from tracetui.core.columns import distinct
from tracetui.core.threads import map_blocks
from tracetui.trace import DEVICE_WORK, Kind, Trace
from tracetui.trace.indices import index_of
from tracetui.trace.model import I64, Bool, cached_on_trace

_FEW = 8
"""If there are this many times more slices in total, looking at all of them is slower than sorting the wanted
ones."""

_ANNOTATION = re.compile(r"enumerate\(DataLoader\)#|Optimizer\.|ProfilerStep#|## ")
"""Annotations that old traces record as operators."""
OLD_OPERATOR = "Operator"
"""The category of both in those traces."""
_OLD_OP = re.compile(r"::|Backward|^detach_?$")

_VIEWS = """
    _unsafe_view alias as_strided chunk detach diagonal expand expand_as flatten lift_fresh movedim narrow
    numpy_T permute reshape select slice split squeeze swapaxes t transpose unbind unflatten unfold unsqueeze
    view view_as
"""
METADATA_OPS = frozenset(f"aten::{name}" for name in _VIEWS.split())
"""Operators that make a new view of a tensor's memory: no kernel, as long as none of them has to copy."""


def name_mask(trace: Trace, wanted: Callable[[str], object], kind: Kind | None = None) -> Bool:
    """Mask over `trace.names`: those that pass a test, such as a pattern's `match`; with a kind, only its
    slices'."""
    if kind is not None:
        key, mask = f"named {kind}", np.zeros(len(trace.names), dtype=np.bool_)
        if key not in trace.derived:
            trace.derived[key] = distinct(trace.name[trace.kind == int(kind)], len(mask)).tolist()
        mask[[i for i in trace.derived[key] if wanted(trace.names[i])]] = True
        return mask
    return np.fromiter(map(wanted, trace.names), np.bool_, len(trace.names))


def is_op_name(name: str) -> bool:
    """Whether the name of an event recorded as an operator is that of an operator, not of an annotation."""
    return _ANNOTATION.match(name) is None


@cached_on_trace
def op_names(trace: Trace) -> Bool:
    """Mask over `trace.names`: those of operators. Old traces record annotations as operators: there, only
    names that look like operators count."""
    names = name_mask(trace, is_op_name, Kind.CPU_OP)
    # PyTorch's EventList has no categories at all; until 1.7 its ops had no namespace either.
    listed = "" in trace.categories and any(name.startswith("aten::") for name in trace.names)
    if listed:
        of_none = trace.category == trace.categories.index("")
        listed = bool((of_none & (trace.kind == int(Kind.CPU_OP))).any())
    if OLD_OPERATOR in trace.categories or listed:
        names &= name_mask(trace, _OLD_OP.search, Kind.CPU_OP)
    return names


def filter_by_name(trace: Trace, at: I64, wanted: Callable[[str], object]) -> I64:
    """The slices of `at` whose name is wanted. Checks each distinct name once."""
    names = trace.name[at]
    mask = np.zeros(len(trace.names), dtype=np.bool_)
    for i in distinct(names, len(mask)).tolist():
        mask[i] = wanted(trace.names[i])
    return at[mask[names]]


def names_of(trace: Trace, at: I64) -> list[str]:
    """The names of the slices `at`, each once."""
    return [trace.names[i] for i in distinct(trace.name[at], len(trace.names)).tolist()]


def processes_of(trace: Trace, at: I64) -> int:
    """The number of processes that the slices belong to."""
    return len({trace.lanes[i].process for i in np.unique(trace.lane[at]).tolist()})


def has_kind(trace: Trace, *kinds: Kind) -> bool:
    """Whether the trace has any slice of these kinds."""
    return not _kinds(trace).isdisjoint(kinds)


@cached_on_trace
def _kinds(trace: Trace) -> frozenset[int]:
    return frozenset(distinct(trace.kind, len(Kind)).tolist())


def plausible(trace: Trace, *kinds: Kind) -> I64:
    """The slices of these kinds that are not `Trace.implausible`. For a single kind, and for `DEVICE_WORK`,
    computed once: read-only."""
    if len(kinds) != 1 and kinds != DEVICE_WORK:
        return np.flatnonzero(trace.is_kind(*kinds) & ~trace.implausible)
    key = f"plausible {kinds}"
    if key not in trace.derived:

        def look(part: slice) -> I64:
            wanted = np.logical_or.reduce([trace.kind[part] == int(kind) for kind in kinds])
            at: I64 = np.flatnonzero(wanted & ~trace.implausible[part]) + part.start
            return at

        made = np.concatenate([np.zeros(0, np.int64), *map_blocks(len(trace), look)])
        made.flags.writeable = False
        trace.derived[key] = made
    found: I64 = trace.derived[key]
    return found


def slices_named(trace: Trace, wanted: Callable[[str], object], kind: Kind | None = None) -> I64:
    """The slices whose name is wanted, in order; with a kind, only the plausible ones of that kind. Looks at
    no others."""
    key = f"names {kind}"
    if key not in trace.derived:
        every = np.arange(len(trace.names))
        trace.derived[key] = (
            every if kind is None else distinct(trace.name[plausible(trace, kind)], len(every))
        ).tolist()
    names = np.array([i for i in trace.derived[key] if wanted(trace.names[i])], dtype=np.int64)
    if kind is not None and len(names) == len(trace.derived[key]):
        return plausible(trace, kind)
    index = index_of(trace, "name")
    if kind is not None and len(every := plausible(trace, kind)) < _FEW * index.count(names):
        mask = np.zeros(len(trace.names), dtype=np.bool_)
        mask[names] = True
        return every[mask[trace.name[every]]]
    found = index.each(names).astype(np.int64)
    if kind is not None:
        found = found[(trace.kind[found] == int(kind)) & ~trace.implausible[found]]
    found.sort()
    return found


def largest(values: I64, count: int) -> I64:
    """The positions of the largest values, the largest first: of equal ones the first."""
    if len(values) > count:
        at = np.flatnonzero(values >= np.partition(values, len(values) - count)[len(values) - count])
        return at[np.argsort(-values[at], kind="stable")][:count]
    return np.argsort(-values, kind="stable")
