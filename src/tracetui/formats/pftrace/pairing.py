"""Pairs the begins and ends of slices.

An end closes the slice of its track that began last: the format says so, once all is in order of time. But
PyTorch's Cuspy writes a list of begins and then the list of their ends, in the same order and not in that of
time. Such a file says itself which end belongs to which begin, where times alone would leave it open: slices
that touch, or cross.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from tracetui.core.columns import I32, I64, Bool


def pair(track: I32, start: I64, place: I64, is_end: Bool, tracks: int) -> tuple[I64, int]:
    """(for each event the index of its partner, -1 for none; how many ends have none).

    Events of one kind are in order of `place`, which is where they are in the file.
    """
    partner = np.full(len(track), -1, dtype=np.int64)
    order = np.lexsort((place, track))
    firsts = np.searchsorted(track[order], np.arange(tracks + 1))
    groups = [order[a:b] for a, b in pairwise(firsts.tolist()) if b > a]
    listed = any(_is_listed(start[some], is_end[some]) for some in groups)
    unopened = 0
    for some in groups:
        begins, ends = some[~is_end[some]], some[is_end[some]]
        if listed and len(begins) == len(ends) and (start[ends] >= start[begins]).all():
            partner[begins], partner[ends] = ends, begins
            continue
        unopened += _pair_nested(some[np.argsort(start[some], kind="stable")], is_end, partner)
    return partner, unopened


def _is_listed(start: I64, is_end: Bool) -> bool:
    """Whether each run of begins is followed by as many ends, none before its begin, and some run of ends
    goes back in time: no writer of nested slices does that."""
    count = len(is_end)
    if 2 * int(is_end.sum()) != count or is_end[0] or not is_end[-1]:
        return False
    edges = np.flatnonzero(np.diff(is_end.astype(np.int8))) + 1
    bounds = np.concatenate(([0], edges, [count]))
    lengths = np.diff(bounds)
    if not (lengths[::2] == lengths[1::2]).all():
        return False
    begins, ends = start[~is_end], start[is_end]
    if (ends < begins).any():
        return False
    back = np.diff(ends) < 0
    back[np.cumsum(lengths[1::2])[:-1] - 1] = False
    return bool(back.any())


def _pair_nested(order: I64, is_end: Bool, partner: I64) -> int:
    stack: list[int] = []
    unopened = 0
    for at, end in zip(order.tolist(), is_end[order].tolist(), strict=True):
        if not end:
            stack.append(at)
        elif stack:
            begin = stack.pop()
            partner[begin], partner[at] = at, begin
        else:
            unopened += 1
    return unopened
