"""Pairs the begins and ends of slices.

An end closes the slice of its track that began last: the format says so, once all is in order of time. But
PyTorch's Cuspy writes a list of begins and then the list of their ends, in the same order and not in that of
time. Such a file says itself which end belongs to which begin, where times alone would leave it open: slices
that touch, or cross.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from tracetui.core.columns import I32, I64, NO_TIME, Array, Bool


def pair(slices: dict[str, Array], ends: dict[str, Array], track_of: I32, tracks: int) -> int:
    """Give the begins, which are the slices of the duration NO_TIME, their durations; `row` of an end becomes
    its slice, -1 for none. How many ends have none.

    `track_of`: by head. The rows of begins and ends are in the order of the file.
    """
    begins = np.flatnonzero(slices["duration"] == NO_TIME)
    count = len(begins)
    track = track_of[np.concatenate((slices["head"][begins], ends["head"]))]
    start = np.concatenate((slices["start"][begins], ends["start"]))
    place = np.concatenate((2 * begins + 1, 2 * ends["row"].astype(np.int64)))
    is_end = np.arange(len(place)) >= count
    partner = np.full(len(place), -1, dtype=np.int64)
    order = np.lexsort((place, track))
    firsts = np.searchsorted(track[order], np.arange(tracks + 1))
    groups = [order[a:b] for a, b in pairwise(firsts.tolist()) if b > a]
    listed = any(_is_listed(start[some], is_end[some]) for some in groups)
    unopened = 0
    for some in groups:
        first, last = some[~is_end[some]], some[is_end[some]]
        if listed and len(first) == len(last) and (start[last] >= start[first]).all():
            partner[first], partner[last] = last, first
            continue
        unopened += _pair_nested(some[np.argsort(start[some], kind="stable")], is_end, partner)
    paired = np.flatnonzero(partner[:count] >= 0)
    slices["duration"][begins[paired]] = start[partner[paired]] - start[paired]
    mine = partner[count:]
    ends["row"][:] = np.where(mine >= 0, begins[mine] if count else -1, -1)
    return unopened


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
