"""Work that is new or gone because a run of equal blocks is longer or shorter: one layer more."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from tracetui.compare.changes import Block, Change
from tracetui.compare.match import Matches
from tracetui.compare.sides import Side
from tracetui.trace.model import I32, I64

SMALLEST = 4
"""The fewest events in a block: fewer that repeat are not a part of a program that has a name."""
CHECKED = 8
"""The most places that are looked at: a change is the same in all of them."""


def longer_run(sides: tuple[Side, Side], work: Matches, change: Change) -> Block | None:
    """The block that a change repeats more or fewer times than the other side. None if the change is not of
    this kind, or the block is not the same in all places."""
    new = change.kind == "new"
    part = change.b if new else change.a
    ends = [0, *(end[new] for end in change.ends[:CHECKED])]
    if ends[1] < SMALLEST:
        return None
    found = None
    for low, high in pairwise(ends):
        run = _run(sides, work, new, np.array(part.events[low:high], dtype=np.int64))
        if run is None or found not in (None, run):
            return None
        found = run
    if found is None:
        return None
    size, more, fewer = found
    return Block(size, (fewer, more) if new else (more, fewer))


def _run(sides: tuple[Side, Side], work: Matches, new: bool, own: I64) -> tuple[int, int, int] | None:
    """(size of the block, times on the side that has more, on the other). `own`: the events of a place."""
    other, side = sides if new else sides[::-1]
    trace, count = side.trace, len(own)
    name = trace.name[own]
    sizes = (size for size in range(SMALLEST, count + 1) if not count % size)
    # At most the length of the run itself.
    size = next(size for size in sizes if np.array_equal(name[size:], name[: count - size]))
    if not _goes_on(side.work, trace.name, own, size):
        return None
    mine = side.work[trace.lane[side.work] == trace.lane[own[0]]]
    mine = mine[side.round_of(mine) == side.round_of(own[:1])]
    at, name = int(np.searchsorted(mine, own[0])), trace.name[mine]
    if not np.array_equal(mine[at : at + count], own):
        return None
    before = np.flatnonzero(name[:at] != name[size : at + size])
    low = int(before[-1]) + 1 if len(before) else 0
    after = np.flatnonzero(name[at + count :] != name[at + count - size : len(name) - size])
    high = at + count + (int(after[0]) if len(after) else len(name) - at - count)
    # The rest of the run must also be a run on the other side.
    beside = np.concatenate([mine[low:at], mine[at + count : high]])
    rest = work.links(len(trace), back=new)[beside]
    if len(rest) < size or (rest < 0).any() or (np.diff(np.searchsorted(other.work, rest)) != 1).any():
        return None
    return size, (high - low) // size, len(rest) // size


def _goes_on(work: I64, names: I32, own: I64, size: int) -> bool:
    """Whether the event before or after a place can belong to the same run: a quick check."""
    at = int(np.searchsorted(work, own[0]))
    before, after = work[max(at - 1, 0) : at], work[at + len(own) : at + len(own) + 1]
    # The last event of the block before, and the first of the block after.
    return any(names[i] == names[own[size - 1]] for i in before) or any(
        names[i] == names[own[0]] for i in after
    )
