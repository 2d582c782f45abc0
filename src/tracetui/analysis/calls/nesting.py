"""The parents of many intervals, even if some overlap without nesting."""

from __future__ import annotations

import numpy as np

from tracetui.trace.model import I32, I64, Bool


def order_by_time(group: I32, start: I64, end: I64) -> I64:
    """Indices that sort by (group, start, longest first), stable. Fast for input that is nearly sorted."""
    n = len(start)
    if n < 2:
        return np.arange(n)
    same = group[1:] == group[:-1]
    later = (start[1:] > start[:-1]) | ((start[1:] == start[:-1]) & (end[1:] <= end[:-1]))
    if bool(np.all((group[1:] > group[:-1]) | (same & later))):
        return np.arange(n)
    # Two stable sorts of presorted runs (a merge each) cost a fraction of np.lexsort over three keys.
    by_start = np.argsort(start, kind="stable")
    order = by_start[np.argsort(group[by_start], kind="stable")]
    g, s, e = group[order], start[order], end[order]
    tied = (g[1:] == g[:-1]) & (s[1:] == s[:-1])
    if bool(np.any(tied & (e[1:] > e[:-1]))):
        member = np.zeros(n, dtype=np.bool_)
        member[1:] |= tied
        member[:-1] |= tied
        at = np.flatnonzero(member)
        order[at] = order[at][np.lexsort((-e[at], s[at], g[at]))]
    return order


UNKNOWN = -2
"""A parent that is not known yet."""


def parents(group: I32, start: I64, end: I64, known: I64 | None = None) -> I64:
    """The nearest earlier interval of the same group that contains each one, or -1.

    The input must be sorted by (group, start, longest first): see `order_by_time`. B is in A where
    A.start <= B.start < A.end and B.end <= A.end, the rule of torch.autograd.profiler_util.EventList; the
    result equals that of its stack of intervals, without a Python loop over them. `known`: results at
    hand, `UNKNOWN` for the others.
    Shapes (n,), int64 nanoseconds; the result has dtype int64.
    """
    n = len(start)
    candidate = np.arange(-1, n - 1)
    if not n:
        return candidate
    candidate[np.flatnonzero(group[1:] != group[:-1]) + 1] = -1
    if known is None:
        active = np.flatnonzero(candidate >= 0)
    else:
        active = np.flatnonzero((known == UNKNOWN) & (candidate >= 0))
        candidate = np.where(known == UNKNOWN, candidate, known)
    if not len(active):
        return candidate
    # An interval of zero length also needs a parent that ends after its start.
    need = np.maximum(end, start + 1)
    active = active[end[candidate[active]] < need[active]]
    # All intervals between i and its candidate end too early. If the candidate does too, so do all between it
    # and *its* candidate: jump there. Each round about doubles the number of siblings that a jump skips.
    while len(active):
        jumped = candidate[candidate[active]]
        candidate[active] = jumped
        alive = jumped >= 0
        active, jumped = active[alive], jumped[alive]
        active = active[end[jumped] < need[active]]
    return candidate


def top_of(parent: I64, marked: Bool) -> I64:
    """For each i, the first of i, parent[i], parent[parent[i]], ... that is not marked (-1 beyond a root)."""
    top = np.where(marked, parent, np.arange(len(parent)))
    active = np.flatnonzero(marked & (top >= 0))
    while len(active):
        # Each round doubles how far the rest have come.
        up = top[top[active]]
        moved = up != top[active]
        top[active] = up
        active = active[moved & (up >= 0)]
    return top
